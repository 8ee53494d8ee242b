//! Direct server return: packets go to their backend as they are, and its answers past us.

mod changes;

use super::*;
use crate::ip::control::Forwarding;
use crate::neighbour::control::{Action, Config, Neighbours};
use crate::neighbour::{ETHERNET_OUT, RESOLVE_DIRECT, frame};
use graph::nodes::Injection;
use graph::worker::Event;

const DIRECT4: &str = include_str!("../../../../tests/vectors/direct4.txt");
const DIRECT6: &str = include_str!("../../../../tests/vectors/direct6.txt");

/// The VIP, and a backend: the neighbour of interface 5 whose address ends so.
fn ends(v6: bool, host: u8) -> (Endpoint, Endpoint) {
    let address = if v6 { format!("2001:db8:5::{host}") } else { format!("10.0.5.{host}") };
    (places(v6).0, at(&address, 80))
}

fn to(v6: bool, protocol: IpProtocol, backends: Vec<BackendConfig>) -> VipConfig {
    VipConfig { direct: true, ..vip(protocol, places(v6).0, backends) }
}

/// VIPs of both versions and all protocols, with the backend of that number, or at that address.
fn vips(backend: impl Fn(bool) -> Endpoint) -> Balancer {
    let mut balancer = Balancer::new(1);
    for v6 in [false, true] {
        for protocol in PROTOCOLS {
            let config = to(v6, protocol, vec![active(backend(v6))]);
            balancer.set(&format!("{}-{v6}", protocol.0), Some(config));
        }
    }
    balancer
}

