//! The two ends against each other over a virtual link, and against bytes that scapy has made.

mod link;
mod tcp;
mod udp;
mod vectors;

pub use link::{Faults, World};

use super::endpoints::Endpoints;
use super::tcp::{Close, Exchange, Role, Rules};
use core::net::Ipv4Addr;

/// `addresses` × `ports` clients.
fn clients(addresses: u32, ports: u32) -> Endpoints {
    Endpoints { address: Ipv4Addr::new(10, 0, 0, 1), addresses, port: 1024, ports }
}

/// One server.
fn servers() -> Endpoints {
    Endpoints { address: Ipv4Addr::new(10, 1, 0, 1), addresses: 1, port: 80, ports: 1 }
}

/// Rules with the usual times.
fn rules(role: Role, exchange: Exchange) -> Rules {
    Rules {
        role,
        exchange,
        mss: 1460,
        close: Close::Fin,
        hold: 0,
        rto: 1000,
        retries: 5,
        timeout: 30_000,
        time_wait: 0,
        seed: 7,
    }
}
