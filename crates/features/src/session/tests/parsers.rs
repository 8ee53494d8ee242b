//! Sessions that a parser finds: tunnels made by scapy, and a parser of the tests' own whose packets go both ways.

use super::super::explain::{Imagined, Known, Object, Outcome, Payload};
use super::super::parser::{Datagram, MAX_KEY, Parser, number};
use super::handover::{send, workers_of};
use super::policer::{packets, policed, profile};
use super::*;
use crate::policer::{Action, Profile};
use tables::session::{Endpoint, Key};
use wire::IpProtocol;

const GTPU4: &str = include_str!("../../../tests/vectors/gtpu4.txt");
const GTPU6: &str = include_str!("../../../tests/vectors/gtpu6.txt");

/// "PAIR", which side sends, and 32 bytes that are the key, whatever addresses and ports are.
pub(in super::super) const PAIR: Parser = Parser {
    name: "pair",
    help: "Finds conversations by what both sides call them.",
    protocol: IpProtocol::UDP,
    key_bytes: MAX_KEY,
    one_way: false,
    parse: pair,
    show: |key| String::from_utf8_lossy(key).into_owned(),
    ends: |_| [None, None],
};

fn pair(datagram: &Datagram<'_>, key: &mut [u8]) -> Option<Direction> {
    let (side, name) = datagram.behind().get(8..)?.strip_prefix(b"PAIR")?.split_first()?;
    key.copy_from_slice(name.get(..MAX_KEY)?);
    match side {
        b'>' => Some(Direction::Forward),
        b'<' => Some(Direction::Reverse),
        _ => None,
    }
}

fn both(test: impl Fn(Tier, &'static str)) {
    for tier in Tier::available() {
        test(tier, GTPU4);
        test(tier, GTPU6);
    }
}

fn with(parser: &str, tenant: Tenant) -> Tenant {
    Tenant { parser: number(parser).unwrap(), ..tenant }
}

/// Interface 2 is the tenant's, the others are outside; all have its parser.
fn set(bench: &mut Bench, tenant: &Tenant) {
    set_tenants(bench, core::slice::from_ref(tenant));
    let (key, parser) = (bench.key::<Tenants>(), tenant.parser);
    bench.publish(|draft| {
        draft.change(key, |all| {
            (1..=6).for_each(|at| {
                let place = all.place(at).unwrap();
                all.set_place(at, Place { parser, ..place });
            });
        });
    });
}

fn bench(tier: Tier, tenant: &Tenant) -> Bench {
    let mut bench = super::bench(tier, &[]);
    set(&mut bench, tenant);
    bench
}

/// The keys of all sessions that a parser has found, in order.
fn keys(bench: &mut Bench) -> Vec<String> {
    let mut keys: Vec<_> = seen(bench).iter().filter_map(Seen::parsed).map(|parsed| parsed.text()).collect();
    keys.sort();
    keys
}

const TUNNELS: [&str; 5] = [
    "tunnel",
    "tunnel from another port",
    "tunnel with a sequence number",
    "tunnel with an extension header",
    "tunnel behind options",
];

#[test]
fn a_tunnel_is_one_session_whatever_ports_and_headers_its_packets_have() {
    both(|tier, text| {
        let mut bench = bench(tier, &with("gtpu", tenant()));
        TUNNELS.into_iter().for_each(|name| pass(&mut bench, text, name));
        let tunnel = one(&mut bench);
        assert_eq!((tunnel.session.packets(), tunnel.session.state), ([5, 0], State::Established));
        assert_eq!((tunnel.protocol(), tunnel.endpoints().1.1, tunnel.endpoints().0.1), (17, 2152, 0));
        let to = tunnel.endpoints().1.0;
        assert_eq!(tunnel.endpoints().0.0.is_ipv4(), to.is_ipv4());
        assert_eq!(keys(&mut bench), [format!("{to} teid 0x00001234")]);
        ["another tunnel", "tunnel to another"].into_iter().for_each(|name| pass(&mut bench, text, name));
        assert_eq!(keys(&mut bench).len(), 3);
        // What goes the other way has a TEID of its own, and begins nothing where it comes in from outside.
        pass(&mut bench, text, "the way back");
        assert_eq!(seen(&mut bench).len(), 3);
    });
}

#[test]
fn what_the_parser_does_not_recognise_has_its_ordinary_session() {
    both(|tier, text| {
        let mut bench = bench(tier, &with("gtpu", tenant()));
        pass(&mut bench, text, "tunnel");
        for name in ["echo", "error indication", "version 2", "cut short"] {
            pass(&mut bench, text, name);
        }
        let all = seen(&mut bench);
        assert_eq!((all.len(), keys(&mut bench).len()), (2, 1), "all of them between ports 2152");
        pass(&mut bench, text, "another port");
        pass(&mut bench, text, "no tunnel at all");
        assert_eq!((seen(&mut bench).len(), keys(&mut bench).len()), (4, 1));
        // Fragments, the first one included, go by their ports; so do errors, which are about nothing that there is by these.
        pass(&mut bench, text, "first fragment");
        pass(&mut bench, text, "later fragment");
        assert_eq!((seen(&mut bench).len(), keys(&mut bench).len()), (4, 1));
        pass(&mut bench, text, "error about a tunnel");
        let tunnel = seen(&mut bench).into_iter().find(|seen| seen.parsed().is_some()).unwrap();
        assert_eq!(tunnel.session.packets(), [1, 0]);
    });
}

#[test]
fn vectors_of_tunnels_and_of_others_find_their_sessions() {
    both(|tier, text| {
        for vector in [1, 256] {
            let mut bench = bench(tier, &with("gtpu", tenant()));
            let names = [
                TUNNELS[0],
                "no tunnel at all",
                TUNNELS[1],
                "another tunnel",
                TUNNELS[3],
                "tunnel to another",
            ];
            let frames: Vec<_> =
                names.iter().cycle().take(256).map(|name| packet(text, name).frame).collect();
            for part in frames.chunks(vector) {
                let outcome = bench.run(2, part, vector);
                assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(part.len()), "{:?}", outcome.drops);
            }
            let mut counts: Vec<_> = seen(&mut bench).iter().map(|seen| seen.session.packets()[0]).collect();
            counts.sort_unstable();
            assert_eq!(counts, [42, 43, 43, 128], "{vector}");
        }
    });
}

