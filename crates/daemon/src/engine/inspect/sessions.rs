//! Tenants and their sessions.
//!
//! Sessions are a worker's own: whoever looks asks each worker by commands, a part of its table at a time, and waits for the answer.
//! Between two parts the worker moves packets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use api::v1::{
    EndedSessions, SessionEnd, SessionFilter, SessionPhase, SessionState, SessionVerdict, SideStatistics,
    SideTotals, TcpState, TenantDrops, TenantState,
};
use features::session::parser;
use features::session::redirect::{Judgment, judged};
use features::session::tenants::TICK_BITS;
use features::session::{self, End, Filter, Occupancy, Seen, Sessions, SideSums, State, order};
use graph::plan::Plan;
use graph::worker::Worker;
use memory::clock::nanoseconds;

use super::super::directory::Inventory;
use super::super::redirects;
use super::super::start::Shared;
use crate::dataplane::InspectError;
use crate::model::SessionShares;
use crate::model::spec::{ClassSpec, scope_name, slow_path};

/// Places of the table that a worker looks at between two rounds: some hundred microseconds' work.
pub(in super::super) const SPAN: u32 = 1024;
/// How long a worker is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// All tenants, ordered by name.
pub(super) fn tenants(shared: &Shared) -> Vec<TenantState> {
    let inventory = shared.directory.get();
    let quotas = inventory.tenants.values().map(|tenant| tenant.spec.max_sessions);
    let shares = SessionShares::new(shared.session_room(), quotas);
    let each = inventory.tenants.values().map(|tenant| {
        let (spec, figures) = (&tenant.spec, &tenant.occupancy);
        let [initiators, responders] = figures.noted.sums().map(totals);
        let traffic = figures.traffic();
        let services = |chain| order().names(spec.scope, chain).map(Into::into).collect();
        TenantState {
            name: spec.name.to_string(),
            context: spec.context.into(),
            interfaces: spec.interfaces.iter().map(ToString::to_string).collect(),
            classes: spec.classes.iter().map(ClassSpec::to_api).collect(),
            outside_interfaces: spec.outside_interfaces.iter().map(ToString::to_string).collect(),
            forward_services: services(spec.chain[0]),
            reverse_services: services(spec.chain[1]),
            sessions: figures.sessions.load(Ordering::Relaxed),
            max_sessions: spec.max_sessions.into(),
            guaranteed_sessions: shares.guaranteed(spec.max_sessions),
            created: figures.created.load(Ordering::Relaxed),
            evicted: figures.evicted.load(Ordering::Relaxed),
            refused: figures.refused.load(Ordering::Relaxed),
            max_new_sessions_per_second: spec.max_new_per_second,
            engine_there: redirects::is_there(tenant),
            ended: ended(figures),
            drops: drops(&shared.plan, figures),
            initiator_totals: initiators,
            responder_totals: responders,
            slow_path: Some(slow_path::in_force(spec.slow_path)),
            scope: scope_name(spec.scope).into(),
            parser: spec.parser.map(|parser| parser.name.into()).unwrap_or_default(),
            forward_packets: traffic.packets[0],
            forward_bytes: traffic.bytes[0],
            reverse_packets: traffic.packets[1],
            reverse_bytes: traffic.bytes[1],
            max_sessions_per_source: spec.max_per_source,
            source_exempt_interfaces: spec.uncounted.iter().map(ToString::to_string).collect(),
            source_ipv6_prefix_length: spec.source_prefix.into(),
        }
    });
    let mut list: Vec<_> = each.collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

/// What was noted of one side, if anything was.
fn totals(sums: SideSums) -> Option<SideTotals> {
    (sums != SideSums::default()).then_some(SideTotals {
        timed_sessions: sums.timed,
        rtt_microseconds: sums.rtt,
        repeated_segments: sums.repeated,
        zero_windows: sums.zero_windows,
    })
}

/// Sessions that have ended, by reason.
fn ended(figures: &Occupancy) -> Vec<EndedSessions> {
    let each = End::ALL.into_iter().map(|end| (end, figures.ended(end)));
    let there = each.filter(|(_, sessions)| *sessions > 0);
    there.map(|(end, sessions)| EndedSessions { end: session_end(end).into(), sessions }).collect()
}

/// Packets that were dropped, by node and reason, most first.
fn drops(plan: &Plan, figures: &Occupancy) -> Vec<TenantDrops> {
    let named = |(reason, packets): (u16, u64)| {
        let (node, spec) = plan.drops.get(usize::from(reason))?;
        let node = plan.nodes.get(usize::from(*node))?.spec.name;
        Some(TenantDrops { node: node.into(), reason: spec.name.into(), packets })
    };
    let mut drops: Vec<_> = figures.dropped().into_iter().filter_map(named).collect();
    drops.sort_by(|a, b| {
        b.packets.cmp(&a.packets).then_with(|| (&a.node, &a.reason).cmp(&(&b.node, &b.reason)))
    });
    drops
}

/// Why a session is over, as clients know it.
pub(in super::super) const fn session_end(end: End) -> SessionEnd {
    match end {
        End::Finished => SessionEnd::Finished,
        End::Timeout => SessionEnd::Timeout,
        End::Blocked => SessionEnd::Blocked,
        End::EvictedForQuota => SessionEnd::EvictedForQuota,
        End::EvictedForTable => SessionEnd::EvictedForTable,
        End::Cleared => SessionEnd::Cleared,
        End::TenantDeleted => SessionEnd::TenantDeleted,
        End::Reconfigured => SessionEnd::Reconfigured,
    }
}

/// Tenants that there are, by number.
pub(in super::super) fn names(inventory: &Inventory) -> HashMap<u16, String> {
    inventory.tenants.values().map(|tenant| (tenant.index, tenant.spec.name.to_string())).collect()
}

/// Calls `each` with the sessions that are meant until it returns false.
///
/// # Errors
/// [`InspectError`] where the filter names nothing that there is, or a worker doesn't answer.
pub(super) fn each(
    shared: &Shared,
    filter: &SessionFilter,
    each: &mut dyn FnMut(SessionState) -> bool,
) -> Result<(), InspectError> {
    let inventory = shared.directory.get();
    let filter = read(&inventory, filter)?;
    let names = Arc::clone(&inventory.tenant_names);
    drop(inventory);
    for worker in shared.pool.workers() {
        let mut from = Some(0);
        while let Some(at) = from {
            let (part, next) = ask(shared, worker, move |sessions| sessions.look(&filter, at, SPAN))?;
            for seen in part {
                let tenant = names.get(&seen.session.tenant).map_or("", |name| &**name);
                if !each(state(&seen, tenant, worker.number(), nanoseconds())) {
                    return Ok(());
                }
            }
            from = next;
        }
    }
    Ok(())
}

/// Ends the sessions that are meant; gives how many there were.
///
/// # Errors
/// As [`each`].
pub(super) fn clear(shared: &Shared, filter: &SessionFilter) -> Result<u64, InspectError> {
    let filter = read(&shared.directory.get(), filter)?;
    let mut ended = 0;
    for worker in shared.pool.workers() {
        let mut from = Some(0);
        while let Some(at) = from {
            let (part, next) =
                ask(shared, worker, move |sessions| sessions.clear(&filter, at, SPAN, nanoseconds()))?;
            ended += part;
            from = next;
        }
    }
    Ok(ended)
}

/// Says what becomes of the rest of those that are meant and that an engine looks into; gives how many there were.
///
/// # Errors
/// As [`each`], or where nothing is said.
pub(super) fn judge(
    shared: &Shared,
    filter: &SessionFilter,
    verdict: SessionVerdict,
) -> Result<u64, InspectError> {
    let judgment = match verdict {
        SessionVerdict::AllowRest => Judgment::AllowRest,
        SessionVerdict::DropRest => Judgment::DropRest,
        SessionVerdict::Unspecified => {
            return Err(InspectError::Invalid("verdict: say allow-rest or drop-rest".into()));
        }
    };
    let filter = read(&shared.directory.get(), filter)?;
    let reason =
        judged(&shared.plan).ok_or_else(|| InspectError::NotFound("this graph has no engines".into()))?;
    let tenants = {
        let core = shared.core();
        core.publisher.current().share(core.keys.tenants)
    };
    let mut count = 0;
    for worker in shared.pool.workers() {
        let mut from = Some(0);
        while let Some(at) = from {
            let tenants = Arc::clone(&tenants);
            let (part, next) = ask(shared, worker, move |sessions| {
                let tick = nanoseconds() >> TICK_BITS;
                sessions.judge(&tenants, &filter, (judgment, reason), tick, (at, SPAN))
            })?;
            count += part;
            from = next;
        }
    }
    Ok(count)
}

/// Has a worker look at its sessions between two rounds.
pub(in super::super) fn ask<R: Send + 'static>(
    shared: &Shared,
    worker: &Worker,
    question: impl FnOnce(&mut Sessions) -> R + Send + 'static,
) -> Result<R, InspectError> {
    let Some(key) = shared.plan.schema.local_key::<Sessions>() else {
        return Err(InspectError::NotFound("this graph has no sessions".into()));
    };
    let (sender, receiver) = sync_channel(1);
    worker.send(move |graph| {
        // An error means that nobody waits any more.
        let _ = sender.send(question(graph.local(key)));
    });
    receiver
        .recv_timeout(PATIENCE)
        .map_err(|_| InspectError::Busy(format!("worker {} doesn't answer", worker.number())))
}

