//! Signalling an eventfd that somebody else also holds.
//!
//! `write` would let a peer stop us: the file description, and with it O_NONBLOCK, is shared, so that it can
//! clear the flag, fill the counter and have the writer sleep for ever. The kernel itself signals eventfds
//! without ever waiting, for example when an asynchronous read is done. So a thread that signals has an AIO
//! context and reads nothing from an empty file of its own.
//!
//! How many contexts there may be is one figure for the whole host (`fs.aio-max-nr`), which others can use up. So the process takes one
//! as early as it can, with its first queue, and threads that get none of their own signal with that. Where there is
//! none at all (a sandbox that refuses `io_setup`), connections have a thread that may wait: see `doorbell`.

use std::cell::OnceCell;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// Completions the context holds before they are collected.
const COMPLETIONS: u32 = 64;

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_FLAG_RESFD: u32 = 1;

/// `struct iocb` of `linux/aio_abi.h`, little-endian.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Completion {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// Means to signal, of a thread or of all of them.
#[derive(Debug)]
struct Signaller {
    /// `aio_context_t`.
    context: usize,
    /// An empty file.
    empty: OwnedFd,
}

thread_local! {
    static SIGNALLER: OnceCell<Option<Signaller>> = const { OnceCell::new() };
}

/// For threads without one.
static SHARED: OnceLock<Signaller> = OnceLock::new();

/// Whether the kernel signals for us: not where the process can have no context for asynchronous I/O. What it has once it keeps.
///
/// Without, each connection of a listener or client has a thread that signals, and that its peer can keep waiting.
///
/// # Errors
/// What the kernel says then: [`Errno::AGAIN`] if `fs.aio-max-nr` is used up, [`Errno::PERM`] or [`Errno::NOSYS`] in a sandbox.
pub fn signals_by_kernel() -> Result<(), Errno> {
    if SHARED.get().is_none() {
        // Another thread may have been quicker: one is enough.
        let _ = SHARED.set(Signaller::new()?);
    }
    Ok(())
}

/// Adds 1 to the counter of an eventfd, without waiting, whatever its other holders do to it. `false` if that can't be had.
pub(super) fn signal(event: BorrowedFd<'_>) -> bool {
    let own = SIGNALLER.try_with(|signaller| {
        let signaller = signaller.get_or_init(|| Signaller::new().ok());
        signaller.as_ref().is_some_and(|signaller| signaller.signal(event).is_ok())
    });
    own.unwrap_or(false) || signal_by_process(event)
}

/// The same with the context of the process alone, if that has one by now.
pub(super) fn signal_by_process(event: BorrowedFd<'_>) -> bool {
    SHARED.get().is_some_and(|shared| shared.signal(event).is_ok())
}

impl Signaller {
    fn new() -> Result<Self, Errno> {
        let empty = memfd_create("memif-signal", MemfdFlags::CLOEXEC)?;
        let mut context = 0_usize;
        // SAFETY: io_setup writes the new context's number into `context`, which is zero as it must be.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, COMPLETIONS, &raw mut context) };
        if result == 0 { Ok(Self { context, empty }) } else { Err(last_error()) }
    }

    fn signal(&self, event: BorrowedFd<'_>) -> Result<(), Errno> {
        match self.submit(event) {
            Err(Errno::AGAIN) => {
                self.collect();
                self.submit(event)
            }
            result => result,
        }
    }

    fn submit(&self, event: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut request = Request {
            opcode: IOCB_CMD_PREAD,
            file: self.empty.as_raw_fd().cast_unsigned(),
            flags: IOCB_FLAG_RESFD,
            event: event.as_raw_fd().cast_unsigned(),
            ..Request::default()
        };
        let mut list = [&raw mut request];
        // SAFETY: the context is ours, for any thread; the list has one element, and the request asks to read 0
        // bytes to no buffer. The kernel has copied it when the call returns (a read from a memfd completes
        // within it) and keeps no reference to it.
        let result = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1_usize, list.as_mut_ptr()) };
        if result == 1 { Ok(()) } else { Err(last_error()) }
    }

    /// Throws away completions, to make room for more.
    fn collect(&self) {
        let mut completions = [Completion::default(); COMPLETIONS as usize];
        // SAFETY: at most COMPLETIONS are written, which is the array's length; with a minimum of 0 it
        // doesn't wait.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0_usize,
                completions.len(),
                completions.as_mut_ptr(),
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        // SAFETY: the context is ours and not used any more.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{read, write};

    use super::*;

    fn value(event: &OwnedFd) -> u64 {
        let mut value = [0; 8];
        read(event, &mut value).unwrap();
        u64::from_ne_bytes(value)
    }

    #[test]
    fn counts_further_than_completions_are_kept() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        for _ in 0..1000 {
            assert!(signal(event.as_fd()));
        }
        assert_eq!(value(&event), 1000);
    }

    /// More than one of them at a time finds the context full.
    #[test]
    fn threads_may_share_a_context() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let shared = Signaller::new().unwrap();
        let signal = || (0..1000).filter(|_| shared.signal(event.as_fd()).is_ok()).count();
        let signalled: usize = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(signal));
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(value(&event), signalled as u64);
    }

    /// Would wait for ever if it were a write.
    #[test]
    fn a_full_blocking_counter_does_not_stop_us() {
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        assert!(signal(event.as_fd()));
        assert!(value(&event) >= u64::MAX - 1);
    }

    #[test]
    fn what_is_no_eventfd_is_an_error_for_the_kernel() {
        let (read_end, _write_end) = rustix::pipe::pipe().unwrap();
        assert!(Signaller::new().unwrap().signal(read_end.as_fd()).is_err());
        assert!(!signal(read_end.as_fd()));
    }
}
