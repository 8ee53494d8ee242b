//! No more than so much.

use graph::IfIndex;
use graph::port::{PortFault, Received, RxQueue, Sent, TxQueue};
use memory::clock::nanoseconds;
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use std::os::fd::BorrowedFd;

/// How much may pass. Both limits hold at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Packets in a second; 0: no limit.
    pub packets: u64,
    /// Bits in a second, from the link-layer header on; 0: no limit.
    pub bits: u64,
}

/// Tokens for one limit, in billionths of a packet or bit, so that each nanosecond brings a whole number of them.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    /// May be negative: what was let through before its cost was known is paid back first.
    tokens: i128,
    most: i128,
    last: u64,
}

const BILLION: i128 = 1_000_000_000;
/// Tokens that the shortest frame takes.
const SHORTEST: i128 = 8 * 64 * BILLION;

impl Bucket {
    /// Full, with room for what comes in 5 ms (the burst that passes after a pause), and for `least` at any rate.
    fn new(rate: u64, least: u64, now: u64) -> Self {
        let most = (i128::from(rate) * 5_000_000).max(i128::from(least) * BILLION);
        Self { rate, tokens: most, most, last: now }
    }

    fn fill(&mut self, now: u64) {
        let since = now.saturating_sub(self.last);
        self.last = now;
        self.tokens = (self.tokens + i128::from(since) * i128::from(self.rate)).min(self.most);
    }

    fn has(&self) -> bool {
        self.rate == 0 || self.tokens > 0
    }

    fn take(&mut self, amount: u64) {
        self.tokens -= i128::from(amount) * BILLION;
    }
}

/// A queue that lets no more through than a [`Rate`]. Around a receive queue it leaves packets where they are, so that
/// the sender's ring fills up; around a transmit queue what is too much is dropped as `ring-full`.
pub struct RateLimit<Q> {
    inner: Q,
    packets: Bucket,
    bits: Bucket,
}

impl<Q> core::fmt::Debug for RateLimit<Q> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RateLimit").field("packets", &self.packets).field("bits", &self.bits).finish()
    }
}

impl<Q> RateLimit<Q> {
    /// Around `inner`. It may be made on another thread than the one that uses it.
    #[must_use]
    pub fn new(inner: Q, rate: Rate) -> Self {
        let now = nanoseconds();
        Self {
            inner,
            packets: Bucket::new(rate.packets, 1, now),
            bits: Bucket::new(rate.bits, 8 * 1518, now),
        }
    }

    /// Packets that may pass now, up to `max`.
    fn allowance(&mut self, max: usize) -> usize {
        let now = nanoseconds();
        self.packets.fill(now);
        self.bits.fill(now);
        if !self.bits.has() {
            return 0;
        }
        match self.packets.rate {
            0 => max,
            _ => max.min(usize::try_from(self.packets.tokens / BILLION).unwrap_or(0)),
        }
    }

    fn spend(&mut self, packets: usize, bytes: u64) {
        self.packets.take(packets as u64);
        self.bits.take(8 * bytes);
    }
}

impl RxQueue for RateLimit<Box<dyn RxQueue>> {
    fn receive(
        &mut self,
        tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        max: usize,
    ) -> Result<Received, PortFault> {
        // How long packets are is known only afterwards: they may overdraw, and what follows pays for it.
        let allowed = match (self.allowance(max), self.bits.rate) {
            (allowed, 0) => allowed,
            (allowed, _) => allowed.min(usize::try_from(self.bits.tokens / SHORTEST).unwrap_or(0) + 1),
        };
        match allowed {
            0 => Ok(Received { slots: packets.taken()..packets.taken(), ..Received::default() }),
            allowed => {
                let received = self.inner.receive(tier, packets, rx_if, allowed)?;
                self.spend(received.slots.len(), received.bytes);
                Ok(received)
            }
        }
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.event_fd()
    }
}

impl TxQueue for RateLimit<Box<dyn TxQueue>> {
    fn send(&mut self, tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let most = self.allowance(slots.len());
        let mut bits = self.bits;
        let mut allowed = 0;
        for slot in slots.iter().take(most) {
            if !bits.has() {
                break;
            }
            bits.take(8 * u64::from(packets.meta(*slot).len()));
            allowed += 1;
        }
        let Some(slots) = slots.get(..allowed).filter(|slots| !slots.is_empty()) else {
            return Ok(Sent::default());
        };
        let sent = self.inner.send(tier, packets, slots)?;
        self.spend(sent.packets, sent.bytes);
        Ok(sent)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }
}
