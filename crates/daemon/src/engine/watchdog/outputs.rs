//! Ports whose output threads are suspended or held up.

use std::collections::HashMap;
use std::time::Duration;

use graph::port::{Attachment, IfIndex};
use graph::worker::EventSender;

use super::super::start::Shared;
use super::owner::take_away;

/// Suspensions that were reported, by interface and attachment.
#[derive(Debug, Default)]
pub(super) struct Outputs(HashMap<IfIndex, Seen>);

#[derive(Debug)]
struct Seen {
    attachment: Option<Attachment>,
    suspensions: u64,
    taken_away: bool,
}

impl Outputs {
    /// Looks at all ports. One whose thread the kernel has held up for `patience` in one write is taken away.
    pub(super) fn look(&mut self, shared: &Shared, events: &EventSender, patience: Duration) {
        let inventory = shared.directory.get();
        self.0.retain(|index, _| inventory.registry.get(*index).is_some());
        for (index, entry) in inventory.registry.iter() {
            let Some(output) = entry.port.as_ref().and_then(|port| port.output.as_ref()) else { continue };
            let state = output.state();
            let (attachment, fresh) = (entry.attachment, Seen::of(entry.attachment));
            let seen = self.0.entry(index).or_insert(fresh);
            if seen.attachment != attachment {
                *seen = Seen::of(attachment);
            }
            if let Some(last) = state.last.filter(|_| state.suspensions > seen.suspensions) {
                tracing::warn!(
                    interface = %entry.spec.name, cost_ms = last.cost.as_secs_f64() * 1e3, pause_s = last.pause.as_secs_f64(),
                    "output suspended: the receive path behind the device takes too much processor time for one packet"
                );
            }
            seen.suspensions = state.suspensions;
            match state.held_up.filter(|held_up| *held_up >= patience) {
                Some(held_up) if !seen.taken_away => {
                    let held_up = held_up.as_secs_f64();
                    let reason =
                        format!("the kernel has been busy with one packet to its device for {held_up:.1} s");
                    seen.taken_away = take_away(shared, events, index, &reason);
                }
                Some(_) => {}
                None => seen.taken_away = false,
            }
        }
    }
}

impl Seen {
    const fn of(attachment: Option<Attachment>) -> Self {
        Self { attachment, suspensions: 0, taken_away: false }
    }
}
