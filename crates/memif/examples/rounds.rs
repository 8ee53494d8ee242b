//! The dataplane's part of a packet from one memif to another, without a graph and with nothing else going on: for counting its instructions, as
//! `scripts/instructions.py` does. What it costs in time is for two cores, with real peers.
//!
//! ```text
//! cargo run --release -p memif --example rounds -- 60 200     # bytes of a packet, rounds of 256
//! ```
//! Prints how many packets went through.

use std::error::Error;
use std::ops::Range;
use std::process::ExitCode;

use memif::region::CheckedRange;
use memif::ring::{RxQueue, TxQueue};
use memif::{QueueConfig, RxSink, TxSource, in_process};
use memory::packet::{Packets, SlotId};
use memory::simd::{Simd, Tier, TierTask};

/// The same packet again and again.
struct Frames(Vec<u8>);

impl TxSource for Frames {
    fn length(&mut self, _: usize) -> u32 {
        self.0.len() as u32
    }

    fn write(&mut self, _: usize, into: CheckedRange<'_>) {
        into.write(&self.0);
    }

    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        if let [first, ..] = into {
            self.write(packet, *first);
        }
    }
}

/// Looks at nothing.
struct Forget;

impl RxSink for Forget {
    fn packet(&mut self, _: CheckedRange<'_>) {}

    fn chain(&mut self, _: &[CheckedRange<'_>], _: u32) {}
}

/// What `memif-input` has a queue do.
struct Input<'a>(&'a mut RxQueue, &'a mut Packets);

impl TierTask for Input<'_> {
    type Output = Range<usize>;

    fn run<S: Simd>(self, simd: S) -> Range<usize> {
        self.0.receive_packets(simd, self.1, 1, 256).map_or(0..0, |(slots, _)| slots)
    }
}

/// What `memif-tx` has a queue do.
struct Output<'a>(&'a mut TxQueue, &'a mut Packets, &'a [SlotId]);

impl TierTask for Output<'_> {
    type Output = usize;

    fn run<S: Simd>(self, simd: S) -> usize {
        self.0.transmit_packets(simd, self.1, self.2).map_or(0, |sent| sent.packets)
    }
}

#[inline(never)]
fn memif_input(tier: Tier, from: &mut RxQueue, packets: &mut Packets) -> Range<usize> {
    tier.dispatch(Input(from, packets))
}

#[inline(never)]
fn memif_tx(tier: Tier, to: &mut TxQueue, packets: &mut Packets, slots: &[SlotId]) -> usize {
    tier.dispatch(Output(to, packets, slots))
}

fn main() -> ExitCode {
    let words: Vec<Option<usize>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let [Some(bytes), Some(rounds)] = words[..] else {
        eprintln!("usage: rounds BYTES ROUNDS");
        return ExitCode::from(2);
    };
    match run(bytes, rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rounds: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(bytes: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let queues = QueueConfig::default();
    // The dataplane is the server, whose slots are in its peers' memory.
    let ((mut sender, mut from), (mut receiver, mut to)) = (in_process(&queues)?, in_process(&queues)?);
    let (mut packets, mut frames, tier) = (Packets::new(), Frames(vec![7; bytes]), Tier::detect());
    let mut through = 0;
    for _ in 0..rounds {
        sender.tx[0].transmit(256, &mut frames)?;
        let slots: Vec<_> =
            memif_input(tier, &mut from.rx[0], &mut packets).map(|slot| slot as SlotId).collect();
        through += memif_tx(tier, &mut to.tx[0], &mut packets, &slots);
        from.rx[0].release();
        packets.end_round();
        receiver.rx[0].receive(256, &mut Forget)?;
        receiver.rx[0].release();
    }
    println!("packets:  memif-input {through}  memif-tx {through}");
    Ok(())
}