/// The number of the tenant that has that name now.
pub(in super::super) fn tenant_number(inventory: &Inventory, name: &str) -> Option<u16> {
    let found = inventory.tenants.iter().find(|(other, _)| other.to_string() == name);
    found.map(|(_, tenant)| tenant.index)
}

/// The sessions that are meant, as workers know them.
///
/// # Errors
/// [`InspectError`] where the filter names nothing that there is.
pub(in super::super) fn read(inventory: &Inventory, filter: &SessionFilter) -> Result<Filter, InspectError> {
    let invalid = |what: &str, value: &dyn std::fmt::Display| {
        InspectError::Invalid(format!("there can't be a session with {what} {value}"))
    };
    let tenant = match filter.tenant.as_str() {
        "" => None,
        name => {
            let missing = || InspectError::NotFound(format!("there is no tenant {name} in force"));
            Some(tenant_number(inventory, name).ok_or_else(missing)?)
        }
    };
    let address = match filter.address.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| invalid("address", &text))?),
    };
    let port = u16::try_from(filter.port).map_err(|_| invalid("port", &filter.port))?;
    let protocol = filter.protocol.map(u8::try_from).transpose();
    let state = match filter.phase() {
        SessionPhase::Unspecified => None,
        SessionPhase::Embryonic => Some(State::Embryonic),
        SessionPhase::Established => Some(State::Established),
        SessionPhase::Closing => Some(State::Closing),
        SessionPhase::TimeWait => Some(State::TimeWait),
    };
    let parser = match filter.parser.as_str() {
        "" => None,
        name => {
            let missing = || InspectError::NotFound(format!("there is no parser {name}"));
            Some(parser::number(name).ok_or_else(missing)?)
        }
    };
    Ok(Filter {
        tenant,
        address,
        port: (port != 0).then_some(port),
        protocol: protocol.map_err(|_| invalid("protocol", &filter.protocol.unwrap_or_default()))?,
        state,
        spi: filter.spi,
        parser,
        blocked: filter.blocked,
    })
}

