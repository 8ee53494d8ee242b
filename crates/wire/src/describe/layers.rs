//! Which header follows which.

use crate::ipv6::{self, UpperLayer, WalkError};
use crate::{
    ArpPacket, EtherType, EthernetHeader, Header, Icmpv4Header, Icmpv6Header, IpProtocol, Ipv4Header,
    Ipv6Header, LinkType, TcpHeader, Truncated, UdpHeader, VlanTag,
};

/// Headers that are looked at in one packet at most.
pub const MAX_LAYERS: usize = 12;

/// One header of a packet, or why there is no more to see. Nothing but lengths is checked: a trace shows what
/// is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer<'a> {
    /// Ethernet.
    Ethernet(&'a EthernetHeader),
    /// One VLAN tag.
    Vlan(&'a VlanTag),
    /// ARP.
    Arp(&'a ArpPacket),
    /// IPv4 and the bytes after its fixed part.
    Ipv4(&'a Ipv4Header, &'a [u8]),
    /// IPv6.
    Ipv6(&'a Ipv6Header),
    /// IPv6 extension headers, all together.
    Extensions(UpperLayer),
    /// ICMP and its data.
    Icmpv4(&'a Icmpv4Header),
    /// ICMPv6 with the whole message, as far as it is there.
    Icmpv6(&'a Icmpv6Header, &'a [u8]),
    /// TCP and the bytes after its fixed part.
    Tcp(&'a TcpHeader, &'a [u8]),
    /// UDP.
    Udp(&'a UdpHeader),
    /// What nothing here looks into.
    OtherEtherType(EtherType),
    /// What nothing here looks into.
    OtherProtocol(IpProtocol),
    /// First byte of a raw IP packet is neither version 4 nor 6.
    OtherVersion(u8),
    /// What nothing here looks into.
    OtherLink(LinkType),
    /// The head ends inside this header.
    Cut(Truncated),
    /// IPv6 extension headers can't be followed.
    BrokenExtensions(WalkError),
}

/// What the bytes at the cursor are.
#[derive(Clone, Copy, Debug)]
enum Next {
    Link(LinkType),
    EtherType(EtherType),
    Ip,
    /// The header at the front is IPv6's and was shown; its extensions weren't.
    Extensions,
    Protocol(IpProtocol),
    Done,
}

/// Iterator over a packet's headers, at most [`MAX_LAYERS`]. The packet quoted in an ICMP error counts.
#[derive(Clone, Debug)]
pub struct Layers<'a> {
    bytes: &'a [u8],
    next: Next,
    left: usize,
}

impl<'a> Layers<'a> {
    /// Over the packet that begins with `head`.
    #[must_use]
    pub const fn new(link: LinkType, head: &'a [u8]) -> Self {
        Self { bytes: head, next: Next::Link(link), left: MAX_LAYERS }
    }

    /// Takes a header off the front.
    fn take<H: Header + 'a>(
        &mut self,
        layer: impl FnOnce(&mut Self, &'a H, &'a [u8]) -> Layer<'a>,
    ) -> Layer<'a> {
        match H::parse(self.bytes) {
            Ok((header, rest)) => {
                self.bytes = rest;
                layer(self, header, rest)
            }
            Err(truncated) => self.end(Layer::Cut(truncated)),
        }
    }

    fn end(&mut self, layer: Layer<'a>) -> Layer<'a> {
        self.next = Next::Done;
        layer
    }

    fn ethertype(&mut self, ethertype: EtherType) -> Layer<'a> {
        match ethertype {
            EtherType::VLAN | EtherType::SERVICE_VLAN => self.take(|layers, tag: &VlanTag, _| {
                layers.next = Next::EtherType(tag.ethertype);
                Layer::Vlan(tag)
            }),
            EtherType::ARP => self.take(|layers, arp, _| layers.end(Layer::Arp(arp))),
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            other => self.end(Layer::OtherEtherType(other)),
        }
    }

    fn ip(&mut self) -> Layer<'a> {
        match self.bytes.first().map(|byte| byte >> 4) {
            Some(4) | None => self.ipv4(),
            Some(6) => self.ipv6(),
            Some(other) => self.end(Layer::OtherVersion(other)),
        }
    }

    fn ipv4(&mut self) -> Layer<'a> {
        self.take(|layers, ip: &Ipv4Header, rest| {
            let options_len = ip.header_len().saturating_sub(Ipv4Header::LEN);
            layers.bytes = rest.get(options_len..).unwrap_or_default();
            layers.next = if ip.is_later_fragment() { Next::Done } else { Next::Protocol(ip.protocol) };
            Layer::Ipv4(ip, rest)
        })
    }

    fn ipv6(&mut self) -> Layer<'a> {
        let whole = self.bytes;
        self.take(|layers, ip: &Ipv6Header, _| {
            if ip.next_header.is_extension() {
                layers.bytes = whole;
                layers.next = Next::Extensions;
            } else {
                layers.next = Next::Protocol(ip.next_header);
            }
            Layer::Ipv6(ip)
        })
    }

    fn extensions(&mut self) -> Layer<'a> {
        match ipv6::walk(self.bytes) {
            Ok(upper) => {
                self.bytes = self.bytes.get(upper.offset..).unwrap_or_default();
                self.next =
                    if upper.is_later_fragment() { Next::Done } else { Next::Protocol(upper.protocol) };
                Layer::Extensions(upper)
            }
            Err(error) => self.end(Layer::BrokenExtensions(error)),
        }
    }

    fn protocol(&mut self, protocol: IpProtocol) -> Layer<'a> {
        match protocol {
            IpProtocol::TCP => self.take(|layers, tcp, rest| layers.end(Layer::Tcp(tcp, rest))),
            IpProtocol::UDP => self.take(|layers, udp, _| layers.end(Layer::Udp(udp))),
            IpProtocol::ICMP => self.take(|layers, icmp: &Icmpv4Header, rest| {
                layers.next = quoted(icmp.kind.is_error(), rest);
                Layer::Icmpv4(icmp)
            }),
            IpProtocol::ICMPV6 => {
                let whole = self.bytes;
                self.take(|layers, icmp: &Icmpv6Header, rest| {
                    layers.next = quoted(icmp.kind.0 < 128, rest);
                    Layer::Icmpv6(icmp, whole)
                })
            }
            IpProtocol::IPV4 => self.ipv4(),
            IpProtocol::IPV6 => self.ipv6(),
            other => self.end(Layer::OtherProtocol(other)),
        }
    }
}

/// An ICMP error quotes the packet it is about.
fn quoted(is_error: bool, rest: &[u8]) -> Next {
    if is_error && !rest.is_empty() { Next::Ip } else { Next::Done }
}

impl<'a> Iterator for Layers<'a> {
    type Item = Layer<'a>;

    fn next(&mut self) -> Option<Layer<'a>> {
        self.left = self.left.checked_sub(1)?;
        let layer = match self.next {
            Next::Done => return None,
            Next::Link(LinkType::ETHERNET) => self.take(|layers, ethernet: &EthernetHeader, _| {
                layers.next = Next::EtherType(ethernet.ethertype);
                Layer::Ethernet(ethernet)
            }),
            Next::Link(LinkType::RAW) | Next::Ip => self.ip(),
            Next::Link(LinkType::IPV4) => self.ipv4(),
            Next::Link(LinkType::IPV6) => self.ipv6(),
            Next::Link(other) => self.end(Layer::OtherLink(other)),
            Next::EtherType(ethertype) => self.ethertype(ethertype),
            Next::Extensions => self.extensions(),
            Next::Protocol(protocol) => self.protocol(protocol),
        };
        Some(layer)
    }
}
