//! TCP against itself.

use super::{Faults, World, clients, rules, servers};
use crate::stateful::counts::{Cause, Counts};
use crate::stateful::endpoint::{Endpoint, Opener};
use crate::stateful::packet::{Line, Segment, Wire};
use crate::stateful::tcp::{self, Close, Exchange, Role, Rules};
use std::collections::BTreeMap;
use wire::checksum::update_u32;

type Client = tcp::Client<u32>;
type Server = tcp::Server<u32>;

const CPS: Exchange = Exchange { turns: 0, request: 0, response: 0 };

fn world(
    change: impl Fn(&mut Rules),
    exchange: Exchange,
    faults: Faults,
    seed: u64,
) -> World<Client, Server> {
    let (mut asks, mut answers) = (rules(Role::Client, exchange), rules(Role::Server, exchange));
    change(&mut asks);
    change(&mut answers);
    (asks.role, answers.role) = (Role::Client, Role::Server);
    let client = Client::new(clients(20, 10), servers(), asks, 200);
    World::new(client, Server::new(answers, 1000), faults, seed)
}

fn flags(world: &World<Client, Server>) -> Vec<(bool, u8, u16)> {
    let read = |(from, line, len): &(bool, Line, usize)| {
        let segment = Segment::<u32>::read(line, *len).unwrap();
        (*from, segment.flags, segment.len)
    };
    world.log.iter().map(read).collect()
}

fn all_over(world: &World<Client, Server>) {
    assert!(world.client.is_idle(), "the client holds a connection: {:?}", world.client.counts());
    assert!(world.server.is_empty(), "the server holds a connection: {:?}", world.server.counts());
    for counts in [world.client.counts(), world.server.counts()] {
        assert_eq!(counts.active(), 0, "{counts:?}");
    }
}

#[test]
fn a_connection_without_data_takes_seven_packets() {
    let mut world = world(|_| (), CPS, Faults::default(), 1);
    assert_eq!(world.open(1), 1);
    world.run(20);
    let (syn, ack, fin) = (0x02, 0x10, 0x11);
    let expected = [
        (true, syn, 0),
        (false, syn | ack, 0),
        (true, ack, 0),
        (true, fin, 0),
        (false, ack, 0),
        (false, fin, 0),
        (true, ack, 0),
    ];
    assert_eq!(flags(&world), expected);
    all_over(&world);
    assert_eq!((world.client.counts().established, world.client.counts().closed), (1, 1));
    assert_eq!(world.client.latencies(), &[2_000_000], "two milliseconds there and back");
}

#[test]
fn a_reset_closes_at_once() {
    let mut world = world(|rules| rules.close = Close::Reset, CPS, Faults::default(), 1);
    world.open(1);
    world.run(20);
    assert_eq!(flags(&world).iter().map(|f| f.1).collect::<Vec<_>>(), [0x02, 0x12, 0x10, 0x14]);
    all_over(&world);
    assert_eq!((world.client.counts().closed, world.server.counts().closed), (1, 1));
}

#[test]
fn transactions_carry_their_bytes() {
    let exchange = Exchange { turns: 5, request: 100, response: 4000 };
    let mut world = world(|_| (), exchange, Faults::default(), 1);
    assert_eq!(world.open(50), 50);
    world.run(200);
    all_over(&world);
    let (client, server) = (world.client.counts(), world.server.counts());
    assert_eq!((client.closed, client.messages, client.bytes), (50, 250, 50 * 5 * 4000));
    assert_eq!((server.closed, server.messages, server.bytes), (50, 250, 50 * 5 * 100));
    let data: Vec<u16> = flags(&world).iter().filter(|f| !f.0 && f.2 > 0).map(|f| f.2).collect();
    assert_eq!(data.len(), 50 * 5 * 3, "4000 bytes are segments of 1460, 1460 and 1080");
    assert_eq!(data.iter().filter(|len| **len == 1080).count(), 250);
}

