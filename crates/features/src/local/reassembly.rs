//! Putting fragments together, without packets: bounded in datagrams, bytes, pieces and time, and fair between interfaces.
//!
//! Pieces that overlap make the whole datagram worthless, and what still comes of it (RFC 5722; for IPv4 too, RFC 1858
//! and its successors say why). A piece that comes twice is ignored.

use graph::IfIndex;

/// Datagrams that are put together at a time.
const DATAGRAMS: usize = 64;
/// Bytes of all of them.
const BYTES: usize = 4 << 20;
/// Pieces of one: as many as the largest datagram has at the smallest MTU that every IPv4 host takes (576).
const PIECES: usize = 128;

/// A fragment's place, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'p> {
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

/// What has become of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It waits for others.
    Waits,
    /// It was the last that was missing: the first piece's headers, and the whole payload.
    Whole(Vec<u8>, Vec<u8>),
}

/// A datagram of which pieces are there.
#[derive(Clone, Debug)]
struct Datagram<K> {
    key: K,
    /// The interface that its first piece came in by.
    from: IfIndex,
    begun: u64,
    headers: Vec<u8>,
    payload: Vec<u8>,
    /// First byte and the one behind the last of each piece, in order.
    pieces: Vec<(usize, usize)>,
    /// Length of the payload, once the last piece has come.
    len: Option<usize>,
    /// Nothing will come of it.
    spoilt: bool,
}

/// Datagrams of one IP version on one worker. `K` tells them apart: addresses, identification, protocol.
#[derive(Clone, Debug)]
pub(super) struct Reassembly<K> {
    list: Vec<Datagram<K>>,
    /// Nanoseconds after which a datagram is given up.
    timeout: u64,
    /// Fragments that were lost because others didn't come in time.
    pub(super) timed_out: u64,
    /// Fragments that were lost to make room.
    pub(super) evicted: u64,
}

impl<K: Copy + Eq> Reassembly<K> {
    pub(super) fn new(timeout: u64) -> Self {
        Self { list: Vec::new(), timeout, timed_out: 0, evicted: 0 }
    }

    /// Takes a fragment that came in by `from` at `now` (monotonic nanoseconds). The caller has checked that it ends within the
    /// largest datagram that there can be.
    pub(super) fn add(
        &mut self,
        key: K,
        from: IfIndex,
        now: u64,
        piece: Piece<'_>,
    ) -> Result<Outcome, Refused> {
        self.expire(now);
        let at = self.list.iter().position(|datagram| datagram.key == key);
        let at = at.unwrap_or_else(|| {
            self.make_room(DATAGRAMS - 1, BYTES);
            self.list.push(Datagram {
                key,
                from,
                begun: now,
                headers: Vec::new(),
                payload: Vec::new(),
                pieces: Vec::new(),
                len: None,
                spoilt: false,
            });
            self.list.len() - 1
        });
        let Some(datagram) = self.list.get_mut(at) else { return Err(Refused::TooMany) };
        match datagram.add(piece) {
            Ok(()) if datagram.is_whole() => {
                let Datagram { headers, payload, .. } = self.list.remove(at);
                Ok(Outcome::Whole(headers, payload))
            }
            Ok(()) => {
                self.make_room(DATAGRAMS, BYTES);
                Ok(Outcome::Waits)
            }
            Err(Refused::Duplicate) => Err(Refused::Duplicate),
            Err(reason) => {
                // Remembered without its bytes, so that what still comes of it isn't taken for another one.
                datagram.spoilt = true;
                self.evicted += datagram.pieces.len() as u64;
                (datagram.headers, datagram.payload, datagram.pieces) = (Vec::new(), Vec::new(), Vec::new());
                Err(reason)
            }
        }
    }

    fn expire(&mut self, now: u64) {
        let timeout = self.timeout;
        let old = |datagram: &Datagram<K>| now.saturating_sub(datagram.begun) >= timeout;
        self.timed_out += self.list.iter().filter(|d| old(d)).map(|d| d.pieces.len() as u64).sum::<u64>();
        self.list.retain(|datagram| !old(datagram));
    }

    /// Gives up datagrams until no more than so many, with so many bytes, are left: each time the oldest of the interface
    /// that has most of them, so that one that floods loses its own.
    fn make_room(&mut self, datagrams: usize, bytes: usize) {
        let held = |list: &[Datagram<K>]| list.iter().map(|datagram| datagram.payload.len()).sum::<usize>();
        while self.list.len() > datagrams || held(&self.list) > bytes {
            let of = |from: IfIndex| self.list.iter().filter(|datagram| datagram.from == from).count();
            // The last of equals is the first in a list that is searched backwards: the oldest.
            let most = self.list.iter().enumerate().rev().max_by_key(|(_, datagram)| of(datagram.from));
            let Some((at, _)) = most else { return };
            self.evicted += self.list.remove(at).pieces.len() as u64;
        }
    }
}

