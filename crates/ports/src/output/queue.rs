//! The worker's side: a transmit queue that hands frames to the thread.

use super::frame::{Buffers, Frame, Outcome};
use super::share::Shares;
use super::state::{OutputThreads, Shared};
use super::thread::{self, Ring};
use crate::vnet::VnetHeader;
use crate::vnet_queue::Device;
use graph::port::{Completed, PortFault, Sent, Stop, TxQueue};
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
    let threads = OutputThreads::default();
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
    for (device, rings) in devices.into_iter().zip(rings) {
        let (shared, port) = (Arc::clone(&threads.0), Arc::clone(port));
        shared.begins();
        let ended = Ended(Arc::clone(&shared));
        let builder = std::thread::Builder::new().name(thread_name.chars().take(15).collect());
        let spawned = builder.stack_size(STACK).spawn(move || {
            let _ended = ended;
            thread::run(&device, rings, &shared, &port);
        })?;
        handles.push(spawned.thread().clone());
    }
    let queue = |(thread, to_thread, done): (usize, Producer<Frame>, Consumer<Frame>)| {
        let thread = handles.get(thread)?.clone();
        let shared = Arc::clone(&threads.0);
        shared.queue_made();
        let (buffers, shares, wake) = Default::default();
        let queue = OutputTx::<D> {
            to_thread: Some(to_thread),
            done,
            buffers,
            shares,
            wake,
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
    buffers: Buffers,
    /// Frames on their way.
    shares: Shares,
    /// Frames were handed over since the thread was last woken.
    wake: bool,
    prefix: usize,
    thread: Thread,
    shared: Arc<Shared>,
    device: core::marker::PhantomData<fn() -> D>,
}

impl<D: Device> OutputTx<D> {
    /// Copies one packet into a frame and hands it to the thread.
    fn hand_over(&mut self, packets: &Packets, slot: SlotId) -> Result<(), Stop> {
        let meta = packets.meta(slot);
        let len = meta.len() as usize;
        let header = VnetHeader::of(meta).filter(|_| len >= D::SHORTEST).ok_or(Stop::Refused)?;
        let ring = self.to_thread.as_mut().filter(|ring| !ring.is_full()).ok_or(Stop::Full)?;
        let mut frame = self.buffers.frame(self.prefix, len, meta.rx_if).ok_or(Stop::Refused)?;
        if !self.shares.take(frame.rx_if, frame.memory(), FRAMES, MEMORY) {
            self.buffers.give_back(frame);
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
        self.wake = true;
        Ok(())
    }

    /// A frame isn't on its way any more.
    fn take_back(&mut self, frame: Frame) {
        self.shares.give_back(frame.rx_if, frame.memory());
        self.buffers.give_back(frame);
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
        // Without a thread that sleeps, this is one exchange of an atomic; else one futex call on our own memory.
        if core::mem::take(&mut self.wake) {
            self.thread.unpark();
        }
    }

    fn completes(&self) -> bool {
        true
    }

    fn outstanding(&self) -> bool {
        self.shares.frames() > 0
    }

    fn completed(&mut self) -> Result<Completed, PortFault> {
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
        if self.shares.frames() == 0 {
            self.buffers.trim();
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
