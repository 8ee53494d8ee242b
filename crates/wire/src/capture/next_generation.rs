//! pcapng: blocks, each with its length at both ends.

use alloc::vec::Vec;
use core::ops::Range;

use super::Direction;
use super::bytes::ByteOrder;
use super::decoder::{Found, MAX_BLOCK_LEN, MAX_INTERFACES, Step};
use super::error::CaptureError;
use crate::LinkType;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, but old files have it.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const EPB_FLAGS: u16 = 2;

/// Where a block's contents start: behind its type and length.
const BODY: usize = 8;
/// Type and both lengths.
const FRAME: usize = 12;

/// What is known of an interface.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snap_len: u32,
    /// Timestamp units in a second.
    units_per_second: u128,
    /// Seconds added to each timestamp.
    offset: i64,
}

impl Interface {
    /// Timestamp in nanoseconds since 1970; 0 before, the largest number beyond what 64 bits hold.
    fn nanoseconds(&self, high: u32, low: u32) -> u64 {
        let units = u128::from(high) << 32 | u128::from(low);
        // 64 and 30 bits: fits, and so does the sum in 127
        let nanoseconds = (units * 1_000_000_000 / self.units_per_second) as i128;
        let offset = i128::from(self.offset) * 1_000_000_000;
        u64::try_from((nanoseconds + offset).max(0)).unwrap_or(u64::MAX)
    }
}

/// State of the current section.
#[derive(Clone, Debug)]
pub(super) struct NextGeneration {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

impl NextGeneration {
    pub(super) const fn new() -> Self {
        Self { order: ByteOrder::Little, interfaces: Vec::new() }
    }

    /// The type of a section header reads the same in both byte orders.
    pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
        u32::from_be_bytes(bytes) == SECTION_HEADER
    }

