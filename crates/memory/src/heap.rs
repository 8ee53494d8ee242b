//! The heap of the process.

/// Gives memory back to the system that has been freed but is kept for later: after work that took much more than is usual.
/// Takes tens of milliseconds for a gigabyte, and holds up whoever allocates meanwhile from where it looks.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's own locks, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
