//! Error codes, and the text of a thread's last error.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt::Display;

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
    /// A packet can never be sent: it is empty or longer than the whole ring.
    TooLong = -6,
    /// A mistake in this library.
    Internal = -7,
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
}

impl Failure {
    /// A failure of the interface of this name.
    pub fn new(status: Status, interface: impl Display, cause: impl Display) -> Self {
        Self { status, interface: interface.to_string(), cause: cause.to_string() }
    }

    /// The same of the interface of this name.
    pub fn named(self, interface: impl Display) -> Self {
        Self { interface: interface.to_string(), ..self }
    }

    /// From an error of the library.
    pub fn of(interface: impl Display, error: &memif::Error) -> Self {
        let status = match error {
            memif::Error::InUse { .. } | memif::Error::Registered { .. } => Status::InUse,
            memif::Error::Setting { .. } | memif::Error::Address { .. } => Status::Invalid,
            memif::Error::NoQueue { .. } | memif::Error::NotASocket { .. } => Status::Invalid,
            memif::Error::Disconnected(_) => Status::Fault,
            _ => Status::System,
        };
        Self::new(status, interface, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps a failure's text for this thread, and gives its code. A thread that is about to end may have no place for the text any more.
pub fn remember(failure: &Failure) -> Status {
    let text = format!("{}: {}", failure.interface, failure.cause).replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    let _ = LAST.try_with(|last| last.replace(text));
    failure.status
}

/// Uses the text of this thread's last error; empty if there was none, or the thread is about to end.
pub fn last<R>(mut read: impl FnMut(&CStr) -> R) -> R {
    let there = LAST.try_with(|last| read(&last.borrow()));
    there.unwrap_or_else(|_| read(c""))
}
