//! Quotas, tenants that come and go, what has no session.

use super::super::owed::MANY;
use super::shared_room::worker;
use super::*;

#[test]
fn a_quota_is_kept_and_counted_and_others_go_on() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 1, ..tenant() }]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        dropped(&mut bench, text, "another udp", &format!("{node} quota"));
        pass(&mut bench, text, "udp");
        assert_eq!(one(&mut bench).session.packets(), [2, 1], "who is there goes on");
        let tenants = bench.publisher.current().get(bench.key::<Tenants>());
        assert_eq!(tenants.get(1).unwrap().occupancy.refused.load(Ordering::Relaxed), 1);
    });
}

/// SFDP's weakness 7: embryonic sessions fill the table, and nobody else is admitted.
#[test]
fn embryonic_sessions_make_room_and_established_ones_last() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 2, ..tenant() }]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        for name in ["another udp", "a third udp", "another udp", "echo"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(count(&bench, node, "evicted-for-quota"), 3);
        let all = seen(&mut bench);
        assert_eq!(all.len(), 2);
        assert!(all.iter().any(|seen| seen.session.state == State::Established));
        assert!(all.iter().any(|seen| seen.key.protocol() != 17), "the newest is there");
    });
}

/// SYNs of as many clients, none of which ever answers.
pub(super) fn flood(text: &'static str, clients: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    let frame = packet(text, "tcp syn").frame;
    let port = if text == V4 { 14 + 20 } else { 14 + 40 };
    let of = |client: u16| {
        let mut frame = frame.clone();
        frame[port..port + 2].copy_from_slice(&client.to_be_bytes());
        frame
    };
    clients.map(of).collect()
}

/// SFDP's weakness 7, once more: a SYN flood at full rate costs established sessions nothing, and others are admitted.
#[test]
fn a_syn_flood_harms_nobody_else() {
    everywhere(|tier, text, node| {
        for services in [&["l4-lifecycle"][..], &["tcp-check", "l4-lifecycle"]] {
            let chain = [order().chain(services.iter().copied()).unwrap(); 2];
            let mut bench = bench(tier, &[Tenant { max_sessions: 600, chain, ..tenant() }]);
            ["udp", "udp answer"].into_iter().for_each(|name| pass(&mut bench, text, name));
            for turn in 0..20 {
                // A vector of the flood before each packet of those that mean it.
                let mut vector = |from: u16| bench.run(2, &flood(text, from..from + 256), 256);
                let outcome = vector(1000 + turn * 256);
                assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(256), "{:?}", outcome.drops);
                pass(&mut bench, text, "udp");
                pass(&mut bench, text, "udp answer");
            }
            pass(&mut bench, text, "echo");
            bench.run(2, &flood(text, 10_000..10_256), 256);
            pass(&mut bench, text, "echo answer");
            let all = seen(&mut bench);
            assert_eq!(all.len(), 600);
            let open = all.iter().filter(|seen| seen.session.state == State::Established);
            assert_eq!(
                open.map(|seen| seen.session.packets()).max(),
                Some([21, 21]),
                "none of its packets is lost"
            );
            assert_eq!(count(&bench, node, "evicted-for-quota"), 20 * 256 + 256 + 2 - 600);
        }
    });
}

/// Established sessions come last: those that are silent go, those that aren't stay.
#[test]
fn idle_sessions_make_room_where_no_others_do() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 2, ..tenant() }]);
        ["udp", "udp answer", "tcp syn", "tcp syn-ack answer", "tcp ack"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        wait(&mut bench, 55);
        pass(&mut bench, text, "udp");
        dropped(&mut bench, text, "another udp", &format!("{node} quota"));
        wait(&mut bench, 4);
        dropped(&mut bench, text, "another udp", &format!("{node} quota"));
        wait(&mut bench, 2);
        // The connection has been silent for a minute.
        pass(&mut bench, text, "another udp");
        let all = seen(&mut bench);
        assert_eq!((all.len(), count(&bench, node, "evicted-for-quota")), (2, 1));
        assert!(all.iter().all(|seen| seen.key.protocol() == 17));
        pass(&mut bench, text, "udp answer");
    });
}

#[test]
fn new_sessions_keep_to_their_rate_and_others_go_on() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[Tenant { max_new_per_second: 100, ..tenant() }]);
        pass(&mut bench, text, "udp");
        let outcome = bench.run(2, &flood(text, 1000..1100), 100);
        assert_eq!(
            outcome.drops,
            [(format!("{node} new-session-rate"), 91)].into(),
            "ten at once, one of them before"
        );
        pass(&mut bench, text, "udp answer");
        pass(&mut bench, text, "udp");
        bench.now += SECOND / 10;
        pass(&mut bench, text, "echo");
        let tenants = bench.publisher.current().get(bench.key::<Tenants>());
        assert_eq!(tenants.get(1).unwrap().occupancy.refused.load(Ordering::Relaxed), 91);
    });
}

