//! The frames of a stream, built once: all bytes, with room for what changes from packet to packet.

use super::layout::Layout;
use super::modifier::Modifier;
use super::signature::{self, Mark, Signature};
use super::stack::{Layer, StackError};
use core::ops::Range;
use wire::checksum::Partial;
use wire::ipv4::{Ipv4Flags, Ipv4Header};
use wire::ipv6::Ipv6Header;
use wire::{
    EthernetHeader, Header, Icmpv4Header, Icmpv6Header, IntoBytes, IpProtocol, Tci, TcpHeader, U16, U32,
    UdpHeader, VlanTag,
};

/// Most bytes of headers.
pub const HEADERS: usize = 192;

/// A field that changes: a big-endian number of whole bytes, some bits of which may stay.
#[derive(Clone, Debug)]
pub struct Field {
    /// Where it begins in the frame.
    pub offset: usize,
    /// Bytes: 1, 2, 4, 6 or 8.
    pub width: usize,
    /// The bits that stay.
    pub rest: u64,
    /// How far to the left the changing bits stand.
    pub shift: u32,
    /// How they change.
    pub modifier: Modifier,
    /// What a change of it means to each of the [sums](Layout::sums): how often its words are added; below 0 for those in
    /// which a checksum further in weighs more than the field itself.
    pub weights: Vec<i8>,
}

impl Field {
    /// All of its bits for a value of those that change.
    #[inline(always)]
    #[must_use]
    pub const fn number(&self, value: u64) -> u64 {
        value << self.shift | self.rest
    }

    /// What the number weighs in a checksum: the sum of the 16-bit words it lies in, as they stand in memory.
    #[inline(always)]
    #[must_use]
    pub const fn words(&self, number: u64) -> u32 {
        // Left-aligned in 8 bytes, behind a byte of 0 if the field begins in the middle of a word.
        let bytes = number << (8 * (8 - self.width - (self.offset & 1)));
        words(bytes)
    }
}

/// Sum of the four 16-bit words of a big-endian number, as they stand in memory.
#[inline(always)]
#[must_use]
pub const fn words(number: u64) -> u32 {
    let laid_out = number.to_be();
    (laid_out & 0xffff) as u32
        + (laid_out >> 16 & 0xffff) as u32
        + (laid_out >> 32 & 0xffff) as u32
        + (laid_out >> 48) as u32
}

/// Folds a sum of words to one; never 0 for a sum that isn't.
#[inline(always)]
#[must_use]
pub const fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// A checksum of a stack.
#[derive(Clone, Debug)]
pub struct Sum {
    /// Where it stands.
    pub offset: usize,
    /// 0 means "none", so 0xffff is written instead.
    pub udp: bool,
    /// What it covers, to the end of a header or of the frame.
    pub(super) covers: Range<usize>,
    /// Addresses and protocol of its pseudo header.
    pub(super) pseudo: Option<(Range<usize>, IpProtocol)>,
}

impl Layout {
    /// The frame of `len` bytes, in the state of its first packet. `lane` gives it a signature, with a timestamp if
    /// `stamped`.
    ///
    /// # Errors
    /// [`StackError::TooShort`].
    pub fn template(&self, len: usize, lane: Option<u16>, stamped: bool) -> Result<Template, StackError> {
        let signed = lane.map(|_| stamped);
        let need = self.least(signed);
        if len < need {
            let signature = match signed {
                None => "",
                Some(false) => " and the signature",
                Some(true) => " and the signature with a timestamp",
            };
            return Err(StackError::TooShort { len, headers: self.headers, signature, need });
        }
        let mut bytes = vec![0; len];
        let (headers, payload) = bytes.split_at_mut(self.headers);
        let mut at = 0;
        for (n, layer) in self.stack.iter().enumerate() {
            let header = headers.get_mut(at..at + layer.len()).unwrap_or_default();
            emit(layer, self.stack.get(n + 1), len - at, header);
            at += layer.len();
        }
        for (n, byte) in payload.iter_mut().enumerate() {
            *byte = n as u8;
        }
        let check_base = lane.map_or(0, |lane| sign(payload, lane, stamped));
        let base = self.fill_sums(&mut bytes);
        Ok(Template { bytes, base, check_base })
    }

    /// Writes all checksums, from the inside out, and gives what each adds up to without the fields that change.
    fn fill_sums(&self, bytes: &mut [u8]) -> Vec<u32> {
        let mut totals = Vec::new();
        for (n, sum) in self.sums.iter().enumerate().rev() {
            let end = sum.covers.end.min(bytes.len());
            let mut total = Partial::of(bytes.get(sum.covers.start..end).unwrap_or_default());
            if let Some((addresses, protocol)) = &sum.pseudo {
                total = total
                    .plus(Partial::of(bytes.get(addresses.clone()).unwrap_or_default()))
                    .plus(Partial::of_u16(protocol.0.into()))
                    .plus(Partial::of_u32((end - sum.covers.start) as u32));
            }
            let checksum = if sum.udp { UdpHeader::finish_checksum(total) } else { total.checksum() };
            if let Some(place) = bytes.get_mut(sum.offset..sum.offset + 2) {
                place.copy_from_slice(&checksum.to_be_bytes());
            }
            // As it stands in memory. One multiple of 0xffff on top keeps it from folding to 0.
            let mut base = u32::from(total.fold().to_be()) + 0xffff;
            for field in &self.fields {
                let words = field.words(field.number(first(bytes, field)));
                base += weigh(words, -field.weights.get(n).copied().unwrap_or(0));
            }
            totals.push(base);
        }
        totals.reverse();
        totals
    }
}

