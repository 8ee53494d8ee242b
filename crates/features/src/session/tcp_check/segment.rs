//! What matters of a segment.

use crate::session::tuple::transport_at;
use graph::packet::{Packets, SlotId};
use wire::{Header, TcpFlags, TcpHeader, TcpOption, TcpReason};

pub(super) const FIN: u8 = TcpFlags::FIN.bits();
pub(super) const SYN: u8 = TcpFlags::SYN.bits();
pub(super) const RST: u8 = TcpFlags::RST.bits();
pub(super) const ACK: u8 = TcpFlags::ACK.bits();

/// Greatest shift of a window (RFC 7323 section 2.3).
pub(super) const MAX_SCALE: u8 = 14;

/// A segment.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct Segment {
    /// FIN, SYN, RST and ACK.
    pub(super) flags: u8,
    /// All that it has.
    pub(in crate::session) flag_bits: u8,
    pub(in crate::session) sequence: u32,
    pub(in crate::session) acknowledgment: u32,
    /// As the header says, not yet scaled.
    pub(in crate::session) window: u16,
    /// Bytes of data.
    pub(super) payload: u32,
    /// It is the first fragment of a packet: there is more data than that.
    pub(super) cut: bool,
    /// Of a SYN: what its sender shifts windows by, if it can.
    pub(super) scale: Option<u8>,
    /// Of a SYN: it has timestamps.
    pub(super) timestamps: bool,
}

impl Segment {
    /// The segment of a packet whose network header its metadata points to; `None` where its header can't be.
    #[inline(always)]
    pub(in crate::session) fn read(packets: &Packets, slot: SlotId, is_v6: bool) -> Option<Self> {
        let (at, cut) = transport_at(packets, slot, is_v6)?;
        let meta = packets.meta(slot);
        let head = packets.area(slot).get(at..meta.end.into())?;
        let len = (meta.len() as usize).checked_sub(at - usize::from(meta.data))?;
        let (header, _) = TcpHeader::parse(head).ok()?;
        let header_len = header.header_len();
        if header_len < TcpHeader::LEN || header_len > len {
            return None;
        }
        let flags = header.flag_bits & (FIN | SYN | RST | ACK);
        // As values: what is written field by field and read as a whole has to wait until all of that is in the cache.
        let (scale, timestamps) = if flags & SYN == 0 { (None, false) } else { options(head, len) };
        Some(Self {
            flags,
            flag_bits: header.flag_bits,
            sequence: header.sequence.get(),
            acknowledgment: header.acknowledgment.get(),
            window: header.window.get(),
            payload: (len - header_len) as u32,
            cut,
            scale,
            timestamps,
        })
    }

    /// Whether all of these flags are set.
    #[inline(always)]
    pub(in crate::session) const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Whether its flags are some that TCPs send: the first segment has SYN alone, all others ACK too, but for RSTs.
    #[inline(always)]
    pub(super) const fn makes_sense(&self) -> bool {
        const SENT: u32 =
            1 << SYN | 1 << (SYN | ACK) | 1 << ACK | 1 << (FIN | ACK) | 1 << RST | 1 << (RST | ACK);
        SENT >> self.flags & 1 != 0
    }

    /// Sequence number behind its last byte: SYN and FIN count as one.
    #[inline(always)]
    pub(in crate::session) const fn end(&self) -> u32 {
        let marks = (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32;
        self.sequence.wrapping_add(self.payload).wrapping_add(marks)
    }
}

/// What a SYN's sender shifts windows by, if it can, and whether it has timestamps.
#[inline(never)]
fn options(head: &[u8], len: usize) -> (Option<u8>, bool) {
    let (mut scale, mut timestamps) = (None, false);
    match TcpHeader::check(head, len) {
        Ok((_, options)) => {
            for option in options.flatten() {
                match option {
                    TcpOption::WindowScale(shift) => scale = Some(shift.min(MAX_SCALE)),
                    TcpOption::Timestamps { .. } => timestamps = true,
                    _ => {}
                }
            }
        }
        // They lie behind what is looked at: nothing must be held against a sender who may scale.
        Err(TcpReason::HeadTooShort) => scale = Some(MAX_SCALE),
        Err(_) => {}
    }
    (scale, timestamps)
}
