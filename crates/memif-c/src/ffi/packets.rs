//! Receiving and sending.

use std::ffi::{c_uint, c_void};
use std::ptr;

use memif::TxSource;
use memif::region::CheckedRange;

use super::{call, given, invalid, of, put, qm_port};
use crate::lend::Piece;
use crate::status::{Failure, Status};

/// `qm_piece`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CPiece {
    data: *const c_void,
    length: u32,
    flags: u32,
}

/// Flag of a piece: the packet goes on.
const MORE: u32 = 1;

/// See `qm_receive` in the header.
///
/// # Safety
/// The port is null or open, `pieces` null or room for `max`, `count` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_receive(
    port: *const qm_port,
    queue: c_uint,
    pieces: *mut CPiece,
    max: usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise, for this and what follows.
        unsafe { put(count, 0, "count") }?;
        // SAFETY: as above.
        let port = unsafe { given(port, "port") }?;
        if pieces.is_null() {
            return Err(invalid("pieces is NULL"));
        }
        let mut next = pieces;
        let put_piece = |piece: Piece| {
            let data = ptr::with_exposed_provenance(piece.address);
            // SAFETY: there is room for `max`, and no more pieces are given.
            unsafe {
                next.write(CPiece { data, length: piece.length, flags: u32::from(piece.more) * MORE });
                next = next.add(1);
            }
        };
        let received = port.receive(queue as usize, put_piece, max)?;
        // SAFETY: as above.
        unsafe { put(count, received, "count") }
    })
}

/// See `qm_release` in the header.
///
/// # Safety
/// The port is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_release(port: *const qm_port, queue: c_uint) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || unsafe { given(port, "port") }?.release(queue as usize))
}

/// See `qm_release_first` in the header.
///
/// # Safety
/// The port is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_release_first(port: *const qm_port, queue: c_uint, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || unsafe { given(port, "port") }?.release_first(queue as usize, count))
}

/// See `qm_read` in the header.
///
/// # Safety
/// The port is null or open, `buffer` null or room for `size` bytes, `length` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_read(
    port: *const qm_port,
    queue: c_uint,
    buffer: *mut c_void,
    size: usize,
    length: *mut usize,
) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise, for this and what follows.
        unsafe { put(length, 0, "length") }?;
        // SAFETY: as above.
        let port = unsafe { given(port, "port") }?;
        if buffer.is_null() {
            return Err(invalid("buffer is NULL"));
        }
        let mut total = 0_usize;
        port.read(queue as usize, |piece: Piece| {
            let n = piece.length as usize;
            if total.checked_add(n).is_some_and(|end| end <= size) {
                let from = ptr::with_exposed_provenance::<u8>(piece.address);
                // SAFETY: the piece lies in memory that stays mapped until it is released; total + n bytes are
                // inside the buffer. They don't overlap unless the caller's buffer is in shared memory, which
                // `copy` allows.
                unsafe { ptr::copy(from, buffer.cast::<u8>().add(total), n) };
            }
            total = total.saturating_add(n);
        })?;
        if total > size {
            let text = format!("packet of {total} bytes for a buffer of {size}");
            return Err(Failure::new(Status::TooLong, port.name(), text));
        }
        // SAFETY: as above.
        unsafe { put(length, total, "length") }
    })
}

