//! Damage done on purpose.

use graph::IfIndex;
use graph::port::{Lost, PortFault, Quota, Received, RxQueue};
use memory::clock::nanoseconds;
use memory::packet::{OwnedPacket, Packets, SlotId};
use memory::simd::Tier;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is done to packets, each in parts per million of all packets, independently and in this order. At most 1 000 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultOptions {
    /// Taken away.
    pub drop_ppm: u32,
    /// One bit turned over.
    pub corrupt_ppm: u32,
    /// Cut to a random length of at least one byte.
    pub truncate_ppm: u32,
    /// Delivered twice.
    pub duplicate_ppm: u32,
    /// Exchanged with the next packet.
    pub reorder_ppm: u32,
    /// Held back for `delay`.
    pub delay_ppm: u32,
    /// How long; packets held back are overtaken by others.
    pub delay: Duration,
    /// Of the random numbers: the same seed does the same to the same sequence of packets.
    pub seed: u64,
}

/// A packet that waits for a successor is delivered without one after this time: a conversation of one packet at a time
/// would stand still otherwise.
const PATIENCE: u64 = 1_000_000;
/// Packets that may be held back; beyond that none is.
const HELD: usize = 4096;

/// What is done to the packets of an interface, to be changed while its queues run: they see a change with their next
/// look at the sender.
#[derive(Clone, Debug, Default)]
pub struct Damage(Arc<Wanted>);

#[derive(Debug, Default)]
struct Wanted {
    /// Counts the changes: a queue compares it instead of taking the lock.
    version: AtomicU64,
    options: Mutex<FaultOptions>,
}

impl Damage {
    /// Has this done from now on. The default: nothing.
    pub fn set(&self, options: FaultOptions) {
        let mut wanted = self.0.options.lock().unwrap_or_else(PoisonError::into_inner);
        if *wanted != options {
            *wanted = options;
            self.0.version.fetch_add(1, Ordering::Release);
        }
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    fn options(&self) -> FaultOptions {
        *self.0.options.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receive queue that damages what it delivers. Around the receiving side, because that is where a worker looks again
/// when time has passed.
pub struct Fault {
    inner: Box<dyn RxQueue>,
    wanted: Damage,
    /// The version of `wanted` that `options` are of.
    version: u64,
    options: FaultOptions,
    random: Random,
    /// Packets taken away by this call.
    lost: Lost,
    /// The packet that is to follow its successor, and when it has waited enough.
    swapped: Option<(u64, OwnedPacket)>,
    /// Packets held back, by the time they are due.
    held: VecDeque<(u64, OwnedPacket)>,
}

impl core::fmt::Debug for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fault").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Fault {
    /// Around `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn RxQueue>, options: FaultOptions) -> Self {
        let wanted = Damage::default();
        wanted.set(options);
        Self::switched(inner, wanted)
    }

    /// Around `inner`, doing what is wanted at each time.
    #[must_use]
    pub fn switched(inner: Box<dyn RxQueue>, wanted: Damage) -> Self {
        let (version, options) = (wanted.version(), wanted.options());
        let (lost, swapped, held) = Default::default();
        Self { inner, wanted, version, options, random: Random(options.seed), lost, swapped, held }
    }

    /// Takes up what is wanted now.
    #[cold]
    fn change(&mut self, version: u64) {
        self.version = version;
        self.options = self.wanted.options();
        self.random = Random(self.options.seed);
    }

    /// Does to one packet what its lot is; `out` gets what is delivered now.
    fn treat(&mut self, mut packet: OwnedPacket, now: u64, out: &mut Vec<OwnedPacket>) {
        let options = self.options;
        // All lots are drawn for each packet, so that one probability doesn't change the fate of packets under another.
        let [drop, corrupt, truncate, duplicate, reorder, delay] = [
            options.drop_ppm,
            options.corrupt_ppm,
            options.truncate_ppm,
            options.duplicate_ppm,
            options.reorder_ppm,
            options.delay_ppm,
        ]
        .map(|ppm| self.random.below(1_000_000) < u64::from(ppm));
        let (at, length) = (self.random.next(), self.random.next());
        if drop {
            self.lost.packets += 1;
            self.lost.bytes += packet.frame().len() as u64;
            return;
        }
        if corrupt || truncate {
            packet = damaged(&packet, corrupt.then_some(at), truncate.then_some(length));
        }
        if delay && self.held.len() < HELD {
            let due = now.saturating_add(u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX));
            if duplicate {
                self.held.push_back((due, packet.clone()));
            }
            self.held.push_back((due, packet));
            return;
        }
        if reorder && self.swapped.is_none() {
            if duplicate {
                out.push(packet.clone());
            }
            self.swapped = Some((now.saturating_add(PATIENCE), packet));
            return;
        }
        if duplicate {
            out.push(packet.clone());
        }
        out.push(packet);
        out.extend(self.swapped.take().map(|(_, packet)| packet));
    }

