//! The connections of a listening socket, and those of them that are in their handshake.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::Credentials;
use super::channel::Channel;
use super::credentials::Origin;
use super::server::Handshake;
use crate::control::ServerMachine;
use crate::ring::Doorbell;

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) channel: Channel,
    pub(super) peer: Option<Credentials>,
    pub(super) origin: Origin,
    pub(super) machine: ServerMachine,
    /// What signals it, once it is connected, where its queues don't.
    pub(super) doorbell: Option<Doorbell>,
    /// When it was accepted.
    pub(super) since: Instant,
    /// When the handshake must be done.
    pub(super) deadline: Instant,
    /// Whether it was told that it is connected.
    pub(super) told: bool,
}

/// All of them, each with a token.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    list: HashMap<u64, Session>,
    /// Handshakes by the time when they must be done. However many are connected, a wake-up looks only at these.
    handshakes: BTreeSet<(Instant, u64)>,
}

impl Sessions {
    /// One more, whose handshake begins.
    pub(super) fn insert(&mut self, token: u64, session: Session) {
        self.handshakes.insert((session.deadline, token));
        self.list.insert(token, session);
    }

    pub(super) fn get(&self, token: u64) -> Option<&Session> {
        self.list.get(&token)
    }

    pub(super) fn get_mut(&mut self, token: u64) -> Option<&mut Session> {
        self.list.get_mut(&token)
    }

    /// The handshake is done.
    pub(super) fn settled(&mut self, token: u64) {
        if let Some(session) = self.list.get(&token) {
            self.handshakes.remove(&(session.deadline, token));
        }
    }

    pub(super) fn remove(&mut self, token: u64) -> Option<Session> {
        self.settled(token);
        self.list.remove(&token)
    }

    pub(super) fn tokens(&self) -> Vec<u64> {
        self.list.keys().copied().collect()
    }

    /// Those that are in their handshake, the oldest first: all have the same time for it.
    pub(super) fn handshakes(&self) -> impl Iterator<Item = Handshake> {
        self.handshakes.iter().filter_map(|(_, token)| {
            let Session { peer, machine, since, .. } = self.list.get(token)?;
            Some(Handshake { peer: *peer, id: machine.id(), since: *since })
        })
    }

    /// When the first handshake must be done.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.handshakes.first().map(|(deadline, _)| *deadline)
    }

    /// Those whose handshake should be done by now.
    pub(super) fn late(&self, now: Instant) -> Vec<u64> {
        self.handshakes.range(..=(now, u64::MAX)).map(|(_, token)| *token).collect()
    }

    /// Who must go before one more may come, where so many handshakes are the most: the oldest of the origin that has most of them, so
    /// that nobody but who connects too often is the loser. Those that have claimed an interface don't count.
    pub(super) fn in_the_way(&self, most: usize) -> Option<u64> {
        if self.handshakes.len() < most {
            return None;
        }
        let mut by_origin = HashMap::<_, (usize, u64)>::new();
        let mut count = 0;
        let all = self.handshakes.iter().filter_map(|(_, token)| self.list.get_key_value(token));
        for (token, session) in all.filter(|(_, session)| session.machine.id().is_none()) {
            let (handshakes, oldest) = by_origin.entry(session.origin).or_insert((0, u64::MAX));
            (*handshakes, *oldest) = (*handshakes + 1, (*oldest).min(*token));
            count += 1;
        }
        let crowd =
            by_origin.into_values().max_by_key(|(handshakes, oldest)| (*handshakes, Reverse(*oldest)));
        crowd.filter(|_| count >= most).map(|(_, oldest)| oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::ServerConfig;
    use crate::control::Limits;
    use crate::io::foreign::Closing;

    /// Whoever connects too often is the loser, where nothing but this tells it from others.
    #[test]
    fn hostile_crowd_pushes_nobody_else_out() {
        let crowds = [
            // Two processes of namespaces that ours can't see into.
            [7, 8, 8, 8].map(|process| Origin::Hidden(Some(process))),
            // A container that has processes connect that end.
            [Origin::Process(7), Origin::Ended, Origin::Ended, Origin::Ended],
            [Origin::Namespace(1, 7), Origin::Namespace(1, 8), Origin::Namespace(1, 8), Origin::Ended],
        ];
        for crowd in crowds {
            let (mut sessions, now) = (Sessions::default(), Instant::now());
            let mut ends = Vec::new();
            for (token, origin) in (1..).zip(crowd) {
                let kind = SocketType::SEQPACKET;
                let (ours, theirs) =
                    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
                ends.push(theirs);
                let (machine, _) = ServerMachine::new(Limits::of("s", [&ServerConfig::default()]));
                let deadline = now + Duration::from_secs(token);
                let channel = Channel::inline(ours, &Closing::default());
                let (peer, doorbell, since, told) = (None, None, now, false);
                let session = Session { channel, peer, origin, machine, doorbell, since, deadline, told };
                sessions.insert(token, session);
            }
            assert_eq!(sessions.in_the_way(4), Some(2));
            assert_eq!(sessions.in_the_way(5), None);
        }
    }
}
