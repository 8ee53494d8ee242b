//! A device that takes nothing any more. Where the time is limited that shows in the result; where only the number of packets is,
//! it would never end.

use super::lane::Lane;
use crate::link::Link;

/// Looks whether something is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standstill {
    bound: u64,
    /// Packets that were sent, and since which tick that many.
    sent: u64,
    since: u64,
}

impl Standstill {
    /// From tick `start` on; nothing may be taken for `bound` ticks.
    pub(super) const fn new(bound: u64, start: u64) -> Self {
        Self { bound, sent: 0, since: start }
    }

    /// The interface that is stuck at tick `now`, if one is: something is due, and nothing was sent for too long.
    pub(super) fn found(&mut self, now: u64, lanes: &mut [Lane], links: &[Link]) -> Option<String> {
        let sent = lanes.iter().map(Lane::done).sum();
        let waiting =
            lanes.iter_mut().find_map(|lane| (lane.schedule.due(now) > lane.done()).then_some(lane.link));
        match waiting {
            Some(link) if sent == self.sent => {
                let late = now.saturating_sub(self.since) > self.bound;
                late.then(|| links.get(link).map_or_else(String::new, |link| link.name().into()))
            }
            _ => {
                (self.sent, self.since) = (sent, now);
                None
            }
        }
    }
}
