//! What is a link's own business: neighbour discovery and listener messages, which belong to no session and which no rule is asked about.
//!
//! That a message calls itself one isn't enough: it may come from anywhere, and be forwarded to anybody, with whatever payload. Its hop limit says whether it was
//! sent on this link ([`is_of_link`]), and its destination whether it goes no further ([`Link::ends_here`]). Messages to groups don't come to the nodes that find sessions.

use crate::interface::Interfaces;
use crate::ip::{Fibs, NextHopKind, NextHops};
use crate::neighbour::is_for_proxy;
use core::net::Ipv6Addr;
use graph::NodeContext;
use graph::packet::{Packets, SlotId};
use graph::publish::{Key, Tables};
use wire::{Icmpv6Type, Ipv6Header};

/// Whether an ICMPv6 message to that destination was sent on the link that it came in by: no router forwards neighbour discovery with the hop limit that it has
/// to have (RFC 4861 sections 6.1 and 7.1), nor listener messages with theirs (RFC 2710 section 3, RFC 3810 section 5).
pub(super) fn is_of_link(kind: Icmpv6Type, hop_limit: u8, destination: u128) -> bool {
    let destination = Ipv6Addr::from(destination);
    match kind {
        kind if kind.is_neighbour_discovery() => hop_limit == 255,
        Icmpv6Type::LISTENER_QUERY
        | Icmpv6Type::LISTENER_REPORT
        | Icmpv6Type::LISTENER_DONE
        | Icmpv6Type::LISTENER_REPORT_V2 => {
            hop_limit == 1 && (destination.is_multicast() || destination.is_unicast_link_local())
        }
        _ => false,
    }
}

/// Where a node finds what tells whether a packet ends here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    interfaces: Key<Interfaces>,
}

impl Link {
    pub(super) fn new(cx: &NodeContext<'_>) -> Self {
        Self { fibs: cx.table(), hops: cx.table(), interfaces: cx.table() }
    }

    /// Whether a message of the link goes no further than to us: to one of our addresses, to one that its interface stands in for, or to a link-local one, of
    /// which the lookup lets only our own pass. Any other would be forwarded, past all rules.
    pub(super) fn ends_here(self, tables: &Tables, packets: &Packets, slot: SlotId) -> bool {
        let meta = packets.meta(slot);
        let Some(header) = packets.header::<Ipv6Header>(slot, meta.l3) else { return false };
        let destination = header.dst();
        if destination.is_multicast() || destination.is_unicast_link_local() {
            return true;
        }
        let hop = tables.get(self.fibs).get(meta.table).map(|vrf| vrf.v6.lookup(destination.to_bits()).0);
        hop.is_some_and(|hop| tables.get(self.hops).get(hop).kind == NextHopKind::Local)
            || is_for_proxy(packets, slot, tables.get(self.interfaces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hop_limit_says_whether_it_was_sent_on_the_link() {
        let is = |kind, hops, to: &str| is_of_link(kind, hops, to.parse::<Ipv6Addr>().unwrap().to_bits());
        let (pod, own, group) = ("2001:db8::1", "fe80::1", "ff02::16");
        for kind in (133..=137).map(Icmpv6Type) {
            assert!(
                [pod, own, group].into_iter().all(|to| is(kind, 255, to) && !is(kind, 254, to)),
                "{kind}"
            );
        }
        for kind in [130, 131, 132, 143].map(Icmpv6Type) {
            assert!(is(kind, 1, own) && is(kind, 1, group) && !is(kind, 1, pod), "{kind}");
            assert!(!is(kind, 2, own) && !is(kind, 255, group), "{kind}");
        }
        assert!(!is(Icmpv6Type(138), 255, own) && !is(Icmpv6Type(142), 1, own));
    }
}
