//! VIPs beside pools of NAT.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use features::session::balance::control::VipConfig;
use wire::IpProtocol;

use super::Conflicts;
use crate::model::{Flaw, Key, Name};

/// VIPs by address, of all address spaces.
type Asked<'a> = BTreeMap<(u16, Ipv4Addr), Vec<(&'a Name, &'a VipConfig)>>;

impl Conflicts<'_> {
    /// Where a VIP is asked, no host inside is seen: whom a packet means couldn't be told.
    pub(super) fn vips_beside_pools(&mut self) {
        let (vips, pools) = (&self.model.vips, &self.model.nat_pools);
        let mut vip_keys = vips.keys().map(|name| Key::Vip(name.clone()));
        let mut pool_keys = pools.keys().map(|name| Key::NatPool(name.clone()));
        // What was there before has been compared.
        let is_new = |key: Key| self.batch.contains(&key);
        if pools.is_empty() || vips.is_empty() || !(pool_keys.any(is_new) || vip_keys.any(is_new)) {
            return;
        }
        let mut asked = Asked::new();
        for (name, stored) in vips {
            let config = &stored.spec.config;
            if let IpAddr::V4(address) = config.endpoint.0 {
                asked.entry((config.context, address)).or_default().push((name, config));
            }
        }
        for (name, stored) in pools {
            let (pool, context) = (&stored.spec, stored.spec.context);
            for mapping in &pool.mappings {
                let at = asked.get(&(context, Ipv4Addr::from_bits(mapping.outside)));
                for (vip, config) in at.into_iter().flatten() {
                    let its = (config.protocol, config.endpoint.1);
                    if mapping.port.is_none_or(|(protocol, _, seen)| (protocol, seen) == its) {
                        self.meet(vip, config, name, "mappings");
                    }
                }
            }
            for span in &pool.addresses {
                for (vip, config) in
                    asked.range((context, span.first)..=(context, span.last)).flat_map(|(_, it)| it)
                {
                    // Those of SCTP stay as they are.
                    if config.protocol == IpProtocol::SCTP.0 || pool.ports.contains(&config.endpoint.1) {
                        self.meet(vip, config, name, "addresses");
                    }
                }
            }
        }
    }

    /// A VIP is asked where hosts are seen, as that field of a pool says.
    fn meet(&mut self, vip: &Name, config: &VipConfig, pool: &Name, field: &'static str) {
        let (vip, pool) = (Key::Vip(vip.clone()), Key::NatPool(pool.clone()));
        // Both were there before.
        if !self.batch.contains(&vip) && !self.batch.contains(&pool) {
            return;
        }
        let (address, port) = config.endpoint;
        let remedy = match field {
            "mappings" => "take another address or port for one of the two",
            _ => "take another address, or a port below the pool's first_port or above its last_port",
        };
        self.blame(vip, pool, |other| {
            let flaw = match other {
                Key::Vip(_) => Flaw::new(field, format!("{address} port {port} is where {other} is asked")),
                _ => Flaw::new("address", format!("hosts are seen with {address} port {port} by {other}")),
            };
            flaw.remedy(remedy)
        });
    }
}
