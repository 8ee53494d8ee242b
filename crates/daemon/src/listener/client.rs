//! The owner of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UnixStream;

/// The owner of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Client {
    /// The process that opened a unix connection; 0 where it is in a process namespace that quiverd can't see.
    Process {
        /// Its user.
        uid: u32,
        /// Its process.
        pid: u32,
    },
    /// The source address of a TCP connection.
    Address(IpAddr),
}

/// Clients that one actor can multiply: processes of a user, addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Group {
    User(u32),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
}

impl Client {
    /// The peer of a unix connection.
    #[must_use]
    pub fn of_unix(stream: &UnixStream) -> Self {
        let peer = stream.peer_cred().ok();
        let pid = peer.and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
        Self::Process { uid: peer.map_or(u32::MAX, |peer| peer.uid()), pid: pid.unwrap_or(0) }
    }

    /// The peer of a TCP connection.
    #[must_use]
    pub fn of_tcp(peer: SocketAddr) -> Self {
        Self::Address(peer.ip().to_canonical())
    }

    /// A user's processes; of addresses 127.0.0.0/8, an IPv4 /24 or an IPv6 /64.
    pub(super) fn group(self) -> Group {
        match self {
            Self::Process { uid, .. } => Group::User(uid),
            Self::Address(IpAddr::V4(address)) => {
                let mask = if address.is_loopback() { 0xff00_0000 } else { 0xffff_ff00 };
                Group::Ipv4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            Self::Address(IpAddr::V6(address)) => {
                Group::Ipv6(Ipv6Addr::from_bits(address.to_bits() & u128::MAX << 64))
            }
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { uid, pid } => write!(f, "process {pid} of user {uid}"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_group() {
        let group = |text: &str| Client::of_tcp(text.parse().unwrap()).group();
        assert_eq!(group("127.0.0.1:1"), group("127.9.8.7:2"));
        assert_eq!(group("10.0.0.1:1"), group("10.0.0.254:1"));
        assert_eq!(group("[::ffff:10.0.0.1]:1"), group("10.0.0.9:1"));
        assert_ne!(group("10.0.0.1:1"), group("10.0.1.1:1"));
        assert_eq!(group("[fd00::1]:1"), group("[fd00::ffff:0:0:1]:1"));
        assert_ne!(group("[fd00::1]:1"), group("[fd00:0:0:1::1]:1"));
        let of = |uid, pid| Client::Process { uid, pid }.group();
        assert_eq!(of(7, 1), of(7, 2));
        assert_ne!(of(7, 1), of(8, 1));
    }
}
