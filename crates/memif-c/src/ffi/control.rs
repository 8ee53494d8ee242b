//! Waiting, events, errors.

use std::ffi::{c_char, c_int, c_uint};
use std::os::fd::AsRawFd;
use std::time::Duration;

use memif::Error;
use memif::app::LinkEvent;
use memif::ring::QueueCounters;
use rustix::io::Errno;

use super::{LIBRARY, call, check_size, fill, given, invalid, of, put, put_sized, qm_port, text};
use crate::status::{Failure, Status, last, last_errno};
use crate::wait::{wait, wake};
use crate::watch::watch;

/// Most ports of one `qm_wait`.
const PORTS: usize = 64;
/// Longest `qm_wait`, in milliseconds.
const LONGEST: c_int = 3_600_000;

/// `qm_event`.
#[repr(C)]
#[derive(Debug)]
pub struct Event {
    kind: u32,
    reason: [c_char; 160],
    cause: [c_char; 32],
}

/// `qm_info`.
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    peer_application: [c_char; 32],
    peer_interface: [c_char; 32],
    rx_queues: u32,
    tx_queues: u32,
    ring_size: u32,
    peer_known: u32,
    peer_pid: u32,
    peer_uid: u32,
    peer_gid: u32,
}

/// `qm_counters`.
#[repr(C)]
#[derive(Debug)]
pub struct Counters {
    packets: u64,
    bytes: u64,
    full: u64,
    signals: u64,
}

// No padding: what is written to C has no byte that isn't.
const _: () = assert!(size_of::<Event>() == 196 && size_of::<Info>() == 92 && size_of::<Counters>() == 32);

/// See `qm_wait` in the header.
///
/// # Safety
/// `ports` is null or an array of `count` open ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_wait(ports: *const *const qm_port, count: usize, timeout_ms: c_int) -> i32 {
    call(LIBRARY, || {
        let timeout = u64::try_from(timeout_ms).ok().filter(|_| timeout_ms <= LONGEST);
        let timeout = timeout.ok_or_else(|| invalid("timeout is not in 0..=3600000 ms"))?;
        if ports.is_null() || count == 0 || count > PORTS {
            return Err(invalid("ports is NULL, or count is not in 1..=64"));
        }
        // SAFETY: the caller's promise.
        let array = unsafe { std::slice::from_raw_parts(ports, count) };
        // SAFETY: as above.
        let ports =
            array.iter().map(|port| unsafe { given(*port, "port") }).collect::<Result<Vec<_>, _>>()?;
        wait(&ports, Duration::from_millis(timeout)).map(|_| ())
    })
}

/// See `qm_wake` in the header.
///
/// # Safety
/// The port is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_wake(port: *const qm_port) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise.
        wake(unsafe { given(port, "port") }?);
        Ok(())
    })
}

/// See `qm_next_event` in the header.
///
/// # Safety
/// The port is null or open, `event` null or room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_next_event_sized(port: *const qm_port, event: *mut Event, size: usize) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise.
        let port = unsafe { given(port, "port") }?;
        check_size(event, size, "event")?; // before one is taken
        let none = || Failure::new(Status::Down, port.name(), "no event").with_errno(Errno::AGAIN);
        let news = port.next_news().ok_or_else(none)?;
        let (kind, reason, cause) = match news {
            LinkEvent::Up => (1, String::new(), ""),
            LinkEvent::Down(reason) => (2, reason.to_string(), reason.cause()),
            LinkEvent::Refused(reason) => (3, reason.to_string(), reason.cause()),
            LinkEvent::Unreachable(error @ Error::Denied { .. }) => {
                (4, error.to_string(), "permission-denied")
            }
            LinkEvent::Unreachable(error) => (4, error.to_string(), "no-server"),
            LinkEvent::AdminDown(reason) => (5, reason.to_string(), reason.cause()),
            LinkEvent::NotAccepting(error) => (6, error.to_string(), "not-accepting"),
        };
        let mut result = Event { kind, reason: [0; 160], cause: [0; 32] };
        fill(&mut result.reason, &reason);
        fill(&mut result.cause, cause);
        // SAFETY: as above.
        unsafe { put_sized(event, size, &result, "event") }
    })
}

