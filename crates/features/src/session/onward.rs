//! Where packets go from a node of sessions: to the next service of their chain, or on along the arc that they came by.
//!
//! Which service a bit of a chain stands for depends on the scope of the session's tenant. A node takes all packets for ones of its own scope, the first that it is of; where tenants of
//! others are there, and their packets come to it, too, it [corrects](Onward::correct) the edges of a vector in the end. So those without other scopes pay one comparison a vector.

use super::entry::Flow;
use super::input::of_later;
use super::order;
use super::scopes::{Layout, Scopes};
use super::services::{Chain, SERVICES_ARC};
use super::sessions::Sessions;
use super::tenants::Tenants;
use crate::{ip4, ip6};
use core::iter::zip;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Meta, Packets, SlotId};
use graph::{GONE, IfIndex, NodeContext, Resume};

/// Where packets go on that have passed their services: every service's `resumes`.
pub const RESUMES: &[Resume] = &[
    Resume { arc: ip4::UNICAST, after: "ip4-session-input" },
    Resume { arc: ip6::UNICAST, after: "ip6-session-input" },
];

/// Edges to a scope's services, by their bits.
type Edges = [u8; u64::BITS as usize];

/// The services of a graph, as the nodes that it has are said to be.
pub(super) struct Numbers {
    names: Vec<&'static str>,
    layout: Layout,
}

impl Numbers {
    /// Those of the graph that a node is made for. Its services are numbered as [`Order`](super::Order) does, from the same declarations.
    pub(super) fn of(cx: &NodeContext<'_>) -> Self {
        let names = cx.features(SERVICES_ARC);
        let said = names.iter().map(|name| (*name, scopes(name))).collect::<Vec<_>>();
        // What can't be numbered was refused when services were added.
        let layout = Layout::new(&said).or_else(|_| Layout::new(&[])).unwrap_or_default();
        Self { names, layout }
    }

    /// A service's bit in chains.
    pub(super) fn number(&self, name: &str) -> Option<u8> {
        self.layout.number(self.names.iter().position(|known| *known == name)?)
    }

    /// The first scope that a service is of, and whether it is of others, too; of a node that is no service, all scopes.
    fn scopes(&self, name: &str) -> (u8, bool) {
        let at = self.names.iter().position(|known| *known == name);
        let mask = at.map_or(u64::MAX, |at| self.layout.mask(at));
        let those = (0..self.layout.scopes().len() as u8).filter(|scope| mask >> scope & 1 != 0);
        (those.clone().next().unwrap_or(0), those.count() > 1)
    }

    fn edges(&self, scope: u8, base: u8) -> Edges {
        let mut edges = [0; _];
        for (at, number) in self.layout.of(scope) {
            edges[usize::from(number)] = base + at as u8;
        }
        edges
    }
}

/// Scopes of a service, as it is declared.
fn scopes(name: &str) -> Scopes {
    #[cfg(test)]
    if let Some(service) = super::tests::SCOPED.iter().find(|service| service.node.name == name) {
        return service.scopes;
    }
    let declared = order().services().iter().find(|service| service.node.name == name);
    declared.map_or(Scopes::DEFAULT, |service| service.scopes)
}

/// Ways from a node of sessions to the services, and from them back.
pub(super) struct Onward {
    edges: Edges,
    arcs: [ArcPlace; 2],
    /// Where packets of other scopes come to the node, too.
    others: Option<Box<Others>>,
}

/// Ways of sessions of other scopes.
struct Others {
    /// The scope that all packets are taken to be of.
    own: u8,
    /// The bit that an edge of that one was taken for; [`NO_SERVICE`]: it leads to none.
    numbers: [u8; 256],
    /// By scope.
    edges: Vec<Edges>,
    /// Edges that the node has: those from here on stand for bits that nobody has in its own scope.
    there: usize,
    /// Drop reason of a packet whose session had to make room between two nodes.
    gone: u16,
}

const NO_SERVICE: u8 = u8::MAX;

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
        Self::new(cx, [cx.arc(arc); 2])
    }

    /// The ways of a service.
    pub(super) fn of_service(cx: &NodeContext<'_>) -> Self {
        Self::new(cx, [cx.arc(ip4::UNICAST), cx.arc(ip6::UNICAST)])
    }

    fn new(cx: &NodeContext<'_>, arcs: [ArcPlace; 2]) -> Self {
        let (numbers, base) = (Numbers::of(cx), cx.arc(SERVICES_ARC).base);
        let (own, of_others) = numbers.scopes(cx.name());
        let mut edges = numbers.edges(own, base);
        let others = of_others.then(|| {
            let mut others = Box::new(Others {
                own,
                numbers: [NO_SERVICE; 256],
                edges: (0..numbers.layout.scopes().len() as u8)
                    .map(|scope| numbers.edges(scope, base))
                    .collect(),
                there: cx.edges(),
                gone: cx.drop_of("ip4-session-input", "session-gone").unwrap_or_default(),
            });
            // Bits that nobody has in its own scope get edges that the node hasn't, so that an edge says which bit it was taken for. There are enough: so few services
            // can there be in all.
            let unused = (cx.edges()..usize::from(GONE)).rev();
            for (edge, unused) in zip(edges.iter_mut().filter(|edge| **edge == 0), unused) {
                *edge = unused as u8;
            }
            for (number, edge) in edges.iter().enumerate().filter(|(_, edge)| **edge != 0) {
                others.numbers[usize::from(*edge)] = number as u8;
            }
            others
        });
        Self { edges, arcs, others }
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
        let Some(reason) = chain.block() else {
            return Some(self.edges[usize::from(first) % self.edges.len()]);
        };
        meta.drop_reason = reason;
        Some(0)
    }

    /// Sends packets whose sessions are of other scopes to the services that their bits stand for there. For the end of a vector.
    #[inline(always)]
    pub(super) fn correct(
        &self,
        packets: &mut Packets,
        (slots, next): (&[SlotId], &mut [u8]),
        sessions: &Sessions,
        tenants: &Tenants,
    ) {
        if tenants.is_scoped()
            && let Some(others) = &self.others
        {
            others.correct(packets, (slots, next), sessions, tenants);
        }
    }
}

impl Others {
    #[cold]
    #[inline(never)]
    fn correct(
        &self,
        packets: &mut Packets,
        (slots, next): (&[SlotId], &mut [u8]),
        sessions: &Sessions,
        tenants: &Tenants,
    ) {
        for (slot, edge) in zip(slots, next) {
            let number = self.numbers[usize::from(*edge)];
            if number == NO_SERVICE {
                continue;
            }
            let meta = packets.meta_mut(*slot);
            let leads = usize::from(*edge) < self.there;
            let index = Flow(meta.next_hop).session();
            let version = sessions.table.handle(index).map(|handle| handle.generation as u16);
            let is_there = version.is_some_and(|version| [version, of_later(version)].contains(&meta.tx_if));
            let session = sessions.table.get(index).filter(|_| is_there);
            let scope = session.and_then(|session| tenants.get(session.tenant)).map(|tenant| tenant.scope);
            // One whose session has just gone is dropped by the service that it comes to, if it comes to one.
            if leads && (scope == Some(self.own) || !is_there) {
                continue;
            }
            let right = scope.and_then(|scope| self.edges.get(usize::from(scope)));
            *edge = right.map_or(0, |edges| edges[usize::from(number) % edges.len()]);
            if *edge == 0 {
                meta.drop_reason = self.gone;
            }
        }
    }
}
