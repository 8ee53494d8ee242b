//! Sessions from the process before: to the workers, and at the end from them, for the next one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use features::session::{Filter, Kept, Seen, Sessions, State};
use graph::IfIndex;
use memory::clock::nanoseconds;
use tables::session::{Endpoint, Key};

use super::core::Core;
use super::inspect::sessions::{SPAN, ask, names};
use super::start::Shared;
use crate::dataplane::KeptSession;

/// Sessions that are kept at most. More take a worker too long that begins, in one round: half a microsecond each, or one; the file of so many has some 30 MB (both estimated).
const LIMIT: usize = 100_000;
/// After so long (nanoseconds) nobody waits any more.
const STALE: u64 = 600_000_000_000;

/// Sessions that wait for their tenants.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    sessions: Vec<KeptSession>,
    until: u64,
}

impl From<Vec<KeptSession>> for Waiting {
    fn from(sessions: Vec<KeptSession>) -> Self {
        Self { sessions, until: nanoseconds() + STALE }
    }
}

impl Core {
    /// Hands the sessions that are kept down to the workers, once their tenants, interfaces and VIPs are there. Queues of interfaces come behind that: no packet is faster.
    pub(super) fn hand_down_sessions(&mut self) {
        if self.kept.sessions.is_empty() {
            return;
        }
        if nanoseconds() > self.kept.until {
            let sessions = std::mem::take(&mut self.kept.sessions).len();
            tracing::warn!(
                sessions,
                "sessions to VIPs whose tenants or interfaces didn't come back are forgotten"
            );
            return;
        }
        let Some(local) = self.plan.schema.local_key::<Sessions>() else { return };
        let inventory = self.directory.get();
        let interfaces: HashMap<String, IfIndex> =
            inventory.registry.iter().map(|(index, entry)| (entry.spec.name.to_string(), index)).collect();
        let tenants: HashMap<String, u16> =
            inventory.tenants.iter().map(|(name, tenant)| (name.to_string(), tenant.index)).collect();
        let is_there = |session: &KeptSession| {
            tenants.contains_key(&session.tenant) && interfaces.contains_key(&session.interface)
        };
        let (wanted, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.kept.sessions).into_iter().partition(is_there);
        self.kept.sessions = waiting;
        if wanted.is_empty() {
            return;
        }
        let accounts = self.balancer.accounts();
        let found = wanted.iter().filter_map(|session| {
            let [vip, backend] = [endpoint(session.endpoints[1]), endpoint(session.beyond[1])];
            let key = Key::of_endpoint(session.context, session.protocol, vip);
            let (account, direct) = accounts.get(&(key, backend))?;
            let (tenant, interface) = (tenants.get(&session.tenant)?, interfaces.get(&session.interface)?);
            (*direct == session.direct).then(|| known(session, *tenant, *interface, *account))
        });
        let kept: Arc<[Kept]> = found.collect();
        tracing::info!(kept = kept.len(), of = wanted.len(), "sessions to VIPs go on");
        for worker in self.pool.workers() {
            let kept = Arc::clone(&kept);
            worker.send(move |graph| graph.local(local).keep(&kept));
        }
    }
}

/// A session as workers know it.
fn known(session: &KeptSession, tenant: u16, interface: IfIndex, account: u32) -> Kept {
    Kept {
        tenant,
        interface,
        context: session.context,
        protocol: session.protocol,
        endpoints: session.endpoints.map(endpoint),
        beyond: session.beyond.map(endpoint),
        account,
        direct: session.direct,
        state: if session.closing { State::Closing } else { State::Established },
        tcp_flags: session.tcp_flags,
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    (address.ip(), address.port())
}

/// The sessions that the next process needs: as many as may be, of those workers that answer.
pub(super) fn kept(shared: &Shared) -> Vec<KeptSession> {
    let (tenants, interfaces) = {
        let inventory = shared.directory.get();
        let known = inventory.registry.iter().map(|(index, entry)| (index, entry.spec.name.to_string()));
        (names(&inventory), known.collect::<HashMap<_, _>>())
    };
    let as_kept = |seen: &Seen| {
        let tenant = tenants.get(&seen.session.tenant)?;
        as_kept(seen, tenant, interfaces.get(&seen.begun)?)
    };
    let (mut kept, mut left) = (Vec::new(), 0);
    for worker in shared.pool.workers() {
        let mut from = Some(0);
        while let Some(at) = from {
            match ask(shared, worker, move |sessions| sessions.look(&Filter::default(), at, SPAN)) {
                Ok((part, next)) => {
                    let mut its = part.iter().filter(|seen| seen.is_kept()).filter_map(as_kept);
                    kept.extend(its.by_ref().take(LIMIT - kept.len()));
                    left += its.count();
                    from = next;
                }
                Err(error) => {
                    tracing::error!(%error, "a worker's sessions to VIPs aren't kept");
                    break;
                }
            }
        }
    }
    if left > 0 {
        tracing::warn!(kept = kept.len(), left, "more sessions to VIPs than are kept: the others begin anew");
    }
    kept
}

fn as_kept(seen: &Seen, tenant: &str, interface: &str) -> Option<KeptSession> {
    let address = |(address, port): Endpoint| SocketAddr::new(address, port);
    let (initiator, responder) = seen.endpoints();
    Some(KeptSession {
        tenant: tenant.into(),
        interface: interface.into(),
        context: seen.key.context(),
        protocol: seen.key.protocol(),
        endpoints: [initiator, responder].map(address),
        beyond: seen.translated?.map(address),
        direct: seen.direct,
        closing: seen.session.state == State::Closing,
        tcp_flags: seen.session.tcp_flags,
    })
}
