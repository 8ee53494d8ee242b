//! Tenants, and what the services of their sessions count.

use api::text::Words as _;
use api::v1::{AclState, NatPoolState, PolicerHits, SideTotals, TenantState, VipState};

use super::exposition::{Exposition, Kind};
use crate::dataplane::{ExporterFigures, Inspect};

/// Writes down what all of them count.
pub(super) fn collect(inspect: &dyn Inspect, out: &mut Exposition) {
    tenants(inspect, out);
    nat_pools(inspect, out);
    policers(inspect, out);
    vips(inspect, out);
    acls(inspect, out);
}

fn nat_pools(inspect: &dyn Inspect, out: &mut Exposition) {
    type Figure = (&'static str, Kind, &'static str, fn(&NatPoolState) -> u64);
    let figures: [Figure; 7] = [
        ("quiver_nat_pool_addresses", Kind::Gauge, "Addresses of a NAT pool.", |pool| pool.size),
        ("quiver_nat_pool_translations", Kind::Gauge, "Sessions that are translated.", |pool| {
            pool.translations
        }),
        (
            "quiver_nat_pool_translations_created_total",
            Kind::Counter,
            "Sessions that were translated.",
            |pool| pool.created,
        ),
        (
            "quiver_nat_pool_exhausted_total",
            Kind::Counter,
            "Packets dropped because all ports were in use to their destination.",
            |pool| pool.exhausted,
        ),
        (
            "quiver_nat_pool_without_block_total",
            Kind::Counter,
            "Packets dropped because their host has as many blocks of ports as it may, or there was none left for it.",
            |pool| pool.without_block,
        ),
        ("quiver_nat_pool_port_blocks", Kind::Gauge, "Blocks of ports of a NAT pool.", |pool| pool.blocks),
        ("quiver_nat_pool_port_blocks_taken", Kind::Gauge, "Blocks of ports that hosts have.", |pool| {
            pool.blocks_taken
        }),
    ];
    let pools = inspect.nat_pools();
    for (name, kind, help, figure) in figures {
        let mut metric = out.metric(name, kind, help);
        for pool in &pools {
            metric.sample(&[("pool", &pool.name)], figure(pool));
        }
    }
}

fn policers(inspect: &dyn Inspect, out: &mut Exposition) {
    type Figure = (&'static str, &'static str, fn(PolicerHits) -> u64);
    const FIGURES: [Figure; 2] = [
        ("quiver_policer_packets_total", "Metered packets, by colour.", |hits| hits.packets),
        ("quiver_policer_bytes_total", "Their bytes, from the IP header on.", |hits| hits.bytes),
    ];
    let policers = inspect.policers();
    for (name, help, figure) in FIGURES {
        let mut metric = out.metric(name, Kind::Counter, help);
        for state in &policers {
            let policer = state.policer.as_ref().map_or("", |policer| &policer.name);
            for user in &state.users {
                let direction = match (user.tenant.is_empty(), user.reverse) {
                    (true, _) => "",
                    (false, false) => "forward",
                    (false, true) => "reverse",
                };
                for (color, hits) in [("green", user.green), ("yellow", user.yellow), ("red", user.red)] {
                    let labels = [
                        ("policer", policer),
                        ("tenant", &user.tenant),
                        ("direction", direction),
                        ("interface", &user.interface),
                        ("color", color),
                    ];
                    metric.sample(&labels, figure(hits.unwrap_or_default()));
                }
            }
        }
    }
}

