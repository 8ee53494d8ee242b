//! What a bridge learns from the sources of its frames, and whom it doesn't believe.
//!
//! Done for a vector in three steps, so that no packet waits for a line of the address table alone: while headers are read, the
//! packets of one station behind each other become a [`Run`], whose line is asked for; then what is known already is refreshed; last,
//! with all of their other lines asked for, comes what isn't known, is fixed, or lies elsewhere.

use super::bridge_input::{Counter, Drop};
use super::table::{BLOCKED, Bridges};
use core::ops::Range;
use graph::engine::MAX_VECTOR;
use graph::{Ctx, IfIndex, prefetch_read};
use tables::mac::{Learned, MacKey, MacTable};

/// Packets of one station, one behind the other.
#[derive(Clone, Copy)]
struct Run {
    key: MacKey,
    interface: IfIndex,
    /// Places in the vector: from the first to the one behind the last.
    from: u16,
    to: u16,
}

impl Run {
    fn places(&self) -> Range<usize> {
        usize::from(self.from)..usize::from(self.to)
    }
}

/// The sources of a vector. Kept by the node, so that it needn't be cleared.
pub(super) struct Sources {
    runs: [Run; MAX_VECTOR],
    len: usize,
}

impl Sources {
    pub(super) const fn new() -> Self {
        Self { runs: [Run { key: MacKey::NONE, interface: 0, from: 0, to: 0 }; MAX_VECTOR], len: 0 }
    }

    /// Forgets the vector before.
    pub(super) fn begin(&mut self) {
        self.len = 0;
    }

    /// Notes that the packet at `place` comes from `key` behind `interface`.
    #[inline(always)]
    pub(super) fn note(&mut self, macs: &MacTable, key: MacKey, interface: IfIndex, place: usize) {
        let place = place as u16;
        if let Some(last) = self.runs[..self.len].last_mut()
            && (last.key, last.interface, last.to) == (key, interface, place)
        {
            last.to = place + 1;
            return;
        }
        macs.soon(key, prefetch_read);
        if let Some(run) = self.runs.get_mut(self.len) {
            *run = Run { key, interface, from: place, to: place + 1 };
            self.len += 1;
        }
    }

    /// Learns them at tick `now`; of those who use somebody else's address the places in the vector are handed to `refuse`.
    #[inline(always)]
    pub(super) fn learn(
        &mut self,
        ctx: &Ctx<'_>,
        bridges: &Bridges,
        macs: &MacTable,
        now: u16,
        refuse: impl FnMut(Range<usize>, Drop),
    ) {
        let mut left = 0;
        for at in 0..self.len {
            let run = self.runs[at];
            let learns = bridges.get(run.key.bridge()).learn;
            if !(learns && macs.refresh(run.key, u32::from(run.interface), now)) {
                self.runs[left] = run;
                left += 1;
            }
        }
        if left > 0 {
            learn_rest(&self.runs[..left], ctx, bridges, macs, now, refuse);
        }
    }
}

#[inline(never)]
fn learn_rest(
    runs: &[Run],
    ctx: &Ctx<'_>,
    bridges: &Bridges,
    macs: &MacTable,
    now: u16,
    mut refuse: impl FnMut(Range<usize>, Drop),
) {
    runs.iter().for_each(|run| macs.soon_further(run.key, prefetch_read));
    for run in runs {
        if let Err(reason) = learn(run, ctx, bridges, macs, now) {
            refuse(run.places(), reason);
        }
    }
}

/// Whether a station's packets may go on; learns it where the bridge does so.
fn learn(run: &Run, ctx: &Ctx<'_>, bridges: &Bridges, macs: &MacTable, now: u16) -> Result<(), Drop> {
    let (bridge, own) = (bridges.get(run.key.bridge()), u32::from(run.interface));
    let is_anothers = |at| at != own && at != BLOCKED;
    if !bridge.learn {
        // Configured addresses are protected all the same.
        let elsewhere =
            macs.get(run.key).is_some_and(|known| known.is_static && is_anothers(known.interface));
        return if elsewhere { Err(Drop::StaticElsewhere) } else { Ok(()) };
    }
    let packets = u64::from(run.to - run.from);
    match macs.learn(run.key, own, now) {
        Learned::New => ctx.count(Counter::Learned, 1),
        Learned::Moved { .. } => {
            ctx.count(Counter::Moved, 1);
            bridge.moves.add();
        }
        Learned::Limited => ctx.count(Counter::Limited, packets),
        Learned::Full => ctx.count(Counter::Full, packets),
        Learned::Static { at } if is_anothers(at) => return Err(Drop::StaticElsewhere),
        Learned::Known | Learned::Static { .. } | Learned::Contended => {}
    }
    Ok(())
}
