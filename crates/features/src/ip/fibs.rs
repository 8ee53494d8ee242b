//! Forwarding tables by VRF.

use std::sync::Arc;
use tables::fib4::Fib4;
use tables::fib6::Fib6;

/// The two tables of a VRF, as workers see them; their one writer changes them in place.
#[derive(Clone, Debug)]
pub struct VrfTables {
    /// IPv4.
    pub v4: Fib4,
    /// IPv6.
    pub v6: Fib6,
    /// Equal-cost next hops are chosen by a hash that is the same for both directions of a flow.
    pub symmetric_hash: bool,
    /// Its name, for traces.
    pub name: Arc<str>,
}

/// All VRFs, by index; a part of the tables. Index 0 is `default`.
#[derive(Clone, Debug, Default)]
pub struct Fibs {
    list: Vec<Option<VrfTables>>,
}

impl Fibs {
    /// The VRF's tables.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, vrf: u16) -> Option<&VrfTables> {
        self.list.get(vrf as usize)?.as_ref()
    }

    /// Sets or removes a VRF.
    pub fn set(&mut self, vrf: u16, tables: Option<VrfTables>) {
        let at = vrf as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, || None);
        }
        self.list[at] = tables;
    }
}