#[test]
fn a_response_longer_than_the_window_waits_for_acknowledgments() {
    let exchange = Exchange { turns: 1, request: 10, response: 300_000 };
    let mut world = world(|_| (), exchange, Faults::default(), 1);
    world.open(3);
    world.run(200);
    all_over(&world);
    assert_eq!(world.client.counts().bytes, 900_000);
    assert_eq!(world.server.counts().retransmitted, 0);
}

#[test]
fn connections_are_held() {
    let mut world = world(|rules| rules.hold = 5000, CPS, Faults::default(), 1);
    world.open(40);
    world.run(4990);
    assert_eq!((world.client.counts().active(), world.server.len()), (40, 40));
    world.run(60);
    all_over(&world);
    assert_eq!(world.client.counts().closed, 40);
}

#[test]
fn backing_off_has_an_end() {
    let change = |rules: &mut Rules| (rules.rto, rules.retries) = (3_000_000, 255);
    let mut world = world(change, CPS, Faults { lost: 1000, ..Faults::default() }, 1);
    world.open(1);
    world.now_ms += 3_000_000;
    world.run(10);
    assert_eq!((world.log.len(), world.client.counts().retransmitted), (2, 1));
    world.now_ms += 3_600_000;
    world.run(10);
    assert_eq!(world.client.counts().retransmitted, 2, "an hour later, not two");
}

#[test]
fn a_place_in_time_wait_is_not_used_again() {
    let mut world = world(|rules| rules.time_wait = 60_000, CPS, Faults::default(), 1);
    assert_eq!(world.open(200), 200);
    world.run(50);
    assert_eq!((world.open(1), world.client.counts().no_place), (0, 1), "all 200 places are in TIME-WAIT");
    world.run(60_000);
    assert_eq!(world.open(200), 200);
    world.run(50);
    all_over(&world);
    assert_eq!(world.client.counts().closed, 400);
}

#[test]
fn nobody_answers() {
    let faults = Faults { lost: 1000, ..Faults::default() };
    let mut world = world(|_| (), CPS, faults, 1);
    world.open(10);
    world.run(64_000);
    all_over(&world);
    let counts = world.client.counts();
    assert_eq!((counts.failed.connect_timeout, counts.retransmitted), (10, 50));
    assert_eq!(world.log.len(), 60);
}

#[test]
fn a_server_that_never_answers_a_request() {
    // The other end expects more than is asked: it waits for ever, acknowledging.
    let ask = rules(Role::Client, Exchange { turns: 1, request: 100, response: 100 });
    let answer = rules(Role::Server, Exchange { turns: 1, request: 101, response: 100 });
    let answer = Rules { timeout: 60_000, ..answer };
    let client = Client::new(clients(4, 1), servers(), ask, 4);
    let mut world = World::new(client, Server::new(answer, 10), Faults::default(), 1);
    world.open(4);
    world.run(30_100);
    all_over(&world);
    assert_eq!(world.client.counts().failed.timeout, 4);
    assert_eq!(world.server.counts().failed.reset, 4, "told by RST");
}

#[test]
fn a_server_without_room_is_no_place() {
    let rules_of = |role| Rules { hold: 1000, ..rules(role, CPS) };
    let client = Client::new(clients(20, 10), servers(), rules_of(Role::Client), 200);
    let mut world = World::new(client, Server::new(rules_of(Role::Server), 50), Faults::default(), 1);
    world.open(200);
    world.run(900);
    assert_eq!((world.server.len(), world.client.counts().established), (50, 50));
    assert!(world.server.counts().no_place >= 150);
    world.run(70_000);
    all_over(&world);
    let counts = world.client.counts();
    assert_eq!(counts.closed + counts.failed.total(), 200);
}

