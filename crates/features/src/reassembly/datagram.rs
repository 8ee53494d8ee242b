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
    /// Tunnels that it has come out of, one inside the other.
    pub(super) decapsulated: u8,
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
    /// The interface that it is charged to: that one, or the member of a bridge behind it.
    pub(super) origin: IfIndex,
    pub(super) begun: u64,
    /// Of all its pieces, the most: nesting that goes by fragments counts as well.
    pub(super) decapsulated: u8,
    headers: Vec<u8>,
    /// What has come, in the order in which it came: a piece far behind takes no room for what is missing before it.
    bytes: Vec<u8>,
    /// In the order of the whole.
    pieces: Vec<Place>,
    /// Length of the payload, once the last piece has come.
    len: Option<usize>,
    /// Nothing will come of it.
    spoilt: bool,
}

/// Where a piece belongs, and where it is kept.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// First byte in the whole.
    start: usize,
    /// The one behind its last.
    end: usize,
    /// Its first one among the bytes that have come.
    kept: usize,
}

impl Place {
    fn bytes(self, all: &[u8]) -> Option<&[u8]> {
        all.get(self.kept..self.kept + self.end - self.start)
    }
}

impl<K> Datagram<K> {
    /// None of its pieces yet.
    pub(super) fn new(key: K, (from, origin): (IfIndex, IfIndex), begun: u64) -> Self {
        Self {
            key,
            from,
            origin,
            begun,
            decapsulated: 0,
            headers: Vec::new(),
            bytes: Vec::new(),
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
        let spoilt = Self { spoilt: true, ..Self::new(self.key, (self.from, self.origin), self.begun) };
        core::mem::replace(self, spoilt)
    }

    /// The first fragment as it came, where it is there.
    pub(super) fn first(&self) -> Option<Vec<u8>> {
        let first = self.pieces.first().filter(|piece| piece.start == 0)?;
        Some([&self.headers[..], first.bytes(&self.bytes)?].concat())
    }

    /// Pieces that are there.
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of all pieces.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// The headers of the first piece, and the bytes of all of them in order.
    pub(super) fn join(self) -> (Vec<u8>, Vec<u8>) {
        // As most come: nothing is to be moved.
        if self.pieces.iter().all(|piece| piece.kept == piece.start) {
            return (self.headers, self.bytes);
        }
        let pieces = self.pieces.iter().filter_map(|piece| piece.bytes(&self.bytes));
        let whole: Vec<&[u8]> = pieces.collect();
        (self.headers, whole.concat())
    }

    /// Takes a piece.
    pub(super) fn add(&mut self, piece: Piece<'_>) -> Result<(), Refused> {
        if self.spoilt {
            return Err(Refused::Overlap);
        }
        let (start, end) = (piece.offset, piece.offset + piece.payload.len());
        if self.pieces.iter().any(|other| (other.start, other.end) == (start, end)) {
            return Err(Refused::Duplicate);
        }
        let last = self.pieces.last().map_or(0, |last| last.end);
        let wrong_end =
            if piece.more { self.len.is_some_and(|len| end > len) } else { self.len.is_some() || end < last };
        if wrong_end || start == end {
            return Err(Refused::BadEnd);
        }
        let place = self.pieces.partition_point(|other| other.start < start);
        let before = place.checked_sub(1).and_then(|at| self.pieces.get(at));
        let after = self.pieces.get(place);
        if before.is_some_and(|other| other.end > start) || after.is_some_and(|other| other.start < end) {
            return Err(Refused::Overlap);
        }
        if self.pieces.len() == PIECES {
            return Err(Refused::TooMany);
        }
        self.pieces.insert(place, Place { start, end, kept: self.bytes.len() });
        if !piece.more {
            self.len = Some(end);
        }
        self.bytes.extend_from_slice(piece.payload);
        self.decapsulated = self.decapsulated.max(piece.decapsulated);
        if start == 0 {
            self.headers = piece.headers.to_vec();
        }
        Ok(())
    }

    /// Whether every byte is there.
    pub(super) fn is_whole(&self) -> bool {
        // Pieces don't overlap and none ends behind `len`: so many bytes are all of them.
        self.len == Some(self.bytes.len())
    }

    /// Bytes that there is room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
