//! The slots of one worker.

use super::meta::Meta;
use super::slot::{Holder, Segment, Slot};
use crate::region::RegionTable;
use core::fmt;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Slots per worker. A vector has up to 256 packets; the rest is for copies made by flooding and fragmentation.
pub const SLOTS: usize = 8192;
/// Bytes of a slot's head area: headroom, head and growth. Five cache lines: an odd stride, so that the heads of a
/// vector spread over all sets of the L1 (a 256-byte stride uses a quarter of them and thrashes).
pub const HEAD_AREA: usize = 320;
/// Bytes before the head as it is received, for encapsulation.
pub const HEADROOM: usize = 128;
/// Bytes of a packet that are copied in at most; one line where the packet is no longer than that.
pub const HEAD: usize = 128;

/// Body segments that there is room for between rounds (1 MiB).
const SEGMENTS_KEPT: usize = 1 << 16;

/// Number of a slot. Valid for one round.
pub type SlotId = u16;

/// All slots of the worker are in use: the packet that asked for one must be dropped, with a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no packet slot is free in this round (a worker has {SLOTS})")]
pub struct NoSlot;

/// The system has no memory for a worker's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no memory for a worker's packets, {} MiB (see `ulimit -v` and the limits of its control group)",
    (SLOTS * (HEAD_AREA + size_of::<Slot>())) >> 20
)]
pub struct NoMemory;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct HeadArea(pub(crate) [u8; HEAD_AREA]);

/// The packet slots of one worker, with the memory that the packets of the current round lie in.
pub struct Packets {
    pub(crate) heads: Box<[HeadArea; SLOTS]>,
    pub(crate) metas: Box<[Slot; SLOTS]>,
    pub(crate) used: usize,
    pub(crate) segments: Vec<Segment>,
    pub(crate) scratch: super::scratch::Scratch,
    pub(crate) keep: Vec<Arc<RegionTable>>,
    /// As many as there are loans of this round, and one.
    pub(crate) lent: Option<Arc<()>>,
}

// SAFETY: the raw pointers in `metas` and `segments` point into `scratch` and the mappings held by `keep`, which
// move along with them and may be used from any thread; nothing is bound to the creating thread.
unsafe impl Send for Packets {}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets").field("used", &self.used).finish_non_exhaustive()
    }
}

