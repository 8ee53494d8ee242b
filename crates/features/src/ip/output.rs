//! The end of forwarding, the same for both IP versions: the next hop's header in front, and off by its interface.

use super::next_hop::{MAX_REWRITE, NextHop, NextHopKind, NextHops};
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Gso, HEAD_AREA, Meta, Packets, SlotId};
use wire::{FromBytes, Header, TcpHeader, UdpHeader};

/// What consecutive packets to one next hop have in common.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'t> {
    /// The next hop's id.
    pub id: u32,
    /// The next hop.
    pub hop: &'t NextHop,
    /// First edge of its interface's `interface-output` arc, 0 where the interface is down.
    pub edge: u8,
    /// Longest packet, in bytes, that can be sent without a further look: 0 where none can.
    pub mtu: u32,
}

impl<'t> Lane<'t> {
    /// The way of packets to next hop `id`.
    #[must_use]
    #[inline]
    pub fn new(hops: &'t NextHops, arcs: &Arcs, place: ArcPlace, id: u32) -> Self {
        let hop = hops.get(id);
        let edge = place.edge(arcs, hop.tx_if, 0);
        let open = edge != 0 && hop.kind == NextHopKind::Rewrite;
        Self { id, hop, edge, mtu: if open { hop.mtu.into() } else { 0 } }
    }

    /// Whether a packet can be sent as it is: not longer than the MTU, and with room for a header before it.
    #[must_use]
    #[inline(always)]
    pub fn fits(&self, meta: &Meta) -> bool {
        (meta.len() <= self.mtu) & has_headroom(meta)
    }

    /// Puts the next hop's link-layer header in front of the packet, whose current header is its IP header, and begins
    /// the `interface-output` arc. False, and nothing changed, where the headroom is used up.
    #[must_use]
    #[inline(always)]
    pub fn send(&self, meta: &mut Meta, area: &mut [u8; HEAD_AREA]) -> bool {
        let len = u16::from(self.hop.header_len);
        let Some(data) = meta.data.checked_sub(len) else { return false };
        let header = &self.hop.header;
        // Copies of constant length are two moves; a copy of any length is a call.
        let done = match len {
            14 => put::<14>(area, data, header),
            0 => true,
            18 => put::<18>(area, data, header),
            22 => put::<22>(area, data, header),
            _ => false,
        };
        if !done {
            return false;
        }
        meta.data = data;
        meta.l2 = data;
        meta.tx_if = self.hop.tx_if;
        meta.arc = 0;
        true
    }
}

/// Whether there is room for the longest link-layer header before the packet.
#[must_use]
#[inline(always)]
pub fn has_headroom(meta: &Meta) -> bool {
    meta.data >= MAX_REWRITE as u16
}

#[inline(always)]
fn put<const N: usize>(area: &mut [u8; HEAD_AREA], at: u16, header: &[u8; MAX_REWRITE]) -> bool {
    let room = area.get_mut(at as usize..).and_then(|area| area.first_chunk_mut::<N>());
    match (room, header.first_chunk::<N>()) {
        (Some(room), Some(header)) => {
            *room = *header;
            true
        }
        _ => false,
    }
}

/// For a super-frame: length in bytes of the longest IP packet that it becomes when it is segmented. `None` for an
/// ordinary packet, or where its transport header isn't in the head.
#[must_use]
pub fn segment_len(packets: &Packets, slot: SlotId) -> Option<u32> {
    let meta = packets.meta(slot);
    segment_len_at(meta, packets.area(slot), (meta.l3, meta.l4))
}

/// The same of a packet whose network and transport headers stand there.
#[must_use]
pub fn segment_len_at(meta: &Meta, area: &[u8; HEAD_AREA], (l3, l4): (u16, u16)) -> Option<u32> {
    let before = l4.checked_sub(l3)?;
    let transport = match meta.offload.gso {
        Gso::None => return None,
        Gso::Tcp4 | Gso::Tcp6 => {
            let head = area.get(l4.into()..meta.end.into())?;
            TcpHeader::ref_from_prefix(head).ok()?.0.header_len()
        }
        Gso::Udp => UdpHeader::LEN,
    };
    Some(u32::from(before) + transport as u32 + u32::from(meta.offload.gso_size))
}
