//! Ranges of addresses.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use crate::model::{Flaw, fields};

/// A range of addresses of one family, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange {
    /// First address.
    pub first: IpAddr,
    /// Last address, not below the first.
    pub last: IpAddr,
}

impl IpRange {
    /// Reads a prefix "10.1.0.0/16" or a range "10.0.0.5-10.0.0.20".
    ///
    /// # Errors
    /// [`Flaw`] of `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Flaw> {
        let Some((first, last)) = text.split_once('-') else {
            let network = fields::network(field, text)?;
            let last = match network {
                IpNet::V4(network) => IpAddr::V4(network.broadcast()),
                IpNet::V6(network) => IpAddr::V6(network.broadcast()),
            };
            return Ok(Self { first: network.network(), last });
        };
        let (first, last) = (fields::address(field, first.trim())?, fields::address(field, last.trim())?);
        if first.is_ipv4() != last.is_ipv4() {
            return Err(Flaw::new(field, format!("{text} begins in one family and ends in the other"))
                .remedy("write one range for IPv4 and one for IPv6"));
        }
        if last < first {
            return Err(Flaw::new(field, format!("{text} ends before it begins"))
                .remedy(format!("write {last}-{first}")));
        }
        Ok(Self { first, last })
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// The prefix that is exactly this range, if there is one.
    fn as_prefix(self) -> Option<IpNet> {
        // A range splits into prefixes in one way only; two are enough to see that one isn't enough.
        let prefixes = match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Ipv4Subnets::new(first, last, 0).map(IpNet::from).take(2).collect::<Vec<_>>()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Ipv6Subnets::new(first, last, 0).map(IpNet::from).take(2).collect::<Vec<_>>()
            }
            _ => return None,
        };
        if let [prefix] = prefixes[..] { Some(prefix) } else { None }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_prefix() {
            Some(prefix) => prefix.fmt(formatter),
            None => write!(formatter, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_written_as_a_prefix_where_it_is_one() {
        for (text, canonical) in [
            ("10.1.0.0/16", "10.1.0.0/16"),
            ("10.0.0.0-10.0.0.255", "10.0.0.0/24"),
            ("10.0.0.5-10.0.0.20", "10.0.0.5-10.0.0.20"),
            ("10.0.0.5-10.0.0.5", "10.0.0.5/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("fd00::1-fd00::3", "fd00::1-fd00::3"),
        ] {
            assert_eq!(IpRange::parse("proxy_arp", text).unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "10.0.0.5", "10.0.0.9-10.0.0.1", "10.0.0.1-fd00::1", "10.0.0.1/8", "a-b"] {
            assert!(IpRange::parse("proxy_arp", text).is_err(), "{text}");
        }
    }

    #[test]
    fn both_ends_are_in_it() {
        let range = IpRange::parse("proxy_arp", "10.0.0.5-10.0.0.20").unwrap();
        for (address, inside) in [
            ("10.0.0.4", false),
            ("10.0.0.5", true),
            ("10.0.0.20", true),
            ("10.0.0.21", false),
            ("::a00:5", false),
        ] {
            assert_eq!(range.contains(address.parse().unwrap()), inside, "{address}");
        }
    }
}
