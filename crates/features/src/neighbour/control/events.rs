//! What workers tell: packets that wait, and what neighbours say.

use super::action::Action;
use super::entry::{NeighbourKey, State, Waiting};
use super::links::can_be_neighbour;
use super::machine::Neighbours;
use super::table::Id;
use crate::neighbour::hold::take_note;
use crate::neighbour::neighbor_drop::Drop;
use crate::neighbour::{ARP, ND, RESOLVE_DIRECT, RESOLVE4, RESOLVE6};
use core::net::{IpAddr, Ipv6Addr};
use graph::IfIndex;
use graph::packet::OwnedPacket;
use wire::ipv6::Ipv6Header;
use wire::ndp::{self, NdpMessage, NeighborFlags};
use wire::{ArpOperation, ArpPacket, Header, MacAddr};

/// What a neighbour said of itself.
#[derive(Clone, Copy, Debug)]
struct Claim {
    mac: Option<MacAddr>,
    /// It answers a question of ours.
    solicited: bool,
    /// It wants to be believed even where another link-layer address is known.
    overrides: bool,
    /// Says whether it is a router, where it says so at all.
    router: Option<bool>,
}

impl Neighbours {
    /// A packet of one of this feature's kinds from a worker, at the expense of an interface. False, and nothing done, for another kind.
    pub fn punt(
        &mut self,
        now: u64,
        (worker, origin): (usize, IfIndex),
        kind: &str,
        packet: OwnedPacket,
    ) -> bool {
        match kind {
            ARP => self.arp(now, origin, &packet),
            ND => self.nd(now, origin, &packet),
            RESOLVE4 | RESOLVE6 => self.resolve(now, Waiting { worker, origin, direct: false, packet }),
            RESOLVE_DIRECT => self.resolve(now, Waiting { worker, origin, direct: true, packet }),
            _ => return false,
        }
        true
    }

    /// A packet waits for its neighbour.
    fn resolve(&mut self, now: u64, mut waiting: Waiting) {
        let note = take_note(&mut waiting.packet);
        let (origin, interface) = (waiting.origin, waiting.packet.meta().tx_if);
        let Some(octets) = note else { return self.lose(waiting, Drop::NoNote) };
        let address = Ipv6Addr::from(octets).to_canonical();
        let key = NeighbourKey { interface, address };
        match self.links.0.get(&interface) {
            None => return self.lose(waiting, Drop::NeighbourGone),
            Some(link) if !can_be_neighbour(link, address) => return self.lose(waiting, Drop::NotANeighbour),
            Some(_) => {}
        }
        let id = match self.table.find(key) {
            Some(id) => {
                self.share(id, origin, now);
                id
            }
            None if self.make_room(key.interface, origin, State::Incomplete) => {
                let id = self.table.insert(key, origin, State::Incomplete, now);
                self.solicit(id, now);
                id
            }
            None => return self.lose(waiting, Drop::TableFull),
        };
        match self.table.get(id).map(|entry| entry.state) {
            Some(State::Incomplete) => self.wait(id, waiting),
            Some(State::Failed) => self.unreachable(waiting),
            _ => self.late(id, now, waiting),
        }
    }

    /// Another origin waits for the same unanswered neighbor. A neighbor that failed is solicited again, so that an earlier failure does not delay
    /// this origin. The origin with fewer neighbors is charged, so that eviction from one above its share removes none that others need.
    fn share(&mut self, id: Id, origin: IfIndex, now: u64) {
        let Some(entry) = self.table.get(id).filter(|entry| entry.origin != origin) else { return };
        let failed = entry.state == State::Failed;
        if failed || self.table.unanswered(origin).0 < self.table.unanswered(entry.origin).0 {
            self.table.charge(id, origin);
        }
        if failed {
            self.table.set_state(id, State::Incomplete, now, None);
            self.solicit(id, now);
        }
    }

    /// A packet came to wait for a neighbour that is known: the tables had just been, or are still to be, changed; or
    /// another next hop leads to it since.
    fn late(&mut self, id: Id, now: u64, waiting: Waiting) {
        /// Packets that are sent on in the time of one solicitation. They would go round and round where the forwarding
        /// tables refuse the neighbour.
        const LATE: u8 = 64;
        let again = self.config.retransmit;
        let Some(entry) = self.table.get_mut(id) else { return };
        if now.saturating_sub(entry.told) >= again {
            (entry.told, entry.late) = (now, 0);
            let NeighbourKey { interface, address } = entry.key;
            self.actions.push(Action::Program { interface, address, mac: entry.mac });
        }
        if entry.late >= LATE {
            return self.lose(waiting, Drop::NotProgrammed);
        }
        entry.late += 1;
        self.release(waiting);
    }