/// See `qm_admin_down` in the header.
///
/// # Safety
/// The port is null or open, `why` null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_admin_down(port: *const qm_port, why: *const c_char) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise.
        let (port, why) = unsafe { (given(port, "port")?, text(why, "why")?) };
        port.admin_down(why.unwrap_or_default());
        Ok(())
    })
}

/// See `qm_admin_up` in the header.
///
/// # Safety
/// The port is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_admin_up(port: *const qm_port) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise.
        unsafe { given(port, "port") }?.admin_up();
        Ok(())
    })
}

/// See `qm_watch` in the header.
///
/// # Safety
/// The port is null or open, `fd` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_watch(port: *const qm_port, fd: *mut c_int) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise, for this and what follows.
        unsafe { put(fd, -1, "fd") }?;
        // SAFETY: as above.
        let watched = watch(unsafe { given(port, "port") }?)?;
        // SAFETY: as above.
        unsafe { put(fd, watched.as_raw_fd(), "fd") }
    })
}

/// See `qm_get_info` in the header.
///
/// # Safety
/// The port is null or open, `info` null or room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_get_info_sized(port: *const qm_port, info: *mut Info, size: usize) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise.
        let now = unsafe { given(port, "port") }?.info()?;
        let mut result = Info {
            peer_application: [0; 32],
            peer_interface: [0; 32],
            rx_queues: u32::try_from(now.rx_queues).unwrap_or(u32::MAX),
            tx_queues: u32::try_from(now.tx_queues).unwrap_or(u32::MAX),
            ring_size: now.ring_size,
            peer_known: now.peer.is_some().into(),
            peer_pid: now.peer.and_then(|peer| peer.pid).unwrap_or_default(),
            peer_uid: now.peer.map_or(0, |peer| peer.uid),
            peer_gid: now.peer.map_or(0, |peer| peer.gid),
        };
        fill(&mut result.peer_application, &now.application);
        fill(&mut result.peer_interface, &now.interface);
        // SAFETY: as above.
        unsafe { put_sized(info, size, &result, "info") }
    })
}

/// See `qm_get_counters` in the header.
///
/// # Safety
/// The port is null or open, `counters` null or room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_get_counters_sized(
    port: *const qm_port,
    direction: c_int,
    queue: c_uint,
    counters: *mut Counters,
    size: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        let receives = match direction {
            0 => true,
            1 => false,
            other => return Err(invalid(&format!("direction {other} is none: 0 is QM_RX, 1 is QM_TX"))),
        };
        // SAFETY: the caller's promise.
        let now = unsafe { given(port, "port") }?.counters(receives, queue as usize)?;
        let QueueCounters { packets, bytes, full, signals, .. } = now;
        // SAFETY: as above.
        unsafe { put_sized(counters, size, &Counters { packets, bytes, full, signals }, "counters") }
    })
}

/// See `qm_ready` in the header.
///
/// # Safety
/// The port is null or open, `ready` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_ready(port: *const qm_port, queue: c_uint, ready: *mut c_int) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise.
        let port = unsafe { given(port, "port") }?;
        let is = port.ready(queue as usize)?;
        // SAFETY: as above.
        unsafe { put(ready, is.into(), "ready") }
    })
}

/// See `qm_last_error` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn qm_last_error() -> *const c_char {
    last(|text| text.as_ptr())
}

/// See `qm_last_errno` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn qm_last_errno() -> c_int {
    last_errno()
}

/// See `qm_status_name` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn qm_status_name(status: c_int) -> *const c_char {
    let name = match status {
        0 => c"QM_OK",
        -1 => c"QM_INVALID",
        -2 => c"QM_DOWN",
        -3 => c"QM_FAULT",
        -4 => c"QM_SYSTEM",
        -5 => c"QM_IN_USE",
        -6 => c"QM_TOO_LONG",
        -7 => c"QM_INTERNAL",
        _ => c"unknown status",
    };
    name.as_ptr()
}
