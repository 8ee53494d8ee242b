//! The addresses that bridges know: ageing, forgetting, listing.

use crate::bridge::table::{BLOCKED, Bridges, tick};
use graph::IfIndex;
use tables::mac::MacTable;
use wire::MacAddr;

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind this member; behind the BVI: it is our own.
    Interface(IfIndex),
    /// Nowhere: frames to it are dropped.
    Blocked,
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

/// Forgets the addresses of a bridge, all or those behind one interface; with `fixed`, also those that are configured.
/// Gives their number.
pub fn forget(macs: &MacTable, number: u16, interface: Option<IfIndex>, fixed: bool) -> usize {
    macs.remove_if(|entry| {
        entry.key.bridge() == number
            && (fixed || !entry.is_static)
            && interface.is_none_or(|interface| entry.interface == u32::from(interface))
    })
}

/// The addresses of a bridge, in order. `now` is monotonic time in nanoseconds.
#[must_use]
pub fn addresses(macs: &MacTable, number: u16, now: u64) -> Vec<Address> {
    let now = tick(now);
    let known = macs.iter().filter(|entry| entry.key.bridge() == number);
    let mut list: Vec<Address> = known
        .map(|entry| Address {
            mac: MacAddr(entry.key.mac()),
            place: match entry.interface {
                BLOCKED => Place::Blocked,
                interface => Place::Interface(interface as IfIndex),
            },
            age: (!entry.is_static).then(|| entry.age(now)),
        })
        .collect();
    list.sort_by_key(|address| address.mac);
    list
}
