//! Addresses and ports of the clients: the number of a connection says which, and the other way round.

use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

/// A rectangle of addresses and ports, as text `ADDRESS[-ADDRESS]:PORT[-PORT]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoints {
    /// First address.
    pub address: Ipv4Addr,
    /// Number of addresses.
    pub addresses: u32,
    /// First port.
    pub port: u16,
    /// Number of ports.
    pub ports: u32,
}

impl Endpoints {
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
    pub fn at(&self, n: u32) -> (u32, u16) {
        let (port, address) = (n / self.addresses, n % self.addresses);
        (u32::from(self.address).wrapping_add(address), self.port.wrapping_add(port as u16))
    }

    /// The number of a pair; `None` where it isn't one of these.
    #[inline(always)]
    #[must_use]
    pub fn number(&self, address: u32, port: u16) -> Option<u32> {
        let address = address.wrapping_sub(self.address.into());
        let port = u32::from(port.wrapping_sub(self.port));
        (address < self.addresses && port < self.ports).then(|| port * self.addresses + address)
    }

    /// First and last address.
    #[must_use]
    pub fn address_range(&self) -> (Ipv4Addr, Ipv4Addr) {
        (self.address, Ipv4Addr::from(u32::from(self.address).wrapping_add(self.addresses - 1)))
    }
}

/// Why a text names no addresses and ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not ADDRESS[-ADDRESS]:PORT[-PORT], such as 16.0.0.0-16.0.3.255:1024-1086")]
pub struct BadEndpoints {
    text: String,
}

impl FromStr for Endpoints {
    type Err = BadEndpoints;

    fn from_str(text: &str) -> Result<Self, BadEndpoints> {
        fn range<T: FromStr + Copy>(text: &str) -> Option<(T, T)> {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        }
        let read = || {
            let (addresses, ports) = text.split_once(':')?;
            let (first, last) = range::<Ipv4Addr>(addresses)?;
            let (port, last_port) = range::<u16>(ports)?;
            let addresses = u32::from(last).checked_sub(first.into())?.checked_add(1)?;
            let ports = u32::from(last_port.checked_sub(port)?) + 1;
            Some(Self { address: first, addresses, port, ports })
        };
        read().ok_or_else(|| BadEndpoints { text: text.into() })
    }
}

impl TryFrom<String> for Endpoints {
    type Error = BadEndpoints;

    fn try_from(text: String) -> Result<Self, BadEndpoints> {
        text.parse()
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.addresses > 1 {
            write!(f, "-{}", Ipv4Addr::from(u32::from(self.address).wrapping_add(self.addresses - 1)))?;
        }
        write!(f, ":{}", self.port)?;
        if self.ports > 1 {
            write!(f, "-{}", self.port.wrapping_add((self.ports - 1) as u16))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_what_is_meant() {
        for text in ["10.0.0.1:80", "16.0.0.0-16.0.3.255:1024-1086", "0.0.0.0:0-65535"] {
            assert_eq!(text.parse::<Endpoints>().unwrap().to_string(), text);
        }
        let csit: Endpoints = "16.0.0.0-16.0.3.255:1024-1086".parse().unwrap();
        assert_eq!(csit.len(), 64_512);
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.2-10.0.0.1:80",
            "10.0.0.1:80-79",
            "10.0.0.1:x",
            "0.0.0.0-255.255.255.255:1",
        ] {
            assert!(text.parse::<Endpoints>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_and_pairs_are_each_others_inverse() {
        let some = Endpoints { address: Ipv4Addr::new(10, 0, 0, 254), addresses: 5, port: 65_530, ports: 6 };
        for n in 0..30 {
            let (address, port) = some.at(n);
            assert_eq!(some.number(address, port), Some(n));
        }
        assert_eq!(some.at(7), (u32::from(Ipv4Addr::new(10, 0, 1, 0)), 65_531));
        assert_eq!(some.number(u32::from(Ipv4Addr::new(10, 0, 1, 3)), 65_530), None);
        assert_eq!(some.number(u32::from(some.address), 0), None);
        assert_eq!(some.number(u32::from(some.address) - 1, 65_530), None);
    }
}
