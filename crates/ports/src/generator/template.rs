//! A frame, and where in it the fields are that change from packet to packet.

use crate::port::LinkLayer;
use wire::checksum::{Partial, update};
use wire::ipv4::Ipv4Header;
use wire::ipv6;
use wire::{EtherType, EthernetHeader, Header, IpProtocol, VlanTag};

/// A field that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The last 4 bytes of the IP source.
    SourceAddress,
    /// The last 4 bytes of the IP destination.
    DestinationAddress,
    /// The source port of TCP or UDP, or the identifier of an ICMP echo.
    SourcePort,
    /// The destination port of TCP or UDP, or the sequence number of an ICMP echo.
    DestinationPort,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::SourceAddress => "IP source",
            Self::DestinationAddress => "IP destination",
            Self::SourcePort => "source port",
            Self::DestinationPort => "destination port",
        }
    }
}

/// Packet *n* has the template's value plus `(n mod count) * step` in this field, wrapping at the field's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The field.
    pub field: Field,
    /// Different values, at least 1.
    pub count: u32,
    /// Distance between two of them.
    pub step: u32,
}

/// A field in a frame.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    /// 2 or 4 bytes.
    size: usize,
    count: u32,
    step: u32,
    /// The IPv4 header's checksum, where it covers the field.
    header_checksum: Option<usize>,
    /// The transport's checksum, where there is one, and whether 0 means "none" there (UDP).
    checksum: Option<(usize, bool)>,
}

/// A frame to be made again and again.
#[derive(Clone, Debug)]
pub(super) struct Template {
    frame: Vec<u8>,
    places: Vec<Place>,
}

/// Where the headers of a frame are.
struct Layout {
    l3: usize,
    l4: usize,
    v6: bool,
    protocol: IpProtocol,
}

impl Template {
    /// # Errors
    /// What the frame lacks.
    pub(super) fn new(frame: Vec<u8>, link: LinkLayer, vary: &[Vary]) -> Result<Self, String> {
        let mut places = Vec::new();
        for vary in vary {
            let layout = layout(&frame, link).ok_or("is no IP packet, so nothing in it can vary")?;
            let place = place(&layout, *vary);
            let fits = |place: &Place| {
                let checksums =
                    place.header_checksum.into_iter().chain(place.checksum.map(|checksum| checksum.0));
                place.at + place.size <= frame.len() && checksums.into_iter().all(|at| at + 2 <= frame.len())
            };
            let place = place.filter(fits).ok_or_else(|| format!("has no {}", vary.field.name()))?;
            places.push(place);
        }
        Ok(Self { frame, places })
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.frame.len()
    }

    /// Writes packet number `number` to the front of `out`, which is at least as long.
    pub(super) fn write(&self, number: u64, out: &mut [u8]) {
        let Some(out) = out.get_mut(..self.frame.len()) else { return };
        out.copy_from_slice(&self.frame);
        for place in &self.places {
            place.write(number, out);
        }
    }
}

impl Place {
    fn write(&self, number: u64, out: &mut [u8]) {
        let by = ((number % u64::from(self.count)) as u32).wrapping_mul(self.step);
        let Some(field) = out.get_mut(self.at..self.at + self.size) else { return };
        let before = Partial::of(field);
        match field {
            [a, b] => [*a, *b] = u16::from_be_bytes([*a, *b]).wrapping_add(by as u16).to_be_bytes(),
            [a, b, c, d] => {
                [*a, *b, *c, *d] = u32::from_be_bytes([*a, *b, *c, *d]).wrapping_add(by).to_be_bytes();
            }
            _ => {}
        }
        let after = Partial::of(field);
        if let Some(at) = self.header_checksum {
            adjust(out, at, false, before, after);
        }
        if let Some((at, optional)) = self.checksum {
            adjust(out, at, optional, before, after);
        }
    }
}

fn adjust(out: &mut [u8], at: usize, optional: bool, before: Partial, after: Partial) {
    let Some([a, b]) = out.get_mut(at..at + 2) else { return };
    let old = u16::from_be_bytes([*a, *b]);
    if optional && old == 0 {
        return;
    }
    // All headers here have even lengths: the field is at an even offset of what the checksum covers.
    let new = match update(old, before, after) {
        0 if optional => 0xffff,
        new => new,
    };
    [*a, *b] = new.to_be_bytes();
}

