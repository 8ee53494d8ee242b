//! Error codes, and the text of a thread's last error.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::fmt::Display;

use memif::region::RegionError;
use rustix::io::Errno;

/// What a call returns, as in `enum qm_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// An argument is wrong.
    Invalid = -1,
    /// The link is down.
    Down = -2,
    /// The peer broke the rules: the link is down now.
    Fault = -3,
    /// The system refused something.
    System = -4,
    /// Another process listens at the address.
    InUse = -5,
    /// A packet can never be sent: it is empty, of more than 65553 bytes, or longer than the whole ring. Or it is longer than the buffer to read it into.
    TooLong = -6,
    /// A mistake in this library.
    Internal = -7,
}

impl Status {
    /// What is nearest to it where nothing more is known.
    fn errno(self) -> i32 {
        let errno = match self {
            Self::Ok => return 0,
            Self::Invalid => Errno::INVAL,
            Self::Down => Errno::NOTCONN,
            Self::Fault => Errno::PROTO,
            Self::System => Errno::IO,
            Self::InUse => Errno::ADDRINUSE,
            Self::TooLong => Errno::MSGSIZE,
            Self::Internal => Errno::NOTRECOVERABLE,
        };
        errno.raw_os_error()
    }
}

/// A failed call: its code and what to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub status: Status,
    /// The interface, or this library where it isn't known.
    pub interface: String,
    /// Why.
    pub cause: String,
    /// What is nearest to it of the kernel's numbers.
    pub errno: i32,
}

impl Failure {
    /// A failure of the interface of this name, with the usual number of its kind.
    pub fn new(status: Status, interface: impl Display, cause: impl Display) -> Self {
        let (interface, cause) = (interface.to_string(), cause.to_string());
        Self { status, interface, cause, errno: status.errno() }
    }

    /// With a number that is nearer to it.
    pub fn with_errno(self, errno: Errno) -> Self {
        Self { errno: errno.raw_os_error(), ..self }
    }

    /// The system refused something.
    pub fn system(interface: impl Display, what: &str, errno: Errno) -> Self {
        Self::new(Status::System, interface, format_args!("{what}: {errno}")).with_errno(errno)
    }

    /// The same of the interface of this name.
    pub fn named(self, interface: impl Display) -> Self {
        Self { interface: interface.to_string(), ..self }
    }

    /// From an error of the library.
    pub fn of(interface: impl Display, error: &memif::Error) -> Self {
        let status = match error {
            memif::Error::InUse { .. } | memif::Error::Registered { .. } => Status::InUse,
            memif::Error::Setting { .. } | memif::Error::Queues { .. } => Status::Invalid,
            memif::Error::Address { .. } => Status::Invalid,
            memif::Error::NoQueue { .. } | memif::Error::NotASocket { .. } => Status::Invalid,
            memif::Error::Disconnected(_) => Status::Fault,
            _ => Status::System,
        };
        let failure = Self::new(status, interface, error);
        match error {
            memif::Error::Pool { .. } => failure.with_errno(Errno::NOBUFS),
            memif::Error::HangingDescriptors | memif::Error::HangingRegion => failure.with_errno(Errno::BUSY),
            memif::Error::NotASocket { .. } => failure.with_errno(Errno::NOTSOCK),
            memif::Error::NoDirectory { .. } => failure.with_errno(Errno::NOENT),
            memif::Error::NoQueue { .. } => failure.with_errno(Errno::NXIO),
            memif::Error::Socket { errno, .. }
            | memif::Error::Netns { errno, .. }
            | memif::Error::System { errno, .. }
            | memif::Error::NoThread { errno }
            | memif::Error::Region(
                RegionError::Create { errno, .. }
                | RegionError::NoHugePages { errno, .. }
                | RegionError::Map { errno, .. },
            ) => failure.with_errno(*errno),
            _ => failure,
        }
    }
}

/// The kernel's number of an error of the standard library's.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
    static ERRNO: Cell<i32> = const { Cell::new(0) };
}

/// Keeps a failure's text for this thread, and gives its code. A thread that is about to end may have no place for the text any more.
pub fn remember(failure: &Failure) -> Status {
    let text = format!("{}: {}", failure.interface, failure.cause).replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    let _ = LAST.try_with(|last| last.replace(text));
    let _ = ERRNO.try_with(|last| last.set(failure.errno));
    failure.status
}

/// Uses the text of this thread's last error; empty if there was none, or the thread is about to end.
pub fn last<R>(mut read: impl FnMut(&CStr) -> R) -> R {
    let there = LAST.try_with(|last| read(&last.borrow()));
    there.unwrap_or_else(|_| read(c""))
}

/// The `errno` of this thread's last error.
pub fn last_errno() -> i32 {
    ERRNO.try_with(Cell::get).unwrap_or(0)
}
