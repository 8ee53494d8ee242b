//! What is a link's own business, and what only says so.

use super::*;
use crate::neighbour::tests::set_up;
use crate::testing::run_table;

const STRICT: SlowPath = SlowPath::untracked(SlowAction::Drop);

/// From another link by its hop limit, or to another one by its destination: any payload could get past all rules so.
#[test]
fn what_would_be_forwarded_is_not_a_link_s_business() {
    const HOP_LIMIT: usize = 14 + 7;
    for tier in Tier::available() {
        let mut strict = bench(tier, &[Tenant { slow_path: STRICT, ..tenant() }]);
        let mut bench = bench(tier, &[tenant()]);
        for name in ["advertisement to another link", "listener report to another link"] {
            for hops in [64, 255] {
                let mut frame = packet(V6, name).frame;
                frame[HOP_LIMIT] = hops;
                let before = count(&bench, "ip6-session-input", "passed-protocols");
                let outcome = bench.run(2, std::slice::from_ref(&frame), 1);
                let passed = count(&bench, "ip6-session-input", "passed-protocols") - before;
                assert_eq!((outcome.sent.get(&3).map(Vec::len), passed), (Some(1), 1), "{name} {hops}");
                let outcome = strict.run(2, &[frame], 1);
                let reason = "ip6-session-input protocol".to_string();
                assert_eq!(outcome.drops, [(reason, 1)].into(), "{name} {hops}");
            }
        }
    }
}

/// A tenant that drops whatever has no session must not cut its hosts off from their neighbours: the same becomes of all that these say as where no tenant is.
#[test]
fn neighbour_discovery_is_never_a_tenant_s() {
    let mut rows = rows(include_str!("../../../tests/vectors/nd.txt"));
    let forwarded = rows.iter_mut().find(|row| row.name == "what isn't from this link is forwarded").unwrap();
    forwarded.verdict = Verdict::Dropped("ip6-session-input protocol");
    run_table(&rows, |bench| {
        set_up(bench);
        bench.chain("ip6-unicast", 1, &["ip6-session-input", "ip6-nd-proxy"], "ip6-lookup");
        bench.chain("ip6-unicast", 2, &["ip6-session-input"], "ip6-lookup");
        set_tenants(bench, &[Tenant { slow_path: STRICT, ..tenant() }]);
        let key = bench.key::<Tenants>();
        let place = Place { tenant: 1, ..Place::default() };
        bench.publish(|draft| draft.change(key, |all| all.set_place(1, place)));
    });
}
