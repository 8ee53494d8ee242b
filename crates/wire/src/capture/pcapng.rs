//! Writing pcapng: a section header, then for each interface a description, then packets.
//!
//! ```
//! use quiver_wire::{LinkType, capture::{Direction, pcapng}};
//!
//! let mut file = Vec::new();
//! pcapng::section_header(&mut file, "quiver");
//! pcapng::interface(&mut file, LinkType::ETHERNET, "memif0", 0);
//! let packet = pcapng::Packet {
//!     interface: 0,
//!     timestamp_ns: 1_700_000_000_000_000_000,
//!     original_len: 1518,
//!     pieces: &[&[2, 0, 0, 0, 0, 1], &[2, 0, 0, 0, 0, 2, 8, 0]],
//!     direction: Some(Direction::Inbound),
//!     comment: "dropped: ip4-bad-checksum",
//! };
//! pcapng::packet(&mut file, &packet);
//! assert_eq!(file.len() % 4, 0);
//! ```
//!
//! Blocks are little endian, timestamps in nanoseconds. A writer that fails halfway leaves a file that ends
//! inside a block; so collect a block first, then write it in one go.

use super::Direction;
use crate::LinkType;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Block type, both lengths: what every block has.
const FRAME: usize = 12;
/// Code, length.
const OPTION: usize = 4;

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Interface, counted from 0 in the order of their descriptions.
    pub interface: u32,
    /// Nanoseconds since 1970-01-01 UTC.
    pub timestamp_ns: u64,
    /// Length on the wire in bytes; at least that of `pieces` together.
    pub original_len: u32,
    /// The captured bytes, in as many pieces as they lie in.
    pub pieces: &'a [&'a [u8]],
    /// Which way it went, if that is known.
    pub direction: Option<Direction>,
    /// Text for people, such as the reason of a drop; empty for none. Cut off at 65535 bytes.
    pub comment: &'a str,
}

/// Starts a file (or another section of it). `application` names the writer.
pub fn section_header(out: &mut impl Extend<u8>, application: &str) {
    let application = clip(application);
    let len = FRAME + 16 + option_len(application.len()) + OPTION;
    begin(out, SECTION_HEADER, len);
    put(out, &BYTE_ORDER_MAGIC.to_le_bytes());
    put(out, &1u16.to_le_bytes());
    put(out, &0u16.to_le_bytes());
    // length of the section: not given
    put(out, &u64::MAX.to_le_bytes());
    option(out, SHB_USERAPPL, application.as_bytes());
    option_end(out);
    end(out, len);
}

/// Describes the next interface. `snap_len` is the most bytes that are captured of a packet, 0 for no limit.
pub fn interface(out: &mut impl Extend<u8>, link: LinkType, name: &str, snap_len: u32) {
    let name = clip(name);
    let len = FRAME + 8 + option_len(name.len()) + option_len(1) + OPTION;
    begin(out, INTERFACE_DESCRIPTION, len);
    put(out, &link.0.to_le_bytes());
    put(out, &[0, 0]);
    put(out, &snap_len.to_le_bytes());
    option(out, IF_NAME, name.as_bytes());
    // 10^-9 seconds
    option(out, IF_TSRESOL, &[9]);
    option_end(out);
    end(out, len);
}

/// Writes one packet.
pub fn packet(out: &mut impl Extend<u8>, packet: &Packet<'_>) {
    let comment = clip(packet.comment);
    let data_len: usize = packet.pieces.iter().map(|piece| piece.len()).sum();
    let mut options_len = 0;
    if packet.direction.is_some() {
        options_len += option_len(4);
    }
    if !comment.is_empty() {
        options_len += option_len(comment.len());
    }
    if options_len > 0 {
        options_len += OPTION;
    }
    let len = FRAME + 20 + data_len.next_multiple_of(4) + options_len;

    begin(out, ENHANCED_PACKET, len);
    put(out, &packet.interface.to_le_bytes());
    put(out, &((packet.timestamp_ns >> 32) as u32).to_le_bytes());
    put(out, &(packet.timestamp_ns as u32).to_le_bytes());
    put(out, &(data_len as u32).to_le_bytes());
    put(out, &packet.original_len.to_le_bytes());
    for piece in packet.pieces {
        put(out, piece);
    }
    pad(out, data_len);
    if let Some(direction) = packet.direction {
        let bits: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        option(out, EPB_FLAGS, &bits.to_le_bytes());
    }
    if !comment.is_empty() {
        option(out, OPT_COMMENT, comment.as_bytes());
    }
    if options_len > 0 {
        option_end(out);
    }
    end(out, len);
}

fn put(out: &mut impl Extend<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().copied());
}

fn pad(out: &mut impl Extend<u8>, len: usize) {
    out.extend(core::iter::repeat_n(0, len.next_multiple_of(4) - len));
}

fn begin(out: &mut impl Extend<u8>, kind: u32, len: usize) {
    put(out, &kind.to_le_bytes());
    put(out, &(len as u32).to_le_bytes());
}

fn end(out: &mut impl Extend<u8>, len: usize) {
    put(out, &(len as u32).to_le_bytes());
}

fn option_len(len: usize) -> usize {
    OPTION + len.next_multiple_of(4)
}

fn option(out: &mut impl Extend<u8>, code: u16, value: &[u8]) {
    put(out, &code.to_le_bytes());
    put(out, &(value.len() as u16).to_le_bytes());
    put(out, value);
    pad(out, value.len());
}

fn option_end(out: &mut impl Extend<u8>) {
    put(out, &OPT_END.to_le_bytes());
    put(out, &[0, 0]);
}

/// The longest start of `text` whose length fits into an option.
fn clip(text: &str) -> &str {
    let end = text.floor_char_boundary(usize::from(u16::MAX));
    text.get(..end).unwrap_or(text)
}
