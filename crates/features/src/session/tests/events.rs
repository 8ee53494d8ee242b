//! What happens to sessions is told to whoever wants to know, once, with figures, and why.

use super::acl::{network, rule};
use super::nat::{NAT, pool, translating};
use super::*;
use crate::session::acl::Action;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Receiver;

/// Somebody who looks on at the only worker.
pub(super) struct Listener {
    events: Receiver<Event>,
    lost: Arc<AtomicU64>,
}

impl Listener {
    fn new(bench: &mut Bench, filter: Filter, kinds: Kinds, backlog: usize) -> Self {
        let lost = Arc::default();
        let (watcher, events) = watch(filter, kinds, backlog, &lost);
        sessions(bench).watched_by(watcher);
        Self { events, lost }
    }

    pub(super) fn of_all(bench: &mut Bench) -> Self {
        Self::new(bench, Filter::default(), Kinds::ALL, 100)
    }

    /// What has happened since.
    pub(super) fn heard(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }

    /// Likewise: what, and packets from the initiator and to it.
    fn what(&self) -> Vec<(What, [u64; 2])> {
        self.heard().iter().map(|event| (event.what, event.seen.session.packets())).collect()
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

fn all(bench: &mut Bench, text: &'static str, names: &[&str]) {
    names.iter().for_each(|name| pass(bench, text, name));
}

/// Sessions of the first tenant that have ended, where there were any.
fn ended(bench: &Bench) -> Vec<(End, u64)> {
    let tenants = bench.publisher.current().get(bench.key::<Tenants>());
    let occupancy = &tenants.get(1).unwrap().occupancy;
    End::ALL.into_iter().map(|end| (end, occupancy.ended(end))).filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_session_is_told_of_when_it_begins_and_when_it_ends() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let listener = Listener::of_all(&mut bench);
        let begin = bench.now;
        all(&mut bench, text, &["udp", "udp answer", "udp"]);
        wait(&mut bench, 119);
        let heard = listener.heard();
        assert_eq!(heard.iter().map(|event| event.what).collect::<Vec<_>>(), [What::Began]);
        wait(&mut bench, 2);
        let over = listener.heard();
        let [over] = &over[..] else { panic!("{over:?}") };
        assert_eq!(over.what, What::Ended(End::Timeout));
        let bytes = packet(text, "udp").frame.len() as u64 - 14;
        assert_eq!((over.seen.session.packets(), over.seen.session.bytes()), ([2, 1], [2 * bytes, bytes]));
        assert_eq!((over.seen.session.state, over.seen.session.tenant), (State::Established, 1));
        assert_eq!(over.seen.handle, heard[0].seen.handle);
        assert_eq!(over.seen.endpoints().0.1, 40000);
        let after = (over.at - begin) / SECOND;
        assert!((120..=122).contains(&after), "after {after} s");
        assert_eq!(ended(&bench), [(End::Timeout, 1)]);
    });
}

#[test]
fn how_a_connection_ends_is_told() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let listener = Listener::of_all(&mut bench);
        all(
            &mut bench,
            text,
            &["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp fin", "tcp fin answer", "tcp ack"],
        );
        assert_eq!(listener.what(), [(What::Began, [0, 0])]);
        // In its time-wait the same ports begin another connection, this time from the other side.
        pass(&mut bench, text, "tcp syn answer");
        let heard = listener.heard();
        let [old, new] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!((old.what, new.what), (What::Ended(End::Finished), What::Began));
        assert_eq!((old.seen.session.packets(), new.seen.session.packets()), ([4, 2], [1, 0]));
        let bytes = packet(text, "tcp fin").frame.len() as u64 - 14;
        assert_eq!(old.seen.session.bytes(), [4 * bytes, 2 * bytes], "without the SYN of the next one");
        assert_eq!((old.seen.session.state, old.seen.endpoints().0.1), (State::TimeWait, 40000));
        assert_eq!(new.seen.endpoints().1.1, 40000);
        pass(&mut bench, text, "tcp rst");
        wait(&mut bench, 31);
        assert_eq!(listener.what(), [(What::Ended(End::Finished), [1, 1])]);
    });
}

#[test]
fn who_has_to_make_room_is_told_of_with_the_reason() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 1, ..tenant() }]);
        let listener = Listener::of_all(&mut bench);
        all(&mut bench, text, &["udp", "another udp"]);
        let (quota, began) = (What::Ended(End::EvictedForQuota), (What::Began, [0, 0]));
        assert_eq!(listener.what(), [began, (quota, [1, 0]), began]);
        set_tenants(&mut bench, &[tenant()]);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 1));
        pass(&mut bench, text, "a third udp");
        assert_eq!(listener.what(), [(What::Ended(End::EvictedForTable), [1, 0]), began]);
    });
}

#[test]
fn sessions_that_are_ended_from_outside_say_by_what() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let listener = Listener::new(&mut bench, Filter::default(), Kinds::ENDED, 100);
        all(&mut bench, text, &["udp", "udp answer", "another udp"]);
        let one_of_them = Filter { port: Some(40001), ..Filter::default() };
        let now = bench.now;
        assert_eq!(sessions(&mut bench).clear(&one_of_them, 0, u32::MAX, now).0, 1);
        assert_eq!(listener.what(), [(What::Ended(End::Cleared), [1, 0])]);
        // What begins at its interface is another tenant's from now on.
        let key = bench.key::<Tenants>();
        let other = tenant();
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.generation += 1;
                all.set(2, Some(other));
                all.set_place(2, Place { tenant: 2, ..Place::default() });
            });
        });
        wait(&mut bench, 1);
        assert_eq!(listener.what(), [(What::Ended(End::Reconfigured), [1, 1])]);
        pass(&mut bench, text, "a third udp");
        set_tenants(&mut bench, &[]);
        wait(&mut bench, 1);
        assert_eq!(listener.what(), [(What::Ended(End::TenantDeleted), [1, 0])]);
    });
}

