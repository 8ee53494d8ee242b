//! What following sessions costs: TSC clocks per packet, node by node, and all of a round.
//!
//! ```sh
//! cargo run --release -p quiver-features --features testing --example session_clocks -- [udp|udp6|stats|stats-come|policer|nat|begin|nat-begin|tcp] [sessions] [rounds]
//! ```
//!
//! * `udp`: datagrams of that many sessions at random, one way, `l4-lifecycle`; `udp6`: of IPv6; `nat`: translated; `stats`: with `session-stats`;
//!   `stats-come`: that service is new to all of them when measuring begins, so that the longest round is what counts; `policer`: metered, within the rate.
//! * `begin`: each datagram is a session's first and only one; what is over makes room after a second; `nat-begin`: the same, translated.
//! * `tcp`: whole connections of seven packets without data, `tcp-check`, each of them begun anew when all others have been; 28 000 of them
//!   are under way at once, as in `quiver-tgen replay`.
//!
//! Packets are made in memory and end in a sink: what a port costs is measured with real ports, and what comes in by one leaves less room
//! in the caches. A round takes the time that its packets take at ten million in a second, so that timers are due as in earnest.

mod clocks;
#[path = "clocks/rate.rs"]
mod rate;

use clocks::{Clocks, Sink, or_exit, print_packets};
use graph::IfIndex;
use graph::packet::Packets;
use graph::port::{Attachment, PortFault, Quota, Received, RxMode, RxPort, RxQueue};
use graph::simd::Tier;
use quiver_features::interface::{Interface, InterfaceAddress, LinkMode};
use quiver_features::ip::control::{Forwarding, Path, Prefix, Via};
use quiver_features::policer::Policed;
use quiver_features::session::nat::Pool;
use quiver_features::session::tenants::{Occupancy, TIMERS, ticks_of_seconds};
use quiver_features::session::{Place, Tenant, Tenants, order};
use quiver_features::testing::Bench;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use wire::checksum::update_u32;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::{EtherType, EthernetHeader, Header, IntoBytes, IpProtocol, MacAddr, TcpFlags, UdpHeader};

/// Packets that come in together.
const BURST: usize = 128;
/// Bursts of connections that begin between two packets of one.
const APART: u64 = 32;
/// Nanoseconds of a packet.
const PACKET_NS: u64 = 100;
/// Whom IPv6 is sent to, and by whom.
const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 20, 0, 0, 0, 0, 1);
const ROUTER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

/// A packet of a connection: who sends it, its flags, and how far both sides are.
type Step = (bool, TcpFlags, u32, u32);

const STEPS: [Step; 7] = [
    (true, TcpFlags::SYN, 0, 0),
    (false, TcpFlags::SYN.union(TcpFlags::ACK), 0, 1),
    (true, TcpFlags::ACK, 1, 1),
    (true, TcpFlags::FIN.union(TcpFlags::ACK), 1, 1),
    (false, TcpFlags::ACK, 1, 2),
    (false, TcpFlags::FIN.union(TcpFlags::ACK), 1, 2),
    (true, TcpFlags::ACK, 2, 2),
];

/// What comes in.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// One way, at random.
    Udp,
    /// Each one new.
    Begin,
    /// Whole connections.
    Tcp,
}

/// Makes packets, from either side.
struct Traffic {
    kind: Kind,
    sessions: u32,
    random: u32,
    /// Bursts of which steps were made, and steps of this one.
    turn: u64,
    step: usize,
    /// Of UDP, of TCP from the client and from the server.
    frames: [Vec<u8>; 3],
    /// UDP is of IPv6.
    six: bool,
}

impl Traffic {
    /// The side that sends next.
    fn is_clients_turn(&self) -> bool {
        self.kind != Kind::Tcp || STEPS[self.step].0
    }

