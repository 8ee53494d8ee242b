//! UDP against itself.

use super::{Faults, World, clients, servers};
use crate::stateful::endpoint::Endpoint;
use crate::stateful::udp::{self, Rules};

type Client = udp::Client<u32>;
type Server = udp::Server<u32>;

fn world(turns: u32, hold: u32, faults: Faults, seed: u64) -> World<Client, Server> {
    let rules = Rules { turns, request: 22, timeout: 1000, hold, time_wait: 0, seed: 3 };
    let client = Client::new(clients(20, 10), servers(), rules, 200);
    World::new(client, Server::new(60), faults, seed)
}

#[test]
fn one_packet_each_way() {
    let mut world = world(1, 0, Faults::default(), 1);
    assert_eq!(world.open(200), 200);
    assert_eq!(world.open(1), 0, "every place is taken");
    world.run(10);
    let counts = world.client.counts();
    assert_eq!((counts.established, counts.closed, counts.active()), (200, 200, 0));
    assert_eq!(world.log.len(), 400);
    assert_eq!((counts.bytes, world.server.counts().bytes), (200 * 60, 200 * 22));
}

#[test]
fn flows_are_held_and_used_again() {
    let mut world = world(5, 500, Faults::default(), 1);
    world.open(200);
    world.run(400);
    assert_eq!((world.client.counts().messages, world.client.counts().active()), (1000, 200));
    world.run(200);
    assert_eq!(world.client.counts().closed, 200);
    assert_eq!(world.open(200), 200);
    world.run(1000);
    assert_eq!(world.client.counts().closed, 400);
}

#[test]
fn every_flow_ends_whatever_the_link_does() {
    for seed in 0..10 {
        let mut world = world(5, 0, Faults { lost: 30, doubled: 100, late: 100 }, seed);
        for _ in 0..20 {
            world.open(100);
            world.run(100);
        }
        world.run(3000);
        let counts = *world.client.counts();
        assert_eq!(counts.active(), 0, "{counts:?}");
        assert!(counts.failed.timeout > 0 && counts.closed > counts.failed.timeout, "{counts:?}");
        assert!(counts.stray > 0, "doubled responses count for nothing: {counts:?}");
        // A flow that was closed had all its responses, each once.
        assert!(
            counts.messages >= counts.closed * 5 && counts.messages <= counts.attempted * 5,
            "{counts:?}"
        );
    }
}
