//! The heap of the process.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Gives memory back to the system that has been freed but is kept for later: after work that took much more than is usual.
/// Takes tens of milliseconds for a gigabyte, and holds up whoever allocates meanwhile from where it looks.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's own locks, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes from which on a piece of memory is mapped by itself once [`map_large`] has been called.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 256 << 10;

/// From now on large pieces of memory are mapped by themselves, so that they go back to the system as soon as they are freed. Without this the allocator raises
/// its limit to the size of what is freed, and keeps pieces below it.
pub fn map_large() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        // Set as well, since the allocator adapts neither any more: what comes and goes all the time stays.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 * LARGE);
    }
}

/// What the heap consists of, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In pieces that somebody has.
    pub used: usize,
    /// Kept for the next who asks. How much that is depends on which threads asked at the same time, as each may have a part of its own.
    pub free: usize,
    /// In large pieces that lie by themselves, whether they have been filled or not: a table's memory is reserved whole.
    pub mapped: usize,
}

/// What the heap consists of now; `None` where the allocator doesn't say. Takes the allocator's locks one after the other, each for as long as it takes
/// to go through what is free: not for a worker.
pub fn usage() -> Option<Usage> {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        // SAFETY: it takes the allocator's own locks, and only reads.
        let info = unsafe { libc::mallinfo2() };
        Some(Usage { used: info.uordblks, free: info.fordblks, mapped: info.hblkhd })
    }
    #[cfg(any(not(target_os = "linux"), not(target_env = "gnu"), miri))]
    None
}

/// Has all of `memory` backed now, by huge pages where the system gives them: for tables of which any line may be needed next, so that
/// nobody who works with them waits for a page to be cleared, and few entries of the TLB reach all of them. A hint: what the system
/// refuses stays as it was. Takes some milliseconds for 32 MiB.
pub fn back<T>(memory: &[T]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let range = memory.as_ptr_range();
        let first = range.start.addr().next_multiple_of(PAGE);
        let len = (range.end.addr() & !(PAGE - 1)).saturating_sub(first);
        let start = range.start.with_addr(first).cast_mut().cast();
        for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
            // SAFETY: whole pages of the slice's memory; neither advice changes what is in them.
            let _ = unsafe { madvise(start, len, advice) };
        }
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = memory;
}

/// Where [`back_ahead`] leaves what is to be done.
static AHEAD: OnceLock<Sender<Range<usize>>> = OnceLock::new();

/// Starts the thread that does what [`back_ahead`] asks for, on whichever cores the caller may use.
///
/// # Errors
/// What the system says where there can't be another thread.
pub fn start_backing() -> std::io::Result<()> {
    let (ahead, asked) = channel::<Range<usize>>();
    if AHEAD.set(ahead).is_ok() {
        let each = move || asked.into_iter().for_each(back_range);
        std::thread::Builder::new().name("backing".into()).spawn(each)?;
    }
    Ok(())
}

/// Has another thread back memory that is going to be filled, as [`back`] does, without waiting for it: a huge page is cleared in 0.2 ms, or in 5 where the
/// system itself runs on another one that has to find it first. Who gets there before gets ordinary pages, one at a time. Nothing happens before
/// [`start_backing`], nor where the memory isn't there any more by then. Of ranges that follow each other, the page in which one ends comes with the next.
pub fn back_ahead(memory: Range<*const u8>) {
    if let Some(ahead) = AHEAD.get() {
        let _ = ahead.send(memory.start.addr()..memory.end.addr());
    }
}

/// One huge page after the other: only what is just being backed keeps others from touching it. From the one in which the range begins to the
/// one before that in which it ends: of ranges that follow each other all, each once.
fn back_range(range: Range<usize>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        for page in (range.start & !(HUGE - 1)..range.end & !(HUGE - 1)).step_by(HUGE) {
            let start = core::ptr::without_provenance_mut(page);
            let mut used = [0; HUGE / 4096];
            // SAFETY: it writes a byte for each page, of 4096 bytes at least, and looks at what is mapped no closer than that.
            if unsafe { libc::mincore(start, HUGE, used.as_mut_ptr()) } != 0
                || used.iter().any(|used| used & 1 != 0)
            {
                continue;
            }
            for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
                // SAFETY: neither advice changes what is in a mapping, whosever it is, and both are refused where there is none.
                let _ = unsafe { madvise(start, HUGE, advice) };
            }
        }
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = range;
}

/// Bytes of a huge page, where they are as usual.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE: usize = 2 << 20;

/// Bytes of a page, or of several where they are smaller.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_backed_stays_as_it_was() {
        for len in [0, 1, 10_000, 3 << 20] {
            let mut numbers: Vec<u64> = (0..len).collect();
            back(&numbers);
            assert!(numbers.iter().copied().eq(0..len), "{len}");
            numbers.push(1);
        }
    }

    #[test]
    fn what_is_backed_by_another_thread_stays_as_it_was() {
        let (mut numbers, mut after) = ((0..1u64 << 20).collect::<Vec<_>>(), Vec::new());
        let range = numbers.as_ptr_range();
        let all = range.start.cast()..range.end.cast();
        back_ahead(all.clone());
        start_backing().unwrap();
        start_backing().unwrap();
        for begin in [0, 1, PAGE_OR_MORE, 3 << 20] {
            back_ahead(all.start.wrapping_add(begin)..all.end);
            back_range(all.start.addr() + begin..all.end.addr());
        }
        // Nothing, and where nothing is.
        for (begin, end) in [(0, 0), (1 << 16, 1 << 16), (1 << 16, 5 << 20), (usize::MAX - 10, 7)] {
            back_range(begin..end);
        }
        assert!(numbers.iter().copied().eq(0..1 << 20));
        after.append(&mut numbers);
        assert_eq!(after.len(), 1 << 20);
    }

    const PAGE_OR_MORE: usize = 1 << 16;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    fn what_is_used_is_counted() {
        let (few, large) = (vec![vec![1u8; 4096]; 4096], vec![0u8; 1 << 30]);
        let with = usage().unwrap();
        drop((few, large));
        // Other tests use some meanwhile.
        let without = usage().unwrap();
        assert!(with.used > without.used + (8 << 20), "{with:?} and {without:?}");
        assert!(with.mapped > without.mapped + (512 << 20), "{with:?} and {without:?}");
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn what_is_backed_is_there() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
            text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
        };
        let memory = vec![0u64; 16 << 20];
        let before = resident();
        back(&memory);
        // Of 32 768 pages of 4 KiB; other tests give some back meanwhile.
        let pages = rustix::param::page_size();
        assert!(resident().saturating_sub(before) * pages > 100 << 20, "{} and {before} pages", resident());
        drop(memory);
    }
}
