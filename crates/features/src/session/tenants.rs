//! What workers know of tenants: a part of the tables.

use super::acl::Acls;
use super::balance::Vips;
use super::classes::Class;
use super::dropped::Rows;
use super::events::End;
use super::nat::{Mapped, Pool};
use super::noted::Noted;
use super::owed::{Lines, Owed};
use super::redirect::{Redirect, Sides};
use super::services::Chain;
use super::slow_path::SlowPath;
use super::sources::{SourceLimit, Sources};
use crate::policer::Policed;
use core::fmt;
use graph::IfIndex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::session::{Key, Seed};
use wire::IpProtocol;
use wire::flow::pick;

/// What a session's timeout depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Timer {
    /// Nobody has answered yet.
    Embryonic,
    /// Both sides have spoken (UDP and what isn't said otherwise).
    Established,
    /// A TCP connection is open.
    TcpEstablished,
    /// Echo requests are answered.
    IcmpEstablished,
    /// One side of a TCP connection has ended.
    TcpClosing,
    /// A TCP connection is over: what is late still belongs to it.
    TimeWait,
    /// A service lets no packet of the session pass.
    Blocked,
}

/// Number of timeouts.
pub const TIMERS: usize = 7;

/// Bits of a nanosecond count below a tick: a tick is 2^24 ns, 17 ms.
pub const TICK_BITS: u32 = 24;

/// What `tcp-check` does with a connection whose beginning it hasn't seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Midstream {
    /// It follows the connection from there on.
    #[default]
    Adopt,
    /// It drops the packet, and the session ends.
    Remove,
    /// It drops the packet and all that come later, for a while.
    Security,
}

/// Figures that all workers change. Touched when a session comes or goes, not for each packet.
#[derive(Debug, Default)]
pub struct Occupancy {
    /// Sessions that there are.
    pub sessions: AtomicU64,
    /// Sessions that there have been.
    pub created: AtomicU64,
    /// Sessions that had to make room before their time.
    pub evicted: AtomicU64,
    /// Packets that found no room for their session, whether they were dropped or passed without one.
    pub refused: AtomicU64,
    /// Sessions that have ended, by [`End`].
    pub(super) ended: [AtomicU64; End::ALL.len()],
    /// Packets of its that are dropped.
    pub(super) dropped: Rows,
    /// What `session-stats` has noted of its sessions that have ended.
    pub noted: Noted,
    /// What each worker tells of its sessions.
    pub(super) lines: Lines,
    /// How often a worker has asked others for room that are silent.
    pub(super) asks: AtomicU64,
    /// How many each source has, where there is a limit to that.
    pub(super) sources: Sources,
    /// When the next session would begin if they began evenly, as fast as they may (monotonic nanoseconds).
    next: AtomicU64,
}

/// How far new sessions may run ahead of their rate, in nanoseconds: a tenth of a second's may begin at once.
const AHEAD: u64 = 100_000_000;

impl Occupancy {
    /// Packets of its that were dropped at sessions and by their services, by reason (graph-wide id).
    #[must_use]
    pub fn dropped(&self) -> BTreeMap<u16, u64> {
        self.dropped.sum()
    }

    /// Takes one of `quota` places; false where all are taken.
    pub(super) fn take(&self, quota: u64) -> bool {
        let take = |sessions: u64| (sessions < quota).then(|| sessions + 1);
        self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Whether one more session may begin at `now`, where `per_second` may (0: any number), of all workers together: the generic cell
    /// rate algorithm (ITU-T I.371 annex A).
    pub(super) fn admit(&self, per_second: u32, now: u64) -> bool {
        let Some(apart) = 1_000_000_000_u64.checked_div(per_second.into()) else { return true };
        let admitted = |next: u64| {
            let at = next.max(now);
            (at - now <= AHEAD.saturating_sub(apart)).then_some(at + apart)
        };
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admitted).is_ok()
    }

