//! Nodes for tests: a network layer that shows what a packet was handed over with, and features that do nothing.

use graph::arc::{ArcPlace, Arcs};
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::packet::{Flags, Meta};
use graph::port::IfIndex;
use graph::publish::Key;
use graph::{Attach, Ctx, Feature, Frame, Node, NodeContext, NodeSpec};

/// Interface by which the probe sends; give it a test port.
pub const PROBE_IF: IfIndex = 900;

/// Takes packets of the local experimental ethertype 0x88b5 and of IP version 15, and sends them by [`PROBE_IF`] behind
/// a [`probe_header`].
pub const PROBE: NodeSpec = NodeSpec {
    name: "probe",
    help: "Sends a packet on behind what is known of it.",
    edges: &["drop"],
    attach: &[Attach { parent: "ethernet-input", key: 0x88b5 }, Attach { parent: "l3-input", key: 15 }],
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| Box::new(Probe { arcs: cx.table(), output: cx.arc(INTERFACE_OUTPUT) }),
    ..NodeSpec::EMPTY
};

/// A feature of `device-input` that lets everything pass.
pub const PASS_IN: NodeSpec = NodeSpec {
    name: "pass-in",
    help: "Lets everything pass.",
    features: &[Feature { arc: DEVICE_INPUT, runs_before: &[], runs_after: &[] }],
    make: |cx: &NodeContext<'_>| {
        Box::new(Pass { arcs: cx.table(), place: cx.arc(DEVICE_INPUT), interface: |meta| meta.rx_if })
    },
    ..BASE
};

/// A feature of `interface-output` that lets everything pass.
pub const PASS_OUT: NodeSpec = NodeSpec {
    name: "pass-out",
    help: "Lets everything pass.",
    features: &[Feature { arc: INTERFACE_OUTPUT, runs_before: &[], runs_after: &[] }],
    make: |cx: &NodeContext<'_>| {
        Box::new(Pass { arcs: cx.table(), place: cx.arc(INTERFACE_OUTPUT), interface: |meta| meta.tx_if })
    },
    ..BASE
};

const BASE: NodeSpec = NodeSpec { edges: &["drop"], ..NodeSpec::EMPTY };

struct Pass {
    arcs: Key<Arcs>,
    place: ArcPlace,
    interface: fn(&Meta) -> IfIndex,
}

impl Node for Pass {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let arcs = ctx.tables.get(self.arcs);
        frame.each(|slot| {
            let meta = ctx.packets.meta_mut(slot);
            self.place.next(arcs, (self.interface)(meta), meta)
        });
    }
}

struct Probe {
    arcs: Key<Arcs>,
    output: ArcPlace,
}

/// Eight bytes: interface, table, bytes of the link-layer header (all big endian), 1 for a frame to our address + 2 for
/// one to a group + 4 for one that has been through a BVI, and 1 if the network header is the current one.
#[must_use]
pub fn probe_header(rx_if: IfIndex, table: u16, header_len: u16, flags: u8) -> Vec<u8> {
    let numbers = [rx_if, table, header_len].map(u16::to_be_bytes).concat();
    [&numbers[..], &[flags, 1]].concat()
}

fn header_of(meta: &Meta) -> Vec<u8> {
    let all = [(Flags::OUR_MAC, 1), (Flags::GROUP, 2), (Flags::FROM_BVI, 4)];
    let flags = all.iter().filter(|(flag, _)| meta.flags.has(*flag)).map(|(_, bit)| bit).sum();
    let mut header = probe_header(meta.rx_if, meta.table, meta.data.wrapping_sub(meta.l2), flags);
    header[7] = u8::from(meta.l3 == meta.data);
    header
}

impl Node for Probe {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (tables, output) = (ctx.tables, self.output);
        let arcs = tables.get(self.arcs);
        frame.each(|slot| {
            let header = header_of(ctx.packets.meta(slot));
            match ctx.packets.prepend(slot, header.len() as u16) {
                Some(room) => room.copy_from_slice(&header),
                None => panic!("no headroom for the probe's header"),
            }
            let meta = ctx.packets.meta_mut(slot);
            meta.tx_if = PROBE_IF;
            output.begin(arcs, PROBE_IF, meta)
        });
    }
}
