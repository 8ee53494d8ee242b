//! The parser `quic-connections`: sessions of QUIC by the connection ID that their packets are for, and not by addresses and ports.
//!
//! A client that comes from another network has another address, and goes on with its connection (RFC 9000 section 9). Where servers give connection IDs of eight bytes, as this takes
//! for granted, its packets with a short header carry that one (RFC 9000 section 17.3.1): they are one session, wherever the client is.
//!
//! What servers send has the client's connection ID, which has nothing to do with the other one: so sessions are one-way, and answers have ordinary ones.

use features::session::Direction;
use features::session::service::{Datagram, Parser};
use wire::IpProtocol;

/// UDP port of servers.
const PORT: [u8; 2] = 443_u16.to_be_bytes();
/// Bytes of a UDP header.
const UDP: usize = 8;
/// Of the first byte: a long header, and the bit that is always set (RFC 9000 section 17.3.1).
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
/// Bytes of servers' connection IDs.
const ID: usize = 8;

/// The parser's declaration.
pub const PARSER: Parser = Parser {
    name: "quic-connections",
    help: "Finds connections of QUIC by what servers call them.",
    protocol: IpProtocol::UDP,
    key_bytes: ID,
    one_way: true,
    parse,
    show: |key| format!("connection {}", key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    ends: |_| [None, None],
};

fn parse(datagram: &Datagram<'_>, key: &mut [u8]) -> Option<Direction> {
    let (udp, packet) = datagram.behind().split_at_checked(UDP)?;
    let (first, rest) = packet.split_first()?;
    if udp[2..4] != PORT || first & (LONG | FIXED) != FIXED {
        return None;
    }
    key.copy_from_slice(rest.get(..ID)?);
    Some(Direction::Forward)
}
