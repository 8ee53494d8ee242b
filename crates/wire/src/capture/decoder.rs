//! Bytes in, packets out.

use alloc::vec::Vec;
use core::ops::Range;

use super::Direction;
use super::classic::Classic;
use super::error::CaptureError;
use super::next_generation::NextGeneration;
use crate::LinkType;

/// Longest block or record that is read, in bytes. Blocks of kinds that are skipped may be longer.
pub const MAX_BLOCK_LEN: u32 = 1 << 20;

/// Interfaces that are kept of one section.
pub const MAX_INTERFACES: usize = 4096;

/// A packet from a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Interface, counted from 0 within its section; always 0 in classic pcap.
    pub interface: u32,
    /// What the first byte is.
    pub link: LinkType,
    /// Nanoseconds since 1970-01-01 UTC; 0 where the file gives none.
    pub timestamp_ns: u64,
    /// Length on the wire in bytes. Not compared with that of `data`: files lie.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// Which way it went, if the file says.
    pub direction: Option<Direction>,
    /// First comment, empty if there is none or it isn't UTF-8.
    pub comment: &'a str,
}

/// Where the parts of a packet lie in the bytes at the front.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) interface: u32,
    pub(super) link: LinkType,
    pub(super) timestamp_ns: u64,
    pub(super) original_len: u32,
    pub(super) data: Range<usize>,
    pub(super) direction: Option<Direction>,
    pub(super) comment: Range<usize>,
    /// Bytes of the whole block.
    pub(super) len: usize,
}

/// What the bytes at the front are.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Not enough of them to say.
    More,
    /// Nothing of interest, this many bytes of it (which need not be there yet).
    Skip(usize),
    /// A packet.
    Packet(Found),
}

#[derive(Clone, Debug)]
enum Format {
    Unknown,
    Classic(Classic),
    NextGeneration(NextGeneration),
}

/// Reads pcap (both byte orders, micro- and nanoseconds) and pcapng (several sections and interfaces) from
/// bytes fed in pieces of any size.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quiver_wire::capture::Decoder;
///
/// let mut decoder = Decoder::new();
/// decoder.feed(&std::fs::read("lab.pcapng")?);
/// while let Some(packet) = decoder.next_packet()? {
///     println!("{} bytes on interface {}", packet.data.len(), packet.interface);
/// }
/// decoder.finish()?;
/// # Ok(())
/// # }
/// ```
///
/// It holds the bytes that were fed and not yet read; feed small pieces and ask for packets in between, and
/// that is at most a block and a piece.
#[derive(Clone, Debug)]
pub struct Decoder {
    format: Format,
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that are done with.
    done: usize,
    /// Bytes still to be skipped that haven't come yet.
    skip: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// At the start of a file.
    #[must_use]
    pub const fn new() -> Self {
        Self { format: Format::Unknown, buffer: Vec::new(), done: 0, skip: 0 }
    }

    /// Takes the next bytes of the file.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.done);
        self.done = 0;
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.buffer.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
    }

    /// The next packet, or `None` when more bytes are needed first.
    ///
    /// # Errors
    /// [`CaptureError`] when the file is not well formed; every further call says the same.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        loop {
            let bytes = self.buffer.get(self.done..).unwrap_or_default();
            let step = match &mut self.format {
                Format::Unknown => match Self::open(bytes)? {
                    Some((format, len)) => {
                        self.format = format;
                        Step::Skip(len)
                    }
                    None => Step::More,
                },
                Format::Classic(classic) => classic.step(bytes)?,
                Format::NextGeneration(next_generation) => next_generation.step(bytes)?,
            };
            match step {
                Step::More => return Ok(None),
                Step::Skip(len) => {
                    let here = len.min(bytes.len());
                    self.done += here;
                    self.skip = len - here;
                }
                Step::Packet(found) => {
                    let start = self.done;
                    self.done += found.len;
                    let block = self.buffer.get(start..).unwrap_or_default();
                    return Ok(Some(Packet {
                        interface: found.interface,
                        link: found.link,
                        timestamp_ns: found.timestamp_ns,
                        original_len: found.original_len,
                        data: block.get(found.data).unwrap_or_default(),
                        direction: found.direction,
                        comment: block
                            .get(found.comment)
                            .and_then(|comment| str::from_utf8(comment).ok())
                            .unwrap_or_default(),
                    }));
                }
            }
        }
    }

    /// Says whether the file may end here. Call it after [`Decoder::next_packet`] gave `None`.
    ///
    /// # Errors
    /// [`CaptureError::CutOff`] when it ends inside a block; an empty file does, too.
    pub fn finish(&self) -> Result<(), CaptureError> {
        let have = self.buffer.len() - self.done;
        if have > 0 || self.skip > 0 || matches!(self.format, Format::Unknown) {
            return Err(CaptureError::CutOff { have });
        }
        Ok(())
    }

    fn open(bytes: &[u8]) -> Result<Option<(Format, usize)>, CaptureError> {
        let Some(magic) = bytes.first_chunk() else { return Ok(None) };
        if NextGeneration::is_magic(*magic) {
            // the section header is a block like others: nothing is taken off
            return Ok(Some((Format::NextGeneration(NextGeneration::new()), 0)));
        }
        let opened = Classic::open(bytes, *magic)?;
        Ok(opened.map(|(classic, len)| (Format::Classic(classic), len)))
    }
}
