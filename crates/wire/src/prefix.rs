//! Address prefixes: an address whose bits beyond the length are zero, always.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// A text or a pair that is no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// No `/`, or what stands before it is no address. Remedy: write `10.0.0.0/8` or `2001:db8::/32`.
    NotAnAddress,
    /// What stands after `/` is no number, or more than the address has bits.
    BadLength {
        /// Bits of an address: 32 or 128.
        max: u8,
    },
    /// Bits beyond the length are set. Remedy: the network's address, or the full length for one host.
    HostBitsSet,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAddress => f.write_str("not a prefix: give address/length, as in 10.0.0.0/8"),
            Self::BadLength { max } => write!(f, "prefix length must be a number from 0 to {max}"),
            Self::HostBitsSet => {
                f.write_str("address has bits set beyond the prefix length: give the network's")
            }
        }
    }
}

impl core::error::Error for PrefixError {}

macro_rules! prefix {
    ($(#[$meta:meta])* $name:ident, $address:ty, $bits:ty) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            bits: $bits,
            len: u8,
        }

        impl $name {
            /// Bits of an address.
            pub const MAX_LEN: u8 = <$bits>::BITS as u8;

            /// Length 0: covers everything.
            pub const DEFAULT_ROUTE: Self = Self { bits: 0, len: 0 };

            /// The prefix of this length that covers `address`: bits beyond the length are cleared.
            ///
            /// # Errors
            /// [`PrefixError::BadLength`].
            pub const fn covering(address: $address, len: u8) -> Result<Self, PrefixError> {
                if len > Self::MAX_LEN {
                    return Err(PrefixError::BadLength { max: Self::MAX_LEN });
                }
                Ok(Self { bits: address.to_bits() & Self::mask(len), len })
            }

            /// The prefix `address/len`.
            ///
            /// # Errors
            /// [`PrefixError::BadLength`]; [`PrefixError::HostBitsSet`] when bits beyond the length are set.
            pub const fn new(address: $address, len: u8) -> Result<Self, PrefixError> {
                match Self::covering(address, len) {
                    Ok(prefix) if prefix.bits != address.to_bits() => Err(PrefixError::HostBitsSet),
                    result => result,
                }
            }

            /// The prefix that covers one address.
            #[must_use]
            pub const fn host(address: $address) -> Self {
                Self { bits: address.to_bits(), len: Self::MAX_LEN }
            }

            const fn mask(len: u8) -> $bits {
                // a shift by all bits is none at all, hence the check
                match <$bits>::MAX.checked_shl(Self::MAX_LEN as u32 - len as u32) {
                    Some(mask) => mask,
                    None => 0,
                }
            }

            /// First address.
            #[inline]
            #[must_use]
            pub const fn network(self) -> $address {
                <$address>::from_bits(self.bits)
            }

            /// First address as a number, first octet highest.
            #[inline]
            #[must_use]
            pub const fn bits(self) -> $bits {
                self.bits
            }

            /// Bits that count.
            #[inline]
            #[must_use]
            #[expect(clippy::len_without_is_empty, reason = "the length of a prefix, not of a container")]
            pub const fn len(self) -> u8 {
                self.len
            }

            /// Last address; IPv4's directed broadcast address where the length is below 31.
            #[must_use]
            pub const fn last(self) -> $address {
                <$address>::from_bits(self.bits | !Self::mask(self.len))
            }

            /// Whether `address` is in it.
            #[inline]
            #[must_use]
            pub const fn contains(self, address: $address) -> bool {
                address.to_bits() & Self::mask(self.len) == self.bits
            }

            /// Whether every address of `other` is in it.
            #[must_use]
            pub const fn covers(self, other: Self) -> bool {
                other.len >= self.len && self.contains(other.network())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.network(), self.len)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = PrefixError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let (address, len) = text.split_once('/').ok_or(PrefixError::NotAnAddress)?;
                let address = address.parse().map_err(|_| PrefixError::NotAnAddress)?;
                // u8's parser would take a sign
                let digits = !len.is_empty() && len.bytes().all(|digit| digit.is_ascii_digit());
                match len.parse() {
                    Ok(len) if digits => Self::new(address, len),
                    _ => Err(PrefixError::BadLength { max: Self::MAX_LEN }),
                }
            }
        }
    };
}

prefix! {
    /// An IPv4 prefix, e.g. `10.0.0.0/8`. Ordered by address, then length.
    Ipv4Prefix, Ipv4Addr, u32
}

prefix! {
    /// An IPv6 prefix, e.g. `2001:db8::/32`. Ordered by address, then length.
    Ipv6Prefix, Ipv6Addr, u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_goes_both_ways() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/32", "128.0.0.0/1"] {
            assert_eq!(text.parse::<Ipv4Prefix>().unwrap().to_string(), text);
        }
        for text in ["::/0", "2001:db8::/32", "fe80::1/128", "8000::/1"] {
            assert_eq!(text.parse::<Ipv6Prefix>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_texts() {
        let parse = |text: &str| text.parse::<Ipv4Prefix>().unwrap_err();
        for text in ["", "10.0.0.0", "10.0.0/8", "::/0", "/8"] {
            assert_eq!(parse(text), PrefixError::NotAnAddress, "{text}");
        }
        for text in ["10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0.0/256"]
        {
            assert_eq!(parse(text), PrefixError::BadLength { max: 32 }, "{text}");
        }
        assert_eq!(parse("10.0.0.1/8"), PrefixError::HostBitsSet);
        assert_eq!("::/129".parse::<Ipv6Prefix>(), Err(PrefixError::BadLength { max: 128 }));
    }

    #[test]
    fn what_is_inside() {
        let net: Ipv4Prefix = "10.1.0.0/16".parse().unwrap();
        assert!(net.contains(Ipv4Addr::new(10, 1, 255, 255)) && !net.contains(Ipv4Addr::new(10, 2, 0, 0)));
        assert_eq!(net.last(), Ipv4Addr::new(10, 1, 255, 255));
        assert!(net.covers("10.1.7.0/24".parse().unwrap()) && net.covers(net));
        assert!(!net.covers("10.0.0.0/8".parse().unwrap()));
        assert!(Ipv4Prefix::DEFAULT_ROUTE.contains(Ipv4Addr::BROADCAST));
        assert_eq!(Ipv4Prefix::covering(Ipv4Addr::new(10, 1, 2, 3), 16), Ok(net));
        assert_eq!(Ipv4Prefix::host(Ipv4Addr::LOCALHOST).to_string(), "127.0.0.1/32");
    }
}
