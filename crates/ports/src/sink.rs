//! A port that takes packets, counts them and forgets them.
//!
//! It is also the sending side of a [generator](crate::generator).

use crate::port::{LinkLayer, NoLink, Port, PortControl, PortFacts};
use graph::NodeSpec;
use graph::nodes::port_output;
use graph::port::{PortFault, Sent, TxQueue};
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use std::sync::Arc;

/// The output node of sinks and generators.
pub const OUTPUT: NodeSpec = port_output("sink-tx", "Counts packets and forgets them.");

/// What a sink is to be.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// A name for people.
    pub name: String,
    /// What packets begin with.
    pub link: LinkLayer,
    /// Transmit queues, one for each worker that sends.
    pub tx_queues: u16,
}

/// Opens a sink. It has no receive queue.
#[must_use]
pub fn open(options: &SinkOptions) -> Port {
    Port {
        rx: Vec::new(),
        tx: queues(options.tx_queues),
        facts: PortFacts {
            name: options.name.clone(),
            link: options.link,
            mac: None,
            mtu: u32::from(u16::MAX),
            host_ifindex: None,
            offload: true,
        },
        link: Arc::new(NoLink),
        output: None,
        control: Box::new(Nothing),
    }
}

/// Queues that forget what they take.
pub(crate) fn queues(count: u16) -> Vec<Box<dyn TxQueue>> {
    (0..count).map(|_| -> Box<dyn TxQueue> { Box::new(SinkTx) }).collect()
}

/// A port without anything behind it.
pub(crate) struct Nothing;

impl PortControl for Nothing {}

struct SinkTx;

impl TxQueue for SinkTx {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let bytes = slots.iter().map(|slot| u64::from(packets.meta(*slot).len())).sum();
        Ok(Sent { packets: slots.len(), bytes, ..Sent::default() })
    }
}
