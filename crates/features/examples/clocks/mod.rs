//! What the programs that measure nodes have in common: a sink, and what each node took.

use graph::packet::{Packets, SlotId};
use graph::port::{PortFault, Sent, TxQueue};
use graph::simd::Tier;
use quiver_features::testing::Bench;

/// Takes everything; the length that it counts is that of each packet.
pub struct Sink(pub u64);

impl TxQueue for Sink {
    fn send(&mut self, _: Tier, _: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        Ok(Sent { packets: slots.len(), bytes: self.0 * slots.len() as u64, ..Sent::default() })
    }
}

/// Packets and clocks of each node, round by round.
pub struct Clocks {
    first: Vec<(u64, u64)>,
    last: Vec<(u64, u64)>,
    /// Clocks per packet of each round that had some.
    rounds: Vec<Vec<f64>>,
}

impl Clocks {
    /// What is counted from now on.
    pub fn start(bench: &Bench) -> Self {
        let now = totals(bench);
        Self { first: now.clone(), rounds: vec![Vec::new(); now.len()], last: now }
    }

    /// To be called after each round.
    pub fn note(&mut self, bench: &Bench) {
        let now = totals(bench);
        for ((samples, before), after) in self.rounds.iter_mut().zip(&self.last).zip(&now) {
            if after.0 > before.0 {
                samples.push((after.1 - before.1) as f64 / (after.0 - before.0) as f64);
            }
        }
        self.last = now;
    }

    /// Of each node that had packets: its name, the median round's clocks per packet, and the mean of all. Preemption and interrupts fall into
    /// some rounds; the median round knows nothing of them.
    pub fn of_nodes<'a>(
        &'a mut self,
        bench: &'a Bench,
    ) -> impl Iterator<Item = (&'static str, f64, f64)> + 'a {
        let counted = self.first.iter().zip(&self.last);
        bench.plan.nodes.iter().zip(&mut self.rounds).zip(counted).filter_map(
            |((node, samples), (first, last))| {
                samples.sort_by(f64::total_cmp);
                let median = *samples.get(samples.len() / 2)?;
                Some((node.spec.name, median, (last.1 - first.1) as f64 / (last.0 - first.0) as f64))
            },
        )
    }
}

/// All packets that each node has had since the beginning: what `scripts/instructions.py` divides by.
pub fn print_packets(bench: &Bench) {
    print!("packets:");
    for (node, (packets, _)) in bench.plan.nodes.iter().zip(totals(bench)) {
        if packets > 0 {
            print!("  {} {packets}", node.spec.name);
        }
    }
    println!();
}

/// The value, or the end of the program with the reason.
pub fn or_exit<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}

fn totals(bench: &Bench) -> Vec<(u64, u64)> {
    bench.graph.counters().runtime.iter().map(|node| (node.packets.get(), node.clocks.get())).collect()
}
