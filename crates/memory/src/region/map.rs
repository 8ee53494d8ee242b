//! A mapped memfd, and the checks a peer's memfd has to pass before it becomes one.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{
    FileType, SealFlags, SeekFrom, Stat, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, seek,
};
use rustix::io::Errno;
#[cfg(not(miri))]
use rustix::mm::munmap;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::account::{Account, Entry};
use super::guard::Guard;
use super::{RegionError, punched};

/// Largest region: what a descriptor's 32-bit offset can reach.
pub const MAX_REGION_SIZE: u64 = 1 << 32;

/// Which memory of a peer is taken, by what its owner can still do to it once we have mapped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SealPolicy {
    /// Of which no page can be taken away: only regions with `F_SEAL_SHRINK`, which we then
    /// [seal against the freeing of pages](Region::keep_pages). A file can be mapped once so.
    #[default]
    Require,
    /// Memory that its owner shares with others, too, as trust groups have their pool, and zero-copy clients of VPP theirs on ordinary
    /// pages: only regions with `F_SEAL_SHRINK`, which we leave as they are, so that the next can map them as well. The owner can't truncate
    /// one, but can free its pages: who touches one just then sleeps until all that is freed with it is, tens of milliseconds a GiB,
    /// and the region is [lost](Region::lost) where that [is noticed](super::notices_punched_holes).
    Shared,
    /// Any, also what is not sealed at all, as DPDK's `zero-copy=yes` has it: its owner can truncate it as well, and then it is
    /// [lost](Region::lost) in the midst of an access, which a signal's handler ends.
    Allow,
}

