//! What is known of a session whose packets visit an engine.

use crate::session::entry::Session;

/// What an engine, or somebody else who knows, says about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgment {
    /// The rest of it passes without being looked into.
    AllowRest,
    /// The rest of it is dropped.
    DropRest,
}

/// Ticks (of 2^24 ns) for which a session that may pass without is still sent there while something of it is: one second. What the engine has dropped doesn't come
/// back.
const GRACE: u32 = 60;

/// What lies beside a session.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct Note {
    /// Packets that the engine has, by direction; too many where it has dropped some.
    under_way: [u32; 2],
    /// Since which tick they may pass without, by direction; 0: they may not.
    leaving: [u32; 2],
    /// By which of its tenant's policies it was judged that the rest passes; 0: it wasn't.
    allowed: u32,
}

impl Note {
    /// It was judged that the rest of the session passes, as long as its tenant is by that policy.
    pub(in crate::session) fn allow(&mut self, policy: u64) {
        self.allowed = policy as u32;
    }

    /// Whether it was judged so, and that holds.
    pub(super) fn is_allowed(&self, policy: u64) -> bool {
        self.allowed == policy as u32
    }

    /// Whether something of that direction is with the engine yet that the next packet, which may pass without, waits for.
    pub(super) fn waits(&self, way: usize, tick: u64) -> bool {
        let since = self.leaving[way];
        self.under_way[way] != 0 && (since == 0 || (tick as u32).wrapping_sub(since) <= GRACE)
    }

    /// So many packets go to the engine.
    pub(super) fn go(&mut self, way: usize, packets: u32) {
        self.under_way[way] = self.under_way[way].saturating_add(packets);
    }

    /// One has come back.
    pub(in crate::session) fn comes(&mut self, way: usize) {
        self.under_way[way] = self.under_way[way].saturating_sub(1);
    }

    /// Whether a packet of that direction, which is counted already, passes without, and so do all behind it. It doesn't overtake others: what is with the engine is
    /// waited for. The tenant is by `policy`.
    pub(super) fn leaves(
        &mut self,
        session: &Session,
        way: usize,
        (policy, inspect_packets): (u64, u64),
        tick: u64,
    ) -> bool {
        let is_seen = inspect_packets != 0 && session.packets()[way] > inspect_packets;
        if !is_seen && !self.is_allowed(policy) {
            self.leaving[way] = 0;
            return false;
        }
        if self.leaving[way] == 0 {
            self.leaving[way] = (tick as u32).max(1);
        }
        !self.waits(way, tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Direction;

    const POLICY: u64 = 3;

    #[test]
    fn a_session_leaves_when_nothing_of_it_is_under_way_or_is_never_to_come_back() {
        let mut session = Session::default();
        let mut note = Note::default();
        session.count(Direction::Forward, 64);
        assert!(!note.leaves(&session, 0, (POLICY, 0), 100), "all of it is looked into");
        assert!(!note.leaves(&session, 0, (POLICY, 1), 100));
        note.go(0, 1);
        session.count(Direction::Forward, 64);
        assert!(!note.leaves(&session, 0, (POLICY, 1), 100), "the first one isn't back");
        assert!(!note.leaves(&session, 1, (POLICY, 1), 100), "the other direction is another matter");
        note.go(0, 1);
        note.comes(0);
        assert!(!note.leaves(&session, 0, (POLICY, 1), 100 + u64::from(GRACE)), "nor is the second");
        assert!(note.leaves(&session, 0, (POLICY, 1), 101 + u64::from(GRACE)), "it isn't coming");
        note.comes(0);
        assert!(note.leaves(&session, 0, (POLICY, 1), 102));
        note.comes(0);
        assert!(note.leaves(&session, 0, (POLICY, 1), 102), "one that came back twice");
    }

    #[test]
    fn a_judgment_holds_until_the_tenant_changes() {
        let session = Session::default();
        let mut note = Note::default();
        assert!(!note.leaves(&session, 0, (POLICY, 0), 1), "none was given");
        note.allow(POLICY);
        assert!(note.leaves(&session, 0, (POLICY, 0), 1) && note.leaves(&session, 1, (POLICY, 0), 1));
        assert!(!note.leaves(&session, 0, (POLICY + 1, 0), 1));
    }
}
