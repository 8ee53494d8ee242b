//! Measures the MAC table: nanoseconds per lookup (one at a time and in vectors of 256, half of the slots in use,
//! random order) and per learned address.
//!
//! `cargo run --release -p quiver-tables --example mac_bench`

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use quiver_tables::mac::{Learned, MacKey, MacTable, Plain};

const LOOKUPS: usize = 1 << 20;
const RUNS: usize = 5;

fn main() {
    println!(
        "{:>10} {:>10} {:>10} {:>12} {:>10} {:>10}",
        "addresses", "single ns", "vector ns", "absent ns", "new ns", "known ns"
    );
    for addresses in [256usize, 1 << 12, 1 << 16, 1 << 20] {
        let table = MacTable::with_capacity(addresses).unwrap();
        let keys: Vec<MacKey> = (0..addresses as u64).map(key).collect();
        let new = nanos(addresses, 1, || {
            for (at, &key) in keys.iter().enumerate() {
                assert_eq!(table.learn(key, at as u32 & 0xffff, 1), Learned::New);
            }
        });
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let asked: Vec<MacKey> = (0..LOOKUPS).map(|_| key(random() % addresses as u64)).collect();
        let absent: Vec<MacKey> = asked.iter().map(|key| MacKey::new(9, key.mac())).collect();
        let single = nanos(LOOKUPS, RUNS, || asked.iter().for_each(|&key| _ = black_box(table.lookup(key))));
        let known = nanos(LOOKUPS, RUNS, || {
            asked.iter().for_each(|&key| _ = black_box(table.learn(key, table.lookup(key).unwrap_or(0), 1)));
        });
        println!(
            "{addresses:>10} {single:>10.2} {:>10.2} {:>12.2} {new:>10.1} {known:>10.2}",
            vector(&table, &asked),
            vector(&table, &absent)
        );
    }
}

fn vector(table: &MacTable, keys: &[MacKey]) -> f64 {
    let mut out = [0; 256];
    nanos(LOOKUPS, RUNS, || {
        for keys in keys.chunks(256) {
            table.lookup_batch(keys, 0, &mut out, Plain);
            black_box(&out);
        }
    })
}

fn key(number: u64) -> MacKey {
    let [_, _, mac @ ..] = (0x0200_0000_0000 | ((number * 0x1_0001) & 0xff_ffff_ffff)).to_be_bytes();
    MacKey::new(1, mac)
}

/// The best of some runs: what others do on the machine only ever adds.
fn nanos(count: usize, runs: usize, mut run: impl FnMut()) -> f64 {
    let best = (0..runs).map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_secs_f64()
    });
    best.fold(f64::INFINITY, f64::min) * 1e9 / count as f64
}
