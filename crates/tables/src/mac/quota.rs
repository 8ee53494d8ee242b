//! How many addresses a bridge and each of its members have, and may have.

use std::sync::atomic::{AtomicU32, Ordering};

use super::table::MacTable;

/// Words of a bridge: addresses, and their limit.
const BRIDGE: usize = 2;
/// Words of a member: learned addresses, their limit, and moves to it that were refused.
const MEMBER: usize = 3;
/// Words of all bridges, and of all members.
pub(super) const BRIDGES: usize = BRIDGE * (u16::MAX as usize + 1);
pub(super) const MEMBERS: usize = MEMBER * (u16::MAX as usize + 1);

/// A limit as it is stored: plus one, since zeroed memory is "no limit", and a limit of 0 forbids learning.
fn stored(limit: Option<u32>) -> u32 {
    limit.map_or(0, |limit| limit.saturating_add(1))
}

/// Adds one to `count` unless it has reached the stored `limit`.
fn add(count: &AtomicU32, limit: &AtomicU32) -> bool {
    let before = count.fetch_add(1, Ordering::Relaxed);
    let limit = limit.load(Ordering::Relaxed);
    if limit != 0 && before >= limit - 1 {
        count.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    true
}

impl MacTable {
    fn bridge(&self, bridge: u16) -> [&AtomicU32; BRIDGE] {
        [0, 1].map(|word| &self.bridges.as_slice()[usize::from(bridge) * BRIDGE + word])
    }

    /// The words of a member; `None` for a number that no interface has, which has no limit.
    fn member(&self, interface: u32) -> Option<[&AtomicU32; MEMBER]> {
        let interface = usize::from(u16::try_from(interface).ok()?);
        Some([0, 1, 2].map(|word| &self.members.as_slice()[interface * MEMBER + word]))
    }

    /// Number of entries of `bridge`.
    #[must_use]
    pub fn bridge_len(&self, bridge: u16) -> u32 {
        self.bridge(bridge)[0].load(Ordering::Relaxed)
    }

    /// Lets `bridge` learn only as long as it has fewer than `limit` entries (static ones count); `None`: no limit.
    /// Entries above a new limit stay until they age.
    pub fn set_limit(&self, bridge: u16, limit: Option<u32>) {
        self.bridge(bridge)[1].store(stored(limit), Ordering::Relaxed);
    }

    /// Number of addresses learned at `interface`.
    #[must_use]
    pub fn member_len(&self, interface: u32) -> u32 {
        self.member(interface).map_or(0, |[count, ..]| count.load(Ordering::Relaxed))
    }

    /// Limits addresses learned at `interface`, which is below 65 536; `None`: no limit. Entries above a new limit stay until they age.
    pub fn set_member_limit(&self, interface: u32, limit: Option<u32>) {
        if let Some([_, word, _]) = self.member(interface) {
            word.store(stored(limit), Ordering::Relaxed);
        }
    }

    /// Frames from `interface` that didn't take a held address, since start.
    #[must_use]
    pub fn refused_moves(&self, interface: u32) -> u32 {
        self.member(interface).map_or(0, |[.., refused]| refused.load(Ordering::Relaxed))
    }

    pub(super) fn count_refused(&self, interface: u32) {
        if let Some([.., refused]) = self.member(interface) {
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an entry that is about to be added; not if the limit forbids it.
    pub(super) fn count(&self, bridge: u16, is_static: bool) -> bool {
        let [count, limit] = self.bridge(bridge);
        let added =
            if is_static { count.fetch_add(1, Ordering::Relaxed) < u32::MAX } else { add(count, limit) };
        if added {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        added
    }

    pub(super) fn uncount(&self, bridge: u16) {
        self.bridge(bridge)[0].fetch_sub(1, Ordering::Relaxed);
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an address that is about to be learned at `interface`; not if its limit forbids it.
    pub(super) fn count_learned(&self, interface: u32) -> bool {
        self.member(interface).is_none_or(|[count, limit, _]| add(count, limit))
    }

    pub(super) fn uncount_learned(&self, interface: u32) {
        if let Some([count, ..]) = self.member(interface) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
