//! Load balancing: conversations made by scapy, in which the backend is asked where the client asks the VIP.

mod changes;
mod direct;
mod ended;
mod inserted;
mod inside;
mod kept;
mod vectors;
mod workers;

use super::*;
use crate::session::balance::control::{BackendClients, BackendConfig, BackendState, Balancer, VipConfig};
use crate::session::balance::{Algorithm, Figures, SourceNat};
use core::net::IpAddr;
use tables::session::{Endpoint, Key};
use wire::IpProtocol;

pub(super) const BALANCE4: &str = include_str!("../../../tests/vectors/balance4.txt");
pub(super) const BALANCE6: &str = include_str!("../../../tests/vectors/balance6.txt");

const PROTOCOLS: [IpProtocol; 3] = [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::SCTP];

fn at(address: &str, port: u16) -> Endpoint {
    (address.parse().unwrap(), port)
}

/// VIP and backend of the conversations.
pub(super) fn places(v6: bool) -> (Endpoint, Endpoint) {
    if v6 {
        (at("fd96::1", 80), at("2001:db8:1002::9", 8080))
    } else {
        (at("10.96.0.1", 80), at("10.2.0.9", 8080))
    }
}

fn active(endpoint: Endpoint) -> BackendConfig {
    BackendConfig {
        endpoint,
        weight: 1,
        state: BackendState::Active,
        source_nat: None,
        clients: BackendClients::All,
    }
}

fn vip(protocol: IpProtocol, endpoint: Endpoint, backends: Vec<BackendConfig>) -> VipConfig {
    VipConfig {
        context: 0,
        protocol: protocol.0,
        endpoint,
        backends,
        algorithm: Algorithm::Maglev,
        affinity: 0,
        source_nat: SourceNat::Hairpin,
        source_nat_address: None,
        source_nat_except: [].into(),
        sources: [].into(),
        inside: [].into(),
        reject: false,
        direct: false,
        keep_down: false,
        end_removed: false,
    }
}

/// VIPs of both versions and all protocols, with one backend.
pub(super) fn simple() -> Balancer {
    let mut balancer = Balancer::new(1);
    for v6 in [false, true] {
        let (endpoint, backend) = places(v6);
        for protocol in PROTOCOLS {
            let config = vip(protocol, endpoint, vec![active(backend)]);
            balancer.set(&format!("{}-{v6}", protocol.0), Some(config));
        }
    }
    balancer
}

pub(super) fn balancing() -> Tenant {
    Tenant { chain: [order().chain(["l4-lifecycle", "balance"]).unwrap(); 2], ..tenant() }
}

/// Has workers see what was changed.
fn publish(bench: &mut Bench, balancer: &mut Balancer) {
    let changed = balancer.publish();
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += u64::from(changed.revisit);
            all.vips = balancer.vips().clone();
        });
    });
    (0..8).for_each(|_| bench.round());
}

/// A network with these VIPs, on whose second interface clients are.
pub(super) fn network(tier: Tier, balancer: &mut Balancer) -> Bench {
    let mut bench = bench(tier, &[balancing()]);
    publish(&mut bench, balancer);
    bench
}
