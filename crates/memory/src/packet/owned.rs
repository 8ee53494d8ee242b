//! Packets that outlive their round.

use super::meta::Meta;
use super::slots::{HEAD_AREA, NoSlot, Packets, SlotId, index};

/// A packet with bytes of its own: waiting for a neighbour, punted to the control thread, or made by it.
#[derive(Clone, Debug)]
pub struct OwnedPacket {
    /// All bytes from the link-layer header (or the current header, if that comes first) on.
    bytes: Box<[u8]>,
    /// Where `bytes` begins in the head area.
    start: u16,
    meta: Meta,
}

impl OwnedPacket {
    /// A packet of these bytes that came in by (or belongs to) interface `rx_if`. The current header is at its
    /// first byte.
    #[must_use]
    pub fn new(rx_if: u16, bytes: Vec<u8>) -> Self {
        let meta = Meta::new(rx_if);
        Self { bytes: bytes.into_boxed_slice(), start: meta.data, meta }
    }

    /// The packet's bytes from its current header on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get((self.meta.data - self.start) as usize..).unwrap_or_default()
    }

    /// The packet's bytes from its link-layer header on.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.bytes.get(self.meta.l2.saturating_sub(self.start) as usize..).unwrap_or_default()
    }

    /// What the graph knew of it.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What the graph is to know of it when it comes back.
    #[must_use]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

impl Packets {
    /// Makes the packet own its bytes, so that it can be kept beyond the round.
    #[must_use]
    pub fn own(&self, slot: SlotId) -> OwnedPacket {
        let mut bytes = Vec::new();
        let (start, meta) = self.pack(slot, &mut bytes);
        OwnedPacket { bytes: bytes.into_boxed_slice(), start, meta }
    }

    /// Brings an owned packet into a slot of this round.
    ///
    /// # Errors
    /// [`NoSlot`] when all are taken or the packet is larger than any may be.
    pub fn adopt(&mut self, packet: &OwnedPacket) -> Result<SlotId, NoSlot> {
        self.unpack(&packet.meta, packet.start, &packet.bytes)
    }

    /// Appends all bytes from the link-layer header (or the current header, if that comes first) on to `bytes`. Gives where
    /// they begin in the head area, and the metadata without a body.
    pub(super) fn pack(&self, slot: SlotId, bytes: &mut Vec<u8>) -> (u16, Meta) {
        let m = self.meta(slot);
        let start = m.data.min(m.l2);
        bytes.reserve(usize::from(m.data - start) + m.len() as usize);
        bytes.extend_from_slice(&self.area(slot)[start as usize..m.data as usize]);
        let rest = bytes.len();
        bytes.resize(rest + m.len() as usize, 0);
        self.copy_out(slot, &mut bytes[rest..]);
        (start, Meta { body_len: 0, ..*m })
    }

    /// Brings what was [packed](Self::pack) into a slot of this round.
    pub(super) fn unpack(&mut self, meta: &Meta, start: u16, bytes: &[u8]) -> Result<SlotId, NoSlot> {
        let slot = self.take(meta.rx_if)?;
        let start = start as usize;
        // As much as the receive path would have put into the head lies there again; the rest is a private body.
        let limit = (meta.end as usize).clamp(super::HEADROOM + super::HEAD, HEAD_AREA);
        let in_head = bytes.len().min(limit - start.min(limit));
        let (head, body) = bytes.split_at(in_head);
        self.heads[index(slot)].0[start..start + in_head].copy_from_slice(head);
        let mut meta = *meta;
        meta.end = (start + in_head) as u16;
        meta.trace = 0;
        *self.meta_mut(slot) = meta;
        if !body.is_empty() {
            self.new_body(slot, body.len())?.copy_from_slice(body);
        }
        Ok(slot)
    }
}
