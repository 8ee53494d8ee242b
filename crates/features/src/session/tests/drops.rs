//! What is dropped of a tenant is counted for it, by reason.

use super::acl::{network, rule};
use super::*;
use crate::session::acl::Action;

/// What was dropped of a tenant, as "node reason".
fn of_tenant(bench: &Bench, tenant: &Tenant) -> Vec<(String, u64)> {
    let named = |reason: u16| {
        let (node, spec) = bench.plan.drops[usize::from(reason)];
        format!("{} {}", bench.plan.nodes[usize::from(node)].spec.name, spec.name)
    };
    tenant.occupancy.dropped().into_iter().map(|(reason, packets)| (named(reason), packets)).collect()
}

#[test]
fn what_has_no_room_or_no_session_is_its_tenant_s() {
    everywhere(|tier, text, node| {
        let red = Tenant { max_sessions: 0, slow_path: SlowPath::untracked(SlowAction::Drop), ..tenant() };
        let mut bench = bench(tier, std::slice::from_ref(&red));
        assert_eq!(of_tenant(&bench, &red), []);
        dropped(&mut bench, text, "udp", &format!("{node} quota"));
        dropped(&mut bench, text, "udp", &format!("{node} quota"));
        dropped(&mut bench, text, "gre", &format!("{node} protocol"));
        let mut drops = of_tenant(&bench, &red);
        drops.sort();
        assert_eq!(drops, [(format!("{node} protocol"), 1), (format!("{node} quota"), 2)]);
        // Another tenant of the same number has its own figures, and this one keeps its.
        let blue = Tenant { occupancy: Arc::default(), ..red.clone() };
        set_tenants(&mut bench, std::slice::from_ref(&blue));
        dropped(&mut bench, text, "udp", &format!("{node} quota"));
        assert_eq!(of_tenant(&bench, &blue), [(format!("{node} quota"), 1)]);
        assert_eq!(of_tenant(&bench, &red).iter().map(|(_, packets)| packets).sum::<u64>(), 3);
    });
}

/// The first packet is dropped by the service, those after it where their session is found, and errors about them.
#[test]
fn what_a_service_drops_is_counted_with_all_that_comes_after_it() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = network(tier, vec![rule(Action::Deny)]);
        let key = bench.key::<Tenants>();
        let mut red = None;
        bench.publish(|draft| draft.change(key, |all| red = all.get(1).cloned()));
        let red = red.unwrap();
        for packets in 1..=3 {
            dropped(&mut bench, text, "udp", "acl denied");
            assert_eq!(of_tenant(&bench, &red), [("acl denied".into(), packets)]);
        }
        let row = packet(text, "udp");
        let outcome = bench.run(row.rx_if, &vec![row.frame; 20], 10);
        assert_eq!(outcome.drops, [("acl denied".to_string(), 20)].into());
        assert_eq!(of_tenant(&bench, &red), [("acl denied".into(), 23)]);
    });
}
