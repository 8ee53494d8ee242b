//! Ports by protocol.

use core::fmt;
use wire::IpProtocol;

/// Ports of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// TCP, UDP or SCTP.
    pub protocol: IpProtocol,
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = NAMES.iter().find(|(_, protocol)| *protocol == self.protocol);
        write!(f, "{}:{}", protocol.map_or("?", |(name, _)| name), self.first)?;
        if self.last == self.first { Ok(()) } else { write!(f, "-{}", self.last) }
    }
}

/// Protocols whose ports can be told apart, by their names.
const NAMES: [(&str, IpProtocol); 3] =
    [("tcp", IpProtocol::TCP), ("udp", IpProtocol::UDP), ("sctp", IpProtocol::SCTP)];

/// Why ports can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    /// The text is of another form.
    #[error("{text:?} names no ports: write PROTOCOL:PORT or PROTOCOL:FIRST-LAST")]
    Form {
        /// What was written.
        text: String,
    },
    /// The protocol has no ports, or none that are told apart here.
    #[error("{protocol:?} is neither tcp, udp nor sctp")]
    Protocol {
        /// What was written.
        protocol: String,
    },
    /// Not a number up to 65535.
    #[error("{port:?} is no port: 0 to 65535")]
    Port {
        /// What was written.
        port: String,
    },
    /// The range ends before it begins.
    #[error("the range ends at {last}, before it begins at {first}")]
    Backwards {
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
    /// Two ranges have a port in common.
    #[error("{one} overlaps {other}")]
    Overlap {
        /// One of them.
        one: PortRange,
        /// The other one.
        other: PortRange,
    },
}

impl core::str::FromStr for PortRange {
    type Err = PortsError;

    /// `tcp:4444-20000`, `udp:6081`.
    fn from_str(text: &str) -> Result<Self, PortsError> {
        let (name, ports) = text.split_once(':').ok_or_else(|| PortsError::Form { text: text.into() })?;
        let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, protocol) = known.ok_or_else(|| PortsError::Protocol { protocol: name.into() })?;
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text: &str| text.parse().map_err(|_| PortsError::Port { port: text.into() });
        let (first, last) = (port(first)?, port(last)?);
        if last < first {
            return Err(PortsError::Backwards { first, last });
        }
        Ok(Self { protocol: *protocol, first, last })
    }
}

/// Bits, one per port.
type Bitmap = Box<[u64; 1024]>;

/// Ports of several protocols, each found by one look.
#[derive(Clone, Debug, Default)]
pub struct PortSet {
    /// In the order of [`NAMES`].
    bitmaps: [Option<Bitmap>; NAMES.len()],
}

impl PortSet {
    /// The ports of these ranges.
    ///
    /// # Errors
    /// [`PortsError::Overlap`].
    pub fn new(ranges: &[PortRange]) -> Result<Self, PortsError> {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if pair[0].protocol == pair[1].protocol && pair[1].first <= pair[0].last {
                return Err(PortsError::Overlap { one: pair[1], other: pair[0] });
            }
        }
        let mut set = Self::default();
        for PortRange { protocol, first, last } in sorted {
            let Some(at) = place(protocol) else { continue };
            let bitmap = set.bitmaps[at].get_or_insert_with(|| Box::new([0; 1024]));
            (first..=last).for_each(|port| bitmap[usize::from(port >> 6)] |= 1 << (port & 63));
        }
        Ok(set)
    }

    /// Whether a port of a protocol is one of them.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, protocol: IpProtocol, port: u16) -> bool {
        let bitmap = place(protocol).and_then(|at| self.bitmaps[at].as_deref());
        bitmap.is_some_and(|bitmap| bitmap[usize::from(port >> 6)] >> (port & 63) & 1 != 0)
    }
}

#[inline(always)]
fn place(protocol: IpProtocol) -> Option<usize> {
    NAMES.iter().position(|(_, known)| *known == protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_read_and_written() {
        for text in ["tcp:0", "udp:6081", "sctp:1-65535", "tcp:4444-20000"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        assert_eq!("TCP:7".parse::<PortRange>().unwrap().to_string(), "tcp:7");
        for (text, error) in [
            ("80", "\"80\" names no ports: write PROTOCOL:PORT or PROTOCOL:FIRST-LAST"),
            ("icmp:8", "\"icmp\" is neither tcp, udp nor sctp"),
            ("tcp:65536", "\"65536\" is no port: 0 to 65535"),
            ("tcp:1-", "\"\" is no port: 0 to 65535"),
            ("tcp: 1", "\" 1\" is no port: 0 to 65535"),
            ("udp:9-8", "the range ends at 8, before it begins at 9"),
        ] {
            assert_eq!(text.parse::<PortRange>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn ranges_of_one_protocol_must_not_overlap() {
        let ranges = |text: &str| text.split(',').map(|one| one.parse().unwrap()).collect::<Vec<PortRange>>();
        let error = PortSet::new(&ranges("tcp:20-30,udp:5,tcp:1-20")).unwrap_err();
        assert_eq!(error.to_string(), "tcp:20-30 overlaps tcp:1-20");
        assert!(PortSet::new(&ranges("tcp:1-20,udp:1-20,tcp:21")).is_ok());
    }

    proptest! {
        #[test]
        fn a_port_is_in_the_set_where_it_is_in_a_range(
            first in any::<u16>(), len in 0..5000u16, gap in 1..300u16, port in any::<u16>(), near in -2..3i32,
        ) {
            let last = first.saturating_add(len);
            let mut ranges = vec![PortRange { protocol: IpProtocol::TCP, first, last }];
            if let Some(first) = last.checked_add(gap) {
                ranges.push(PortRange { protocol: IpProtocol::UDP, first, last: first });
            }
            let set = PortSet::new(&ranges).unwrap();
            let beside = |port: u16| (i32::from(port) + near).clamp(0, 65535) as u16;
            for port in [port, beside(first), beside(last)] {
                for protocol in [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::SCTP, IpProtocol::ICMP] {
                    let expected =
                        ranges.iter().any(|r| r.protocol == protocol && (r.first..=r.last).contains(&port));
                    prop_assert_eq!(set.has(protocol, port), expected, "{:?} {}", protocol, port);
                }
            }
        }
    }
}
