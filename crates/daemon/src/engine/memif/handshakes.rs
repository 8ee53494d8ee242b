//! Who is in the middle of a handshake.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use ::memif::io::{Credentials, Handshake};

use crate::model::spec::SocketName;

/// Connections of one process whose handshake isn't done.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct UnderWay {
    /// Whose they are. What the process calls itself is looked up by whoever shows it, when the links are let go of.
    pub(in super::super) peer: Option<Credentials>,
    /// How many.
    pub(in super::super) count: u32,
    /// How long the oldest of them has been there.
    pub(in super::super) age: Duration,
}

/// Those of all sockets, as of the last time that something happened there.
#[derive(Debug, Default)]
pub(super) struct Handshakes(BTreeMap<SocketName, Vec<Handshake>>);

impl Handshakes {
    /// All that there are at a socket now.
    pub(super) fn set(&mut self, socket: &SocketName, now: impl Iterator<Item = Handshake>) {
        let mut now = now.peekable();
        match self.0.get_mut(socket) {
            Some(list) => {
                list.clear();
                list.extend(now);
            }
            // As a rule there is none.
            None if now.peek().is_none() => {}
            None => drop(self.0.insert(socket.clone(), now.collect())),
        }
    }

    /// Nobody listens at a socket any more.
    pub(super) fn forget(&mut self, socket: &SocketName) {
        self.0.remove(socket);
    }

    /// Sockets that have some which have claimed no interface yet.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &SocketName> {
        self.0.iter().filter(|(_, list)| list.iter().any(|one| one.id.is_none())).map(|(socket, _)| socket)
    }

    /// Those at a socket that have claimed interface `id`, or none, by process, the one with the oldest first.
    pub(super) fn of(&self, socket: &SocketName, id: Option<u32>) -> Vec<UnderWay> {
        let mut all: Vec<(Option<Credentials>, u32, Instant)> = Vec::new();
        for one in self.0.get(socket).into_iter().flatten().filter(|one| one.id == id) {
            match all.iter_mut().find(|(peer, ..)| *peer == one.peer) {
                Some((_, count, _)) => *count += 1,
                None => all.push((one.peer, 1, one.since)),
            }
        }
        let under_way =
            |(peer, count, since): (_, _, Instant)| UnderWay { peer, count, age: since.elapsed() };
        all.into_iter().map(under_way).collect()
    }
}

impl UnderWay {
    /// Since when the oldest of them has been there.
    pub(in super::super) fn since(&self) -> SystemTime {
        let now = SystemTime::now();
        now.checked_sub(self.age).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_process_are_one() {
        let (mut handshakes, now) = (Handshakes::default(), Instant::now());
        let (a, b) = (SocketName::Path("/a".into()), SocketName::Path("/b".into()));
        let peer = |uid| Some(Credentials { pid: None, uid, gid: 0 });
        let one = |uid, id| Handshake { peer: peer(uid), id, since: now };
        handshakes.set(&b, std::iter::empty());
        handshakes.set(&a, [one(7, None), one(8, Some(3)), one(8, None), one(7, None)].into_iter());
        assert_eq!(handshakes.sockets().collect::<Vec<_>>(), [&a]);
        let shown = |handshakes: &Handshakes, id| {
            let all = handshakes.of(&a, id).into_iter();
            all.map(|one| (one.peer.map(|peer| peer.uid), one.count)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&handshakes, None), [(Some(7), 2), (Some(8), 1)]);
        assert_eq!((shown(&handshakes, Some(3)), shown(&handshakes, Some(4))), (vec![(Some(8), 1)], vec![]));
        handshakes.set(&b, [one(7, Some(3))].into_iter());
        assert_eq!(
            handshakes.sockets().collect::<Vec<_>>(),
            [&a],
            "what has claimed an interface is told with it"
        );
        handshakes.set(&b, std::iter::empty());
        handshakes.set(&a, std::iter::empty());
        assert_eq!((handshakes.sockets().count(), shown(&handshakes, None)), (0, vec![]));
    }
}
