//! Opening and closing ports.

use std::ffi::c_char;

use memif::region::{HugePages, SealPolicy};
use memif::{
    Address, Admission, ClientConfig, ListenerSettings, Mode, QueueConfig, RingSize, Secret, ServerConfig,
};

use super::{LIBRARY, call, invalid, put, qm_port, taken, text};
use crate::port::Port;
use crate::status::Failure;

/// `qm_client_options`.
#[repr(C)]
#[derive(Debug)]
pub struct ClientOptions {
    id: u32,
    mode: u32,
    name: *const c_char,
    secret: *const c_char,
    rx_queues: u16,
    tx_queues: u16,
    ring_size: u32,
    buffer_size: u32,
    no_huge_pages: u32,
}

/// `qm_server_options`.
#[repr(C)]
#[derive(Debug)]
pub struct ServerOptions {
    id: u32,
    mode: u32,
    name: *const c_char,
    secret: *const c_char,
    max_rx_queues: u16,
    max_tx_queues: u16,
    max_ring_size: u32,
    max_memory: u64,
    file_mode: u32,
    peer_memory: u32,
    file_uid: u32,
    file_gid: u32,
    allow_uids: *const u32,
    allow_uid_count: usize,
    allow_gids: *const u32,
    allow_gid_count: usize,
    allow_pid_namespace: *const c_char,
}

// No padding at their end: a field that is added later begins behind all that programs of today know.
const _: () = assert!(size_of::<ClientOptions>() == 40 && size_of::<ServerOptions>() == 96);

const fn or(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

/// `qm_peer_memory`.
fn peer_memory(which: u32) -> Result<SealPolicy, Failure> {
    match which {
        0 => Ok(SealPolicy::Require),
        1 => Ok(SealPolicy::Allow),
        2 => Ok(SealPolicy::Shared),
        other => Err(invalid(&format!("peer_memory {other} doesn't exist: take one of qm_peer_memory"))),
    }
}

fn mode(mode: u32) -> Result<Mode, Failure> {
    match mode {
        0 => Ok(Mode::Ethernet),
        1 => Ok(Mode::Ip),
        2 => Ok(Mode::PuntInject),
        other => Err(invalid(&format!("mode {other} is none: 0 is ethernet, 1 is IP, 2 is punt/inject"))),
    }
}

fn file_mode(mode: u32) -> Result<u32, Failure> {
    match or(mode, 0o660) {
        mode @ 1..=0o777 => Ok(mode),
        mode => Err(invalid(&format!("file_mode {mode:#o} is not in 0001..=0777"))),
    }
}

fn ring_size(descriptors: u32) -> Result<RingSize, Failure> {
    RingSize::from_descriptors(descriptors)
        .ok_or_else(|| invalid(&format!("ring size {descriptors} is no power of two from 64 to 16384")))
}

fn queues(count: u16, default: u16, name: &str) -> Result<u16, Failure> {
    match count {
        0 => Ok(default),
        1..=256 => Ok(count),
        more => Err(invalid(&format!("{name} {more} is not in 1..=256"))),
    }
}

fn secret(secret: Option<&str>) -> Result<Option<Secret>, Failure> {
    let secret = secret.filter(|secret| !secret.is_empty());
    secret.map(Secret::new).transpose().map_err(|error| invalid(&error.to_string()))
}

/// Most users or groups of a list.
const MOST_IDS: usize = 65_536;

/// A list of users or groups.
///
/// # Safety
/// `ids` is null or an array of `count` numbers.
unsafe fn ids(ids: *const u32, count: usize, name: &str) -> Result<Vec<u32>, Failure> {
    match count {
        0 if ids.is_null() => Ok(Vec::new()),
        0 => Err(invalid(&format!("{name} is a list of nobody: leave it NULL to let everybody connect"))),
        _ if ids.is_null() => Err(invalid(&format!("{name} is NULL, its count is {count}"))),
        // SAFETY: the caller's promise.
        1..=MOST_IDS => Ok(unsafe { std::slice::from_raw_parts(ids, count) }.to_vec()),
        _ => Err(invalid(&format!("{name} has {count} elements, {MOST_IDS} are allowed"))),
    }
}

/// # Safety
/// As [`text`].
unsafe fn address(pointer: *const c_char) -> Result<Address, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(pointer, "address") }?.ok_or_else(|| invalid("address is NULL"))?;
    let Ok(address) = text.parse();
    Ok(address)
}

