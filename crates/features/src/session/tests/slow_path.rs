//! What isn't simply one of a session's packets, case by case, as the tenant says; packets made by scapy.

use super::*;

fn with(case: Case, action: SlowAction) -> Tenant {
    Tenant { slow_path: SlowPath::default().with(case, action), ..tenant() }
}

/// Per tenant, as `show tenant` has it: by name of the reason.
fn of_tenant(bench: &Bench) -> Vec<(&'static str, u64)> {
    let tenants = bench.publisher.current().get(bench.key::<Tenants>());
    let dropped = tenants.get(1).unwrap().occupancy.dropped();
    dropped.into_iter().map(|(reason, n)| (bench.plan.drops[usize::from(reason)].1.name, n)).collect()
}

/// A case that `untracked` has covered is changed alone: the others stay as they are.
#[test]
fn each_kind_without_a_session_is_told_apart() {
    let kinds = [
        ("gre", Case::UnknownProtocol, "protocol", "passed-protocols"),
        ("short tcp", Case::TooShort, "too-short", "passed-short"),
        ("unrelated error", Case::UnrelatedErrors, "unrelated-error", "passed-errors"),
    ];
    everywhere(|tier, text, node| {
        for (name, case, reason, counter) in kinds {
            let mut bench = bench(tier, &[with(case, SlowAction::Drop)]);
            for (other, its, _, its_counter) in kinds {
                if its == case {
                    dropped(&mut bench, text, other, &format!("{node} {reason}"));
                } else {
                    pass(&mut bench, text, other);
                    assert_eq!(count(&bench, node, its_counter), 1, "{other}");
                }
            }
            assert_eq!((of_tenant(&bench), count(&bench, node, counter)), (vec![(reason, 1)], 0));
            // The other way round: where all are dropped, this one passes.
            let slow_path = SlowPath::untracked(SlowAction::Drop).with(case, SlowAction::Pass);
            set_tenants(&mut bench, &[Tenant { slow_path, ..tenant() }]);
            pass(&mut bench, text, name);
            assert_eq!(count(&bench, node, counter), 1, "{name}");
        }
    });
}

/// SFDP's `sp-ip4-icmp4-error`: an error about a session is that session's tenant's, by whatever interface it comes.
#[test]
fn errors_about_sessions_are_dropped_where_their_tenant_says_so() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[with(Case::RelatedErrors, SlowAction::Drop)]);
        pass(&mut bench, text, "udp");
        dropped(&mut bench, text, "error of a router", &format!("{node} related-error"));
        dropped(&mut bench, text, "error about the answer", &format!("{node} related-error"));
        assert_eq!(of_tenant(&bench), [("related-error", 2)]);
        assert_eq!(one(&mut bench).session.packets(), [1, 0], "they aren't counted at it");
        assert_eq!(count(&bench, node, "related-errors"), 0);
        pass(&mut bench, text, "unrelated error");
        pass(&mut bench, text, "udp answer");
        set_tenants(&mut bench, &[tenant()]);
        pass(&mut bench, text, "error of a router");
        assert_eq!(count(&bench, node, "related-errors"), 1);
    });
}

/// SFDP's `sp-ip4-reassembly`.
#[test]
fn fragments_are_dropped_where_the_tenant_says_so() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[with(Case::Fragments, SlowAction::Drop)]);
        for name in ["first fragment", "later fragment"] {
            dropped(&mut bench, text, name, &format!("{node} fragment"));
        }
        assert!(seen(&mut bench).is_empty(), "none begins a session");
        assert_eq!(of_tenant(&bench), [("fragment", 2)]);
        pass(&mut bench, text, "udp");
    });
}

/// From outside, whose a fragment is, is known by its session alone.
#[test]
fn fragments_from_outside_are_their_sessions_tenants() {
    everywhere(|tier, text, node| {
        let names = ["first fragment", "later fragment"];
        let outside = |bench: &mut Bench| {
            let key = bench.key::<Tenants>();
            // What comes from A begins nothing any more: sessions that are there are found.
            bench.publish(|draft| {
                draft.change(key, |all| all.set_place(2, Place { tenant: 0, context: 0 }));
            });
        };
        let mut bench = bench(tier, &[with(Case::Fragments, SlowAction::Drop)]);
        pass(&mut bench, text, "udp");
        outside(&mut bench);
        for name in names {
            dropped(&mut bench, text, name, &format!("{node} fragment"));
        }
        assert_eq!(one(&mut bench).session.packets(), [1, 0], "they aren't counted at it");
        // One that lets fragments of its own pass has those of its sessions handled there.
        set_tenants(&mut bench, &[with(Case::Fragments, SlowAction::Pass)]);
        outside(&mut bench);
        for name in names {
            pass(&mut bench, text, name);
        }
        assert_eq!(one(&mut bench).session.packets(), [3, 0]);
        assert_eq!(count(&bench, node, "passed-fragments"), 0);
    });
}

/// In any order and without waiting for the first: nobody asks what they belong to.
#[test]
fn fragments_pass_without_a_session_where_the_tenant_says_so() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[with(Case::Fragments, SlowAction::Pass)]);
        for name in ["later fragment", "first fragment"] {
            pass(&mut bench, text, name);
        }
        assert!(seen(&mut bench).is_empty());
        assert_eq!(count(&bench, node, "passed-fragments"), 2);
        let reassembly = node.replace("session-input", "sv-reassembly");
        assert_eq!(count(&bench, &reassembly, "fragments"), 0);
        // A fragment of what has no sessions is that, and not a fragment.
        pass(&mut bench, text, "gre");
        assert_eq!(count(&bench, node, "passed-protocols"), 1);
    });
}

/// SFDP's `sp-ip4-table-overflow`: whichever of the three there is no room in.
#[test]
fn what_finds_no_room_passes_without_a_session_where_the_tenant_says_so() {
    everywhere(|tier, text, node| {
        let pass_by = || with(Case::Overflow, SlowAction::Pass);
        let cases = [
            (Tenant { max_sessions: 1, ..pass_by() }, "quota", 1 << 20),
            (Tenant { max_new_per_second: 10, ..pass_by() }, "new-session-rate", 1 << 20),
            (pass_by(), "table-full", 1),
        ];
        for (tenant, reason, per_worker) in cases {
            let mut bench = bench(tier, std::slice::from_ref(&tenant));
            let key = bench.key::<Tenants>();
            bench.publish(|draft| draft.change(key, |all| all.per_worker = per_worker));
            pass(&mut bench, text, "udp");
            pass(&mut bench, text, "udp answer");
            pass(&mut bench, text, "another udp");
            assert_eq!(count(&bench, node, "passed-overflow"), 1, "{reason}");
            assert_eq!((seen(&mut bench).len(), of_tenant(&bench)), (1, vec![]), "{reason}");
            let tenants = bench.publisher.current().get(key);
            assert_eq!(tenants.get(1).unwrap().occupancy.refused.load(Ordering::Relaxed), 1, "{reason}");
            pass(&mut bench, text, "udp");
            assert_eq!(one(&mut bench).session.packets(), [2, 1], "{reason}: who is there goes on");
            // By default, it is dropped.
            let slow_path = SlowPath::default();
            set_tenants(&mut bench, &[Tenant { slow_path, ..tenant }]);
            bench.publish(|draft| draft.change(key, |all| all.per_worker = per_worker));
            dropped(&mut bench, text, "another udp", &format!("{node} {reason}"));
        }
    });
}