    /// Gives one back.
    pub(super) fn give(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A tenant, as workers see it.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its name.
    pub name: Arc<str>,
    /// Timeouts by [`Timer`], in ticks of 2^24 ns.
    pub timeouts: [u32; TIMERS],
    /// Sessions at most, of all workers together.
    pub max_sessions: u64,
    /// New sessions per second, likewise; 0: as many as come.
    pub max_new_per_second: u32,
    /// What one source may have of them; `None`: all.
    pub source_limit: Option<SourceLimit>,
    /// While there is no place, SYNs are dropped when they are seen first.
    pub early_syn_drop: bool,
    /// Number of the parser that finds its sessions; 0: none.
    pub parser: u8,
    /// The scope of its services.
    pub scope: u8,
    /// Services of packets from the initiator and to it, by their bits in that scope.
    pub chain: [Chain; 2],
    /// Which one of its policies it is by, never 0: the [generation](Tenants::generation) since which its services, their settings, its own lists and the sets of those
    /// have been what they are. What is decided about its sessions holds as long, whatever becomes of others.
    pub policy: u64,
    /// What is done with packets that aren't simply one of a session's.
    pub slow_path: SlowPath,
    /// What `tcp-check` does with connections whose beginning it hasn't seen.
    pub midstream: Midstream,
    /// Sessions that begin at its interfaces, and are others', in the order in which lists are asked.
    pub classes: Vec<Class>,
    /// Interfaces that lead outside, ascending.
    pub outside: Vec<IfIndex>,
    /// Interfaces where sessions begin that count at [no source](SourceLimit), its own and those of its classes: many are behind them. Ascending.
    pub uncounted: Vec<IfIndex>,
    /// What `nat` gives sessions addresses and ports of.
    pub nat: Option<Arc<Pool>>,
    /// Lists of rules that the service `acl` asks about all of its sessions, by number, in order.
    pub acls: Vec<u32>,
    /// Sessions that were let pass by `acl` go on when rules change.
    pub keep_sessions: bool,
    /// What the service `policer` meters packets from initiators and to them by.
    pub policers: [Option<Arc<Policed>>; 2],
    /// Where the service `redirect` sends its sessions.
    pub redirect: Option<Redirect>,
    /// Its figures: the same through all versions of the tables.
    pub occupancy: Arc<Occupancy>,
}

impl Tenant {
    /// A timeout in ticks.
    #[inline(always)]
    #[must_use]
    pub fn timeout(&self, timer: Timer) -> u32 {
        self.timeouts[timer as usize]
    }

    /// Whether an interface leads outside.
    #[must_use]
    pub fn is_outside(&self, interface: IfIndex) -> bool {
        self.outside.binary_search(&interface).is_ok()
    }
}

/// Seconds as ticks, rounded up.
#[must_use]
pub fn ticks_of_seconds(seconds: u32) -> u32 {
    (u64::from(seconds) * 1_000_000_000).div_ceil(1 << TICK_BITS) as u32
}

/// Whose packets an interface's are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the tenant whose sessions begin here; 0: none do, only answers come.
    pub tenant: u16,
    /// Address space that they are looked up in.
    pub context: u16,
    /// Number of the parser that finds them; 0: none.
    pub parser: u8,
}

