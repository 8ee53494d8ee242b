//! Changing a checksum together with the bytes it covers (RFC 1624).

use super::Partial;

/// The checksum after bytes that summed to `old` were replaced by bytes that sum to `new`: RFC 1624's
/// equation 3, `HC' = ~(~HC + ~m + m')`. Both sums must stand at the parity their bytes have in the packet
/// ([`Partial::at`]).
///
/// For UDP over IPv4, don't call it when the field is 0 (no checksum), and turn a result of 0 into 0xffff.
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: Partial, new: Partial) -> u16 {
    Partial::of_u16(!checksum).minus(old).plus(new).checksum()
}

/// [`update`] for one 16-bit field at an even offset.
#[inline]
#[must_use]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    update(checksum, Partial::of_u16(old), Partial::of_u16(new))
}

/// [`update`] for one 32-bit field at an even offset, such as an IPv4 address.
#[inline]
#[must_use]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    update(checksum, Partial::of_u32(old), Partial::of_u32(new))
}

/// What replacing some bytes by others does to every checksum that covers them: worked out once, and applied to many packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u16);

impl Delta {
    /// Of replacing bytes that sum to `old` by bytes that sum to `new`.
    #[inline]
    #[must_use]
    pub const fn between(old: Partial, new: Partial) -> Self {
        Self(new.minus(old).fold())
    }

    /// Of replacing them the other way round.
    #[inline(always)]
    #[must_use]
    pub const fn back(self) -> Self {
        Self(!self.0)
    }

    /// The checksum after that: [`update`], a few instructions. What it says of UDP holds here, too.
    #[inline(always)]
    #[must_use]
    pub const fn apply(self, checksum: u16) -> u16 {
        let sum = !checksum as u32 + self.0 as u32;
        !(sum as u16 + (sum >> 16) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1624 section 4: the case in which RFC 1141's equation gives 0xffff.
    #[test]
    fn rfc_1624_example() {
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn a_delta_does_what_an_update_does() {
        for (checksum, old, new) in
            [(0xdd2f, 0x5555, 0x3285), (0x0001, 0xffff, 0x0001), (0x1234, 7, 7), (0xfffe, 0x8000, 0x7fff)]
        {
            let delta = Delta::between(Partial::of_u16(old), Partial::of_u16(new));
            assert_eq!(delta.apply(checksum), update_u16(checksum, old, new));
            assert_eq!(delta.back().apply(delta.apply(checksum)), checksum);
        }
    }

    #[test]
    fn nothing_changed_changes_nothing() {
        for checksum in [0x0000, 0x0001, 0x1234, 0xfffe] {
            assert_eq!(update_u16(checksum, 0xabcd, 0xabcd), checksum);
        }
    }
}
