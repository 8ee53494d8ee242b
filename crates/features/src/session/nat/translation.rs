//! What is known of a session whose packets look otherwise outside, and how they are changed.

use super::edit::Edit;
use core::net::Ipv4Addr;
use graph::packet::{HEAD_AREA, Meta};
use tables::session::{Endpoint, Key};
use wire::checksum::{Delta, Partial};
use wire::ipv4::Ipv4Header;
use wire::{Header, IpProtocol};

/// An address and a port, in host byte order.
pub(super) type End = (u32, u16);

/// How a session's packets look outside.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Translation {
    /// Addresses that the inside host and the other one are seen with.
    addresses: [u32; 2],
    /// Their ports.
    ports: [u16; 2],
    /// What leaving does to checksums of addresses.
    of_addresses: Delta,
    /// What it does to checksums of addresses and ports.
    of_all: Delta,
    /// What it does to those of an echo, whose identifier is there once and no address.
    of_id: Delta,
    /// The inside host is the higher endpoint of the session's key.
    pub(super) inside_is_high: bool,
    /// Whose figures it counts in.
    pub(super) pool: u16,
    /// The key by which answers find the session.
    pub(super) alias: u32,
}

/// Why a packet isn't changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Its headers aren't whole in the head.
    Short,
    /// It has other addresses or ports than packets of that side have.
    Foreign,
}

/// Inside host and other one, as the session's key has them.
#[inline(always)]
const fn inside(key: &Key, inside_is_high: bool) -> [End; 2] {
    let (low, high) = key.v4_endpoints();
    if inside_is_high { [high, low] } else { [low, high] }
}

impl Translation {
    /// Of a session whose inside host and other one are seen as `beyond`.
    pub(super) fn new(key: &Key, inside_is_high: bool, beyond: [End; 2]) -> Self {
        let sum = |ends: [End; 2]| {
            let addresses = Partial::of_u32(ends[0].0).plus(Partial::of_u32(ends[1].0));
            (addresses, Partial::of_u16(ends[0].1).plus(Partial::of_u16(ends[1].1)))
        };
        let ours = inside(key, inside_is_high);
        let ((old, old_ports), (new, new_ports)) = (sum(ours), sum(beyond));
        Self {
            addresses: beyond.map(|end| end.0),
            ports: beyond.map(|end| end.1),
            of_addresses: Delta::between(old, new),
            of_all: Delta::between(old.plus(old_ports), new.plus(new_ports)),
            of_id: Delta::between(Partial::of_u16(ours[0].1), Partial::of_u16(beyond[0].1)),
            inside_is_high,
            pool: 0,
            alias: 0,
        }
    }

    /// Inside host and other one, as they are seen outside.
    pub(super) const fn beyond(&self) -> [End; 2] {
        [(self.addresses[0], self.ports[0]), (self.addresses[1], self.ports[1])]
    }

    /// The same for whoever looks.
    pub(in super::super) fn endpoints(&self) -> [Endpoint; 2] {
        self.beyond().map(|(address, port)| (Ipv4Addr::from_bits(address).into(), port))
    }