/// What `weight` times `words` adds to a sum; taking away is adding the complement.
#[inline(always)]
const fn weigh(words: u32, weight: i8) -> u32 {
    let one = if weight < 0 { 4 * 0xffff - words } else { words };
    one * weight.unsigned_abs() as u32
}

/// The changing bits of a field as they stand in a template.
fn first(bytes: &[u8], field: &Field) -> u64 {
    let stored = bytes.get(field.offset..field.offset + field.width).unwrap_or_default();
    let number = stored.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (number ^ field.rest) >> field.shift
}

/// Puts the signature of packet 0 of run 0 at the end; gives what the payload adds up to without its number, timestamp and
/// check, from the signature's point of view (see [`check_of`]).
fn sign(payload: &mut [u8], lane: u16, stamped: bool) -> u32 {
    let len = payload.len();
    let at = len - signature::LEN;
    if stamped && let Some(stamp) = payload.get_mut(len - signature::STAMPED_LEN..at) {
        stamp.fill(0);
    }
    let signature = Signature { mark: Mark { run: 0, lane, stamped }, payload_len: len as u16, sequence: 0 };
    payload.get_mut(at..).unwrap_or_default().copy_from_slice(&signature.unchecked());
    let odd = !at.is_multiple_of(2);
    let sum = Partial::of(payload);
    let check = signature::check(sum, odd);
    payload.get_mut(at + 6..at + 8).unwrap_or_default().copy_from_slice(&check);
    let native = u32::from(sum.fold().to_be());
    if odd { u32::from((native as u16).swap_bytes()) } else { native }
}

/// Check of a packet of that [number](Signature::number), whose template has `base`: as it stands in memory.
#[inline(always)]
#[must_use]
pub const fn check_of(base: u32, number: u64, stamp: u64) -> u16 {
    !fold(base + words(number) + words(stamp))
}

/// One length of a stream's frames.
#[derive(Clone, Debug)]
pub struct Template {
    /// The frame of the first packet, of run 0.
    pub bytes: Vec<u8>,
    /// What each checksum covers, added up, without the fields that change.
    pub base: Vec<u32>,
    /// For [`check_of`].
    pub check_base: u32,
}

/// Writes one header with its checksum 0; `len` counts from its first byte to the frame's end.
fn emit(layer: &Layer, next: Option<&Layer>, len: usize, into: &mut [u8]) {
    let after = (len - layer.len()) as u16;
    // Each header is as long as `Layer::len` says, and so is `into`.
    let _ = match layer {
        Layer::Ethernet(ethernet) => {
            let ethertype = Layer::ethertype(next);
            EthernetHeader { dst: ethernet.dst.value, src: ethernet.src.value, ethertype }.emit(into)
        }
        Layer::Vlan(vlan) => {
            let tci = Tci::new(vlan.priority, false, vlan.id.value);
            VlanTag { tci, ethertype: Layer::ethertype(next) }.emit(into)
        }
        Layer::Ipv4(ip) => {
            let (protocol, ttl) = (Layer::protocol(next), ip.ttl.value);
            let mut header = Ipv4Header::new(ip.src.value, ip.dst.value, protocol, ttl, len as u16);
            (header.id, header.checksum) = (U16::new(ip.id.value), U16::ZERO);
            header.dscp_ecn = ip.tos.value;
            if ip.dont_fragment {
                header.set_fragment(Ipv4Flags::DONT_FRAGMENT, 0);
            }
            header.emit(into)
        }
        Layer::Ipv6(ip) => {
            let (protocol, hops) = (Layer::protocol(next), ip.hop_limit.value);
            let mut header = Ipv6Header::new(ip.src.value, ip.dst.value, protocol, hops, after);
            header.set_traffic_class(ip.traffic_class);
            header.set_flow_label(ip.flow_label.value);
            header.emit(into)
        }
        Layer::Udp(udp) => UdpHeader::new(udp.src.value, udp.dst.value, len as u16).emit(into),
        Layer::Tcp(tcp) => TcpHeader {
            src_port: U16::new(tcp.src.value),
            dst_port: U16::new(tcp.dst.value),
            sequence: U32::new(tcp.seq.value),
            acknowledgment: U32::new(tcp.ack.value),
            data_offset: 5 << 4,
            flag_bits: tcp.flags.value,
            window: U16::new(tcp.window.value),
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
        .emit(into),
        Layer::Icmp(echo) => Icmpv4Header::echo_request(echo.id.value, echo.sequence.value).emit(into),
        Layer::Icmpv6(echo) => Icmpv6Header::echo_request(echo.id.value, echo.sequence.value).emit(into),
        Layer::Vxlan(vxlan) => {
            // Flags with a valid VNI, 24 bits reserved; VNI, 8 bits reserved (RFC 7348 section 5).
            let header = [U32::new(0x0800_0000), U32::new(vxlan.vni.value << 8)];
            into.copy_from_slice(header.as_bytes());
            Ok(into)
        }
    };
}
