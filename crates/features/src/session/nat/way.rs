//! Whether a session leads outside: by where its first packet is going to be sent.

use super::super::tenants::Tenant;
use crate::ip::{Fibs, NextHopKind, NextHops};
use core::net::IpAddr;

/// Groups and VRFs that a packet is led through at most, as by the lookup.
const MAX_STEPS: usize = 8;

/// Where packets to a destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By one of the tenant's interfaces outside.
    Outside,
    /// Elsewhere, or to ourselves.
    Inside,
    /// Nowhere as things are: the lookup will say why.
    Nowhere,
}

/// Where packets to `destination` go that are looked up in VRF `table`. Where there are several ways, one that leads outside counts.
pub(super) fn way(tenant: &Tenant, fibs: &Fibs, hops: &NextHops, mut table: u16, destination: IpAddr) -> Way {
    for _ in 0..MAX_STEPS {
        let Some(vrf) = fibs.get(table) else { return Way::Nowhere };
        let id = match destination {
            IpAddr::V4(address) => vrf.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => vrf.v6.lookup(address.to_bits()),
        };
        let hop = hops.get(id.0);
        let outside = |id: u32| tenant.is_outside(hops.get(id).tx_if);
        return match hop.kind {
            NextHopKind::LookupIn => {
                table = hop.vrf;
                continue;
            }
            NextHopKind::Group => {
                let first = hop.first_bucket as usize;
                let members = hops.buckets.get(first..=first + usize::from(hop.bucket_mask));
                let any = members.unwrap_or_default().iter().any(|id| outside(*id));
                if any { Way::Outside } else { Way::Inside }
            }
            NextHopKind::Rewrite | NextHopKind::Glean | NextHopKind::Resolve => {
                if tenant.is_outside(hop.tx_if) { Way::Outside } else { Way::Inside }
            }
            NextHopKind::PortSplit => {
                let ways = hops.split(hop).map(|split| [split.matching, split.others]);
                let any = ways.into_iter().flatten().any(outside);
                if any { Way::Outside } else { Way::Inside }
            }
            NextHopKind::Local => Way::Inside,
            _ => Way::Nowhere,
        };
    }
    Way::Nowhere
}
