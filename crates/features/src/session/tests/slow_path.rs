//! What isn't simply one of a session's packets, case by case, as the tenant says; packets made by scapy.

use super::*;
use wire::{Header, IpProtocol, Ipv4Header, U16};

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
                draft.change(key, |all| all.set_place(2, Place { tenant: 0, ..Place::default() }));
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

/// The packet, of an interface without link-layer headers, as the first fragment of a datagram or as what follows 24 bytes.
pub(super) fn fragment(text: &str, frame: &[u8], first: bool) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if text == V4 {
        let (header, _) = Ipv4Header::parse_mut(&mut frame).unwrap();
        header.flags_fragment = U16::new(if first { 0x2000 } else { 3 });
        header.checksum = U16::new(header.compute_checksum(&[]));
        return frame;
    }
    let upper = core::mem::replace(&mut frame[6], IpProtocol::FRAGMENT.0);
    let len = u16::from_be_bytes([frame[4], frame[5]]) + 8;
    frame[4..6].copy_from_slice(&len.to_be_bytes());
    frame.splice(40..40, [upper, 0, 0, if first { 1 } else { 3 << 3 }, 0, 0, 0, 7]);
    frame
}

#[test]
fn errors_in_fragments_are_fragments_too() {
    everywhere(|tier, text, node| {
        let error = packet(text, "error of a router");
        let frame = fragment(text, &error.frame, true);
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "udp");
        let outcome = bench.run(error.rx_if, std::slice::from_ref(&frame), 1);
        assert_eq!((outcome.sent.get(&2).map(Vec::len), count(&bench, node, "related-errors")), (Some(1), 1));
        set_tenants(&mut bench, &[with(Case::Fragments, SlowAction::Drop)]);
        let outcome = bench.run(error.rx_if, &[frame], 1);
        assert_eq!(outcome.drops, [(format!("{node} fragment"), 1)].into());
        pass(&mut bench, text, "error of a router");
    });
}

/// What one tenant says of its own doesn't hold for another's answers that come by the same interface.
#[test]
fn fragments_of_an_interface_that_is_anothers_outside_are_handled_first() {
    everywhere(|tier, text, node| {
        let answer = packet(text, "udp answer");
        let both = [true, false].map(|first| fragment(text, &answer.frame, first));
        for action in [SlowAction::Pass, SlowAction::Drop] {
            let other = Tenant { name: "blue".into(), outside: Vec::new(), ..with(Case::Fragments, action) };
            let mut bench = bench(tier, &[tenant(), other]);
            let key = bench.key::<Tenants>();
            bench.publish(|draft| {
                // The first one's outside is the other's inside.
                draft.change(key, |all| all.set_place(3, Place { tenant: 2, ..Place::default() }));
            });
            pass(&mut bench, text, "udp");
            for frame in &both {
                let outcome = bench.run(3, std::slice::from_ref(frame), 1);
                assert_eq!(outcome.sent.get(&2).map(Vec::len), Some(1), "{action:?}: {outcome:?}");
            }
            assert_eq!(one(&mut bench).session.packets(), [1, 2], "{action:?}");
            assert_eq!(count(&bench, node, "passed-fragments"), 0);
            // Those of nobody's session are as the interface's tenant says.
            wait(&mut bench, 200);
            assert!(seen(&mut bench).is_empty());
            for frame in &both {
                let outcome = bench.run(3, std::slice::from_ref(frame), 1);
                let sent = outcome.sent.get(&2).map_or(0, Vec::len);
                let dropped = outcome.drops.get(&format!("{node} fragment")).copied().unwrap_or(0);
                assert_eq!((sent, dropped), if action == SlowAction::Pass { (1, 0) } else { (0, 1) });
            }
            assert!(seen(&mut bench).is_empty());
            let passed = if action == SlowAction::Pass { 2 } else { 0 };
            assert_eq!(count(&bench, node, "passed-fragments"), passed);
        }
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
        // What has no sessions is that; of IPv4, all of its fragments say so. Of IPv6, later ones don't (RFC 8200 section 4.5).
        pass(&mut bench, text, "gre");
        let mut frame = packet(text, "later fragment").frame;
        if text == V4 {
            let (header, _) = Ipv4Header::parse_mut(&mut frame[14..]).unwrap();
            header.protocol = IpProtocol::GRE;
            header.checksum = U16::new(header.compute_checksum(&[]));
        } else {
            frame[14 + 40] = IpProtocol::GRE.0;
        }
        assert_eq!(bench.run(2, &[frame], 1).sent.get(&3).map(Vec::len), Some(1));
        let counts = ["passed-protocols", "passed-fragments"].map(|counter| count(&bench, node, counter));
        assert_eq!(counts, if text == V4 { [2, 2] } else { [1, 3] });
    });
}

/// SFDP's `sp-ip4-table-overflow`: wherever there is no room.
#[test]
fn what_finds_no_room_passes_without_a_session_where_the_tenant_says_so() {
    everywhere(|tier, text, node| {
        let pass_by = || with(Case::Overflow, SlowAction::Pass);
        let source_limit = SourceLimit { sessions: 1, ipv6_prefix_length: 64 };
        let cases = [
            (Tenant { max_sessions: 1, ..pass_by() }, "quota", 1 << 20),
            (Tenant { max_new_per_second: 10, ..pass_by() }, "new-session-rate", 1 << 20),
            (pass_by(), "table-full", 1),
            (Tenant { source_limit: Some(source_limit), ..pass_by() }, "source-quota", 1 << 20),
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
