//! Keys and values, each packed into one atomic word.

use std::fmt;

/// A MAC address on a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacKey(u64);

impl MacKey {
    /// No address on no bridge.
    pub const NONE: Self = Self(0);
    /// The group of all stations, on the last bridge there can be: no station's address.
    pub const ALL: Self = Self(u64::MAX);

    /// The address `mac` (in the order of the wire) on `bridge`.
    #[inline(always)]
    #[must_use]
    pub fn new(bridge: u16, mac: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = mac;
        Self(u64::from(bridge) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The bridge.
    #[inline(always)]
    #[must_use]
    pub fn bridge(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The address, in the order of the wire.
    #[must_use]
    pub fn mac(self) -> [u8; 6] {
        let [_, _, mac @ ..] = self.0.to_be_bytes();
        mac
    }

    #[inline(always)]
    pub(super) fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MacKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.mac();
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} on bridge {}", self.bridge())
    }
}

/// An entry as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacEntry {
    /// Bridge and address.
    pub key: MacKey,
    /// Where the address is.
    pub interface: u32,
    /// Tick at which the address was last seen; without meaning for a static entry.
    pub stamp: u16,
    /// Configured: neither moves nor ages.
    pub is_static: bool,
}

impl MacEntry {
    /// Ticks from when the address was last seen to `now`; 0 where a worker's clock is ahead. Ticks go round: what
    /// is longer ago than 32 767 of them can't be told from the future.
    #[inline(always)]
    #[must_use]
    pub fn age(&self, now: u16) -> u16 {
        (now.wrapping_sub(self.stamp) as i16).max(0) as u16
    }
}

/// What a slot says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value(u64);

pub(super) const INTERFACE_BITS: u32 = 24;
const STAMP: u32 = 24;
const STATIC: u64 = 1 << 40;
const VALID: u64 = 1 << 41;
const BUSY: u64 = 1 << 42;
const VERSION: u32 = 43;

impl Value {
    #[inline(always)]
    pub(super) fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn is_valid(self) -> bool {
        self.0 & VALID != 0
    }

    /// Nobody's: neither valid nor being written.
    pub(super) fn is_empty(self) -> bool {
        self.0 & (VALID | BUSY) == 0
    }

    /// Valid both times, and the key the same all the while.
    #[inline(always)]
    pub(super) fn spans(self, later: Self) -> bool {
        self.is_valid() && later.is_valid() && self.0 >> VERSION == later.0 >> VERSION
    }

    #[inline(always)]
    pub(super) fn interface(self) -> u32 {
        self.0 as u32 & ((1 << INTERFACE_BITS) - 1)
    }

    pub(super) fn stamp(self) -> u16 {
        (self.0 >> STAMP) as u16
    }

    pub(super) fn is_static(self) -> bool {
        self.0 & STATIC != 0
    }

    /// Learned, at this interface (at most the greatest there is) and in this tick.
    #[inline(always)]
    pub(super) fn says(self, interface: u32, stamp: u16) -> bool {
        let expected = VALID | u64::from(stamp) << STAMP | u64::from(interface);
        self.0 & !(u64::MAX << VERSION) == expected
    }

    /// The slot taken for a new key: the only step to the next version.
    pub(super) fn claimed(self) -> Self {
        Self((self.0 >> VERSION).wrapping_add(1) << VERSION | BUSY)
    }

    /// Valid, of the same version.
    pub(super) fn set(self, interface: u32, stamp: u16, is_static: bool) -> Self {
        let flags = VALID | if is_static { STATIC } else { 0 };
        let interface = u64::from(interface) & ((1 << INTERFACE_BITS) - 1);
        Self(self.0 >> VERSION << VERSION | flags | u64::from(stamp) << STAMP | interface)
    }

    /// Empty, of the same version.
    pub(super) fn cleared(self) -> Self {
        Self(self.0 >> VERSION << VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_touch() {
        let key = MacKey::new(0xfffe, [0x02, 1, 2, 3, 4, 0xff]);
        assert_eq!((key.bridge(), key.mac()), (0xfffe, [0x02, 1, 2, 3, 4, 0xff]));
        assert_eq!(key.to_string(), "02:01:02:03:04:ff on bridge 65534");
        let mut value = Value::from_word(u64::MAX).cleared();
        assert!(value.is_empty());
        for _ in 0..3 {
            let claimed = value.claimed();
            assert!(!claimed.is_empty() && !claimed.is_valid());
            let set = claimed.set(0xff_ffff, 0xffff, false);
            assert_eq!((set.interface(), set.stamp(), set.is_static()), (0xff_ffff, 0xffff, false));
            let moved = set.set(0, 0, true);
            assert_eq!((moved.interface(), moved.stamp(), moved.is_static()), (0, 0, true));
            assert!(set.spans(moved) && !claimed.spans(set) && !set.spans(set.cleared()));
            let next = set.cleared().claimed().set(0xff_ffff, 0xffff, false);
            assert!(!set.spans(next), "another key");
            value = next.cleared();
        }
    }
}
