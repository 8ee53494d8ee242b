//! The packets to send.

use crate::options::{LinkMode, Options};
use core::net::Ipv4Addr;
use wire::checksum::Partial;
use wire::ipv4::Ipv4Header;
use wire::{EtherType, EthernetHeader, Header, IntoBytes, IpProtocol, U16, UdpHeader};

/// Bytes that differ from packet to packet lie in the first line.
pub const LINE: usize = 64;

/// All packets of a run: the first line of each, and what follows, which is the same in all.
#[derive(Clone, Debug)]
pub struct Frames {
    lines: Vec<[u8; LINE]>,
    rest: Vec<u8>,
    len: usize,
}

impl Frames {
    /// Packets as the options ask for.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let ethernet = if options.mode == LinkMode::Ethernet { EthernetHeader::LEN } else { 0 };
        let len = usize::from(options.size);
        let build = |destination: Ipv4Addr| {
            let mut frame = vec![0; len.max(LINE)];
            let (link, packet) = frame.split_at_mut(ethernet);
            let header = EthernetHeader {
                dst: options.destination_mac,
                src: options.source_mac,
                ethertype: EtherType::IPV4,
            };
            // Room was made for each header above.
            let _ = header.emit(link);
            let ip_len = (len - ethernet) as u16;
            let mut ip = Ipv4Header::new(options.source, destination, IpProtocol::UDP, 64, ip_len);
            ip.checksum = U16::new(ip.compute_checksum(&[]));
            let udp_len = ip_len - Ipv4Header::LEN as u16;
            let mut udp = UdpHeader::new(1024, 9, udp_len);
            let payload: Vec<u8> = (0..usize::from(udp_len) - UdpHeader::LEN).map(|at| at as u8).collect();
            let sum = ip.pseudo_header(udp_len).plus(Partial::of(udp.as_bytes())).plus(Partial::of(&payload));
            udp.checksum = U16::new(UdpHeader::finish_checksum(sum));
            if let Ok(rest) = ip.emit(packet)
                && let Ok(rest) = udp.emit(rest)
            {
                rest[..payload.len()].copy_from_slice(&payload);
            }
            frame
        };
        let first = u32::from(options.destination);
        let mut lines = Vec::with_capacity(options.destinations as usize);
        let mut rest = Vec::new();
        for n in 0..options.destinations {
            let frame = build(Ipv4Addr::from(first.wrapping_add(n)));
            let (line, tail) = frame.split_at(LINE);
            lines.push(line.try_into().unwrap_or([0; LINE]));
            rest = tail.to_vec();
        }
        Self { lines, rest, len }
    }

    /// Length of every packet, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether packets have no bytes: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of different packets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// First line of packet number `n`, counted round.
    #[inline(always)]
    #[must_use]
    pub fn line(&self, n: usize) -> &[u8; LINE] {
        &self.lines[n]
    }

    /// What follows the first line.
    #[inline(always)]
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }
}