/// All tenants, by number, and whose packets each interface's are.
#[derive(Clone, Default)]
pub struct Tenants {
    /// Counts up with each change: workers look through their sessions then.
    pub generation: u64,
    /// Workers that share the flows out among themselves; none or one: nothing is shared out.
    pub workers: u32,
    /// What says which worker has which flow.
    pub shares: Seed,
    /// Sessions that each worker may have.
    pub per_worker: usize,
    /// Who is served by whom, for tenants with the service `balance`.
    pub vips: Vips,
    /// Hosts inside that can be asked from outside, for tenants with the service `nat`.
    pub mapped: Mapped,
    /// Which sessions may be, for tenants with the service `acl`.
    pub acls: Acls,
    /// Interfaces of engines, for tenants with the service `redirect`.
    pub engines: Sides,
    /// Whether workers owe each other places of quotas: the same through all versions of the tables.
    pub(super) owed: Arc<Owed>,
    tenants: Vec<Option<Arc<Tenant>>>,
    /// How many have another scope than the default one.
    scoped: usize,
    /// How many tenants each interface leads outside for.
    outside: Vec<u16>,
    places: Vec<Option<Place>>,
    /// Each tenant's share of a worker's table, in sessions, by number.
    guaranteed: Vec<u32>,
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenants").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Tenants {
    /// The tenant of that number.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&Tenant> {
        self.tenants.get(usize::from(number))?.as_deref()
    }

    /// Whether a tenant is by the policy yet that it was by in that generation, as sessions know it: one that lies no further back than they can tell, since workers look
    /// through all of them after each.
    pub(super) fn holds_since(&self, tenant: &Tenant, epoch: u16) -> bool {
        let ago = (self.generation as u16).wrapping_sub(epoch);
        tenant.policy <= self.generation.saturating_sub(ago.into())
    }

    /// Since when the tenant of that number is by its [policy](Tenant::policy).
    pub fn set_policy(&mut self, number: u16, policy: u64) {
        if let Some(Some(tenant)) = self.tenants.get_mut(usize::from(number))
            && tenant.policy != policy
        {
            Arc::make_mut(tenant).policy = policy;
        }
    }

    /// The worker that has the sessions of a key: the same for both directions.
    #[must_use]
    pub fn owner(&self, key: &Key) -> u32 {
        if key.is_parsed() {
            return pick(self.shares.hash(key), self.workers);
        }
        if let Some(client) = self.vips.client(key) {
            // Its VIP is replaced by a backend, and the client stays.
            return pick(self.shares.hash(&client), self.workers);
        }
        if key.is_v4() && key.protocol() == IpProtocol::SCTP.0 {
            // Its ports are the same on both sides of a translation, and nothing else is.
            let ((_, low), (_, high)) = key.v4_endpoints();
            let ports = Key::v4(key.context(), key.protocol(), (0, low), (0, high)).0;
            return pick(self.shares.hash(&ports), self.workers);
        }
        // A host that is mapped has one address on each side.
        let plain = self.mapped.plain(key);
        pick(self.shares.hash(plain.as_ref().unwrap_or(key)), self.workers)
    }

    /// Sets or removes the tenant of that number. Number 0 is nobody's.
    pub fn set(&mut self, number: u16, tenant: Option<Tenant>) {
        let at = usize::from(number);
        if self.tenants.len() <= at {
            self.tenants.resize(at + 1, None);
        }
        if at == 0 {
            return;
        }
        let before = core::mem::replace(&mut self.tenants[at], tenant.map(Arc::new));
        let scoped = |tenant: &Option<Arc<Tenant>>| {
            usize::from(tenant.as_ref().is_some_and(|tenant| tenant.scope != 0))
        };
        self.scoped = self.scoped + scoped(&self.tenants[at]) - scoped(&before);
        for interface in before.iter().flat_map(|tenant| &tenant.outside) {
            self.outside[usize::from(*interface)] -= 1;
        }
        for interface in self.tenants[at].iter().flat_map(|tenant| &tenant.outside) {
            let interface = usize::from(*interface);
            if self.outside.len() <= interface {
                self.outside.resize(interface + 1, 0);
            }
            self.outside[interface] += 1;
        }
    }

    /// Divides each worker's table among the tenants by their quotas, once all of them are set: shares that add up to no
    /// more than the table. Where the quotas do too, of all workers' tables, each share is at least the tenant's quota
    /// for one worker.
    pub fn apportion(&mut self) {
        let table = self.per_worker as u64;
        let all = table.saturating_mul(self.workers.max(1).into());
        let weight = |tenant: &Arc<Tenant>| u128::from(tenant.max_sessions.min(all));
        let sum: u128 = self.tenants.iter().flatten().map(weight).sum();
        let share = |tenant: &Option<Arc<Tenant>>| {
            let weight = tenant.as_ref().map_or(0, weight);
            u32::try_from((u128::from(table) * weight).checked_div(sum).unwrap_or(0)).unwrap_or(u32::MAX)
        };
        self.guaranteed = self.tenants.iter().map(share).collect();
    }

    /// Sessions at each worker that a tenant has room for whatever others have; 0 for one that there isn't.
    #[must_use]
    pub fn guaranteed(&self, number: u16) -> u32 {
        self.guaranteed.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Whether a tenant has another scope than the default one.
    #[inline(always)]
    #[must_use]
    pub(super) fn is_scoped(&self) -> bool {
        self.scoped > 0
    }

    /// Whether the interface leads outside for any tenant.
    #[must_use]
    pub fn is_outside(&self, interface: IfIndex) -> bool {
        self.outside.get(usize::from(interface)).is_some_and(|tenants| *tenants > 0)
    }

    /// Whose packets the interface's are; `None`: nobody's, they are let alone.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, interface: IfIndex) -> Option<Place> {
        *self.places.get(usize::from(interface))?
    }

    /// Whether sessions that begin at an interface are of another tenant than that. One that is a class there keeps its sessions when lists change.
    pub(super) fn is_anothers(&self, interface: IfIndex, tenant: u16) -> bool {
        let owner = self.place(interface).map_or(0, |place| place.tenant);
        owner != 0 && owner != tenant && !self.get(owner).is_some_and(|owner| owner.has_class(tenant))
    }

    /// Says whose packets the interface's are.
    pub fn set_place(&mut self, interface: IfIndex, place: Place) {
        let at = usize::from(interface);
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        self.places[at] = Some(place);
    }

    /// Removes all tenants with their mappings, and all that is said of interfaces; VIPs and lists of rules stay.
    pub fn clear(&mut self) {
        self.tenants.clear();
        self.scoped = 0;
        self.outside.clear();
        self.places.clear();
        self.mapped.clear();
        self.engines.clear();
        self.guaranteed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_exact() {
        let occupancy = Occupancy::default();
        assert_eq!((0..5).filter(|_| occupancy.take(3)).count(), 3);
        occupancy.give();
        assert!(occupancy.take(3));
        assert!(!occupancy.take(3));
        assert_eq!(occupancy.sessions.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn shares_of_a_table_follow_quotas() {
        let shares = |workers, per_worker, quotas: &[u64]| {
            let mut tenants = Tenants { workers, per_worker, ..Tenants::default() };
            for (number, max_sessions) in (1..).zip(quotas) {
                let tenant = crate::session::tests::tenant();
                tenants.set(number, Some(Tenant { max_sessions: *max_sessions, ..tenant }));
            }
            tenants.apportion();
            (0..=quotas.len() as u16).map(|number| tenants.guaranteed(number)).collect::<Vec<_>>()
        };
        assert_eq!(shares(1, 1000, &[100, 300]), [0, 250, 750], "no less than their quotas");
        assert_eq!(shares(1, 1000, &[1500, 500]), [0, 666, 333], "a quota is no more than the table");
        assert_eq!(shares(2, 1000, &[1500, 500]), [0, 750, 250]);
        assert_eq!(shares(2, 1000, &[1500, 1500, 3000]), [0, 300, 300, 400]);
        assert_eq!(shares(1, 1 << 24, &[u64::MAX; 3]), [0, 5_592_405, 5_592_405, 5_592_405]);
        assert_eq!(shares(1, 0, &[7]), [0, 0]);
        assert_eq!(shares(1, 1000, &[]), [0]);
    }

    #[test]
    fn new_sessions_keep_to_their_rate() {
        const SECOND: u64 = 1_000_000_000;
        let occupancy = Occupancy::default();
        assert_eq!((0..5000).filter(|_| occupancy.admit(0, SECOND)).count(), 5000, "no rate");
        assert_eq!(
            (0..5000).filter(|_| occupancy.admit(1000, SECOND)).count(),
            100,
            "a tenth of a second's at once"
        );
        assert!(!occupancy.admit(1000, SECOND + SECOND / 1001));
        assert!(occupancy.admit(1000, SECOND + SECOND / 1000));
        let many = (0..100_000).filter(|n| occupancy.admit(1000, 5 * SECOND + n * SECOND / 10_000)).count();
        assert!((10_000..=10_100).contains(&many), "{many} in ten seconds");
        let slow = Occupancy::default();
        let few = (0..1000).filter(|n| slow.admit(2, SECOND + n * SECOND / 100)).count();
        assert_eq!(few, 20, "fewer than one in a tenth of a second");
    }

    #[test]
    fn a_timeout_is_never_shorter_than_asked_for() {
        assert_eq!(ticks_of_seconds(1), 60);
        assert!(u64::from(ticks_of_seconds(1)) << TICK_BITS >= 1_000_000_000);
        assert_eq!(ticks_of_seconds(0), 0);
    }
}
