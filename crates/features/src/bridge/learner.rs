//! What a bridge learns from the sources of its frames, and whom it doesn't believe.

use super::bridge_input::{Counter, Drop};
use super::port::Source;
use super::table::BLOCKED;
use graph::Ctx;
use tables::mac::{Learned, MacKey, MacTable};
use wire::MacAddr;

/// Learns the sources of a vector.
pub(super) struct Learner<'t> {
    macs: Option<&'t MacTable>,
    now: u16,
    /// What was learned last: most packets of a vector come from few stations.
    last: Option<(MacKey, u16)>,
}

impl<'t> Learner<'t> {
    /// Learns into `macs`, if there is such a table, at tick `now`.
    pub(super) fn new(macs: Option<&'t MacTable>, now: u16) -> Self {
        Self { macs, now, last: None }
    }

    /// Whether `src` is what was learned last, at that member: [`learn`](Self::learn) would do nothing.
    #[inline(always)]
    pub(super) fn is_last(&self, source: &Source<'_>, src: MacAddr) -> bool {
        self.last == Some((MacKey::new(source.number, src.0), source.interface))
    }

    /// Whether a frame from `src` may go on; learns it where the bridge does so.
    #[inline(always)]
    pub(super) fn learn(&mut self, ctx: &Ctx<'_>, source: &Source<'_>, src: MacAddr) -> Result<(), Drop> {
        if !source.bridge.exists {
            return Err(Drop::NoBridge);
        }
        if !src.is_unicast() {
            return Err(Drop::BadSource);
        }
        // What the BVI sends has its own address, or that of a router behind it that we ourselves have put there.
        let Some(macs) = self.macs.filter(|_| !source.bvi) else { return Ok(()) };
        let seen = (MacKey::new(source.number, src.0), source.interface);
        if self.last == Some(seen) {
            return Ok(());
        }
        self.last = None;
        if !source.bridge.learn {
            // Configured addresses are protected all the same.
            let is_anothers = |at| at != u32::from(source.interface) && at != BLOCKED;
            if macs.get(seen.0).is_some_and(|known| known.is_static && is_anothers(known.interface)) {
                return Err(Drop::StaticElsewhere);
            }
            self.last = Some(seen);
            return Ok(());
        }
        match macs.learn(seen.0, u32::from(source.interface), self.now) {
            Learned::Known => self.last = Some(seen),
            Learned::New => {
                self.last = Some(seen);
                ctx.count(Counter::Learned, 1);
            }
            Learned::Moved { .. } => {
                self.last = Some(seen);
                ctx.count(Counter::Moved, 1);
                source.bridge.moves.add();
            }
            Learned::Limited => ctx.count(Counter::Limited, 1),
            Learned::Full => ctx.count(Counter::Full, 1),
            Learned::Static { at } if at != u32::from(source.interface) && at != BLOCKED => {
                return Err(Drop::StaticElsewhere);
            }
            Learned::Static { .. } | Learned::Contended => {}
        }
        Ok(())
    }
}