/// Each of these, alone, with services that follow connections so.
fn each_with(services: &[&str], test: impl Fn(&mut Bench, &'static str)) {
    for tier in Tier::available() {
        for text in [DIRECT4, DIRECT6] {
            let chain = [order().chain(services.iter().copied()).unwrap(); 2];
            let mut bench = bench(tier, &[Tenant { chain, ..tenant() }]);
            publish(&mut bench, &mut vips(|v6| ends(v6, 2).1));
            test(&mut bench, text);
        }
    }
}

/// With either of the services that follow connections.
fn each(test: impl Fn(&mut Bench, &'static str)) {
    each_with(&["l4-lifecycle", "balance"], &test);
    each_with(&["tcp-check", "l4-lifecycle", "balance"], test);
}

fn state(bench: &mut Bench) -> State {
    one(bench).session.state
}

#[test]
fn packets_go_to_the_backend_as_they_are() {
    each(|bench, text| {
        for name in ["udp", "sctp", "tcp syn"] {
            pass(bench, text, name);
            pass(bench, text, name);
        }
        let all = seen(bench);
        assert_eq!(all.len(), 3);
        for seen in all {
            let (vip, backend) = ends(!seen.key.is_v4(), 2);
            assert_eq!((seen.session.packets(), seen.endpoints().1), ([2, 0], vip));
            assert_eq!(seen.translated, Some([seen.endpoints().0, backend]));
            assert!(seen.direct && seen.balanced);
        }
        assert_eq!((count(bench, "balance", "balanced"), count(bench, "balance", "to-backends")), (3, 6));
        assert_eq!(count(bench, "direct-return", "sent"), 6);
    });
}

#[test]
fn a_vector_goes_there_as_its_packets_do() {
    for burst in [1, 256] {
        each(|bench, text| {
            let row = packet(text, "udp");
            let Verdict::Sent(expected) = row.verdict else { panic!() };
            let outcome = bench.run(row.rx_if, &vec![row.frame; 256], burst);
            assert_eq!(outcome.sent.get(&5), Some(&vec![expected[0].1.clone(); 256]), "{:?}", outcome.drops);
            assert_eq!(one(bench).session.packets(), [256, 0]);
        });
    }
}

#[test]
fn fragments_and_errors_about_answers_go_there_too() {
    each(|bench, text| {
        for name in ["part 1", "part 3", "part 2"] {
            pass(bench, text, name);
        }
        assert_eq!(one(bench).session.packets(), [3, 0]);
        pass(bench, text, "error about an answer");
        assert_eq!(count(bench, "direct-return", "sent"), 4);
        assert_eq!(count(bench, "balance", "to-backends"), 3);
        pass(bench, text, "expires");
    });
}

/// No answer is seen: the client's own segments say where the connection stands.
#[test]
fn a_connection_of_which_one_side_is_seen() {
    each(|bench, text| {
        pass(bench, text, "tcp syn");
        assert_eq!(state(bench), State::Embryonic);
        pass(bench, text, "tcp ack");
        assert_eq!(state(bench), State::Established);
        // For as long as established connections last, not embryonic ones.
        wait(bench, 3000);
        for name in ["tcp data", "tcp more"] {
            pass(bench, text, name);
            assert_eq!(state(bench), State::Established, "{name}");
        }
        pass(bench, text, "tcp fin");
        assert_eq!(state(bench), State::Closing);
        pass(bench, text, "tcp last ack");
        assert_eq!(state(bench), State::Closing);
        wait(bench, 230);
        assert_eq!(state(bench), State::Closing);
        wait(bench, 20);
        assert!(seen(bench).is_empty());
    });
}

#[test]
fn a_rst_ends_it_and_a_syn_begins_it_anew() {
    each(|bench, text| {
        for name in ["tcp syn", "tcp ack", "tcp data", "tcp more"] {
            pass(bench, text, name);
        }
        pass(bench, text, "tcp rst");
        assert_eq!(state(bench), State::TimeWait);
        pass(bench, text, "tcp syn of another");
        assert_eq!((state(bench), one(bench).session.packets()), (State::Embryonic, [1, 0]));
        for name in ["tcp ack of another", "tcp data of another", "tcp data of another"] {
            pass(bench, text, name);
            assert_eq!(state(bench), State::Established, "{name}");
        }
        // Closed by the client, and by the server for all that is seen.
        each_fin(bench, text);
    });
}

fn each_fin(bench: &mut Bench, text: &'static str) {
    let sessions = sessions(bench);
    sessions.clear(&Filter::default(), 0, u32::MAX, 0);
    for name in ["tcp syn", "tcp ack", "tcp data", "tcp more", "tcp fin", "tcp last ack"] {
        pass(bench, text, name);
    }
    assert_eq!(state(bench), State::Closing);
    pass(bench, text, "tcp syn of another");
    assert_eq!((state(bench), one(bench).session.packets()), (State::Embryonic, [1, 0]));
    pass(bench, text, "tcp ack of another");
    assert_eq!(state(bench), State::Established);
}

/// Its server has reset it, or forgotten it, which isn't seen: the client begins another one from the same port.
#[test]
fn another_connection_may_begin_where_the_end_of_one_was_not_seen() {
    each(|bench, text| {
        for name in ["tcp syn", "tcp ack", "tcp data"] {
            pass(bench, text, name);
        }
        for name in ["tcp syn of another", "tcp syn of another", "tcp ack of another", "tcp data of another"]
        {
            pass(bench, text, name);
            assert_eq!(state(bench), State::Established, "{name}");
        }
    });
    // Who forges a SYN changes nothing.
    each_with(&["tcp-check", "balance"], |bench, text| {
        for name in ["tcp syn", "tcp ack", "tcp data", "tcp syn of another", "tcp more"] {
            pass(bench, text, name);
        }
        assert_eq!(count(bench, "tcp-check", "doubtful-syn"), 1);
        dropped(bench, text, "tcp ack of another", "tcp-check out-of-window");
        pass(bench, text, "tcp fin");
        assert_eq!(state(bench), State::Closing);
    });
}

#[test]
fn one_that_is_found_midway_is_followed() {
    each(|bench, text| {
        pass(bench, text, "tcp ack");
        pass(bench, text, "tcp data");
        assert_eq!(state(bench), State::Established);
        pass(bench, text, "tcp more");
        // Services of a tenant that has changed see it as it was.
        publish_again(bench);
        pass(bench, text, "tcp fin");
        assert_eq!(state(bench), State::Closing);
    });
}

fn publish_again(bench: &mut Bench) {
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.generation += 1));
    (0..8).for_each(|_| bench.round());
}

#[test]
fn answers_that_come_all_the_same_pass() {
    each(|bench, text| {
        for name in ["tcp syn", "tcp syn answer", "tcp ack", "tcp data"] {
            pass(bench, text, name);
        }
        assert_eq!((state(bench), one(bench).session.packets()), (State::Established, [3, 1]));
        assert_eq!(count(bench, "balance", "from-backends"), 1);
    });
}

