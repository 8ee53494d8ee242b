//! The thread that writes a port's frames.

use super::frame::{Frame, Outcome};
use super::pace::{EXPENSIVE, Pace};
use super::state::{Shared, Suspension};
use crate::vnet_queue::{Device, errno, fault};
use memory::clock::nanoseconds;
use memory::schedule::run_soon;
use rtrb::{Consumer, Producer};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Niceness of the thread: as the kernel puts the reception of packets before programs. Frames lost behind a busy program cost more than they save.
const NICE: i32 = -10;
/// Niceness once frames are expensive: behind all programs.
const NICE_EXPENSIVE: i32 = 10;
/// Time without an expensive frame after which the thread has [`NICE`] again.
const REDEEMED: Duration = Duration::from_secs(60);
/// Frames of one worker that are written before the next worker's.
const TURN: usize = 64;

/// Frames of one worker, and the way back.
pub(super) struct Ring {
    pub(super) frames: Consumer<Frame>,
    pub(super) back: Producer<Frame>,
}

/// Writes frames until the workers have dropped their queues.
pub(super) fn run<D: Device>(device: &D, mut rings: Vec<Ring>, (shared, at): (&Shared, usize), port: &str) {
    shared.thread_is(at, rustix::thread::gettid().as_raw_nonzero().get());
    run_soon(Some(NICE));
    let pace = Pace::new(Duration::from_nanos(nanoseconds()));
    let mut writer = Writer {
        device,
        shared,
        at,
        port,
        pace,
        processor_time: Duration::ZERO,
        behind: None,
        failed: false,
    };
    loop {
        let mut any = false;
        writer.processor_time = processor_time();
        for ring in &mut rings {
            for _ in 0..TURN {
                let Ok(mut frame) = ring.frames.pop() else { break };
                any = true;
                frame.outcome = writer.write(&frame);
                // There is room: no more frames are on their way than the ring holds.
                let _ = ring.back.push(frame);
            }
        }
        if !any {
            writer.redeem();
            rings.retain(|ring| !ring.frames.is_abandoned() || !ring.frames.is_empty());
            if rings.is_empty() {
                return;
            }
            // A worker that pushes after this look unparks the thread: then this returns at once.
            std::thread::park();
        }
    }
}

struct Writer<'a, D> {
    device: &'a D,
    shared: &'a Shared,
    /// Number of the thread, of those of the port.
    at: usize,
    port: &'a str,
    pace: Pace,
    /// Of this thread, at a moment before the frame that is written.
    processor_time: Duration,
    /// Since when the thread has been behind all programs.
    behind: Option<Duration>,
    /// The device is gone.
    failed: bool,
}

impl<D: Device> Writer<'_, D> {
    fn write(&mut self, frame: &Frame) -> Outcome {
        if self.failed {
            return Outcome::Down;
        }
        let began = nanoseconds();
        if self.pace.is_suspended(Duration::from_nanos(began)) {
            return Outcome::Full;
        }
        self.shared.writes(self.at, began);
        let written = write(self.device, frame.bytes());
        self.shared.writes(self.at, 0);
        let now = nanoseconds();
        let took = Duration::from_nanos(now.saturating_sub(began));
        if took >= EXPENSIVE {
            self.charge(took, Duration::from_nanos(now));
        } else {
            self.pace.cheap();
        }
        match written {
            Ok(()) => Outcome::Sent,
            Err(error) => self.outcome(&error),
        }
    }

    /// Charges a frame that took so long: with the processor time of it, as far as that can be told.
    #[cold]
    fn charge(&mut self, took: Duration, now: Duration) {
        let before = core::mem::replace(&mut self.processor_time, processor_time());
        let cost = took.min(self.processor_time.saturating_sub(before));
        if let Some(pause) = self.pace.charge(cost, now) {
            run_soon(Some(NICE_EXPENSIVE));
            self.behind = Some(now);
            self.shared.suspended(Suspension { cost, pause }, now);
        }
    }

    /// Puts the thread before programs again, if nothing was expensive for long.
    fn redeem(&mut self) {
        let now = || Duration::from_nanos(nanoseconds());
        if self.behind.is_some_and(|since| now().saturating_sub(since) >= REDEEMED) {
            self.behind = None;
            run_soon(Some(NICE));
        }
    }

    fn outcome(&mut self, error: &io::Error) -> Outcome {
        match errno(error) {
            Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => Outcome::Full,
            Errno::INVAL | Errno::MSGSIZE => Outcome::Refused,
            errno if errno == D::DOWN => Outcome::Down,
            _ => {
                self.failed = true;
                self.shared.failed(fault::<D>(self.port, error));
                Outcome::Down
            }
        }
    }
}

/// One system call for the frame with its header.
fn write<D: Device>(device: &D, bytes: &[u8]) -> io::Result<()> {
    loop {
        match rustix::io::write(device.fd(), bytes) {
            Ok(n) if n == bytes.len() => return Ok(()),
            Ok(n) => {
                let cut = format!("{n} of {} bytes were written", bytes.len());
                return Err(io::Error::new(io::ErrorKind::WriteZero, cut));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
