//! Interfaces by name and by index.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use graph::port::{Attachment, IfIndex};
use ports::wrap::Damage;
use wire::MacAddr;

use super::port::OpenPort;
use crate::model::Name;
use crate::model::spec::InterfaceSpec;

/// An interface as the engine keeps it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// What it is.
    pub(super) spec: Arc<InterfaceSpec>,
    /// Its Ethernet address.
    pub(super) mac: MacAddr,
    /// Its port, while that is open.
    pub(super) port: Option<OpenPort>,
    /// The queues that workers have of it, or are about to get; none while it has none.
    pub(super) attachment: Option<Attachment>,
    /// What is done to its packets on purpose: queues that come with a link get it too.
    pub(super) damage: Damage,
    /// Times that the link came up.
    pub(super) link_ups: u64,
}

impl Entry {
    /// Whether its port takes (and brings in) super-frames and packets with unfinished checksums.
    pub(super) fn offloads(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.offload)
    }
}

/// All interfaces. An index stays with a name for as long as the interface exists, and then rests for a while before it is
/// given to another one: a packet on its way can't meet the wrong interface. It is given again then, and not when all others were
/// used: workers keep counters of each index that there ever was, and what is looked up by it has room for all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Registry {
    names: HashMap<Name, IfIndex>,
    entries: BTreeMap<IfIndex, Entry>,
    /// The highest that was ever given.
    last: IfIndex,
    /// Who was there, and since when it isn't any more, the first to go first.
    resting: VecDeque<(IfIndex, Instant)>,
}

/// Most interfaces.
const MAX: usize = 65_000;
/// How long an index rests: longer than packets wait for anything on their way.
const REST: Duration = Duration::from_secs(10);

impl Registry {
    /// An index for one more interface, which is its own as soon as it is inserted; `None` when there are too many.
    pub(super) fn vacant(&self, now: Instant) -> Option<IfIndex> {
        let (first, full) = (self.resting.front(), usize::from(self.last) >= MAX);
        match first {
            Some((index, since)) if full || now.saturating_duration_since(*since) >= REST => Some(*index),
            _ if full => None,
            _ => Some(self.last + 1),
        }
    }

    /// Adds an interface under an index that was vacant.
    pub(super) fn insert(&mut self, index: IfIndex, entry: Entry) {
        self.last = self.last.max(index);
        self.resting.pop_front_if(|(resting, _)| *resting == index);
        self.names.insert(entry.spec.name.clone(), index);
        self.entries.insert(index, entry);
    }

    /// Removes an interface.
    pub(super) fn remove(&mut self, index: IfIndex, now: Instant) -> Option<Entry> {
        let entry = self.entries.remove(&index)?;
        self.names.remove(&entry.spec.name);
        self.resting.push_back((index, now));
        Some(entry)
    }

    /// Index of the interface of that name.
    pub(super) fn index(&self, name: &Name) -> Option<IfIndex> {
        self.names.get(name).copied()
    }

    /// Index of the interface of that name, given as text.
    pub(super) fn find(&self, name: &str) -> Option<IfIndex> {
        self.entries.iter().find(|(_, entry)| entry.spec.name.to_string() == name).map(|(index, _)| *index)
    }

    /// The interface of that name: its index, and what it is.
    pub(super) fn named(&self, name: &Name) -> Option<(IfIndex, Arc<InterfaceSpec>)> {
        let index = self.index(name)?;
        Some((index, Arc::clone(&self.get(index)?.spec)))
    }

    /// The interface of that index.
    pub(super) fn get(&self, index: IfIndex) -> Option<&Entry> {
        self.entries.get(&index)
    }

    /// The interface of that index, to change.
    pub(super) fn get_mut(&mut self, index: IfIndex) -> Option<&mut Entry> {
        self.entries.get_mut(&index)
    }

    /// Name of the interface of that index, for people.
    pub(super) fn name(&self, index: IfIndex) -> String {
        self.get(index).map_or_else(|| format!("#{index}"), |entry| entry.spec.name.to_string())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IfIndex, &Entry)> {
        self.entries.iter().map(|(index, entry)| (*index, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::interface::Port;
    use api::v1::{Interface, Sink};

    fn entry(name: &str) -> Entry {
        let spec = InterfaceSpec::parse(&Interface {
            name: name.into(),
            port: Some(Port::Sink(Sink {})),
            ..Interface::default()
        });
        let (port, attachment, damage) = Default::default();
        Entry { spec: Arc::new(spec.unwrap()), mac: MacAddr::ZERO, port, attachment, damage, link_ups: 0 }
    }

    #[test]
    fn an_index_rests_and_is_given_again() {
        let (mut registry, start) = (Registry::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let add = |registry: &mut Registry, now| {
            let index = registry.vacant(now).unwrap();
            registry.insert(index, entry(&format!("p{index}")));
            index
        };
        // Who is refused has used none.
        assert_eq!((registry.vacant(at(0)), registry.vacant(at(0))), (Some(1), Some(1)));
        for (seconds, want) in [(0, 1), (1, 2), (2, 3)] {
            assert_eq!(add(&mut registry, at(seconds)), want);
        }
        registry.remove(2, at(10));
        registry.remove(1, at(11));
        assert!(registry.remove(1, at(11)).is_none());
        assert_eq!(add(&mut registry, at(19)), 4);
        for (seconds, want) in [(20, 2), (20, 5), (21, 1), (40, 6)] {
            assert_eq!(add(&mut registry, at(seconds)), want);
        }
        assert_eq!(registry.iter().map(|(index, _)| index).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn where_all_are_used_the_one_that_rests_longest_is_given() {
        let (mut registry, now) = (Registry::default(), Instant::now());
        for number in 1..=MAX {
            let index = registry.vacant(now).unwrap();
            assert_eq!(usize::from(index), number);
            registry.insert(index, entry(&number.to_string()));
        }
        assert_eq!(registry.vacant(now), None);
        for index in [7, 3] {
            registry.remove(index, now);
        }
        assert_eq!(registry.vacant(now), Some(7));
        registry.insert(7, entry("again"));
        assert_eq!(registry.vacant(now), Some(3));
    }
}