impl<K> Datagram<K> {
    fn add(&mut self, piece: Piece<'_>) -> Result<(), Refused> {
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
    fn is_whole(&self) -> bool {
        let covered: usize = self.pieces.iter().map(|(start, end)| end - start).sum();
        // Pieces don't overlap and none ends behind `len`: so many bytes are all of them.
        self.len == Some(covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn piece(payload: &[u8], offset: usize, more: bool) -> Piece<'_> {
        Piece { offset, more, payload, headers: if offset == 0 { b"first" } else { b"later" } }
    }

    #[test]
    fn overlaps_spoil_a_datagram_and_duplicates_do_not() {
        let data = [7; 64];
        let mut all = Reassembly::new(30 * SECOND);
        assert_eq!(all.add(1, 1, 0, piece(&data[..16], 0, true)), Ok(Outcome::Waits));
        assert_eq!(all.add(1, 1, 0, piece(&data[..16], 0, true)), Err(Refused::Duplicate));
        assert_eq!(all.add(1, 1, 0, piece(&data[..8], 8, true)), Err(Refused::Overlap));
        assert_eq!(all.add(1, 1, 0, piece(&data[16..], 16, false)), Err(Refused::Overlap), "it stays spoilt");
        assert_eq!(all.add(2, 1, 0, piece(&data[..16], 16, false)), Ok(Outcome::Waits));
        assert_eq!(all.add(2, 1, 0, piece(&data[..24], 0, true)), Err(Refused::Overlap));
        assert_eq!(all.add(3, 1, 0, piece(&data[..16], 16, false)), Ok(Outcome::Waits));
        assert_eq!(all.add(3, 1, 0, piece(&data[..16], 32, true)), Err(Refused::BadEnd));
        assert_eq!(all.add(4, 1, 0, piece(&data[..16], 16, true)), Ok(Outcome::Waits));
        assert_eq!(all.add(4, 1, 0, piece(&data[..16], 8, false)), Err(Refused::BadEnd));
        assert_eq!(all.add(5, 1, 0, piece(&[], 8, true)), Err(Refused::BadEnd));
        assert_eq!(all.evicted, 4, "pieces that were taken and came to nothing");
    }

    #[test]
    fn what_is_not_whole_in_time_is_given_up() {
        let mut all = Reassembly::new(30 * SECOND);
        assert_eq!(all.add(1, 1, 5, piece(&[1; 8], 0, true)), Ok(Outcome::Waits));
        let second = piece(&[2; 8], 8, false);
        assert_eq!(
            all.clone().add(1, 1, 4 + 30 * SECOND, second),
            Ok(Outcome::Whole(b"first".to_vec(), [[1; 8], [2; 8]].concat()))
        );
        assert_eq!(all.add(1, 1, 5 + 30 * SECOND, second), Ok(Outcome::Waits));
        assert_eq!(all.timed_out, 1);
    }

    #[test]
    fn a_flood_of_fragments_takes_no_more_than_its_bounds() {
        let mut all = Reassembly::new(30 * SECOND);
        let data = vec![0; 8];
        for key in 0..10_000 {
            let _ = all.add(key, 1, 0, piece(&data, 65_000, true));
            assert!(all.list.len() <= DATAGRAMS);
            assert!(all.list.iter().map(|datagram| datagram.payload.len()).sum::<usize>() <= BYTES);
        }
        assert_eq!(all.evicted, 10_000 - all.list.len() as u64);
        let refused = (0..8000).filter(|n| all.add(1, 1, 0, piece(&data, n * 8, true)).is_err()).count();
        assert_eq!(refused, 8000 - PIECES);
    }

    #[test]
    fn a_flood_on_one_interface_leaves_the_datagrams_of_others() {
        let mut all = Reassembly::new(30 * SECOND);
        for pod in 2..12 {
            assert_eq!(all.add(100 + u32::from(pod), pod, 0, piece(&[1; 8], 0, true)), Ok(Outcome::Waits));
        }
        for key in 1000..2000 {
            assert_eq!(all.add(key, 1, 1, piece(&[0; 8], 65_000, true)), Ok(Outcome::Waits));
        }
        for pod in 2..12 {
            let whole = all.add(100 + u32::from(pod), pod, 2, piece(&[2; 8], 8, false));
            assert!(matches!(whole, Ok(Outcome::Whole(..))), "{pod}");
        }
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_give_the_whole(
            data in proptest::collection::vec(any::<u8>(), 1..4000),
            cuts in proptest::collection::vec(1..500usize, 0..20),
            order in any::<u64>(),
            twice in any::<bool>(),
        ) {
            let mut bounds: Vec<usize> = cuts.into_iter().map(|cut| cut * 8).filter(|at| *at < data.len()).collect();
            bounds.extend([0, data.len()]);
            bounds.sort_unstable();
            bounds.dedup();
            let mut pieces: Vec<Piece<'_>> = bounds
                .windows(2)
                .map(|pair| piece(&data[pair[0]..pair[1]], pair[0], pair[1] < data.len()))
                .collect();
            pieces.sort_by_key(|piece| (piece.offset as u64 + 1).wrapping_mul(order | 1).rotate_left(17));
            let mut all = Reassembly::new(30 * SECOND);
            let count = pieces.len();
            for (at, piece) in pieces.into_iter().enumerate() {
                let outcome = all.add(1, 1, 0, piece);
                if at + 1 < count {
                    prop_assert_eq!(outcome, Ok(Outcome::Waits));
                    if twice {
                        prop_assert_eq!(all.add(1, 1, 0, piece), Err(Refused::Duplicate));
                    }
                } else {
                    prop_assert_eq!(outcome, Ok(Outcome::Whole(b"first".to_vec(), data.clone())));
                }
            }
            prop_assert!(all.list.is_empty());
        }
    }
}
