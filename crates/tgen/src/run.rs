//! The loop that sends, receives and counts.

use crate::frames::{Frames, LINE};
use crate::link::Link;
use crate::options::Options;
use memif::region::CheckedRange;
use memif::{Fault, RxSink, TxSource};
use memory::clock::cycles;
use memory::simd::{Simd, Tier, TierTask};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Packets sent at a time.
const BURST: usize = 128;
/// Silence after which no more packets are waited for: longer than a device under test waits for its core where others
/// want it too.
const DRAIN: Duration = Duration::from_millis(500);
/// Time after the last packet was sent in which packets still count as received, however many come.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received whose length isn't that of what was sent.
    pub odd_length: u64,
    /// Times that the device's ring was full when there was something to send.
    pub ring_full: u64,
    /// Seconds of sending.
    pub seconds: f64,
}

/// Sends from `tx` and receives at `rx` (at `tx` itself if there is none) until the time is up, the count is reached or
/// `stop` is set.
///
/// # Errors
/// [`Fault`] when the other side breaks the protocol.
pub fn run(
    tx: &mut Link,
    rx: Option<&mut Link>,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Counts, Fault> {
    let frames = Frames::new(options);
    Tier::detect().dispatch(Run { tx, rx, options, frames: &frames, stop })
}

struct Run<'a> {
    tx: &'a mut Link,
    rx: Option<&'a mut Link>,
    options: &'a Options,
    frames: &'a Frames,
    stop: &'a AtomicBool,
}

impl TierTask for Run<'_> {
    type Output = Result<Counts, Fault>;

    fn run<S: Simd>(mut self, simd: S) -> Self::Output {
        simd.run(
            #[inline(always)]
            || self.go(),
        )
    }
}

impl Run<'_> {
    #[inline(always)]
    fn go(&mut self) -> Result<Counts, Fault> {
        let full = self.options.full;
        let mut source = Source { frames: self.frames, at: 0, full };
        let mut sink = Sink { full, want: self.frames.len() as u32, ..Sink::default() };
        let mut counts = Counts::default();
        let start = Instant::now();
        let clock = Clock::new(start);
        let limit = if self.options.count > 0 { self.options.count } else { u64::MAX };
        let end = Duration::from_secs_f64(self.options.seconds);
        let mut turn = 0u32;
        let mut now = Duration::ZERO;
        loop {
            // Looking at the time costs as much as a few packets.
            if turn.is_multiple_of(16) || self.options.rate > 0.0 {
                now = clock.elapsed();
                if now >= end || counts.sent >= limit || self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            turn = turn.wrapping_add(1);
            let mut want = (limit - counts.sent).min(BURST as u64);
            if self.options.rate > 0.0 {
                let due = (now.as_secs_f64() * self.options.rate) as u64;
                want = want.min(due.saturating_sub(counts.sent));
            }
            if want > 0 {
                for queue in self.tx.connection.tx.iter_mut().take(1) {
                    let sent = queue.transmit(want as usize, &mut source)?.sent;
                    counts.sent += sent as u64;
                    counts.ring_full += u64::from(sent == 0);
                    queue.notify();
                }
            }
            self.receive(&mut sink)?;
        }
        counts.seconds = start.elapsed().as_secs_f64();
        // What is under way still comes: until all is there, or nothing has come for a while.
        let drain = Instant::now();
        let mut last = drain;
        while sink.packets.saturating_sub(sink.odd) < counts.sent
            && last.elapsed() < DRAIN
            && drain.elapsed() < DRAIN_LIMIT
        {
            let before = sink.packets;
            self.receive(&mut sink)?;
            if sink.packets > before {
                last = Instant::now();
            }
        }
        core::hint::black_box(sink.word);
        Ok(Counts { received: sink.packets, received_bytes: sink.bytes, odd_length: sink.odd, ..counts })
    }

    #[inline(always)]
    fn receive(&mut self, sink: &mut Sink) -> Result<(), Fault> {
        let link = self.rx.as_deref_mut().unwrap_or(self.tx);
        for queue in &mut link.connection.rx {
            if queue.receive(usize::MAX, sink)? > 0 {
                queue.release();
            }
        }
        Ok(())
    }
}

/// Time by the cycle counter, which is cheaper to read than the clock.
struct Clock {
    start: u64,
    per_second: f64,
}

impl Clock {
    fn new(start: Instant) -> Self {
        let first = cycles();
        let wait = Instant::now();
        while wait.elapsed() < Duration::from_millis(2) {
            core::hint::spin_loop();
        }
        let per_second = cycles().wrapping_sub(first) as f64 / wait.elapsed().as_secs_f64();
        let begun = cycles();
        let _ = start;
        Self { start: begun, per_second }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(cycles().wrapping_sub(self.start) as f64 / self.per_second)
    }
}

struct Source<'a> {
    frames: &'a Frames,
    at: usize,
    full: bool,
}

impl TxSource for Source<'_> {
    #[inline(always)]
    fn length(&mut self, _packet: usize) -> u32 {
        self.frames.len() as u32
    }

    #[inline(always)]
    fn write(&mut self, _packet: usize, into: CheckedRange<'_>) {
        let line = self.frames.line(self.at);
        self.at = if self.at + 1 == self.frames.count() { 0 } else { self.at + 1 };
        if !into.write_array(line) {
            into.write(line);
        }
        if self.full {
            into.write_at(LINE as u32, self.frames.rest());
        }
    }

    #[inline]
    fn write_chain(&mut self, _packet: usize, into: &[CheckedRange<'_>]) {
        let line = self.frames.line(self.at);
        self.at = if self.at + 1 == self.frames.count() { 0 } else { self.at + 1 };
        // The first buffer holds at least the line: buffers have 64 bytes or more.
        let mut rest = self.frames.rest();
        for (n, part) in into.iter().enumerate() {
            let skip = if n == 0 { part.write(line) as u32 } else { 0 };
            if self.full {
                let done = part.write_at(skip, rest);
                rest = rest.get(done..).unwrap_or_default();
            }
        }
    }
}

#[derive(Default)]
struct Sink {
    packets: u64,
    bytes: u64,
    odd: u64,
    word: u64,
    want: u32,
    full: bool,
}

impl Sink {
    #[inline(always)]
    fn read(&mut self, part: CheckedRange<'_>) {
        let mut word = [0; 8];
        part.read_array_at(0, &mut word);
        self.word ^= u64::from_ne_bytes(word);
        if self.full {
            let mut at = 64;
            while at + 8 <= part.len() {
                part.read_array_at(at, &mut word);
                self.word ^= u64::from_ne_bytes(word);
                at += 64;
            }
        }
    }
}

impl RxSink for Sink {
    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.packets += 1;
        self.bytes += u64::from(bytes.len());
        self.odd += u64::from(bytes.len() != self.want);
        self.read(bytes);
    }

    #[inline]
    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
        self.odd += u64::from(length != self.want);
        for part in parts {
            self.read(*part);
        }
    }
}