#[test]
fn directions_are_the_parser_s_and_keys_are_compared_whole() {
    both(|tier, text| {
        let mut bench = bench(tier, &with("pair", tenant()));
        for name in ["pair", "pair answer", "another pair", "pair that ends otherwise"] {
            pass(&mut bench, text, name);
        }
        let all = seen(&mut bench);
        assert_eq!(all.len(), 3);
        let talked: Vec<_> = all.iter().filter(|seen| seen.session.packets() == [1, 1]).collect();
        assert_eq!(talked.len(), 1);
        assert_eq!(talked[0].session.state, State::Established);
        assert!(talked[0].parsed().unwrap().text().starts_with("pair."));
        // What the parser calls an answer begins nothing.
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| all.set_place(3, Place { tenant: 1, ..all.place(3).unwrap() }))
        });
        sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, 1);
        wait(&mut bench, 1);
        pass(&mut bench, text, "pair answer");
        assert!(seen(&mut bench).is_empty());
        pass(&mut bench, text, "pair");
        let asked = one(&mut bench).session;
        assert_eq!((asked.packets(), asked.state), ([1, 0], State::Embryonic));
        pass(&mut bench, text, "pair answer");
        let answered = one(&mut bench).session;
        assert_eq!((answered.packets(), answered.state), ([1, 1], State::Established));
    });
}

#[test]
fn keys_of_two_parsers_and_of_a_tuple_never_meet() {
    let bytes = [7; MAX_KEY];
    let one = Key::parsed(3, 1, false, &bytes);
    assert_ne!(one, Key::parsed(3, 2, false, &bytes));
    assert_ne!(one, Key::parsed(4, 1, false, &bytes));
    assert_eq!((one.parsed_by(), one.context(), one.is_v4()), (Some((1, bytes)), 3, false));
    let address = u128::from_be_bytes([7; 16]);
    for protocol in [0, 17, 52] {
        let (tuple, _) = Key::v6(3, protocol, (address, 1), (address, 0));
        assert!(tuple != one && tuple.parsed_by().is_none());
    }
}

#[test]
fn each_tunnel_has_a_policer_of_its_own() {
    both(|tier, text| {
        for vector in [1, 256] {
            let actions = [Action::Transmit, Action::Drop, Action::Drop];
            let meter = Profile { per_session: true, ..profile(packets(1, 5, 0), actions) };
            let chain = order().chain(["l4-lifecycle", "policer"]).unwrap();
            let tenant = Tenant { chain: [chain; 2], policers: [Some(policed(meter)), None], ..tenant() };
            let mut bench = bench(tier, &with("gtpu", tenant));
            let frames: Vec<_> = ["tunnel", "another tunnel", "tunnel from another port"]
                .iter()
                .cycle()
                .take(30)
                .map(|name| packet(text, name).frame)
                .collect();
            let sent: usize = frames
                .chunks(vector)
                .map(|part| bench.run(2, part, vector).sent.get(&3).map_or(0, Vec::len))
                .sum();
            assert_eq!(sent, 10, "five of each tunnel, {vector}");
        }
    });
}

