//! What is known of datagrams that come in fragments, and fragments that came before the first of theirs. Bounded for each interface of origin, so that
//! one that floods loses its own.

use super::piece::{Piece, Ports};
use graph::IfIndex;
use graph::packet::OwnedPacket;
use std::collections::{BTreeMap, HashMap, VecDeque};
use tables::session::Key;

/// Nanoseconds for which a datagram is known: RFC 6146 section 4 asks for 2 s at least.
pub(in super::super) const TIMEOUT: u64 = 2_000_000_000;
/// Datagrams of an interface at a time.
const DATAGRAMS: usize = 256;
/// Bytes of an interface's fragments that wait: four of the longest datagrams.
const BYTES: usize = 256 << 10;
/// Fragments of a datagram that wait.
const WAITING: usize = 64;

/// What tells datagrams apart.
type Id = (Key, bool);

/// What the first fragment has said: the ports, or that there are none.
type Said = Option<Ports>;

/// What becomes of a later fragment.
#[derive(Debug)]
pub(super) enum Later {
    /// It belongs to the flow with these ports.
    Known(Ports),
    /// Its first one has none.
    NoPorts,
    /// It waits for the first.
    Waits,
    /// More wait than may.
    TooMany,
}

#[derive(Debug)]
struct Datagram {
    from: IfIndex,
    begun: u64,
    said: Option<Said>,
    waiting: Vec<OwnedPacket>,
    /// Bytes that have come, and of all, once the last fragment has come.
    come: usize,
    total: Option<usize>,
}

impl Datagram {
    /// Whether it is the one that came by that interface then.
    fn is(&self, from: IfIndex, begun: u64) -> bool {
        (self.from, self.begun) == (from, begun)
    }

    /// Whether it has been there for long enough.
    const fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.begun) >= TIMEOUT
    }
}

/// Datagrams of an interface, the oldest first. Some may be over already.
#[derive(Debug, Default)]
struct Line {
    order: VecDeque<(Id, u64)>,
    bytes: usize,
}

/// One worker's, of one IP version.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    all: HashMap<Id, Datagram>,
    /// Who has a datagram in `all` has it in its line, too.
    lines: BTreeMap<IfIndex, Line>,
    /// The interface whose line was looked through last.
    visited: IfIndex,
    lost: Vec<(IfIndex, usize, bool)>,
}

impl Datagrams {
    /// The first fragment of a datagram, which came by `from` at `now` (monotonic nanoseconds) and says that. Gives those that waited for it.
    pub(super) fn first(&mut self, piece: &Piece, from: IfIndex, now: u64, said: Said) -> Vec<OwnedPacket> {
        // The number may have been another datagram's a moment ago, for which nothing waits any more. This one is its sender's.
        if self.all.get(&id(piece)).and_then(|datagram| datagram.said).is_some_and(|before| before != said) {
            self.all.remove(&id(piece));
        }
        let datagram = self.at(piece, from, now);
        datagram.said = Some(said);
        let (owner, waiting) = (datagram.from, core::mem::take(&mut datagram.waiting));
        self.freed(owner, &waiting);
        self.came(piece);
        waiting
    }

    /// A later fragment, likewise; `own` makes it one that can be kept.
    pub(super) fn later(
        &mut self,
        piece: &Piece,
        from: IfIndex,
        now: u64,
        own: impl FnOnce() -> OwnedPacket,
    ) -> Later {
        let datagram = self.at(piece, from, now);
        match datagram.said {
            Some(said) => {
                self.came(piece);
                said.map_or(Later::NoPorts, Later::Known)
            }
            None if datagram.waiting.len() >= WAITING => Later::TooMany,
            None => {
                let (owner, packet) = (datagram.from, own());
                let (line, bytes) = (self.lines.entry(owner).or_default(), packet.frame().len());
                let Some(datagram) = self.all.get_mut(&id(piece)).filter(|_| line.bytes + bytes <= BYTES)
                else {
                    return Later::TooMany;
                };
                line.bytes += bytes;
                datagram.waiting.push(packet);
                self.came(piece);
                Later::Waits
            }
        }
    }

    /// Gives up what one interface has had for long, another one each time: for those that send nothing more, nobody else does.
    pub(super) fn next_line(&mut self, now: u64) {
        let behind = self.visited.saturating_add(1);
        let next = self.lines.range(behind..).next().or_else(|| self.lines.iter().next());
        let Some(interface) = next.map(|(interface, _)| *interface) else { return };
        self.visited = interface;
        self.expire(interface, now);
        if self.lines.get(&interface).is_some_and(|line| line.order.is_empty()) {
            self.lines.remove(&interface);
        }
    }

    /// Fragments that were given up since it was last asked: by which interface they came, how many, and whether they had to make room.
    pub(super) fn take_lost(&mut self) -> Vec<(IfIndex, usize, bool)> {
        core::mem::take(&mut self.lost)
    }