#[test]
fn a_full_table_evicts_who_has_most_to_give() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[tenant()]);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 2));
        ["udp", "another udp", "a third udp"].into_iter().for_each(|name| pass(&mut bench, text, name));
        assert_eq!((seen(&mut bench).len(), count(&bench, node, "evicted-for-table")), (2, 1));
        let kept: Vec<u16> = seen(&mut bench).iter().map(|seen| seen.endpoints().0.1).collect();
        assert_eq!(kept, [40001, 40002], "the oldest has made room");
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 0));
        dropped(&mut bench, text, "echo", &format!("{node} table-full"));
    });
}

/// Who had most may have none left: others have.
#[test]
fn a_full_table_looks_for_who_has_something_to_give() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant(), tenant()]);
        let key = bench.key::<Tenants>();
        pass(&mut bench, text, "udp");
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.per_worker = 1;
                all.set_place(2, Place { tenant: 2, ..Place::default() });
            });
        });
        sessions(&mut bench).crowd = 2;
        pass(&mut bench, text, "another udp");
        assert_eq!(one(&mut bench).session.tenant, 2);
    });
}

/// Interface 2 is that tenant's from now on; sessions that there are stay whose they are.
fn begin_as(bench: &mut Bench, tenant: u16) {
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.set_place(2, Place { tenant, ..Place::default() })));
}

/// How many sessions each of two tenants has.
fn of_each(bench: &mut Bench) -> [usize; 2] {
    let all = seen(bench);
    [1, 2].map(|tenant| all.iter().filter(|seen| seen.session.tenant == tenant).count())
}

/// The second of two tenants has a session that was answered and then silent for long; what comes now is the first one's.
fn beside_a_silent_one(tier: Tier, text: &'static str) -> Bench {
    let mut bench = bench(tier, &[tenant(), tenant()]);
    begin_as(&mut bench, 2);
    ["udp", "udp answer"].into_iter().for_each(|name| pass(&mut bench, text, name));
    wait(&mut bench, 70);
    begin_as(&mut bench, 1);
    bench
}

/// A tenant that comes to a table which another one's flood has filled loses nothing: neither what hasn't been answered yet nor what has been silent for long.
#[test]
fn a_flood_that_fills_the_table_is_paid_by_whose_it_is() {
    everywhere(|tier, text, node| {
        let mut bench = beside_a_silent_one(tier, text);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 21));
        bench.run(2, &flood(text, 1000..1020), 20);
        begin_as(&mut bench, 2);
        for (name, theirs) in [("another udp", 2), ("a third udp", 3), ("tcp syn", 4), ("echo", 5)] {
            pass(&mut bench, text, name);
            assert_eq!(of_each(&mut bench), [21 - theirs, theirs], "{name}");
        }
        assert_eq!(count(&bench, node, "evicted-for-table"), 4);
    });
}

/// One handshake is no flood: who has filled the table with what was answered gives up what was silent for long, before it costs another tenant anything.
#[test]
fn a_table_that_one_has_filled_with_answered_sessions_is_paid_by_whose_it_is() {
    everywhere(|tier, text, _| {
        let mut bench = beside_a_silent_one(tier, text);
        let key = bench.key::<Tenants>();
        pass(&mut bench, text, "tcp syn");
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 2));
        begin_as(&mut bench, 2);
        pass(&mut bench, text, "another udp");
        assert_eq!(of_each(&mut bench), [1, 1], "the handshake goes on");
    });
}

/// Where nobody has anything that makes room at once, it is who comes that gives up what was silent for long, and others only where it has no such ones.
#[test]
fn a_table_that_is_full_of_answered_sessions_has_who_comes_make_room_first() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant(), tenant()]);
        let key = bench.key::<Tenants>();
        let talk: [&[&str]; 2] = [&["udp", "udp answer"], &["tcp syn", "tcp syn-ack answer", "tcp ack"]];
        for (tenant, names) in [1, 2].into_iter().zip(talk) {
            begin_as(&mut bench, tenant);
            names.iter().for_each(|name| pass(&mut bench, text, name));
        }
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 2));
        wait(&mut bench, 70);
        // The next one that would be asked, if it weren't for the newcomer's own, is the first tenant.
        sessions(&mut bench).crowd = 0;
        pass(&mut bench, text, "another udp");
        assert_eq!(of_each(&mut bench), [1, 1], "the newcomer's own has gone");
        assert!(seen(&mut bench).iter().any(|seen| seen.session.state == State::Established));
        sessions(&mut bench).clear(&Filter { tenant: Some(2), ..Filter::default() }, 0, u32::MAX, 0);
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 1));
        sessions(&mut bench).crowd = 0;
        pass(&mut bench, text, "a third udp");
        assert_eq!(of_each(&mut bench), [0, 1], "the other one's has");
    });
}

