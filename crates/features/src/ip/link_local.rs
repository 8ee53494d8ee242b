//! Where IPv6 link-local addresses lead: they mean something on one link only, so no VRF's table can hold them.

use core::net::Ipv6Addr;
use foldhash::fast::RandomState;
use graph::IfIndex;
use std::collections::HashMap;

/// Next hops of link-local addresses (`fe80::/10`) by interface: a part of the tables. Asked only for packets to such
/// addresses, which are few.
#[derive(Clone, Debug, Default)]
pub struct LinkLocals {
    known: HashMap<(IfIndex, Ipv6Addr), u32, RandomState>,
    others: HashMap<IfIndex, u32, RandomState>,
}

impl LinkLocals {
    /// Next-hop id for `address` on `interface`: our own, a known neighbour's, or that of the link, on which it has to
    /// be resolved. 0 where there is no IPv6 on the interface.
    #[must_use]
    pub fn get(&self, interface: IfIndex, address: Ipv6Addr) -> u32 {
        let known = self.known.get(&(interface, address)).or_else(|| self.others.get(&interface));
        known.copied().unwrap_or(0)
    }

    /// Sets the next hop of an address, or with `None` that of all addresses of the link that aren't known.
    pub fn set(&mut self, interface: IfIndex, address: Option<Ipv6Addr>, hop: u32) {
        match address {
            Some(address) => self.known.insert((interface, address), hop),
            None => self.others.insert(interface, hop),
        };
    }
}
