//! Both ends over IPv6: the machines are those of IPv4, so this is about addresses.

use super::{Faults, World, clients, rules, servers};
use crate::stateful::endpoint::Endpoint;
use crate::stateful::packet::{Segment, Wire};
use crate::stateful::tcp::{self, Exchange, Role};
use crate::stateful::udp;
use wire::checksum::Partial;

fn world(exchange: Exchange, faults: Faults, seed: u64) -> World<tcp::Client<u128>, tcp::Server<u128>> {
    let client = tcp::Client::new(clients(20, 10), servers(), rules(Role::Client, exchange), 200);
    World::new(client, tcp::Server::new(rules(Role::Server, exchange), 1000), faults, seed)
}

fn all_over(world: &World<tcp::Client<u128>, tcp::Server<u128>>) {
    assert!(world.client.is_idle() && world.server.is_empty());
    assert_eq!((world.client.counts().active(), world.server.counts().active()), (0, 0));
}

#[test]
fn every_client_has_its_connection() {
    let mut world = world(Exchange { turns: 5, request: 100, response: 4000 }, Faults::default(), 1);
    assert_eq!(world.open(300), 200, "as many as there are addresses and ports");
    world.run(200);
    all_over(&world);
    let (client, server) = (world.client.counts(), world.server.counts());
    assert_eq!((client.closed, client.messages, client.bytes), (200, 1000, 200 * 5 * 4000));
    assert_eq!((server.closed, server.messages, server.bytes), (200, 1000, 200 * 5 * 100));
    assert_eq!((client.stray, server.stray), (0, 0));
}

#[test]
fn every_connection_ends_whatever_the_link_does() {
    for seed in 0..4 {
        let exchange = Exchange { turns: 3, request: 5000, response: 20_000 };
        let mut world = world(exchange, Faults { lost: 100, late: 100, doubled: 100 }, seed);
        for _ in 0..10 {
            world.open(30);
            world.run(300);
        }
        world.run(200_000);
        all_over(&world);
        let client = *world.client.counts();
        assert_eq!(client.attempted, client.closed + client.failed.total());
        assert!(client.attempted >= 200 && client.closed * 10 >= client.attempted * 9, "{client:?}");
    }
}

/// Clients have another prefix on the server's side (RFC 6296, but with a checksum made anew) and other ports.
#[test]
fn through_prefix_translation() {
    const OUTSIDE: [u8; 6] = [0xfd, 0x01, 0x02, 0x03, 0x04, 0x05];
    let mut world =
        world(Exchange { turns: 2, request: 3, response: 2 }, Faults { late: 100, ..Faults::default() }, 3);
    world.middle = Some(Box::new(|from_client, line| {
        let inside = &<u128 as super::Site>::CLIENT.to_be_bytes()[..6];
        let (address, port) = if from_client { (22, 54) } else { (38, 56) };
        line[address..address + 6].copy_from_slice(if from_client { &OUTSIDE } else { inside });
        let old = u16::from_be_bytes([line[port], line[port + 1]]);
        let new = if from_client { old + 30_000 } else { old - 30_000 };
        line[port..port + 2].copy_from_slice(&new.to_be_bytes());
        // Short segments lie in the line as a whole.
        let len = u16::from_be_bytes([line[18], line[19]]);
        line[70..72].fill(0);
        let covered =
            [&line[22..54], &[0, 0], &len.to_be_bytes(), &[0, 0, 0, 6], &line[54..54 + usize::from(len)]];
        let checksum = Partial::of_pieces(covered).checksum();
        line[70..72].copy_from_slice(&checksum.to_be_bytes());
    }));
    world.open(200);
    world.run(5000);
    all_over(&world);
    assert_eq!((world.client.counts().closed, world.server.counts().closed), (200, 200));
    assert_eq!(world.server.counts().bytes, 200 * 2 * 3);
    let outside = |(from_client, line, len): &(bool, _, usize)| {
        !from_client && Segment::<u128>::read(line, *len).unwrap().dst.to_be_bytes().starts_with(&OUTSIDE)
    };
    assert!(world.log.iter().any(outside), "the server saw the other prefix");
}

#[test]
fn udp_flows_end() {
    let rules = udp::Rules { turns: 5, request: 22, timeout: 1000, hold: 0, time_wait: 0, seed: 3 };
    let client = udp::Client::<u128>::new(clients(20, 10), servers(), rules, 200);
    let mut world = World::new(client, udp::Server::new(60), Faults { doubled: 100, ..Faults::default() }, 1);
    assert_eq!(world.open(200), 200);
    world.run(100);
    let counts = world.client.counts();
    assert_eq!((counts.closed, counts.messages, counts.bytes), (200, 1000, 1000 * 60));
    assert!(counts.stray > 0, "doubled responses count for nothing");
}
