//! Regions of peers: what is mapped, and what is refused.

use std::io::Write as _;
use std::path::Path;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create};

use super::super::{HugePages, RegionOptions, RegionTable, notices_punched_holes};
use super::*;

fn memfd(size: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("peer", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, size).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn a_sealed_memfd_is_mapped_and_shared() {
    let options = RegionOptions { name: "own".into(), size: 4096, huge_pages: HugePages::Never };
    let own = Arc::new(Region::create(&options).unwrap());
    let fd = own.fd().try_clone_to_owned().unwrap();
    let theirs = Arc::new(Region::map(fd, 4096, SealPolicy::Require).unwrap());
    let ours = RegionTable::new(vec![own]).unwrap();
    let theirs = RegionTable::new(vec![theirs]).unwrap();
    ours.check(0, 100, 5).unwrap().write(b"hello");
    let mut bytes = [0; 5];
    theirs.check(0, 100, 5).unwrap().read(&mut bytes);
    assert_eq!(&bytes, b"hello");
}

/// A file of ordinary pages, where the kernel names huge ones as its block size.
fn of_transparent_huge_pages(directory: &Path) -> Option<OwnedFd> {
    let path = std::ffi::CString::new(directory.to_str().unwrap()).unwrap();
    let (none, private) = (ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: strings that end, and no other pointers. Only this thread sees another mount from here on.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()) == 0
            && libc::mount(
                c"none".as_ptr(),
                path.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"huge=always,size=16m".as_ptr().cast(),
            ) == 0
    };
    let mut open = std::fs::File::options();
    open.read(true).write(true).create_new(true);
    mounted.then(|| open.open(directory.join("region")).unwrap().into())
}

#[test]
fn pages_are_told_by_the_file_system_and_not_by_the_size_of_blocks() {
    let directory = std::env::temp_dir().join(format!("quiver-huge-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let there = directory.clone();
    let file = std::thread::spawn(move || of_transparent_huge_pages(&there)).join().unwrap();
    // Only that thread has seen what is mounted there.
    std::fs::remove_dir(directory).unwrap();
    let Some(file) = file else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no tmpfs with huge pages can be mounted");
        return;
    };
    ftruncate(&file, 3 * 4096).unwrap();
    assert!(fstat(&file).unwrap().st_blksize > 4096, "the file system isn't what the test needs");
    let region = Region::map(file, 3 * 4096, SealPolicy::Allow).unwrap();
    assert!(!region.huge());
    assert_eq!(region.mapped_len(), 3 * 4096);
}

#[test]
fn a_lease_ends_when_nothing_of_the_region_is_left() {
    struct Lease(std::os::fd::RawFd, usize, std::sync::mpsc::Sender<(bool, bool)>);
    impl Drop for Lease {
        fn drop(&mut self) {
            let open = std::fs::read_link(format!("/proc/self/fd/{}", self.0));
            let open = open.is_ok_and(|name| name.to_string_lossy().contains("memfd:leased"));
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let mapped = maps.contains("memfd:leased") && maps.contains(&format!("{:x}-", self.1));
            self.2.send((open, mapped)).unwrap();
        }
    }
    use std::os::fd::AsRawFd;
    let fd = memfd_create("leased", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, 4096).unwrap();
    let region = Region::map(fd, 4096, SealPolicy::Allow).unwrap();
    let (left, told) = std::sync::mpsc::channel();
    let lease = Lease(region.fd().as_raw_fd(), region.base().as_ptr() as usize, left);
    let region = region.with_lease(lease);
    assert!(told.try_recv().is_err(), "it lives as long as the region");
    drop(region);
    assert_eq!(told.try_recv(), Ok((false, false)), "still open, still mapped");
}

#[test]
fn an_unsealed_memfd_is_refused_unless_allowed() {
    let map = |policy| Region::map(memfd(4096, SealFlags::GROW), 4096, policy);
    for policy in [SealPolicy::Require, SealPolicy::Shared] {
        assert_eq!(map(policy).unwrap_err(), RegionError::Unsealed);
    }
    assert_eq!(map(SealPolicy::Allow).unwrap().len(), 4096);
}

#[test]
fn a_file_shorter_than_claimed_is_refused() {
    for policy in [SealPolicy::Require, SealPolicy::Allow] {
        let error = Region::map(memfd(4096, SealFlags::SHRINK), 8192, policy).unwrap_err();
        assert_eq!(error, RegionError::Truncated { claimed: 8192, actual: 4096 });
    }
}

#[test]
fn sizes_that_offsets_cannot_reach_are_refused() {
    for claimed in [0, MAX_REGION_SIZE + 1, u64::MAX] {
        let error = Region::map(memfd(4096, SealFlags::SHRINK), claimed, SealPolicy::Require).unwrap_err();
        assert_eq!(error, RegionError::Size(claimed));
    }
}

#[test]
fn what_is_not_memory_is_refused() {
    // A regular file, but of procfs.
    let file = std::fs::File::open("/proc/version").unwrap().into();
    assert!(matches!(Region::map(file, 4096, SealPolicy::Allow).unwrap_err(), RegionError::NotMemory(_)));
    let (end, _other) = rustix::pipe::pipe().unwrap();
    assert!(matches!(Region::map(end, 4096, SealPolicy::Allow).unwrap_err(), RegionError::NotMemory(_)));
    let device = std::fs::File::open("/dev/zero").unwrap();
    assert!(matches!(
        Region::map(device.into(), 4096, SealPolicy::Allow).unwrap_err(),
        RegionError::NotMemory(_)
    ));
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        for policy in [SealPolicy::Require, SealPolicy::Allow] {
            let fd = memfd(4096, SealFlags::SHRINK | seal);
            assert_eq!(Region::map(fd, 4096, policy).unwrap_err(), RegionError::SealedAgainstWriting);
        }
    }
    let fd = memfd(4096, SealFlags::SHRINK);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    let read_only = std::fs::File::open(path).unwrap();
    assert!(matches!(
        Region::map(read_only.into(), 4096, SealPolicy::Require).unwrap_err(),
        RegionError::Map { step: "mmap", .. }
    ));
}

