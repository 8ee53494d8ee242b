//! Putting fragments together, without packets: bounded in datagrams, bytes, pieces and time, and fair between interfaces.
//!
//! Pieces that overlap make the whole datagram worthless, and what still comes of it (RFC 5722; for IPv4 too, RFC 1858
//! and its successors say why). A piece that comes twice is ignored.

use super::datagram::Datagram;
pub(super) use super::datagram::{Piece, Refused};
use foldhash::fast::RandomState;
use graph::IfIndex;
use std::collections::{HashMap, VecDeque};

/// How much is put together at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Datagrams.
    pub(crate) datagrams: usize,
    /// Bytes of all of them.
    pub(crate) bytes: usize,
    /// Nanoseconds after which a datagram is given up.
    pub(crate) timeout: u64,
}

/// What has become of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It waits for others.
    Waits,
    /// It was the last that was missing.
    Whole(Whole),
}

/// A datagram with nothing missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// The headers of the first piece.
    pub(super) headers: Vec<u8>,
    /// All of it.
    pub(super) payload: Vec<u8>,
    /// The interface that the first of its fragments came in by.
    pub(super) from: IfIndex,
    /// Its fragments that came before the last.
    pub(super) earlier: usize,
    /// Tunnels that its pieces came out of, one inside the other, at most.
    pub(super) decapsulated: u8,
}

/// Fragments that come to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenUp {
    /// The interface that the first of them came in by.
    pub(super) from: IfIndex,
    /// How many there are.
    pub(super) fragments: usize,
    /// They had to make room or were spoilt; else they have waited too long.
    pub(super) in_time: bool,
    /// That with the beginning of the datagram, as it came, where it is among them and they have waited too long.
    pub(super) first: Option<Vec<u8>>,
}

/// What an origin has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    datagrams: usize,
    bytes: usize,
}

/// Datagrams of one IP version on one worker. `K` tells them apart: addresses, identification, protocol.
#[derive(Clone, Debug)]
pub(super) struct Reassembly<K> {
    /// The oldest first: most that goes, goes from there.
    list: VecDeque<Datagram<K>>,
    /// What each origin has of them: whoever floods makes room at each fragment.
    of: HashMap<IfIndex, Share, RandomState>,
    /// Bytes of all of them.
    held: usize,
    bounds: Bounds,
    given_up: Vec<GivenUp>,
}

