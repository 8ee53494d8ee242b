//! Where and when a doorbell thread runs.

use rustix::process::getpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

/// A slice of time: what the thread does takes less, and with a short one the kernel (from Linux 6.12 on) lets it run as soon as it has something
/// to do, before whoever is in the midst of a longer one. It gets no larger share for that. The shortest that there is.
const SLICE: u64 = 100_000;

/// `struct sched_attr` of `linux/sched/types.h`, as of its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Has the calling thread run on these processors, if any are named, and without delay. Where the system doesn't allow that it runs where and when
/// others do.
pub(super) fn run_soon(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    if set.count() > 0 {
        let _ = sched_setaffinity(None, &set);
    }
    let (size, nice) = (size_of::<Attributes>() as u32, getpriority_process(None).unwrap_or_default());
    let attributes = Attributes { size, nice, runtime: SLICE, ..Attributes::default() };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives as long as the call. 0: this thread.
    let _ = cfg!(miri) || unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } == 0;
}
