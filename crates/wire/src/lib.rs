//! Packet headers as checked views of bytes.
//!
//! Every header is a plain struct with big-endian fields ([`Header`]), laid over the first bytes of a slice:
//!
//! ```
//! use quiver_wire::{EtherType, EthernetHeader, Header, ipv4::Ipv4Header};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let frame: [u8; 34] = [
//! #     2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0x66, 0xd7, 10, 0, 0, 1,
//! #     10, 0, 0, 2,
//! # ];
//! let (ethernet, rest) = EthernetHeader::parse(&frame)?;
//! if ethernet.ethertype == EtherType::IPV4 {
//!     let (ip, _options) = Ipv4Header::check(rest, rest.len())?;
//!     assert_eq!(ip.src().to_string(), "10.0.0.1");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - **Parse** ([`Header::parse`]) compares one length and believes nothing else.
//! - **Check** (`X::check`) looks at the contents as the RFC demands and names what is wrong: an enum of
//!   reasons whose doc lines are their help texts.
//! - **Build** with `X::new`, change fields, [`Header::emit`].
//!
//! Graph nodes see only the *head* of a packet; the payload may lie elsewhere. So lengths on the wire are
//! compared with a length the caller knows, never with the slice's, and checksums come in pieces
//! ([`checksum`]).
//!
//! On top of that: [`flow`] hashes, prefixes, [`describe`] for traces, and [`capture`] files.
//!
//! No I/O, no `unsafe`, no heap but for reading capture files (feature `alloc`, on by default).

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod arp;
pub mod capture;
pub mod checksum;
pub mod describe;
mod ethernet;
pub mod flow;
mod geneve;
mod header;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
mod link;
mod mac;
pub mod ndp;
mod prefix;
mod protocol;
mod reason;
mod tcp;
mod udp;
mod vlan;
mod vxlan;

pub use arp::{ArpOperation, ArpPacket, ArpReason};
pub use ethernet::{EtherType, EthernetHeader};
pub use geneve::{GeneveHeader, GeneveOption, GeneveReason};
pub use header::{Header, Truncated};
pub use icmp::{Icmpv4Error, Icmpv4Header, Icmpv4Type, Icmpv6Error, Icmpv6Header, Icmpv6Type};
pub use ipv4::{Ipv4Header, Ipv4Reason};
pub use ipv6::{Ipv6Header, Ipv6Reason};
pub use link::LinkType;
pub use mac::{MacAddr, ParseMacError};
pub use prefix::{Ipv4Prefix, Ipv6Prefix, PrefixError};
pub use protocol::IpProtocol;
pub use tcp::{TcpFlags, TcpHeader, TcpOption, TcpOptions, TcpReason};
pub use udp::{UdpHeader, UdpReason};
pub use vlan::{Tci, VlanTag};
pub use vxlan::VxlanHeader;
/// The traits behind [`Header`] and the big-endian numbers of its fields.
pub use zerocopy::{
    FromBytes, IntoBytes,
    network_endian::{U16, U32},
};