#[test]
fn tunnels_time_out_count_against_quotas_and_are_cleared() {
    both(|tier, text| {
        let mut bench = bench(tier, &Tenant { max_sessions: 2, ..with("gtpu", tenant()) });
        ["tunnel", "another tunnel", "tunnel to another"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        assert_eq!(keys(&mut bench).len(), 2, "one has made room");
        let to = packet(text, "tunnel to another");
        let address = seen(&mut bench).iter().map(|seen| seen.endpoints().1.0).max().unwrap();
        let filter =
            |filter: Filter| move |bench: &mut Bench| sessions(bench).look(&filter, 0, u32::MAX).0.len();
        let address = Filter { address: Some(address), ..Filter::default() };
        assert_eq!(filter(address)(&mut bench), 1);
        assert_eq!(filter(Filter { parser: number("gtpu"), ..Filter::default() })(&mut bench), 2);
        assert_eq!(filter(Filter { parser: number("pair"), ..Filter::default() })(&mut bench), 0);
        let udp = Filter { protocol: Some(17), port: Some(2152), ..Filter::default() };
        assert_eq!(filter(udp)(&mut bench), 2);
        let now = bench.now;
        assert_eq!(sessions(&mut bench).clear(&address, 0, u32::MAX, now).0, 1);
        wait(&mut bench, 1);
        assert_eq!(keys(&mut bench).len(), 1);
        // Embryonic until its second packet, and then as other datagrams.
        bench.run(2, &[to.frame.clone(), to.frame], 2);
        wait(&mut bench, 10);
        assert_eq!(keys(&mut bench).len(), 1);
        wait(&mut bench, 120);
        assert!(seen(&mut bench).is_empty());
    });
}

#[test]
fn a_tenant_that_loses_its_parser_loses_what_it_has_found() {
    both(|tier, text| {
        let mut bench = bench(tier, &with("gtpu", tenant()));
        ["tunnel", "no tunnel at all"].into_iter().for_each(|name| pass(&mut bench, text, name));
        set(&mut bench, &tenant());
        wait(&mut bench, 1);
        assert_eq!((keys(&mut bench).len(), seen(&mut bench).len()), (0, 1));
        pass(&mut bench, text, "tunnel");
        assert_eq!((keys(&mut bench).len(), seen(&mut bench).len()), (0, 2));
        set(&mut bench, &with("pair", tenant()));
        pass(&mut bench, text, "tunnel");
        assert_eq!(seen(&mut bench).len(), 2, "another parser doesn't recognise it");
    });
}

#[test]
fn a_tunnel_is_one_worker_s() {
    both(|tier, text| {
        let tenant = with("gtpu", tenant());
        let mut owners = [0; 2];
        for seed in 1..9 {
            let mut workers = workers_of(tier, [seed; 4], &tenant);
            workers.iter_mut().for_each(|worker| set(worker, &tenant));
            let owner = send(&mut workers, 0, text, "tunnel");
            for (at, name) in [1, 0, 1, 0].into_iter().zip(&TUNNELS[1..]) {
                assert_eq!(send(&mut workers, at, text, name), owner, "{name}");
            }
            assert_eq!(one(&mut workers[owner]).session.packets(), [5, 0]);
            assert!(seen(&mut workers[1 - owner]).is_empty());
            owners[owner] += 1;
        }
        assert!(owners.iter().all(|tunnels| *tunnels > 0), "tunnels are shared out: {owners:?}");
    });
}

#[test]
fn explain_says_which_key_it_found() {
    both(|tier, text| {
        let mut bench = bench(tier, &with("gtpu", tenant()));
        let key = bench.key::<Tenants>();
        let known = Known {
            tenants: bench.publisher.current().share(key),
            fibs: bench.publisher.current().share(bench.key()),
            hops: bench.publisher.current().share(bench.key()),
            plan: Arc::clone(&bench.plan),
            now: bench.now,
        };
        pass(&mut bench, text, "tunnel");
        let tunnel = one(&mut bench);
        let ask = |bench: &mut Bench, payload: &[u8]| {
            let (nobody, to): (Endpoint, Endpoint) = tunnel.endpoints();
            let packet = Imagined {
                interface: 2,
                vrf: 0,
                protocol: IpProtocol::UDP,
                source: (nobody.0, 40000),
                destination: to,
                flags: 0,
                icmp: (0, 0),
                payload: Payload::new(payload).unwrap(),
            };
            let explained = sessions(bench).explain(&known, 0, &packet);
            assert_eq!(explained.outcome, Outcome::Passes);
            explained
        };
        let explained = ask(&mut bench, &[0x30, 255, 0, 0, 0, 0, 0x12, 0x34]);
        assert_eq!(
            explained.steps[0].found,
            format!("found by the parser gtpu: {} teid 0x00001234", tunnel.endpoints().1.0)
        );
        assert_eq!(explained.session.map(|seen| seen.handle), Some(tunnel.handle));
        let other = ask(&mut bench, &[0x30, 255, 0, 0, 0, 0, 0x12, 0x35]);
        assert!(other.session.is_none() && other.steps[0].found.contains("0x00001235"));
        assert_eq!(other.steps[1].object, Some(Object::Tenant(1)));
        let none = ask(&mut bench, &[]);
        assert!(none.steps[0].found.contains("doesn't recognise it"), "{:?}", none.steps);
        assert!(Payload::new(&[0; 65]).is_none());
    });
}
