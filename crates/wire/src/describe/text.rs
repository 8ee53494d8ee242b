//! The line of each header.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::Layer;
use crate::icmp::{Icmpv4Type, Icmpv6Type};
use crate::ipv4::Ipv4Flags;
use crate::ipv6::{UpperLayer, WalkError};
use crate::ndp::{NeighborAdvertisement, NeighborSolicitation};
use crate::{
    ArpOperation, ArpPacket, Header, Icmpv4Header, Icmpv6Header, Ipv4Header, Ipv6Header, Ipv6Reason,
    TcpHeader, TcpOption, TcpOptions,
};

impl fmt::Display for Layer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ethernet(ethernet) => {
                write!(f, "ETH: {} -> {} {}", ethernet.src, ethernet.dst, ethernet.ethertype)
            }
            Self::Vlan(tag) => {
                write!(f, "VLAN: id {} priority {} {}", tag.tci.id(), tag.tci.priority(), tag.ethertype)
            }
            Self::Arp(arp) => write_arp(f, arp),
            Self::Ipv4(ip, rest) => write_ipv4(f, ip, rest),
            Self::Ipv6(ip) => write_ipv6(f, ip),
            Self::Extensions(upper) => write_extensions(f, upper),
            Self::Icmpv4(icmp) => write_icmpv4(f, icmp),
            Self::Icmpv6(icmp, message) => write_icmpv6(f, icmp, message),
            Self::Tcp(tcp, rest) => write_tcp(f, tcp, rest),
            Self::Udp(udp) => write!(f, "UDP: {} -> {} len {}", udp.src_port, udp.dst_port, udp.len),
            Self::OtherEtherType(ethertype) if ethertype.is_length() => {
                write!(f, "LLC: len {}", ethertype.get())
            }
            Self::OtherEtherType(ethertype) => write!(f, "payload: ethertype {ethertype}"),
            Self::OtherProtocol(protocol) => write!(f, "payload: {protocol}"),
            Self::OtherVersion(version) => write!(f, "payload: IP version {version}"),
            Self::OtherLink(link) => write!(f, "payload: {link}"),
            Self::Cut(cut) => {
                write!(f, "{}: cut off: header takes {} bytes, {} are there", cut.header, cut.need, cut.have)
            }
            Self::BrokenExtensions(WalkError { reason: Ipv6Reason::HeadTooShort, offset }) => {
                write!(f, "IP6 extensions: cut off: {offset} bytes of the packet are needed")
            }
            Self::BrokenExtensions(error) => write!(f, "IP6 extensions: {error}"),
        }
    }
}

fn write_arp(f: &mut fmt::Formatter<'_>, arp: &ArpPacket) -> fmt::Result {
    let (sender, target) = (arp.sender(), arp.target());
    match arp.operation {
        ArpOperation::REQUEST => write!(f, "ARP: who has {target}? tell {sender} at {}", arp.sender_mac),
        ArpOperation::REPLY => write!(f, "ARP: {sender} is at {} (to {target})", arp.sender_mac),
        other => write!(f, "ARP: operation {} {sender} -> {target}", other.get()),
    }
}

fn write_ipv4(f: &mut fmt::Formatter<'_>, ip: &Ipv4Header, rest: &[u8]) -> fmt::Result {
    write!(f, "IP4: {} -> {} {} ttl {} len {}", ip.src(), ip.dst(), ip.protocol, ip.ttl, ip.total_len)?;
    write_class(f, ip.dscp(), ip.ecn())?;
    if ip.flags().contains(Ipv4Flags::DONT_FRAGMENT) {
        f.write_str(" DF")?;
    }
    if ip.is_fragment() {
        write!(f, " fragment id {} offset {}", ip.id, ip.fragment_offset())?;
        if ip.flags().contains(Ipv4Flags::MORE_FRAGMENTS) {
            f.write_str(" more")?;
        }
    }
    if ip.version() != 4 {
        write!(f, " bad-version({})", ip.version())?;
    }
    let Some(options_len) = ip.header_len().checked_sub(Ipv4Header::LEN) else {
        return write!(f, " bad-header-length({})", ip.header_len());
    };
    if options_len > 0 {
        write!(f, " options {options_len} bytes")?;
    }
    match rest.get(..options_len) {
        Some(options) if !ip.verify_checksum(options) => {
            write!(f, " bad-checksum(should be {:#06x})", ip.compute_checksum(options))
        }
        _ => Ok(()),
    }
}

fn write_ipv6(f: &mut fmt::Formatter<'_>, ip: &Ipv6Header) -> fmt::Result {
    let (src, dst) = (ip.src(), ip.dst());
    write!(f, "IP6: {src} -> {dst} {} hop-limit {} len {}", ip.next_header, ip.hop_limit, ip.total_len())?;
    write_class(f, ip.dscp(), ip.ecn())?;
    if ip.flow_label() != 0 {
        write!(f, " flow {:#07x}", ip.flow_label())?;
    }
    if ip.version() != 6 {
        write!(f, " bad-version({})", ip.version())?;
    }
    Ok(())
}

