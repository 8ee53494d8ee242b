//! What workers know of bridges: a part of the tables.

use graph::IfIndex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::mac::MacTable;

/// The address table's "interface" for addresses whose frames are dropped; no [`IfIndex`] is that large.
pub const BLOCKED: u32 = MacTable::MAX_INTERFACE;

/// A member of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The interface.
    pub interface: IfIndex,
    /// Members of the same group don't reach each other; 0: no group.
    pub split_horizon_group: u8,
}

/// A bridge as nodes see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// There is a bridge of this number.
    pub exists: bool,
    /// Remember which member a source address came from.
    pub learn: bool,
    /// Send broadcast and multicast to all members.
    pub flood: bool,
    /// Send unicast with unknown destination to all members.
    pub flood_unknown_unicast: bool,
    /// Send unicast with known destination to its member.
    pub forward: bool,
    /// Answer ARP requests and neighbour solicitations for known neighbours of the BVI instead of flooding them.
    pub answer: bool,
    /// The routed leg; 0: none.
    pub bvi: IfIndex,
    /// All members, the BVI among them.
    pub members: Arc<[Member]>,
    /// Seconds after which a learned address that wasn't seen is forgotten; 0: never.
    pub mac_age: u16,
    /// Its name, for traces.
    pub name: Arc<str>,
    /// Addresses that moved from one member to another.
    pub moves: Moves,
}

/// A count that outlives the versions of the table: all clones count together. Workers add to it, seldom.
#[derive(Clone, Debug, Default)]
pub struct Moves(Arc<AtomicU64>);

impl Moves {
    /// One more.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Two are equal when they count together.
impl PartialEq for Moves {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Moves {}

/// All bridges, by number, and the address table that they share. Number 0 is never a bridge.
#[derive(Clone, Debug, Default)]
pub struct Bridges {
    list: Vec<Bridge>,
    none: Bridge,
    macs: Option<Arc<MacTable>>,
}

impl Bridges {
    /// No bridges yet, with this address table: it is changed in place, by the workers too, and stays the same through
    /// all versions of this part. Without one (the default) nothing is learned and all destinations are unknown.
    #[must_use]
    pub fn new(macs: Arc<MacTable>) -> Self {
        Self { macs: Some(macs), ..Self::default() }
    }

    /// The bridge of that number; one that doesn't exist where there is none.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, bridge: u16) -> &Bridge {
        self.list.get(bridge as usize).unwrap_or(&self.none)
    }

    /// Sets or, with `None`, removes a bridge.
    pub fn set(&mut self, number: u16, bridge: Option<Bridge>) {
        let at = number as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, Bridge::default);
        }
        self.list[at] = bridge.unwrap_or_default();
    }

    /// All that exist, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Bridge)> {
        self.list
            .iter()
            .enumerate()
            .filter(|(_, bridge)| bridge.exists)
            .map(|(at, bridge)| (at as u16, bridge))
    }

    /// The address table.
    #[must_use]
    #[inline(always)]
    pub fn macs(&self) -> Option<&MacTable> {
        self.macs.as_deref()
    }
}

/// The address table's clock: seconds, going round every 18 hours. From monotonic nanoseconds.
#[must_use]
#[inline]
pub const fn tick(now: u64) -> u16 {
    (now / 1_000_000_000) as u16
}
