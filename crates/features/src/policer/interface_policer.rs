//! `interface-policer`: meters all that an interface receives.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `device-input`* | go on, marked or not |
//! | `drop` | see [`Drop`] |
//!
//! Bytes are those behind the Ethernet header. What is no IP counts, has no colour when it comes, and isn't marked.

use super::{Action, Policed, colour, mark};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::engine::MAX_VECTOR;
use graph::nodes::DEVICE_INPUT;
use graph::packet::{HEAD_AREA, Meta, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Feature, Frame, IfIndex, Node, NodeContext, NodeSpec};
use std::sync::Arc;
use tables::policer::Colour;
use wire::{EtherType, EthernetHeader, Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a packet gets no further.
    enum Drop {
        /// It conforms to the interface's policer, which drops what does.
        Conforming => "conforming", Loss,
        /// It exceeds the committed rate and burst of the interface's policer.
        Exceeding => "exceeding", Loss,
        /// It violates the rates and bursts of the interface's policer.
        Violating => "violating", Loss,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Packets that were given another DSCP.
        Marked => "marked",
    }
}

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "interface-policer",
    help: "Meters what an interface receives, and marks or drops what is too much.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    features: &[Feature { arc: DEVICE_INPUT, runs_before: &[], runs_after: &[] }],
    make: |cx: &NodeContext<'_>| {
        Box::new(InterfacePolicer {
            policers: cx.table(),
            arcs: cx.table(),
            place: cx.arc(DEVICE_INPUT),
            bytes: [0; MAX_VECTOR],
            colours: [Colour::Green; MAX_VECTOR],
        })
    },
    ..NodeSpec::EMPTY
};

/// Which interfaces are metered.
#[derive(Clone, Debug, Default)]
pub struct Policers(Vec<Option<Receiver>>);

/// An interface that is metered.
#[derive(Clone, Debug)]
struct Receiver {
    policed: Arc<Policed>,
    /// Its packets begin with an Ethernet header.
    is_ethernet: bool,
}

impl Policers {
    /// Says by what an interface is metered.
    pub fn set(&mut self, index: IfIndex, policed: Arc<Policed>, is_ethernet: bool) {
        let at = usize::from(index);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(Receiver { policed, is_ethernet });
    }

    /// None is metered any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

struct InterfacePolicer {
    policers: Key<Policers>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    bytes: [u32; MAX_VECTOR],
    colours: [Colour; MAX_VECTOR],
}

impl Node for InterfacePolicer {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (policers, arcs) = (tables.get(self.policers), tables.get(self.arcs));
        let (slots, mut from, mut marked) = (frame.slots, 0, 0);
        while let Some(first) = slots.get(from) {
            let rx_if = ctx.packets.meta(*first).rx_if;
            let same =
                slots[from..].iter().take_while(|slot| ctx.packets.meta(**slot).rx_if == rx_if).count();
            let (slots, next) = (&slots[from..from + same], &mut frame.next[from..from + same]);
            from += same;
            let receiver = policers.0.get(usize::from(rx_if)).and_then(Option::as_ref);
            if let Some(receiver) = receiver {
                self.meter(ctx.packets, slots, receiver, ctx.now);
            }
            for ((slot, next), colour) in slots.iter().zip(next).zip(&self.colours) {
                let action =
                    receiver.map_or(Action::Transmit, |receiver| receiver.policed.profile.action(*colour));
                let (meta, area) = ctx.packets.parts_mut(*slot);
                if let (Action::Mark(dscp), Some(receiver)) = (action, receiver)
                    && let Some(l3) = ip_at(meta, area, receiver.is_ethernet)
                {
                    marked += u64::from(mark(area, l3, meta.end.into(), dscp));
                }
                *next = match action {
                    Action::Drop => ctx.drop(*slot, reason(*colour)),
                    Action::Transmit | Action::Mark(_) => self.place.next(arcs, rx_if, meta),
                };
            }
        }
        if marked > 0 {
            ctx.count(Counter::Marked, marked);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "{} bytes, interface {}", meta.len(), meta.rx_if)
    }
}

impl InterfacePolicer {
    /// Meters packets of one interface.
    #[inline(always)]
    fn meter(&mut self, packets: &Packets, slots: &[SlotId], receiver: &Receiver, now: u64) {
        let Receiver { policed, is_ethernet } = receiver;
        let link = if *is_ethernet { EthernetHeader::LEN as u32 } else { 0 };
        let (bytes, colours) = (&mut self.bytes[..slots.len()], &mut self.colours[..slots.len()]);
        for (bytes, slot) in bytes.iter_mut().zip(slots) {
            *bytes = packets.meta(*slot).len().saturating_sub(link);
        }
        colours.fill(Colour::Green);
        if policed.profile.is_aware {
            for (its, slot) in colours.iter_mut().zip(slots) {
                let (meta, area) = (packets.meta(*slot), packets.area(*slot));
                *its = ip_at(meta, area, *is_ethernet)
                    .map_or(Colour::Green, |l3| colour(area, l3, meta.end.into()));
            }
        }
        policed.meter(now, bytes, colours);
    }
}

const fn reason(colour: Colour) -> Drop {
    match colour {
        Colour::Green => Drop::Conforming,
        Colour::Yellow => Drop::Exceeding,
        Colour::Red => Drop::Violating,
    }
}

/// Where the IP header is, behind two VLAN tags at most.
#[inline(always)]
fn ip_at(meta: &Meta, area: &[u8; HEAD_AREA], is_ethernet: bool) -> Option<usize> {
    let start = usize::from(meta.data);
    if !is_ethernet {
        return Some(start);
    }
    let ethertype = |tags: usize| {
        let field = area.get(start + EthernetHeader::LEN - 2 + 4 * tags..)?.first_chunk()?;
        Some(EtherType::new(u16::from_be_bytes(*field)))
    };
    let tags = (0..3).find(|tags| ethertype(*tags).is_none_or(|ethertype| !ethertype.is_vlan()))?;
    let is_ip = ethertype(tags).is_some_and(|found| matches!(found, EtherType::IPV4 | EtherType::IPV6));
    is_ip.then_some(start + EthernetHeader::LEN + 4 * tags)
}
