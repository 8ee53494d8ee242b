//! `show tenant`.

use api::text::Words;
use api::v1::{SlowPathAction, TenantClass, TenantState, TenantsRequest, TenantsResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{event_rate, growth};
use crate::render::{Column, Paint, Table};

/// All tenants, or one.
#[derive(Debug)]
pub(super) struct Tenants {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
}

impl View for Tenants {
    type Answer = TenantsResponse;

    async fn fetch(&self, client: &mut Client) -> Result<TenantsResponse, Error> {
        let request = TenantsRequest { name: self.name.clone().unwrap_or_default() };
        client.tenants(request).await.doing("show tenant")
    }

    fn table(
        &self,
        answer: &TenantsResponse,
        before: Option<Before<'_, TenantsResponse>>,
        paint: Paint,
    ) -> String {
        if answer.tenants.is_empty() {
            return "no tenants\n".into();
        }
        let mut table = Table::new([
            Column::left("NAME"),
            Column::right("CONTEXT"),
            Column::right("SESSIONS"),
            Column::right("LIMIT"),
            Column::right("PER SOURCE").optional(),
            Column::right("CREATED"),
            Column::right("RATE").optional(),
            Column::right("EVICTED"),
            Column::right("REFUSED"),
            Column::right("PACKETS"),
            Column::right("BYTES"),
            Column::right("ANSWERS"),
            Column::right("BYTES"),
            Column::left("INTERFACES"),
            Column::left("OUTSIDE").optional(),
            Column::left("CLASSES").optional(),
            Column::left("PARSER").optional(),
            Column::left("SCOPE").optional(),
            Column::left("SERVICES"),
            Column::left("ENGINE").optional(),
            Column::left("SLOW PATH").optional(),
        ]);
        for tenant in &answer.tenants {
            let earlier = before.and_then(|before| {
                let then = before.answer.tenants.iter().find(|other| other.name == tenant.name)?;
                Some(growth(tenant.created, then.created, before.elapsed))
            });
            let services = if tenant.forward_services == tenant.reverse_services {
                tenant.forward_services.join(" ")
            } else {
                format!("{} / {}", tenant.forward_services.join(" "), tenant.reverse_services.join(" "))
            };
            table.row([
                (&tenant.name).into(),
                tenant.context.into(),
                tenant.sessions.into(),
                tenant.max_sessions.into(),
                per_source(tenant).into(),
                tenant.created.into(),
                earlier.map(event_rate).unwrap_or_default().into(),
                tenant.evicted.into(),
                tenant.refused.into(),
                tenant.forward_packets.into(),
                tenant.forward_bytes.into(),
                tenant.reverse_packets.into(),
                tenant.reverse_bytes.into(),
                tenant.interfaces.join(" ").into(),
                tenant.outside_interfaces.join(" ").into(),
                classes(tenant).into(),
                (&tenant.parser).into(),
                scope(tenant).into(),
                if services.is_empty() { "none".into() } else { services.into() },
                tenant.engine_there.map_or("", |there| if there { "there" } else { "away" }).into(),
                slow_path(tenant).into(),
            ]);
        }
        table.render(paint) + &drops(answer, paint)
    }
}

/// The scope of its services, where that isn't the one that tenants have by default.
fn scope(tenant: &TenantState) -> &str {
    if tenant.scope == "default" { "" } else { &tenant.scope }
}

/// What one source may have of its sessions, if that is said, and where they don't count: "2000, any at host".
fn per_source(tenant: &TenantState) -> String {
    match (tenant.max_sessions_per_source, &*tenant.source_exempt_interfaces) {
        (0, _) => String::new(),
        (most, []) => most.to_string(),
        (most, exempt) => format!("{most}, any at {}", exempt.join(" ")),
    }
}

/// Lists, and whose those are that they let pass: "voice:blue".
fn classes(tenant: &TenantState) -> String {
    let class = |class: &TenantClass| format!("{}:{}", class.acl, class.tenant);
    tenant.classes.iter().map(class).collect::<Vec<_>>().join(" ")
}

/// What is done with packets that aren't simply one of a session's, where that isn't what is done by default: "fragments:drop overflow:pass".
fn slow_path(tenant: &TenantState) -> String {
    let Some(path) = &tenant.slow_path else { return String::new() };
    let untracked = [path.unknown_protocol(), path.too_short(), path.unrelated_errors()];
    let mut cases = vec![
        ("unknown_protocol", untracked[0], SlowPathAction::Pass),
        ("too_short", untracked[1], SlowPathAction::Pass),
        ("unrelated_errors", untracked[2], SlowPathAction::Pass),
        ("related_errors", path.related_errors(), SlowPathAction::Handle),
        ("fragments", path.fragments(), SlowPathAction::Handle),
        ("overflow", path.overflow(), SlowPathAction::Drop),
    ];
    if untracked == [untracked[0]; 3] {
        cases.splice(..3, [("untracked", untracked[0], SlowPathAction::Pass)]);
    }
    let others = cases.into_iter().filter(|(_, action, default)| action != default);
    others.map(|(case, action, _)| format!("{case}:{}", action.word())).collect::<Vec<_>>().join(" ")
}

/// What is dropped of them, if anything is.
fn drops(answer: &TenantsResponse, paint: Paint) -> String {
    if answer.tenants.iter().all(|tenant| tenant.drops.is_empty()) {
        return String::new();
    }

    let mut table = Table::new([
        Column::left("TENANT"),
        Column::left("NODE"),
        Column::left("REASON"),
        Column::right("DROPPED"),
    ]);
    for tenant in &answer.tenants {
        for drop in &tenant.drops {
            table.row([
                (&tenant.name).into(),
                (&drop.node).into(),
                (&drop.reason).into(),
                drop.packets.into(),
            ]);
        }
    }
    format!("\n{}", table.render(paint))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::v1::TenantDrops;

    use super::*;

    #[test]
    fn figures_and_rates() {
        let tenant = TenantState {
            name: "red".into(),
            interfaces: vec!["pod-a".into()],
            outside_interfaces: vec!["uplink".into()],
            forward_services: vec!["l4-lifecycle".into()],
            reverse_services: vec!["l4-lifecycle".into()],
            sessions: 3,
            max_sessions: 1_000_000,
            created: 30,
            evicted: 1,
            forward_packets: 90,
            forward_bytes: 81_000,
            reverse_packets: 60,
            reverse_bytes: 5400,
            ..TenantState::default()
        };
        let before = TenantsResponse { tenants: vec![TenantState { created: 10, ..tenant.clone() }] };
        let bare = TenantState { name: "blue".into(), ..TenantState::default() };
        let answer = TenantsResponse { tenants: vec![bare, tenant] };
        let view = Tenants { name: None };
        assert_eq!(
            view.table(&answer, None, Paint::new(false)),
            "NAME  CONTEXT  SESSIONS    LIMIT  CREATED  EVICTED  REFUSED  PACKETS  BYTES  ANSWERS  BYTES  INTERFACES  OUTSIDE  SERVICES\n\
             blue        0         0        0        0        0        0        0      0        0      0                       none\n\
             red         0         3  1000000       30        1        0       90  81000       60   5400  pod-a       uplink   l4-lifecycle\n"
        );
        let drop = TenantDrops { node: "acl".into(), reason: "denied".into(), packets: 12 };
        let dropping = TenantState { drops: vec![drop], ..answer.tenants[1].clone() };
        let text = view.table(&TenantsResponse { tenants: vec![dropping] }, None, Paint::new(false));
        let drops = "\n\nTENANT  NODE  REASON  DROPPED\nred     acl   denied       12\n";
        assert!(text.ends_with(drops), "{text}");
        let watched = TenantState { engine_there: Some(false), ..answer.tenants[1].clone() };
        let watched = view.table(&TenantsResponse { tenants: vec![watched] }, None, Paint::new(false));
        assert!(watched.lines().all(|line| line.ends_with("ENGINE") || line.ends_with("away")), "{watched}");
        let class = |acl: &str, tenant: &str| TenantClass { acl: acl.into(), tenant: tenant.into() };
        let classes = vec![class("voice", "blue"), class("web", "green")];
        let classified = TenantState { classes, ..answer.tenants[1].clone() };
        let text = view.table(&TenantsResponse { tenants: vec![classified] }, None, Paint::new(false));
        assert!(text.contains("  voice:blue web:green  l4-lifecycle\n"), "{text}");
        let apart =
            TenantState { scope: "mobile".into(), parser: "gtpu".into(), ..answer.tenants[1].clone() };
        let usual = TenantState { scope: "default".into(), ..answer.tenants[1].clone() };
        let text = view.table(&TenantsResponse { tenants: vec![usual, apart] }, None, Paint::new(false));
        assert!(text.contains("OUTSIDE  PARSER  SCOPE   SERVICES\n"), "{text}");
        assert!(text.ends_with("uplink   gtpu    mobile  l4-lifecycle\n"), "{text}");
        let limited = TenantState { max_sessions_per_source: 50, ..answer.tenants[1].clone() };
        let text = view.table(&TenantsResponse { tenants: vec![limited] }, None, Paint::new(false));
        assert!(text.contains("  LIMIT  PER SOURCE  CREATED"), "{text}");
        assert!(text.contains("  1000000          50       30  "), "{text}");
        let path = api::v1::SlowPath {
            unknown_protocol: SlowPathAction::Pass.into(),
            too_short: SlowPathAction::Pass.into(),
            unrelated_errors: SlowPathAction::Pass.into(),
            related_errors: SlowPathAction::Handle.into(),
            fragments: SlowPathAction::Handle.into(),
            overflow: SlowPathAction::Drop.into(),
        };
        let shown = |path| slow_path(&TenantState { slow_path: Some(path), ..TenantState::default() });
        assert_eq!(shown(path), "", "the default isn't shown");
        let drop = i32::from(SlowPathAction::Drop);
        let strict =
            api::v1::SlowPath { unknown_protocol: drop, too_short: drop, unrelated_errors: drop, ..path };
        assert_eq!(shown(strict), "untracked:drop");
        let path = api::v1::SlowPath { too_short: drop, overflow: SlowPathAction::Pass.into(), ..path };
        assert_eq!(shown(path), "too_short:drop overflow:pass");
        let own = TenantState { slow_path: Some(path), ..answer.tenants[1].clone() };
        let text = view.table(&TenantsResponse { tenants: vec![own] }, None, Paint::new(false));
        assert!(text.ends_with("  l4-lifecycle  too_short:drop overflow:pass\n"), "{text}");
        let before = Before { answer: &before, elapsed: Duration::from_secs(2) };
        assert!(view.table(&answer, Some(before), Paint::new(false)).contains(&event_rate(10.0)));
    }
}
