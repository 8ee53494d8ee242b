//! Prefixes of IPv6 that are exchanged for others (NPTv6, RFC 6296): each address inside is one outside, and no checksum over it changes.

use std::sync::Arc;
use tables::session::Endpoint;

/// Words of 16 bits in an address.
const WORDS: usize = 8;
/// Bits of the longest prefix that leaves the fourth word, that of subnets, to be adjusted.
const SITE: u8 = 48;
/// The one representation of zero in one's complement arithmetic that isn't used (RFC 6296 section 3.2).
const MINUS_ZERO: u16 = 0xffff;

/// A prefix inside, and the one that it is seen with; of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixPair {
    /// First address inside, in host byte order.
    pub inside: u128,
    /// First address outside.
    pub outside: u128,
    /// Bits of both, at most 64.
    pub len: u8,
}

/// An address can't be exchanged so that its checksum stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmapped;

impl PrefixPair {
    fn mask(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.len)).unwrap_or(0)
    }

    fn is_inside(self, address: u128) -> bool {
        address & self.mask() == self.inside
    }

    fn is_outside(self, address: u128) -> bool {
        address & self.mask() == self.outside
    }

    /// Whether an address is in both of these prefixes' insides, or in both of their outsides.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let mask = self.mask() & other.mask();
        (self.inside ^ other.inside) & mask == 0 || (self.outside ^ other.outside) & mask == 0
    }

    /// An address of one side as the other has it: the prefix, and a word behind it that takes back what that does to the sum.
    fn exchanged(self, address: u128, from: u128, to: u128) -> Result<u128, Unmapped> {
        let plain = to | address & !self.mask();
        // Of a prefix of 48 bits or less, the word of subnets; else the first behind them that can be changed back (sections 3.4, 3.5).
        let first = if self.len <= SITE { 3 } else { 4 };
        let last = if self.len <= SITE { 3 } else { WORDS - 1 };
        let at = (first..=last).find(|at| word(address, *at) != MINUS_ZERO).ok_or(Unmapped)?;
        let sum = plus(plus(word(address, at), sum(from)), !sum(to));
        let sum = if sum == MINUS_ZERO { 0 } else { sum };
        let shift = 16 * (WORDS - 1 - at);
        Ok(plain & !(0xffff << shift) | u128::from(sum) << shift)
    }
}

fn word(address: u128, at: usize) -> u16 {
    (address >> (16 * (WORDS - 1 - at))) as u16
}

/// One's complement addition (RFC 1071).
const fn plus(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

fn sum(address: u128) -> u16 {
    (0..WORDS).fold(0, |all, at| plus(all, word(address, at)))
}

/// All of a pool's, both ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(Arc<[PrefixPair]>);

impl Prefixes {
    /// Of these, none of which overlap.
    #[must_use]
    pub fn new(pairs: &[PrefixPair]) -> Self {
        Self(pairs.into())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What an address inside is seen as; `None` where it is none of them.
    pub(super) fn outward(&self, address: u128) -> Option<Result<u128, Unmapped>> {
        let pair = self.0.iter().find(|pair| pair.is_inside(address))?;
        Some(pair.exchanged(address, pair.inside, pair.outside))
    }

    /// Who is meant outside by an address; likewise.
    pub(super) fn inward(&self, address: u128) -> Option<Result<u128, Unmapped>> {
        let pair = self.0.iter().find(|pair| pair.is_outside(address))?;
        Some(pair.exchanged(address, pair.outside, pair.inside))
    }

    /// The host that is meant by an endpoint outside, where there is one.
    pub(super) fn host(&self, (address, port): Endpoint) -> Option<Endpoint> {
        let core::net::IpAddr::V6(address) = address else { return None };
        let own = self.inward(address.to_bits())?.ok()?;
        Some((core::net::Ipv6Addr::from_bits(own).into(), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use proptest::prelude::*;

    fn bits(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    fn pair(inside: &str, outside: &str, len: u8) -> PrefixPair {
        PrefixPair { inside: bits(inside), outside: bits(outside), len }
    }

    /// RFC 6296 section 3.5 has its example in section 2.
    #[test]
    fn the_rfc_s_own_example() {
        let pair = pair("fd01:203:405::", "2001:db8:1::", 48);
        let prefixes = Prefixes::new(&[pair]);
        let (inside, outside) = (bits("fd01:203:405:1::1234"), bits("2001:db8:1:d550::1234"));
        assert_eq!(prefixes.outward(inside), Some(Ok(outside)));
        assert_eq!(prefixes.inward(outside), Some(Ok(inside)));
        assert_eq!(prefixes.outward(outside), None);
    }

    #[test]
    fn a_word_of_ones_is_not_changed() {
        let site = Prefixes::new(&[pair("fd01:203:405::", "2001:db8:1::", 48)]);
        assert_eq!(site.outward(bits("fd01:203:405:ffff::1")), Some(Err(Unmapped)));
        // Behind a longer prefix, the next word is.
        let longer = pair("fd01:203:405:7::", "2001:db8:1:9::", 64);
        let prefixes = Prefixes::new(&[longer]);
        for address in ["fd01:203:405:7::1", "fd01:203:405:7:ffff::1", "fd01:203:405:7:ffff:ffff:1:ffff"] {
            let seen = prefixes.outward(bits(address)).unwrap().unwrap();
            assert_eq!(
                (sum(seen), prefixes.inward(seen)),
                (sum(bits(address)), Some(Ok(bits(address)))),
                "{address}"
            );
        }
        let all = bits("fd01:203:405:7:ffff:ffff:ffff:ffff");
        assert_eq!(prefixes.outward(all), Some(Err(Unmapped)));
    }

    proptest! {
        /// Whatever the prefixes: sums stay, and the way back leads to the same address, but for the two zeros.
        #[test]
        fn no_checksum_changes_and_the_way_back_is_the_same(
            inside in any::<u128>(), outside in any::<u128>(), len in 1_u8..=64, host in any::<u128>(),
        ) {
            let mask = u128::MAX << (128 - len);
            let pair = PrefixPair { inside: inside & mask, outside: outside & mask, len };
            let prefixes = Prefixes::new(&[pair]);
            let address = pair.inside | host & !mask;
            if let Some(Ok(seen)) = prefixes.outward(address) {
                prop_assert_eq!(seen & mask, pair.outside);
                prop_assert_eq!(sum(seen) % MINUS_ZERO, sum(address) % MINUS_ZERO);
                prop_assert_eq!(prefixes.inward(seen), Some(Ok(address)));
            }
        }
    }
}
