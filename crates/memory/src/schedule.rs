//! When a thread runs.

use rustix::process::getpriority_process;

/// A slice of time for threads that do little at a time: with a short one the kernel (from Linux 6.12 on) lets a thread run as soon as it has
/// something to do, before whoever is in the midst of a longer one. It gets no larger share for that. The shortest that there is.
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

/// Has the calling thread run without delay when it has something to do, with this niceness (`None`: the one that it has). Where the system doesn't
/// allow that (a lower niceness needs `CAP_SYS_NICE`) it runs when others do.
pub fn run_soon(nice: Option<i32>) {
    let nice = nice.or_else(|| getpriority_process(None).ok()).unwrap_or_default();
    let attributes =
        Attributes { size: size_of::<Attributes>() as u32, nice, runtime: SLICE, ..Attributes::default() };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives as long as the call. 0: this thread.
    let _ = cfg!(miri) || unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } == 0;
}