impl<K: Copy + Eq> Reassembly<K> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { list: VecDeque::new(), of: HashMap::default(), held: 0, bounds, given_up: Vec::new() }
    }

    /// Takes a fragment that came in by interface `from` and is charged to `origin`, at `now` (monotonic nanoseconds). The caller has checked
    /// that it ends within the largest datagram that there can be.
    pub(super) fn add(
        &mut self,
        key: K,
        (from, origin): (IfIndex, IfIndex),
        now: u64,
        piece: Piece<'_>,
    ) -> Result<Outcome, Refused> {
        self.expire(now);
        let at = self.list.iter().position(|datagram| datagram.key == key);
        let at = at.unwrap_or_else(|| {
            self.make_room(self.bounds.datagrams - 1);
            self.list.push_back(Datagram::new(key, (from, origin), now));
            self.of.entry(origin).or_default().datagrams += 1;
            self.list.len() - 1
        });
        let Some(datagram) = self.list.get_mut(at) else { return Err(Refused::TooMany) };
        match datagram.add(piece) {
            Ok(()) => {
                self.held += piece.payload.len();
                self.of.entry(datagram.origin).or_default().bytes += piece.payload.len();
            }
            Err(Refused::Duplicate) => return Err(Refused::Duplicate),
            Err(reason) => {
                // Remembered without its bytes, so that what still comes of it isn't taken for another one.
                let lost = datagram.spoil();
                self.held -= lost.held();
                if let Some(share) = self.of.get_mut(&lost.origin) {
                    share.bytes -= lost.held();
                }
                self.give_up(&lost, true);
                return Err(reason);
            }
        }
        if datagram.is_whole()
            && let Some(datagram) = self.remove(at)
        {
            let (from, earlier) = (datagram.from, datagram.pieces() - 1);
            let decapsulated = datagram.decapsulated;
            let (headers, payload) = datagram.join();
            return Ok(Outcome::Whole(Whole { headers, payload, from, earlier, decapsulated }));
        }
        self.make_room(self.bounds.datagrams);
        Ok(Outcome::Waits)
    }

    /// Those that have begun first stand first.
    fn expire(&mut self, now: u64) {
        let timeout = self.bounds.timeout;
        while self.list.front().is_some_and(|datagram| now.saturating_sub(datagram.begun) >= timeout) {
            let Some(datagram) = self.remove(0) else { return };
            self.give_up(&datagram, false);
        }
    }

    fn remove(&mut self, at: usize) -> Option<Datagram<K>> {
        let datagram = self.list.remove(at)?;
        self.held -= datagram.held();
        if let Some(share) = self.of.get_mut(&datagram.origin) {
            share.datagrams -= 1;
            share.bytes -= datagram.held();
            if share.datagrams == 0 {
                self.of.remove(&datagram.origin);
            }
        }
        Some(datagram)
    }

    fn give_up(&mut self, datagram: &Datagram<K>, in_time: bool) {
        let fragments = datagram.pieces();
        if fragments > 0 {
            let first = if in_time { None } else { datagram.first() };
            self.given_up.push(GivenUp { from: datagram.from, fragments, in_time, first });
        }
    }

    /// What has been given up since it was last asked.
    pub(super) fn take_given_up(&mut self) -> Vec<GivenUp> {
        core::mem::take(&mut self.given_up)
    }

    /// Gives up datagrams until no more than so many, with as many bytes as may be, are left: each time the oldest of the origin that has
    /// most of what is short, so that one that floods loses its own.
    fn make_room(&mut self, datagrams: usize) {
        while self.list.len() > datagrams || self.held > self.bounds.bytes {
            let by_bytes = self.held > self.bounds.bytes;
            let amount = |share: &Share| if by_bytes { share.bytes } else { share.datagrams };
            let most = self.of.values().map(amount).max();
            let is_of_most = |datagram: &Datagram<K>| self.of.get(&datagram.origin).map(amount) == most;
            let oldest = self.list.iter().position(is_of_most);
            let Some(datagram) = oldest.and_then(|at| self.remove(at)) else { return };
            self.give_up(&datagram, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reassembly::datagram::PIECES;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const DATAGRAMS: usize = 64;
    const BYTES: usize = 4 << 20;
    const BOUNDS: Bounds = Bounds { datagrams: DATAGRAMS, bytes: BYTES, timeout: 30 * SECOND };

    fn piece(payload: &[u8], offset: usize, more: bool) -> Piece<'_> {
        let headers: &[u8] = if offset == 0 { b"first" } else { b"later" };
        Piece { offset, more, payload, headers, decapsulated: 0 }
    }

    /// Fragments that came to nothing, in time or not.
    fn given_up<K: Copy + Eq>(all: &mut Reassembly<K>, in_time: bool) -> usize {
        let given_up = all.take_given_up();
        given_up.iter().filter(|one| one.in_time == in_time).map(|one| one.fragments).sum()
    }

    #[test]
    fn overlaps_spoil_a_datagram_and_duplicates_do_not() {
        let data = [7; 64];
        let mut all = Reassembly::new(BOUNDS);
        assert_eq!(all.add(1, (1, 1), 0, piece(&data[..16], 0, true)), Ok(Outcome::Waits));
        assert_eq!(all.add(1, (1, 1), 0, piece(&data[..16], 0, true)), Err(Refused::Duplicate));
        assert_eq!(all.add(1, (1, 1), 0, piece(&data[..8], 8, true)), Err(Refused::Overlap));
        assert_eq!(
            all.add(1, (1, 1), 0, piece(&data[16..], 16, false)),
            Err(Refused::Overlap),
            "it stays spoilt"
        );
        assert_eq!(all.add(2, (1, 1), 0, piece(&data[..16], 16, false)), Ok(Outcome::Waits));
        assert_eq!(all.add(2, (1, 1), 0, piece(&data[..24], 0, true)), Err(Refused::Overlap));
        assert_eq!(all.add(3, (1, 1), 0, piece(&data[..16], 16, false)), Ok(Outcome::Waits));
        assert_eq!(all.add(3, (1, 1), 0, piece(&data[..16], 32, true)), Err(Refused::BadEnd));
        assert_eq!(all.add(4, (1, 1), 0, piece(&data[..16], 16, true)), Ok(Outcome::Waits));
        assert_eq!(all.add(4, (1, 1), 0, piece(&data[..16], 8, false)), Err(Refused::BadEnd));
        assert_eq!(all.add(5, (1, 1), 0, piece(&[], 8, true)), Err(Refused::BadEnd));
        assert_eq!(given_up(&mut all, true), 4, "pieces that were taken and came to nothing");
    }

    #[test]
    fn what_is_not_whole_in_time_is_given_up() {
        let mut all = Reassembly::new(BOUNDS);
        assert_eq!(all.add(1, (1, 1), 5, piece(&[1; 8], 0, true)), Ok(Outcome::Waits));
        let second = piece(&[2; 8], 8, false);
        let (headers, payload) = (b"first".to_vec(), [[1; 8], [2; 8]].concat());
        assert_eq!(
            all.clone().add(1, (2, 2), 4 + 30 * SECOND, second),
            Ok(Outcome::Whole(Whole { headers, payload, from: 1, earlier: 1, decapsulated: 0 }))
        );
        assert_eq!(all.add(1, (1, 1), 5 + 30 * SECOND, second), Ok(Outcome::Waits));
        let first = Some([&b"first"[..], &[1; 8]].concat());
        assert_eq!(all.take_given_up(), [GivenUp { from: 1, fragments: 1, in_time: false, first }]);
    }

    #[test]
    fn a_datagram_counts_the_tunnels_of_its_most_nested_piece() {
        let mut all = Reassembly::new(BOUNDS);
        let nested = Piece { decapsulated: 3, ..piece(&[1; 8], 0, true) };
        assert_eq!(all.add(1, (1, 1), 0, nested), Ok(Outcome::Waits));
        let whole = all.add(1, (1, 1), 0, Piece { decapsulated: 1, ..piece(&[2; 8], 8, false) });
        assert!(matches!(whole, Ok(Outcome::Whole(Whole { decapsulated: 3, .. }))), "{whole:?}");
    }

    #[test]
    fn a_flood_of_fragments_takes_no_more_than_its_bounds() {
        let mut all = Reassembly::new(BOUNDS);
        let data = vec![0; 8];
        for key in 0..10_000 {
            let _ = all.add(key, (1, 1), 0, piece(&data, 65_000, true));
            assert!(all.list.len() <= DATAGRAMS);
            assert_eq!(all.held, all.list.len() * data.len(), "no more than has come");
            assert!(all.list.iter().all(|datagram| datagram.capacity() < 100), "nor room for more");
        }
        assert_eq!(given_up(&mut all, true), 10_000 - all.list.len());
        let refused = (0..8000).filter(|n| all.add(1, (1, 1), 0, piece(&data, n * 8, true)).is_err()).count();
        assert_eq!(refused, 8000 - PIECES);
    }

    /// Each of these fragments makes room for itself. Were all datagrams counted for each of them, this would take minutes.
    #[test]
    fn making_room_costs_no_more_than_a_look_at_each_datagram() {
        let mut all = Reassembly::new(Bounds { datagrams: 2048, ..BOUNDS });
        let begun = std::time::Instant::now();
        for key in 0..12_000 {
            assert_eq!(all.add(key, (1, 1), 0, piece(&[0; 8], 0, true)), Ok(Outcome::Waits));
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        assert_eq!(all.of.get(&1).map(|share| share.datagrams), Some(2048));
    }

    #[test]
    fn all_together_have_no_more_than_so_many_bytes() {
        let mut all = Reassembly::new(Bounds { bytes: 100, ..BOUNDS });
        for key in 0..5 {
            assert_eq!(all.add(key, (1, 1), 0, piece(&[7; 24], 0, true)), Ok(Outcome::Waits));
            assert_eq!(all.held, 24 * all.list.len());
        }
        let left: Vec<_> = all.list.iter().map(|datagram| datagram.key).collect();
        assert_eq!(left, [1, 2, 3, 4], "the oldest had to go");
    }

    #[test]
    fn a_flood_on_one_interface_leaves_the_datagrams_of_others() {
        let mut all = Reassembly::new(BOUNDS);
        for pod in 2..12 {
            assert_eq!(
                all.add(100 + u32::from(pod), (pod, pod), 0, piece(&[1; 8], 0, true)),
                Ok(Outcome::Waits)
            );
        }
        for key in 1000..2000 {
            assert_eq!(all.add(key, (1, 1), 1, piece(&[0; 8], 65_000, true)), Ok(Outcome::Waits));
        }
        for pod in 2..12 {
            let whole = all.add(100 + u32::from(pod), (pod, pod), 2, piece(&[2; 8], 8, false));
            assert!(matches!(whole, Ok(Outcome::Whole(..))), "{pod}");
        }
    }

    /// One fills the memory with few long datagrams; others have more of them, all short.
    #[test]
    fn who_has_most_bytes_makes_room_for_bytes() {
        let mut all = Reassembly::new(Bounds { bytes: 20_000, ..BOUNDS });
        for key in 0..20 {
            assert_eq!(all.add(key, (2, 2), 0, piece(&[1; 8], 0, true)), Ok(Outcome::Waits));
        }
        for key in 100..110 {
            assert_eq!(all.add(key, (1, 1), 1, piece(&[1; 8000], 0, true)), Ok(Outcome::Waits));
        }
        for key in 0..20 {
            let whole = all.add(key, (2, 2), 2, piece(&[2; 8], 8, false));
            assert!(matches!(whole, Ok(Outcome::Whole(..))), "{key}");
        }
    }

    proptest! {
        /// What is counted as datagrams come and go is what there is.
        #[test]
        fn counts_are_those_of_what_is_held(
            adds in proptest::collection::vec((0..12u8, 1..4u16, 0..4usize, any::<bool>(), 0..3u64), 0..200),
        ) {
            let mut all = Reassembly::new(Bounds { datagrams: 6, bytes: 150, timeout: 20 });
            let mut now = 0;
            for (key, from, eighth, more, later) in adds {
                now += later;
                let _ = all.add(key, (from, from), now, piece(&[1; 16], eighth * 8, more));
                let held: usize = all.list.iter().map(Datagram::held).sum();
                prop_assert!(all.held == held && held <= 150 && all.list.len() <= 6);
                for from in 1..4 {
                    let its = || all.list.iter().filter(|datagram| datagram.origin == from);
                    let share = Share { datagrams: its().count(), bytes: its().map(Datagram::held).sum() };
                    prop_assert_eq!(all.of.get(&from).copied().unwrap_or_default(), share);
                }
            }
        }

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
            let mut all = Reassembly::new(BOUNDS);
            let count = pieces.len();
            for (at, piece) in pieces.into_iter().enumerate() {
                let outcome = all.add(1, (1, 1), 0, piece);
                if at + 1 < count {
                    prop_assert_eq!(outcome, Ok(Outcome::Waits));
                    if twice {
                        prop_assert_eq!(all.add(1, (1, 1), 0, piece), Err(Refused::Duplicate));
                    }
                } else {
                    let (headers, payload) = (b"first".to_vec(), data.clone());
                    let whole = Whole { headers, payload, from: 1, earlier: at, decapsulated: 0 };
                    prop_assert_eq!(outcome, Ok(Outcome::Whole(whole)));
                }
            }
            prop_assert!(all.list.is_empty() && all.of.is_empty() && all.held == 0);
        }
    }
}
