//! Congestion notification at the end of a tunnel (RFC 6040 section 4.2).

use super::inner::network;
use crate::interface::LinkMode;
use wire::{EtherType, Header, Ipv4Header, Ipv6Header};

/// Values of the field (RFC 3168 section 5).
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// A router on the way has met congestion, and who has sent the packet inside takes no hint but its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Congested;

/// What the packet inside says from now on; figure 4 of the RFC.
const fn outgoing(inner: u8, outer: u8) -> Result<u8, Congested> {
    match (inner & 3, outer & 3) {
        (NOT_ECT, CE) => Err(Congested),
        (NOT_ECT, _) => Ok(NOT_ECT),
        (_, CE) | (CE, _) => Ok(CE),
        (ECT_1, _) | (ECT_0, ECT_1) => Ok(ECT_1),
        _ => Ok(ECT_0),
    }
}

/// Carries what the outer header says over to the packet that begins with `head`. Packets that aren't IP stay as they are.
///
/// # Errors
/// [`Congested`]: the packet must be dropped.
pub(super) fn carry_over(head: &mut [u8], mode: LinkMode, outer: u8) -> Result<(), Congested> {
    // Nearly all packets: nothing that could change the one inside.
    if matches!(outer & 3, NOT_ECT | ECT_0) {
        return Ok(());
    }
    let Some((protocol, at)) = network(head, mode) else { return Ok(()) };
    let rest = head.get_mut(at..).unwrap_or_default();
    match protocol {
        EtherType::IPV4 => {
            let Ok((ip, _)) = Ipv4Header::parse_mut(rest) else { return Ok(()) };
            let ecn = outgoing(ip.ecn(), outer)?;
            ip.set_dscp_ecn(ip.dscp_ecn & !3 | ecn);
        }
        EtherType::IPV6 => {
            let Ok((ip, _)) = Ipv6Header::parse_mut(rest) else { return Ok(()) };
            let ecn = outgoing(ip.ecn(), outer)?;
            ip.set_traffic_class(ip.traffic_class() & !3 | ecn);
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040 figure 4, row by row: inner; then for outer Not-ECT, ECT(0), ECT(1), CE.
    #[test]
    fn every_pair_is_as_the_figure_says() {
        let figure = [
            (NOT_ECT, [Ok(NOT_ECT), Ok(NOT_ECT), Ok(NOT_ECT), Err(Congested)]),
            (ECT_0, [Ok(ECT_0), Ok(ECT_0), Ok(ECT_1), Ok(CE)]),
            (ECT_1, [Ok(ECT_1), Ok(ECT_1), Ok(ECT_1), Ok(CE)]),
            (CE, [Ok(CE), Ok(CE), Ok(CE), Ok(CE)]),
        ];
        for (inner, row) in figure {
            for (outer, expected) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                assert_eq!(outgoing(inner, outer), expected, "inner {inner}, outer {outer}");
                let mut packet = [0_u8; 20];
                packet[..2].copy_from_slice(&[0x45, 0xb8 | inner]);
                let header = Ipv4Header::parse(&packet).unwrap().0.compute_checksum(&[]);
                packet[10..12].copy_from_slice(&header.to_be_bytes());
                let done = carry_over(&mut packet, LinkMode::Ip, outer);
                assert_eq!(done, expected.map(|_| ()));
                assert_eq!(packet[1], 0xb8 | expected.unwrap_or(inner));
                assert!(Ipv4Header::parse(&packet).unwrap().0.verify_checksum(&[]));
            }
        }
    }
}