    /// The next burst: a template, and what is to be replaced in it.
    fn burst(&mut self, mut each: impl FnMut(&[u8])) {
        if self.kind != Kind::Tcp {
            for at in 0..BURST as u32 {
                self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let number = match self.kind {
                    Kind::Begin => (self.turn as u32).wrapping_mul(BURST as u32).wrapping_add(at),
                    _ => ((u64::from(self.random) * u64::from(self.sessions)) >> 32) as u32,
                };
                let frame = &mut self.frames[0];
                match self.six {
                    // Nobody here asks about UDP's checksum.
                    true => frame[34..38].copy_from_slice(&number.to_be_bytes()),
                    false => address(frame, 26, number),
                }
                each(frame);
            }
            self.turn += 1;
            return;
        }
        let (from_client, flags, sequence, acknowledgment) = STEPS[self.step];
        let begun = self.turn.checked_sub(self.step as u64 * APART);
        self.step = (self.step + 1) % STEPS.len();
        self.turn += u64::from(self.step == 0);
        let Some(begun) = begun else { return };
        let frame = &mut self.frames[1 + usize::from(!from_client)];
        for at in 0..BURST as u64 {
            let all = begun * BURST as u64 + at;
            let (number, again) =
                ((all % u64::from(self.sessions)) as u32, (all / u64::from(self.sessions)) as u32);
            address(frame, if from_client { 26 } else { 30 }, number);
            // Each connection goes on where the one before ended.
            let both = [sequence, acknowledgment].map(|number| number.wrapping_add(again * 1000));
            frame[38..42].copy_from_slice(&both[0].to_be_bytes());
            frame[42..46].copy_from_slice(&both[1].to_be_bytes());
            frame[47] = flags.bits();
            each(frame);
        }
    }
}

