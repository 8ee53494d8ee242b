//! The node behind the lookup that sends packets one way or the other, for both IP versions.

use super::choice::{self, Match, Splits};
use super::split::{SplitHop, WithoutPeer};
use crate::interface::Interfaces;
use crate::ip::{NextHop, NextHopKind, NextHops};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext};
use wire::IpProtocol;

graph::drops! {
    /// Why a packet goes neither way.
    pub(super) enum Drop {
        /// Nobody is connected to the interface of its port, and the route says that it waits for nobody else.
        NoPeer => "no-peer", Loss,
        /// The interface that it would go to isn't there or is down.
        NoWay => "no-way", Loss,
        /// The next hop has changed since the lookup.
        Stale => "stale-next-hop", Loss,
    }
}

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Packets to the split's ports.
        ByPort => "by-port",
        /// Answers to flows that its interface had begun from other ports.
        ByFlow => "by-flow",
        /// ICMP errors about packets from its interface.
        Errors => "errors",
        /// Fragments that followed the first one of their packet there.
        Fragments => "fragments",
        /// Packets that went where others go, since nobody is connected to the interface of their port.
        FellBack => "fell-back",
        /// Later fragments that went where others go: their first fragment did, or came behind them, or never.
        LaterFragments => "later-fragments-of-others",
    }
}

/// The node's edges, the same for both versions.
pub(super) const DROP: u8 = 0;
pub(super) const REWRITE: u8 = 1;
pub(super) const RESOLVE: u8 = 2;

/// One worker's instance.
pub(super) struct Steer<F: Splits> {
    hops: Key<NextHops>,
    interfaces: Key<Interfaces>,
    family: PhantomData<F>,
}

impl<F: Splits> Steer<F> {
    pub(super) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        Box::new(Self { hops: cx.table(), interfaces: cx.table(), family: PhantomData })
    }
}

impl<F: Splits> Node for Steer<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "next hop {}", packets.meta(slot).next_hop)
    }
}

/// A way that packets may go.
#[derive(Clone, Copy)]
struct Way {
    hop: u32,
    edge: u8,
}

impl Way {
    fn of(hops: &NextHops, hop: u32) -> Self {
        let edge = match hops.get(hop).kind {
            NextHopKind::Rewrite => REWRITE,
            NextHopKind::Glean | NextHopKind::Resolve => RESOLVE,
            _ => DROP,
        };
        Self { hop, edge }
    }
}

/// What consecutive packets to one split have in common.
struct Fork<'t> {
    split: &'t SplitHop,
    others: Way,
    /// `None`: nobody is there.
    matching: Option<Way>,
}

impl<'t> Fork<'t> {
    /// The split that a next hop is. `is_connected`: whether somebody takes what is sent by an interface.
    fn of(hops: &'t NextHops, hop: &NextHop, is_connected: impl FnOnce(IfIndex) -> bool) -> Option<Self> {
        let split = hops.split(hop)?;
        let matching = Way::of(hops, split.matching);
        let there = matching.edge != DROP && is_connected(hops.get(split.matching).tx_if);
        Some(Self { split, others: Way::of(hops, split.others), matching: there.then_some(matching) })
    }

    /// Where a packet goes that is one of the split's, or isn't.
    #[inline(always)]
    fn way(&self, is_matching: bool) -> (ByPort, Result<Way, Drop>) {
        let (by, way) = match (is_matching, self.matching) {
            (false, _) => (ByPort::Others, self.others),
            (true, Some(matching)) => (ByPort::Matching, matching),
            (true, None) if self.split.split.without_peer == WithoutPeer::Drop => {
                return (ByPort::NobodyThere, Err(Drop::NoPeer));
            }
            (true, None) => (ByPort::NobodyThere, self.others),
        };
        (by, if way.edge == DROP { Err(Drop::NoWay) } else { Ok(way) })
    }
}