/// See `qm_send` in the header.
///
/// # Safety
/// The port is null or open, `pieces` null or an array of `count` whose data is readable, `sent` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qm_send(
    port: *const qm_port,
    queue: c_uint,
    pieces: *const CPiece,
    count: usize,
    sent: *mut usize,
) -> i32 {
    // SAFETY: the caller's promise.
    call(unsafe { of(port) }, || {
        // SAFETY: the caller's promise, for this and what follows.
        unsafe { put(sent, 0, "sent") }?;
        // SAFETY: as above.
        let port = unsafe { given(port, "port") }?;
        if count == 0 {
            return Ok(());
        }
        if pieces.is_null() {
            return Err(invalid("pieces is NULL"));
        }
        // SAFETY: as above.
        let pieces = unsafe { std::slice::from_raw_parts(pieces, count) };
        let (mut packets, mut more, mut missing, mut flags) = (0, 0, false, 0);
        for piece in pieces {
            more = piece.flags & MORE;
            packets += usize::from(more == 0);
            flags |= piece.flags;
            missing |= piece.data.is_null() & (piece.length > 0);
        }
        if missing {
            return Err(invalid("data of a piece is NULL"));
        }
        if flags & !MORE != 0 {
            return Err(invalid(&format!("flags {:#x} of a piece don't exist", flags & !MORE)));
        }
        if more != 0 {
            return Err(invalid("the last piece says that its packet goes on"));
        }
        let mut source = Source { pieces, packet: 0, start: 0, end: 0, refused: false };
        let (done, longest) = port.send(queue as usize, packets, &mut source)?;
        if source.refused && done == 0 {
            let length: u64 = pieces[..source.end].iter().map(|piece| u64::from(piece.length)).sum();
            let text = match length {
                0 => "packet of 0 bytes: an empty one is never sent".into(),
                _ if length > longest.into() => {
                    format!("packet of {length} bytes: the longest that is sent here has {longest}")
                }
                _ => format!("packet of {length} bytes: longer than all buffers of the ring together"),
            };
            return Err(Failure::new(Status::TooLong, port.name(), text));
        }
        // Where the first packet that wasn't sent begins.
        let taken = if done > source.packet || source.end == 0 { source.end } else { source.start };
        // SAFETY: as above.
        unsafe { put(sent, taken, "sent") }
    })
}

/// Copies bytes that may overlap. Small packets without a call: both ends in pieces of fixed size, all read before any is written.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `n` bytes; others may write there meanwhile.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise: the ends lie inside the n bytes.
    unsafe {
        match n {
            32..=64 => ends::<32>(from, to, n),
            65..=128 => ends::<64>(from, to, n),
            _ => ptr::copy(from, to, n),
        }
    }
}

/// Copies the first and the last `N` bytes.
///
/// # Safety
/// As [`copy`], and `n` is at least `N`.
#[inline(always)]
unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise. Arrays of bytes need no alignment.
    unsafe {
        let (first, last) = (from.cast::<[u8; N]>().read(), from.add(n - N).cast::<[u8; N]>().read());
        to.cast::<[u8; N]>().write(first);
        to.add(n - N).cast::<[u8; N]>().write(last);
    }
}

/// Packets of pieces, asked for in order.
struct Source<'p> {
    pieces: &'p [CPiece],
    /// The packet asked for last: `pieces[start..end]`.
    packet: usize,
    start: usize,
    end: usize,
    refused: bool,
}

impl TxSource for Source<'_> {
    #[inline]
    fn length(&mut self, packet: usize) -> u32 {
        if self.end == 0 || packet > self.packet {
            (self.packet, self.start) = (packet, self.end);
        }
        if let Some(CPiece { length, flags, .. }) = self.pieces.get(self.start)
            && flags & MORE == 0
        {
            self.end = self.start + 1;
            return *length;
        }
        let mut length = 0_u32;
        self.end = self.start;
        for piece in &self.pieces[self.start..] {
            self.end += 1;
            length = length.saturating_add(piece.length);
            if piece.flags & MORE == 0 {
                break;
            }
        }
        length
    }

    #[inline]
    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        match self.pieces.get(self.start) {
            // SAFETY: the packet is one piece, readable as the caller of `qm_send` says, and the range is as long as it.
            Some(piece) if piece.flags & MORE == 0 => unsafe {
                copy(piece.data.cast(), into.as_ptr(), into.len() as usize);
            },
            _ => self.write_chain(packet, &[into]),
        }
    }

    #[inline]
    fn write_chain(&mut self, _packet: usize, into: &[CheckedRange<'_>]) {
        let mut into = into.iter();
        let (mut to, mut room) = (ptr::null_mut::<u8>(), 0);
        for piece in &self.pieces[self.start..self.end] {
            let (mut from, mut left) = (piece.data.cast::<u8>(), piece.length as usize);
            while left > 0 {
                if room == 0 {
                    let Some(part) = into.next() else { return };
                    (to, room) = (part.as_ptr(), part.len() as usize);
                }
                let n = left.min(room);
                // SAFETY: n bytes are left of the piece, which the caller of `qm_send` says is readable, and room for n is
                // left in a range that stays mapped during `transmit`. `copy` allows them to overlap: a peer may have the
                // same memory behind both. What it changes meanwhile changes only which bytes are copied.
                unsafe {
                    copy(from, to, n);
                    (from, to) = (from.add(n), to.add(n));
                }
                (left, room) = (left - n, room - n);
            }
        }
    }

    fn refused(&mut self, _packet: usize) -> bool {
        self.refused = true;
        false
    }
}
