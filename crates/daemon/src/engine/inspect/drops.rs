//! Why packets were dropped, by the interface that they came in by.

use api::v1::{DropCounter, DropSeverity};
use graph::Severity;
use graph::nodes::INTERFACE_OUTPUT;
use graph::plan::Plan;
use graph::port::IfIndex;

use super::super::start::Shared;
use super::baseline::Baseline;

/// What was dropped since counters were cleared, most frequent first. What interfaces don't account for comes without one.
pub(super) fn all(shared: &Shared) -> Vec<DropCounter> {
    let inventory = shared.directory.get();
    let baseline = shared.baseline();
    let mut list = Vec::new();
    let mut rest: Vec<u64> =
        (0..shared.plan.drops.len() as u16).map(|reason| baseline.drops(&shared.pool, reason)).collect();
    for (index, entry) in inventory.registry.iter() {
        let drops = baseline.drops_of(&shared.pool, index);
        // Behind the reasons stands what has none; there is nothing that could be said of it.
        for (reason, (packets, rest)) in drops.into_iter().zip(&mut rest).enumerate().filter(|(_, n)| n.0 > 0)
        {
            // Workers go on counting while this is read: an interface may be ahead of the sum.
            *rest = rest.saturating_sub(packets);
            list.push(counter(&shared.plan, reason, packets, entry.spec.name.to_string()));
        }
    }
    let rest = rest.into_iter().enumerate().filter(|(_, packets)| *packets > 0);
    list.extend(rest.map(|(reason, packets)| counter(&shared.plan, reason, packets, String::new())));
    list.sort_by_key(|counter| std::cmp::Reverse(counter.packets));
    list
}

fn counter(plan: &Plan, reason: usize, packets: u64, interface: String) -> DropCounter {
    let (node, spec) = &plan.drops[reason];
    DropCounter {
        node: plan.nodes[usize::from(*node)].spec.name.into(),
        reason: spec.name.into(),
        help: spec.help.into(),
        severity: severity(spec.severity).into(),
        packets,
        interface,
    }
}

/// Packets received by an interface that were malformed: dropped as such by whatever node, except on their way out.
pub(super) fn malformed(shared: &Shared, baseline: &Baseline, index: IfIndex) -> u64 {
    let drops = baseline.drops_of(&shared.pool, index);
    let received = drops.into_iter().zip(&shared.plan.drops).filter(|(_, (node, spec))| {
        let ends = shared.plan.nodes[usize::from(*node)].spec.ends;
        spec.severity == Severity::Invalid && !ends.contains(&INTERFACE_OUTPUT)
    });
    received.map(|(packets, _)| packets).sum()
}

fn severity(severity: Severity) -> DropSeverity {
    match severity {
        Severity::Info => DropSeverity::Info,
        Severity::Loss => DropSeverity::Loss,
        Severity::Invalid => DropSeverity::Invalid,
        Severity::Bug => DropSeverity::Bug,
    }
}
