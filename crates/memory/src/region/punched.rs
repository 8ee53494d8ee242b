//! Pages that a peer frees while its region is mapped.
//!
//! No seal but those against writing keeps the owner of a file from punching holes into it (`FALLOC_FL_PUNCH_HOLE`), and these can't be had
//! where others are to map it later ([`SealPolicy::Shared`](super::SealPolicy)). Whoever touches such
//! a page next makes it anew and pays for it: us, for a peer that had allocated everything before it came. With userfaultfd the kernel
//! answers our touch of a page that isn't there with SIGBUS instead, and the region is [lost](super::Region::lost). A page that is there
//! costs nothing more than before. No privilege is needed (Linux 5.11), but there are seccomp profiles that refuse the system call.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
/// No thread answers faults: they are signals at once, also those in system calls, which fail with `EFAULT`.
const UFFD_FEATURE_SIGBUS: u64 = 1 << 7;
/// What needs no privilege: faults of the kernel's own accesses can't be held up.
const UFFD_USER_MODE_ONLY: libc::c_int = 1;

/// One for the process: a mapping that is registered stays so until it is unmapped.
static USERFAULT: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();

/// Has every touch of a page of this mapping that its file doesn't have be a SIGBUS.
///
/// # Errors
/// What the kernel says where that can't be had.
pub(super) fn forbid(base: usize, len: usize) -> Result<(), Errno> {
    let userfault = USERFAULT.get_or_init(open).as_ref().map_err(|errno| *errno)?;
    let mode = UFFDIO_REGISTER_MODE_MISSING;
    let mut register = Register { start: base as u64, len: len as u64, mode, ioctls: 0 };
    // SAFETY: the argument is what the request takes. Of the memory in the range only faults are affected.
    let done = unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_REGISTER, &raw mut register) };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// Whether such pages are noticed: not where the process may have no userfaultfd.
///
/// # Errors
/// What the kernel says then.
pub fn notices_punched_holes() -> Result<(), Errno> {
    USERFAULT.get_or_init(open).as_ref().map(|_| ()).map_err(|errno| *errno)
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
    // SAFETY: takes flags and gives a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last)?;
    // SAFETY: it was made just now, and nobody else has it.
    let userfault = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api = Api { api: UFFD_API, features: UFFD_FEATURE_SIGBUS, ioctls: 0 };
    // SAFETY: the argument is what the request takes.
    let done = unsafe { libc::ioctl(userfault.as_raw_fd(), UFFDIO_API, &raw mut api) };
    if done == 0 { Ok(userfault) } else { Err(last()) }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use rustix::fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
    };

    use super::super::{Account, Region, RegionError, RegionTable, SealPolicy};
    use super::*;

    const SIZE: u64 = 1 << 20;

    /// A region whose pages are all there, and their owner's descriptor.
    fn allocated(spare: u64) -> (OwnedFd, Arc<Region>, RegionTable) {
        let fd = memfd_create("peer", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, SIZE).unwrap();
        match spare {
            0 => fallocate(&fd, FallocateFlags::empty(), 0, SIZE).unwrap(),
            // Behind its end: as many pages as it should have, but not where they should be.
            _ => fallocate(&fd, FallocateFlags::KEEP_SIZE, SIZE, spare).unwrap(),
        }
        let region = Region::map(fd.try_clone().unwrap(), SIZE, SealPolicy::Allow).unwrap();
        let region = Arc::new(region);
        let table = RegionTable::new(vec![Arc::clone(&region)]).unwrap();
        (fd, region, table)
    }

    fn blocks(fd: &OwnedFd) -> i64 {
        rustix::fs::fstat(fd).unwrap().st_blocks
    }

    fn left_out() -> bool {
        let refused = notices_punched_holes().err();
        if let Some(errno) = refused {
            // Not by a macro of the test harness's, which shows nothing of tests that pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED: userfaultfd: {errno}");
        }
        refused.is_some()
    }

    #[test]
    fn a_region_with_punched_holes_is_lost_and_not_filled_again() {
        if left_out() {
            return;
        }
        let (theirs, region, table) = allocated(0);
        let (_kept, other, _table) = allocated(0);
        let range = table.check(0, 70_000, 5).unwrap();
        range.write(b"hello");
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&theirs, punch, 0, SIZE / 2).unwrap();
        let half = blocks(&theirs);
        // What is still there can be used.
        let there = table.check(0, 1_000_000, 5).unwrap();
        there.write(b"there");
        assert!(!region.lost());
        range.write(b"never");
        assert!(region.lost() && !other.lost());
        assert_eq!(blocks(&theirs), half, "we have paid for a page");
    }

    #[test]
    fn pages_behind_the_end_of_a_file_hide_no_holes() {
        // Where they are kept from coming again, there is no need to notice.
        let (account, behind) = (Arc::new(Account::default()), FallocateFlags::KEEP_SIZE);
        for (most, refused) in [(SIZE - 4096, true), (SIZE, false)] {
            let fd = memfd_create("peer", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&fd, SIZE).unwrap();
            fallocate(&fd, FallocateFlags::empty(), 0, 8192).unwrap();
            fallocate(&fd, behind, SIZE, SIZE).unwrap();
            fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
            let mapped = Region::map_on(fd.try_clone().unwrap(), SIZE, SealPolicy::Require, &account, most);
            match &mapped {
                Err(error) => assert!(refused && matches!(error, RegionError::Holes { .. }), "{error}"),
                Ok(_) => assert_eq!((refused, account.bytes()), (false, SIZE)),
            }
            assert_eq!(blocks(&fd), 8192 / 512);
            assert_eq!(fallocate(&fd, behind, SIZE, SIZE), Err(Errno::PERM));
        }
        if left_out() {
            return;
        }
        let (theirs, region, table) = allocated(SIZE);
        let before = blocks(&theirs);
        table.check(0, 0, 5).unwrap().write(b"never");
        assert!(region.lost());
        assert_eq!(blocks(&theirs), before);
    }
}