/// Quotas that exceed the table, and all of it in use by one tenant: the other one has its share all the same.
#[test]
fn a_tenant_has_a_share_of_a_table_that_another_one_has_filled() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[tenant(), tenant()]);
        let key = bench.key::<Tenants>();
        ["udp", "udp answer", "echo", "echo answer"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.per_worker = 2;
                all.apportion();
            });
        });
        dropped(&mut bench, text, "another udp", &format!("{node} table-full"));
        begin_as(&mut bench, 2);
        pass(&mut bench, text, "tcp syn");
        assert_eq!(of_each(&mut bench), [1, 1]);
        ["tcp syn-ack answer", "tcp ack"].into_iter().for_each(|name| pass(&mut bench, text, name));
        dropped(&mut bench, text, "another udp", &format!("{node} table-full"));
        assert_eq!(of_each(&mut bench), [1, 1], "no more than its share");
        assert_eq!(count(&bench, node, "evicted-for-table"), 1);
    });
}

/// Connections that were answered, of so many clients from that port on.
fn connected(bench: &mut Bench, text: &'static str, clients: std::ops::Range<u16>) {
    let (out, back) = (packet(text, "udp"), packet(text, "udp answer"));
    for client in clients {
        for (row, at) in [(&out, 0), (&back, 2)] {
            let mut frame = row.frame.clone();
            // One side has no Ethernet header.
            let link = if matches!(frame[0] >> 4, 4 | 6) { 0 } else { 14 };
            let at = at + link + if text == V4 { 20 } else { 40 };
            frame[at..at + 2].copy_from_slice(&client.to_be_bytes());
            let outcome = bench.run(row.rx_if, &[frame], 1);
            assert!(outcome.drops.is_empty(), "{client}: {:?}", outcome.drops);
        }
    }
}

/// Two tenants of the same quota, of which the first has filled a table of 40 with connections.
fn filled(tier: Tier, text: &'static str) -> Bench {
    let mut bench = bench(tier, &[tenant(), tenant()]);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.per_worker = 40;
            all.apportion();
        });
    });
    begin_as(&mut bench, 1);
    connected(&mut bench, text, 1000..1040);
    assert_eq!(of_each(&mut bench), [40, 0]);
    bench
}

#[test]
fn a_tenant_gets_its_share_of_a_table_that_another_has_filled() {
    everywhere(|tier, text, node| {
        let mut bench = filled(tier, text);
        begin_as(&mut bench, 2);
        // Several at the same time, before any of them is answered.
        let outcome = bench.run(2, &flood(text, 2000..2008), 8);
        assert!(outcome.drops.is_empty(), "{:?}", outcome.drops);
        assert_eq!(of_each(&mut bench), [32, 8]);
        connected(&mut bench, text, 3000..3020);
        assert_eq!(of_each(&mut bench), [20, 20], "what wasn't answered has made room for its own");
        // Both have their shares: neither gets any of the other's.
        for tenant in [1, 2] {
            begin_as(&mut bench, tenant);
            dropped(&mut bench, text, "echo", &format!("{node} table-full"));
            assert_eq!(of_each(&mut bench), [20, 20]);
        }
        assert_eq!(count(&bench, node, "evicted-for-table"), 28);
    });
}

#[test]
fn a_flood_gets_few_of_the_places_that_another_has_beyond_its_share() {
    everywhere(|tier, text, _| {
        let mut bench = filled(tier, text);
        begin_as(&mut bench, 2);
        for from in (2000..4000).step_by(10) {
            bench.run(2, &flood(text, from..from + 10), 10);
        }
        assert_eq!(of_each(&mut bench), [32, 8]);
    });
}

/// A tenant above its share cannot displace sessions of a tenant below its share.
#[test]
fn handshakes_of_a_tenant_below_its_share_are_not_pushed_out() {
    everywhere(|tier, text, node| {
        let mut bench = filled(tier, text);
        begin_as(&mut bench, 2);
        bench.run(2, &flood(text, 2000..2004), 4);
        begin_as(&mut bench, 1);
        dropped(&mut bench, text, "echo", &format!("{node} table-full"));
        assert_eq!(of_each(&mut bench), [36, 4]);
    });
}