    /// The block at the front of `bytes`.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Step, CaptureError> {
        // a section header tells its byte order behind its length
        if bytes.len() < FRAME {
            return Ok(Step::More);
        }
        let kind = self.order.u32(bytes, 0);
        if kind == SECTION_HEADER {
            self.order = match bytes.get(8..12) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => ByteOrder::Big,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => ByteOrder::Little,
                other => {
                    let magic = other.and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
                    return Err(CaptureError::UnknownFormat { magic });
                }
            };
        }
        let len = self.order.u32(bytes, 4);
        if len < FRAME as u32 || !len.is_multiple_of(4) {
            return Err(CaptureError::BadLength { len });
        }
        let fixed = match kind {
            SECTION_HEADER => 16,
            INTERFACE_DESCRIPTION => 8,
            PACKET | ENHANCED_PACKET => 20,
            SIMPLE_PACKET => 4,
            // not looked into, so not held either
            _ => return Ok(Step::Skip(len as usize)),
        };
        if len > MAX_BLOCK_LEN || (len as usize) < FRAME + fixed {
            return Err(CaptureError::BadLength { len });
        }
        let Some(block) = bytes.get(..len as usize) else { return Ok(Step::More) };
        let end = self.order.u32(block, block.len() - 4);
        if end != len {
            return Err(CaptureError::LengthMismatch { start: len, end });
        }
        match kind {
            SECTION_HEADER => self.section(block),
            INTERFACE_DESCRIPTION => self.interface(block),
            SIMPLE_PACKET => self.simple_packet(block),
            _ => self.packet(block, kind),
        }
    }

    fn section(&mut self, block: &[u8]) -> Result<Step, CaptureError> {
        let major = self.order.u16(block, BODY + 4);
        if major != 1 {
            return Err(CaptureError::UnknownVersion { major });
        }
        self.interfaces.clear();
        Ok(Step::Skip(block.len()))
    }

    fn interface(&mut self, block: &[u8]) -> Result<Step, CaptureError> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(CaptureError::TooManyInterfaces);
        }
        let mut interface = Interface {
            link: LinkType(self.order.u16(block, BODY)),
            snap_len: self.order.u32(block, BODY + 4),
            units_per_second: 1_000_000,
            offset: 0,
        };
        for (code, value) in self.options(block, BODY + 8) {
            match (code, value.len()) {
                (IF_TSRESOL, 1..) => {
                    let resolution = block.get(value.start).copied().unwrap_or_default();
                    interface.units_per_second = units_per_second(resolution)?;
                }
                (IF_TSOFFSET, 8..) => interface.offset = self.order.u64(block, value.start).cast_signed(),
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(Step::Skip(block.len()))
    }

    fn packet(&self, block: &[u8], kind: u32) -> Result<Step, CaptureError> {
        let interface = match kind {
            // 16 bits of interface, 16 bits of drop counter
            PACKET => self.order.u16(block, BODY).into(),
            _ => self.order.u32(block, BODY),
        };
        let described = self.described(interface)?;
        let data = self.data(block, BODY + 20, self.order.u32(block, BODY + 12))?;
        let mut found = Found {
            interface,
            link: described.link,
            timestamp_ns: described
                .nanoseconds(self.order.u32(block, BODY + 4), self.order.u32(block, BODY + 8)),
            original_len: self.order.u32(block, BODY + 16),
            data: data.clone(),
            direction: None,
            comment: 0..0,
            len: block.len(),
        };
        for (code, value) in self.options(block, data.end.next_multiple_of(4)) {
            match (code, value.len()) {
                (OPT_COMMENT, _) if found.comment.is_empty() => found.comment = value,
                (EPB_FLAGS, 4..) => {
                    found.direction = match self.order.u32(block, value.start) & 3 {
                        1 => Some(Direction::Inbound),
                        2 => Some(Direction::Outbound),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        Ok(Step::Packet(found))
    }

    /// A simple packet belongs to interface 0 and has neither timestamp nor captured length.
    fn simple_packet(&self, block: &[u8]) -> Result<Step, CaptureError> {
        let described = self.described(0)?;
        let original_len = self.order.u32(block, BODY);
        let limit = if described.snap_len == 0 { u32::MAX } else { described.snap_len };
        let data = self.data(block, BODY + 4, original_len.min(limit))?;
        Ok(Step::Packet(Found {
            interface: 0,
            link: described.link,
            timestamp_ns: 0,
            original_len,
            data,
            direction: None,
            comment: 0..0,
            len: block.len(),
        }))
    }

    fn described(&self, interface: u32) -> Result<&Interface, CaptureError> {
        self.interfaces.get(interface as usize).ok_or(CaptureError::UnknownInterface { interface })
    }

    /// Where `captured_len` bytes from `start` on lie, if the block has that many.
    fn data(&self, block: &[u8], start: usize, captured_len: u32) -> Result<Range<usize>, CaptureError> {
        let room = (block.len() - 4).saturating_sub(start);
        if captured_len as usize > room {
            return Err(CaptureError::BadLength { len: captured_len });
        }
        Ok(start..start + captured_len as usize)
    }

    /// Options of a block from `start` on: code, and where the value lies. A broken one ends the list.
    fn options<'b>(
        &self,
        block: &'b [u8],
        start: usize,
    ) -> impl Iterator<Item = (u16, Range<usize>)> + use<'b> {
        let end = block.len() - 4;
        let order = self.order;
        let mut at = start;
        core::iter::from_fn(move || {
            if at + 4 > end {
                return None;
            }
            let (code, len) = (order.u16(block, at), usize::from(order.u16(block, at + 2)));
            let value = at + 4..at + 4 + len;
            if code == OPT_END || value.end > end {
                return None;
            }
            at = value.end.next_multiple_of(4);
            Some((code, value))
        })
    }
}

/// Highest bit clear: the rest is an exponent of 10; set: of 2.
fn units_per_second(resolution: u8) -> Result<u128, CaptureError> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).ok_or(CaptureError::BadResolution { resolution })
}