fn vips(inspect: &dyn Inspect, out: &mut Exposition) {
    type Figure = (&'static str, Kind, &'static str, fn(&VipState) -> u64);
    const FIGURES: &[Figure] = &[
        ("quiver_vip_sessions", Kind::Gauge, "Sessions of a VIP.", |vip| vip.sessions),
        ("quiver_vip_backends", Kind::Gauge, "Backends that a VIP has sessions with, or may have.", |vip| {
            vip.backends.len() as u64
        }),
        ("quiver_vip_sessions_created_total", Kind::Counter, "Sessions that were given a backend.", |vip| {
            vip.created
        }),
        ("quiver_vip_refused_total", Kind::Counter, "Packets dropped for want of a backend.", |vip| {
            vip.refused
        }),
    ];
    type Way = (&'static str, &'static str, fn(&VipState) -> [u64; 2]);
    const WAYS: &[Way] = &[
        ("quiver_vip_packets_total", "Packets to backends and from them.", |vip| {
            [vip.packets, vip.answer_packets]
        }),
        ("quiver_vip_bytes_total", "Their bytes, from the IP header on.", |vip| {
            [vip.bytes, vip.answer_bytes]
        }),
    ];
    let mut vips = Vec::new();
    // All there are: nobody is asked for by name.
    let _ = inspect.vips("", &mut |vip| {
        vips.push(vip);
        true
    });
    for (name, kind, help, figure) in FIGURES {
        let mut metric = out.metric(name, *kind, help);
        for vip in &vips {
            metric.sample(&[("vip", &vip.name)], figure(vip));
        }
    }
    for (name, help, ways) in WAYS {
        let mut metric = out.metric(name, Kind::Counter, help);
        for vip in &vips {
            for (direction, figure) in ["to", "from"].into_iter().zip(ways(vip)) {
                metric.sample(&[("vip", &vip.name), ("direction", direction)], figure);
            }
        }
    }
    let mut metric =
        out.metric("quiver_vip_backend_sessions", Kind::Gauge, "Sessions of a VIP with a backend.");
    for vip in &vips {
        for backend in &vip.backends {
            let at = match backend.address.contains(':') {
                true => format!("[{}]:{}", backend.address, backend.port),
                false => format!("{}:{}", backend.address, backend.port),
            };
            metric.sample(&[("vip", &vip.name), ("backend", &at)], backend.sessions);
        }
    }
}

