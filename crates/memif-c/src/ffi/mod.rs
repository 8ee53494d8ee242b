//! The C functions of `include/quiver/memif.h`, and the only unsafe code of this crate.
//!
//! What C has to keep to is written in the header; it is repeated in `# Safety` here: pointers are null or valid for what the
//! function does with them, ports come from `qm_open_*` and are not closed yet. Null is refused, no panic leaves.
#![allow(unsafe_code, reason = "C calls in here")]

mod control;
mod open;
mod packets;

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::port::Port;
use crate::status::{Failure, Status, remember};

/// What C calls `qm_port`.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type qm_port = Port;

/// What errors are said to be of that no interface has.
const LIBRARY: &str = "libquiver-memif";

/// The interface of a call.
///
/// # Safety
/// The port is null or open, for `'a`.
unsafe fn of<'a>(port: *const qm_port) -> &'a str {
    // SAFETY: the caller's promise.
    unsafe { port.as_ref() }.map_or(LIBRARY, Port::name)
}

/// Runs a call on an interface; an error or a panic becomes a status, and the text of the thread's last error.
fn call(interface: &str, act: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // Also who only reads what another thread received calls before: to know of it, or to release it.
    memif::region::receive_faults();
    let act = || {
        act().map_err(|failure| if failure.interface == LIBRARY { failure.named(interface) } else { failure })
    };
    let status = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => remember(&failure),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            remember(&Failure::new(Status::Internal, interface, text))
        }
    };
    status as i32
}

fn invalid(text: &str) -> Failure {
    Failure::new(Status::Invalid, LIBRARY, text)
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

/// Longest structure that is taken from, or given to, C.
const LONGEST: usize = 4096;

fn check_size<T>(pointer: *const T, size: usize, name: &str) -> Result<(), Failure> {
    match size {
        _ if pointer.is_null() => Err(invalid(&format!("{name} is NULL"))),
        1..=LONGEST => Ok(()),
        _ => Err(invalid(&format!("{name}: size {size} is not in 1..={LONGEST}"))),
    }
}

/// A structure of C's whose length in the caller's program is `size`. What the caller doesn't know of ours yet is zero, its default; what
/// we don't know of the caller's must be zero.
///
/// # Safety
/// `pointer` is null or valid for reads of `size` bytes. Zeros are a `T`, and so is what C writes there.
unsafe fn taken<T>(pointer: *const T, size: usize, name: &str) -> Result<T, Failure> {
    check_size(pointer, size, name)?;
    // SAFETY: the caller's promise.
    let theirs = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    if theirs.iter().skip(size_of::<T>()).any(|byte| *byte != 0) {
        return Err(invalid(&format!("{name} asks for something that this version doesn't know")));
    }
    let mut ours = MaybeUninit::<T>::zeroed();
    // SAFETY: as many bytes as both have.
    unsafe {
        ptr::copy_nonoverlapping(theirs.as_ptr(), ours.as_mut_ptr().cast(), size.min(size_of::<T>()));
    }
    // SAFETY: zeros and C's bytes, which the caller promises are a `T`.
    Ok(unsafe { ours.assume_init() })
}

/// Writes a structure where C has `size` bytes for it: as much as fits, and zeros where the caller's goes on.
///
/// # Safety
/// `pointer` is null or valid for writes of `size` bytes. `T` has no padding.
unsafe fn put_sized<T>(pointer: *mut T, size: usize, value: &T, name: &str) -> Result<(), Failure> {
    check_size(pointer, size, name)?;
    let common = size.min(size_of::<T>());
    let to = pointer.cast::<u8>();
    // SAFETY: the caller's promise; the value is a Rust object of its own.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast(), to, common);
        to.add(common).write_bytes(0, size - common);
    }
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
        // Its sign is the platform's: i8 on x86-64, u8 on aarch64.
        *to = c_char::from_ne_bytes([from]);
    }
}
