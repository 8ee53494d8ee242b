//! Readers on other threads while the writer changes everything under them.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quiver_tables::fib::{Address, Fib, FibWriter, NextHopId, RouteChange};

/// A reader's announcements: the epoch of the control thread it has seen between two rounds of lookups. This is the
/// grace period the dataplane implements, in its smallest form.
#[derive(Default)]
struct Quiescence {
    epoch: AtomicU64,
    seen: [AtomicU64; READERS],
}

const READERS: usize = 2;
const CHURN: Duration = Duration::from_millis(1000);

impl Quiescence {
    fn wait(&self) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        while self.seen.iter().any(|seen| seen.load(Ordering::SeqCst) < epoch) {
            std::thread::yield_now();
        }
    }
}

/// Takes a reader out of the grace periods when it ends, in whatever way: a failed assertion must not hang the test.
struct Leave<'a>(&'a AtomicU64);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }
}

/// What a probe may see: its id is always that of a route that covers it. Ids tell which: 1 = the short route that
/// is always there, 2.. = `2 + index` of the long route of this probe, which comes and goes.
struct Probe<A> {
    addr: A,
    own: u32,
}

fn churn<A: Address>(short: (A, u8), probes: Vec<Probe<A>>, lens: &[u8]) {
    churn_in(FibWriter::<A>::with_capacity(8 << 20).unwrap(), short, probes, lens);
}

/// In a table that may hold other routes.
fn churn_in<A: Address>(mut writer: FibWriter<A>, short: (A, u8), probes: Vec<Probe<A>>, lens: &[u8]) {
    writer.insert(short.0, short.1, NextHopId(1)).unwrap();
    // Long routes that stay: never anything but their own id.
    let fixed = 16;
    for probe in &probes[..fixed] {
        writer.insert(probe.addr, A::BITS, NextHopId(probe.own)).unwrap();
    }
    let (stop, quiescence, lookups) = (AtomicBool::new(false), Quiescence::default(), AtomicU64::new(0));
    let reader = |fib: Fib<A>, me: usize| {
        let _leave = Leave(&quiescence.seen[me]);
        let addrs: Vec<A> = probes.iter().map(|probe| probe.addr).collect();
        let mut out = vec![0; addrs.len()];
        while !stop.load(Ordering::Relaxed) {
            fib.lookup_batch(&addrs, &mut out, |_| ());
            for (index, (probe, &found)) in probes.iter().zip(&out).enumerate() {
                let single = fib.lookup(probe.addr).0;
                for id in [found, single] {
                    assert!(id == probe.own || (id == 1 && index >= fixed), "probe {index} sees {id}");
                }
            }
            lookups.fetch_add(addrs.len() as u64, Ordering::Relaxed);
            quiescence.seen[me].store(quiescence.epoch.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    };
    let (mut changes, mut reclaimed) = (0u64, 0);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..READERS)
            .map(|me| {
                let (fib, reader) = (writer.reader(), &reader);
                scope.spawn(move || reader(fib, me))
            })
            .collect();
        let begin = Instant::now();
        let mut random = 0x2545_f491_4f6c_dd1du64;
        while begin.elapsed() < CHURN && handles.iter().all(|handle| !handle.is_finished()) {
            let mut batch = Vec::new();
            for _ in 0..256 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let probe = &probes[fixed + random as usize % (probes.len() - fixed)];
                let len = lens[(random >> 32) as usize % lens.len()];
                let prefix = probe.addr.masked(len);
                // Times of growth and of decline, so that nodes pass through all their forms in both directions.
                let inserts = if changes / 4096 % 2 == 0 { 15 } else { 1 };
                let id = NextHopId(if random >> 60 < inserts { probe.own } else { 0 });
                batch.push(RouteChange { prefix, len, id });
                changes += 1;
            }
            // All at once, or each by itself.
            let at_once = if changes / 256 % 2 == 0 { batch.len() } else { 1 };
            batch.chunks(at_once).for_each(|batch| writer.change_all(batch).unwrap());
            let mark = writer.retire_mark();
            quiescence.wait();
            reclaimed += writer.reclaim(mark);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(lookups.load(Ordering::Relaxed) > 0 && changes > 0 && reclaimed > 0);
}

#[test]
fn v4_addresses_stay_resolved_under_churn() {
    // Each probe has its own /20; lengths from 20 on belong to one probe alone.
    let probes = (0..64).map(|own| Probe { addr: 0x0a00_00c8 | own << 12, own: own + 2 }).collect();
    churn::<u32>((0x0a00_0000, 8), probes, &[20, 21, 24, 25, 30, 32]);
}

#[test]
fn v4_hosts_of_one_subnet_stay_resolved_under_churn() {
    let probes = (0..200).map(|own| Probe { addr: 0x0a00_0000 | own, own: own + 2 }).collect();
    churn::<u32>((0x0a00_0000, 8), probes, &[32]);
}

#[test]
fn v6_addresses_stay_resolved_under_churn() {
    churn::<u128>((0xfd00u128 << 112, 16), probes6(76), &[52, 53, 56, 64, 96, 120, 127, 128]);
}

/// Larger than a core's cache, where addresses go down in other rounds; networks on either side of /32.
#[test]
fn v6_addresses_of_a_large_table_stay_resolved_under_churn() {
    let mut writer = FibWriter::<u128>::with_capacity(16 << 20).unwrap();
    for n in 0..40_000u128 {
        writer.insert(0x2a00 << 112 | n << 96 | 1, 128, NextHopId(1)).unwrap();
    }
    assert!(writer.usage().trie > 1 << 20);
    churn_in(writer, (0xfd00u128 << 112, 16), probes6(100), &[28, 29, 31, 32, 33, 40, 48, 56, 64, 127, 128]);
}

/// 64 hosts, each in a network of its own that begins at a multiple of 2 to the power of `step`.
fn probes6(step: u32) -> Vec<Probe<u128>> {
    let host = 0x0000_0000_0000_00c8u128;
    let probe = |own: u32| Probe { addr: 0xfd00u128 << 112 | u128::from(own) << step | host, own: own + 2 };
    (0..64).map(probe).collect()
}
