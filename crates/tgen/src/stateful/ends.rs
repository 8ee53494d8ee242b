//! Clients and servers of a profile.

use super::address::Address;
use super::endpoints::{AnyEndpoints, Endpoints};
use super::profile::ProfileError;
use super::shape::Shape;

/// Clients and servers of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<A = u32> {
    /// Clients.
    pub clients: Endpoints<A>,
    /// Servers.
    pub servers: Endpoints<A>,
}

/// Clients and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyEnds {
    /// With IPv4.
    V4(Ends<u32>),
    /// With IPv6.
    V6(Ends<u128>),
}

impl AnyEnds {
    /// Those of `shape`, CSIT's where it names none.
    pub(super) fn new(shape: &Shape) -> Result<Self, ProfileError> {
        fn places<A>(address: A) -> Endpoints<A> {
            Endpoints { address, addresses: 1024, port: 1024, ports: 63 }
        }
        fn server<A>(address: A) -> Endpoints<A> {
            Endpoints { address, addresses: 1, port: 80, ports: 1 }
        }
        let (clients, servers) = if shape.is_ipv6() {
            // 2001:db8:10:: and 2001:db8:30::1
            let prefix = |n: u128| 0x2001_0db8_u128 << 96 | n << 80;
            (AnyEndpoints::V6(places(prefix(0x10))), AnyEndpoints::V6(server(prefix(0x30) | 1)))
        } else {
            (AnyEndpoints::V4(places(0x1000_0000)), AnyEndpoints::V4(server(0x3000_0001)))
        };
        let (clients, servers) = (shape.clients.unwrap_or(clients), shape.servers.unwrap_or(servers));
        match (clients, servers) {
            (AnyEndpoints::V4(clients), AnyEndpoints::V4(servers)) => Ok(Self::V4(Ends { clients, servers })),
            (AnyEndpoints::V6(clients), AnyEndpoints::V6(servers)) => Ok(Self::V6(Ends { clients, servers })),
            _ => Err(ProfileError::Value {
                what: "version of IP",
                value: format!("not that of both {clients} and {servers}"),
                allowed: "the same for clients and servers",
            }),
        }
    }

    /// Pairs of address and port: of clients, and of servers.
    #[must_use]
    pub const fn len(&self) -> (u64, u64) {
        match self {
            Self::V4(ends) => (ends.clients.len(), ends.servers.len()),
            Self::V6(ends) => (ends.clients.len(), ends.servers.len()),
        }
    }

    /// As people write them: clients and servers.
    #[must_use]
    pub fn text(&self) -> (String, String) {
        match self {
            Self::V4(ends) => (ends.clients.to_string(), ends.servers.to_string()),
            Self::V6(ends) => (ends.clients.to_string(), ends.servers.to_string()),
        }
    }

    /// Bytes of Ethernet and IP headers.
    pub(super) const fn headers(&self) -> usize {
        match self {
            Self::V4(_) => <u32 as Address>::HEADERS,
            Self::V6(_) => <u128 as Address>::HEADERS,
        }
    }
}
