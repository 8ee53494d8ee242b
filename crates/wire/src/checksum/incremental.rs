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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1624 section 4: the case in which RFC 1141's equation gives 0xffff.
    #[test]
    fn rfc_1624_example() {
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn nothing_changed_changes_nothing() {
        for checksum in [0x0000, 0x0001, 0x1234, 0xfffe] {
            assert_eq!(update_u16(checksum, 0xabcd, 0xabcd), checksum);
        }
    }
}
