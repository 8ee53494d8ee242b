use super::Graph;
use crate::context::{Ctx, Frame};
use crate::handover::Station;
use crate::node::{Node, NodeKind, NodeSpec};
use crate::plan::Plan;
use crate::port::{Attachment, PortFault, Sent, TxPorts, TxQueue};
use crate::publish::{Publisher, Schema};
use crate::worker::EventSender;
use memory::packet::{Loan, Packets, SlotId};
use memory::simd::Tier;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Needs packets that it was sent until it is flushed.
struct Late(Arc<Mutex<Vec<&'static str>>>, Option<Loan>);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(if self.1.is_some() { "dropped with a loan" } else { "dropped" });
    }
}

impl TxQueue for Late {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        self.1 = Some(packets.lend());
        Ok(Sent { packets: slots.len(), ..Sent::default() })
    }

    fn flush(&mut self) {
        self.0.lock().unwrap().push(if self.1.take().is_some() { "flushed" } else { "flushed for nothing" });
    }
}

/// Brings a packet, which is sent at once, and panics.
struct Panics;

impl Node for Panics {
    fn process(&mut self, ctx: &mut Ctx<'_>, _frame: &mut Frame<'_>) {
        let slot = ctx.packets.take(0).unwrap();
        let sent = ctx.ports.get(0).unwrap().send(ctx.tier, ctx.packets, &[slot]).unwrap();
        assert_eq!(sent.packets, 1);
        ctx.ports.touched(0);
        panic!("a node of the same round");
    }
}

#[test]
fn a_round_that_ends_with_a_panic_is_over_for_queues_before_its_packets_go() {
    let input = NodeSpec {
        name: "input",
        kind: NodeKind::Input,
        edges: &["drop"],
        make: |_| Box::new(Panics),
        ..NodeSpec::EMPTY
    };
    let plan = Arc::new(Plan::resolve(&[input], &[], Schema::default()).unwrap());
    let publisher = Publisher::new(&plan.schema);
    let events = EventSender::new(|event| panic!("{event:?}"));
    let mut graph = Graph::new(plan, Station::alone(), Tier::detect(), events).unwrap();
    let seen = Arc::new(Mutex::default());
    graph.ports.attach(0, Attachment::default(), Box::new(Late(Arc::clone(&seen), None)));
    let worker = AssertUnwindSafe(move || graph.round(publisher.current(), 0));
    assert!(catch_unwind(worker).is_err());
    assert_eq!(*seen.lock().unwrap(), ["flushed", "dropped"]);
}

/// Others need the queue of events, too.
#[test]
fn a_queue_that_cannot_go_on_is_told_of_once() {
    let mut ports = TxPorts::default();
    let attach = |ports: &mut TxPorts| {
        ports.attach(3, Attachment::default(), Box::new(Late(Arc::default(), None)));
    };
    let fault = || PortFault { kind: "fault", reason: "a descriptor out of bounds".into() };
    let told = Cell::new(0);
    let tell = |ports: &mut TxPorts, has_room: bool| {
        ports.tell(|_| {
            told.set(told.get() + u32::from(has_room));
            has_room
        });
    };
    attach(&mut ports);
    ports.failed(3, fault());
    tell(&mut ports, false);
    for _ in 0..3 {
        tell(&mut ports, true);
        ports.failed(3, fault());
    }
    assert_eq!(told.get(), 1);
    attach(&mut ports);
    ports.failed(3, fault());
    tell(&mut ports, true);
    assert_eq!(told.get(), 2, "the next one is another");
    ports.failed(3, fault());
    ports.detach(3);
    tell(&mut ports, true);
    assert_eq!(told.get(), 2, "one that is gone has taken its fault along");
}
