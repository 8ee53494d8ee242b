//! The worker's side: a transmit queue that hands frames to the thread.

use super::frame::{Frame, Outcome};
use super::share::Shares;
use super::state::{OutputThreads, Shared};
use super::thread::{self, Ring};
use crate::vnet::VnetHeader;
use crate::vnet_queue::Device;
use graph::port::{Completed, PortFault, Sent, Stop, TxQueue};
use memory::clock::nanoseconds;
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::sync::Arc;
use std::thread::Thread;
use zerocopy::IntoBytes;

/// Frames that one worker may have on their way to a port.
pub(super) const FRAMES: usize = 1024;
/// Bytes of buffers that they may take: 120 super-frames.
const MEMORY: usize = 8 << 20;

/// Under load, the thread is woken this often: a wake-up takes the kernel as long as a small frame. Shorter than a worker waits before it sleeps.
const HOLD: u64 = 40_000;
/// Frames and bytes that don't wait for that.
const HELD_FRAMES: u32 = 32;
const HELD_BYTES: usize = 16 << 10;

/// Transmit queues of a port, one for each of `workers`, and the threads that write to `devices`, one for each.
///
/// # Errors
/// What the system said where it gives no thread.
pub(crate) fn outputs<D: Device + 'static>(
    devices: Vec<D>,
    workers: u16,
    port: &Arc<str>,
    thread_name: &str,
) -> io::Result<(Vec<Box<dyn TxQueue>>, OutputThreads)> {
    let threads = OutputThreads::new(devices.len());
    let mut rings: Vec<Vec<Ring>> = devices.iter().map(|_| Vec::new()).collect();
    let mut ends = Vec::new();
    let count = devices.len().max(1);
    for worker in 0..usize::from(workers) {
        let (to_thread, frames) = RingBuffer::new(FRAMES);
        let (back, done) = RingBuffer::new(FRAMES);
        if let Some(rings) = rings.get_mut(worker % count) {
            rings.push(Ring { frames, back });
        }
        ends.push((worker % count, to_thread, done));
    }
    let prefix = devices.first().map_or(0, Device::prefix);
    let mut handles = Vec::new();
    for (at, (device, rings)) in devices.into_iter().zip(rings).enumerate() {
        let (shared, port) = (Arc::clone(&threads.0), Arc::clone(port));
        shared.begins();
        let ended = Ended(Arc::clone(&shared));
        let builder = std::thread::Builder::new().name(thread_name.chars().take(15).collect());
        let spawned = builder.stack_size(STACK).spawn(move || {
            let _ended = ended;
            thread::run(&device, rings, (&shared, at), &port);
        })?;
        handles.push(spawned.thread().clone());
    }
    let queue = |(thread, to_thread, done): (usize, Producer<Frame>, Consumer<Frame>)| {
        let thread = handles.get(thread)?.clone();
        let shared = Arc::clone(&threads.0);
        shared.queue_made();
        let (shares, held) = Default::default();
        let queue = OutputTx::<D> {
            to_thread: Some(to_thread),
            done,
            shares,
            held,
            woken: 0,
            prefix,
            thread,
            shared,
            device: core::marker::PhantomData,
        };
        Some(Box::new(queue) as Box<dyn TxQueue>)
    };
    let queues = ends.into_iter().filter_map(queue).collect();
    Ok((queues, threads))
}

/// Enough for a system call and its error.
const STACK: usize = 128 << 10;

/// Reports that a thread has ended, also by a panic.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ends();
    }
}

struct OutputTx<D> {
    /// `None` once the queue is dropped: the thread ends when it has written what is left.
    to_thread: Option<Producer<Frame>>,
    done: Consumer<Frame>,
    /// Frames on their way.
    shares: Shares,
    held: Held,
    /// When the thread was last woken, in nanoseconds of the monotonic clock.
    woken: u64,
    prefix: usize,
    thread: Thread,
    shared: Arc<Shared>,
    device: core::marker::PhantomData<fn() -> D>,
}

