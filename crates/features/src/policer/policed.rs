//! What is metered by a policer, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::policer::{Colour, Meter, SharedCredit};

/// What becomes of packets of a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They go on as they are.
    #[default]
    Transmit,
    /// They go on with this DSCP.
    Mark(u8),
    /// They go no further.
    Drop,
}

/// A policer, as configuration has it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: Arc<str>,
    /// What says the colour.
    pub meter: Meter,
    /// What becomes of green, yellow and red packets.
    pub actions: [Action; 3],
    /// Packets come coloured, by their DSCP.
    pub is_aware: bool,
    /// Each session has tokens of its own.
    pub per_session: bool,
    /// Another one with each change, and never 0: tokens of another version are worth nothing.
    pub version: u32,
}

impl Profile {
    /// What becomes of packets of that colour.
    #[inline(always)]
    #[must_use]
    pub const fn action(&self, colour: Colour) -> Action {
        self.actions[colour as usize]
    }
}

/// Packets by colour, and their bytes, as all workers count them: once for a vector.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Hits {
    packets: [AtomicU64; 3],
    bytes: [AtomicU64; 3],
}

/// What [`Hits`] have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Green, yellow and red packets.
    pub packets: [u64; 3],
    /// Their bytes.
    pub bytes: [u64; 3],
}

impl Hits {
    /// What has come so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let read = |counters: &[AtomicU64; 3]| [0, 1, 2].map(|at| counters[at].load(Ordering::Relaxed));
        Figures { packets: read(&self.packets), bytes: read(&self.bytes) }
    }

    /// Counts packets.
    #[inline]
    fn add(&self, bytes: &[u32], colours: &[Colour]) {
        let mut sums = [[0_u64; 3]; 2];
        for (bytes, colour) in bytes.iter().zip(colours) {
            sums[0][*colour as usize] += 1;
            sums[1][*colour as usize] += u64::from(*bytes);
        }
        for (counters, sums) in [&self.packets, &self.bytes].into_iter().zip(sums) {
            for (counter, sum) in counters.iter().zip(sums).filter(|(_, sum)| *sum > 0) {
                counter.fetch_add(sum, Ordering::Relaxed);
            }
        }
    }
}

/// Who is metered: a direction of a tenant, or an interface. Shared by all workers.
#[derive(Debug)]
pub struct Policed {
    /// By which policer.
    pub profile: Arc<Profile>,
    /// Its figures: the same through all versions of the policer.
    pub hits: Arc<Hits>,
    credit: SharedCredit,
}

impl Policed {
    /// Somebody with full buckets at `now` (monotonic nanoseconds).
    #[must_use]
    pub fn new(profile: &Arc<Profile>, hits: Arc<Hits>, now: u64) -> Self {
        Self { profile: Arc::clone(profile), hits, credit: SharedCredit::full(&profile.meter, now) }
    }

    /// Meters packets that come at `now` by the tokens that all share. `colours` are those that they come with, and then those that they have.
    #[inline]
    pub(crate) fn meter(&self, now: u64, bytes: &[u32], colours: &mut [Colour]) {
        let meter = &self.profile.meter;
        self.credit.fill(meter, now);
        let cost = bytes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(meter.cost(*bytes)));
        let green = colours.iter().all(|colour| *colour == Colour::Green);
        if !(green && self.credit.take_together(meter, cost)) {
            for (bytes, colour) in bytes.iter().zip(colours.iter_mut()) {
                *colour = self.credit.colour(meter, *bytes, *colour);
            }
        }
        self.hits.add(bytes, colours);
    }

    /// The same for packets of sessions with tokens of their own: `colour` says what becomes of each, by its place.
    #[inline]
    pub(crate) fn meter_each(
        &self,
        bytes: &[u32],
        colours: &mut [Colour],
        mut colour: impl FnMut(usize, u32, Colour) -> Colour,
    ) {
        for (at, (bytes, its)) in bytes.iter().zip(colours.iter_mut()).enumerate() {
            *its = colour(at, *bytes, *its);
        }
        self.hits.add(bytes, colours);
    }
}
