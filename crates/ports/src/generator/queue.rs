//! One queue of a generator: every n-th packet, at its share of the rate.

use super::open::GeneratorOptions;
use super::template::Template;
use crate::timer::Timer;
use graph::IfIndex;
use graph::port::{PortFault, Received, RxQueue};
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
        Self { templates, timer, rate: options.rate, limit, made: 0, first: queue, step: queues, start: None }
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

impl RxQueue for GeneratorRx {
    fn receive(
        &mut self,
        _tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        max: usize,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let max = max.min(packets.free());
        let now = if self.rate > 0 { nanoseconds() } else { 0 };
        let last = self.last_due(now);
        let mut bytes = 0;
        while packets.taken() - first < max && self.made < self.limit && self.number() <= last {
            let number = self.number();
            let at = (number % self.templates.len() as u64) as usize;
            let Some(template) = self.templates.get(at) else { break };
            let len = template.len();
            let made = packets.receive_private(rx_if, len, |out| {
                template.write(number, out);
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
