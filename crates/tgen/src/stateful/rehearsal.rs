//! One connection between the state machines without a link: which packets it is made of.

use super::clock::Now;
use super::endpoint::{Endpoint, Opener};
use super::outbox::Outbox;
use super::packet::{Framing, Head, Wire};
use super::profile::{Ends, Profile};
use super::{tcp, udp};
use wire::MacAddr;

/// Packets of one connection, at most.
const LIMIT: usize = 2000;

/// The frames of a profile's TCP connection; from the client where the flag is set.
#[must_use]
pub fn tcp(profile: &Profile, ends: &Ends) -> Vec<(bool, Vec<u8>)> {
    let rules = tcp::Rules { hold: 0, ..profile.tcp };
    let client = tcp::Client::new(ends.clients.first(), ends.servers.first(), rules, 1);
    let server = tcp::Server::new(tcp::Rules { role: tcp::Role::Server, ..rules }, 1);
    play(client, server, profile.max_payload)
}

/// The frames of a profile's UDP flow.
#[must_use]
pub fn udp(profile: &Profile, ends: &Ends) -> Vec<(bool, Vec<u8>)> {
    let rules = udp::Rules { hold: 0, ..profile.udp };
    let client = udp::Client::new(ends.clients.first(), ends.servers.first(), rules, 1);
    play(client, udp::Server::new(profile.udp_response), profile.max_payload)
}

fn play<C: Opener, S: Endpoint<Packet = C::Packet>>(
    mut client: C,
    mut server: S,
    max_payload: usize,
) -> Vec<(bool, Vec<u8>)> {
    let framing =
        Framing::ethernet::<<C::Packet as Wire>::Address>(MacAddr::ZERO, MacAddr::ZERO, max_payload);
    let (mut to_server, mut to_client) = (Outbox::new(LIMIT), Outbox::new(LIMIT));
    let now = Now::at(0);
    let mut frames = Vec::new();
    client.open(1, now, &mut to_server);
    while frames.len() < LIMIT && !(to_server.waiting().is_empty() && to_client.waiting().is_empty()) {
        for packet in take(&mut to_server) {
            frames.push((true, bytes(&packet, &framing)));
            server.arrive(server.place(&packet), &packet, now, &mut to_client);
        }
        for packet in take(&mut to_client) {
            frames.push((false, bytes(&packet, &framing)));
            client.arrive(client.place(&packet), &packet, now, &mut to_server);
        }
    }
    frames
}

fn take<P: Copy>(out: &mut Outbox<P>) -> Vec<P> {
    let packets = out.waiting().to_vec();
    out.done(packets.len());
    packets
}

fn bytes<P: Wire>(packet: &P, framing: &Framing) -> Vec<u8> {
    let frame = packet.frame(framing);
    let mut bytes = frame.line.to_vec();
    bytes.extend_from_slice(framing.payload().bytes(frame.rest.0, frame.rest.1));
    bytes
}