/// Replaces an address of client `number`, and has the header's checksum follow.
fn address(frame: &mut [u8], at: usize, number: u32) {
    let word = |frame: &[u8]| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (old, new) = (word(frame), 0x1000_0000 + number % 0x00ff_ffff);
    let checksum = update_u32(u16::from_be_bytes([frame[24], frame[25]]), old, new);
    frame[at..at + 4].copy_from_slice(&new.to_be_bytes());
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// A side of it.
struct Source {
    traffic: Arc<Mutex<Traffic>>,
    client: bool,
}

impl RxQueue for Source {
    fn receive(
        &mut self,
        _: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fault = None;
        while packets.taken() - first + BURST <= quota.packets && traffic.is_clients_turn() == self.client {
            traffic.burst(|frame| {
                let read = |room: &mut [u8]| {
                    room.copy_from_slice(frame);
                    Ok((0, frame.len()))
                };
                fault = fault.take().or(packets.receive_private(rx_if, frame.len(), read).err());
            });
        }
        if let Some(error) = fault {
            return Err(PortFault { kind: "source", reason: error.to_string() });
        }
        let slots = first..packets.taken();
        Ok(Received { bytes: 60 * slots.len() as u64, slots, ..Received::default() })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "udp".into());
    let mut number = || arguments.next().and_then(|text| text.parse::<u32>().ok());
    let (sessions, rounds) = (number().unwrap_or(10_000).max(1), number().unwrap_or(20_000));
    let (kind, services) = match what.as_str() {
        "tcp" => (Kind::Tcp, &["tcp-check"][..]),
        "begin" => (Kind::Begin, &["l4-lifecycle"][..]),
        "nat" => (Kind::Udp, &["l4-lifecycle", "nat"][..]),
        "nat-begin" => (Kind::Begin, &["l4-lifecycle", "nat"][..]),
        "stats" => (Kind::Udp, &["l4-lifecycle", "session-stats"][..]),
        "policer" => (Kind::Udp, &["l4-lifecycle", "policer"][..]),
        _ => (Kind::Udp, &["l4-lifecycle"][..]),
    };
    or_exit(memory::heap::start_backing());
    tables::backing::set(memory::heap::back_ahead);
    let mut bench = network();
    let (addresses, occupancy) = (if kind == Kind::Begin { 0x3ff } else { 0x1f }, Arc::default());
    set_tenant(&mut bench, services, addresses, &occupancy);
    let six = what == "udp6";
    let mut frames = frames();
    if six {
        frames[0] = datagram6();
    }
    let traffic = Traffic { kind, sessions, random: 1, turn: 0, step: 0, frames, six };
    let traffic = Arc::new(Mutex::new(traffic));
    if let Some(queues) = bench.graph.queues("test-input") {
        let port = |index| {
            let source = Source { traffic: Arc::clone(&traffic), client: index == 1 };
            RxPort::new(index, 0, RxMode::Polling, Box::new(source))
        };
        queues.take(|_| true);
        queues.add(port(1));
        queues.add(port(2));
    }
    // Until each session has been there once, and those under way at once are.
    let mut received = 0;
    let begun = if kind == Kind::Begin { 0 } else { u64::from(sessions) * 7 + 200_000 };
    while received < begun {
        received += round(&mut bench);
    }
    if what == "stats-come" {
        set_tenant(&mut bench, &["l4-lifecycle", "session-stats"], addresses, &occupancy);
    }
    measure(&mut bench, &what, sessions, rounds);
}

fn round(bench: &mut Bench) -> u64 {
    let before = received(bench);
    bench.round();
    let received = received(bench) - before;
    bench.now += received * PACKET_NS;
    received
}

fn received(bench: &Bench) -> u64 {
    let input = bench.plan.node("test-input").map_or(0, usize::from);
    bench.graph.counters().runtime[input].packets.get()
}

fn measure(bench: &mut Bench, what: &str, sessions: u32, rounds: u32) {
    let (mut clocks, begun) = (Clocks::start(bench), Instant::now());
    let (mut packets, mut longest) = (0, 0.0_f64);
    for _ in 0..rounds {
        let start = Instant::now();
        packets += round(bench);
        longest = longest.max(start.elapsed().as_secs_f64());
        clocks.note(bench);
    }
    let elapsed = begun.elapsed().as_secs_f64();
    print!("{what} {sessions}:");
    for (node, median, mean) in clocks.of_nodes(bench) {
        print!("  {node} {median:.1} ({mean:.1})");
    }
    println!(
        "; {:.1} ns a packet in all, longest round {:.0} us",
        elapsed * 1e9 / packets as f64,
        longest * 1e6
    );
    print_packets(bench);
}

/// Clients behind interface 1, servers behind interface 2, sessions on both.
fn network() -> Bench {
    let tier = Tier::available().into_iter().next_back().unwrap_or_else(Tier::detect);
    let mut bench = Bench::new(tier);
    let mut forwarding = or_exit(Forwarding::new(&bench.plan.schema));
    for index in 1..=2 {
        let own = InterfaceAddress { address: [10, 0, index as u8, 1].into(), prefix_len: 24 };
        let own6 = Ipv6Addr::new(0x2001, 0xdb8, index, 0, 0, 0, 0, 1);
        let own6 = InterfaceAddress { address: own6.into(), prefix_len: 64 };
        let interface = Interface {
            exists: true,
            up: true,
            mode: LinkMode::Ethernet,
            mac: MacAddr([2, 0, 0, 0, 0, index as u8]),
            mtu: 1500,
            addresses: Arc::new(vec![own, own6]),
            ..Interface::default()
        };
        bench.add_port(index, interface.clone(), "ethernet-input");
        bench.chain("ip4-unicast", index, &["ip4-session-input"], "ip4-lookup");
        bench.chain("ip6-unicast", index, &["ip6-session-input"], "ip6-lookup");
        or_exit(forwarding.set_interface(index, Some(&interface)));
        bench.graph.ports.attach(index, Attachment::default(), Box::new(Sink(60)));
        let peer: IpAddr = [10, 0, index as u8, 2].into();
        or_exit(forwarding.set_neighbour(index, peer, Some(MacAddr([2, 0, 0, 0, 9, index as u8]))));
        let via = [Path::from(Via::Address { address: peer, interface: None })];
        let behind = Ipv4Addr::new(if index == 1 { 16 } else { 20 }, 0, 0, 0);
        or_exit(forwarding.add_route(0, or_exit(Prefix::covering(behind.into(), 8)), &via));
        if index == 2 {
            let router: IpAddr = ROUTER6.into();
            or_exit(forwarding.set_neighbour(index, router, Some(MacAddr([2, 0, 0, 0, 9, 2]))));
            let via = [Path::from(Via::Address { address: router, interface: Some(index) })];
            or_exit(forwarding.add_route(0, or_exit(Prefix::covering(SERVER6.into(), 64)), &via));
        }
    }
    bench.commit(&mut forwarding);
    bench
}

/// `addresses`: of the pool that sessions are translated to, but for one.
fn set_tenant(bench: &mut Bench, services: &[&str], addresses: u32, occupancy: &Arc<Occupancy>) {
    let seconds: [u32; TIMERS] = [1, 120, 7440, 60, 240, 1, 30];
    let pool = Pool {
        name: "out".into(),
        addresses: vec![0xc612_0000..=0xc612_0000 + addresses],
        ports: 1024..=u16::MAX,
        deterministic: None,
        blocks: None,
        mappings: Default::default(),
        prefixes: Default::default(),
        figures: Arc::default(),
    };
    let tenant = Tenant {
        name: "red".into(),
        timeouts: seconds.map(ticks_of_seconds),
        max_sessions: 16_000_000,
        max_new_per_second: 0,
        source_limit: None,
        early_syn_drop: false,
        parser: 0,
        scope: 0,
        policy: 1,
        chain: [or_exit(order().chain(services.iter().copied())); 2],
        slow_path: Default::default(),
        midstream: Default::default(),
        classes: Vec::new(),
        outside: vec![2],
        uncounted: Vec::new(),
        nat: Some(Arc::new(pool)),
        acls: Vec::new(),
        keep_sessions: false,
        policers: [Some(Arc::new(Policed::new(&rate::profile(), Arc::default(), bench.now))), None],
        redirect: None,
        occupancy: Arc::clone(occupancy),
    };
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += 1;
            all.per_worker = 16_000_000;
            all.set(1, Some(tenant));
            all.set_place(1, Place { tenant: 1, ..Place::default() });
            all.set_place(2, Place { tenant: 0, ..Place::default() });
        });
    });
}

