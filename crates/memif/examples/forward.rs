//! A tiny router: forwards IPv4 between memifs, one network on each, and answers ARP and pings for its own addresses.
//!
//! ```text
//! forward client @left 0 10.1.0.1/24 client @right 0 10.2.0.1/24 [via 10.2.0.2]
//! ```
//! What is for none of the networks goes to the gateway after `via`, if there is one. A packet whose next hop isn't known yet
//! is dropped, and the next hop asked for.

mod answer;
mod common;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use answer::{MAC, add, answer, fold};
use memif::app::{Batch, Port};
use memif::{InterfaceError, Mode};

/// One of the router's interfaces.
struct Leg {
    port: Port,
    address: Ipv4Addr,
    mask: u32,
    /// Who lives there.
    neighbours: HashMap<Ipv4Addr, [u8; 6]>,
    /// To be sent with the rest of this round.
    out: Vec<Vec<u8>>,
}

struct Router {
    legs: Vec<Leg>,
    /// Gateway of what is for no leg's network.
    default: Option<Ipv4Addr>,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match parse(&words) {
        Some(Ok(router)) => {
            let Err(error) = router.run();
            eprintln!("forward: {error}");
            ExitCode::FAILURE
        }
        Some(Err(error)) => {
            eprintln!("forward: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("usage: forward ({} NETWORK)… [via GATEWAY]   (NETWORK: 10.1.0.1/24)", common::PORT);
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Option<Result<Router, InterfaceError>> {
    let (legs, rest) = words.as_chunks::<4>();
    let default = match rest {
        [] => None,
        [via, gateway] if via == "via" => Some(gateway.parse().ok()?),
        _ => return None,
    };
    let mut router = Router { legs: Vec::new(), default };
    for [role, address, id, network] in legs {
        let (own, length) = network.split_once('/')?;
        let length: u32 = length.parse().ok().filter(|length| *length <= 32)?;
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        match common::open("forward", Mode::Ethernet, [role, address, id])? {
            Ok(port) => {
                let (neighbours, out) = Default::default();
                router.legs.push(Leg { port, address: own.parse().ok()?, mask, neighbours, out });
            }
            Err(error) => return Some(Err(error)),
        }
    }
    (!router.legs.is_empty()).then_some(Ok(router))
}

impl Router {
    fn run(mut self) -> Result<std::convert::Infallible, InterfaceError> {
        let mut batch = Batch::new(256);
        loop {
            // One thread for all ports: it sleeps at one of them, not for long.
            let mut busy = false;
            for leg in 0..self.legs.len() {
                let events = self.legs[leg].port.wait(Some(Duration::ZERO))?;
                for event in &events {
                    eprintln!("{}: {event}", self.legs[leg].port.name());
                }
                // A peer that breaks the rules ends its connection, not this program.
                if self.legs[leg].port.receive(&mut batch).is_ok_and(|received| received > 0) {
                    busy = true;
                    for frame in batch.packets() {
                        self.handle(leg, frame);
                    }
                }
            }
            for leg in &mut self.legs {
                let _ = leg.port.send(&leg.out);
                leg.out.clear();
            }
            if !busy {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn handle(&mut self, from: usize, frame: &[u8]) {
        match frame.get(12..14) {
            Some([0x08, 0x06]) if frame.len() >= 42 => {
                let (mac, sender) = (&frame[22..28], address(&frame[28..32]));
                let leg = &mut self.legs[from];
                if leg.holds(sender) {
                    let mac = mac.try_into().unwrap_or_default();
                    leg.neighbours.insert(sender, mac);
                }
                if address(&frame[38..42]) == leg.address {
                    leg.out.extend(answer(frame));
                }
            }
            Some([0x08, 0x00]) => self.forward(from, frame),
            _ => {}
        }
    }

    fn forward(&mut self, from: usize, frame: &[u8]) {
        let Some(ip) = frame.get(14..).filter(|ip| is_ipv4(ip)) else { return };
        let to = address(&ip[16..20]);
        if self.legs.iter().any(|leg| leg.address == to) {
            self.legs[from].out.extend(answer(frame));
            return;
        }
        let leg_of = |address| self.legs.iter().position(|leg| leg.holds(address));
        let next_hop = leg_of(to).map(|leg| (leg, to));
        let next_hop = next_hop.or_else(|| self.default.and_then(|via| Some((leg_of(via)?, via))));
        // RFC 1812, 5.3.1: what arrives with a TTL of 1 doesn't leave.
        let (Some((leg, next_hop)), true) = (next_hop, ip[8] > 1) else { return };
        let leg = &mut self.legs[leg];
        match leg.neighbours.get(&next_hop) {
            Some(mac) => {
                let mut frame = frame.to_vec();
                frame[..6].copy_from_slice(mac);
                frame[6..12].copy_from_slice(&MAC);
                frame[22] -= 1;
                add(&mut frame[24..26], 0x0100);
                leg.out.push(frame);
            }
            None => leg.out.push(leg.question(next_hop)),
        }
    }
}

impl Leg {
    fn holds(&self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.address)) & self.mask == 0
    }

    /// RFC 826: who has this address?
    fn question(&self, about: Ipv4Addr) -> Vec<u8> {
        let (own, about) = (self.address.octets(), about.octets());
        let head = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        [&[0xff; 6][..], &MAC, &head, &MAC, &own, &[0; 6], &about, &[0; 18]].concat()
    }
}

/// A header that is whole and says so (RFC 791).
fn is_ipv4(ip: &[u8]) -> bool {
    let header = ip.first().map_or(0, |first| usize::from(first & 15) * 4);
    if header < 20 || ip.len() < header || ip[0] >> 4 != 4 {
        return false;
    }
    let words = ip[..header].chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    usize::from(u16::from_be_bytes([ip[2], ip[3]])) <= ip.len() && fold(words.sum()) == 0xffff
}

fn address(bytes: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])
}
