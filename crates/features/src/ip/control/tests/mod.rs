//! Forwarding's control side, with a worker that is stepped by hand.

mod adjacencies;
mod any_order;
mod full;
mod grace;
mod routes;

use super::{Forwarding, Path, Prefix, Progress, Via};
use crate::interface::{Interface, InterfaceAddress, LinkMode};
use crate::ip::{Fibs, LinkLocals, NextHop, NextHops};
use core::net::IpAddr;
use graph::IfIndex;
use graph::publish::{Publisher, Reader, Schema, Tables};
use std::sync::Arc;
use wire::MacAddr;

/// The control side with one worker.
struct Lab {
    schema: Schema,
    publisher: Publisher,
    worker: Reader,
    forwarding: Forwarding,
}

impl Lab {
    fn new() -> Self {
        let schema = crate::schema();
        let mut publisher = Publisher::new(&schema);
        let worker = publisher.reader();
        let forwarding = Forwarding::new(&schema).unwrap();
        let mut lab = Self { schema, publisher, worker, forwarding };
        lab.settle();
        lab
    }

    fn commit(&mut self) -> Progress {
        self.forwarding.commit(&mut self.publisher).unwrap()
    }

    /// Carries all changes through and lets everything go that waits.
    fn settle(&mut self) {
        while self.commit() != Progress::Done || self.forwarding.reclaim(&self.publisher) {
            self.worker.quiesce();
        }
    }

    fn interface(&mut self, index: IfIndex, mode: LinkMode, vrf: u16, addresses: &[&str]) {
        let interface = interface(index, mode, vrf, addresses);
        self.forwarding.set_interface(index, Some(&interface)).unwrap();
    }

    fn neighbour(&mut self, index: IfIndex, address: &str, mac: Option<u8>) {
        let mac = mac.map(|last| MacAddr([2, 0, 0, 0, 0, last]));
        self.forwarding.set_neighbour(index, address.parse().unwrap(), mac).unwrap();
    }

    fn route(&mut self, vrf: u16, prefix: &str, vias: &[Via]) {
        let paths: Vec<Path> = vias.iter().map(|via| Path::from(*via)).collect();
        self.forwarding.add_route(vrf, prefix.parse().unwrap(), &paths).unwrap();
    }

    fn delete(&mut self, vrf: u16, prefix: &str) {
        assert!(self.forwarding.delete_route(vrf, prefix.parse().unwrap()).unwrap(), "{prefix} was there");
    }

    /// What a worker finds for an address.
    fn hop(&self, vrf: u16, address: &str) -> NextHop {
        let tables = self.publisher.current();
        *self.hops(tables).get(self.id(tables, vrf, address))
    }

    fn hops<'t>(&self, tables: &'t Tables) -> &'t NextHops {
        tables.get(self.schema.key().unwrap())
    }

    fn id(&self, tables: &Tables, vrf: u16, address: &str) -> u32 {
        let vrf = tables.get(self.schema.key::<Fibs>().unwrap()).get(vrf).unwrap();
        match address.parse().unwrap() {
            IpAddr::V4(address) => vrf.v4.lookup(address.to_bits()).0,
            IpAddr::V6(address) => vrf.v6.lookup(address.to_bits()).0,
        }
    }

    /// What a worker finds for a link-local address.
    fn scoped(&self, interface: IfIndex, address: &str) -> NextHop {
        let tables = self.publisher.current();
        let link_locals = tables.get(self.schema.key::<LinkLocals>().unwrap());
        *self.hops(tables).get(link_locals.get(interface, address.parse().unwrap()))
    }

    fn explain(&self, vrf: u16, address: &str) -> Vec<String> {
        let steps = self.forwarding.explain(vrf, address.parse().unwrap()).unwrap();
        steps.iter().map(ToString::to_string).collect()
    }
}

fn interface(index: IfIndex, mode: LinkMode, vrf: u16, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|text| {
        let (address, len) = text.split_once('/').unwrap();
        InterfaceAddress { address: address.parse().unwrap(), prefix_len: len.parse().unwrap() }
    });
    Interface {
        exists: true,
        up: true,
        mode,
        mac: MacAddr([2, 0xfe, 0, 0, 0, index as u8]),
        mtu: 1500,
        vrf,
        addresses: Arc::new(addresses.collect()),
        ..Interface::default()
    }
}

fn via(address: &str) -> Via {
    Via::Address { address: address.parse().unwrap(), interface: None }
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}
