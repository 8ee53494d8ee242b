//! What a service sees of a packet and its session, and what it may say of it.

use super::entry::{Direction, Flow, Session};
use super::lifecycle::Step;
use super::redirect::Note;
use super::services::Chain;
use super::session_stats::Stats;
use super::sessions::Sessions;
use super::tcp_check::Track;
use super::tenants::{Tenant, Tenants};
use super::translate::Translations;
use graph::packet::{Packets, SlotId};
use graph::publish::Tables;
use tables::session::{Beside, Handle, Key};
use wire::IpProtocol;

/// Counters that a service can have.
pub(super) const COUNTERS: usize = 16;

/// What becomes of a packet that a service has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes the next service.
    Next,
    /// It passes none of the services that are left.
    Skip,
    /// It is dropped, for that reason of the service's node.
    Drop(u8),
    /// So are all that come after it, until its session ends or its [tenant changes](Tenant::policy).
    Block(u8),
    /// It is dropped, and its session ends.
    End(u8),
    /// It goes by that edge of the service's node, and nothing here has to do with it any more.
    To(u8),
}

/// What becomes of a packet before a service sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The service sees it.
    Goes,
    /// It passes the service unseen.
    Passes,
    /// It is dropped, for that reason of the service's node, and its session ends.
    Refused(u8),
    /// So are all that come after it, until its session ends or anything changes that the service has asked.
    Blocked(u8),
    /// So are all others to the initiator, likewise.
    AnswersBlocked(u8),
}

/// A packet that comes to a service, with all sessions of the worker.
pub(super) struct Arrival<'a> {
    pub(super) packets: &'a Packets,
    pub(super) slot: SlotId,
    /// The packet's place in its vector.
    pub(super) at: usize,
    pub(super) session: u32,
    pub(super) sessions: &'a mut Sessions,
    pub(super) tenants: &'a Tenants,
    pub(super) tables: &'a Tables,
    pub(super) worker: u32,
    /// Monotonic nanoseconds.
    pub(super) now: u64,
    pub(super) tick: u64,
    /// The higher endpoint of the session's key has sent it.
    pub(super) from_high: bool,
    /// The service's number.
    pub(super) me: u8,
    pub(super) counts: &'a mut [u64; COUNTERS],
}

impl Arrival<'_> {
    /// Adds one to a counter of the service's node.
    pub(super) fn count(&mut self, counter: u8) {
        if let Some(count) = self.counts.get_mut(usize::from(counter)) {
            *count += 1;
        }
    }
}

/// A packet at its session, for a service.
pub(super) struct Visit<'a> {
    pub(super) packets: &'a mut Packets,
    pub(super) slot: SlotId,
    pub(super) tenants: &'a Tenants,
    pub(super) key: &'a Key,
    pub(super) handle: Handle,
    pub(super) session: &'a mut Session,
    pub(super) direction: Direction,
    /// The higher endpoint of the session's key has sent it.
    pub(super) from_high: bool,
    pub(super) is_v6: bool,
    /// What `tcp-check` knows of sessions.
    pub(super) tcp: &'a mut Beside<Track>,
    /// What `session-stats` has noted of sessions.
    pub(super) stats: &'a mut Beside<Stats>,
    /// How packets of sessions look on their far side.
    pub(super) translations: &'a Translations,
    /// What `redirect` knows of sessions.
    pub(super) redirected: &'a mut Beside<Note>,
    /// What holds of sessions until their tenants change.
    pub(super) decided: &'a mut Beside<Chain>,
    /// What the packet has done to its session.
    pub(super) step: Step,
    /// The service's number.
    pub(super) me: u8,
    /// The packet's place in its vector.
    pub(super) at: usize,
    pub(super) counts: &'a mut [u64; COUNTERS],
}

/// A vector that comes to a service.
pub(super) struct Oncoming<'a> {
    pub(super) packets: &'a Packets,
    pub(super) slots: &'a [SlotId],
    pub(super) sessions: &'a mut Sessions,
    pub(super) tenants: &'a Tenants,
    pub(super) worker: u32,
    /// Monotonic nanoseconds.
    pub(super) now: u64,
}

impl<'a> Visit<'a> {
    /// The session's tenant; `None` where it has just gone.
    pub(super) fn tenant(&self) -> Option<&'a Tenant> {
        self.tenants.get(self.session.tenant)
    }

    /// The session's protocol.
    #[inline(always)]
    pub(super) fn protocol(&self) -> IpProtocol {
        IpProtocol(self.key.protocol())
    }

    /// Adds one to a counter of the service's node.
    #[inline(always)]
    pub(super) fn count(&mut self, counter: impl Into<u8>) {
        if let Some(count) = self.counts.get_mut(usize::from(counter.into())) {
            *count += 1;
        }
    }
}

/// Packets between the one that a service looks at and the one that it has something fetched for.
pub(super) const AHEAD: usize = 16;

/// What is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// What lies at the session's number.
    First,
    /// What that leads to; it is there by now.
    Then,
}

/// Of which dropped packets the senders are told that nobody listens where they asked, and by which edges: of a TCP segment by a RST, of anything
/// else by an ICMP error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    /// The reason of the service's node.
    pub(super) reason: u8,
    /// The edges to `icmp4-error` and `icmp6-error`.
    pub(super) icmp: [u8; 2],
    /// That to `tcp-reset`.
    pub(super) reset: u8,
}

/// A service.
pub(super) trait Serve: Send + 'static {
    /// Whether packets [enter](Self::enter).
    const ENTERS: bool = false;

    /// Of which packets that it drops the senders are told, if of any.
    const TOLD: Option<Telling> = None;

    /// Whether it is likely to move sessions from one state to another: what is needed for that is fetched, too.
    const MOVES: bool = false;

    /// Has what the service keeps of a packet's session fetched, [`AHEAD`] packets before that, and then, half way to it, what that leads to.
    #[inline(always)]
    fn fetch(_: &Sessions, _: Flow, _: Ahead) {}

    /// Whether a packet of that session [enters](Self::enter), for those of [`ENTERS`](Self::ENTERS).
    #[inline(always)]
    fn wants(_: &Session) -> bool {
        true
    }

    /// A vector comes, before any of its packets is looked at.
    #[inline(always)]
    fn vector(&mut self, _: Oncoming<'_>) {}

    /// What has to be done with the worker's sessions before the service sees a packet.
    fn enter(&mut self, _: &mut Arrival<'_>) -> Entry {
        Entry::Goes
    }

    /// What becomes of a packet.
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict;

    /// What becomes of a later fragment, which has no transport header.
    fn fragment(&mut self, _: &mut Visit<'_>) -> Verdict {
        Verdict::Next
    }
}
