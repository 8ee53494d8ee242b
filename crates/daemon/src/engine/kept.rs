//! Sessions from the process before: to the workers, and at the end from them, for the next one.

use std::net::SocketAddr;
use std::sync::Arc;

use features::session::{Filter, Kept, Seen, Sessions, State};
use tables::session::{Endpoint, Key};

use super::core::Core;
use super::directory::Inventory;
use super::inspect::sessions::{SPAN, ask, names};
use super::start::Shared;
use crate::dataplane::{InspectError, KeptSession};

impl Core {
    /// Hands the sessions that are kept down to the workers, once there are tenants and VIPs. Queues of interfaces come behind that: no packet is faster.
    pub(super) fn hand_down_sessions(&mut self) {
        if self.kept.is_empty() || self.directory.get().tenants.is_empty() {
            return;
        }
        let Some(local) = self.plan.schema.local_key::<Sessions>() else { return };
        let (wanted, accounts) = (std::mem::take(&mut self.kept), self.balancer.accounts());
        let inventory = self.directory.get();
        let account = |of: &KeptSession| {
            let [vip, backend] = [endpoint(of.endpoints[1]), endpoint(of.beyond[1])];
            let (account, direct) =
                accounts.get(&(Key::of_endpoint(of.context, of.protocol, vip), backend))?;
            (*direct == of.direct).then_some(*account)
        };
        let found = wanted.iter().filter_map(|session| known(&inventory, session, account(session)?));
        let kept: Arc<[Kept]> = found.collect();
        tracing::info!(kept = kept.len(), of = wanted.len(), "sessions to VIPs go on");
        for worker in self.pool.workers() {
            let kept = Arc::clone(&kept);
            worker.send(move |graph| graph.local(local).keep(kept));
        }
    }
}

/// A session as workers know it, whose backend has that account.
fn known(inventory: &Inventory, session: &KeptSession, account: u32) -> Option<Kept> {
    let tenant = inventory.tenants.iter().find(|(name, _)| name.to_string() == session.tenant)?.1.index;
    Some(Kept {
        tenant,
        context: session.context,
        protocol: session.protocol,
        endpoints: session.endpoints.map(endpoint),
        beyond: session.beyond.map(endpoint),
        account,
        direct: session.direct,
        state: if session.closing { State::Closing } else { State::Established },
        tcp_flags: session.tcp_flags,
    })
}

fn endpoint(address: SocketAddr) -> Endpoint {
    (address.ip(), address.port())
}

/// The sessions that the next process needs.
///
/// # Errors
/// [`InspectError`] where a worker doesn't answer.
pub(super) fn kept(shared: &Shared) -> Result<Vec<KeptSession>, InspectError> {
    let names = names(&shared.directory.get());
    let mut kept = Vec::new();
    for worker in shared.pool.workers() {
        let mut from = Some(0);
        while let Some(at) = from {
            let (part, next) =
                ask(shared, worker, move |sessions| sessions.look(&Filter::default(), at, SPAN))?;
            let its = part.iter().filter(|seen| seen.is_kept());
            kept.extend(its.filter_map(|seen| as_kept(seen, names.get(&seen.session.tenant)?)));
            from = next;
        }
    }
    Ok(kept)
}

fn as_kept(seen: &Seen, tenant: &str) -> Option<KeptSession> {
    let address = |(address, port): Endpoint| SocketAddr::new(address, port);
    let (initiator, responder) = seen.endpoints();
    Some(KeptSession {
        tenant: tenant.into(),
        context: seen.key.context(),
        protocol: seen.key.protocol(),
        endpoints: [initiator, responder].map(address),
        beyond: seen.translated?.map(address),
        direct: seen.direct,
        closing: seen.session.state == State::Closing,
        tcp_flags: seen.session.tcp_flags,
    })
}
