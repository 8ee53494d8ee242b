//! One packet's cache line: what nodes know of it, and where its body lies.

use super::meta::Meta;
use core::mem::offset_of;
use core::ptr;

/// A readable range that a body lies in. It stays readable until the end of the round: [`Packets`](super::Packets)
/// holds what keeps the memory mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: *const u8,
    pub(crate) len: u32,
}

impl Segment {
    pub(crate) const NONE: Self = Self { start: ptr::null(), len: 0 };
}

/// Who may have the bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Holder {
    /// The packet alone; the bytes are its sender's, who may change them.
    Sender,
    /// Also other packets of the round: it must stay where it is until the round's end.
    Shared,
    /// The packet alone, and the bytes are the worker's: they can be changed, and nobody else changes them.
    Worker,
}

/// A packet's metadata and its body. Nodes get the first only: whatever they do to it, to exchange it for another packet's, or one of
/// an earlier round, the body is one that may be read.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) meta: Meta,
    /// Number of segments behind the first.
    pub(crate) more_count: u16,
    pub(crate) holder: Holder,
    /// First body segment: where it starts ...
    pub(crate) first_start: *const u8,
    /// ... and its bytes.
    pub(crate) first_len: u32,
    /// First of the segments behind the first one, in the worker's segment store.
    pub(crate) more_start: u32,
}

const _: () = assert!(size_of::<Slot>() == 64 && offset_of!(Slot, meta) == 0);

impl Slot {
    /// A packet without a body.
    #[inline(always)]
    pub(crate) const fn new(meta: Meta) -> Self {
        let (first_start, first_len, more_start, more_count) = (ptr::null(), 0, 0, 0);
        Self { meta, more_count, holder: Holder::Sender, first_start, first_len, more_start }
    }

    /// The first segment.
    #[inline(always)]
    pub(crate) const fn first(&self) -> Segment {
        Segment { start: self.first_start, len: self.first_len }
    }

    /// Where those behind it are in the worker's segment store.
    #[inline(always)]
    pub(crate) const fn more(&self) -> core::ops::Range<usize> {
        self.more_start as usize..self.more_start as usize + self.more_count as usize
    }

    /// The body is these bytes of the worker's from now on.
    pub(crate) const fn set_private(&mut self, start: *const u8, len: u32) {
        (self.first_start, self.first_len, self.more_count) = (start, len, 0);
        self.holder = Holder::Worker;
        self.meta.body_len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OwnedPacket, Packets, SlotId};
    use crate::region::{Region, RegionOptions, RegionTable};
    use crate::simd::Scalar;
    use core::mem;
    use std::sync::Arc;

    fn packet(packets: &mut Packets, byte: u8, len: usize) -> SlotId {
        packets.adopt(&OwnedPacket::new(1, vec![byte; len])).unwrap()
    }

    /// What is written of a packet where there is room for `len` bytes.
    fn written(packets: &Packets, slot: SlotId, len: u32) -> Option<Vec<u8>> {
        let options =
            RegionOptions { name: "test".into(), size: 65536, huge_pages: crate::region::HugePages::Never };
        let table = RegionTable::new(vec![Arc::new(Region::create(&options).unwrap())]).unwrap();
        let mut bytes = vec![0; len as usize];
        let target = table.check(0, 0, len).unwrap();
        let whole = packets.write_to(Scalar, slot, target);
        table.check(0, 0, len).unwrap().read(&mut bytes);
        whole.then_some(bytes)
    }

    #[test]
    fn a_packet_of_an_earlier_round_has_no_body() {
        let mut packets = Packets::new();
        let slot = packet(&mut packets, 1, 3000);
        packets.end_round();
        let mut out = [0; 3000];
        let head = packets.head(slot).len();
        assert_eq!(packets.copy_out(slot, &mut out), head);
        assert_eq!(packets.pull_body(slot), Ok(&mut [][..]));
        assert!(packets.lone_body(slot).is_none() && packets.duplicate(slot).is_err());
        assert_eq!(written(&packets, slot, 3000), Some([vec![1; head], vec![0; 3000 - head]].concat()));
        assert!(!packets.pull_head(slot, 310));
        packets.truncate(slot, 200);
        // A packet of this round may ask for one of another's bytes.
        let other = packet(&mut packets, 2, 3000);
        let later = packet(&mut packets, 3, 10);
        packets.share_body(later + 1, other, 0, 100);
        assert_eq!(packets.meta(other).body_len(), 0);
    }

    /// Miri sees whether one's memory is still what it was when another's was handed out.
    #[test]
    fn bodies_of_a_round_lie_beside_each_other() {
        let mut packets = Packets::new();
        let slots = [1, 2, 3].map(|byte| packet(&mut packets, byte, 1000));
        packets.pull_body(slots[1]).unwrap().fill(9);
        let mut out = [0; 1000];
        for (slot, byte) in slots.into_iter().zip([1, 9, 3]) {
            assert_eq!(packets.copy_out(slot, &mut out), 1000);
            assert!(out[128..].iter().all(|read| *read == byte));
        }
    }

    #[test]
    fn what_is_done_to_metadata_is_done_to_no_body() {
        let (mut here, mut there) = (Packets::new(), Packets::new());
        let (long, short) = (packet(&mut here, 1, 3000), packet(&mut there, 2, 200));
        mem::swap(here.meta_mut(long), there.meta_mut(short));
        let mut out = [0; 4000];
        assert_eq!(here.copy_out(long, &mut out), 3000);
        assert_eq!(there.copy_out(short, &mut out), 200);
        // The one says that it is shorter, the other that it is longer than it is.
        assert_eq!((here.meta(long).len(), there.meta(short).len()), (200, 3000));
        assert_eq!(written(&here, long, 200), None);
        assert_eq!(written(&there, short, 3000), Some([vec![2; 200], vec![0; 2800]].concat()));
        assert_eq!(there.pull_body(short).unwrap().len(), 200 - 128);
        here.truncate(long, 190);
        assert_eq!(written(&here, long, 190), Some(vec![1; 190]));
    }

    #[test]
    fn positions_beyond_the_head_area_are_of_no_bytes() {
        let mut packets = Packets::new();
        for (data, end) in [(400, 440), (u16::MAX, 63), (300, 330), (200, 100)] {
            let slot = packet(&mut packets, 1, 60);
            (packets.meta_mut(slot).data, packets.meta_mut(slot).end) = (data, end);
            assert!(packets.head(slot).is_empty());
            let read = written(&packets, slot, 64);
            assert_eq!(read, Some(vec![0; 64]), "{data}..{end}");
        }
    }
}
