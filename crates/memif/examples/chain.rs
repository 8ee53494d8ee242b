//! What a trust group is worth: two peers, and a dataplane between them that takes packets from the one and sends them to the other,
//! by the one copy or by exchanging buffers. Peers on the first core, the dataplane on the last.
//!
//! ```text
//! cargo run --release -p memif --example chain -- 1518 3 5     # bytes, seconds a run, pairs of runs
//! ```
//! Prints what arrives, and how long the dataplane worked on a packet in rounds that had some.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memif::region::{CheckedRange, HugePages};
use memif::{Connection, Pool, QueueConfig, RxSink, TxSource, in_process};
use memory::packet::{Packets, SlotId};
use memory::simd::{Simd, Tier, TierTask};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Writes every byte of every packet.
struct Frames(Vec<u8>);

impl TxSource for Frames {
    fn length(&mut self, _: usize) -> u32 {
        self.0.len() as u32
    }

    fn write(&mut self, _: usize, into: CheckedRange<'_>) {
        into.write(&self.0);
    }

    fn write_chain(&mut self, _: usize, into: &[CheckedRange<'_>]) {
        let mut rest = &self.0[..];
        for part in into {
            rest = &rest[part.write(rest)..];
        }
    }
}

/// Reads every byte of every packet.
struct Reader(Vec<u8>, u64);

impl RxSink for Reader {
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        bytes.read(&mut self.0);
        self.1 += 1;
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], _: u32) {
        for part in parts {
            part.read(&mut self.0);
        }
        self.1 += 1;
    }
}

/// One round of the dataplane; gives how many packets.
struct Round<'a>(&'a mut Connection, &'a mut Connection, &'a mut Packets);

impl TierTask for Round<'_> {
    type Output = usize;

    fn run<S: Simd>(self, simd: S) -> usize {
        let Self(from, to, packets) = self;
        let Ok((slots, _)) = from.rx[0].receive_packets(simd, packets, 1, 256) else { return 0 };
        let slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        let sent = to.tx[0].transmit_packets(simd, packets, &slots).map_or(0, |sent| sent.packets);
        from.rx[0].release();
        packets.end_round();
        sent
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// Packets that arrived per second, in millions, and nanoseconds of the dataplane per packet.
fn run(size: usize, time: Duration, exchange: bool, cores: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let pool = exchange.then(|| Pool::new("chain", 4 * 1024, 2048, HugePages::Try)).transpose()?;
    let queues = QueueConfig { pool, ..QueueConfig::default() };
    let ((mut from, mut sender), (mut to, mut receiver)) = (in_process(&queues)?, in_process(&queues)?);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let dataplane = scope.spawn(|| {
            pin(cores - 1);
            let (mut packets, mut worked, mut forwarded) = (Packets::new(), Duration::ZERO, 0);
            let tier = Tier::detect();
            while !stop.load(Ordering::Relaxed) {
                let since = Instant::now();
                let some = tier.dispatch(Round(&mut from, &mut to, &mut packets));
                if some > 0 {
                    worked += since.elapsed();
                    forwarded += some;
                }
            }
            worked.as_nanos() as f64 / forwarded.max(1) as f64
        });
        pin(0);
        let (mut frames, mut reader) = (Frames(vec![7; size]), Reader(vec![0; size], 0));
        let since = Instant::now();
        while since.elapsed() < time {
            for _ in 0..64 {
                sender.tx[0].transmit(64, &mut frames)?;
                receiver.rx[0].receive(256, &mut reader)?;
                receiver.rx[0].release();
            }
        }
        stop.store(true, Ordering::Relaxed);
        let rate = reader.1 as f64 / since.elapsed().as_secs_f64() / 1e6;
        Ok((rate, dataplane.join().map_err(|_| "the dataplane's thread failed")?))
    })
}

fn main() -> ExitCode {
    let words: Vec<f64> = std::env::args().skip(1).map(|word| word.parse().unwrap_or(f64::NAN)).collect();
    let ([size, seconds, pairs], true) =
        (&words[..], words.iter().all(|word| (0.0..=65_536.0).contains(word)))
    else {
        eprintln!("usage: chain BYTES SECONDS PAIRS");
        return ExitCode::from(2);
    };
    match compare(*size as usize, Duration::from_secs_f64(*seconds), *pairs as usize) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chain: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(size: usize, time: Duration, pairs: usize) -> Result<(), Box<dyn Error>> {
    // Before this thread is pinned to one of them.
    let cores = std::thread::available_parallelism()?.get();
    for _ in 0..pairs {
        for (name, exchange) in [("copied", false), ("exchanged", true)] {
            let (rate, work) = run(size, time, exchange, cores)?;
            println!(
                "{name:<9} {size} B: {rate:.2} Mpps, {:.1} Gbit/s, {work:.0} ns/packet",
                rate * size as f64 * 8e-3
            );
        }
    }
    Ok(())
}
