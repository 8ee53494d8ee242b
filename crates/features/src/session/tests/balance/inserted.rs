//! A service that others have put on sessions of a VIP.

use super::changes::{asked, backend, in_state, web};
use super::*;
use crate::session::order::Order;
use crate::session::service::{Custom, Insertable, Packet, node};
use crate::session::services::{SERVICES_ARC, Service};
use crate::session::serving::Verdict;
use crate::session::tests::serving::{WITNESS, calls};
use graph::{Feature, NodeSpec};

/// Puts the witness on each session's chains, and goes.
struct Porter;

impl Custom for Porter {
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Verdict {
        if packet.insert_service(Insertable::of(&all(), "witness").unwrap()) {
            packet.leave_session();
        }
        Verdict::Next
    }
}

// Behind those that there are, whose numbers stay what they are.
const PORTER: Service = Service {
    node: NodeSpec {
        name: "porter",
        help: "Has the witness come.",
        features: &[Feature { arc: SERVICES_ARC, runs_before: &["witness"], runs_after: &["direct-return"] }],
        make: |cx| node(cx, Porter),
        ..WITNESS.node
    },
    ..WITNESS
};

fn all() -> Order {
    Order::resolve(&[SERVICES, &[PORTER, WITNESS]].concat()).unwrap()
}

/// What was put on its chains is the session's, not the backend's.
#[test]
fn a_session_that_is_given_another_backend_keeps_what_services_have_decided() {
    let mut balancer = Balancer::new(1);
    balancer.set("web", Some(web(vec![active(backend(1))])));
    let nodes = [crate::testing::all_nodes(), vec![PORTER.node, WITNESS.node]].concat();
    let chain = all().chain(["l4-lifecycle", "balance", "porter"]).unwrap();
    let tenants = [Tenant { chain: [chain; 2], ..tenant() }];
    let mut bench = furnish(Bench::with_nodes(Tier::available()[0], &nodes), &tenants);
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1000), Ok(1));
    balancer.set("web", Some(web(vec![in_state(1, BackendState::Draining), active(backend(2))])));
    publish(&mut bench, &mut balancer);
    for times in 2..5 {
        assert_eq!(asked(&mut bench, 1000), Ok(2));
        assert_eq!((count(&bench, "witness", "seen"), calls(&bench, "porter")), (times, 1));
        change_something(&mut bench);
    }
    assert_eq!(count(&bench, "balance", "rebalanced"), 1);
}