#[test]
fn many_in_one_vector_keep_to_the_quota() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 10, ..tenant() }]);
        let frame = packet(text, "udp").frame;
        let port = if text == V4 { 14 + 20 } else { 14 + 40 };
        let frames: Vec<Vec<u8>> = (0..256_u16)
            .map(|n| {
                let mut frame = frame.clone();
                frame[port..port + 2].copy_from_slice(&(1000 + n % 200).to_be_bytes());
                frame
            })
            .collect();
        let outcome = bench.run(2, &frames, 256);
        // Each newcomer takes the place of the oldest, whose packet hasn't got to its service yet.
        assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(10));
        assert_eq!(outcome.drops, [("ip4-session-input session-gone".to_string(), 246)].into());
        assert_eq!(seen(&mut bench).len(), 10);
        assert_eq!(count(&bench, node, "created"), 10 + count(&bench, node, "evicted-for-quota"));
        let kept: u64 = seen(&mut bench).iter().map(|seen| seen.session.packets()[0]).sum();
        assert_eq!(kept, 10, "a packet is counted at its own session, whoever made room before");
    });
}

/// SFDP's weakness 8: one pool, with one lock. Threads that begin sessions at the same time share nothing but the tenant's figures, and these are exact: never more than the quota and what
/// others owe of it, none counted twice, none forgotten; and when all have had their rounds, nothing is owed.
#[test]
fn workers_that_begin_sessions_at_once_keep_to_one_quota() {
    const THREADS: u16 = 4;
    const QUOTA: u64 = 3000;
    let shared = Tenant { max_sessions: QUOTA, ..tenant() };
    let start = std::sync::Barrier::new(usize::from(THREADS));
    let owed = Arc::default();
    let there: u64 = std::thread::scope(|scope| {
        let thread = |number: u16| {
            let (shared, start, owed) = (shared.clone(), &start, &owed);
            scope.spawn(move || {
                let text = if number.is_multiple_of(2) { V4 } else { V6 };
                let mut bench = worker(Tier::available()[0], &shared, owed);
                start.wait();
                for turn in 0..20 {
                    let from = 1000 + number * 10_000 + turn * 256;
                    bench.run(2, &flood(text, from..from + 256), 256);
                    let all = shared.occupancy.sessions.load(Ordering::Relaxed);
                    // Who has few has begun them in the place of others.
                    assert!(all <= QUOTA + u64::from(THREADS) * u64::from(MANY), "{all} of {QUOTA}");
                }
                start.wait();
                (0..100).for_each(|_| bench.round());
                start.wait();
                seen(&mut bench).len() as u64
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let figure = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    let (sessions, created) = (figure(&shared.occupancy.sessions), figure(&shared.occupancy.created));
    assert_eq!((sessions, there), (QUOTA, QUOTA), "who is there is counted once");
    let refused = figure(&shared.occupancy.refused);
    assert_eq!(created + refused, u64::from(THREADS) * 20 * 256, "each asked for one, and had it or not");
    assert_eq!(created - figure(&shared.occupancy.evicted), QUOTA);
}

/// Those at the end of the table have their turn, too, although something changes in every round.
#[test]
fn a_steady_stream_of_changes_keeps_nobody_from_its_turn() {
    for tier in Tier::available() {
        let mut bench = bench(tier, &[Tenant { max_sessions: 1 << 20, ..tenant() }]);
        for from in (1000..9000).step_by(250) {
            bench.run(2, &flood(V4, from..from + 250), 250);
        }
        let number = seen(&mut bench).len();
        assert_eq!(number, 8000);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| draft.change(key, |all| all.set(1, None)));
        for _ in 0..16 {
            bench.publish(|draft| draft.change(key, |all| all.generation += 1));
            bench.round();
        }
        assert_eq!((seen(&mut bench).len(), count(&bench, "session-expire", "orphaned")), (0, 8000));
    }
}

/// From the first part of the table to the last: 8000 sessions are four rounds.
#[test]
fn how_long_a_look_through_all_sessions_takes_is_counted() {
    let mut bench = bench(Tier::available()[0], &[Tenant { max_sessions: 1 << 20, ..tenant() }]);
    let figures = |bench: &Bench| {
        ["revisits", "revisit-microseconds"].map(|counter| count(bench, "session-expire", counter))
    };
    for from in (1000..9000).step_by(250) {
        bench.run(2, &flood(V4, from..from + 250), 250);
    }
    let [before, time] = figures(&bench);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.generation += 1));
    for round in 0..4 {
        assert_eq!(figures(&bench)[0], before, "round {round}");
        bench.now += 1_000_000;
        bench.round();
    }
    assert_eq!(figures(&bench), [before + 1, time + 3000]);
    bench.round();
    assert_eq!(figures(&bench)[0], before + 1, "nothing has changed since");
}

/// SFDP's weakness 12: sessions survive their tenant.
#[test]
fn a_tenant_s_sessions_go_with_it() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        ["udp", "another udp", "tcp syn"].into_iter().for_each(|name| pass(&mut bench, text, name));
        let tenants = bench.publisher.current().share(bench.key::<Tenants>());
        set_tenants(&mut bench, &[]);
        bench.round();
        bench.round();
        assert!(seen(&mut bench).is_empty());
        assert_eq!(count(&bench, "session-expire", "orphaned"), 3);
        assert_eq!(tenants.get(1).unwrap().occupancy.sessions.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn new_timeouts_and_chains_hold_for_sessions_that_are_there() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        let before = tenant();
        let changed =
            Tenant { timeouts: [ticks_of_seconds(2); TIMERS], chain: [Chain::default(); 2], ..before };
        set_tenants(&mut bench, &[changed]);
        wait(&mut bench, 1);
        assert_eq!(one(&mut bench).session.chain, [Chain::default(); 2]);
        wait(&mut bench, 2);
        assert!(seen(&mut bench).is_empty(), "not after 120 seconds");
    });
}

