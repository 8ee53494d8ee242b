//! Packets whose time passed.

use super::lane::Lane;

/// Up to when a packet may be sent, if it could not be sent in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Ticks behind its time at which a packet is missed; `None`: it is sent, however late.
    bound: Option<u64>,
    /// When this was last asked: what became due since then, and was missed, is the generator's own doing.
    asked: u64,
}

impl Patience {
    /// From tick `start` on; `bound` in ticks.
    pub(super) const fn new(bound: Option<u64>, start: u64) -> Self {
        Self { bound, asked: start }
    }

    /// Takes the packets of `lanes` as missed that are too late at tick `now`.
    #[inline(always)]
    pub(super) fn expire(&mut self, lanes: &mut [Lane], now: u64) {
        let Some(bound) = self.bound else { return };
        let awake = self.asked;
        self.asked = now;
        for lane in lanes {
            let overdue = lane.schedule.overdue(now, bound);
            let done = lane.done();
            if overdue > done {
                lane.sent.missed += overdue - done;
                // Those before were the device's to take while this loop ran.
                lane.sent.overslept += overdue - lane.schedule.overdue(awake, 0).clamp(done, overdue);
            }
        }
    }
}
