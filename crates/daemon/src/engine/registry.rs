//! Interfaces by name and by index.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

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

/// All interfaces. An index stays with a name for as long as the interface exists, and is not given to another one before
/// all others were used: a packet on its way can't meet the wrong interface.
#[derive(Debug, Clone, Default)]
pub(super) struct Registry {
    names: HashMap<Name, IfIndex>,
    entries: BTreeMap<IfIndex, Entry>,
    last: IfIndex,
}

/// Most interfaces.
const MAX: usize = 65_000;

impl Registry {
    /// An index for one more interface; `None` when there are too many.
    pub(super) fn reserve(&mut self) -> Option<IfIndex> {
        if self.entries.len() >= MAX {
            return None;
        }
        loop {
            self.last = if usize::from(self.last) >= MAX { 1 } else { self.last + 1 };
            if !self.entries.contains_key(&self.last) {
                return Some(self.last);
            }
        }
    }

    /// Adds an interface under an index that was reserved for it.
    pub(super) fn insert(&mut self, index: IfIndex, entry: Entry) {
        self.names.insert(entry.spec.name.clone(), index);
        self.entries.insert(index, entry);
    }

    /// Removes an interface.
    pub(super) fn remove(&mut self, index: IfIndex) -> Option<Entry> {
        let entry = self.entries.remove(&index)?;
        self.names.remove(&entry.spec.name);
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
