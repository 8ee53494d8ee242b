//! Addresses and ports of the clients: the number of a connection says which, and the other way round.

use super::address::Address;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// A rectangle of addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints<A = u32> {
    /// First address.
    pub address: A,
    /// Number of addresses.
    pub addresses: u32,
    /// First port.
    pub port: u16,
    /// Number of ports.
    pub ports: u32,
}

impl<A: Address> Endpoints<A> {
    /// Pairs of address and port.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.addresses as u64 * self.ports as u64
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pair number `n`: the address changes fastest.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, n: u32) -> (A, u16) {
        let (port, address) = (n / self.addresses, n % self.addresses);
        (self.address.plus(address), self.port.wrapping_add(port as u16))
    }

    /// The number of a pair; `None` where it isn't one of these.
    #[inline(always)]
    #[must_use]
    pub fn number(&self, address: A, port: u16) -> Option<u32> {
        let address = address.behind(self.address)?;
        let port = u32::from(port.wrapping_sub(self.port));
        (address < self.addresses && port < self.ports).then(|| port * self.addresses + address)
    }

    /// First and last address.
    #[must_use]
    pub fn address_range(&self) -> (A, A) {
        (self.address, self.address.plus(self.addresses - 1))
    }

    /// The first pair alone.
    #[must_use]
    pub fn first(&self) -> Self {
        Self { addresses: 1, ports: 1, ..*self }
    }

    /// From first and last address and port; `None` where the last comes before the first.
    fn between(first: A, last: A, (port, last_port): (u16, u16)) -> Option<Self> {
        if last < first {
            return None;
        }
        let addresses = last.behind(first)?.checked_add(1)?;
        Some(Self { address: first, addresses, port, ports: u32::from(last_port.checked_sub(port)?) + 1 })
    }
}

/// Endpoints of either version, as text `ADDRESS[-ADDRESS]:PORT[-PORT]`, addresses of IPv6 in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum AnyEndpoints {
    /// With addresses of IPv4.
    V4(Endpoints<u32>),
    /// With addresses of IPv6.
    V6(Endpoints<u128>),
}

/// Why a text names no addresses and ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not ADDRESS[-ADDRESS]:PORT[-PORT], such as 16.0.0.0-16.0.3.255:1024-1086 or \
     [2001:db8::1-2001:db8::ff]:80"
)]
pub struct BadEndpoints {
    text: String,
}

impl FromStr for AnyEndpoints {
    type Err = BadEndpoints;

    fn from_str(text: &str) -> Result<Self, BadEndpoints> {
        fn range<T: FromStr + Copy>(text: &str) -> Option<(T, T)> {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        }
        let read = || {
            let (addresses, ports) = text.rsplit_once(':')?;
            let bare = addresses.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let (first, last) = range::<IpAddr>(bare.unwrap_or(addresses))?;
            let ports = range::<u16>(ports)?;
            match (first, last, bare) {
                (IpAddr::V4(first), IpAddr::V4(last), None) => {
                    Endpoints::between(first.into(), last.into(), ports).map(Self::V4)
                }
                (IpAddr::V6(first), IpAddr::V6(last), Some(_)) => {
                    Endpoints::between(first.into(), last.into(), ports).map(Self::V6)
                }
                _ => None,
            }
        };
        read().ok_or_else(|| BadEndpoints { text: text.into() })
    }
}

impl TryFrom<String> for AnyEndpoints {
    type Error = BadEndpoints;

    fn try_from(text: String) -> Result<Self, BadEndpoints> {
        text.parse()
    }
}

impl<A: Address> fmt::Display for Endpoints<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.address_range();
        let brackets = A::BEGIN == <u128 as Address>::BEGIN;
        f.write_str(if brackets { "[" } else { "" })?;
        first.show(f)?;
        if self.addresses > 1 {
            f.write_str("-")?;
            last.show(f)?;
        }
        write!(f, "{}:{}", if brackets { "]" } else { "" }, self.port)?;
        if self.ports > 1 {
            write!(f, "-{}", self.port.wrapping_add((self.ports - 1) as u16))?;
        }
        Ok(())
    }
}

impl fmt::Display for AnyEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(endpoints) => endpoints.fmt(f),
            Self::V6(endpoints) => endpoints.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn texts_say_what_is_meant() {
        for text in [
            "10.0.0.1:80",
            "16.0.0.0-16.0.3.255:1024-1086",
            "0.0.0.0:0-65535",
            "[2001:db8::1]:80",
            "[2001:db8::-2001:db8::3ff]:1024-1086",
        ] {
            assert_eq!(text.parse::<AnyEndpoints>().unwrap().to_string(), text);
        }
        let Ok(AnyEndpoints::V4(csit)) = "16.0.0.0-16.0.3.255:1024-1086".parse() else { panic!() };
        assert_eq!(csit.len(), 64_512);
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.2-10.0.0.1:80",
            "10.0.0.1:80-79",
            "10.0.0.1:x",
            "0.0.0.0-255.255.255.255:1",
            "2001:db8::1:80",
            "[10.0.0.1]:80",
            "[2001:db8::1-10.0.0.1]:80",
            "[2001:db8::2-2001:db8::1]:80",
            "[::-1::]:80",
        ] {
            assert!(text.parse::<AnyEndpoints>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_and_pairs_are_each_others_inverse() {
        let address = u32::from(Ipv4Addr::new(10, 0, 0, 254));
        let some = Endpoints { address, addresses: 5, port: 65_530, ports: 6 };
        for n in 0..30 {
            let (address, port) = some.at(n);
            assert_eq!(some.number(address, port), Some(n));
        }
        assert_eq!(some.at(7), (u32::from(Ipv4Addr::new(10, 0, 1, 0)), 65_531));
        assert_eq!(some.number(u32::from(Ipv4Addr::new(10, 0, 1, 3)), 65_530), None);
        assert_eq!(some.number(address, 0), None);
        assert_eq!(some.number(address - 1, 65_530), None);
    }

    #[test]
    fn carries_go_through_all_bits_of_an_address() {
        let ip = |text: &str| u128::from(text.parse::<Ipv6Addr>().unwrap());
        let some =
            Endpoints { address: ip("2001:db8:0:0:ffff:ffff:ffff:fffe"), addresses: 5, port: 1, ports: 2 };
        for n in 0..10 {
            let (address, port) = some.at(n);
            assert_eq!(some.number(address, port), Some(n));
        }
        assert_eq!(some.at(3), (ip("2001:db8:0:1::1"), 1));
        assert_eq!(some.number(ip("2001:db8::1"), 1), None);
        assert_eq!(some.number(ip("2001:db8:0:2::1"), 1), None);
    }
}
