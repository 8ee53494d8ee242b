//! What is known of datagrams that come in fragments, and fragments that came before the first of theirs. Bounded for each interface, so that one
//! that floods loses its own.

use super::piece::{Piece, Ports};
use graph::IfIndex;
use graph::packet::OwnedPacket;
use std::collections::{HashMap, VecDeque};
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
    lines: HashMap<IfIndex, Line>,
    lost: Vec<(IfIndex, usize, bool)>,
}

impl Datagrams {
    /// The first fragment of a datagram, which came by `from` at `now` (monotonic nanoseconds) and says that. Gives those that waited for it.
    pub(super) fn first(&mut self, piece: &Piece, from: IfIndex, now: u64, said: Said) -> Vec<OwnedPacket> {
        let datagram = self.at(piece, from, now);
        // The number may have been another datagram's a moment ago.
        let anew = datagram.said.is_some_and(|before| before != said);
        if anew {
            (datagram.come, datagram.total, datagram.begun) = (0, None, now);
        }
        datagram.said = Some(said);
        let (owner, waiting) = (datagram.from, core::mem::take(&mut datagram.waiting));
        self.freed(owner, &waiting);
        if anew {
            self.lines.entry(owner).or_default().order.push_back((id(piece), now));
        }
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

    /// Fragments that were given up since it was last asked: by which interface they came, how many, and whether they had to make room.
    pub(super) fn take_lost(&mut self) -> Vec<(IfIndex, usize, bool)> {
        core::mem::take(&mut self.lost)
    }

    /// The datagram that it is a part of, as one of those that are known.
    fn at(&mut self, piece: &Piece, from: IfIndex, now: u64) -> &mut Datagram {
        self.expire(from, now);
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
            let over = self.all.get(&id).is_none_or(|datagram| datagram.begun != begun);
            if !over && now.saturating_sub(begun) < TIMEOUT {
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
        if self.all.get(&id).is_none_or(|datagram| datagram.begun != begun) {
            return;
        }
        let Some(datagram) = self.all.remove(&id) else { return };
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
