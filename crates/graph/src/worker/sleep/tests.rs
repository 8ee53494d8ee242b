use super::*;
use crate::context::{Ctx, Frame};
use crate::handover::Station;
use crate::node::{Node, NodeKind, NodeSpec};
use crate::plan::Plan;
use crate::port::{IfIndex, PortFault, Quota, Received, RxPort, RxQueue, RxQueues};
use crate::publish::Schema;
use crate::worker::EventSender;
use memory::packet::Packets;
use memory::simd::Tier;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::Arc;

#[derive(Default)]
struct Holder(RxQueues);

impl Node for Holder {
    fn process(&mut self, _ctx: &mut Ctx<'_>, _frame: &mut Frame<'_>) {}

    fn queues(&mut self) -> Option<&mut RxQueues> {
        Some(&mut self.0)
    }
}

/// Has packets as long as somebody has rung.
struct Bell(Arc<OwnedFd>);

impl RxQueue for Bell {
    fn receive(
        &mut self,
        _tier: Tier,
        _packets: &mut Packets,
        _rx_if: IfIndex,
        _quota: Quota,
    ) -> Result<Received, PortFault> {
        Ok(Received::default())
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

fn bell() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap())
}

fn ring(bell: &OwnedFd) {
    rustix::io::write(bell, &1u64.to_ne_bytes()).unwrap();
}

fn silence(bell: &OwnedFd) {
    rustix::io::read(bell, &mut [0; 8]).unwrap();
}

fn add(graph: &mut Graph, interface: IfIndex, bell: &Arc<OwnedFd>) {
    let port = RxPort::new(interface, 0, RxMode::Interrupt, Box::new(Bell(Arc::clone(bell))));
    graph.queues("input").unwrap().add(port);
}

fn graph() -> Graph {
    let input = NodeSpec {
        name: "input",
        kind: NodeKind::Input,
        edges: &["drop"],
        make: |_| Box::new(Holder::default()),
        ..NodeSpec::EMPTY
    };
    let plan = Arc::new(Plan::resolve(&[input], &[], Schema::default()).unwrap());
    Graph::new(plan, Station::alone(), Tier::detect(), EventSender::new(|event| panic!("{event:?}"))).unwrap()
}

/// Interfaces that aren't left out of the next round.
fn heard(graph: &mut Graph) -> Vec<IfIndex> {
    let ports = graph.all_queues().flat_map(|queues| queues.iter_mut());
    ports.filter(|port| !port.silent).map(|port| port.interface).collect()
}

#[test]
fn who_has_rung_is_heard_and_nobody_else() {
    let (mut graph, mailbox, mut alarm) = (graph(), bell(), Alarm::default());
    let bells: Vec<_> = (0..100).map(|_| bell()).collect();
    bells.iter().enumerate().for_each(|(at, bell)| add(&mut graph, at as IfIndex, bell));
    assert!(may_sleep(&mut graph, 0));
    ring(&bells[70]);
    ring(&bells[3]);
    assert_eq!(alarm.wait(&mut graph, &mailbox), Woken { event: true, mail: false });
    assert_eq!(heard(&mut graph), [3, 70]);
    silence(&bells[3]);
    ring(&mailbox);
    assert_eq!(alarm.wait(&mut graph, &mailbox), Woken { event: true, mail: true });
    assert_eq!(heard(&mut graph), [70]);
}

#[test]
fn when_the_time_is_up_all_are_looked_at() {
    let (mut graph, mailbox, mut alarm) = (graph(), bell(), Alarm::default());
    add(&mut graph, 1, &bell());
    assert_eq!(alarm.wait(&mut graph, &mailbox), Woken { event: false, mail: false });
    assert_eq!(heard(&mut graph), [1]);
}

#[test]
fn queues_that_come_are_waited_for_and_those_that_go_wake_nobody() {
    let (mut graph, mailbox, mut alarm) = (graph(), bell(), Alarm::default());
    let bells = [bell(), bell(), bell()];
    add(&mut graph, 0, &bells[0]);
    ring(&bells[0]);
    assert!(alarm.wait(&mut graph, &mailbox).event);
    // The descriptor of a queue that goes stays open here, and readable: the set must not have it any more.
    assert_eq!(graph.queues("input").unwrap().take(|port| port.interface == 0).len(), 1);
    add(&mut graph, 1, &bells[1]);
    add(&mut graph, 2, &bells[2]);
    assert_eq!(alarm.wait(&mut graph, &mailbox), Woken { event: false, mail: false });
    ring(&bells[2]);
    assert!(alarm.wait(&mut graph, &mailbox).event);
    assert_eq!(heard(&mut graph), [2]);
}

#[test]
fn without_a_set_the_kernel_is_asked_each_time() {
    let (mut graph, mailbox) = (graph(), bell());
    let mut alarm = Alarm { without: true, ..Alarm::default() };
    let bells = [bell(), bell()];
    graph.all_queues().for_each(|queues| queues.changed = false);
    bells.iter().zip(1..).for_each(|(bell, at)| add(&mut graph, at, bell));
    graph.all_queues().for_each(|queues| queues.changed = false);
    ring(&bells[1]);
    assert!(alarm.wait(&mut graph, &mailbox).event && alarm.set.is_none());
    assert_eq!(heard(&mut graph), [1, 2]);
    silence(&bells[1]);
    ring(&mailbox);
    assert_eq!(alarm.wait(&mut graph, &mailbox), Woken { event: true, mail: true });
    silence(&mailbox);
    // Only the time is up, and so there is time to try again.
    assert_eq!(alarm.wait(&mut graph, &mailbox), Woken { event: false, mail: false });
    ring(&bells[0]);
    assert!(alarm.wait(&mut graph, &mailbox).event && alarm.set.is_some());
    assert_eq!(heard(&mut graph), [1]);
}

#[test]
fn of_more_than_are_named_at_a_time_all_are_heard_in_the_end() {
    let (mut graph, mailbox, mut alarm) = (graph(), bell(), Alarm::default());
    let bells: Vec<_> = (0..2 * NAMED).map(|_| bell()).collect();
    bells.iter().enumerate().for_each(|(at, bell)| add(&mut graph, at as IfIndex, bell));
    bells.iter().for_each(|bell| ring(bell));
    let mut all = Vec::new();
    for _ in 0..2 {
        assert!(alarm.wait(&mut graph, &mailbox).event);
        let some = heard(&mut graph);
        assert_eq!(some.len(), NAMED);
        some.iter().for_each(|at| silence(&bells[usize::from(*at)]));
        all.extend(some);
    }
    all.sort_unstable();
    assert_eq!(all, (0..2 * NAMED as IfIndex).collect::<Vec<_>>());
}

#[test]
fn two_queues_of_one_descriptor_are_read_one_after_the_other() {
    let (mut graph, mailbox, mut alarm) = (graph(), bell(), Alarm::default());
    let shared = bell();
    add(&mut graph, 1, &shared);
    add(&mut graph, 2, &shared);
    ring(&shared);
    assert!(alarm.wait(&mut graph, &mailbox).event);
    // The other one in the round after, as whoever is silent.
    assert_eq!(heard(&mut graph), [1]);
}
