//! Measures the FIB: nanoseconds per lookup (one at a time and in vectors of 256), inserts and withdrawals per
//! second (single ones in random order, and batches in order of address), and memory, for tables of several shapes; beside it other
//! structures for the same question.
//!
//! `cargo run --release -p quiver-tables --example fib_bench [shape…]`

#![allow(clippy::unwrap_used)]

mod rivals;
mod shapes;

use std::hint::black_box;
use std::time::Instant;

use quiver_tables::fib::{Address, Fib, FibWriter, NextHopId, RouteChange};
use rivals::{Direct16, Direct24, Dxr, Lengths, Poptrie, Rival};
use shapes::{Random, Route};

/// Addresses of a run: more than fit any table's working set into the cache by chance.
const LOOKUPS: usize = 1 << 21;
const VECTOR: usize = 256;
const RUNS: usize = 5;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|want| name.contains(want.as_str()));
    println!(
        "{:<16} {:>8} {:>8} {:>9} {:>9} {:>8} {:>9} {:>8} {:>8}  others: vector ns (MB)",
        "table", "routes", "single", "vector", "insert", "withdraw", "in order", "trie", "list"
    );
    println!(
        "{:<16} {:>8} {:>8} {:>9} {:>9} {:>8} {:>9} {:>8} {:>8}",
        "", "", "ns", "ns", "M/s", "M/s", "M/s", "MB", "MB"
    );
    type Shape4 = (&'static str, fn() -> Vec<Route<u32>>);
    let shapes4: [Shape4; 7] = [
        ("ip4 default", || vec![(0, 0, 1)]),
        ("ip4 pods 1k", || shapes::dense4(1000)),
        ("ip4 net 100k", || shapes::internet4(100_000)),
        ("ip4 net 1M", || shapes::internet4(1_000_000)),
        ("ip4 dense 2M", || shapes::dense4(2_000_000)),
        ("ip4 random 100k", || shapes::hosts4(100_000)),
        ("ip4 random 2M", || shapes::hosts4(2_000_000)),
    ];
    for (name, routes) in shapes4.into_iter().filter(|(name, _)| chosen(name)) {
        let routes = routes();
        let mut random = Random(1);
        let addrs: Vec<u32> = (0..LOOKUPS).map(|_| shapes::address4(&routes, &mut random)).collect();
        let ids = measure(name, &routes, &addrs);
        rival::<_, Direct16>(&routes, &addrs, &ids);
        rival::<_, Direct24>(&routes, &addrs, &ids);
        rival::<_, Poptrie>(&routes, &addrs, &ids);
        rival::<_, Dxr>(&routes, &addrs, &ids);
        println!();
    }
    type Shape6 = (&'static str, fn() -> Vec<Route<u128>>);
    let shapes6: [Shape6; 3] = [
        ("ip6 default", || vec![(0, 0, 1)]),
        ("ip6 pods 1k", || {
            (0..1000).map(|at| (0xfd00_0010_0244_0000_u128 << 64 | at, 128, 1 + at as u32)).collect()
        }),
        ("ip6 net 250k", || shapes::internet6(250_000)),
    ];
    for (name, routes) in shapes6.into_iter().filter(|(name, _)| chosen(name)) {
        let routes = routes();
        let mut random = Random(1);
        let addrs: Vec<u128> = (0..LOOKUPS).map(|_| shapes::address6(&routes, &mut random)).collect();
        let ids = measure(name, &routes, &addrs);
        rival::<_, Direct16>(&routes, &addrs, &ids);
        rival::<_, Poptrie>(&routes, &addrs, &ids);
        rival::<_, Lengths<u128>>(&routes, &addrs, &ids);
        println!();
    }
}

/// Gives what lookups of the addresses find.
fn measure<A: Address>(name: &str, routes: &[Route<A>], addrs: &[A]) -> Vec<u32> {
    let mut writer = FibWriter::<A>::new().unwrap();
    // With a reader in existence and regular grace periods: as the control thread does it.
    let fib = writer.reader();
    let seconds = timed(|| {
        for chunk in routes.chunks(1024) {
            for &(prefix, len, id) in chunk {
                writer.insert(prefix, len, NextHopId(id)).unwrap();
            }
            let mark = writer.retire_mark();
            writer.reclaim(mark);
        }
    });
    let usage = writer.usage();
    let single = best(|| {
        for &addr in addrs {
            black_box(fib.lookup(addr));
        }
    });
    let vector = best_batch(addrs, |addrs, out| batch(&fib, addrs, out));
    let ids = addrs.iter().map(|addr| fib.lookup(*addr).0).collect();
    let in_order = in_order(routes);
    let withdrawn = &routes[..routes.len().div_ceil(4)];
    let withdraw = timed(|| {
        for chunk in withdrawn.chunks(1024) {
            for &(prefix, len, _) in chunk {
                writer.remove(prefix, len).unwrap();
            }
            let mark = writer.retire_mark();
            writer.reclaim(mark);
        }
    });
    print!(
        "{name:<16} {:>8} {single:>8.2} {vector:>9.2} {:>9.2} {:>8.2} {in_order:>9.2} {:>8.1} {:>8.1} ",
        routes.len(),
        routes.len() as f64 / seconds / 1e6,
        withdrawn.len() as f64 / withdraw / 1e6,
        usage.trie as f64 / 1e6,
        usage.rib as f64 / 1e6,
    );
    ids
}

/// Millions of routes per second into an empty table, in order of address, in batches.
fn in_order<A: Address>(routes: &[Route<A>]) -> f64 {
    let mut sorted: Vec<RouteChange<A>> =
        routes.iter().map(|&(prefix, len, id)| RouteChange { prefix, len, id: NextHopId(id) }).collect();
    sorted.sort_unstable_by_key(|route| (route.prefix, route.len));
    let mut writer = FibWriter::<A>::new().unwrap();
    let _fib = writer.reader();
    let seconds = timed(|| {
        for batch in sorted.chunks(4096) {
            writer.change_all(batch).unwrap();
            let mark = writer.retire_mark();
            writer.reclaim(mark);
        }
    });
    routes.len() as f64 / seconds / 1e6
}

#[inline(never)]
fn batch<A: Address>(fib: &Fib<A>, addrs: &[A], out: &mut [u32]) {
    fib.lookup_batch(addrs, out, |_| ());
}

fn rival<A: Copy, R: Rival<A>>(routes: &[Route<A>], addrs: &[A], ids: &[u32]) {
    let Some(table) = R::build(routes) else {
        print!(" | {} > 3 GB", R::NAME);
        return;
    };
    let mut out = [0; VECTOR];
    for (addrs, ids) in addrs.chunks(VECTOR).zip(ids.chunks(VECTOR)) {
        table.lookup_batch(addrs, &mut out);
        assert_eq!(out, ids, "{} finds something else", R::NAME);
    }
    let nanos = best_batch(addrs, |addrs, out| table.lookup_batch(addrs, out));
    print!(" | {} {nanos:.2} ({:.1})", R::NAME, table.bytes() as f64 / 1e6);
}

fn best_batch<A>(addrs: &[A], mut lookup: impl FnMut(&[A], &mut [u32])) -> f64 {
    let mut out = [0; VECTOR];
    best(|| {
        for addrs in addrs.chunks(VECTOR) {
            lookup(addrs, &mut out);
            black_box(&out);
        }
    })
}

/// Nanoseconds per lookup in the best of some runs: what others do on the machine only ever adds.
fn best(mut run: impl FnMut()) -> f64 {
    (0..RUNS).map(|_| timed(&mut run)).fold(f64::INFINITY, f64::min) * 1e9 / LOOKUPS as f64
}

fn timed(run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_secs_f64()
}
