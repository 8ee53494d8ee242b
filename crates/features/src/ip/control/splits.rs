//! Port splits, each once however many routes have it.

use super::route::{Path, Via};
use crate::port_split::{PortRange, PortSet, PortSplit, WithoutPeer};
use graph::IfIndex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Which packets to a destination go which way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitRule {
    /// The ports; they don't overlap.
    pub ports: Arc<[PortRange]>,
    /// Where packets to these ports go: to a neighbour or out by an interface. `None`: nowhere at present.
    pub matching: Option<Via>,
    /// Where all others go, likewise.
    pub others: Via,
    /// What becomes of packets to these ports while nobody is there to take them.
    pub without_peer: WithoutPeer,
}

impl SplitRule {
    /// Both ways: that of all others first.
    pub(super) fn ways(&self) -> impl Iterator<Item = Via> {
        core::iter::once(self.others).chain(self.matching)
    }
}

/// Number of a rule.
pub(super) type RuleId = u32;

/// All rules, with what workers remember for them.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Vec<Option<Entry>>,
    index: HashMap<SplitRule, RuleId>,
    /// Interfaces of rules have come or gone since this was asked last.
    changed: bool,
}

#[derive(Debug)]
struct Entry {
    rule: SplitRule,
    split: Arc<PortSplit>,
    /// Path sets that lead there.
    uses: u32,
}

impl Rules {
    /// The number of a rule. One that is new stays until [`Rules::drop_unused`] unless it is [used](Self::acquire).
    pub(super) fn number(&mut self, rule: &SplitRule) -> Result<RuleId, &'static str> {
        if let Some(id) = self.index.get(rule) {
            return Ok(*id);
        }
        let ports = PortSet::new(&rule.ports).map_err(|_| "ranges of ports overlap")?;
        let split = PortSplit::new(ports, rule.without_peer).ok_or("there is no memory for its flows")?;
        let id = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        if id == self.list.len() {
            self.list.push(None);
        }
        self.list[id] = Some(Entry { rule: rule.clone(), split: Arc::new(split), uses: 0 });
        self.index.insert(rule.clone(), id as RuleId);
        Ok(id as RuleId)
    }

    fn entry(&self, id: RuleId) -> Option<&Entry> {
        self.list.get(id as usize)?.as_ref()
    }

    /// A rule.
    pub(super) fn get(&self, id: RuleId) -> Option<&SplitRule> {
        Some(&self.entry(id)?.rule)
    }

    /// What workers have of a rule.
    pub(super) fn split(&self, id: RuleId) -> Option<Arc<PortSplit>> {
        Some(Arc::clone(&self.entry(id)?.split))
    }

    /// One more path set leads there.
    pub(super) fn acquire(&mut self, id: RuleId) {
        if let Some(Some(entry)) = self.list.get_mut(id as usize) {
            entry.uses += 1;
            self.changed = true;
        }
    }

    /// One less does.
    pub(super) fn release(&mut self, id: RuleId) {
        if let Some(Some(entry)) = self.list.get_mut(id as usize) {
            entry.uses = entry.uses.saturating_sub(1);
        }
        self.drop_unused(id);
    }

    /// Forgets a rule that nothing leads to.
    pub(super) fn drop_unused(&mut self, id: RuleId) {
        let Some(slot) = self.list.get_mut(id as usize) else { return };
        if let Some(entry) = slot.take_if(|entry| entry.uses == 0) {
            self.index.remove(&entry.rule);
            self.changed = true;
        }
    }

    /// Interfaces that rules lead to by themselves.
    pub(super) fn interfaces(&self) -> BTreeSet<IfIndex> {
        let ways = self.list.iter().flatten().flat_map(|entry| entry.rule.ways());
        ways.filter_map(|via| match via {
            Via::Interface(interface) | Via::Address { interface: Some(interface), .. } => Some(interface),
            _ => None,
        })
        .collect()
    }

    /// Whether [`Rules::interfaces`] may have changed since this was asked last.
    pub(super) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }
}

/// The rule that paths lead to, where they are a port split.
pub(super) fn rule_of(paths: &[Path]) -> Option<RuleId> {
    match paths {
        [Path { via: Via::PortSplit(id), .. }] => Some(*id),
        _ => None,
    }
}