    /// An ARP packet that a worker found worth telling of.
    fn arp(&mut self, now: u64, origin: IfIndex, packet: &OwnedPacket) {
        let interface = packet.meta().rx_if;
        let Ok(arp) = ArpPacket::check(packet.bytes()) else { return };
        let Some(link) = self.links.0.get(&interface) else { return };
        let (sender, target) = (IpAddr::V4(arp.sender()), IpAddr::V4(arp.target()));
        if link.is_own(sender) {
            return self.conflict(now, interface, sender, arp.sender_mac);
        }
        let request = arp.operation == ArpOperation::REQUEST;
        let solicited = !request && link.is_own(target);
        let claim = Claim { mac: Some(arp.sender_mac), solicited, overrides: true, router: None };
        // Who asks us will get packets from us; who only announces itself may be of no interest.
        let create = (request && sender != target).then_some(origin);
        self.claim(now, NeighbourKey { interface, address: sender }, claim, create);
    }

    /// A neighbour discovery message that a worker has checked and found worth telling of; its current header is the IPv6
    /// header, and the message's place is known.
    fn nd(&mut self, now: u64, origin: IfIndex, packet: &OwnedPacket) {
        let meta = packet.meta();
        let interface = meta.rx_if;
        let Ok((ip, _)) = Ipv6Header::parse(packet.bytes()) else { return };
        let from = meta.l4.wrapping_sub(meta.data) as usize;
        let Some(message) = packet.bytes().get(from..ip.total_len()) else { return };
        let Some(link) = self.links.0.get(&interface) else { return };
        match ndp::check(ip, message) {
            Ok(NdpMessage::NeighborSolicitation(_, options)) => {
                let address = IpAddr::V6(ip.src());
                let Some(mac) = options.source() else { return };
                if link.is_own(address) {
                    return self.conflict(now, interface, address, mac);
                }
                let claim = Claim { mac: Some(mac), solicited: false, overrides: true, router: None };
                self.claim(now, NeighbourKey { interface, address }, claim, Some(origin));
            }
            Ok(NdpMessage::NeighborAdvertisement(advertisement, options)) => {
                let (address, flags) = (IpAddr::V6(advertisement.target()), advertisement.flags());
                let mac = options.target();
                if link.is_own(address) {
                    return self.conflict(now, interface, address, mac.unwrap_or(MacAddr::ZERO));
                }
                let claim = Claim {
                    mac,
                    solicited: flags.contains(NeighborFlags::SOLICITED),
                    overrides: flags.contains(NeighborFlags::OVERRIDE),
                    router: Some(flags.contains(NeighborFlags::ROUTER)),
                };
                self.claim(now, NeighbourKey { interface, address }, claim, None);
            }
            _ => {}
        }
    }

    /// Takes a claim into account (RFC 4861 sections 7.2.3 and 7.2.5, which serve ARP as well). An unknown neighbor is added where there
    /// is an origin to `create` it for.
    fn claim(&mut self, now: u64, key: NeighbourKey, claim: Claim, create: Option<IfIndex>) {
        let Some(id) = self.table.find(key) else {
            if let (Some(mac), Some(origin)) = (claim.mac.filter(|mac| mac.is_unicast()), create)
                && self.links.0.get(&key.interface).is_some_and(|link| can_be_neighbour(link, key.address))
                && self.make_room(key.interface, origin, State::Stale)
            {
                let id = self.table.insert(key, origin, State::Stale, now);
                self.heard(id, now, mac, false);
            }
            return;
        };
        let Some(entry) = self.table.get_mut(id) else { return };
        let known = entry.state.is_usable();
        let Some(mac) = claim.mac.or_else(|| known.then_some(entry.mac)).filter(|mac| mac.is_unicast())
        else {
            return;
        };
        if entry.state == State::Static {
            return;
        }
        let moved = mac != entry.mac;
        if known && moved && !claim.overrides {
            // Somebody else answers too: find out who is right.
            if entry.state == State::Reachable {
                self.become_stale(id, now);
            }
            return;
        }
        if let Some(router) = claim.router {
            entry.router = router;
        }
        // Only an answer to a question that is open says that the neighbour is alive; anything else may be old or forged.
        let asked = matches!(entry.state, State::Incomplete | State::Probe);
        if claim.solicited && asked {
            self.heard(id, now, mac, true);
        } else if moved || !known {
            self.heard(id, now, mac, false);
        }
    }

    /// Another station has our address: it is told once in a while that it is ours (RFC 5227 section 2.4 b).
    fn conflict(&mut self, now: u64, interface: IfIndex, address: IpAddr, mac: MacAddr) {
        let Some(link) = self.links.0.get_mut(&interface) else { return };
        let last = link.defended.get(&address);
        if last.is_some_and(|last| now.saturating_sub(*last) < self.config.defend) {
            return;
        }
        link.defended.insert(address, now);
        self.actions.push(Action::Conflict { interface, address, mac });
        self.announce(now, interface, address, 1);
    }
}
