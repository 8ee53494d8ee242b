//! Sending the steps of many conversations, and counting them.

use super::conversation::{Conversation, Pair, Step};
use crate::link::{Link, LinkError, Packets, Receiver, STUCK, Target, View};
use crate::stateful::clock::Now;
use crate::stateful::endpoints::Endpoints;
use crate::stateful::packet::{Framing, Head, LINE, Line};
use crate::stateless::Progress;
use memif::Lines;
use memory::clock::nanoseconds;
use memory::simd::{Simd, Tier, TierTask};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most conversations that have the same step sent at once.
pub const BLOCK: usize = 128;
/// Time whose conversations make a block, where those are fewer.
const BLOCK_NS: u64 = 10_000_000;
/// Time from a step of such a block to its answer, once no more conversations begin: so that it has left the device, though few are
/// sent between the two.
const LAST_STEP_NS: u64 = 2_000_000;
const LOOK_NS: u64 = 20_000_000;

/// What is sent, and how.
#[derive(Debug)]
pub struct Plan {
    /// The packets.
    pub conversation: Conversation,
    /// Endpoints of the clients; each conversation has the next one.
    pub clients: Endpoints,
    /// Endpoints of the servers.
    pub servers: Endpoints,
    /// Conversations per second; 0: as many as can be.
    pub rate: f64,
    /// Conversations after which no more begin.
    pub conversations: u64,
    /// How long they are begun.
    pub seconds: f64,
    /// How long to wait for the last packets.
    pub drain: f64,
    /// Blocks that begin between two steps of a conversation.
    pub apart: u64,
}

/// What became of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct StepCount {
    /// Packets sent.
    pub sent: u64,
    /// Packets that came through.
    pub received: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Per step.
    pub steps: Vec<StepCount>,
    /// Packets received that are no step, or on the wrong side.
    pub other: u64,
    /// Frames that came and that the kernel threw away because we took too few; `None` where that can't be known.
    pub receive_drops: Option<u64>,
    /// Conversations begun.
    pub conversations: u64,
    /// Seconds from the first packet to the last one sent.
    pub seconds: f64,
    /// Was stopped before its time.
    pub stopped: bool,
    /// A link was lost, which ended it.
    pub lost: Option<LinkError>,
}

/// Runs it until its time is up, a link is lost or `stop` is set; others may read its `progress`.
#[must_use]
pub fn run(
    plan: &Plan,
    links: (&mut Link, &mut Link),
    framings: (&Framing, &Framing),
    stop: &AtomicBool,
    progress: &Progress,
) -> Outcome {
    let steps = plan.conversation.steps.len();
    let blocks = steps as u64 * plan.apart + 1;
    let pairs = vec![Pair::default(); blocks as usize * BLOCK];
    let counts = vec![StepCount::default(); steps];
    let epoch = (nanoseconds() / Now::TIMER_NS) as u32;
    let run = Run {
        plan,
        links,
        framings,
        stop,
        progress,
        pairs,
        blocks,
        counts,
        lines: Vec::with_capacity(BLOCK),
        epoch,
        other: 0,
        begun: 0,
        began_at: nanoseconds(),
        ended: None,
        stopped: false,
    };
    Tier::detect().dispatch(run)
}

struct Run<'a> {
    plan: &'a Plan,
    links: (&'a mut Link, &'a mut Link),
    framings: (&'a Framing, &'a Framing),
    stop: &'a AtomicBool,
    progress: &'a Progress,
    /// Endpoints of the blocks that are under way, a ring.
    pairs: Vec<Pair>,
    blocks: u64,
    counts: Vec<StepCount>,
    /// Packets of a step of a block, where they are a line each.
    lines: Vec<[u8; LINE]>,
    /// What the timer of initial sequence numbers stood at at the beginning.
    epoch: u32,
    other: u64,
    begun: u64,
    /// When it began, by the clock, and for how many nanoseconds it sent.
    began_at: u64,
    ended: Option<u64>,
    stopped: bool,
}

impl TierTask for Run<'_> {
    type Output = Outcome;

    fn run<S: Simd>(mut self, simd: S) -> Self::Output {
        let before = (self.links.0.dropped(), self.links.1.dropped());
        let lost = simd
            .run(
                #[inline(always)]
                || self.go(),
            )
            .err();
        let sending = self.ended.unwrap_or_else(|| nanoseconds() - self.began_at);
        let drops = [self.links.0.dropped_since(before.0), self.links.1.dropped_since(before.1)];
        Outcome {
            steps: self.counts,
            other: self.other,
            receive_drops: drops.into_iter().flatten().reduce(|a, b| a + b),
            conversations: self.begun,
            seconds: sending as f64 * 1e-9,
            stopped: self.stopped,
            lost,
        }
    }
}