    /// The datagram that it is a part of, as one of those that are known.
    fn at(&mut self, piece: &Piece, from: IfIndex, now: u64) -> &mut Datagram {
        self.expire(from, now);
        // It may be another's, who sends nothing more.
        if self.all.get(&id(piece)).is_some_and(|datagram| datagram.is_over(now)) {
            self.give_up(&id(piece), false);
        }
        if !self.all.contains_key(&id(piece)) {
            self.make_room(from);
            self.lines.entry(from).or_default().order.push_back((id(piece), now));
        }
        self.all.entry(id(piece)).or_insert_with(|| Datagram {
            from,
            begun: now,
            said: None,
            waiting: Vec::new(),
            come: 0,
            total: None,
        })
    }

    /// Takes a part into account. A datagram that is whole is over: its number is free for another one.
    fn came(&mut self, piece: &Piece) {
        let Some(datagram) = self.all.get_mut(&id(piece)) else { return };
        datagram.come += piece.len;
        if !piece.more {
            datagram.total = Some(piece.offset + piece.len);
        }
        if datagram.said.is_some() && datagram.total.is_some_and(|total| datagram.come >= total) {
            self.all.remove(&id(piece));
        }
    }

    /// Gives up what the interface has had for long.
    fn expire(&mut self, interface: IfIndex, now: u64) {
        while let Some((id, begun)) = self.lines.get(&interface).and_then(|line| line.order.front().copied())
        {
            let is_there = self.all.get(&id).is_some_and(|datagram| datagram.is(interface, begun));
            if is_there && now.saturating_sub(begun) < TIMEOUT {
                break;
            }
            self.give_up_first(interface, false);
        }
    }

    /// Gives up the oldest of the interface, as long as it has as many as it may.
    fn make_room(&mut self, interface: IfIndex) {
        while self.lines.get(&interface).is_some_and(|line| line.order.len() >= DATAGRAMS) {
            self.give_up_first(interface, true);
        }
    }

    fn give_up_first(&mut self, interface: IfIndex, for_room: bool) {
        let first = self.lines.get_mut(&interface).and_then(|line| line.order.pop_front());
        let Some((id, begun)) = first else { return };
        if self.all.get(&id).is_some_and(|datagram| datagram.is(interface, begun)) {
            self.give_up(&id, for_room);
        }
    }

    fn give_up(&mut self, id: &Id, for_room: bool) {
        let Some(datagram) = self.all.remove(id) else { return };
        self.freed(datagram.from, &datagram.waiting);
        if !datagram.waiting.is_empty() {
            self.lost.push((datagram.from, datagram.waiting.len(), for_room));
        }
    }

    fn freed(&mut self, interface: IfIndex, packets: &[OwnedPacket]) {
        if let Some(line) = self.lines.get_mut(&interface) {
            line.bytes -= packets.iter().map(|packet| packet.frame().len()).sum::<usize>().min(line.bytes);
        }
    }
}

const fn id(piece: &Piece) -> Id {
    (piece.datagram, piece.from_high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IfIndex = 1;
    const B: IfIndex = 2;

    /// The first part of a datagram of that number, and what it says.
    fn first(number: u16, source: u16) -> (Piece, Said) {
        let (datagram, from_high) = Key::v4(0, 17, (0x0a00_0001, number), (0x0a00_0002, number));
        let piece = Piece { datagram, from_high, offset: 0, len: 8, more: true };
        (piece, Some(Ports { protocol: 17, source, destination: 53 }))
    }

    /// Entries of all lines.
    fn entries(datagrams: &Datagrams) -> usize {
        datagrams.lines.values().map(|line| line.order.len()).sum()
    }

    #[test]
    fn who_uses_another_s_number_again_and_again_fills_its_own_line_alone() {
        let mut datagrams = Datagrams::default();
        for time in 0..10_000 {
            let (piece, said) = first(7, 1000 + time % 2);
            let from = if time == 0 { A } else { B };
            // Some in one vector, and more than a line may have within the time for which a datagram is known.
            assert!(datagrams.first(&piece, from, u64::from(time / 100), said).is_empty());
            assert!(datagrams.lines[&A].order.len() == 1 && entries(&datagrams) <= 1 + DATAGRAMS);
        }
        assert_eq!(datagrams.all.len(), 1);
        // Nobody's, once it is over: that of the other interface is looked through, too.
        (0..2).for_each(|_| datagrams.next_line(TIMEOUT + 100));
        assert!(datagrams.all.is_empty() && datagrams.lines.is_empty());
    }

    #[test]
    fn what_is_known_of_an_old_datagram_is_not_told_whoever_asks() {
        let mut datagrams = Datagrams::default();
        let (piece, said) = first(7, 1000);
        datagrams.first(&piece, A, 0, said);
        let later = Piece { offset: 8, ..piece };
        let own = || unreachable!("it is known");
        assert!(matches!(datagrams.later(&later, B, TIMEOUT - 1, own), Later::Known(_)));
        let anew = datagrams.at(&later, B, TIMEOUT);
        assert_eq!((anew.from, anew.said), (B, None));
    }
}