/// A datagram of IPv6 to the server, 72 bytes.
fn datagram6() -> Vec<u8> {
    let (client, len) = (Ipv6Addr::new(0x2001, 0xdb8, 16, 0, 0, 0, 0, 0), 18);
    let macs = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 9, 1]));
    let ethernet = EthernetHeader { dst: macs.0, src: macs.1, ethertype: EtherType::IPV6 };
    let mut frame = ethernet.as_bytes().to_vec();
    frame.extend(Ipv6Header::new(client, SERVER6, IpProtocol::UDP, 64, len).as_bytes());
    frame.extend(UdpHeader::new(9, 9, len).as_bytes());
    frame.resize(14 + Ipv6Header::LEN + usize::from(len), 0);
    frame
}

/// 60 bytes of UDP, of TCP to the server, and from it.
fn frames() -> [Vec<u8>; 3] {
    let (client, server) = (Ipv4Addr::new(16, 0, 0, 0), Ipv4Addr::new(20, 0, 0, 1));
    let frame = |(src, dst, index): (Ipv4Addr, Ipv4Addr, u8), protocol, len, ports: [u16; 2]| {
        let macs = (MacAddr([2, 0, 0, 0, 0, index]), MacAddr([2, 0, 0, 0, 9, index]));
        let ethernet = EthernetHeader { dst: macs.0, src: macs.1, ethertype: EtherType::IPV4 };
        let mut frame = ethernet.as_bytes().to_vec();
        frame.extend(Ipv4Header::new(src, dst, protocol, 64, len).as_bytes());
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.resize(60, 0);
        frame
    };
    let tcp = |ends, ports| {
        let mut frame = frame(ends, IpProtocol::TCP, 40, ports);
        (frame[46], frame[48]) = (5 << 4, 0x20);
        frame
    };
    let mut udp = frame((client, server, 1), IpProtocol::UDP, 46, [9, 9]);
    udp[39] = 26;
    [udp, tcp((client, server, 1), [1024, 80]), tcp((server, client, 2), [80, 1024])]
}