/// # Safety
/// As [`text`] and [`ids`], for what the options point to.
unsafe fn client_config(options: &ClientOptions) -> Result<ClientConfig, Failure> {
    // SAFETY: the caller's promise.
    let (name, word) = unsafe { (text(options.name, "name")?, text(options.secret, "secret")?) };
    Ok(ClientConfig {
        signals: memif::ring::Signals::Direct,
        id: options.id,
        mode: mode(options.mode)?,
        secret: secret(word)?,
        name: name.unwrap_or("memif").into(),
        queues: QueueConfig {
            rx_queues: queues(options.rx_queues, 1, "rx_queues")?,
            tx_queues: queues(options.tx_queues, 1, "tx_queues")?,
            ring_size: ring_size(or(options.ring_size, 1024))?,
            buffer_size: match or(options.buffer_size, 2048) {
                size @ 64..=65_536 => size,
                size => return Err(invalid(&format!("buffer size {size} is not in 64..=65536"))),
            },
            huge_pages: if options.no_huge_pages == 0 { HugePages::Try } else { HugePages::Never },
            ..QueueConfig::default()
        },
    })
}

/// # Safety
/// As [`text`] and [`ids`], for what the options point to.
unsafe fn server_config(options: &ServerOptions) -> Result<ServerConfig, Failure> {
    // SAFETY: the caller's promise.
    let (name, word) = unsafe { (text(options.name, "name")?, text(options.secret, "secret")?) };
    let admission = Admission {
        // SAFETY: the caller's promise.
        uids: unsafe { ids(options.allow_uids, options.allow_uid_count, "allow_uids") }?,
        // SAFETY: the caller's promise.
        gids: unsafe { ids(options.allow_gids, options.allow_gid_count, "allow_gids") }?,
        // SAFETY: the caller's promise.
        pid_namespace: unsafe { text(options.allow_pid_namespace, "allow_pid_namespace") }?.map(Into::into),
    };
    let defaults = ServerConfig::default();
    Ok(ServerConfig {
        mode: mode(options.mode)?,
        secret: secret(word)?,
        name: name.unwrap_or("memif").into(),
        max_rx_queues: queues(options.max_rx_queues, 256, "max_rx_queues")?,
        max_tx_queues: queues(options.max_tx_queues, 256, "max_tx_queues")?,
        max_ring_size: ring_size(or(options.max_ring_size, 16_384))?,
        max_memory: if options.max_memory == 0 { defaults.max_memory } else { options.max_memory },
        max_holes: if options.max_memory == 0 { defaults.max_holes } else { options.max_memory },
        seals: peer_memory(options.peer_memory)?,
        admission,
        ..defaults
    })
}

/// See `qm_open_client` in the header.
///
/// # Safety
/// All pointers, also in the options, are null or valid; the options have `size` bytes; strings end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_open_client_sized(
    at: *const c_char,
    options: *const ClientOptions,
    size: usize,
    port: *mut *mut qm_port,
) -> i32 {
    call(LIBRARY, || {
        // SAFETY: the caller's promise, for this and what follows.
        unsafe { put(port, std::ptr::null_mut(), "port") }?;
        // SAFETY: as above.
        let at = unsafe { address(at) }?;
        // SAFETY: as above.
        let options = unsafe { taken(options, size, "options") }.map_err(|failure| failure.named(&at))?;
        // SAFETY: as above.
        let config = unsafe { client_config(&options) };
        let config = config.map_err(|failure| failure.named(format_args!("{at} id {}", options.id)))?;
        let opened = Box::into_raw(Box::new(Port::client(&at, config)?));
        // SAFETY: as above.
        unsafe { put(port, opened, "port") }
    })
}

/// See `qm_open_server` in the header.
///
/// # Safety
/// All pointers, also in the options, are null or valid; the options have `size` bytes; strings end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_open_server_sized(
    at: *const c_char,
    options: *const ServerOptions,
    size: usize,
    port: *mut *mut qm_port,
) -> i32 {
    call(LIBRARY, || {
        // SAFETY: the caller's promise, for this and what follows.
        unsafe { put(port, std::ptr::null_mut(), "port") }?;
        // SAFETY: as above.
        let at = unsafe { address(at) }?;
        // SAFETY: as above.
        let options = unsafe { taken(options, size, "options") }.map_err(|failure| failure.named(&at))?;
        // SAFETY: as above.
        let config = unsafe { server_config(&options) };
        let named = |failure: Failure| failure.named(format_args!("{at} id {}", options.id));
        let config = config.map_err(named)?;
        let given = |id: u32| (id != 0).then_some(id);
        let settings = ListenerSettings {
            mode: file_mode(options.file_mode).map_err(named)?,
            owner: given(options.file_uid),
            group: given(options.file_gid),
            ..ListenerSettings::default()
        };
        let opened = Box::into_raw(Box::new(Port::server(&at, options.id, config, settings)?));
        // SAFETY: as above.
        unsafe { put(port, opened, "port") }
    })
}

/// See `qm_close` in the header.
///
/// # Safety
/// The port is null, or came from `qm_open_*`, wasn't closed yet, and nobody else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_close(port: *mut qm_port) {
    call(LIBRARY, || {
        if !port.is_null() {
            // SAFETY: `Box::into_raw` made it, and the caller gives it back.
            drop(unsafe { Box::from_raw(port) });
        }
        Ok(())
    });
}
