//! The way of nearly all packets: IPv4 without options, and UDP or TCP right behind.

use super::translation::{Translation, never_zero};
use graph::packet::{HEAD_AREA, Meta};
use tables::session::Key;
use wire::checksum::Delta;
use wire::ipv4::Ipv4Header;
use wire::{Header, IpProtocol};

/// Bytes of the header with one of TCP.
const LEN: usize = 40;
/// Where a checksum is in a header of UDP, and of TCP, behind one of IPv4.
const UDP_CHECKSUM: usize = 26;
const TCP_CHECKSUM: usize = 36;

/// Two addresses as they stand in a header one behind the other, in host byte order, and two ports.
type Joined = (u64, u32);

/// The other way round, if so.
#[inline(always)]
const fn turned((hosts, ports): Joined, turn: bool) -> Joined {
    (hosts.rotate_left(32 * turn as u32), ports.rotate_left(16 * turn as u32))
}

/// Bytes of it, which are there where `begin` is a constant.
#[inline(always)]
fn at<const N: usize>(bytes: &[u8; LEN], begin: usize) -> [u8; N] {
    bytes.get(begin..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

/// Replaces addresses and ports in such a packet of a session, which leaves or comes in, and has its checksums changed (RFC 1624). False: it is none, or not as packets of the
/// session are, and is as it was.
#[inline(always)]
pub(super) fn replace(
    (meta, area): (&Meta, &mut [u8; HEAD_AREA]),
    key: &Key,
    translation: &Translation<u32>,
    leaves: bool,
) -> bool {
    let protocol = IpProtocol(key.protocol());
    let Some(bytes) = area.get_mut(usize::from(meta.l3)..).and_then(|area| area.first_chunk_mut::<LEN>())
    else {
        return false;
    };
    let checksum = match protocol {
        IpProtocol::UDP => UDP_CHECKSUM,
        IpProtocol::TCP => TCP_CHECKSUM,
        _ => return false,
    };
    // An ICMP error is none of its session's protocol.
    let is_plain = bytes[9] == protocol.0 && meta.l4 == meta.l3 + Ipv4Header::LEN as u16;
    let is_whole = meta.end >= meta.l3 + LEN as u16 && !meta.offload.checksum_needed;
    let ours = turned(key.v4_joined(), translation.near_is_high);
    let ([near, far], [near_port, far_port]) = (translation.addresses, translation.ports);
    let beyond = (u64::from(near) << 32 | u64::from(far), u32::from(near_port) << 16 | u32::from(far_port));
    let (old, new) = if leaves { (ours, beyond) } else { (turned(beyond, true), turned(ours, true)) };
    let turn = |delta: Delta| if leaves { delta } else { delta.back() };
    let addresses = u64::from_be_bytes(at(bytes, 12));
    let ports = u32::from_be_bytes(at(bytes, 20));
    if !(is_plain & is_whole & (addresses == old.0) & (ports == old.1)) {
        return false;
    }
    let of_header = turn(translation.of_addresses).apply(u16::from_be_bytes(at(bytes, 10)));
    bytes[10..12].copy_from_slice(&of_header.to_be_bytes());
    bytes[12..20].copy_from_slice(&new.0.to_be_bytes());
    bytes[20..24].copy_from_slice(&new.1.to_be_bytes());
    let said = u16::from_be_bytes(at(bytes, checksum));
    // 0 is none in UDP, and nobody's sum.
    if said != 0 || protocol != IpProtocol::UDP {
        let sum = never_zero(protocol, turn(translation.of_all).apply(said));
        bytes[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    }
    true
}
