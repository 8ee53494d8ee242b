//! Addresses of one end of a stream.

use crate::stateless::{Number, Order, Setting};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// What a stream's source or destination addresses are, and how they change.
#[derive(Clone, Debug)]
pub enum Addresses {
    /// IPv4.
    V4(Setting<Ipv4Addr>),
    /// IPv6.
    V6(Setting<Ipv6Addr>),
}

impl Addresses {
    /// `count` addresses from the first on, in turn or at random.
    ///
    /// # Errors
    /// They go beyond the last address.
    pub fn counted(first: IpAddr, count: u32, random: bool) -> Result<Self, String> {
        match first {
            IpAddr::V4(first) => {
                let last = u32::from(first).checked_add(count - 1);
                let last = last
                    .ok_or_else(|| format!("{count} addresses from {first} on go beyond 255.255.255.255"))?;
                range(first, Ipv4Addr::from(last), random).map(Self::V4)
            }
            IpAddr::V6(first) => {
                let last = u128::from(first).checked_add(u128::from(count - 1));
                let last =
                    last.ok_or_else(|| format!("{count} addresses from {first} on go beyond the last one"))?;
                range(first, Ipv6Addr::from(last), random).map(Self::V6)
            }
        }
    }

    /// Those in a file, one a line, in turn.
    ///
    /// # Errors
    /// It can't be read, a line is no address or of another family, or there is none.
    pub fn read(path: &Path) -> Result<Self, String> {
        let of = |reason: String| format!("--destination-list {}: {reason}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| of(error.to_string()))?;
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (n, line) in text.lines().enumerate() {
            let address = line.split('#').next().unwrap_or_default().trim();
            if address.is_empty() {
                continue;
            }
            match address.parse() {
                Ok(IpAddr::V4(address)) => v4.push(address),
                Ok(IpAddr::V6(address)) => v6.push(address),
                Err(_) => return Err(of(format!("line {}: {address:?} is not an IP address", n + 1))),
            }
            if !v4.is_empty() && !v6.is_empty() {
                return Err(of(format!(
                    "line {}: {address} is of another family than the addresses before it",
                    n + 1
                )));
            }
        }
        if v6.is_empty() { Setting::list(&v4).map(Self::V4) } else { Setting::list(&v6).map(Self::V6) }
            .map_err(|_| of("there is no address in it".into()))
    }

    /// One of them.
    pub const fn first(&self) -> IpAddr {
        match self {
            Self::V4(addresses) => IpAddr::V4(addresses.value),
            Self::V6(addresses) => IpAddr::V6(addresses.value),
        }
    }
}

/// From one value to another, in turn or at random.
pub fn range<T: Number + PartialEq>(from: T, to: T, random: bool) -> Result<Setting<T>, String> {
    if from == to {
        return Ok(Setting::fixed(from));
    }
    Setting::range(from, to, 1, if random { Order::Random } else { Order::Inc })
}
