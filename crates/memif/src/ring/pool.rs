//! Buffers that the interfaces of a trust group share: what lets a packet go from one peer to another without being copied.
//!
//! Every buffer of a pool stands in exactly one slot of one ring, or is free. A packet that leaves by another ring of the group is not
//! copied: its buffer and the empty one of that ring's slot change places (`pooled`). The slot that it came in by can't be told at
//! once, so the pool notes what it gets instead; it looks when it is given back to the peer.
//!
//! Which buffer a slot has stands here, in private memory. Peers see the same in descriptors, and can write what they like there.

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicU32;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use memory::region::{HugePages, Region, RegionOptions};

use super::slots::Addressing;
use super::{Descriptor, Descriptors};
use crate::{Error, InterfaceError};

/// Bytes before a received packet, for a header that is longer when it leaves.
pub(super) const HEADROOM: u32 = 128;

/// No buffer.
const NONE: u32 = u32::MAX;
/// Most buffers: no region holds many more.
const MOST: u32 = 1 << 24;

/// The buffers of a trust group: one region, which all peers of the group map. Each can read and write the packets of all.
#[derive(Debug)]
pub struct Pool {
    group: String,
    region: Arc<Region>,
    buffer_size: u32,
    /// Distance of buffers, in bytes.
    stride: u32,
    free: Mutex<Vec<u32>>,
    /// For each buffer that a received packet lies in: the one that its slot gets instead, or [`NONE`]. Only whoever holds the packet
    /// writes here, and then the slot's queue, in the same thread.
    instead: Box<[AtomicU32]>,
}

impl Pool {
    /// A pool of so many buffers for packets of `buffer_size` bytes (longer ones are chained), for the trust group of this name.
    ///
    /// # Errors
    /// [`Error::Setting`] if there are none or too many, [`Error::Region`].
    pub fn new(
        group: &str,
        buffers: u32,
        buffer_size: u32,
        huge_pages: HugePages,
    ) -> Result<Arc<Self>, InterfaceError> {
        let pool = Self::allocate(group, buffers, buffer_size, huge_pages);
        pool.map_err(|cause| InterfaceError { interface: format!("trust group {group}"), cause })
    }

    fn allocate(
        group: &str,
        buffers: u32,
        buffer_size: u32,
        huge_pages: HugePages,
    ) -> Result<Arc<Self>, Error> {
        let setting = |setting, value: u32, allowed| Error::Setting { setting, value: value.into(), allowed };
        if !(64..=65_536).contains(&buffer_size) {
            return Err(setting("buffer size", buffer_size, "64..=65536"));
        }
        if !(1..=MOST).contains(&buffers) {
            return Err(setting("buffers of a pool", buffers, "1..=16777216"));
        }
        // An odd number of cache lines: see `layout`.
        let stride = (HEADROOM + buffer_size).next_multiple_of(64) | 64;
        let size = u64::from(buffers) * u64::from(stride);
        let region = Region::create(&RegionOptions { name: format!("pool {group}"), size, huge_pages })?;
        let sealed = region.keep_mappable();
        sealed.map_err(|errno| Error::System { call: "fcntl(F_ADD_SEALS)", errno })?;
        Ok(Arc::new(Self {
            group: group.into(),
            region: Arc::new(region),
            buffer_size,
            stride,
            // The first are taken first.
            free: Mutex::new((0..buffers).rev().collect()),
            instead: (0..buffers).map(|_| AtomicU32::new(NONE)).collect(),
        }))
    }

    /// Name of the trust group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Bytes of a buffer.
    #[must_use]
    pub const fn buffer_size(&self) -> u32 {
        self.buffer_size
    }

    /// Buffers in no ring.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All buffers.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.instead.len()
    }

    /// The memory.
    #[must_use]
    pub const fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// A buffer for each slot of a ring; the pool is the region of this index.
    ///
    /// # Errors
    /// [`Error::Pool`].
    pub(crate) fn slots(self: &Arc<Self>, region: u16, slots: u16) -> Result<PoolSlots, Error> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = free.len().checked_sub(slots.into()) else {
            let (group, wanted, free) = (self.group.clone(), slots.into(), free.len());
            return Err(Error::Pool { group, wanted, free });
        };
        let buffers = free.drain(first..).map(AtomicU32::new).collect();
        Ok(PoolSlots { pool: Arc::clone(self), region, buffers })
    }
}

