//! Received pieces, and those that wait for the next call.

use std::collections::VecDeque;
use std::sync::Arc;

use memif::RxSink;
use memif::region::CheckedRange;

use crate::link::Link;

/// A piece of a received packet: where it lies, for as long as its queue isn't released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte, with its provenance exposed.
    pub address: usize,
    /// Bytes.
    pub length: u32,
    /// The packet goes on in the next piece.
    pub more: bool,
}

impl Piece {
    fn of(range: CheckedRange<'_>, more: bool) -> Self {
        Self { address: range.as_ptr().expose_provenance(), length: range.len(), more }
    }
}

/// What a queue has handed out. Without a connection there is nothing.
pub(crate) type Lent = Option<Held>;

/// What was received over a connection and not given back.
#[derive(Debug)]
pub(crate) struct Held {
    /// The connection whose memory it lies in: kept alive until it is released.
    pub(crate) link: Arc<Link>,
    /// Pieces that found no place in the last call's array.
    pub(crate) rest: VecDeque<Piece>,
    /// Pieces that the application has.
    pub(crate) kept: usize,
}

impl Held {
    /// Whether pieces wait for the next call, over this link.
    pub(crate) fn waits(&self, link: &Arc<Link>) -> bool {
        !self.rest.is_empty() && Arc::ptr_eq(&self.link, link)
    }
}

/// Gives pieces out as long as there is room; the rest waits.
pub(crate) struct Sink<'r, F> {
    pub(crate) out: F,
    pub(crate) given: usize,
    pub(crate) max: usize,
    pub(crate) rest: &'r mut VecDeque<Piece>,
}

/// Pieces of the first packet of `rest` to give out now; `None` if there is none, or no place for all of it. Only a packet with more
/// pieces than a whole array goes on in the next call.
pub(crate) fn whole_packet(rest: &VecDeque<Piece>, max: usize, given: usize) -> Option<usize> {
    let pieces = rest.iter().position(|piece| !piece.more)? + 1;
    match given {
        0 if max > 0 => Some(pieces.min(max)),
        _ => (pieces <= max - given).then_some(pieces),
    }
}

impl<F: FnMut(Piece)> RxSink for Sink<'_, F> {
    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        let piece = Piece::of(bytes, false);
        // A chain before it may have filled the array, or waits for the next one.
        if self.given < self.max && self.rest.is_empty() {
            (self.out)(piece);
            self.given += 1;
        } else {
            self.rest.push_back(piece);
        }
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], _length: u32) {
        let fits = self.rest.is_empty() && parts.len() <= self.max - self.given;
        for (i, part) in parts.iter().enumerate() {
            let piece = Piece::of(*part, i + 1 < parts.len());
            if fits {
                (self.out)(piece);
                self.given += 1;
            } else {
                self.rest.push_back(piece);
            }
        }
    }
}