/// What was handed over since the thread was last woken.
#[derive(Debug, Default)]
struct Held {
    frames: u32,
    bytes: usize,
}

impl<D: Device> OutputTx<D> {
    /// Wakes the thread if there is something for it, and it is time.
    fn wake_in_time(&mut self) {
        let Held { frames, bytes } = self.held;
        if frames == 0 {
            return;
        }
        let now = nanoseconds();
        if frames >= HELD_FRAMES || bytes >= HELD_BYTES || now.saturating_sub(self.woken) >= HOLD {
            self.wake(now);
        }
    }

    /// Without a thread that sleeps, this is one exchange of an atomic; else one futex call on our own memory.
    fn wake(&mut self, now: u64) {
        self.held = Held::default();
        self.woken = now;
        self.thread.unpark();
    }

    /// Copies one packet into a frame and hands it to the thread.
    fn hand_over(&mut self, packets: &Packets, slot: SlotId) -> Result<(), Stop> {
        let meta = packets.meta(slot);
        let len = meta.len() as usize;
        let header = VnetHeader::of(meta).filter(|_| len >= D::SHORTEST).ok_or(Stop::Refused)?;
        let ring = self.to_thread.as_mut().filter(|ring| !ring.is_full()).ok_or(Stop::Full)?;
        let mut frame = Frame::new(self.prefix, len, meta.rx_if).ok_or(Stop::Refused)?;
        if !self.shares.take(frame.rx_if, frame.memory(), FRAMES, MEMORY) {
            frame.give_back();
            return Err(Stop::Full);
        }
        let (before, room) = frame.parts_mut();
        before.copy_from_slice(header.as_bytes().get(..before.len()).unwrap_or_default());
        packets.copy_out(slot, room);
        if packets.body_lost(slot) {
            self.take_back(frame);
            return Err(Stop::Unreadable);
        }
        if let Err(rtrb::PushError::Full(frame)) = ring.push(frame) {
            self.take_back(frame);
            return Err(Stop::Full);
        }
        self.held.frames += 1;
        self.held.bytes += len;
        Ok(())
    }

    /// A frame isn't on its way any more.
    fn take_back(&mut self, frame: Frame) {
        self.shares.give_back(frame.rx_if, frame.memory());
        frame.give_back();
    }
}

impl<D: Device> TxQueue for OutputTx<D> {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let mut sent = Sent::default();
        for slot in slots {
            match self.hand_over(packets, *slot) {
                Ok(()) => {
                    sent.packets += 1;
                    sent.bytes += u64::from(packets.meta(*slot).len());
                }
                Err(stop) => {
                    sent.stop = stop;
                    break;
                }
            }
        }
        Ok(sent)
    }

    fn flush(&mut self) {
        self.wake_in_time();
    }

    fn rest(&mut self) {
        if self.held.frames > 0 {
            self.wake(nanoseconds());
        }
    }

    fn completes(&self) -> bool {
        true
    }

    fn outstanding(&self) -> bool {
        self.shares.frames() > 0
    }

    fn completed(&mut self) -> Result<Completed, PortFault> {
        self.wake_in_time();
        let mut completed = Completed::default();
        while let Ok(frame) = self.done.pop() {
            match frame.outcome {
                Outcome::Sent => {
                    completed.packets += 1;
                    completed.bytes += frame.payload() as u64;
                }
                Outcome::Refused => completed.refused += 1,
                Outcome::Down => completed.down += 1,
                Outcome::Full | Outcome::Pending => completed.full += 1,
            }
            self.take_back(frame);
        }
        match self.shared.fault() {
            Some(fault) => Err(fault),
            None => Ok(completed),
        }
    }
}

impl<D> Drop for OutputTx<D> {
    fn drop(&mut self) {
        // The thread looks whether there is anybody left.
        self.to_thread = None;
        self.thread.unpark();
        self.shared.queue_dropped();
    }
}