/// The buffers in the slots of one ring. They go back to the pool with it.
#[derive(Debug)]
pub struct PoolSlots {
    pool: Arc<Pool>,
    region: u16,
    buffers: Box<[AtomicU32]>,
}

impl PoolSlots {
    /// Index of the region they lie in.
    pub(super) const fn region(&self) -> u16 {
        self.region
    }

    /// Bytes of a buffer.
    pub(super) fn capacity(&self) -> u32 {
        self.pool.buffer_size
    }

    /// For loops.
    #[inline(always)]
    pub(super) fn addressing(&self) -> PoolAddressing<'_> {
        let Pool { stride, buffer_size, .. } = *self.pool;
        PoolAddressing { buffers: &self.buffers, region: self.region, stride, capacity: buffer_size }
    }

    fn slot(&self, index: u16) -> &AtomicU32 {
        &self.buffers[usize::from(index) & (self.buffers.len() - 1)]
    }

    /// A received packet's slot is given back to the peer: it keeps its buffer, unless the packet went on in it.
    #[inline]
    pub(super) fn renew(&self, index: u16) {
        let slot = self.slot(index);
        let noted = &self.pool.instead[slot.load(Ordering::Relaxed) as usize];
        // Looked at first: exchanging costs a locked instruction, which a packet that was copied is spared.
        if noted.load(Ordering::Relaxed) == NONE {
            return;
        }
        // A buffer that has gone round may be in another worker's ring by now, before this one has come here: only one of the two
        // gets what stands for it.
        let instead = noted.swap(NONE, Ordering::Relaxed);
        if instead != NONE {
            slot.store(instead, Ordering::Relaxed);
        }
    }

    /// The buffer in which something received begins at `offset` of the pool's region, with room before it; `None` if the
    /// packet has gone on already.
    #[inline]
    pub(super) fn buffer_of(&self, offset: u32) -> Option<u32> {
        let buffer = offset / self.pool.stride;
        let untouched = self.pool.instead.get(buffer as usize)?.load(Ordering::Relaxed) == NONE;
        untouched.then_some(buffer)
    }

    /// First byte of a buffer, as an offset in the region.
    #[inline]
    pub(super) fn begin(&self, buffer: u32) -> u32 {
        buffer * self.pool.stride
    }

    /// Puts `buffer`, with a packet in it, into the slot; what the slot had goes where `buffer` came from.
    #[inline]
    pub(super) fn exchange(&self, index: u16, buffer: u32) {
        let slot = self.slot(index);
        self.pool.instead[buffer as usize].store(slot.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.store(buffer, Ordering::Relaxed);
    }
}

impl Drop for PoolSlots {
    fn drop(&mut self) {
        for index in 0..self.buffers.len() {
            self.renew(index as u16);
        }
        let buffers = self.buffers.iter().map(|buffer| buffer.load(Ordering::Relaxed));
        self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).extend(buffers);
    }
}

/// [`PoolSlots`] as loops need them.
#[derive(Clone, Copy)]
pub(super) struct PoolAddressing<'p> {
    buffers: &'p [AtomicU32],
    region: u16,
    stride: u32,
    capacity: u32,
}

impl Addressing for PoolAddressing<'_> {
    #[inline(always)]
    fn received(self, ring: Descriptors<'_>, index: u16) -> Descriptor {
        let theirs = ring.get(index);
        Descriptor { flags: theirs.flags, length: theirs.length, ..self.buffer(ring, index) }
    }

    #[inline(always)]
    fn buffer(self, _ring: Descriptors<'_>, index: u16) -> Descriptor {
        let buffer = self.buffers[usize::from(index) & (self.buffers.len() - 1)].load(Ordering::Relaxed);
        let offset = buffer * self.stride + HEADROOM;
        Descriptor { flags: 0, region: self.region, length: self.capacity, offset }
    }

    #[inline(always)]
    fn fill(self, ring: Descriptors<'_>, index: u16, d: Descriptor) {
        // The buffer that left before may have been another, or have begun elsewhere.
        ring.set(index, d);
    }

    #[inline(always)]
    fn limit(self) -> u32 {
        self.capacity
    }
}

#[cfg(all(test, loom))]
mod model;
