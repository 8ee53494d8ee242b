//! Cutting super-frames.

use memory::packet::{Gso, Offload, Packets, SlotId};
use wire::checksum::{Partial, pseudo_header_v4, pseudo_header_v6};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{self, Ipv6Header};
use wire::{
    EtherType, EthernetHeader, Header, IpProtocol, TcpFlags, TcpHeader, U16, U32, UdpHeader, VlanTag,
};

/// Why a packet's offload can't be done. The packet is as it was, or has lost nothing but its body's privacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The headers aren't what the metadata says.
    #[error("the headers aren't what the offload says")]
    Malformed,
    /// The headers are longer than a slot's head.
    #[error("the headers are too long")]
    HeadersTooLong,
    /// The segments are smaller than any sender of super-frames makes them.
    #[error("{count} segments are too many: at most {MOST} are made of one frame")]
    TooMany {
        /// How many there would be.
        count: usize,
    },
    /// Too few slots are free for the segments.
    #[error("too few packet slots are free")]
    NoSlot,
}

/// Segments made of one super-frame: 64 KiB at the smallest segment size that Linux's TCP uses (`TCP_MIN_SND_MSS`, 48 bytes).
/// A pod that writes frames itself could ask for one segment per byte, and take the slots of all others' packets.
const MOST: usize = 1 + 65_535 / 48;

/// Where the headers of a super-frame are, as positions in the head area.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// IP header.
    l3: usize,
    /// Transport header.
    l4: usize,
    /// Payload.
    payload: usize,
    v6: bool,
    tcp: bool,
}

/// Cuts a super-frame (`offload.gso`) into packets of at most `gso_size` payload bytes, appended to `out` in order,
/// each with right lengths and checksums and nothing left to do. The super-frame itself must not be sent afterwards.
///
/// As Linux cuts (`tcp_gso_segment`, `__udp_gso_segment`): IPv4's identification counts up; TCP's sequence number moves
/// on, FIN and PSH stay with the last segment, CWR with the first.
///
/// # Errors
/// [`Problem`]; `out` is then unchanged.
pub fn segment(packets: &mut Packets, slot: SlotId, out: &mut Vec<SlotId>) -> Result<(), Problem> {
    let layout = layout(packets, slot)?;
    let offload = packets.meta(slot).offload;
    let size = usize::from(offload.gso_size.max(1));
    let meta = packets.meta(slot);
    let total = meta.data as usize + meta.len() as usize - layout.payload;
    let in_head = meta.end as usize - layout.payload;
    let count = total.div_ceil(size).max(1);
    if count > MOST {
        return Err(Problem::TooMany { count });
    }
    if packets.free() < count {
        return Err(Problem::NoSlot);
    }
    let mut cut = [0; memory::packet::HEAD_AREA];
    let head_payload = cut.get_mut(..in_head).ok_or(Problem::HeadersTooLong)?;
    let area = packets.area(slot);
    head_payload
        .copy_from_slice(area.get(layout.payload..layout.payload + in_head).ok_or(Problem::Malformed)?);
    let sums = sums(packets, slot, &cut[..in_head], size, count)?;
    let begin = out.len();
    for (number, sum) in sums.into_iter().enumerate() {
        let from = number * size;
        let len = size.min(total - from);
        let piece = packets.duplicate(slot).map_err(|_| Problem::NoSlot);
        let piece = piece.inspect_err(|_| out.truncate(begin))?;
        let head = cut.get(from.min(in_head)..(from + len).min(in_head)).unwrap_or_default();
        let body_from = from.saturating_sub(in_head);
        packets.share_body(slot, piece, body_from as u32, (len - head.len()) as u32);
        let (meta, area) = packets.parts_mut(piece);
        if let Some(room) = area.get_mut(layout.payload..layout.payload + head.len()) {
            room.copy_from_slice(head);
        }
        meta.end = (layout.payload + head.len()) as u16;
        meta.offload = Offload::default();
        let last = number + 1 == count;
        let rewritten = rewrite(area, layout, number, from as u32, len, last, sum);
        rewritten.inspect_err(|_| out.truncate(begin))?;
        out.push(piece);
    }
    Ok(())
}

/// The sum of each segment's payload. The body is made private on the way, so that its bytes are those summed.
fn sums(
    packets: &mut Packets,
    slot: SlotId,
    head: &[u8],
    size: usize,
    count: usize,
) -> Result<Vec<Partial>, Problem> {
    let body: &[u8] = packets.pull_body(slot).map_err(|_| Problem::NoSlot)?;
    let range = |from: usize, to: usize| {
        let first = head.get(from.min(head.len())..to.min(head.len())).unwrap_or_default();
        let in_body = |at: usize| at.saturating_sub(head.len()).min(body.len());
        let rest = body.get(in_body(from)..in_body(to)).unwrap_or_default();
        Partial::of(first).plus(Partial::of(rest).at(first.len()))
    };
    Ok((0..count).map(|number| range(number * size, (number + 1) * size)).collect())
}

