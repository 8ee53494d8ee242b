//! Reading neighbour discovery messages.

use super::ip6_nd::Drop;
use core::net::Ipv6Addr;
use graph::packet::{Packets, SlotId};
use wire::ndp::{self, NdpMessage, NdpReason};
use wire::{Ipv6Header, MacAddr};

/// What a message says, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) src: Ipv6Addr,
    pub(super) target: Ipv6Addr,
    /// The link-layer address that the sender tells.
    pub(super) mac: Option<MacAddr>,
    pub(super) solicitation: bool,
}

/// Reads messages, which may lie in several places.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The message at hand, its bytes in a row.
    message: Vec<u8>,
}

/// Longer than any message whose options make sense here: one that fills an Ethernet frame.
const MAX_MESSAGE: u32 = 1500;

impl Reader {
    /// The message, checked.
    pub(super) fn read(&mut self, packets: &Packets, slot: SlotId) -> Result<Said, Drop> {
        let meta = packets.meta(slot);
        let ip = packets.header::<Ipv6Header>(slot, meta.l3).ok_or(Drop::TooShort)?;
        let before = meta.l4.checked_sub(meta.data).ok_or(Drop::TooShort)?;
        let len = meta.len();
        if len > MAX_MESSAGE {
            return Err(Drop::TooLong);
        }
        self.message.resize(len as usize, 0);
        packets.copy_out(slot, &mut self.message);
        let message = self.message.get(before as usize..).ok_or(Drop::TooShort)?;
        match ndp::check(ip, message) {
            Ok(NdpMessage::NeighborSolicitation(message, options)) => Ok(Said {
                src: ip.src(),
                target: message.target(),
                mac: options.source(),
                solicitation: true,
            }),
            Ok(NdpMessage::NeighborAdvertisement(message, options)) => Ok(Said {
                src: ip.src(),
                target: message.target(),
                mac: options.target(),
                solicitation: false,
            }),
            Ok(_) => Err(Drop::RouterDiscovery),
            Err(reason) => Err(refusal(reason)),
        }
    }
}

fn refusal(reason: NdpReason) -> Drop {
    match reason {
        NdpReason::TooShort | NdpReason::NotNdp => Drop::TooShort,
        NdpReason::BadHopLimit => Drop::BadHopLimit,
        NdpReason::BadChecksum => Drop::BadChecksum,
        NdpReason::BadCode => Drop::BadCode,
        NdpReason::BadOption => Drop::BadOption,
        NdpReason::BadTarget => Drop::BadTarget,
        NdpReason::BadSource => Drop::BadSource,
        NdpReason::BadDestination => Drop::BadDestination,
        NdpReason::UnexpectedSourceOption => Drop::UnexpectedOption,
    }
}