#[test]
fn what_has_no_session_passes_or_is_dropped_as_the_tenant_says() {
    let kinds = [
        ("gre", "protocol", "passed-protocols"),
        ("short tcp", "too-short", "passed-short"),
        ("unrelated error", "unrelated-error", "passed-errors"),
    ];
    everywhere(|tier, text, node| {
        for (name, reason, counter) in kinds {
            let mut bench = bench(tier, &[tenant()]);
            pass(&mut bench, text, name);
            assert_eq!((count(&bench, node, counter), seen(&mut bench).len()), (1, 0), "{name}");
            set_tenants(
                &mut bench,
                &[Tenant { slow_path: SlowPath::untracked(SlowAction::Drop), ..tenant() }],
            );
            dropped(&mut bench, text, name, &format!("{node} {reason}"));
        }
    });
}

/// RFC 1858 section 2.1, RFC 3128, RFC 7112: whoever puts such a packet together finds ports or flags that nobody was asked about.
#[test]
fn what_hides_its_ports_never_passes_where_rules_are_asked() {
    everywhere(|tier, text, node| {
        // As the tenant's default is where rules are asked.
        let slow_path = SlowPath::default().with(Case::TooShort, SlowAction::Drop);
        let chain = [order().chain(["l4-lifecycle", "acl"]).unwrap(); 2];
        let asked = Tenant { chain, slow_path, ..tenant() };
        let mut bench = bench(tier, &[asked]);
        for name in ["short tcp", "tcp cut before its flags", "tcp from its flags on"] {
            dropped(&mut bench, text, name, &format!("{node} too-short"));
        }
        if text == V6 {
            dropped(&mut bench, text, "ports far behind", &format!("{node} too-short"));
        }
        for name in ["gre", "unrelated error"] {
            pass(&mut bench, text, name);
        }
    });
}

#[test]
fn sessions_are_found_and_ended_by_what_is_asked_for() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        ["udp", "udp answer", "another udp", "tcp syn", "echo"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        let (low, high) = seen(&mut bench)[0].endpoints();
        let filters = [
            (Filter::default(), 4),
            (Filter { protocol: Some(17), ..Filter::default() }, 2),
            (Filter { port: Some(53), ..Filter::default() }, 2),
            (Filter { port: Some(40001), address: Some(low.0), ..Filter::default() }, 1),
            (Filter { port: Some(40001), address: Some(high.0), ..Filter::default() }, 0),
            (Filter { state: Some(State::Established), ..Filter::default() }, 1),
            (Filter { tenant: Some(2), ..Filter::default() }, 0),
            (Filter { blocked: Some(false), ..Filter::default() }, 4),
            (Filter { blocked: Some(true), ..Filter::default() }, 0),
        ];
        for (filter, expected) in filters {
            assert_eq!(sessions(&mut bench).look(&filter, 0, 100).0.len(), expected, "{filter:?}");
        }
        let udp = Filter { protocol: Some(17), ..Filter::default() };
        assert_eq!(sessions(&mut bench).clear(&udp, 0, 100, 0), (2, None));
        assert_eq!(seen(&mut bench).len(), 2);
        pass(&mut bench, text, "udp");
        assert_eq!(seen(&mut bench).len(), 3, "it begins anew");
    });
}
