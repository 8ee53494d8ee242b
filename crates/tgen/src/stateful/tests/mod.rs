//! The two ends against each other over a virtual link, and against bytes that scapy has made.

mod ipv6;
mod link;
mod tcp;
mod udp;
mod vectors;

pub use link::{Faults, World};

use super::address::Address;
use super::endpoints::Endpoints;
use super::tcp::{Close, Exchange, Role, Rules};

/// Addresses for both versions of IP.
pub trait Site: Address {
    /// The first client's.
    const CLIENT: Self;
    /// The server's.
    const SERVER: Self;
}

impl Site for u32 {
    const CLIENT: Self = 0x0a00_0001;
    const SERVER: Self = 0x0a01_0001;
}

impl Site for u128 {
    // A carry into the upper half is among them.
    const CLIENT: Self = 0x2001_0db8_0000_0000_ffff_ffff_ffff_fff8;
    const SERVER: Self = 0x2001_0db8_0000_0001_0000_0000_0000_ffff;
}

/// `addresses` × `ports` clients.
fn clients<A: Site>(addresses: u32, ports: u32) -> Endpoints<A> {
    Endpoints { address: A::CLIENT, addresses, port: 1024, ports }
}

/// One server.
fn servers<A: Site>() -> Endpoints<A> {
    Endpoints { address: A::SERVER, addresses: 1, port: 80, ports: 1 }
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
        epoch: 0,
    }
}