#[test]
fn datagrams_last_as_those_with_answers() {
    each(|bench, text| {
        pass(bench, text, "udp");
        assert_eq!(state(bench), State::Embryonic);
        pass(bench, text, "udp");
        assert_eq!(state(bench), State::Established);
        wait(bench, 100);
        assert_eq!(seen(bench).len(), 1);
        wait(bench, 30);
        assert!(seen(bench).is_empty());
    });
}

#[test]
fn the_backend_has_to_be_a_neighbour() {
    for (v6, behind) in
        [(false, "10.1.0.9"), (true, "2001:db8:1001::9"), (false, "10.0.2.1"), (false, "10.3.0.1")]
    {
        let mut balancer = vips(|its| if its == v6 { at(behind, 80) } else { ends(its, 2).1 });
        let mut bench = network(Tier::available()[0], &mut balancer);
        let node = if v6 { "ip6-direct" } else { "ip4-direct" };
        let text = if v6 { DIRECT6 } else { DIRECT4 };
        dropped(&mut bench, text, "udp", &format!("{node} not-a-neighbour"));
    }
    // Whoever is at the other end of an interface without link-layer headers is one.
    for (text, behind) in [(DIRECT4, "10.2.0.9"), (DIRECT6, "2001:db8:1002::9")] {
        let mut balancer = vips(|v6| if v6 == behind.contains(':') { at(behind, 80) } else { ends(v6, 2).1 });
        let mut bench = network(Tier::available()[0], &mut balancer);
        pass(&mut bench, text, "udp by a tunnel");
    }
}

/// What a session's packets wait for is the backend, and they go to it when it has answered.
#[test]
fn packets_wait_for_the_backend_s_link_layer_address() {
    for (text, v6) in [(DIRECT4, false), (DIRECT6, true)] {
        let mut bench = Bench::new(Tier::available()[0]);
        let mut forwarding = topology::set_up(&mut bench, 1500);
        for arc in ["ip4", "ip6"] {
            bench.chain(
                &format!("{arc}-unicast"),
                2,
                &[&format!("{arc}-session-input")],
                &format!("{arc}-lookup"),
            );
        }
        set_tenants(&mut bench, &[balancing()]);
        publish(&mut bench, &mut vips(|v6| ends(v6, 9).1));
        let mut neighbours = Neighbours::new(Config::default(), bench.now);
        neighbours.set_interface(bench.now, 5, Some(&topology::interface(5, 1500)));
        let _ = neighbours.take_actions();
        let (asked, waits) = (packet(text, "who has it"), packet(text, "udp when it has answered"));
        bench.wires[&2].send(&waits.frame, 1);
        settle(&mut bench, &mut forwarding, &mut neighbours);
        let Verdict::Sent(question) = asked.verdict else { panic!() };
        assert_eq!(bench.wires[&5].take(), [question[0].1.clone()]);
        bench.wires[&5].send(&asked.frame, 1);
        settle(&mut bench, &mut forwarding, &mut neighbours);
        let Verdict::Sent(expected) = waits.verdict else { panic!() };
        assert_eq!(bench.wires[&5].take(), [expected[0].1.clone()], "{v6}");
        pass(&mut bench, text, "udp when it has answered");
        assert_eq!(neighbours.waiting(), (0, 0));
    }
}

/// Lets the worker and the control side of neighbours work until neither has anything to do.
fn settle(bench: &mut Bench, forwarding: &mut Forwarding, neighbours: &mut Neighbours) {
    let injector = bench.graph.injector().unwrap();
    loop {
        bench.settle();
        while let Ok(event) = bench.events.try_recv() {
            if let Event::Punt { worker, kind, origin, packet } = event {
                assert!(kind != "resolve4" && kind != "resolve6", "{kind} instead of {RESOLVE_DIRECT}");
                neighbours.punt(bench.now, (worker, origin), kind, packet);
            }
        }
        let actions = neighbours.take_actions();
        if actions.is_empty() {
            return;
        }
        for action in actions {
            match action {
                Action::Send { tx_if, frame: bytes } => {
                    let packet = frame(tx_if, bytes);
                    injector.send(Injection { target: ETHERNET_OUT, packet }).unwrap();
                }
                Action::Inject { target, packet, .. } => injector.send(Injection { target, packet }).unwrap(),
                Action::Program { interface, address, mac } => {
                    forwarding.set_neighbour(interface, address, Some(mac)).unwrap();
                    bench.commit(forwarding);
                }
                Action::Unprogram { .. } | Action::Conflict { .. } => {}
            }
        }
    }
}