fn place(layout: &Layout, vary: Vary) -> Option<Place> {
    let Layout { l3, l4, v6, protocol } = *layout;
    // Offset of the checksum, whether it covers the addresses (pseudo header), whether 0 means "none".
    let (field, pseudo, optional) = match protocol {
        IpProtocol::TCP => (Some(16), true, false),
        IpProtocol::UDP => (Some(6), true, true),
        IpProtocol::ICMPV6 if v6 => (Some(2), true, false),
        IpProtocol::ICMP if !v6 => (Some(2), false, false),
        _ => (None, false, false),
    };
    let checksum = field.map(|field| (l4 + field, optional));
    let header_checksum = (!v6).then_some(l3 + 10);
    // Source and destination address, their last four bytes; ports, or an echo's two words.
    let (source, destination) = if v6 { (l3 + 20, l3 + 36) } else { (l3 + 12, l3 + 16) };
    let ports = match protocol {
        IpProtocol::TCP | IpProtocol::UDP => Some(l4),
        IpProtocol::ICMP | IpProtocol::ICMPV6 => Some(l4 + 4),
        _ => None,
    };
    let address = |at| Some((at, 4, header_checksum, checksum.filter(|_| pseudo)));
    let port = |offset| ports.map(|at| (at + offset, 2, None, checksum));
    let (at, size, header_checksum, checksum) = match vary.field {
        Field::SourceAddress => address(source),
        Field::DestinationAddress => address(destination),
        Field::SourcePort => port(0),
        Field::DestinationPort => port(2),
    }?;
    Some(Place { at, size, count: vary.count.max(1), step: vary.step, header_checksum, checksum })
}

fn layout(frame: &[u8], link: LinkLayer) -> Option<Layout> {
    let mut l3 = 0;
    if link == LinkLayer::Ethernet {
        let mut ethertype = EthernetHeader::parse(frame).ok()?.0.ethertype;
        l3 = EthernetHeader::LEN;
        while ethertype.is_vlan() {
            ethertype = VlanTag::parse(frame.get(l3..)?).ok()?.0.ethertype;
            l3 += VlanTag::LEN;
        }
        if ethertype != EtherType::IPV4 && ethertype != EtherType::IPV6 {
            return None;
        }
    }
    let bytes = frame.get(l3..)?;
    match bytes.first()? >> 4 {
        4 => {
            // Only what is needed: a template may be wrong on purpose.
            let (header, _) = Ipv4Header::parse(bytes).ok()?;
            let fits = (Ipv4Header::LEN..=bytes.len()).contains(&header.header_len());
            fits.then_some(Layout { l3, l4: l3 + header.header_len(), v6: false, protocol: header.protocol })
        }
        6 => {
            let upper = ipv6::walk(bytes).ok()?;
            Some(Layout { l3, l4: l3 + upper.offset, v6: true, protocol: upper.protocol })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PacketSpec, Protocol, build};
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// `generator.txt` is what scapy builds; `generator.py` beside it says how.
    #[test]
    fn packets_are_as_scapy_builds_them() {
        let mut template = None;
        let (mut built, mut varied) = (0, 0);
        for line in include_str!("../../tests/data/generator.txt").lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["build", link, protocol, source, destination, a, b, bytes] => {
                    let (expected, mac) = (hex(bytes), |n| wire::MacAddr([2, 0xfe, 0, 0, 0, n]));
                    let spec = PacketSpec {
                        ethernet: (link == "ethernet").then_some((mac(1), mac(2))),
                        source: source.parse().unwrap(),
                        destination: destination.parse().unwrap(),
                        protocol: match protocol {
                            "udp" => Protocol::Udp,
                            "tcp" => Protocol::TcpSyn,
                            _ => Protocol::IcmpEcho,
                        },
                        source_port: a.parse().unwrap(),
                        destination_port: b.parse().unwrap(),
                        len: expected.len(),
                    };
                    assert_eq!(build(&spec).unwrap(), expected, "{line}");
                    built += 1;
                }
                ["vary", field, count, step, bytes] => {
                    let field = match field {
                        "source-address" => Field::SourceAddress,
                        "destination-address" => Field::DestinationAddress,
                        "source-port" => Field::SourcePort,
                        _ => Field::DestinationPort,
                    };
                    let vary = Vary { field, count: count.parse().unwrap(), step: step.parse().unwrap() };
                    template = Some(Template::new(hex(bytes), LinkLayer::Ethernet, &[vary]).unwrap());
                }
                ["packet", number, bytes] => {
                    let template = template.as_ref().unwrap();
                    let mut packet = vec![0; template.len()];
                    template.write(number.parse().unwrap(), &mut packet);
                    assert_eq!(packet, hex(bytes), "{line} of {template:?}");
                    varied += 1;
                }
                _ => panic!("{line}"),
            }
        }
        assert_eq!((built, varied), (14, 59));
    }

    #[test]
    fn what_a_frame_lacks_is_said() {
        let vary = |field| [Vary { field, count: 2, step: 1 }];
        let new = |frame: &[u8], field| Template::new(frame.to_vec(), LinkLayer::Ethernet, &vary(field));
        let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 28]].concat();
        assert!(new(&arp, Field::SourcePort).unwrap_err().contains("no IP packet"));
        let spec = PacketSpec {
            ethernet: Some((wire::MacAddr::ZERO, wire::MacAddr::ZERO)),
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            protocol: Protocol::Udp,
            source_port: 1,
            destination_port: 2,
            len: 60,
        };
        let mut frame = build(&spec).unwrap();
        assert!(new(&frame, Field::SourcePort).is_ok());
        frame[23] = 47;
        assert!(new(&frame, Field::SourcePort).unwrap_err().contains("no source port"));
        assert!(build(&PacketSpec { len: 41, ..spec }).unwrap_err().contains("42 bytes"));
        assert!(build(&PacketSpec { destination: "::1".parse().unwrap(), ..spec }).is_err());
    }
}
