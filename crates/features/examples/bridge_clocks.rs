//! What bridging costs with many stations: TSC clocks per packet, node by node, for 64-byte frames in vectors of 128.
//!
//! ```sh
//! cargo run --release -p quiver-features --features testing --example bridge_clocks -- [stations] [rounds] [tier]
//! ```
//!
//! Half of the stations are behind either port, all of them learned, in a table as large as `quiverd`'s; each frame goes from one to another
//! across, both chosen at random. Frames are made in memory and end in a sink: what a port costs is measured with real ports, and what comes
//! in by one leaves less room in the caches. A round takes the time that its packets take at twenty million in a second, so that stations are
//! seen anew by the second as in earnest.

mod clocks;

use clocks::{Clocks, Sink, or_exit, print_packets};
use graph::IfIndex;
use graph::packet::Packets;
use graph::port::{Attachment, PortFault, Quota, Received, RxMode, RxPort, RxQueue};
use graph::simd::Tier;
use quiver_features::bridge::Bridges;
use quiver_features::bridge::control::BridgeConfig;
use quiver_features::interface::{Interface, Interfaces, Layer2};
use quiver_features::testing::Bench;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use tables::mac::{MacKey, MacTable};
use wire::{EtherType, EthernetHeader, IntoBytes, MacAddr};

const BRIDGE: u16 = 1;
/// Addresses that `quiverd` makes its table for.
const ADDRESSES: usize = 1 << 20;
/// Nanoseconds of a packet.
const PACKET_NS: u64 = 50;
const FRAME: usize = 64;

/// Makes frames from stations behind one port to stations behind the other.
struct Source {
    /// Behind either port.
    stations: u32,
    random: u64,
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
        for _ in 0..quota.packets {
            let [src, dst] = [rx_if, 3 - rx_if].map(|index| station(index, self.next()));
            let header = EthernetHeader { dst, src, ethertype: EtherType::new(0x88b5) };
            let read = |room: &mut [u8]| {
                room.fill(0);
                room[..size_of::<EthernetHeader>()].copy_from_slice(header.as_bytes());
                Ok((0, FRAME))
            };
            let taken = packets.receive_private(rx_if, FRAME, read);
            taken.map_err(|error| PortFault { kind: "source", reason: error.to_string() })?;
        }
        let slots = first..packets.taken();
        Ok(Received { bytes: (FRAME * slots.len()) as u64, slots, ..Received::default() })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Source {
    /// The number of a station.
    fn next(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (((self.random >> 32) * u64::from(self.stations)) >> 32) as u32
    }
}

/// The address of a station.
fn station(index: IfIndex, number: u32) -> MacAddr {
    let [a, b, c, d] = number.to_be_bytes();
    MacAddr([2, index as u8, a, b, c, d])
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|text| text.parse::<u32>().ok());
    let (stations, rounds) = (number(0).unwrap_or(10_000).div_ceil(2).max(1), number(1).unwrap_or(20_000));
    let tier = words.get(2).and_then(|name| Tier::named(name)).unwrap_or_else(Tier::detect);
    let mut bench = Bench::new(tier);
    for index in 1..=2 {
        let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: false };
        let member = Interface { exists: true, up: true, mtu: 1500, layer2, ..Interface::default() };
        bench.add_port(index, member, "bridge-input");
        bench.graph.ports.attach(index, Attachment::default(), Box::new(Sink(FRAME as u64)));
    }
    let macs = Arc::new(or_exit(MacTable::with_capacity(ADDRESSES)));
    for (index, number) in (0..stations).flat_map(|number| [(1, number), (2, number)]) {
        macs.learn(MacKey::new(BRIDGE, station(index, number).0), index.into(), 0);
    }
    let learned = macs.len();
    let (bridges, interfaces) = (bench.key::<Bridges>(), bench.key::<Interfaces>());
    bench.publish(|draft| {
        let (config, mut table) = (BridgeConfig::default(), Bridges::new(macs));
        table.set(BRIDGE, Some(or_exit(config.build(BRIDGE, draft.get(interfaces)))));
        draft.set(bridges, table);
    });
    if let Some(queues) = bench.graph.queues("test-input") {
        queues.take(|_| true);
        for index in 1..=2 {
            let source = Box::new(Source { stations, random: index.into() });
            queues.add(RxPort::new(index, 0, RxMode::Polling, source));
        }
    }
    let mut clocks = Clocks::start(&bench);
    for _ in 0..rounds {
        bench.round();
        bench.now += 2 * 128 * PACKET_NS;
        clocks.note(&bench);
    }
    print!("{:7} {learned:8} stations:", tier.name());
    for (node, median, mean) in clocks.of_nodes(&bench) {
        print!("  {node} {median:.1} ({mean:.1})");
    }
    println!();
    print_packets(&bench);
}
