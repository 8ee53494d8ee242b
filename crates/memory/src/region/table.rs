//! The regions of one connection.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::guard::any_lost;
use super::{CheckedRange, Region, RegionError, prefetch_read, prefetch_write};

/// The immutable list of regions of one connection, shared by `Arc`.
///
/// Whoever receives counts itself in and out in each round: queues of different workers have clones, each on lines of its own.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct RegionTable {
    /// What the hot path needs of each region, dense.
    extents: Box<[Extent]>,
    /// Keeps the mappings alive.
    regions: Box<[Arc<Region>]>,
}

#[derive(Debug, Clone, Copy)]
struct Extent {
    base: NonNull<u8>,
    len: u64,
}

// SAFETY: the bases point into mappings that `regions` keeps alive, and are used as addresses only; see
// `Region`.
unsafe impl Send for RegionTable {}
// SAFETY: as for `Send`.
unsafe impl Sync for RegionTable {}

impl RegionTable {
    /// A table of these regions; a region's index is its position.
    ///
    /// # Errors
    /// [`RegionError::TooMany`]: indices are 16 bits.
    pub fn new(regions: Vec<Arc<Region>>) -> Result<Self, RegionError> {
        if regions.len() > 1 << 16 {
            return Err(RegionError::TooMany(regions.len()));
        }
        let extents = regions.iter().map(|r| Extent { base: r.base(), len: r.len() }).collect();
        Ok(Self { extents, regions: regions.into() })
    }

    /// The regions, by index.
    #[must_use]
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// What loops need of the table, to be kept in registers.
    #[inline(always)]
    #[must_use]
    pub fn extents(&self) -> Extents<'_> {
        Extents(&self.extents)
    }

    /// See [`Extents::check`].
    #[inline(always)]
    #[must_use]
    pub fn check(&self, region: u16, offset: u32, len: u32) -> Option<CheckedRange<'_>> {
        self.extents().check(region, offset, len)
    }

    /// Whether one of the regions is [lost](Region::lost).
    #[inline(always)]
    #[must_use]
    pub fn lost(&self) -> bool {
        any_lost() && self.regions.iter().any(|region| region.lost())
    }
}

/// Where one region of a table lies: what a loop keeps in registers that checks many offsets at once.
#[derive(Debug, Clone, Copy)]
pub struct Span<'t>(Extent, PhantomData<&'t RegionTable>);

impl Span<'_> {
    /// Greatest offset from which `len` bytes lie inside. `None`: not even from 0 on.
    #[inline(always)]
    #[must_use]
    pub fn last_offset(self, len: u32) -> Option<u32> {
        let last = self.0.len.checked_sub(len.into())?;
        Some(u32::try_from(last).unwrap_or(u32::MAX))
    }

    /// The address of an offset, which isn't checked: for any that is above [`last_offset`](Self::last_offset) a mere hint.
    #[inline(always)]
    #[must_use]
    pub fn address(self, offset: u32) -> *mut u8 {
        self.0.base.as_ptr().wrapping_add(offset as usize)
    }
}

/// Where the regions of a table lie.
#[derive(Debug, Clone, Copy)]
pub struct Extents<'t>(&'t [Extent]);

impl<'t> Extents<'t> {
    /// The range, if that region exists and holds all of it. All three values may come from a peer.
    #[inline(always)]
    #[must_use]
    pub fn check(self, region: u16, offset: u32, len: u32) -> Option<CheckedRange<'t>> {
        let extent = self.0.get(usize::from(region))?;
        if u64::from(offset) + u64::from(len) > extent.len {
            return None;
        }
        // SAFETY: offset + len, computed without overflow in 64 bits, is at most the length of the mapping at
        // `base`, so that the address is inside it (or one past its end, for len 0); the mapping lives as
        // long as the table.
        Some(unsafe { CheckedRange::new(extent.base.add(offset as usize), len) })
    }

    /// That region, if it exists.
    #[inline(always)]
    #[must_use]
    pub fn span(self, region: u16) -> Option<Span<'t>> {
        Some(Span(*self.0.get(usize::from(region))?, PhantomData))
    }

    /// Prefetches a line to be read soon. A hint: harmless for any values.
    #[inline(always)]
    pub fn prefetch_read(self, region: u16, offset: u32) {
        if let Some(extent) = self.0.get(usize::from(region)) {
            prefetch_read(extent.base.as_ptr().wrapping_add(offset as usize));
        }
    }

    /// Prefetches a line to be written soon. A hint: harmless for any values.
    #[inline(always)]
    pub fn prefetch_write(self, region: u16, offset: u32) {
        if let Some(extent) = self.0.get(usize::from(region)) {
            prefetch_write(extent.base.as_ptr().wrapping_add(offset as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HugePages, RegionOptions};
    use super::*;

    fn table(sizes: &[u64]) -> RegionTable {
        let region = |&size: &u64| {
            let options = RegionOptions { name: "test".into(), size, huge_pages: HugePages::Never };
            Arc::new(Region::create(&options).unwrap())
        };
        RegionTable::new(sizes.iter().map(region).collect()).unwrap()
    }

    #[test]
    fn only_what_lies_inside_is_given_out() {
        let table = table(&[4096, 8192]);
        for (region, offset, len, inside) in [
            (0, 0, 4096, true),
            (0, 4095, 1, true),
            (0, 4096, 0, true),
            (0, 4096, 1, false),
            (0, 1, 4096, false),
            (0, u32::MAX, u32::MAX, false),
            (0, 4095, u32::MAX, false),
            (1, 8191, 1, true),
            (1, 4096, 4097, false),
            (2, 0, 0, false),
            (u16::MAX, 0, 1, false),
        ] {
            assert_eq!(table.check(region, offset, len).is_some(), inside, "{region} {offset} {len}");
        }
    }

    #[test]
    fn copies_stop_at_the_end_of_the_range() {
        let table = table(&[4096]);
        let range = table.check(0, 4092, 4).unwrap();
        assert_eq!(range.write(b"abcdef"), 4);
        assert_eq!(range.write_at(2, b"XYZ"), 2);
        assert_eq!(range.write_at(9, b"XYZ"), 0);
        let mut bytes = [b'.'; 6];
        assert_eq!(range.read(&mut bytes), 4);
        assert_eq!(&bytes, b"abXY..");
        assert_eq!(range.read_at(3, &mut bytes), 1);
        assert_eq!(range.read_at(u32::MAX, &mut bytes), 0);
        assert!(range.part(2, 2).is_some() && range.part(2, 3).is_none() && range.part(5, 0).is_none());
        assert!(range.part(u32::MAX, u32::MAX).is_none());
    }

    #[test]
    fn ranges_may_overlap() {
        let table = table(&[4096]);
        table.check(0, 0, 6).unwrap().write(b"abcdef");
        table.check(0, 0, 4).unwrap().copy_to(table.check(0, 2, 9).unwrap());
        let mut bytes = [0; 6];
        table.check(0, 0, 6).unwrap().read(&mut bytes);
        assert_eq!(&bytes, b"ababcd");
    }

    #[test]
    fn prefetches_are_harmless_for_any_values() {
        let table = table(&[4096]);
        for (region, offset) in [(0, 0), (0, u32::MAX), (7, 12), (u16::MAX, u32::MAX)] {
            table.extents().prefetch_read(region, offset);
            table.extents().prefetch_write(region, offset);
        }
    }
}
