//! Regions that are lost, and signals that aren't theirs: processes of their own where one may end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::region::{Region, RegionTable, SealPolicy};

fn unsealed(size: u64) -> (OwnedFd, Arc<Region>, RegionTable) {
    let fd = memfd_create("peer", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, size).unwrap();
    let ours = fd.try_clone().unwrap();
    let region = Arc::new(Region::map(ours, size, SealPolicy::Allow).unwrap());
    let table = RegionTable::new(vec![Arc::clone(&region)]).unwrap();
    (fd, region, table)
}

#[test]
fn a_truncated_region_reads_zero_and_is_lost() {
    let (theirs, region, table) = unsealed(1 << 20);
    let (_kept, other, other_table) = unsealed(4096);
    let range = table.check(0, 70_000, 5).unwrap();
    range.write(b"hello");
    other_table.check(0, 0, 5).unwrap().write(b"other");
    assert!(!region.lost() && !table.lost());
    ftruncate(&theirs, 0).unwrap();
    let mut bytes = [0xff; 5];
    range.read(&mut bytes);
    assert_eq!(bytes, [0; 5]);
    assert!(region.lost() && table.lost());
    range.write(b"still");
    range.read(&mut bytes);
    assert_eq!(&bytes, b"still", "ours alone now, and harmless");
    other_table.check(0, 0, 5).unwrap().read(&mut bytes);
    assert_eq!(&bytes, b"other");
    assert!(!other.lost() && !other_table.lost());
}

#[test]
fn writing_is_guarded_like_reading_on_any_thread() {
    let (theirs, region, table) = unsealed(1 << 16);
    ftruncate(&theirs, 4096).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || table.check(0, 8192 * (thread + 1), 4).unwrap().write(b"over"));
        }
    });
    assert!(region.lost());
}

/// Another region takes the slot while it is looked at: the base of one and the length of the other would be neighbours' memory.
#[test]
fn a_slot_that_is_used_again_is_never_half_of_one_region() {
    const REGIONS: [(usize, usize); 2] = [(1 << 30, 4096), (1 << 40, 1 << 32)];
    // Of none of them, but where the first begins it would be in reach of the second's length.
    const NOBODYS: usize = (1 << 30) + (1 << 20);
    let slots = [Slot::new()];
    std::thread::scope(|scope| {
        let uses = scope.spawn(|| {
            for use_ in 0..2_000_000 {
                let (base, len) = REGIONS[use_ % 2];
                assert!(slots[0].take(base, len) && !slots[0].take(0, usize::MAX));
                slots[0].free();
            }
        });
        while !uses.is_finished() {
            assert!(holding(&slots, NOBODYS).is_none());
        }
    });
    assert!(slots[0].take(REGIONS[0].0, REGIONS[0].1));
    assert!(holding(&slots, REGIONS[0].0 + 4096).is_none());
    assert!(matches!(holding(&slots, REGIONS[0].0 + 4095), Some((_, base, 4096)) if base == REGIONS[0].0));
}

#[test]
fn a_peer_with_many_regions_leaves_some_to_others() {
    // No address that anything could have: they are never hit.
    let guard = |i: usize| Guard::new((1 << 60) + i * 4096, 4096).unwrap();
    let many: Vec<_> = (0..20_000).map(guard).collect();
    a_truncated_region_reads_zero_and_is_lost();
    drop(many);
}

/// How the process ends that runs this test by itself, or `None` if this is the one.
fn alone(test: &str) -> Option<ExitStatus> {
    if std::env::var_os("QUIVER_TEST_ALONE").is_some() {
        return None;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&format!("region::guard::tests::{test}"), "--exact"])
        .env("QUIVER_TEST_ALONE", "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    Some(status.unwrap())
}

/// Reads what isn't there, in memory that is no region.
fn touch_own_hole() {
    let fd = memfd_create("own", MemfdFlags::CLOEXEC).unwrap();
    // SAFETY: a fresh mapping of one page, read within its bounds; that the file has no page is the
    // point.
    unsafe {
        let flags = rustix::mm::MapFlags::SHARED;
        let page = rustix::mm::mmap(std::ptr::null_mut(), 4096, rustix::mm::ProtFlags::READ, flags, &fd, 0);
        std::ptr::read_volatile(page.unwrap().cast::<u8>());
    }
}