/// Loss, duplication and reordering: every connection ends, closed or failed, and nothing is left.
#[test]
fn every_connection_ends_whatever_the_link_does() {
    let exchanges = [
        CPS,
        Exchange { turns: 1, request: 64, response: 64 },
        Exchange { turns: 3, request: 5000, response: 20_000 },
    ];
    for seed in 0..12 {
        for exchange in exchanges {
            let faults = [
                Faults { lost: 10, ..Faults::default() },
                Faults { late: 200, doubled: 50, ..Faults::default() },
                Faults { lost: 100, late: 100, doubled: 100 },
                Faults { lost: 400, late: 300, doubled: 100 },
            ][seed as usize % 4];
            let mut world = world(|_| (), exchange, faults, seed);
            for _ in 0..10 {
                world.open(30);
                world.run(300);
            }
            // Five retransmissions, doubled each, then a silent other end's own timeout: twice over.
            world.run(200_000);
            all_over(&world);
            let (client, server) = (*world.client.counts(), *world.server.counts());
            assert!(client.attempted >= 200, "{client:?}");
            assert_eq!(client.attempted, client.closed + client.failed.total());
            if faults.lost == 0 {
                assert_eq!(client.failed, Default::default(), "seed {seed}: {client:?} {server:?}");
                assert_eq!(client.bytes, client.closed * u64::from(exchange.turns * exchange.response));
            }
            if faults.lost <= 100 {
                assert!(client.closed * 10 >= client.attempted * 9, "seed {seed}: {client:?} {server:?}");
            }
        }
    }
}

/// Addresses and ports of clients are other ones on the server's side.
#[test]
fn through_address_translation() {
    let exchange = Exchange { turns: 2, request: 200, response: 3000 };
    let mut world = world(|_| (), exchange, Faults { late: 100, ..Faults::default() }, 3);
    // 10.0.0.x:p is seen as 192.0.2.1 with port 20000 + 10 · x + (p - 1024).
    world.middle = Some(Box::new(|from_client, line| {
        let u32_at = |line: &[u8], at: usize| u32::from_be_bytes(line[at..at + 4].try_into().unwrap());
        let u16_at = |line: &[u8], at: usize| u16::from_be_bytes(line[at..at + 2].try_into().unwrap());
        let (address, port) = if from_client { (26, 34) } else { (30, 36) };
        let (old, old_port) = (u32_at(line, address), u16_at(line, port));
        let (new, new_port) = if from_client {
            (0xc000_0201, 20_000 + 10 * (old as u16 & 0xff) + (old_port - 1024))
        } else {
            (0x0a00_0000 + u32::from((old_port - 20_000) / 10), 1024 + (old_port - 20_000) % 10)
        };
        let ip = update_u32(u16_at(line, 24), old, new);
        let tcp = update_u32(update_u32(u16_at(line, 50), old, new), old_port.into(), new_port.into());
        line[address..address + 4].copy_from_slice(&new.to_be_bytes());
        line[port..port + 2].copy_from_slice(&new_port.to_be_bytes());
        line[24..26].copy_from_slice(&ip.to_be_bytes());
        line[50..52].copy_from_slice(&tcp.to_be_bytes());
    }));
    world.open(200);
    world.run(5000);
    all_over(&world);
    assert_eq!(world.client.counts().closed, 200);
    assert_eq!(world.server.counts().closed, 200);
}

/// The server has forgotten a connection: its RST ends it at the client.
#[test]
fn a_reset_is_told() {
    let mut world = world(|rules| rules.hold = 1000, CPS, Faults::default(), 1);
    world.open(5);
    world.run(100);
    let answers = rules(Role::Server, CPS);
    world.server = Server::new(answers, 1000);
    world.run(2000);
    assert_eq!(world.client.counts().failed.reset, 5);
    assert!(world.client.is_idle());
}

/// No server at all: SYNs are refused.
#[test]
fn a_refusal_is_told() {
    let mut world = world(|_| (), CPS, Faults::default(), 1);
    // Whatever is sent to a server loses its SYN and gets an ACK, as if it were for an old connection.
    world.middle = Some(Box::new(|from_client, line| {
        if from_client {
            let tcp = update_u32(u16::from_be_bytes([line[50], line[51]]), line[47].into(), 0x01);
            line[47] = 0x01;
            line[50..52].copy_from_slice(&tcp.to_be_bytes());
        }
    }));
    world.open(5);
    world.run(100);
    assert_eq!(world.client.counts().failed.refused, 5, "{:?}", world.client.counts());
    assert!(world.client.is_idle());
}