impl<F: Splits> Steer<F> {
    /// Whether somebody takes what is sent by `interface`. One without queues of its own is as good as what is below; who is at the other side of a bridge or
    /// tunnel isn't known here.
    fn is_connected(&self, ctx: &mut Ctx<'_>, interface: IfIndex) -> bool {
        let carrier = ctx.tables.get(self.interfaces).carrier(interface);
        carrier.is_none_or(|carrier| ctx.ports.get(carrier).is_some())
    }
}

/// What decides where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByPort {
    /// Its port is one of the split's, and somebody takes what is sent by their interface.
    Matching,
    /// Its port is one of the split's, but nobody is there.
    NobodyThere,
    /// It has another port, or none.
    Others,
}

/// What becomes of a packet at a port split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Why.
    pub by: ByPort,
    /// The interface of the split's ports; 0: it leads nowhere at present.
    pub interface: IfIndex,
    /// Where the packet goes, or the drop reason of the node where it goes nowhere.
    pub hop: Result<NextHop, &'static str>,
}

/// What the node does with a packet to `port`, for whoever asks about one that isn't there: of flows, and of packets in fragments, nothing is remembered.
/// `is_connected`: whether somebody takes what is sent by an interface. `None`: `hop` is no port split.
pub fn decide(
    hops: &NextHops,
    hop: &NextHop,
    (protocol, port): (IpProtocol, u16),
    is_connected: impl FnOnce(IfIndex) -> bool,
) -> Option<Decided> {
    let fork = Fork::of(hops, hop, is_connected)?;
    let (by, way) = fork.way(fork.split.split.has(protocol, port));
    let interface = hops.get(fork.split.matching).tx_if;
    let hop = way.map(|way| *hops.get(way.hop));
    let hop = hop.map_err(|reason| Drop::SPECS[reason as usize].name);
    Some(Decided { by, interface, hop })
}

impl<F: Splits> Tiered for Steer<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, _: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let hops = tables.get(self.hops);
        let now = (ctx.now / 1_000_000_000) as u32;
        let mut counts = [0; Counter::SPECS.len()];
        let mut known: Option<(u32, Fork<'_>)> = None;
        for (slot, next) in frame.slots.iter().zip(frame.next.iter_mut()) {
            let slot = *slot;
            let id = ctx.packets.meta(slot).next_hop;
            if known.as_ref().is_none_or(|(known, _)| *known != id) {
                let fork = Fork::of(hops, hops.get(id), |interface| self.is_connected(ctx, interface));
                known = fork.map(|fork| (id, fork));
            }
            let Some((_, fork)) = &known else {
                *next = ctx.drop(slot, Drop::Stale);
                continue;
            };
            let split = &fork.split.split;
            let choice = match choice::fragment::<F>(ctx.packets, slot) {
                None => split.choose::<F>(ctx.packets, slot, now),
                Some(fragment) => {
                    let choice = split.choose_fragment::<F>(ctx.packets, slot, &fragment, now);
                    counts[Counter::LaterFragments as usize] +=
                        u64::from(fragment.offset != 0 && choice.is_none());
                    choice
                }
            };
            let (by, way) = fork.way(choice.is_some());
            let counter = match (by, choice) {
                (ByPort::Matching, Some(Match::Port)) => Some(Counter::ByPort),
                (ByPort::Matching, Some(Match::Flow)) => Some(Counter::ByFlow),
                (ByPort::Matching, Some(Match::Error)) => Some(Counter::Errors),
                (ByPort::Matching, Some(Match::Fragment)) => Some(Counter::Fragments),
                (ByPort::NobodyThere, _) if !matches!(way, Err(Drop::NoPeer)) => Some(Counter::FellBack),
                _ => None,
            };
            if let Some(counter) = counter {
                counts[counter as usize] += 1;
            }
            let way = match way {
                Ok(way) => way,
                Err(reason) => {
                    *next = ctx.drop(slot, reason);
                    continue;
                }
            };
            ctx.packets.meta_mut(slot).next_hop = way.hop;
            *next = way.edge;
        }
        for (counter, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            ctx.count(counter as u8, count);
        }
    }
}