impl Run<'_> {
    #[inline(always)]
    fn go(&mut self) -> Result<(), LinkError> {
        self.began_at = nanoseconds();
        let begin = self.began_at;
        let ns = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_nanos() as u64;
        let until = ns(self.plan.seconds);
        // Blocks begun; the last one is the end of `sizes` from which on there are none.
        let (mut turn, mut last) = (0u64, None);
        let mut sizes = vec![0usize; self.blocks as usize];
        let rate = self.plan.rate;
        let due = |now: u64| now as f64 * 1e-9 * rate;
        let small = rate > 0.0 && due(BLOCK_NS) < BLOCK as f64;
        // When the last block began.
        let (mut look, mut turned) = (0, None);
        loop {
            let now = nanoseconds() - begin;
            if now >= look {
                look = now + LOOK_NS;
                self.links.0.check()?;
                self.links.1.check()?;
                self.publish();
            }
            if last.is_none() {
                let all = now >= until || self.begun >= self.plan.conversations;
                // Forgotten, so that what is still under way can be stopped, too.
                self.stopped |= !all && self.stop.swap(false, Ordering::Relaxed);
                if all || self.stopped {
                    last = Some(turn);
                }
            }
            if last.is_some_and(|last| turn - last > self.blocks) {
                break;
            }
            let early = if small {
                let apart = if last.is_some() { LAST_STEP_NS / self.plan.apart.max(1) } else { BLOCK_NS };
                turned.is_some_and(|turned| now < turned + apart)
            } else {
                last.is_none() && rate > 0.0 && due(now) < self.begun as f64
            };
            if early {
                self.receive()?;
                continue;
            }
            turned = Some(now);
            // The first one is due at once.
            let most = if small { (due(now) as u64 + 1).saturating_sub(self.begun) } else { BLOCK as u64 };
            let left = (self.plan.conversations - self.begun).min(BLOCK as u64);
            let size = if last.is_some() { 0 } else { left.min(most) as usize };
            if let Some(place) = sizes.get_mut((turn % self.blocks) as usize) {
                *place = size;
            }
            self.begin_block(turn, size, now);
            for step in 0..self.counts.len() {
                let Some(block) = turn.checked_sub(step as u64 * self.plan.apart) else { break };
                let size = sizes.get((block % self.blocks) as usize).copied().unwrap_or(0);
                self.send(step, block, size)?;
            }
            self.receive()?;
            turn += 1;
        }
        self.ended = Some(nanoseconds() - begin);
        // What is under way still comes, unless it is stopped in that.
        let end = nanoseconds() + ns(self.plan.drain);
        while nanoseconds() < end && self.counts.iter().any(|step| step.received < step.sent) {
            if self.stop.load(Ordering::Relaxed) {
                self.stopped = true;
                break;
            }
            self.receive()?;
        }
        Ok(())
    }

    #[inline(never)]
    fn publish(&self) {
        let sum = |of: fn(&StepCount) -> u64| self.counts.iter().map(of).sum();
        self.progress.sent.store(sum(|step| step.sent), Ordering::Relaxed);
        self.progress.received.store(sum(|step| step.received), Ordering::Relaxed);
    }

    /// Endpoints of a new block, and where their sequence numbers begin: by the timer of RFC 9293, which all runs on a machine
    /// have in common, or behind those of the conversation before between the same ends, where that uses up more.
    #[inline(always)]
    fn begin_block(&mut self, block: u64, size: usize, now: u64) {
        let from = (block % self.blocks) as usize * BLOCK;
        let (clients, servers) = (self.plan.clients, self.plan.servers);
        // Numbers are small enough to be counted in 32 bits: endpoints are at most 2^24.
        let mut client = (self.begun % clients.len()) as u32;
        let mut server = (self.begun % servers.len()) as u32;
        let (timer, each) = (now / Now::TIMER_NS, u64::from(self.plan.conversation.numbers) + 1);
        let mut used = self.begun / clients.len() * each;
        for pair in self.pairs.get_mut(from..from + size).unwrap_or_default() {
            let numbers = self.epoch.wrapping_add(timer.max(used) as u32);
            *pair = Pair::new(clients.at(client), servers.at(server)).behind(numbers);
            client = if u64::from(client) + 1 == clients.len() { 0 } else { client + 1 };
            used += if client == 0 { each } else { 0 };
            server = if u64::from(server) + 1 == servers.len() { 0 } else { server + 1 };
        }
        self.begun += size as u64;
    }

    /// Sends a step of all conversations of a block; waits where there is no room, receiving.
    #[inline(always)]
    fn send(&mut self, number: usize, block: u64, size: usize) -> Result<(), LinkError> {
        let from = (block % self.blocks) as usize * BLOCK;
        let (mut sent, mut waiting) = (0, None);
        let Some(step) = self.plan.conversation.steps.get(number) else { return Ok(()) };
        let framing = if step.from_client { self.framings.0 } else { self.framings.1 };
        let pairs = self.pairs.get(from..from + size).unwrap_or_default();
        self.lines.clear();
        if framing.skipped() == 0 && framing.padded(step.len()) as usize <= LINE {
            self.lines.extend(pairs.iter().map(|pair| step.line(framing, pair).bytes()));
        }
        while sent < size {
            let link = if step.from_client { &mut *self.links.0 } else { &mut *self.links.1 };
            let pairs = self.pairs.get(from + sent..from + size).unwrap_or_default();
            let lines = self.lines.get(sent..).unwrap_or_default();
            let n = link.transmit(0, pairs.len(), &Source { step, framing, pairs, lines }, true)?;
            sent += n;
            // At once: what was sent before a link is lost was sent.
            if let Some(count) = self.counts.get_mut(number) {
                count.sent += n as u64;
            }
            if n > 0 {
                waiting = None;
            }
            if sent < size {
                let now = nanoseconds();
                let waited = now - *waiting.get_or_insert(now);
                if waited > LOOK_NS {
                    link.check()?;
                }
                if waited > STUCK.as_nanos() as u64 {
                    return Err(LinkError::Stuck { name: link.name().into(), seconds: STUCK.as_secs() });
                }
                self.receive()?;
                if self.stop.load(Ordering::Relaxed) {
                    self.stopped = true;
                    break;
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn receive(&mut self) -> Result<(), LinkError> {
        let steps = self.plan.conversation.steps.as_slice();
        for at_client in [true, false] {
            let (link, framing) = if at_client {
                (&mut *self.links.0, self.framings.0)
            } else {
                (&mut *self.links.1, self.framings.1)
            };
            let (counts, other) = (self.counts.as_mut_slice(), &mut self.other);
            link.receive(&mut Counter { at_client, skip: framing.skipped() as u32, steps, counts, other })?;
        }
        Ok(())
    }
}

struct Source<'a> {
    step: &'a Step,
    framing: &'a Framing,
    pairs: &'a [Pair],
    /// The packets, if they are a line each.
    lines: &'a [[u8; LINE]],
}

impl Packets for Source<'_> {
    fn prepare(&mut self) -> usize {
        self.pairs.len()
    }

    #[inline(always)]
    fn len(&self, _: usize) -> u32 {
        self.framing.padded(self.step.len())
    }

    #[inline(always)]
    fn write<T: Target>(&self, packet: usize, into: T, _: bool, _: impl Fn() -> u64) {
        let Some(pair) = self.pairs.get(packet) else { return };
        if let Some(line) = self.lines.get(packet) {
            return into.put_array(0, line);
        }
        let line: Line = self.step.line(self.framing, pair);
        let skip = self.framing.skipped();
        if skip == 0 {
            line.write(into, LINE);
        } else {
            into.put(0, line.bytes().get(skip..).unwrap_or_default());
        }
        if !self.step.rest().is_empty() {
            into.put((LINE - skip) as u32, self.step.rest());
        }
    }

    #[inline(always)]
    fn lines(&self, _: bool) -> Option<Lines<'_>> {
        let length = self.len(0);
        (!self.lines.is_empty()).then_some(Lines { length, lines: self.lines })
    }

    fn sent(&mut self, _: usize) {}
}

/// Counts packets by the number of their step.
struct Counter<'a> {
    at_client: bool,
    skip: u32,
    steps: &'a [Step],
    counts: &'a mut [StepCount],
    other: &'a mut u64,
}

impl Receiver for Counter<'_> {
    #[inline(always)]
    fn frame<V: View>(&mut self, frame: V) {
        // Version, service, length, identification: what tells a step on whatever side of a device.
        let mut ip = [0; 6];
        let read = frame.array_at(14 - self.skip, &mut ip);
        let number = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
        match (self.steps.get(number), self.counts.get_mut(number)) {
            (Some(step), Some(count)) if read && ip[0] == 0x45 && step.from_client != self.at_client => {
                count.received += 1;
            }
            _ => *self.other += 1,
        }
    }
}
