//! Who was turned away.

use std::time::SystemTime;

use super::links::Reasons;
use super::process::Process;

/// Attempts to connect that came to nothing.
#[derive(Debug, Default)]
pub(in super::super) struct TurnedAway {
    /// How many, by the kind of reason.
    pub(in super::super) reasons: Reasons,
    /// The last of the peers that came to us.
    pub(in super::super) last: Option<Away>,
}

/// A peer that was turned away.
#[derive(Debug)]
pub(in super::super) struct Away {
    /// Who it was.
    pub(in super::super) peer: Process,
    /// The kind of reason.
    pub(in super::super) reason: &'static str,
    /// When.
    pub(in super::super) time: SystemTime,
}

impl TurnedAway {
    /// One more, for this kind of reason. `peer`: who came to us; where it was us who came, nobody.
    pub(super) fn add(&mut self, reason: &'static str, peer: Option<Process>) {
        *self.reasons.entry(reason).or_default() += 1;
        if let Some(peer) = peer {
            self.last = Some(Away { peer, reason, time: SystemTime::now() });
        }
    }
}
