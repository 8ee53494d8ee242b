//! One queue of a generator: every n-th packet, at its share of the rate.

use super::open::GeneratorOptions;
use super::template::Template;
use crate::timer::Timer;
use graph::IfIndex;
use graph::port::{PortFault, Quota, Received, RxQueue};
use memory::clock::nanoseconds;
use memory::packet::Packets;
use memory::simd::Tier;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Longest stretch of missed packets that is made up for: a worker that was away longer doesn't get a flood.
const CATCH_UP: u64 = 10_000_000;
const SECOND: u128 = 1_000_000_000;

/// One queue.
pub(super) struct GeneratorRx {
    templates: Arc<[Template]>,
    timer: Timer,
    /// Packets per second of the whole generator, 0 for no limit.
    rate: u64,
    /// Its own packets that it may make in all.
    limit: u64,
    made: u64,
    /// What varies is drawn.
    random: bool,
    /// Number of its first packet, and from one of its packets to the next.
    first: u64,
    step: u64,
    /// When packet 0 of the generator was due; unknown before the first call.
    start: Option<u64>,
}

impl GeneratorRx {
    pub(super) fn new(
        templates: Arc<[Template]>,
        timer: Timer,
        options: &GeneratorOptions,
        queue: u64,
        queues: u64,
    ) -> Self {
        let limit = match options.count {
            0 => u64::MAX,
            count => count / queues + u64::from(queue < count % queues),
        };
        let GeneratorOptions { rate, random, .. } = *options;
        Self { templates, timer, rate, limit, made: 0, random, first: queue, step: queues, start: None }
    }

    /// Number of the next packet.
    fn number(&self) -> u64 {
        self.first.wrapping_add(self.made.wrapping_mul(self.step))
    }

    /// When the next packet is due; `None` after the last.
    fn due(&self) -> Option<u64> {
        if self.made >= self.limit {
            return None;
        }
        match (self.start, self.rate) {
            (None, _) | (_, 0) => Some(0),
            (Some(start), rate) => {
                let after = u128::from(self.number()) * SECOND / u128::from(rate);
                Some(start.saturating_add(u64::try_from(after).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Number of the last packet that is due at `now`. Where too much was missed, the clock is set back.
    fn last_due(&mut self, now: u64) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let missed =
            self.start.and(self.due()).map_or(0, |due| now.saturating_sub(due).saturating_sub(CATCH_UP));
        let start = self.start.get_or_insert(now);
        *start += missed;
        let since = u128::from(now.saturating_sub(*start));
        u64::try_from(since * u128::from(self.rate) / SECOND).unwrap_or(u64::MAX)
    }
}

/// A number drawn for packet `number`: so is every packet the same whoever makes it, and whenever. (The finaliser of SplitMix64: Steele,
/// Lea, Flood, "Fast splittable pseudorandom number generators", 2014.)
fn drawn(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl RxQueue for GeneratorRx {
    fn receive(
        &mut self,
        _tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let max = quota.packets.min(packets.free());
        let now = if self.rate > 0 { nanoseconds() } else { 0 };
        let last = self.last_due(now);
        let mut bytes = 0;
        while packets.taken() - first < max && self.made < self.limit && self.number() <= last {
            let number = self.number();
            let at = (number % self.templates.len() as u64) as usize;
            let Some(template) = self.templates.get(at) else { break };
            let len = template.len();
            let varied = if self.random { drawn(number) } else { number };
            let made = packets.receive_private(rx_if, len, |out| {
                template.write(varied, out);
                Ok((0, len))
            });
            if !matches!(made, Ok(Some(_))) {
                break;
            }
            self.made += 1;
            bytes += len as u64;
        }
        Ok(Received { slots: first..packets.taken(), bytes, ..Received::default() })
    }

    fn release(&mut self) {}

    fn arm(&mut self) -> bool {
        match self.due() {
            Some(due) => due > nanoseconds() && self.timer.set(Some(due)),
            None => self.timer.set(None),
        }
    }

    fn disarm(&mut self) {
        self.timer.set(None);
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.fd())
    }
}

#[cfg(test)]
mod tests {
    use super::drawn;

    /// The first numbers of `splitmix64.c` (Vigna, 2015, public domain) from state 0.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        assert_eq!(
            [0, 1, 2].map(drawn),
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]
        );
    }
}
