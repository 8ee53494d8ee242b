//! Packets of the generator against those that scapy builds from the same values (`vectors/stacks.py`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use core::cell::Cell;
use memory::simd::{Simd, Tier, TierTask};
use quiver_tgen::link::Packets;
use quiver_tgen::plan::{Content, Plan};
use quiver_tgen::profile;
use quiver_tgen::stateless::{Generator, Layout, Mark, Recipe};
use std::path::Path;

/// Whose the signatures of the vectors are.
const MARK: Mark = Mark { run: 0x5678, lane: 0x1234, stamped: false };

struct Row {
    name: &'static str,
    signed: bool,
    plan: Plan,
    packets: Vec<(usize, Vec<u8>)>,
}

fn rows() -> Vec<Row> {
    let text = include_str!("vectors/stacks.txt");
    let rows = text.split("\nrow ").skip(1).map(|row| {
        let (name, rest) = row.split_once('\n').unwrap();
        let (stream, packets) = rest.split_once("packets\n").unwrap();
        let (signed, stream) = stream.strip_prefix("signed\n").map_or((false, stream), |rest| (true, rest));
        let text = format!("[loop]\n[[stream]]\ntx = \"loop-client\"\n{stream}");
        let plan = profile::parse(Path::new("row"), &text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let packet = |line: &str| {
            let (n, bytes) = line.split_once(' ').unwrap();
            (n.parse().unwrap(), hex(bytes))
        };
        Row { name, signed, plan, packets: packets.lines().filter(|l| !l.is_empty()).map(packet).collect() }
    });
    rows.collect()
}

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn recipe(row: &Row) -> Recipe {
    let Content::Made { stack, size } = &row.plan.streams[0].content else { panic!("{}", row.name) };
    let layout = Layout::new(stack).unwrap();
    let (lens, order) = size.pattern(0, 1).unwrap();
    let signature = row.signed.then_some(MARK);
    let lane = signature.map(|mark| mark.lane);
    let templates = lens.iter().map(|len| layout.template(*len, lane, false).unwrap()).collect();
    Recipe { layout, templates, order, signature, seed: 1 }
}

/// The first 300 packets, sent in pieces of several sizes as rings allow.
struct First300<const LINES: usize>(Recipe);

impl<const LINES: usize> TierTask for First300<LINES> {
    type Output = Vec<Vec<u8>>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        simd.run(|| {
            let mut generator = Generator::<LINES>::new(self.0);
            let mut packets = Vec::new();
            while packets.len() < 300 {
                let n = generator.prepare().min(1 + packets.len() % 50);
                for packet in 0..n {
                    let mut frame = vec![0xee; generator.len(packet) as usize];
                    generator.write(packet, Cell::from_mut(&mut *frame).as_slice_of_cells(), true, || 0);
                    packets.push(frame);
                }
                generator.sent(n);
            }
            packets
        })
    }
}

#[test]
fn packets_are_those_of_scapy() {
    let rows = rows();
    assert!(rows.len() > 30, "{} rows", rows.len());
    for row in &rows {
        let recipe = recipe(row);
        for tier in Tier::available() {
            let mut ways = vec![(3, tier.dispatch(First300::<3>(recipe.clone())))];
            if recipe.layout.headers <= 128 {
                ways.push((2, tier.dispatch(First300::<2>(recipe.clone()))));
            }
            if recipe.layout.headers <= 64 {
                ways.push((1, tier.dispatch(First300::<1>(recipe.clone()))));
            }
            for (lines, made) in ways {
                for (n, expected) in &row.packets {
                    let made = &made[*n];
                    assert!(
                        made == expected,
                        "{}, packet {n}, {lines} lines, {}:\n{}\nscapy:\n{}",
                        row.name,
                        tier.name(),
                        text(made),
                        text(expected)
                    );
                }
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn two_runs_of_a_seed_are_the_same_and_of_another_are_not() {
    let text = r#"
        [loop]
        [[stream]]
        tx = "loop-client"
        size = "64-1518"
        stack = [
          { ethernet = { dst = "02:00:00:00:00:01", src = "02:00:00:00:00:02" } },
          { ipv4 = { src = "10.0.0.2", dst = { from = "10.0.0.0", to = "10.255.255.255", order = "random" } } },
          { udp = { src = { from = 1024, to = 65535, order = "random" }, dst = 9 } },
        ]"#;
    let packets = |seed| {
        let plan = profile::parse(Path::new("p"), text).unwrap();
        let Content::Made { stack, size } = &plan.streams[0].content else { panic!() };
        let layout = Layout::new(stack).unwrap();
        let (lens, order) = size.pattern(0, seed).unwrap();
        let templates = lens.iter().map(|len| layout.template(*len, None, false).unwrap()).collect();
        Tier::detect().dispatch(First300::<1>(Recipe { layout, templates, order, signature: None, seed }))
    };
    assert_eq!(packets(7), packets(7));
    let (one, other) = (packets(7), packets(8));
    assert!(one.iter().zip(&other).filter(|(a, b)| a == b).count() < 3);
}
