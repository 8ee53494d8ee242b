//! The C functions of `include/quiver/memif.h`, and the only unsafe code of this crate.
//!
//! What C has to keep to is written in the header; it is repeated in `# Safety` here: pointers are null or valid for what the
//! function does with them, ports come from `qm_open_*` and are not closed yet. Null is refused, no panic leaves.
#![allow(unsafe_code, reason = "C calls in here")]

mod control;
mod open;
mod packets;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::port::Port;
use crate::status::{Failure, Status, remember};

/// What C calls `qm_port`.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type qm_port = Port;

/// Runs a call; an error or a panic becomes a status, and the text of the thread's last error.
fn call(act: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let status = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => remember(&failure),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            remember(&Failure::new(Status::Internal, "libquiver-memif", text))
        }
    };
    status as i32
}

fn invalid(text: &str) -> Failure {
    Failure::new(Status::Invalid, "libquiver-memif", text)
}

/// What a pointer points to.
///
/// # Safety
/// It is null or valid for reads for `'a`.
unsafe fn given<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| invalid(&format!("{name} is NULL")))
}

/// Where a result goes, after `value` was written there.
///
/// # Safety
/// The pointer is null or valid for writes.
unsafe fn put<T>(pointer: *mut T, value: T, name: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(invalid(&format!("{name} is NULL")));
    }
    // SAFETY: the caller's promise. Nothing is dropped: what stood there was C's.
    unsafe { pointer.write(value) };
    Ok(())
}

/// A string; `None` for null.
///
/// # Safety
/// It is null or ends with a NUL, and isn't changed for `'a`.
unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| invalid(&format!("{name} is not UTF-8")))
}

/// Writes text into a field, cut so that a NUL follows.
fn fill(field: &mut [c_char], text: &str) {
    let room = field.len().saturating_sub(1);
    for (to, from) in field.iter_mut().take(room).zip(text.bytes()) {
        *to = from.cast_signed();
    }
}
