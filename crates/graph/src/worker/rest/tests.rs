use super::*;
use crate::handover::Station;
use crate::nodes::port_input;
use crate::plan::Plan;
use crate::port::{IfIndex, PortFault, Quota, Received, RxMode, RxQueue};
use crate::publish::{Publisher, Schema};
use crate::worker::EventSender;
use memory::packet::Packets;
use memory::simd::Tier;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Has no packets, whoever has rung, and counts how often it is asked.
struct Bell {
    bell: Arc<OwnedFd>,
    asked: Arc<AtomicU32>,
    rests: bool,
    restless: Arc<AtomicBool>,
}

impl RxQueue for Bell {
    fn receive(&mut self, _: Tier, _: &mut Packets, _: IfIndex, _: Quota) -> Result<Received, PortFault> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Received::default())
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn rests(&self) -> bool {
        self.rests
    }

    fn is_restless(&self) -> bool {
        self.restless.load(Ordering::Relaxed)
    }
}

struct Lab {
    graph: Graph,
    publisher: Publisher,
    watch: Watch,
    bells: Vec<(Arc<OwnedFd>, Arc<AtomicU32>)>,
    now: u64,
    /// All of them have something to do.
    restless: Arc<AtomicBool>,
}

impl Lab {
    fn new(queues: usize, rests: bool) -> Self {
        let plan = Plan::resolve(&[port_input("input", "For tests.")], &[], Schema::default()).unwrap();
        let plan = Arc::new(plan);
        let publisher = Publisher::new(&plan.schema);
        let events = EventSender::new(|event| panic!("{event:?}"));
        let mut graph = Graph::new(plan, Station::alone(), Tier::detect(), events).unwrap();
        let watch = Watch::of(&mut graph);
        let mut lab = Self { graph, publisher, watch, bells: Vec::new(), now: 0, restless: Arc::default() };
        (0..queues).for_each(|_| lab.add(rests));
        lab
    }

    fn add(&mut self, rests: bool) {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let restless = Arc::clone(&self.restless);
        let rx = Bell { bell: Arc::clone(&bell), asked: Arc::clone(&asked), rests, restless };
        let port = RxPort::new(self.bells.len() as IfIndex, 0, RxMode::Adaptive, Box::new(rx));
        self.graph.queues("input").unwrap().add(port);
        self.bells.push((bell, asked));
    }

    fn ring(&self, at: usize) {
        rustix::io::write(&self.bells[at].0, &1u64.to_ne_bytes()).unwrap();
    }

    /// So many rounds that bring nothing that those rest that may.
    fn silence(&mut self) {
        for _ in 0..8 {
            self.round(true);
        }
    }

    /// A round, and how often each queue has been asked since the last one.
    fn round(&mut self, idle: bool) -> Vec<u32> {
        self.round_of(if idle { 0 } else { 256 })
    }

    /// The same with so many packets of others.
    fn round_of(&mut self, received: usize) -> Vec<u32> {
        self.now += 1000;
        self.graph.round(self.publisher.current(), self.now);
        self.watch.round(&mut self.graph, self.now, received);
        self.bells.iter().map(|(_, asked)| asked.swap(0, Ordering::Relaxed)).collect()
    }
}

#[test]
fn who_has_nothing_is_not_asked_again_before_it_has() {
    let mut lab = Lab::new(100, true);
    for _ in 0..8 {
        assert_eq!(lab.round(true), [1; 100]);
    }
    assert_eq!(lab.round(true), [0; 100]);
    lab.ring(70);
    lab.ring(3);
    lab.round(true);
    let asked = lab.round(true);
    let heard: Vec<usize> = (0..100).filter(|at| asked[*at] > 0).collect();
    assert_eq!(heard, [3, 70]);
}

#[test]
fn a_busy_worker_looks_now_and_then() {
    let mut lab = Lab::new(2, true);
    lab.silence();
    lab.ring(1);
    let rounds: Vec<u32> = (0..25).map(|_| lab.round(false)[1]).collect();
    let first = rounds.iter().position(|asked| *asked > 0).unwrap();
    assert!((15..=21).contains(&first), "20 µs, a round each of which takes one: {rounds:?}");
}

#[test]
fn queues_in_memory_are_asked_now_and_then_while_others_have_much() {
    let mut lab = Lab::new(2, false);
    lab.silence();
    assert_eq!(lab.round(true), [1; 2], "nobody had anything");
    assert_eq!(lab.round_of(63), [1; 2]);
    assert_eq!(lab.round_of(63), [1; 2], "others had little");
    let _ = lab.round_of(256);
    let rounds: Vec<u32> = (0..100).map(|_| lab.round_of(256)[1]).collect();
    assert_eq!(rounds.iter().sum::<u32>(), 5, "every 20 µs, a round each of which takes one: {rounds:?}");
}

/// A wrapper that has held packets, and holds none any more, may have had others rest before it.
#[test]
fn who_is_restless_for_a_while_is_heard_afterwards() {
    let mut lab = Lab::new(1, true);
    lab.silence();
    lab.restless.store(true, Ordering::Relaxed);
    lab.add(true);
    lab.silence();
    assert_eq!(lab.round(true), [0, 1]);
    lab.restless.store(false, Ordering::Relaxed);
    lab.round(true);
    assert_eq!(lab.round(true), [0, 0]);
    lab.ring(1);
    lab.round(true);
    assert_eq!(lab.round(true), [0, 1]);
}

#[test]
fn queues_that_come_later_are_looked_at_too() {
    let mut lab = Lab::new(1, true);
    lab.silence();
    lab.add(true);
    lab.silence();
    assert_eq!(lab.round(true), [0, 0]);
    lab.ring(1);
    lab.round(true);
    assert_eq!(lab.round(true), [0, 1]);
    assert_eq!(lab.graph.queues("input").unwrap().take(|port| port.interface == 0).len(), 1);
    lab.round(true);
    assert_eq!(lab.round(true), [0, 1], "still readable, whatever its number is now");
}

#[test]
fn without_descriptors_all_are_asked() {
    let mut lab = Lab::new(2, true);
    lab.silence();
    // A set that can't be asked.
    lab.watch.set = Some(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    lab.round(true);
    assert_eq!(lab.round(true), [1; 2]);
}
