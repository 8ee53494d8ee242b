//! memif 2.0 by hand: 128-byte messages, a ring of 64 slots, and memory.

use std::io::{IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memif::region::{Region, RegionTable, SealPolicy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};

pub const ACK: u16 = 1;
pub const HELLO: u16 = 2;
pub const INIT: u16 = 3;
pub const ADD_REGION: u16 = 4;
pub const ADD_RING: u16 = 5;
pub const CONNECT: u16 = 6;
pub const CONNECTED: u16 = 7;
pub const DISCONNECT: u16 = 8;

pub const COOKIE: u32 = 0x03E3_1F20;
/// Where head and tail of a ring are, and where its descriptors begin.
pub const HEAD: u64 = 6;
pub const TAIL: u64 = 64;
pub const SLOTS: u64 = 128;
/// Descriptor flag: the packet goes on.
pub const NEXT: u16 = 1;

/// Longer than anything takes, also on a machine that has far too much to do.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Says that a test can't be made here: past the test harness, which shows nothing of what passes.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// A message: its type, then its payload, then zeros.
pub fn message(kind: u16, payload: &[&[u8]]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(payload.concat());
    bytes.resize(128, 0);
    bytes
}

/// A field of text.
pub fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    field[..text.len()].copy_from_slice(text.as_bytes());
    field
}

/// The numbers of ADD_RING.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    pub flags: u16,
    pub index: u16,
    pub region: u16,
    pub offset: u32,
    pub log2: u8,
    pub private: u16,
}

impl Ring {
    pub fn message(self) -> Vec<u8> {
        let Self { flags, index, region, offset, log2, private } = self;
        let (flags, index, region) = (flags.to_le_bytes(), index.to_le_bytes(), region.to_le_bytes());
        let private = private.to_le_bytes();
        message(ADD_RING, &[&flags, &index, &region, &offset.to_le_bytes(), &[log2], &private])
    }
}

/// A descriptor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    pub flags: u16,
    pub region: u16,
    pub length: u32,
    pub offset: u32,
}

impl Slot {
    pub fn bytes(self) -> Vec<u8> {
        let Self { flags, region, length, offset } = self;
        let (flags, region) = (flags.to_le_bytes(), region.to_le_bytes());
        [&flags[..], &region, &length.to_le_bytes(), &offset.to_le_bytes(), &[0; 4]].concat()
    }
}

/// Shared memory: its file, and as much of it mapped as is written. As a file it can't be written once the other side has sealed it.
pub struct Memory {
    file: OwnedFd,
    mapped: RegionTable,
}

impl Memory {
    pub fn new(file: OwnedFd, size: u64) -> Self {
        let region = Region::map(file.try_clone().unwrap(), size, SealPolicy::Allow).unwrap();
        Self { file, mapped: RegionTable::new(vec![Arc::new(region)]).unwrap() }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Writes to shared memory.
pub fn put(memory: &Memory, at: u64, bytes: &[u8]) {
    let range = memory.mapped.check(0, at as u32, bytes.len() as u32).unwrap();
    assert_eq!(range.write(bytes), bytes.len());
}

/// Reads a 16-bit word of shared memory.
pub fn word(memory: impl AsFd, at: u64) -> u16 {
    let mut bytes = [0; 2];
    assert_eq!(rustix::io::pread(memory, &mut bytes, at).unwrap(), 2);
    u16::from_le_bytes(bytes)
}

/// A new seqpacket socket.
pub fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// An abstract address.
pub fn address(name: &str) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()
}

/// Sends bytes and descriptors. That the other end has closed already is fine: why, is read afterwards.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let _ = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}

/// Waits for a message; `None` at the end of the connection.
pub fn receive(socket: impl AsFd) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let started = Instant::now();
    let wait = Timespec::try_from(PATIENCE).unwrap();
    let ready = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait)).unwrap();
    assert!(ready > 0, "nothing heard in {:?}", started.elapsed());
    let mut buffer = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut receive =
        || recvmsg(&socket, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::CMSG_CLOEXEC);
    // An end with something unread is told before what was said last.
    let bytes = receive().or_else(|_| receive()).map_or(0, |message| message.bytes);
    let mut fds = Vec::new();
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            fds.extend(rights);
        }
    }
    (bytes > 0).then(|| (buffer[..bytes].to_vec(), fds))
}

/// Type of a message.
pub fn kind(message: &[u8]) -> u16 {
    u16::from_le_bytes([message[0], message[1]])
}

/// Listens until the connection ends: the words of its one DISCONNECT, which must be the last message.
pub fn last_words(socket: impl AsFd) -> String {
    let mut words = None;
    while let Some((message, _)) = receive(&socket) {
        assert!(words.is_none(), "something was said after DISCONNECT: {message:?}");
        if kind(&message) == DISCONNECT {
            assert_eq!(message.len(), 128);
            let text = message[6..102].split(|byte| *byte == 0).next().unwrap();
            words = Some(String::from_utf8(text.to_vec()).unwrap());
        }
    }
    words.expect("the connection ended without a DISCONNECT")
}

/// Numbers that look like chance, the same in each run (xorshift).
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