/// A session as clients know it, seen at `now` (monotonic nanoseconds).
pub(in super::super) fn state(seen: &Seen, tenant: &str, worker: usize, now: u64) -> SessionState {
    let Seen { handle, key, session, .. } = seen;
    let ((initiator, initiator_port), (responder, responder_port)) = seen.endpoints();
    let (spi, parsed) = (key.spi(), seen.parsed());
    let port = |port: u16| if spi.is_some() { 0 } else { u32::from(port) };
    // Whom a parser's key doesn't say is left out.
    let said = |address: IpAddr| match parsed {
        Some(_) if address.is_unspecified() => String::new(),
        _ => address.to_string(),
    };
    let now = (now >> TICK_BITS) as u32;
    // A packet may have come since the worker took its time.
    let since =
        |tick: u32| f64::from((now.wrapping_sub(tick) as i32).max(0)) * (1u64 << TICK_BITS) as f64 / 1e9;
    let phase = match session.state {
        State::Embryonic => SessionPhase::Embryonic,
        State::Established => SessionPhase::Established,
        State::Closing => SessionPhase::Closing,
        State::TimeWait => SessionPhase::TimeWait,
    };
    let near = seen.translated.map(|[near, _]| near);
    // A client is mostly seen by its backend as it is.
    let near = near.filter(|near| ![seen.endpoints().0, seen.endpoints().1].contains(near));
    let backend = seen.translated.map(|[_, backend]| backend);
    let backend = backend.filter(|backend| seen.balanced || backend.0 != responder);
    SessionState {
        id: format!("{worker}-{}.{}", handle.index, handle.generation),
        tenant: tenant.into(),
        context: key.context().into(),
        protocol: seen.protocol().into(),
        initiator: said(initiator),
        initiator_port: port(initiator_port),
        responder: said(responder),
        responder_port: port(responder_port),
        phase: phase.into(),
        forward_packets: session.packets()[0],
        forward_bytes: session.bytes()[0],
        reverse_packets: session.packets()[1],
        reverse_bytes: session.bytes()[1],
        age_seconds: since(session.created),
        idle_seconds: since(session.last_seen),
        worker: worker as u32,
        initiator_tcp: seen.tcp.map_or(0, |[initiator, _]| tcp(initiator).into()),
        responder_tcp: seen.tcp.map_or(0, |[_, responder]| tcp(responder).into()),
        blocked: session.is_blocked(),
        translated: near.map(|(address, _)| address.to_string()).unwrap_or_default(),
        translated_port: near.map_or(0, |(_, seen)| port(seen)),
        backend: backend.map(|(address, _)| address.to_string()).unwrap_or_default(),
        backend_port: backend.map_or(0, |(_, seen)| port(seen)),
        spi,
        initiator_statistics: seen.stats.map(|[initiator, _]| statistics(&initiator)),
        responder_statistics: seen.stats.map(|[_, responder]| statistics(&responder)),
        parser: parsed.map(|parsed| parsed.parser.name.into()).unwrap_or_default(),
        key: parsed.map(|parsed| parsed.text()).unwrap_or_default(),
    }
}

fn statistics(side: &session::SideStats) -> SideStatistics {
    SideStatistics {
        ttl_min: side.ttl_min.into(),
        ttl_max: side.ttl_max.into(),
        rtt_microseconds: side.rtt,
        rtt_min_microseconds: side.rtt_min,
        repeated_segments: side.repeated,
        zero_windows: side.zero_windows.into(),
        tcp_flags: side.flags.into(),
    }
}

fn tcp(state: session::TcpState) -> TcpState {
    match state {
        session::TcpState::Listen => TcpState::Listen,
        session::TcpState::SynSent => TcpState::SynSent,
        session::TcpState::SynReceived => TcpState::SynReceived,
        session::TcpState::Established => TcpState::Established,
        session::TcpState::FinWait1 => TcpState::FinWait1,
        session::TcpState::FinWait2 => TcpState::FinWait2,
        session::TcpState::CloseWait => TcpState::CloseWait,
        session::TcpState::Closing => TcpState::Closing,
        session::TcpState::LastAck => TcpState::LastAck,
        session::TcpState::TimeWait => TcpState::TimeWait,
        session::TcpState::Closed => TcpState::Closed,
    }
}
