//! Which edge an ethertype leads to.

use graph::NodeContext;
use wire::EtherType;

/// The children that have attached themselves, by ethertype; edge 0 is none.
#[derive(Debug)]
pub(super) struct Ethertypes {
    ip4: u8,
    ip6: u8,
    arp: u8,
    others: Box<[(EtherType, u8)]>,
}

impl Ethertypes {
    pub(super) fn new(cx: &NodeContext<'_>) -> Self {
        let all = cx.children().iter().filter_map(|(key, edge)| {
            let ethertype = u16::try_from(*key).ok()?;
            Some((EtherType::new(ethertype), *edge))
        });
        let mut edges = Self { ip4: 0, ip6: 0, arp: 0, others: Box::default() };
        let mut others = Vec::new();
        for (ethertype, edge) in all {
            match ethertype {
                EtherType::IPV4 => edges.ip4 = edge,
                EtherType::IPV6 => edges.ip6 = edge,
                EtherType::ARP => edges.arp = edge,
                other => others.push((other, edge)),
            }
        }
        edges.others = others.into();
        edges
    }

    /// The edge, or 0 where nobody has attached itself.
    #[inline(always)]
    pub(super) fn edge(&self, ethertype: EtherType) -> u8 {
        match ethertype {
            EtherType::IPV4 => self.ip4,
            EtherType::IPV6 => self.ip6,
            EtherType::ARP => self.arp,
            other => self.others.iter().find(|entry| entry.0 == other).map_or(0, |entry| entry.1),
        }
    }
}
