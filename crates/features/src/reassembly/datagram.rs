//! One datagram of which fragments are there.

use graph::IfIndex;

/// Pieces of one: as many as the largest datagram has at the smallest MTU that every IPv4 host takes (576).
pub(super) const PIECES: usize = 128;

/// A fragment's place, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'p> {
    /// Where its payload begins in the whole, in bytes.
    pub(super) offset: usize,
    /// Others follow.
    pub(super) more: bool,
    /// The bytes.
    pub(super) payload: &'p [u8],
    /// All headers before the payload. Those of the first piece become the whole's.
    pub(super) headers: &'p [u8],
}

/// Why a fragment isn't taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It has come before.
    Duplicate,
    /// It overlaps another one, or is of a datagram of which one did.
    Overlap,
    /// It lies beyond the datagram's end, or says that it ends elsewhere.
    BadEnd,
    /// The datagram has too many pieces.
    TooMany,
}

/// A datagram of which pieces are there.
#[derive(Clone, Debug)]
pub(super) struct Datagram<K> {
    pub(super) key: K,
    /// The interface that its first piece came in by.
    pub(super) from: IfIndex,
    pub(super) begun: u64,
    pub(super) headers: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// First byte and the one behind the last of each piece, in order.
    pub(super) pieces: Vec<(usize, usize)>,
    /// Length of the payload, once the last piece has come.
    len: Option<usize>,
    /// Nothing will come of it.
    pub(super) spoilt: bool,
}

impl<K> Datagram<K> {
    /// None of its pieces yet.
    pub(super) fn new(key: K, from: IfIndex, begun: u64) -> Self {
        Self {
            key,
            from,
            begun,
            headers: Vec::new(),
            payload: Vec::new(),
            pieces: Vec::new(),
            len: None,
            spoilt: false,
        }
    }

    /// Nothing will come of it. What it has been is returned.
    pub(super) fn spoil(&mut self) -> Self
    where
        K: Copy,
    {
        let spoilt = Self { spoilt: true, ..Self::new(self.key, self.from, self.begun) };
        core::mem::replace(self, spoilt)
    }

    /// The first fragment as it came, where it is there.
    pub(super) fn first(&self) -> Option<Vec<u8>> {
        let (_, end) = self.pieces.first().filter(|(start, _)| *start == 0)?;
        Some([&self.headers[..], self.payload.get(..*end)?].concat())
    }

    /// Takes a piece.
    pub(super) fn add(&mut self, piece: Piece<'_>) -> Result<(), Refused> {
        if self.spoilt {
            return Err(Refused::Overlap);
        }
        let (start, end) = (piece.offset, piece.offset + piece.payload.len());
        if self.pieces.contains(&(start, end)) {
            return Err(Refused::Duplicate);
        }
        let last = self.pieces.last().map_or(0, |last| last.1);
        let wrong_end =
            if piece.more { self.len.is_some_and(|len| end > len) } else { self.len.is_some() || end < last };
        if wrong_end || start == end {
            return Err(Refused::BadEnd);
        }
        let place = self.pieces.partition_point(|other| other.0 < start);
        let before = place.checked_sub(1).and_then(|at| self.pieces.get(at));
        let after = self.pieces.get(place);
        if before.is_some_and(|other| other.1 > start) || after.is_some_and(|other| other.0 < end) {
            return Err(Refused::Overlap);
        }
        if self.pieces.len() == PIECES {
            return Err(Refused::TooMany);
        }
        self.pieces.insert(place, (start, end));
        if !piece.more {
            self.len = Some(end);
        }
        if self.payload.len() < end {
            self.payload.resize(end, 0);
        }
        self.payload[start..end].copy_from_slice(piece.payload);
        if start == 0 {
            self.headers = piece.headers.to_vec();
        }
        Ok(())
    }

    /// Whether every byte is there.
    pub(super) fn is_whole(&self) -> bool {
        let covered: usize = self.pieces.iter().map(|(start, end)| end - start).sum();
        // Pieces don't overlap and none ends behind `len`: so many bytes are all of them.
        self.len == Some(covered)
    }
}
