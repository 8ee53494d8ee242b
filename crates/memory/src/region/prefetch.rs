//! Cache prefetch hints.

/// Asks for the cache line at `address`, to be read soon. Never faults, whatever the address.
#[inline(always)]
pub fn prefetch_read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetcht0 is part of every x86-64 and has no architectural effect, for invalid addresses
    // neither.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: prfm has no architectural effect, for invalid addresses neither.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Asks for the cache line at `address`, exclusively, to be written soon: saves the second transfer that a
/// read prefetch would need to turn a shared line into an owned one. Never faults, whatever the address.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetchw has no architectural effect; processors of the first x86-64 generation that lack it
    // run it as a nop. (The compiler would turn the intrinsic into a read prefetch unless told that all
    // targets have prefetchw.)
    unsafe {
        std::arch::asm!("prefetchw byte ptr [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: prfm has no architectural effect, for invalid addresses neither.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