#[test]
fn a_tenant_that_is_gone_ends_its_sessions_also_where_a_packet_finds_that_first() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let listener = Listener::new(&mut bench, Filter::default(), Kinds::ENDED, 100);
        pass(&mut bench, text, "udp");
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.generation += 1;
                all.set(1, None);
            });
        });
        pass(&mut bench, text, "udp");
        assert_eq!(listener.what(), [(What::Ended(End::TenantDeleted), [1, 0])]);
    });
}

#[test]
fn who_is_denied_is_told_of_at_once_with_the_reason() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = network(tier, vec![rule(Action::Deny)]);
        let listener = Listener::of_all(&mut bench);
        dropped(&mut bench, text, "udp", "acl denied");
        let heard = listener.heard();
        assert_eq!(heard.iter().map(|event| event.what).collect::<Vec<_>>(), [What::Began, What::Blocked]);
        let reason = heard[1].seen.session.chain[0].block().unwrap();
        let (node, spec) = bench.plan.drops[usize::from(reason)];
        assert_eq!((bench.plan.nodes[usize::from(node)].spec.name, spec.name), ("acl", "denied"));
        wait(&mut bench, 21);
        assert_eq!(listener.what(), [(What::Ended(End::Blocked), [1, 0])]);
        assert_eq!(ended(&bench), [(End::Blocked, 1)]);
    });
}

#[test]
fn a_translated_session_says_how_it_is_seen_outside() {
    for tier in Tier::available() {
        let mut bench = bench(tier, &[translating(pool(50000..=50000))]);
        let listener = Listener::of_all(&mut bench);
        all(&mut bench, NAT, &["udp", "udp answer"]);
        wait(&mut bench, 121);
        let heard = listener.heard();
        let seen = heard.iter().map(|event| {
            (event.what, event.seen.translated.map(|[(address, port), _]| format!("{address}:{port}")))
        });
        let outside = Some("192.0.2.1:50000".to_string());
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(What::Began, None), (What::Translated, outside.clone()), (What::Ended(End::Timeout), outside)]
        );
    }
}

/// A connection that begins anew in its time-wait has the port that the one before had: who had it is told of both.
#[test]
fn a_translated_connection_that_begins_anew_says_how_it_is_seen_outside() {
    for tier in Tier::available() {
        let mut bench = bench(tier, &[translating(pool(50000..=50000))]);
        let listener = Listener::of_all(&mut bench);
        let first = ["tcp syn", "tcp syn answer", "tcp ack", "tcp fin", "tcp fin answer", "tcp ack"];
        all(&mut bench, NAT, &first);
        all(&mut bench, NAT, &["tcp syn"]);
        wait(&mut bench, 6);
        let heard = listener.heard();
        let what: Vec<_> = heard.iter().map(|event| event.what).collect();
        let told = |end| [What::Began, What::Translated, What::Ended(end)];
        assert_eq!(what, [told(End::Finished), told(End::Timeout)].concat());
        let outside: Vec<_> = heard[1..].iter().map(|event| event.seen.translated.unwrap()[0].1).collect();
        assert_eq!(outside, [50000; 5]);
        assert_eq!(heard[4].seen.session.packets(), [1, 0]);
    }
}

#[test]
fn nobody_hears_of_what_it_did_not_ask_for() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let mine = Filter { port: Some(40001), ..Filter::default() };
        let listener = Listener::new(&mut bench, mine, Kinds::BEGAN, 100);
        all(&mut bench, text, &["udp", "another udp", "tcp syn"]);
        wait(&mut bench, 6);
        assert!(seen(&mut bench).is_empty());
        let heard = listener.heard();
        assert_eq!((heard.len(), heard[0].seen.endpoints().0.1), (1, 40001));
    });
}

/// A worker that would wait for somebody who doesn't read would never end this.
#[test]
fn what_nobody_reads_is_lost_and_counted_and_packets_go_on() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 1 << 20, ..tenant() }]);
        let slow = Listener::new(&mut bench, Filter::default(), Kinds::BEGAN, 10);
        let quick = Listener::new(&mut bench, Filter::default(), Kinds::BEGAN, 1000);
        let frames = limits::flood(text, 1000..1256);
        let outcome = bench.run(2, &frames, 256);
        assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(256), "{:?}", outcome.drops);
        assert_eq!((slow.lost(), quick.lost()), (246, 0));
        assert_eq!((slow.heard().len(), quick.heard().len()), (10, 256));
        // There is room again.
        pass(&mut bench, text, "udp");
        assert_eq!((slow.heard().len(), slow.lost()), (1, 246));
        // Who doesn't listen any more costs nothing.
        drop(slow);
        sessions(&mut bench).tidy_watchers();
        pass(&mut bench, text, "another udp");
        assert_eq!(quick.heard().len(), 2);
        drop(quick);
        sessions(&mut bench).tidy_watchers();
        assert!(format!("{:?}", sessions(&mut bench)).contains("watchers: Watchers { all: []"));
    });
}
