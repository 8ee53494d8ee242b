//! What `tcp-check` doubts keeps no session alive, whatever comes behind it.

use super::nat::pool;
use super::redirect::{redirected, sent, through, with_engine};
use super::tcp::{TCP4, conversation, of_both, send};
use super::*;
use crate::session::redirect::OnFailure;

/// A tenant of whose connections nobody believes anything but `tcp-check`, before that service.
fn check_before(service: &str, tenant: Tenant) -> Tenant {
    Tenant { chain: [order().chain(["tcp-check", service]).unwrap(); 2], ..tenant }
}

/// What `tcp-check` drops or lets pass unbelieved keeps no session alive, whatever services come behind it. An embryonic one lasts five seconds.
#[test]
fn what_is_doubted_keeps_no_session_alive_behind_the_check() {
    of_both(|tier, text| {
        let behind = ["l4-lifecycle", "session-stats", "policer", "acl", "balance", "redirect"];
        for (service, doubted) in behind.into_iter().flat_map(|service| [(service, 1), (service, 2)]) {
            let mut bench = bench(tier, &[check_before(service, tenant())]);
            let packets = conversation(text, "an earlier connection is still known");
            send(&mut bench, &packets[0].0);
            wait(&mut bench, 3);
            send(&mut bench, &packets[doubted].0);
            assert_eq!(seen(&mut bench).len(), 1, "{service}");
            wait(&mut bench, 3);
            assert!(seen(&mut bench).is_empty(), "{service}");
        }
    });
}

#[test]
fn what_is_doubted_and_comes_back_from_an_engine_keeps_no_session_alive() {
    of_both(|tier, text| {
        for doubted in [1, 2] {
            let tenant = check_before("redirect", redirected(0, OnFailure::Drop));
            let mut bench = with_engine(tier, &tenant);
            let packets = conversation(text, "an earlier connection is still known");
            through(&mut bench, text, packets[0].0.name);
            wait(&mut bench, 3);
            let engine = &tenant.redirect.as_ref().unwrap().engine;
            (0..2).for_each(|side| engine.beat(side, bench.now));
            through(&mut bench, text, packets[doubted].0.name);
            assert_eq!((seen(&mut bench).len(), sent(&bench)), (1, 2));
            wait(&mut bench, 3);
            assert!(seen(&mut bench).is_empty());
        }
    });
}

/// What an engine sends back, and only that, is heard of where nobody has judged it before.
#[test]
fn what_comes_back_from_an_engine_keeps_a_session_alive_that_nobody_else_follows() {
    everywhere(|tier, text, _| {
        let chain = [order().chain(["redirect"]).unwrap(); 2];
        let tenant = Tenant { chain, ..redirected(0, OnFailure::Drop) };
        let mut bench = with_engine(tier, &tenant);
        through(&mut bench, text, "udp");
        wait(&mut bench, 3);
        let engine = &tenant.redirect.as_ref().unwrap().engine;
        (0..2).for_each(|side| engine.beat(side, bench.now));
        through(&mut bench, text, "udp");
        wait(&mut bench, 3);
        assert_eq!(seen(&mut bench).len(), 1);
        wait(&mut bench, 3);
        assert!(seen(&mut bench).is_empty());
    });
}

/// A session that leads nowhere comes to `nat` with each of its packets.
#[test]
fn what_is_doubted_and_leads_nowhere_keeps_no_session_alive_behind_the_check() {
    for tier in Tier::available() {
        let translating = Tenant { nat: Some(Arc::new(pool(5000..=5000))), ..tenant() };
        let mut bench = bench(tier, &[check_before("nat", translating)]);
        let packets = conversation(TCP4, "an earlier connection is still known");
        // Half of A's address is exchanged with half of B's, so that no route leads there: the checksums are the same.
        let turned = |row: &Row| {
            let mut frame = row.frame.clone();
            frame[14 + 14..14 + 18].rotate_left(2);
            frame
        };
        bench.run(2, &[turned(&packets[0].0)], 1);
        wait(&mut bench, 3);
        bench.run(2, &[turned(&packets[2].0)], 1);
        let session = one(&mut bench).session;
        assert_eq!((session.packets(), session.is_translated()), ([2, 0], false));
        assert_eq!([count(&bench, "tcp-check", "doubtful-rst"), count(&bench, "nat", "exempt")], [1, 0]);
        wait(&mut bench, 3);
        assert!(seen(&mut bench).is_empty());
    }
}
