//! How a node asks `icmp4-error` or `icmp6-error` to tell a packet's sender what became of it.
//!
//! The node that gives up on a packet calls [`request`] and takes its edge to the error node. There is no room of its
//! own for the three numbers in the metadata line, and none is needed: a packet that gets no further needs neither its
//! next hop nor its flow hash any more. The packet itself is handed over as it was received from the network header on:
//! `data` equals `l3`, time to live undiminished, no link-layer header prepended.

use graph::packet::Meta;
use wire::{Icmpv4Error, Icmpv6Error};

/// Asks for an error message of this type and code about the packet. `argument` is the second word of the message:
/// next-hop MTU in bytes (fragmentation needed, packet too big), pointer (parameter problem: byte offset from the start
/// of the IP header), else 0. The packet's `next_hop` and `flow_hash` are no longer what their names say.
#[inline]
pub fn request(meta: &mut Meta, type_: u8, code: u8, argument: u32) {
    meta.next_hop = u32::from(type_) << 8 | u32::from(code);
    meta.flow_hash = argument;
}

/// [`request`] for an IPv4 packet.
#[inline]
pub fn request_v4(meta: &mut Meta, error: Icmpv4Error) {
    let argument = match error {
        Icmpv4Error::FragmentationNeeded { mtu } => mtu.into(),
        Icmpv4Error::ParameterProblem { pointer } => pointer.into(),
        _ => 0,
    };
    let header = error.header();
    request(meta, header.kind.0, header.code, argument);
}

/// [`request`] for an IPv6 packet.
#[inline]
pub fn request_v6(meta: &mut Meta, error: Icmpv6Error) {
    let header = error.header();
    request(meta, header.kind.0, header.code, header.rest.get());
}

/// What [`request`] has asked for: type, code, argument.
#[inline]
#[must_use]
pub fn requested(meta: &Meta) -> (u8, u8, u32) {
    let [.., type_, code] = meta.next_hop.to_be_bytes();
    (type_, code, meta.flow_hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::packet::Packets;

    #[test]
    fn what_was_asked_for_is_what_the_error_node_reads() {
        let mut packets = Packets::new();
        let slot = packets.take(1).unwrap();
        for asked in [(3, 4, 1400), (11, 0, 0), (255, 255, u32::MAX)] {
            request(packets.meta_mut(slot), asked.0, asked.1, asked.2);
            assert_eq!(requested(packets.meta(slot)), asked);
        }
    }
}