fn acls(inspect: &dyn Inspect, out: &mut Exposition) {
    type Outcome = (&'static str, fn(&AclState) -> u64);
    const OUTCOMES: [Outcome; 6] = [
        ("permit", |acl| acl.permitted),
        ("reflect", |acl| acl.reflected),
        ("deny", |acl| acl.denied),
        ("redirect", |acl| acl.redirected),
        ("next", |acl| acl.passed_on),
        ("none", |acl| acl.unmatched),
    ];
    let acls = inspect.acls();
    let mut rules = out.metric("quiver_acl_rules", Kind::Gauge, "Rules of a list.");
    for acl in &acls {
        rules.sample(&[("acl", &acl.name)], acl.rule_count);
    }
    let mut sessions = out.metric(
        "quiver_acl_sessions_total",
        Kind::Counter,
        "Sessions that were asked about, by what the rule says that they met.",
    );
    for acl in &acls {
        for (action, figure) in OUTCOMES {
            sessions.sample(&[("acl", &acl.name), ("action", action)], figure(acl));
        }
    }
}

/// What `session-stats` has noted. Tenants without it have none.
fn noted(tenants: &[TenantState], out: &mut Exposition) {
    type Figure = (&'static str, &'static str, fn(&SideTotals) -> f64);
    const FIGURES: &[Figure] = &[
        (
            "quiver_tenant_timed_sessions_total",
            "Sessions that have ended whose round trip to that side was measured.",
            |totals| totals.timed_sessions as f64,
        ),
        ("quiver_tenant_round_trip_seconds_total", "Their round trips to that side and back.", |totals| {
            totals.rtt_microseconds as f64 / 1e6
        }),
        (
            "quiver_tenant_repeated_segments_total",
            "Segments of sessions that have ended which that side sent again, or which came late.",
            |totals| totals.repeated_segments as f64,
        ),
        (
            "quiver_tenant_zero_windows_total",
            "Segments of sessions that have ended by which that side closed its window.",
            |totals| totals.zero_windows as f64,
        ),
    ];
    let sides = |tenant: &TenantState| {
        [("initiator", tenant.initiator_totals), ("responder", tenant.responder_totals)]
    };
    for (name, help, figure) in FIGURES {
        let mut metric = out.metric(name, Kind::Counter, help);
        for tenant in tenants {
            for (side, totals) in sides(tenant) {
                if let Some(totals) = totals {
                    metric.sample(&[("tenant", &tenant.name), ("side", side)], figure(&totals));
                }
            }
        }
    }
}

/// What their sessions have sent.
fn traffic(tenants: &[TenantState], out: &mut Exposition) {
    type Ways = (&'static str, &'static str, fn(&TenantState) -> [u64; 2]);
    const FIGURES: [Ways; 2] = [
        (
            "quiver_tenant_packets_total",
            "Packets of a tenant's sessions, from initiators and to them, those that were dropped included.",
            |tenant| [tenant.forward_packets, tenant.reverse_packets],
        ),
        ("quiver_tenant_bytes_total", "Their bytes, from the IP header on.", |tenant| {
            [tenant.forward_bytes, tenant.reverse_bytes]
        }),
    ];
    for (name, help, ways) in FIGURES {
        let mut metric = out.metric(name, Kind::Counter, help);
        for tenant in tenants {
            for (direction, figure) in ["forward", "reverse"].into_iter().zip(ways(tenant)) {
                metric.sample(&[("tenant", &tenant.name), ("direction", direction)], figure);
            }
        }
    }
}

fn tenants(inspect: &dyn Inspect, out: &mut Exposition) {
    type Figure = (&'static str, Kind, &'static str, fn(&TenantState) -> u64);
    const FIGURES: &[Figure] = &[
        ("quiver_tenant_sessions", Kind::Gauge, "Sessions of a tenant.", |tenant| tenant.sessions),
        ("quiver_tenant_sessions_max", Kind::Gauge, "Sessions that a tenant may have.", |tenant| {
            tenant.max_sessions
        }),
        ("quiver_tenant_sessions_created_total", Kind::Counter, "Sessions that began.", |tenant| {
            tenant.created
        }),
        (
            "quiver_tenant_sessions_evicted_total",
            Kind::Counter,
            "Sessions that had to make room before their time.",
            |tenant| tenant.evicted,
        ),
        (
            "quiver_tenant_sessions_refused_total",
            Kind::Counter,
            "Packets for whose session there was no room, or too many began: dropped, or passed without one as slow_path says.",
            |tenant| tenant.refused,
        ),
    ];
    let tenants = inspect.tenants();
    for (name, kind, help, figure) in FIGURES {
        let mut metric = out.metric(name, *kind, help);
        for tenant in &tenants {
            metric.sample(&[("tenant", &tenant.name)], figure(tenant));
        }
    }
    let help =
        "New sessions per second that a tenant may have, of all workers together, where there is a limit.";
    let mut metric = out.metric("quiver_tenant_new_sessions_per_second_max", Kind::Gauge, help);
    for tenant in tenants.iter().filter(|tenant| tenant.max_new_sessions_per_second > 0) {
        metric.sample(&[("tenant", &tenant.name)], u64::from(tenant.max_new_sessions_per_second));
    }
    let help = "Sessions that one source of a tenant's may have.";
    let mut metric = out.metric("quiver_tenant_sessions_per_source_max", Kind::Gauge, help);
    for tenant in tenants.iter().filter(|tenant| tenant.max_sessions_per_source > 0) {
        metric.sample(&[("tenant", &tenant.name)], tenant.max_sessions_per_source);
    }
    traffic(&tenants, out);
    let help = "Whether the engine that looks into a tenant's sessions is there.";
    let mut metric = out.metric("quiver_tenant_engine_there", Kind::Gauge, help);
    for tenant in &tenants {
        if let Some(there) = tenant.engine_there {
            metric.sample(&[("tenant", &tenant.name)], u64::from(there));
        }
    }
    let mut metric =
        out.metric("quiver_tenant_sessions_ended_total", Kind::Counter, "Sessions that ended, by reason.");
    for tenant in &tenants {
        for ended in &tenant.ended {
            metric.sample(&[("tenant", &tenant.name), ("reason", &ended.end().word())], ended.sessions);
        }
    }
    let help = "Packets of a tenant that were dropped at sessions and by services, by node and reason.";
    let mut metric = out.metric("quiver_tenant_drops_total", Kind::Counter, help);
    for tenant in &tenants {
        for drop in &tenant.drops {
            let labels = [("tenant", &*tenant.name), ("node", &*drop.node), ("reason", &*drop.reason)];
            metric.sample(&labels, drop.packets);
        }
    }
    noted(&tenants, out);
    out.metric(
        "quiver_session_events_missed_total",
        Kind::Counter,
        "Session events that were lost because whoever looked on read too slowly.",
    )
    .sample(&[], inspect.missed_session_events());
    exporters(inspect, out);
}

fn exporters(inspect: &dyn Inspect, out: &mut Exposition) {
    type Figure = (&'static str, &'static str, fn(&ExporterFigures) -> u64);
    const FIGURES: [Figure; 4] = [
        ("quiver_ipfix_messages_total", "Messages sent to a collector.", |one| one.messages),
        ("quiver_ipfix_records_total", "Data records in them.", |one| one.records),
        ("quiver_ipfix_unsent_records_total", "Data records that could not be sent.", |one| one.unsent),
        (
            "quiver_ipfix_refused_total",
            "Times that a collector's host has said that nobody listens.",
            |one| one.refused,
        ),
    ];
    let exporters = inspect.exporters();
    for (name, help, figure) in FIGURES {
        let mut metric = out.metric(name, Kind::Counter, help);
        for one in &exporters {
            let labels = [("collector", one.collector.as_str()), ("domain", &one.domain.to_string())];
            metric.sample(&labels, figure(one));
        }
    }
}
