//! The worker's clock: the CPU's time-stamp counter.

/// Reads the time-stamp counter: TSC on x86-64, the virtual counter (`CNTVCT_EL0`) on aarch64. Constant rate, not
/// ordered with the instructions around it: for intervals of a vector, not of an instruction.
#[must_use]
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC exists on every x86-64 CPU and touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reading the virtual counter has no side effect and Linux allows it in user mode.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value
    }
}

/// Nanoseconds of the monotonic clock.
#[must_use]
#[inline]
pub fn nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