/// A peer that frees pages has whoever touches one of them sleep until all are free.
#[test]
fn hostile_owner_cannot_free_pages_of_a_region_that_is_kept() {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for policy in [SealPolicy::Require, SealPolicy::Shared, SealPolicy::Allow] {
        let told = if policy == SealPolicy::Require { Err(Errno::PERM) } else { Ok(()) };
        let theirs = memfd(3 * 4096, SealFlags::SHRINK);
        let own = Region::map(theirs.try_clone().unwrap(), 4096, SealPolicy::Allow).unwrap();
        let region = Region::map(theirs.try_clone().unwrap(), 4096, policy).unwrap();
        assert_eq!(fallocate(&theirs, punch, 0, 4096), told);
        assert_eq!(fallocate(&theirs, punch, 8192, 4096), told);
        assert_eq!(ftruncate(&theirs, 1 << 20), told);
        // Who had it mapped goes on.
        RegionTable::new(vec![Arc::new(own)]).unwrap().check(0, 0, 5).unwrap().write(b"still");
        let mut bytes = [0; 5];
        RegionTable::new(vec![Arc::new(region)]).unwrap().check(0, 0, 5).unwrap().read(&mut bytes);
        assert_eq!(&bytes, b"still");
    }
    let final_seals = memfd(4096, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
    let refused = Region::map(final_seals.try_clone().unwrap(), 4096, SealPolicy::Require);
    assert_eq!(refused.unwrap_err(), RegionError::Unsealable);
    // As often as there are servers that take it.
    for policy in [SealPolicy::Shared, SealPolicy::Shared, SealPolicy::Allow] {
        assert!(Region::map(final_seals.try_clone().unwrap(), 4096, policy).is_ok());
    }
}

/// One that several map, one after the other.
#[test]
fn a_region_can_be_kept_mappable() {
    let options = RegionOptions { name: "pool".into(), size: 4096, huge_pages: HugePages::Never };
    let own = Region::create(&options).unwrap();
    own.keep_mappable().unwrap();
    assert_eq!(own.keep_pages(), Err(Errno::PERM));
    for _ in 0..2 {
        let fd = own.fd().try_clone_to_owned().unwrap();
        Region::map(fd, 4096, SealPolicy::Allow).unwrap();
    }
}

/// What isn't allocated of huge pages costs us nothing, also where nobody bounds that: it is the end of the region.
#[test]
fn hostile_hole_among_huge_pages_is_not_filled() {
    const PAGE: u64 = 2 << 20;
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let allocated = memfd_create("huge", flags).and_then(|fd| {
        ftruncate(&fd, 2 * PAGE)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK)?;
        fallocate(&fd, FallocateFlags::empty(), 0, PAGE).map(|()| fd)
    });
    let (Ok(theirs), Ok(())) = (&allocated, notices_punched_holes()) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no huge page, or no userfaultfd: {allocated:?}");
        return;
    };
    let region = match Region::map(theirs.try_clone().unwrap(), 2 * PAGE, SealPolicy::Require) {
        Err(RegionError::Map { step: "mmap", errno, .. }) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: two huge pages can't be mapped: {errno}");
            return;
        }
        mapped => Arc::new(mapped.unwrap()),
    };
    assert!(region.huge());
    let table = RegionTable::new(vec![Arc::clone(&region)]).unwrap();
    table.check(0, 0, 5).unwrap().write(b"there");
    assert!(!region.lost());
    let before = fstat(theirs).unwrap().st_blocks;
    table.check(0, PAGE as u32, 5).unwrap().write(b"never");
    assert!(region.lost());
    assert_eq!(fstat(theirs).unwrap().st_blocks, before, "a page was made");
}