#[test]
fn a_seed_repeats_a_run() {
    let faults = Faults { lost: 50, late: 100, doubled: 20 };
    let exchange = Exchange { turns: 2, request: 300, response: 3000 };
    let run = |seed: u64| {
        let mut world = world(|rules| rules.seed = seed, exchange, faults, 9);
        world.open(100);
        world.run(3000);
        world.log
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// The first sequence numbers of connections by the clients' addresses and ports, and the greatest that each end has used.
fn numbers(world: &World<Client, Server>) -> BTreeMap<(bool, u32, u16), Vec<(u32, u32)>> {
    let mut found = BTreeMap::<_, Vec<(u32, u32)>>::new();
    for (from_client, line, len) in &world.log {
        let segment = Segment::<u32>::read(line, *len).unwrap();
        let of = if *from_client {
            (true, segment.src, segment.src_port)
        } else {
            (false, segment.dst, segment.dst_port)
        };
        let used = segment.flags & 0x03; // SYN and FIN
        let next = segment.seq.wrapping_add(segment.len.into()).wrapping_add(used.count_ones());
        let lives = found.entry(of).or_default();
        if used & 0x02 != 0 && lives.last().is_none_or(|(first, _)| *first != segment.seq) {
            lives.push((segment.seq, next));
        }
        if let Some((first, greatest)) = lives.last_mut() {
            *greatest = first.wrapping_add(next.wrapping_sub(*first).max(greatest.wrapping_sub(*first)));
        }
    }
    found
}

/// RFC 9293 section 3.6.1: whoever has a connection in TIME-WAIT takes a SYN with a greater number than the last one seen.
#[test]
fn another_run_begins_behind_the_numbers_of_the_one_before() {
    let exchange = Exchange { turns: 2, request: 300, response: 3000 };
    let mut epoch = u32::MAX - 5_000; // It wraps meanwhile.
    let mut before = BTreeMap::new();
    for run in 0..3 {
        let mut world = world(|rules| rules.epoch = epoch, exchange, Faults::default(), 1);
        for _ in 0..3 {
            // All places, so that each has several connections in a row, the next at once.
            assert_eq!(world.open(200), 200, "run {run}");
            world.run(60);
        }
        all_over(&world);
        let numbers = numbers(&world);
        assert_eq!(numbers.len(), 400);
        for (of, lives) in numbers {
            assert_eq!(lives.len(), 3, "{of:?}");
            for (first, greatest) in lives {
                if let Some(last) = before.insert(of, greatest) {
                    assert!((first.wrapping_sub(last) as i32) > 0, "run {run}, {of:?}: {first} after {last}");
                }
            }
        }
        // The time that it took, and a second in between.
        epoch = epoch.wrapping_add(world.now().timer + 250_000);
    }
}

#[test]
fn sequence_numbers_follow_a_timer_and_the_ends() {
    let firsts = |epoch: u32| {
        let mut world = world(|rules| rules.epoch = epoch, CPS, Faults::default(), 1);
        world.open(200);
        world.run(20);
        numbers(&world).into_values().map(|lives| lives[0].0).collect::<Vec<_>>()
    };
    let (now, later) = (firsts(0), firsts(250_000));
    // RFC 6528: the timer of 4 µs and a hash of the ends. A second is a quarter of a million.
    assert!(now.iter().zip(&later).all(|(now, later)| later.wrapping_sub(*now) == 250_000));
    assert_eq!(now.iter().collect::<std::collections::BTreeSet<_>>().len(), 400, "each its own");
}

#[test]
fn failures_add_up() {
    let mut counts = Counts { attempted: 9, closed: 3, ..Counts::default() };
    for cause in [Cause::Refused, Cause::Reset, Cause::ConnectTimeout, Cause::Timeout, Cause::ClosedEarly] {
        counts.fail(cause);
    }
    assert_eq!((counts.failed.total(), counts.active()), (5, 1));
}
