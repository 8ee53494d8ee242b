//! Creating a region of our own: memfd, huge pages if they can be had, every page allocated, sealed.

use rustix::io::Errno;
#[cfg(not(miri))]
use rustix::{
    fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create},
    mm::{Advice, madvise},
};

use super::map::MAX_REGION_SIZE;
#[cfg(not(miri))]
use super::map::page_size;
use super::{Region, RegionError};

/// Whether a region should stand on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Ordinary pages.
    Never,
    /// Huge pages if enough of them are free and allowed, ordinary pages otherwise.
    #[default]
    Try,
    /// Huge pages or an error.
    Require,
}

/// How to create a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionOptions {
    /// Name shown in `/proc/<pid>/maps`; at most 249 bytes, no NUL.
    pub name: String,
    /// Size in bytes; rounded up to whole pages.
    pub size: u64,
    /// Which pages to take.
    pub huge_pages: HugePages,
}

/// A failed step: its name and what the kernel said.
type Failed = (&'static str, Errno);

impl Region {
    /// Creates a region, allocates all its pages and seals it against growing and shrinking, so
    /// that neither this process nor one that gets the descriptor can fault on it later.
    ///
    /// Huge pages are probed by allocating every one of them: a container may see free huge pages that its
    /// cgroup does not allow, and would otherwise be killed at the first touch.
    ///
    /// # Errors
    /// [`RegionError::Size`], [`RegionError::NoHugePages`] (only with [`HugePages::Require`]),
    /// [`RegionError::Create`].
    pub fn create(options: &RegionOptions) -> Result<Self, RegionError> {
        let RegionOptions { name, size, huge_pages } = options;
        if !(1..=MAX_REGION_SIZE).contains(size) {
            return Err(RegionError::Size(*size));
        }
        if *huge_pages != HugePages::Never {
            match create(name, *size, true) {
                Ok(region) => return Ok(region),
                Err((step, errno)) if *huge_pages == HugePages::Require => {
                    return Err(RegionError::NoHugePages { name: name.clone(), size: *size, step, errno });
                }
                Err(_) => {}
            }
        }
        create(name, *size, false).map_err(|(step, errno)| RegionError::Create {
            name: name.clone(),
            size: *size,
            step,
            errno,
        })
    }
}

/// Miri has no memfds: memory of its own, which is what it can check accesses to.
#[cfg(miri)]
fn create(_name: &str, size: u64, huge: bool) -> Result<Region, Failed> {
    if huge { Err(("memfd_create", Errno::NOSYS)) } else { Region::on_heap(size).map_err(|e| ("alloc", e)) }
}

#[cfg(not(miri))]
fn create(name: &str, size: u64, huge: bool) -> Result<Region, Failed> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB;
    }
    let fd = memfd_create(name, flags).map_err(|e| ("memfd_create", e))?;
    // 4 KiB, or whatever the system's default huge page is.
    let page = page_size(&fd).map_err(|e| ("fstatfs", e))?;
    let size = size.next_multiple_of(page);
    ftruncate(&fd, size).map_err(|e| ("ftruncate", e))?;
    let region = Region::map_file(fd, size, page).map_err(|e| ("mmap", e))?;
    allocate(&region, huge)?;
    // Others may add theirs: a server does, see `SealPolicy`.
    let seals = SealFlags::SHRINK | SealFlags::GROW;
    fcntl_add_seals(region.fd(), seals).map_err(|e| ("F_ADD_SEALS", e))?;
    Ok(region)
}

#[cfg(not(miri))]
/// Allocates every page and enters it into our page table; says so instead of SIGBUS where there are not
/// enough.
fn allocate(region: &Region, huge: bool) -> Result<(), Failed> {
    let base = region.base().as_ptr().cast();
    if !huge {
        // Transparent huge pages, where the administrator lets shared memory have them. A wish: failing is
        // fine. SAFETY: base..base+mapped_len is one mapping of ours, and the advice does not change its
        // contents.
        let _ = unsafe { madvise(base, region.mapped_len(), Advice::LinuxHugepage) };
    }
    // SAFETY: as above; populating pages of a fresh mapping does not change its contents.
    match unsafe { madvise(base, region.mapped_len(), Advice::LinuxPopulateWrite) } {
        Ok(()) => Ok(()),
        // Before Linux 5.14: allocate in the file; page tables are filled at the first touch, which can't
        // fail then.
        Err(Errno::INVAL) => fallocate(region.fd(), FallocateFlags::empty(), 0, region.mapped_len() as u64)
            .map_err(|e| ("fallocate", e)),
        Err(errno) => Err(("allocating every page", errno)),
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use rustix::fs::fcntl_get_seals;

    use super::*;

    fn options(size: u64, huge_pages: HugePages) -> RegionOptions {
        RegionOptions { name: "quiver-test".into(), size, huge_pages }
    }

    #[test]
    fn is_sealed_and_whole_pages() {
        let region = Region::create(&options(5000, HugePages::Never)).unwrap();
        assert_eq!(region.len(), 8192);
        assert!(!region.huge());
        assert_eq!(fcntl_get_seals(region.fd()).unwrap(), SealFlags::SHRINK | SealFlags::GROW);
        assert!(ftruncate(region.fd(), 4096).is_err());
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for size in [0, MAX_REGION_SIZE + 1, u64::MAX] {
            assert_eq!(Region::create(&options(size, HugePages::Try)).unwrap_err(), RegionError::Size(size));
        }
        let mut named = options(4096, HugePages::Never);
        named.name = "a\0b".into();
        assert!(matches!(
            Region::create(&named).unwrap_err(),
            RegionError::Create { step: "memfd_create", .. }
        ));
    }

    /// There are never 4 GiB of huge pages free on a machine that runs tests; if there are, the region is a
    /// valid one.
    #[test]
    fn too_few_huge_pages_is_an_error_when_required_and_a_fallback_otherwise() {
        match Region::create(&options(MAX_REGION_SIZE, HugePages::Require)) {
            Ok(region) => assert!(region.huge()),
            Err(error) => assert!(matches!(error, RegionError::NoHugePages { .. }), "{error}"),
        }
        let region = Region::create(&options(4096, HugePages::Try)).unwrap();
        assert_eq!(region.len() > 4096, region.huge());
    }
}