impl Default for Packets {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
pub(crate) const fn index(slot: SlotId) -> usize {
    slot as usize & (SLOTS - 1)
}

impl Packets {
    /// Slots for one worker. Memory is reserved but untouched until used.
    ///
    /// # Panics
    /// Where there is no memory for them, which [`Packets::try_new`] tells.
    #[must_use]
    pub fn new() -> Self {
        match Self::try_new() {
            Ok(packets) => packets,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Packets::new`].
    ///
    /// # Errors
    /// [`NoMemory`] where the system has none for them.
    pub fn try_new() -> Result<Self, NoMemory> {
        let mut metas = Vec::new();
        metas.try_reserve_exact(SLOTS).map_err(|_| NoMemory)?;
        metas.resize(SLOTS, Slot::new(Meta::new(0)));
        let metas = metas.into_boxed_slice().try_into().map_err(|_| NoMemory)?;
        let heads = <[HeadArea; SLOTS]>::new_box_zeroed().map_err(|_| NoMemory)?;
        let (segments, scratch, keep) = Default::default();
        Ok(Self { heads, metas, used: 0, segments, scratch, keep, lent: None })
    }

    /// Ends the round: frees all slots and releases the memory of bodies, unless it is [lent](Self::lend). Private memory that a burst
    /// made grow returns to the system in the following rounds.
    pub fn end_round(&mut self) {
        self.leave_lent();
        self.used = 0;
        self.segments.clear();
        if self.segments.capacity() > SEGMENTS_KEPT {
            self.segments.shrink_to(SEGMENTS_KEPT);
        }
        self.scratch.reset();
        self.keep.clear();
    }

    /// Bytes of private memory that bodies can lie in without another allocation.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.allocated()
    }

    /// Slots that can still be taken in this round.
    #[must_use]
    #[inline(always)]
    pub fn free(&self) -> usize {
        SLOTS - self.used
    }

    /// Slots taken in this round: the next one has this number.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.used
    }

    /// Takes a slot for an empty packet that came in by (or belongs to) interface `rx_if`.
    ///
    /// # Errors
    /// [`NoSlot`] when all are taken.
    #[inline(always)]
    pub fn take(&mut self, rx_if: u16) -> Result<SlotId, NoSlot> {
        if self.used == SLOTS {
            return Err(NoSlot);
        }
        let slot = self.used as SlotId;
        self.used += 1;
        self.metas[index(slot)] = Slot::new(Meta::new(rx_if));
        Ok(slot)
    }

    /// The whole slot of a packet of this round; `None` for one of an earlier round, whose body may be gone.
    #[inline(always)]
    pub(crate) fn live(&self, slot: SlotId) -> Option<&Slot> {
        let at = index(slot);
        (at < self.used).then(|| &self.metas[at])
    }

    /// [`live`](Self::live), to change.
    #[inline(always)]
    pub(crate) fn live_mut(&mut self, slot: SlotId) -> Option<&mut Slot> {
        let at = index(slot);
        (at < self.used).then(|| &mut self.metas[at])
    }

    /// Metadata of a packet.
    #[must_use]
    #[inline(always)]
    pub fn meta(&self, slot: SlotId) -> &Meta {
        &self.metas[index(slot)].meta
    }

    /// Metadata of a packet, to change.
    #[must_use]
    #[inline(always)]
    pub fn meta_mut(&mut self, slot: SlotId) -> &mut Meta {
        &mut self.metas[index(slot)].meta
    }

    /// Metadata and head area of a packet at once.
    #[must_use]
    #[inline(always)]
    pub fn parts_mut(&mut self, slot: SlotId) -> (&mut Meta, &mut [u8; HEAD_AREA]) {
        (&mut self.metas[index(slot)].meta, &mut self.heads[index(slot)].0)
    }

    /// The private head area of a packet.
    #[must_use]
    #[inline(always)]
    pub fn area(&self, slot: SlotId) -> &[u8; HEAD_AREA] {
        &self.heads[index(slot)].0
    }

    /// The bytes of a packet that lie in its head, from the current header on.
    #[must_use]
    #[inline(always)]
    pub fn head(&self, slot: SlotId) -> &[u8] {
        let m = self.meta(slot);
        self.area(slot).get(m.data as usize..m.end as usize).unwrap_or_default()
    }

    /// [`Packets::head`], to change.
    #[must_use]
    #[inline(always)]
    pub fn head_mut(&mut self, slot: SlotId) -> &mut [u8] {
        let (m, area) = self.parts_mut(slot);
        area.get_mut(m.data as usize..m.end as usize).unwrap_or_default()
    }

    /// The packet from the current header on, where all of it is in its head, no longer than a cache line and not empty.
    #[inline(always)]
    pub(crate) fn short(&self, slot: SlotId) -> Option<&[u8]> {
        let head = self.head(slot);
        let short = (head.len().wrapping_sub(1) < 64) & (self.metas[index(slot)].first_len == 0);
        short.then_some(head)
    }

    /// A header at position `at` of the head area, if it lies in the head whole.
    #[must_use]
    #[inline(always)]
    pub fn header<T>(&self, slot: SlotId, at: u16) -> Option<&T>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let end = self.meta(slot).end as usize;
        T::ref_from_prefix(self.area(slot).get(at as usize..end)?).ok().map(|(header, _)| header)
    }

    /// [`Packets::header`], to change.
    #[must_use]
    #[inline(always)]
    pub fn header_mut<T>(&mut self, slot: SlotId, at: u16) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned,
    {
        let (m, area) = self.parts_mut(slot);
        T::mut_from_prefix(area.get_mut(at as usize..m.end as usize)?).ok().map(|(header, _)| header)
    }

    /// Moves the current header `bytes` ahead: takes a header off. False, and nothing changed, where the head is
    /// shorter than that.
    #[must_use]
    #[inline(always)]
    pub fn strip(&mut self, slot: SlotId, bytes: u16) -> bool {
        let m = self.meta_mut(slot);
        let fits = m.data + bytes <= m.end;
        if fits {
            m.data += bytes;
        }
        fits
    }

    /// Makes room for `bytes` before the current header and returns them to be written; they hold what lay there
    /// before. `None` where the headroom is used up.
    #[must_use]
    #[inline(always)]
    pub fn prepend(&mut self, slot: SlotId, bytes: u16) -> Option<&mut [u8]> {
        let (m, area) = self.parts_mut(slot);
        let data = m.data.checked_sub(bytes)?;
        m.data = data;
        area.get_mut(data as usize..(data + bytes) as usize)
    }

    /// Writes `bytes` behind the head. For packets that are made here and have no body.
    ///
    /// # Errors
    /// [`NoSlot`] never; false where the head area is full or the packet has a body.
    #[must_use]
    pub fn append(&mut self, slot: SlotId, bytes: &[u8]) -> bool {
        let (m, area) = self.parts_mut(slot);
        let Some(room) = area.get_mut(m.end as usize..m.end as usize + bytes.len()) else { return false };
        if m.body_len != 0 {
            return false;
        }
        room.copy_from_slice(bytes);
        m.end += bytes.len() as u16;
        true
    }

    /// Another packet with the same bytes: its head is copied, its body shared.
    ///
    /// # Errors
    /// [`NoSlot`] when all are taken, or the packet is none of this round.
    pub fn duplicate(&mut self, slot: SlotId) -> Result<SlotId, NoSlot> {
        // The body is shared from now on, so neither of the two may change it.
        let shared = self.live_mut(slot).ok_or(NoSlot)?;
        shared.holder = Holder::Shared;
        let whole = *shared;
        let copy = self.take(0)?;
        self.metas[index(copy)] = whole;
        let range = whole.meta.data.min(whole.meta.l2) as usize..whole.meta.end as usize;
        let [source, target] = self.heads.get_disjoint_mut([index(slot), index(copy)]).map_err(|_| NoSlot)?;
        if let (Some(s), Some(t)) = (source.0.get(range.clone()), target.0.get_mut(range)) {
            t.copy_from_slice(s);
        }
        Ok(copy)
    }
}