/// Finds the headers of a super-frame and brings them into the head.
fn layout(packets: &mut Packets, slot: SlotId) -> Result<Layout, Problem> {
    let meta = packets.meta(slot);
    let (offload, data, len) = (meta.offload, meta.data as usize, meta.len() as usize);
    let l4 = offload.checksum_start as usize;
    let tcp = offload.gso != Gso::Udp;
    let shortest = if tcp { TcpHeader::LEN } else { UdpHeader::LEN };
    if l4 < data || l4 + shortest > data + len {
        return Err(Problem::Malformed);
    }
    if !packets.pull_head(slot, l4 + shortest) {
        return Err(Problem::HeadersTooLong);
    }
    let payload = match packets.header::<TcpHeader>(slot, l4 as u16) {
        Some(header) if tcp => l4 + header.header_len(),
        _ => l4 + UdpHeader::LEN,
    };
    if payload < l4 + shortest || payload > data + len {
        return Err(Problem::Malformed);
    }
    if !packets.pull_head(slot, payload) {
        return Err(Problem::HeadersTooLong);
    }
    let head = packets.head(slot);
    let protocol = if tcp { IpProtocol::TCP } else { IpProtocol::UDP };
    let (ip, v6) = find_ip(head, l4 - data, protocol).ok_or(Problem::Malformed)?;
    match offload.gso {
        Gso::Tcp4 if v6 => Err(Problem::Malformed),
        Gso::Tcp6 if !v6 => Err(Problem::Malformed),
        _ => Ok(Layout { l3: data + ip, l4, payload, v6, tcp }),
    }
}

/// Offset of the IP header whose payload begins at `l4`, and whether it is IPv6's. The frame may begin with Ethernet and
/// VLAN tags or with IP itself; that the headers end exactly at `l4` tells which.
fn find_ip(head: &[u8], l4: usize, protocol: IpProtocol) -> Option<(usize, bool)> {
    let behind_link = || {
        let (ethernet, _) = EthernetHeader::parse(head).ok()?;
        let (mut ethertype, mut at): (EtherType, usize) = (ethernet.ethertype, EthernetHeader::LEN);
        while ethertype.is_vlan() {
            ethertype = VlanTag::parse(head.get(at..)?).ok()?.0.ethertype;
            at += VlanTag::LEN;
        }
        (ethertype == EtherType::IPV4 || ethertype == EtherType::IPV6).then_some(at)
    };
    behind_link()
        .into_iter()
        .chain([0])
        .find_map(|at| Some((at, ip_ends_at(head.get(at..)?, l4 - at.min(l4), protocol)?)))
}

/// Whether an IP header begins `bytes` whose payload, of `protocol`, is at `end`: `Some(true)` for IPv6.
fn ip_ends_at(bytes: &[u8], end: usize, protocol: IpProtocol) -> Option<bool> {
    match bytes.first()? >> 4 {
        4 => {
            let (header, _) = Ipv4Header::parse(bytes).ok()?;
            (header.header_len() == end && end >= Ipv4Header::LEN && header.protocol == protocol)
                .then_some(false)
        }
        6 => {
            let upper = ipv6::walk(bytes).ok()?;
            (upper.offset == end && upper.protocol == protocol).then_some(true)
        }
        _ => None,
    }
}

/// Writes the headers of segment `number`, whose `len` payload bytes begin `from` bytes into the super-frame's and sum
/// to `sum`.
fn rewrite(
    area: &mut [u8],
    layout: Layout,
    number: usize,
    from: u32,
    len: usize,
    last: bool,
    sum: Partial,
) -> Result<(), Problem> {
    let Layout { l3, l4, payload, v6, tcp } = layout;
    let protocol = if tcp { IpProtocol::TCP } else { IpProtocol::UDP };
    let transport_len = payload - l4 + len;
    let (ip, transport) = area.split_at_mut_checked(l4).ok_or(Problem::Malformed)?;
    let ip = ip.get_mut(l3..).ok_or(Problem::Malformed)?;
    let pseudo = if v6 {
        let (header, _) = Ipv6Header::parse_mut(ip).map_err(|_| Problem::Malformed)?;
        header.payload_len = U16::new((l4 - l3 - Ipv6Header::LEN + transport_len) as u16);
        pseudo_header_v6(header.src, header.dst, protocol, transport_len as u32)
    } else {
        let (header, options) = Ipv4Header::parse_mut(ip).map_err(|_| Problem::Malformed)?;
        header.total_len = U16::new((l4 - l3 + transport_len) as u16);
        header.id = U16::new(header.id.get().wrapping_add(number as u16));
        header.checksum = U16::new(header.compute_checksum(options));
        pseudo_header_v4(header.src, header.dst, protocol, transport_len as u16)
    };
    let transport = transport.get_mut(..payload - l4).ok_or(Problem::Malformed)?;
    if tcp {
        let (header, _) = TcpHeader::parse_mut(transport).map_err(|_| Problem::Malformed)?;
        header.sequence = U32::new(header.sequence.get().wrapping_add(from));
        let mut flags = header.flags();
        flags.set(TcpFlags::FIN, last && flags.contains(TcpFlags::FIN));
        flags.set(TcpFlags::PSH, last && flags.contains(TcpFlags::PSH));
        flags.set(TcpFlags::CWR, number == 0 && flags.contains(TcpFlags::CWR));
        header.flag_bits = flags.bits();
        header.checksum = U16::ZERO;
    } else {
        let (header, _) = UdpHeader::parse_mut(transport).map_err(|_| Problem::Malformed)?;
        header.len = U16::new(transport_len as u16);
        header.checksum = U16::ZERO;
    }
    let checksum = pseudo.plus(Partial::of(transport)).plus(sum.at(transport.len())).transport_checksum();
    if tcp {
        let (header, _) = TcpHeader::parse_mut(transport).map_err(|_| Problem::Malformed)?;
        header.checksum = U16::new(checksum);
    } else {
        let (header, _) = UdpHeader::parse_mut(transport).map_err(|_| Problem::Malformed)?;
        header.checksum = U16::new(checksum);
    }
    Ok(())
}
