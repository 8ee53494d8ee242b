//! VLAN tags in the head of a frame: reading, taking off, putting on.

use crate::interface::VlanTags;
use graph::packet::{HEAD_AREA, Meta};
use wire::{EtherType, EthernetHeader, Header, Tci, VlanTag};

/// Bytes of both Ethernet addresses: what stays in front of the tags.
const ADDRESSES: usize = 12;
/// Bytes of one tag with the ethertype in front of it.
pub(crate) const TAG: u16 = 4;

/// What stands between the Ethernet addresses and the payload of a tagged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tagged {
    /// The tags that count. `outer` is 0 where the frame carries priority tags only (VLAN id 0).
    pub(crate) vlan: VlanTags,
    /// Bytes of all tags that were read: 4 or 8.
    pub(crate) len: u16,
    /// What follows them.
    pub(crate) ethertype: EtherType,
}

/// Reads the tags of a frame whose ethertype says that it has some. `None` where the frame ends within them.
///
/// Two tags are read at most, the inner one of type 0x8100 (IEEE 802.1ad). A tag with VLAN id 0 says nothing but a
/// priority (IEEE 802.1Q, 6.9): the frame counts as if it weren't there.
#[inline]
pub(crate) fn read(frame: &[u8]) -> Option<Tagged> {
    let (ethernet, rest) = EthernetHeader::parse(frame).ok()?;
    let (first, rest) = VlanTag::parse(rest).ok()?;
    let outer_type = ethernet.ethertype.get();
    let outer = first.tci.id();
    let second_is_tag = first.ethertype == EtherType::VLAN || (outer == 0 && first.ethertype.is_vlan());
    if !second_is_tag {
        let vlan = VlanTags { outer_type, outer, inner: 0 };
        return Some(Tagged { vlan, len: TAG, ethertype: first.ethertype });
    }
    let (second, _) = VlanTag::parse(rest).ok()?;
    let vlan = match (outer, second.tci.id()) {
        (0, id) => VlanTags { outer_type: first.ethertype.get(), outer: id, inner: 0 },
        (outer, inner) => VlanTags { outer_type, outer, inner },
    };
    Some(Tagged { vlan, len: 2 * TAG, ethertype: second.ethertype })
}

/// Takes `bytes` of tags off: the addresses move up to the ethertype behind them. Nothing happens where the frame is
/// shorter than that; [`read`] has said that it isn't.
#[inline]
pub(crate) fn pop(meta: &mut Meta, area: &mut [u8; HEAD_AREA], bytes: u16) {
    let (start, shift) = (meta.data as usize, bytes as usize);
    if let Some(front) = area.get_mut(start..start + ADDRESSES + shift) {
        front.copy_within(..ADDRESSES, shift);
        meta.data += bytes;
        meta.l2 = meta.data;
    }
}

/// Tags as they are put on, ethertypes included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Push {
    bytes: [u8; 2 * TAG as usize],
    /// Bytes to put on: 4 or 8.
    len: u16,
}

impl Push {
    /// What a sub-interface with these tags puts on; priority 0.
    pub(crate) fn new(tags: VlanTags) -> Self {
        let mut push = Self { bytes: [0; 8], len: if tags.inner == 0 { TAG } else { 2 * TAG } };
        let tag = |ethertype: u16, id: u16| {
            let ([a, b], [c, d]) = (ethertype.to_be_bytes(), Tci::new(0, false, id).get().to_be_bytes());
            [a, b, c, d]
        };
        push.bytes[..4].copy_from_slice(&tag(tags.outer_type, tags.outer));
        push.bytes[4..].copy_from_slice(&tag(EtherType::VLAN.get(), tags.inner));
        push
    }

    /// Puts the tags on. False, and nothing changed, where the headroom is used up or the frame has no addresses.
    #[inline(always)]
    pub(crate) fn apply(&self, meta: &mut Meta, area: &mut [u8; HEAD_AREA]) -> bool {
        // The two lengths apart, so that each is a fixed copy.
        if self.len == TAG { self.put::<4>(meta, area) } else { self.put::<8>(meta, area) }
    }

    #[inline(always)]
    fn put<const LEN: usize>(&self, meta: &mut Meta, area: &mut [u8; HEAD_AREA]) -> bool {
        let Some(start) = (meta.data as usize).checked_sub(LEN) else { return false };
        if start + LEN + ADDRESSES > meta.end as usize {
            return false;
        }
        let Some(front) = area.get_mut(start..start + LEN + ADDRESSES) else { return false };
        front.copy_within(LEN.., 0);
        front[ADDRESSES..].copy_from_slice(&self.bytes[..LEN]);
        meta.data = start as u16;
        meta.l2 = meta.data;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::packet::{Packets, SlotId};

    fn received(packets: &mut Packets, frame: &[u8]) -> SlotId {
        let read = |buffer: &mut [u8]| {
            buffer[..frame.len()].copy_from_slice(frame);
            Ok((0, frame.len()))
        };
        packets.receive_private(1, frame.len(), read).unwrap().unwrap()
    }

    #[test]
    fn what_is_put_on_can_be_taken_off_until_the_headroom_ends() {
        let frame: Vec<u8> = (0..60).collect();
        for (inner, bytes) in [(0, 4u16), (200, 8)] {
            let mut packets = Packets::new();
            let slot = received(&mut packets, &frame);
            let push = Push::new(VlanTags { outer_type: 0x88a8, outer: 100, inner });
            let before = *packets.meta(slot);
            let mut pushed = 0;
            let (meta, area) = packets.parts_mut(slot);
            while push.apply(meta, area) {
                pushed += bytes;
                assert_eq!((meta.data, meta.l2), (before.data - pushed, before.data - pushed));
            }
            assert_eq!((meta.data, pushed), (before.data - pushed, before.data), "128 bytes are all of it");
            for _ in 0..pushed / bytes {
                pop(meta, area, bytes);
            }
            assert_eq!((meta.data, meta.l2), (before.data, before.data));
            assert_eq!(packets.head(slot), frame);
        }
    }

    #[test]
    fn a_frame_without_addresses_gets_no_tags() {
        let mut packets = Packets::new();
        for (len, fits) in [(1, false), (11, false), (12, true)] {
            let slot = received(&mut packets, &vec![7; len]);
            let push = Push::new(VlanTags { outer_type: 0x8100, outer: 5, inner: 0 });
            let (meta, area) = packets.parts_mut(slot);
            assert_eq!(push.apply(meta, area), fits, "{len} bytes");
            assert_eq!(packets.head(slot).len(), len + if fits { 4 } else { 0 });
        }
    }
}
