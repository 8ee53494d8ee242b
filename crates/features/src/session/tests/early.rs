//! `early_syn_drop`.

use super::limits::flood;
use super::*;
use tables::session::{Seed, SessionTable};

/// A bench whose tenant has no place left: ten clients have begun connections. Hashes are the same each time, so that no two SYNs have one note.
fn full(tier: Tier, text: &'static str, tenant: Tenant) -> Bench {
    let mut bench = bench(tier, &[tenant]);
    sessions(&mut bench).table = SessionTable::new(Seed::known([7; 4]), 0);
    let outcome = bench.run(2, &flood(text, 1000..1010), 10);
    assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(10), "there is room: {:?}", outcome.drops);
    bench
}

fn tenant_of(max_sessions: u64) -> Tenant {
    Tenant { max_sessions, early_syn_drop: true, ..tenant() }
}

#[test]
fn a_syn_that_is_sent_once_pushes_nobody_out() {
    everywhere(|tier, text, node| {
        let mut bench = full(tier, text, tenant_of(10));
        let early = format!("{node} early-syn");
        dropped(&mut bench, text, "tcp syn", &early);
        assert_eq!(bench.run(2, &flood(text, 2000..2020), 20).drops, [(early.clone(), 20)].into());
        bench.now += SECOND / 10;
        dropped(&mut bench, text, "tcp syn", &early);
        assert_eq!((seen(&mut bench).len(), count(&bench, node, "evicted-for-quota")), (10, 0));
        // As a client does that has had no answer for a second.
        bench.now += SECOND;
        pass(&mut bench, text, "tcp syn");
        for name in ["tcp syn-ack answer", "tcp ack"] {
            pass(&mut bench, text, name);
        }
        assert_eq!((seen(&mut bench).len(), count(&bench, node, "evicted-for-quota")), (10, 1));
        let tenants = bench.publisher.current().get(bench.key::<Tenants>());
        assert_eq!(tenants.get(1).unwrap().occupancy.refused.load(Ordering::Relaxed), 22);
    });
}

/// What isn't a SYN begins sessions as ever, and so does a SYN where there is room.
#[test]
fn only_syns_are_dropped_and_only_while_there_is_no_room() {
    everywhere(|tier, text, node| {
        let mut bench = full(tier, text, tenant_of(10));
        for name in ["udp", "echo"] {
            pass(&mut bench, text, name);
        }
        dropped(&mut bench, text, "tcp syn", &format!("{node} early-syn"));
        // The ten go: nobody has answered.
        wait(&mut bench, 6);
        assert_eq!(bench.run(2, &flood(text, 3000..3005), 5).sent.get(&3).map(Vec::len), Some(5));
        let mut without = full(tier, text, Tenant { early_syn_drop: false, ..tenant_of(10) });
        pass(&mut without, text, "tcp syn");
        assert_eq!(count(&without, node, "evicted-for-quota"), 1);
    });
}

/// The worker's table may be what is short.
#[test]
fn a_full_table_is_short_of_room_too() {
    everywhere(|tier, text, node| {
        let mut bench = full(tier, text, tenant_of(1000));
        let key = bench.key::<Tenants>();
        bench.publish(|draft| draft.change(key, |all| all.per_worker = 10));
        dropped(&mut bench, text, "tcp syn", &format!("{node} early-syn"));
        bench.now += SECOND;
        pass(&mut bench, text, "tcp syn");
        assert_eq!((seen(&mut bench).len(), count(&bench, node, "evicted-for-table")), (10, 1));
    });
}