/// The size of an ordinary page. (rustix's way of finding it out doesn't survive valgrind.)
pub(super) fn ordinary_page() -> u64 {
    // SAFETY: only asks.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// `HUGETLBFS_MAGIC`, of linux/magic.h.
const HUGETLBFS: u64 = 0x9584_58f6;

/// Page size of a memfd: 4 KiB, or of its huge pages. Its block size (`st_blksize`) isn't that where shared memory has transparent huge
/// pages: the kernel says 2 MiB then for files of ordinary pages, too.
pub(super) fn page_size(fd: impl AsFd) -> Result<u64, Errno> {
    let system = fstatfs(fd)?;
    // What differs between platforms is the fields' type only.
    let is_huge = system.f_type as u64 & 0xffff_ffff == HUGETLBFS;
    Ok(if is_huge { (system.f_bsize as u64).max(1) } else { ordinary_page() })
}

/// Bytes of a file that have memory, of the 512 that a block has.
pub(super) fn allocated(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

/// Whether some of the first `len` bytes of a file may have no memory yet.
fn has_holes(fd: &OwnedFd, stat: &Stat, page: u64, len: u64) -> bool {
    let whole = u64::try_from(stat.st_size).unwrap_or(0).next_multiple_of(page);
    if allocated(stat) >= whole {
        return false;
    }
    // What comes after them may have none. Huge pages don't say where: there a hole is anywhere.
    page > ordinary_page() || !seek(fd, SeekFrom::Hole(0)).is_ok_and(|hole| hole >= len)
}

/// A mapped memfd. Unmapped and closed when dropped.
#[derive(Debug)]
pub struct Region {
    fd: OwnedFd,
    base: NonNull<u8>,
    /// Bytes that may be used.
    len: u64,
    /// Bytes mapped: `len` rounded up to `page`.
    mapped: usize,
    page: u64,
    /// `None` only while it is dropped.
    guard: Option<Guard>,
    /// Where its holes are accounted for.
    entry: Option<Entry>,
    /// The last field, so that it goes after the descriptor.
    lease: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and lives until the only owner of `base` is
// dropped. No reference into it is ever formed (see the module documentation), so that sharing a `Region`
// shares no Rust place.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; `&Region` gives out numbers and a raw pointer only.
unsafe impl Sync for Region {}

impl Region {
    /// Maps a region that a peer sent, of the size it announced, after checking kind, size and seals of the
    /// file.
    ///
    /// # Errors
    /// [`RegionError::Size`], [`RegionError::NotMemory`], [`RegionError::Truncated`],
    /// [`RegionError::Unsealed`], [`RegionError::Unsealable`], [`RegionError::SealedAgainstWriting`],
    /// [`RegionError::Map`] (for example if the file can't be written). The descriptor is closed then.
    pub fn map(fd: OwnedFd, claimed_size: u64, seals: SealPolicy) -> Result<Self, RegionError> {
        Self::map_on(fd, claimed_size, seals, &Arc::default(), u64::MAX)
    }

    /// The same, where holes go on an account that may have up to `most` bytes, in whole pages. Where [seals](SealPolicy) don't keep holes
    /// from being punched later, that is the [loss](Self::lost) of a region that had none, where it
    /// [is noticed](super::notices_punched_holes); and so is touching a hole among huge pages.
    ///
    /// # Errors
    /// As [`map`](Self::map), and [`RegionError::Holes`].
    pub fn map_on(
        fd: OwnedFd,
        claimed_size: u64,
        seals: SealPolicy,
        account: &Arc<Account>,
        most: u64,
    ) -> Result<Self, RegionError> {
        if !(1..=MAX_REGION_SIZE).contains(&claimed_size) {
            return Err(RegionError::Size(claimed_size));
        }
        let failed = |step| move |errno| RegionError::Map { size: claimed_size, step, errno };
        // Only files of shared memory and of hugetlbfs have seals; a file of a network or FUSE file system,
        // whose attributes and pages could take for ever to come, answers EINVAL.
        let has = fcntl_get_seals(&fd).map_err(RegionError::NotMemory)?;
        let stat = fstat(&fd).map_err(failed("fstat"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(RegionError::NotMemory(Errno::INVAL));
        }
        // Seals before size: once sealed, the size seen next can't get smaller any more.
        if seals != SealPolicy::Allow && !has.contains(SealFlags::SHRINK) {
            return Err(RegionError::Unsealed);
        }
        if has.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(RegionError::SealedAgainstWriting);
        }
        let stat = fstat(&fd).map_err(failed("fstat"))?;
        let actual = u64::try_from(stat.st_size).unwrap_or(0);
        if actual < claimed_size {
            return Err(RegionError::Truncated { claimed: claimed_size, actual });
        }
        let page = page_size(&fd).map_err(failed("fstatfs"))?;
        let mut region = Self::map_file(fd, claimed_size, page).map_err(failed("mmap"))?;
        let kept = seals == SealPolicy::Require;
        let mut counts = true;
        if kept {
            region.keep_pages().map_err(|_| RegionError::Unsealable)?;
            counts = region.drop_behind_end().is_ok();
        }
        // What is there now stays, where it is kept.
        let stat = fstat(&region.fd).map_err(failed("fstat"))?;
        let holes = !counts || has_holes(&region.fd, &stat, page, claimed_size);
        // Who has huge pages allocates them before use, so that nobody needs to touch a hole among them: made by us, again and again, two
        // megabytes would have to be cleared for a packet. Without holes, all is the peer's and stays so. Where that can't be had, what the
        // peer frees is made anew by us, but for what is kept.
        let forbid = || punched::forbid(region.base.as_ptr() as usize, region.mapped).is_ok();
        let no_holes = ((!holes || region.huge()) && forbid()) || (kept && !holes);
        if holes && !no_holes {
            let most = most.checked_next_multiple_of(region.page).unwrap_or(u64::MAX);
            region.entry = Some(account.enter(region.mapped as u64, most)?);
        }
        Ok(region)
    }

    /// Maps `len` bytes of a file that is known to be at least that long and to consist of pages of `page`
    /// bytes.
    pub(super) fn map_file(fd: OwnedFd, len: u64, page: u64) -> Result<Self, Errno> {
        let mapped = usize::try_from(len.next_multiple_of(page)).map_err(|_| Errno::NOMEM)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so that the kernel picks an unused one and no existing memory is
        // touched.
        let base = unsafe { mmap(ptr::null_mut(), mapped, protection, MapFlags::SHARED, &fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        // Owned from here on, so that an error unmaps it.
        let mut region = Self { fd, base, len, mapped, page, guard: None, entry: None, lease: None };
        region.guard = Some(Guard::new(base.as_ptr() as usize, mapped)?);
        Ok(region)
    }

    /// Zeros on the heap instead of a file; the descriptor is none of memory.
    #[cfg(miri)]
    pub(super) fn on_heap(len: u64) -> Result<Self, Errno> {
        use rustix::event::{EventfdFlags, eventfd};
        let page = 4096;
        let mapped = usize::try_from(len.next_multiple_of(page)).map_err(|_| Errno::NOMEM)?;
        let layout = std::alloc::Layout::from_size_align(mapped, page as usize).map_err(|_| Errno::NOMEM)?;
        // SAFETY: regions are not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Self {
            fd: eventfd(0, EventfdFlags::CLOEXEC)?,
            base,
            len: mapped as u64,
            mapped,
            page,
            guard: None,
            entry: None,
            lease: None,
        })
    }

    /// With something that is kept until the region is unmapped and closed, and dropped then: what it has of some bound, say.
    #[must_use]
    pub fn with_lease(mut self, lease: impl Any + Send + Sync) -> Self {
        self.lease = Some(Box::new(lease));
        self
    }

    /// Seals the file: from here on no page of it can be freed, by whomever, it has the size it has, and nobody can map it to write who
    /// hasn't; who has goes on writing (`F_SEAL_GROW`, `F_SEAL_FUTURE_WRITE`).
    ///
    /// # Errors
    /// [`Errno::PERM`] where it is sealed against further seals.
    pub fn keep_pages(&self) -> Result<(), Errno> {
        if cfg!(miri) {
            return Ok(());
        }
        let seals = SealFlags::GROW | SealFlags::FUTURE_WRITE;
        match fcntl_add_seals(&self.fd, seals) {
            // Somebody else was quicker, with these as well.
            Err(Errno::PERM) if fcntl_get_seals(&self.fd)?.contains(seals) => Ok(()),
            added => added,
        }
    }

    /// Frees what the file has behind its end, which would be counted in the place of holes. Where it is sealed against growing, nothing comes there again,
    /// and the size that it has is one that it may be given.
    fn drop_behind_end(&self) -> Result<(), Errno> {
        ftruncate(&self.fd, u64::try_from(fstat(&self.fd)?.st_size).unwrap_or(0))
    }

    /// Seals the file against further seals: for memory that several map, one after the other. One that [kept its
    /// pages](Self::keep_pages) would keep out the next.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn keep_mappable(&self) -> Result<(), Errno> {
        if cfg!(miri) {
            return Ok(());
        }
        fcntl_add_seals(&self.fd, SealFlags::SEAL)
    }

    /// The memfd, to be sent to a peer.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Size in bytes, as announced to or by the peer.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Never: a region has at least one byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether it stands on huge pages (hugetlbfs).
    #[must_use]
    pub fn huge(&self) -> bool {
        self.page > ordinary_page()
    }

    /// Whether the peer took pages away, by truncating its file or by punching holes into it: zeros have taken the place of the whole region, and nothing in it is
    /// shared any more.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::lost)
    }

    /// Whether an address lies in the mapping.
    pub(crate) fn contains(&self, address: *const u8) -> bool {
        (address.addr()).wrapping_sub(self.base.as_ptr().addr()) < self.len as usize
    }

    /// First byte of the mapping; valid for [`len`](Self::len) bytes as long as `self` lives.
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped at [`base`](Self::base), a multiple of the page size.
    #[cfg(not(miri))]
    pub(crate) const fn mapped_len(&self) -> usize {
        self.mapped
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Before the address can be somebody else's.
        self.guard = None;
        #[cfg(miri)]
        // SAFETY: as `on_heap` allocated it: whole pages.
        unsafe {
            let layout = std::alloc::Layout::from_size_align_unchecked(self.mapped, self.page as usize);
            std::alloc::dealloc(self.base.as_ptr(), layout);
        }
        #[cfg(not(miri))]
        // SAFETY: base and mapped are what mmap gave and nobody else unmaps them; whoever holds pointers into
        // the region (`RegionTable`, through it `CheckedRange` and `memif::ring`) keeps it alive. An error
        // can't be acted upon.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
        if let Some(entry) = self.entry.take() {
            entry.settle(&self.fd);
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
