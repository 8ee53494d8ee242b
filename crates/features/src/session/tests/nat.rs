//! Source NAT: conversations made by scapy, which know the inside host by the pool's address only.

mod blocks;
pub(super) mod mapped;
mod ports;
mod prefixes;
mod vectors;
mod workers;

use super::*;
use crate::session::nat::{Deterministic, Mapping, Mappings, Pool, PrefixPair, Prefixes};
use core::ops::RangeInclusive;

pub(super) const NAT: &str = include_str!("../../../tests/vectors/nat.txt");

const POOL: u32 = 0xc000_0201;

pub(super) fn pool(ports: RangeInclusive<u16>) -> Pool {
    Pool {
        name: "out".into(),
        addresses: vec![POOL..=POOL],
        ports,
        deterministic: None,
        blocks: None,
        mappings: Mappings::default(),
        prefixes: Prefixes::default(),
        figures: Arc::default(),
    }
}

/// A tenant whose sessions are translated.
pub(super) fn translating(pool: Pool) -> Tenant {
    Tenant {
        chain: [order().chain(["l4-lifecycle", "nat"]).unwrap(); 2],
        nat: Some(Arc::new(pool)),
        ..tenant()
    }
}

pub(super) fn translations(tenant: &Tenant) -> u64 {
    tenant.nat.as_ref().unwrap().figures.translations()
}

/// The outside endpoint of the only session.
fn outside(bench: &mut Bench) -> String {
    let [(address, port), _] = one(bench).translated.unwrap();
    format!("{address}:{port}")
}

/// The tier that every machine has: where it makes no difference.
fn slowest() -> Tier {
    Tier::available()[0]
}
