//! The addresses that bridges know: ageing, forgetting, listing.

use super::BridgeConfig;
use crate::bridge::table::{BLOCKED, Bridges, tick};
use crate::interface::Interfaces;
use graph::IfIndex;
use std::collections::BTreeMap;
use tables::mac::{MacEntry, MacError, MacKey, MacTable};
use wire::MacAddr;

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind this member; behind the BVI: it is our own.
    Interface(IfIndex),
    /// Nowhere: frames to it are dropped.
    Blocked,
}

impl Place {
    /// From what the address table has.
    const fn of(interface: u32) -> Self {
        match interface {
            BLOCKED => Self::Blocked,
            interface => Self::Interface(interface as IfIndex),
        }
    }
}

/// An address that a bridge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub mac: MacAddr,
    /// Where it is.
    pub place: Place,
    /// Seconds since it was last seen; `None` for a fixed one.
    pub age: Option<u16>,
    /// The interface for which it is held: one that has tried to take it too often.
    pub contender: Option<IfIndex>,
}

/// Forgets what was learned longer ago than its bridge's `mac_age`, and what belongs to no bridge, in the next `buckets`
/// buckets of the address table; gives the number of addresses. `now` is monotonic time in nanoseconds.
///
/// Call it in such steps that the whole table ([`MacTable::buckets`]) is gone through every few seconds: that is how
/// much later than configured an address is forgotten.
pub fn age(bridges: &Bridges, now: u64, buckets: usize) -> usize {
    let Some(macs) = bridges.macs() else { return 0 };
    let now = tick(now);
    macs.sweep(buckets, |entry| {
        let bridge = bridges.get(entry.key.bridge());
        if !bridge.exists {
            return true;
        }
        !entry.is_static && bridge.mac_age != 0 && entry.age(now) > bridge.mac_age
    })
}

/// An address that is held from now on, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldAddress {
    /// Number of its bridge.
    pub bridge: u16,
    /// The address.
    pub mac: MacAddr,
    /// Where it is.
    pub place: Place,
    /// The interface that tried to take it last.
    pub contender: IfIndex,
    /// It is held from now on; else no longer.
    pub begins: bool,
}

/// Addresses that are held since they were last asked about, or no longer, in the next `buckets` buckets of the address table. `now` is
/// monotonic time in nanoseconds. To be called as [`age`] is.
#[must_use]
pub fn review_moves(bridges: &Bridges, now: u64, buckets: usize) -> Vec<HeldAddress> {
    let Some(macs) = bridges.macs() else { return Vec::new() };
    let all = macs.review_moves(tick(now), buckets).into_iter();
    all.map(|held| HeldAddress {
        bridge: held.entry.key.bridge(),
        mac: MacAddr(held.entry.key.mac()),
        place: Place::of(held.entry.interface),
        contender: held.contender as IfIndex,
        begins: held.begins,
    })
    .collect()
}

/// Forgets the addresses of a bridge, all or those behind one interface; with `fixed`, also those that are configured.
/// Gives their number.
pub fn forget(macs: &MacTable, number: u16, interface: Option<IfIndex>, fixed: bool) -> usize {
    macs.remove_if(|entry| {
        entry.key.bridge() == number
            && (fixed || !entry.is_static)
            && interface.is_none_or(|interface| entry.interface == u32::from(interface))
    })
}

/// What the address table may have of a bridge.
pub(super) struct Allowed {
    /// Fixed addresses.
    pub(super) fixed: Vec<(MacKey, u32)>,
    /// Interfaces at which addresses are learned, and how many at most.
    pub(super) learned_at: BTreeMap<u32, u32>,
    /// Addresses at most.
    pub(super) limit: u32,
}

impl Allowed {
    fn has(&self, entry: &MacEntry) -> bool {
        match entry.is_static {
            true => self.fixed.contains(&(entry.key, entry.interface)),
            false => self.learned_at.contains_key(&entry.interface),
        }
    }
}

/// Brings the address table in line with the configuration of bridges, all in one pass: fixed addresses (the BVI's among them), limits, and
/// nothing learned at interfaces that aren't members any more. To be called after the bridges as [built](BridgeConfig::build) were
/// published; the workers see each change at once. Gives the bridges whose fixed addresses found no room, and why; what fits is in the table.
pub fn set_addresses<'a>(
    macs: &MacTable,
    bridges: impl IntoIterator<Item = (u16, &'a BridgeConfig)>,
    interfaces: &Interfaces,
) -> Vec<(u16, MacError)> {
    let allowed = bridges.into_iter().map(|(number, config)| (number, config.allowed(number, interfaces)));
    let allowed: BTreeMap<u16, Allowed> = allowed.collect();
    if !allowed.is_empty() {
        macs.remove_if(|entry| allowed.get(&entry.key.bridge()).is_some_and(|bridge| !bridge.has(entry)));
    }
    let mut full = Vec::new();
    for (number, bridge) in &allowed {
        macs.set_limit(*number, Some(bridge.limit));
        for (interface, limit) in &bridge.learned_at {
            macs.set_member_limit(*interface, Some(*limit));
        }
        let fixed = bridge.fixed.iter().try_for_each(|(key, interface)| macs.insert_static(*key, *interface));
        full.extend(fixed.err().map(|error| (*number, error)));
    }
    full
}

/// The addresses of all bridges by their numbers, in order. `now` is monotonic time in nanoseconds.
#[must_use]
pub fn addresses(macs: &MacTable, now: u64) -> BTreeMap<u16, Vec<Address>> {
    let now = tick(now);
    let mut all = BTreeMap::<u16, Vec<Address>>::new();
    for entry in macs.iter() {
        all.entry(entry.key.bridge()).or_default().push(Address {
            mac: MacAddr(entry.key.mac()),
            place: Place::of(entry.interface),
            age: (!entry.is_static).then(|| entry.age(now)),
            contender: macs.contender(entry.key, now).map(|contender| contender as IfIndex),
        });
    }
    all.values_mut().for_each(|list| list.sort_by_key(|address| address.mac));
    all
}