/// What is done about SIGBUS before the first region is there.
fn first(action: libc::sighandler_t) {
    // SAFETY: the handler is one of the two constants, or a function that uses atomics only.
    unsafe { libc::signal(libc::SIGBUS, action) };
}

fn send_oneself() {
    // SAFETY: takes a number.
    assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
}

#[test]
fn another_sigbus_kills_as_before() {
    let Some(status) = alone("another_sigbus_kills_as_before") else {
        let _region = unsealed(4096);
        return touch_own_hole();
    };
    assert_eq!(status.signal(), Some(libc::SIGBUS));
}

/// As without us, there is Rust's own handler, which takes it for a fault.
#[test]
fn a_sent_sigbus_leaves_the_guard_on() {
    let Some(status) = alone("a_sent_sigbus_leaves_the_guard_on") else {
        let (theirs, region, table) = unsealed(4096);
        send_oneself();
        send_oneself();
        ftruncate(&theirs, 0).unwrap();
        table.check(0, 0, 5).unwrap().write(b"there");
        assert!(region.lost(), "still guarded");
        return;
    };
    assert!(status.success(), "{status}");
}

/// Not without a guard from then on.
#[test]
fn a_sent_sigbus_kills_as_before() {
    let Some(status) = alone("a_sent_sigbus_kills_as_before") else {
        first(libc::SIG_DFL);
        let _region = unsealed(4096);
        return send_oneself();
    };
    assert_eq!(status.signal(), Some(libc::SIGBUS));
}

#[test]
fn a_sent_sigbus_that_was_ignored_stays_so() {
    let Some(status) = alone("a_sent_sigbus_that_was_ignored_stays_so") else {
        first(libc::SIG_IGN);
        let (theirs, region, table) = unsealed(4096);
        send_oneself();
        send_with_address(region.base().as_ptr() as usize);
        assert!(!region.lost(), "who sends a signal names no address");
        ftruncate(&theirs, 0).unwrap();
        table.check(0, 0, 5).unwrap().write(b"there");
        assert!(region.lost(), "still guarded");
        return;
    };
    assert!(status.success(), "{status}");
}

/// A fault can't be ignored: the kernel kills who tries.
#[test]
fn a_fault_kills_though_it_was_ignored() {
    let Some(status) = alone("a_fault_kills_though_it_was_ignored") else {
        first(libc::SIG_IGN);
        let _region = unsealed(4096);
        return touch_own_hole();
    };
    assert_eq!(status.signal(), Some(libc::SIGBUS));
}

#[test]
fn a_sent_sigbus_goes_to_who_had_it_before() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    extern "C" fn see(_: libc::c_int) {
        SEEN.store(true, Ordering::Relaxed);
    }
    let Some(status) = alone("a_sent_sigbus_goes_to_who_had_it_before") else {
        first(see as *const () as usize);
        let (theirs, region, table) = unsealed(4096);
        send_oneself();
        assert!(SEEN.load(Ordering::Relaxed));
        ftruncate(&theirs, 0).unwrap();
        table.check(0, 0, 5).unwrap().write(b"there");
        assert!(region.lost(), "still guarded");
        return;
    };
    assert!(status.success(), "{status}");
}

/// Sends this thread a signal whose information has an address where faults have theirs.
fn send_with_address(address: usize) {
    // SAFETY: all-zero is a valid siginfo, and si_addr is 16 bytes into it; the call takes numbers and a siginfo to read.
    unsafe {
        let mut info: libc::siginfo_t = MaybeUninit::zeroed().assume_init();
        info.si_signo = libc::SIGBUS;
        info.si_code = libc::SI_QUEUE;
        (&raw mut info).byte_add(16).cast::<usize>().write(address);
        let (process, thread) = (libc::getpid(), libc::gettid());
        let sent = libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, libc::SIGBUS, &raw const info);
        assert_eq!(sent, 0);
    }
}