fn write_class(f: &mut fmt::Formatter<'_>, dscp: u8, ecn: u8) -> fmt::Result {
    if dscp != 0 {
        write!(f, " dscp {dscp}")?;
    }
    if ecn != 0 {
        write!(f, " ecn {ecn}")?;
    }
    Ok(())
}

fn write_extensions(f: &mut fmt::Formatter<'_>, upper: UpperLayer) -> fmt::Result {
    f.write_str("IP6 extensions:")?;
    for (name, _) in upper.extensions.iter_names() {
        f.write_str(" ")?;
        for letter in name.chars() {
            let letter = if letter == '_' { '-' } else { letter.to_ascii_lowercase() };
            write!(f, "{letter}")?;
        }
    }
    if let Some(fragment) = upper.fragment {
        write!(f, " id {:#010x} offset {}", fragment.id.get(), fragment.offset())?;
        if fragment.more() {
            f.write_str(" more")?;
        }
    }
    write!(f, " then {}", upper.protocol)
}

fn write_icmpv4(f: &mut fmt::Formatter<'_>, icmp: &Icmpv4Header) -> fmt::Result {
    write!(f, "ICMP: {}", icmp.kind)?;
    match icmp.kind {
        Icmpv4Type::ECHO_REQUEST | Icmpv4Type::ECHO_REPLY => {
            write!(f, " id {} seq {}", icmp.echo_id(), icmp.echo_sequence())
        }
        Icmpv4Type::DESTINATION_UNREACHABLE if icmp.code == 4 => {
            write!(f, " fragmentation-needed mtu {}", icmp.rest_low)
        }
        Icmpv4Type::PARAMETER_PROBLEM => {
            write!(f, " code {} pointer {}", icmp.code, icmp.rest_high.get() >> 8)
        }
        Icmpv4Type::REDIRECT => {
            let gateway = u32::from(icmp.rest_high.get()) << 16 | u32::from(icmp.rest_low.get());
            write!(f, " code {} gateway {}", icmp.code, Ipv4Addr::from_bits(gateway))
        }
        _ => write!(f, " code {}", icmp.code),
    }
}

fn write_icmpv6(f: &mut fmt::Formatter<'_>, icmp: &Icmpv6Header, message: &[u8]) -> fmt::Result {
    write!(f, "ICMP6: {}", icmp.kind)?;
    match icmp.kind {
        Icmpv6Type::ECHO_REQUEST | Icmpv6Type::ECHO_REPLY => {
            write!(f, " id {} seq {}", icmp.echo_id(), icmp.echo_sequence())
        }
        Icmpv6Type::PACKET_TOO_BIG => write!(f, " mtu {}", icmp.rest),
        Icmpv6Type::PARAMETER_PROBLEM => write!(f, " code {} pointer {}", icmp.code, icmp.rest),
        Icmpv6Type::NEIGHBOR_SOLICITATION => {
            write_target(f, NeighborSolicitation::parse(message).ok().map(|(found, _)| found.target()))
        }
        Icmpv6Type::NEIGHBOR_ADVERTISEMENT => {
            write_target(f, NeighborAdvertisement::parse(message).ok().map(|(found, _)| found.target()))
        }
        _ => write!(f, " code {}", icmp.code),
    }
}

fn write_target(f: &mut fmt::Formatter<'_>, target: Option<Ipv6Addr>) -> fmt::Result {
    match target {
        Some(target) => write!(f, " target {target}"),
        None => f.write_str(" (cut off)"),
    }
}

fn write_tcp(f: &mut fmt::Formatter<'_>, tcp: &TcpHeader, rest: &[u8]) -> fmt::Result {
    write!(f, "TCP: {} -> {} {}", tcp.src_port, tcp.dst_port, tcp.flags())?;
    write!(f, " seq {} ack {} window {}", tcp.sequence, tcp.acknowledgment, tcp.window)?;
    let Some(options_len) = tcp.header_len().checked_sub(TcpHeader::LEN) else {
        return write!(f, " bad-data-offset({})", tcp.header_len());
    };
    let Some(options) = rest.get(..options_len) else {
        return f.write_str(" options cut off");
    };
    for option in TcpOptions::new(options) {
        match option {
            Ok(TcpOption::MaximumSegmentSize(size)) => write!(f, " mss {size}")?,
            Ok(TcpOption::WindowScale(shift)) => write!(f, " wscale {shift}")?,
            Ok(TcpOption::SackPermitted) => f.write_str(" sack-permitted")?,
            Ok(TcpOption::Sack(blocks)) => write!(f, " sack {}", blocks.len() / 8)?,
            Ok(TcpOption::Timestamps { value, echo }) => write!(f, " ts {value}/{echo}")?,
            Ok(TcpOption::Other { kind, .. }) => write!(f, " option {kind}")?,
            Err(_) => f.write_str(" bad-options")?,
        }
    }
    Ok(())
}
