//! Classic pcap: one header, then records.

use core::ops::Range;

use super::bytes::ByteOrder;
use super::decoder::{Found, MAX_BLOCK_LEN, Step};
use super::error::CaptureError;
use crate::LinkType;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// What the file's header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    order: ByteOrder,
    /// Nanoseconds of the fraction's unit: 1 or 1000.
    unit: u64,
    link: LinkType,
}

impl Classic {
    /// Byte order and unit by the first four bytes, if they are classic pcap's.
    fn magic(bytes: [u8; 4]) -> Option<(ByteOrder, u64)> {
        match bytes {
            [0xa1, 0xb2, 0xc3, 0xd4] => Some((ByteOrder::Big, 1000)),
            [0xd4, 0xc3, 0xb2, 0xa1] => Some((ByteOrder::Little, 1000)),
            [0xa1, 0xb2, 0x3c, 0x4d] => Some((ByteOrder::Big, 1)),
            [0x4d, 0x3c, 0xb2, 0xa1] => Some((ByteOrder::Little, 1)),
            _ => None,
        }
    }

    /// Reads the file's header: `None` when it isn't all there. With it, the header's length.
    pub(super) fn open(bytes: &[u8], magic: [u8; 4]) -> Result<Option<(Self, usize)>, CaptureError> {
        let (order, unit) = Self::magic(magic).ok_or(CaptureError::UnknownFormat { magic })?;
        if bytes.len() < FILE_HEADER {
            return Ok(None);
        }
        let major = order.u16(bytes, 4);
        if major != 2 {
            return Err(CaptureError::UnknownVersion { major });
        }
        // the upper half holds the length of a frame check sequence
        let link = LinkType(order.u32(bytes, 20) as u16);
        Ok(Some((Self { order, unit, link }, FILE_HEADER)))
    }

    /// The record at the front of `bytes`.
    pub(super) fn step(&self, bytes: &[u8]) -> Result<Step, CaptureError> {
        if bytes.len() < RECORD_HEADER {
            return Ok(Step::More);
        }
        let captured_len = self.order.u32(bytes, 8);
        if captured_len > MAX_BLOCK_LEN {
            return Err(CaptureError::BadLength { len: captured_len });
        }
        let data: Range<usize> = RECORD_HEADER..RECORD_HEADER + captured_len as usize;
        if bytes.len() < data.end {
            return Ok(Step::More);
        }
        let (seconds, fraction) = (self.order.u32(bytes, 0), self.order.u32(bytes, 4));
        let found = Found {
            interface: 0,
            link: self.link,
            // at most 2^32 * 10^9 + 2^32 * 1000: fits
            timestamp_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit,
            original_len: self.order.u32(bytes, 12),
            len: data.end,
            data,
            direction: None,
            comment: 0..0,
        };
        Ok(Step::Packet(found))
    }
}