    /// Whether every packet passes as it is.
    fn idle(&self) -> bool {
        let FaultOptions {
            drop_ppm, corrupt_ppm, truncate_ppm, duplicate_ppm, reorder_ppm, delay_ppm, ..
        } = self.options;
        let any = drop_ppm | corrupt_ppm | truncate_ppm | duplicate_ppm | reorder_ppm | delay_ppm;
        any == 0 && self.swapped.is_none() && self.held.is_empty()
    }
}

/// The packet with a bit turned over or its end cut off, as the random numbers say.
fn damaged(packet: &OwnedPacket, corrupt: Option<u64>, truncate: Option<u64>) -> OwnedPacket {
    let mut bytes = packet.frame().to_vec();
    let len = bytes.len() as u64;
    if let (Some(at), true) = (corrupt, len > 0)
        && let Some(byte) = bytes.get_mut((at / 8 % len) as usize)
    {
        *byte ^= 1 << (at % 8);
    }
    if let (Some(length), true) = (truncate, len > 0) {
        bytes.truncate((1 + length % len) as usize);
    }
    let mut copy = OwnedPacket::new(packet.meta().rx_if, bytes);
    copy.meta_mut().offload = packet.meta().offload;
    copy
}

impl RxQueue for Fault {
    fn receive(
        &mut self,
        tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let version = self.wanted.version();
        if version != self.version {
            self.change(version);
        }
        let received = self.inner.receive(tier, packets, rx_if, quota)?;
        if self.idle() {
            return Ok(received);
        }
        let now = nanoseconds();
        let mut out = Vec::new();
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            out.extend(self.held.pop_front().map(|(_, packet)| packet));
        }
        self.lost = received.lost;
        if !received.slots.is_empty() {
            for slot in received.slots {
                self.treat(packets.own(slot as SlotId), now, &mut out);
            }
            // All are copies now. Who delivers nothing isn't asked to release anything.
            self.inner.release();
        }
        if self.swapped.as_ref().is_some_and(|(until, _)| *until <= now) {
            out.extend(self.swapped.take().map(|(_, packet)| packet));
        }
        let first = packets.taken();
        let mut bytes = 0;
        let delivered = out.iter().take_while(|packet| {
            let adopted = packets.adopt(packet).is_ok();
            bytes += if adopted { packet.frame().len() as u64 } else { 0 };
            adopted
        });
        let delivered = delivered.count();
        // What there is no slot for comes first in the next round.
        out.drain(delivered..).rev().for_each(|packet| self.held.push_front((now, packet)));
        Ok(Received { slots: first..first + delivered, bytes, lost: self.lost })
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn arm(&mut self) -> bool {
        // Nothing would wake the worker for what is held here.
        self.swapped.is_none() && self.held.is_empty() && self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.event_fd()
    }

    fn rests(&self) -> bool {
        self.inner.rests()
    }

    fn is_restless(&self) -> bool {
        // What is held here is due without anybody's saying so.
        !self.idle() || self.inner.is_restless()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): good enough for faults, and the same everywhere.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, by multiplication (Lemire): the bias at such bounds is immaterial.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
