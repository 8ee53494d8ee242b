//! What workers tell the engine's thread.
//!
//! The queue is shared by all workers. An interface has a share of it, which its punted packets can't exceed, and all packets together
//! leave some places to faults of ports.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use graph::port::IfIndex;
use graph::worker::{Event, EventSender};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Events that may wait; more are dropped with a reason by whoever sends them.
const CAPACITY: usize = 4096;
/// Of these, places that punted packets leave to faults.
const FAULTS: usize = 256;
/// What the packets of one interface may take of the queue, in units: one for each packet and one for every [`UNIT`] bytes.
const SHARE: u32 = 256;
/// Bytes of a unit: 512 KiB are an interface's share.
const UNIT: usize = 2048;

/// The engine's end.
#[derive(Debug)]
pub(super) struct Events {
    queue: Receiver<Event>,
    waiting: Arc<AtomicUsize>,
    punts: Arc<Punts>,
    bell: Arc<Bell>,
}

/// What punted packets take of the queue.
#[derive(Debug)]
struct Punts {
    count: AtomicUsize,
    /// Units by interface.
    units: Box<[AtomicU32]>,
}

impl Punts {
    fn new() -> Self {
        let units = (0..=IfIndex::MAX).map(|_| AtomicU32::new(0)).collect();
        Self { count: AtomicUsize::new(0), units }
    }

    /// The interface that an event is charged to, and its units; `None` for a fault.
    fn cost(event: &Event) -> Option<(IfIndex, u32)> {
        let Event::Punt { origin, packet, .. } = event else { return None };
        let bytes = packet.frame().len().max(packet.bytes().len());
        Some((*origin, 1 + u32::try_from(bytes / UNIT).unwrap_or(SHARE)))
    }

    /// Takes places for a packet. False, and none taken, if the interface has used its share or all packets theirs.
    fn take(&self, (origin, units): (IfIndex, u32)) -> bool {
        let Some(of) = self.units.get(usize::from(origin)) else { return false };
        if of.fetch_add(units, Ordering::Relaxed) + units > SHARE {
            of.fetch_sub(units, Ordering::Relaxed);
            return false;
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= CAPACITY - FAULTS {
            self.give_back((origin, units));
            return false;
        }
        true
    }

    fn give_back(&self, (origin, units): (IfIndex, u32)) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(of) = self.units.get(usize::from(origin)) {
            of.fetch_sub(units, Ordering::Relaxed);
        }
    }
}

/// Wakes the engine's thread.
#[derive(Debug)]
pub(super) struct Bell {
    fd: OwnedFd,
    rung: AtomicBool,
}

impl Bell {
    /// One that nobody has rung yet.
    ///
    /// # Errors
    /// [`Errno`] when the process is out of descriptors.
    pub(super) fn new() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, rung: AtomicBool::new(false) })
    }

    /// Wakes, once until it is heard.
    pub(super) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Fails only where the counter is full: then it is being heard anyway.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// What becomes readable.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Makes it quiet again. What was sent before is in the queue.
    pub(super) fn hear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.rung.store(false, Ordering::Release);
    }
}

impl Events {
    /// Both ends.
    ///
    /// # Errors
    /// [`Errno`] when the process is out of descriptors.
    pub(super) fn new() -> Result<(Self, EventSender), Errno> {
        let bell = Arc::new(Bell::new()?);
        let (sender, queue): (SyncSender<Event>, _) = sync_channel(CAPACITY);
        let (waiting, punts) = (Arc::new(AtomicUsize::new(0)), Arc::new(Punts::new()));
        let (theirs, count, shares) = (Arc::clone(&bell), Arc::clone(&waiting), Arc::clone(&punts));
        let send = move |event| {
            let cost = Punts::cost(&event);
            if cost.is_some_and(|cost| !shares.take(cost)) {
                return false;
            }
            let sent = sender.try_send(event).is_ok();
            if sent {
                count.fetch_add(1, Ordering::Release);
            } else if let Some(cost) = cost {
                shares.give_back(cost);
            }
            theirs.ring();
            sent
        };
        Ok((Self { queue, waiting, punts, bell }, EventSender::new(send)))
    }

    /// What wakes the engine's thread.
    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Option<Event> {
        let event = self.queue.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        if let Some(cost) = Punts::cost(&event) {
            self.punts.give_back(cost);
        }
        Some(event)
    }

    /// Whether there are more.
    pub(super) fn more(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::packet::OwnedPacket;
    use graph::port::{Attachment, PortFault};

    fn punt(origin: IfIndex, bytes: usize) -> Event {
        Event::Punt { worker: 0, kind: "test", origin, packet: OwnedPacket::new(1, vec![0; bytes]) }
    }

    fn fault() -> Event {
        let fault = PortFault { kind: "test", reason: "test".into() };
        Event::RxFault { interface: 1, queue: 0, attachment: Attachment::default(), fault }
    }

    #[test]
    fn an_interface_fills_its_share_and_leaves_the_rest() {
        let (events, sender) = Events::new().unwrap();
        let sent = |origin, bytes| (0..5000).filter(|_| sender.send(punt(origin, bytes))).count();
        assert_eq!(sent(7, 100), SHARE as usize);
        assert_eq!(sent(8, 64 << 10), 7, "a share is limited in bytes, too");
        assert!(sender.send(punt(9, 100)) && sender.send(fault()));
        while events.next().is_some() {}
        assert!(!events.more());
        assert_eq!((sent(7, 100), sent(8, 64 << 10)), (SHARE as usize, 7), "what was heard counts no longer");
    }

    #[test]
    fn packets_of_all_interfaces_leave_places_to_faults() {
        let (events, sender) = Events::new().unwrap();
        let punts = (0..100).flat_map(|origin| (0..SHARE).map(move |_| punt(origin, 100)));
        assert_eq!(punts.filter_map(|event| sender.send(event).then_some(())).count(), CAPACITY - FAULTS);
        assert_eq!((0..1000).filter(|_| sender.send(fault())).count(), FAULTS);
        assert!(events.next().is_some() && sender.send(punt(99, 100)) && !sender.send(punt(99, 100)));
    }
}
