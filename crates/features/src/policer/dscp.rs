//! The differentiated services code point of IPv4 and IPv6: how packets come coloured, and how they are marked.

use graph::packet::HEAD_AREA;
use tables::policer::Colour;
use wire::checksum;

/// The highest code point: six bits.
pub const MAX_DSCP: u8 = 63;

/// Bytes from an IPv4 header's beginning to its checksum.
const CHECKSUM: usize = 10;
/// Where the code point is in the first word of both versions' headers, and how far it is shifted.
const V4: (u16, u32) = (0x00fc, 2);
const V6: (u16, u32) = (0x0fc0, 6);

/// The first word of the IP header at `l3`, and where the code point is in it.
#[inline(always)]
fn first_word(area: &[u8; HEAD_AREA], l3: usize, end: usize) -> Option<(u16, (u16, u32))> {
    let word = u16::from_be_bytes(*area.get(l3..end)?.first_chunk()?);
    match word >> 12 {
        4 => Some((word, V4)),
        6 => Some((word, V6)),
        _ => None,
    }
}

/// How a packet comes, by the drop precedence of the assured forwarding classes (RFC 2597: AF*x*1 green, AF*x*2 yellow, AF*x*3 red). All others
/// are green.
#[inline(always)]
pub(crate) fn colour(area: &[u8; HEAD_AREA], l3: usize, end: usize) -> Colour {
    let Some((word, (mask, shift))) = first_word(area, l3, end) else { return Colour::Green };
    match (word & mask) >> shift {
        12 | 20 | 28 | 36 => Colour::Yellow,
        14 | 22 | 30 | 38 => Colour::Red,
        _ => Colour::Green,
    }
}

/// Gives the IP header at `l3` a code point; an IPv4 header's checksum changes with it (RFC 1624). False where there is none.
#[inline(always)]
pub(crate) fn mark(area: &mut [u8; HEAD_AREA], l3: usize, end: usize, dscp: u8) -> bool {
    let Some((old, (mask, shift))) = first_word(area, l3, end) else { return false };
    let Some(header) = area.get_mut(l3..end) else { return false };
    let new = old & !mask | u16::from(dscp) << shift & mask;
    if mask == V4.0 {
        let Some(field) = header.get_mut(CHECKSUM..).and_then(|rest| rest.first_chunk_mut::<2>()) else {
            return false;
        };
        *field = checksum::update_u16(u16::from_be_bytes(*field), old, new).to_be_bytes();
    }
    if let Some(word) = header.first_chunk_mut::<2>() {
        *word = new.to_be_bytes();
    }
    true
}