    /// Changes a packet of the session that leaves, or comes in: addresses, ports, checksums (RFC 1624).
    #[inline(always)]
    pub(super) fn apply(
        &self,
        (meta, area): (&Meta, &mut [u8; HEAD_AREA]),
        key: &Key,
        leaves: bool,
    ) -> Result<(), Unfit> {
        let ours = inside(key, self.inside_is_high);
        let beyond = self.beyond();
        // Source and destination before and after.
        let (old, new) = if leaves { (ours, beyond) } else { ([beyond[1], beyond[0]], [ours[1], ours[0]]) };
        let turn = |delta: Delta| if leaves { delta } else { delta.back() };
        let (l3, l4, end) = (usize::from(meta.l3), usize::from(meta.l4), usize::from(meta.end));
        let (head, rest) =
            area.get_mut(l3..end).ok_or(Unfit::Short)?.split_at_mut_checked(l4 - l3).ok_or(Unfit::Short)?;
        let ip = head.first_chunk_mut::<{ Ipv4Header::LEN }>().ok_or(Unfit::Short)?;
        let addresses = |ip: &[u8; Ipv4Header::LEN]| [word32(ip, SRC), word32(ip, DST)];
        if addresses(ip) != [old[0].0, old[1].0] {
            return Err(Unfit::Foreign);
        }
        transport(
            rest,
            IpProtocol(key.protocol()),
            [old[0].1, old[1].1],
            [new[0].1, new[1].1],
            |checksum| {
                if meta.offload.checksum_needed {
                    // It is the sum of the pseudo header, which has no ports.
                    return !turn(self.of_addresses).apply(!checksum);
                }
                turn(self.of_all).apply(checksum)
            },
            turn(self.of_id),
        )?;
        ip[SRC..SRC + 4].copy_from_slice(&new[0].0.to_be_bytes());
        ip[DST..DST + 4].copy_from_slice(&new[1].0.to_be_bytes());
        let checksum = turn(self.of_addresses).apply(u16::from_be_bytes([ip[CHECKSUM], ip[CHECKSUM + 1]]));
        ip[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
        Ok(())
    }

    /// Changes an ICMP error about a packet of the session (RFC 5508 section 4), which leaves or comes in: its own addresses and the packet
    /// that it quotes, which went the other way. `ours`: it was made here, and its source stays.
    pub(super) fn apply_to_error(
        &self,
        (meta, area): (&Meta, &mut [u8; HEAD_AREA]),
        key: &Key,
        leaves: bool,
        is_ours: bool,
    ) -> Result<(), Unfit> {
        let ours = inside(key, self.inside_is_high);
        let beyond = self.beyond();
        let (old, new) = if leaves { (ours, beyond) } else { (beyond, ours) };
        let (l3, l4, end) = (usize::from(meta.l3), usize::from(meta.l4), usize::from(meta.end));
        let quoted = l4 + QUOTED;
        let bytes = area.get(quoted..end).ok_or(Unfit::Short)?;
        let Ok((header, _)) = Ipv4Header::parse(bytes) else { return Err(Unfit::Short) };
        let transport = quoted + header.header_len().max(Ipv4Header::LEN);
        // The quoted packet came from where the error goes to.
        let (from, to) = if leaves { (1, 0) } else { (0, 1) };
        if [header.src, header.dst].map(u32::from_be_bytes) != [old[from].0, old[to].0] {
            return Err(Unfit::Foreign);
        }
        let goes_to = area.get(l3 + DST..l3 + DST + 4).and_then(|bytes| bytes.first_chunk::<4>());
        if goes_to.map(|bytes| u32::from_be_bytes(*bytes)) != Some(old[from].0) {
            return Err(Unfit::Foreign);
        }
        let protocol = IpProtocol(key.protocol());
        let mut edit = Edit::new(area, end);
        edit.put32(quoted + SRC, new[from].0).ok_or(Unfit::Short)?;
        edit.put32(quoted + DST, new[to].0).ok_or(Unfit::Short)?;
        let turn = |delta: Delta| if leaves { delta } else { delta.back() };
        let checksum = edit.get(quoted + CHECKSUM).ok_or(Unfit::Short)?;
        edit.put(quoted + CHECKSUM, turn(self.of_addresses).apply(checksum)).ok_or(Unfit::Short)?;
        if protocol == IpProtocol::ICMP {
            edit.put(transport + ECHO_ID, new[0].1).ok_or(Unfit::Short)?;
            if let Some(checksum) = edit.get(transport + ICMP_CHECKSUM) {
                edit.put(transport + ICMP_CHECKSUM, turn(self.of_id).apply(checksum)).ok_or(Unfit::Short)?;
            }
        } else {
            edit.put(transport, new[from].1).ok_or(Unfit::Short)?;
            edit.put(transport + 2, new[to].1).ok_or(Unfit::Short)?;
            // Of most quoted segments the checksum isn't there.
            let at = checksum_at(protocol).map(|at| transport + at);
            if let Some((at, checksum)) = at.and_then(|at| Some((at, edit.get(at)?)))
                && !(protocol == IpProtocol::UDP && checksum == 0)
            {
                edit.put(at, never_zero(protocol, turn(self.of_all).apply(checksum))).ok_or(Unfit::Short)?;
            }
        }
        let of_message = edit.take();
        let checksum = edit.get(l4 + ICMP_CHECKSUM).ok_or(Unfit::Short)?;
        edit.put(l4 + ICMP_CHECKSUM, of_message.apply(checksum)).ok_or(Unfit::Short)?;
        edit.take();
        // Whoever reports it inside is seen as the host that it concerns; outside, only the host itself has another address.
        let source = edit.get32(l3 + SRC).ok_or(Unfit::Short)?;
        if !is_ours && (leaves || source == old[1].0) {
            edit.put32(l3 + SRC, if leaves { new[0].0 } else { new[1].0 }).ok_or(Unfit::Short)?;
        }
        edit.put32(l3 + DST, new[from].0).ok_or(Unfit::Short)?;
        let of_header = edit.take();
        let checksum = edit.get(l3 + CHECKSUM).ok_or(Unfit::Short)?;
        edit.put(l3 + CHECKSUM, of_header.apply(checksum)).ok_or(Unfit::Short)
    }
}

/// Where things are in an IPv4 header, in an ICMP message, and behind the header of an error.
const CHECKSUM: usize = 10;
const SRC: usize = 12;
const DST: usize = 16;
const ICMP_CHECKSUM: usize = 2;
const ECHO_ID: usize = 4;
const QUOTED: usize = 8;

#[inline(always)]
const fn word32(bytes: &[u8; Ipv4Header::LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Where the checksum is that covers addresses and ports, where there is one.
#[inline(always)]
const fn checksum_at(protocol: IpProtocol) -> Option<usize> {
    match protocol {
        IpProtocol::TCP => Some(16),
        IpProtocol::UDP | IpProtocol::UDP_LITE | IpProtocol::DCCP => Some(6),
        _ => None,
    }
}

/// 0 means "none" in UDP, and mustn't be in UDP-Lite.
#[inline(always)]
const fn never_zero(protocol: IpProtocol, checksum: u16) -> u16 {
    match (protocol, checksum) {
        (IpProtocol::UDP | IpProtocol::UDP_LITE, 0) => u16::MAX,
        _ => checksum,
    }
}

/// Replaces the ports of a transport header, or an echo's identifier, and has its checksum changed.
#[inline(always)]
fn transport(
    header: &mut [u8],
    protocol: IpProtocol,
    old: [u16; 2],
    new: [u16; 2],
    change: impl Fn(u16) -> u16,
    of_id: Delta,
) -> Result<(), Unfit> {
    let get = |header: &[u8], at: usize| Some(u16::from_be_bytes(*header.get(at..at + 2)?.first_chunk()?));
    if protocol == IpProtocol::ICMP {
        let header = header.first_chunk_mut::<8>().ok_or(Unfit::Short)?;
        if get(header, ECHO_ID) != Some(old[0]) {
            return Err(Unfit::Foreign);
        }
        let checksum = of_id.apply(u16::from_be_bytes([header[2], header[3]]));
        header[ICMP_CHECKSUM..4].copy_from_slice(&checksum.to_be_bytes());
        header[ECHO_ID..6].copy_from_slice(&new[0].to_be_bytes());
        return Ok(());
    }
    let ports = header.first_chunk_mut::<4>().ok_or(Unfit::Short)?;
    if *ports != joined(old) {
        return Err(Unfit::Foreign);
    }
    *ports = joined(new);
    let Some(at) = checksum_at(protocol) else { return Ok(()) };
    let field =
        header.get_mut(at..at + 2).and_then(|field| field.first_chunk_mut::<2>()).ok_or(Unfit::Short)?;
    let checksum = u16::from_be_bytes(*field);
    if checksum != 0 || protocol != IpProtocol::UDP {
        *field = never_zero(protocol, change(checksum)).to_be_bytes();
    }
    Ok(())
}

#[inline(always)]
const fn joined([source, destination]: [u16; 2]) -> [u8; 4] {
    ((source as u32) << 16 | destination as u32).to_be_bytes()
}
