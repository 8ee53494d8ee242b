//! Where packets go from a node of sessions: to the next service of their chain, or on along the arc that they came by.

use super::services::{Chain, SERVICES_ARC};
use crate::{ip4, ip6};
use graph::arc::{ArcPlace, Arcs};
use graph::packet::Meta;
use graph::{IfIndex, NodeContext, Resume};

/// Where packets go on that have passed their services: every service's `resumes`.
pub const RESUMES: &[Resume] = &[
    Resume { arc: ip4::UNICAST, after: "ip4-session-input" },
    Resume { arc: ip6::UNICAST, after: "ip6-session-input" },
];

/// Ways from a node of sessions to the services, and from them back.
#[derive(Clone, Copy)]
pub(super) struct Onward {
    services: ArcPlace,
    arcs: [ArcPlace; 2],
}

/// How a packet of a vector has gone back to its arc, for the next one, which nearly always does the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Back {
    /// Interface, position on the arc, IP version.
    from: Option<(IfIndex, u8, bool)>,
    edge: u8,
}

impl Onward {
    /// The ways of a node that finds sessions, for packets of an IP version.
    pub(super) fn of_input(cx: &NodeContext<'_>, arc: &str) -> Self {
        Self { services: cx.arc(SERVICES_ARC), arcs: [cx.arc(arc); 2] }
    }

    /// The ways of a service.
    pub(super) fn of_service(cx: &NodeContext<'_>) -> Self {
        Self { services: cx.arc(SERVICES_ARC), arcs: [cx.arc(ip4::UNICAST), cx.arc(ip6::UNICAST)] }
    }

    /// Edge of a packet with that chain before it.
    #[inline(always)]
    pub(super) fn edge(&self, chain: Chain, is_v6: bool, arcs: &Arcs, meta: &mut Meta) -> u8 {
        self.service_edge(chain, meta).unwrap_or_else(
            #[inline(always)]
            || self.arcs[usize::from(is_v6)].next(arcs, meta.rx_if, meta),
        )
    }

    /// The same where most packets go back.
    #[inline(always)]
    pub(super) fn edge_back(
        &self,
        chain: Chain,
        is_v6: bool,
        arcs: &Arcs,
        meta: &mut Meta,
        back: &mut Back,
    ) -> u8 {
        if let Some(edge) = self.service_edge(chain, meta) {
            return edge;
        }
        let from = Some((meta.rx_if, meta.arc, is_v6));
        if back.from == from {
            meta.arc = meta.arc.wrapping_add(1);
            return back.edge;
        }
        let edge = self.arcs[usize::from(is_v6)].next(arcs, meta.rx_if, meta);
        *back = Back { from, edge };
        edge
    }

    /// Edge to the first service of a chain, or to the drop of a blocked one; `None` where there is no service.
    #[inline(always)]
    fn service_edge(&self, chain: Chain, meta: &mut Meta) -> Option<u8> {
        let first = chain.first()?;
        let Some(reason) = chain.block() else { return Some(self.services.base + first) };
        meta.drop_reason = reason;
        Some(0)
    }
}
