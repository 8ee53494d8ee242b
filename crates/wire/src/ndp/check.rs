//! What must hold before a message is believed (RFC 4861 sections 6.1, 7.1 and 8.1).

use core::net::Ipv6Addr;

use super::{
    NdpOption, NdpOptions, NeighborAdvertisement, NeighborFlags, NeighborSolicitation, Redirect,
    RouterAdvertisement, RouterSolicitation,
};
use crate::checksum::Partial;
use crate::icmp::{Icmpv6Header, Icmpv6Type};
use crate::ipv6::{Ipv6Class, Ipv6Header, Ipv6Kind};
use crate::reason::reasons;
use crate::{Header, IpProtocol};

/// A checked message with its options.
#[derive(Clone, Debug)]
pub enum NdpMessage<'a> {
    /// Who has this address?
    NeighborSolicitation(&'a NeighborSolicitation, NdpOptions<'a>),
    /// I have this address.
    NeighborAdvertisement(&'a NeighborAdvertisement, NdpOptions<'a>),
    /// Is there a router?
    RouterSolicitation(&'a RouterSolicitation, NdpOptions<'a>),
    /// I am a router.
    RouterAdvertisement(&'a RouterAdvertisement, NdpOptions<'a>),
    /// There is a better first hop.
    Redirect(&'a Redirect, NdpOptions<'a>),
}

reasons! {
    /// Why a neighbour discovery message is refused.
    pub enum NdpReason {
        /// Neighbour discovery message is shorter than its fixed part.
        TooShort = "ndp-too-short",
        /// ICMPv6 message is none of neighbour discovery.
        NotNdp = "ndp-other-type",
        /// Hop limit is not 255: the message was forwarded, so it is not from this link.
        BadHopLimit = "ndp-bad-hop-limit",
        /// ICMPv6 checksum is wrong.
        BadChecksum = "ndp-bad-checksum",
        /// ICMPv6 code is not 0.
        BadCode = "ndp-bad-code",
        /// Option's length is zero or goes beyond the message.
        BadOption = "ndp-bad-option",
        /// Target or destination is a multicast address.
        BadTarget = "ndp-bad-target",
        /// Source address is not one this message may have.
        BadSource = "ndp-bad-source",
        /// Destination address is not one this message may have.
        BadDestination = "ndp-bad-destination",
        /// Sender without an address gives a link-layer address.
        UnexpectedSourceOption = "ndp-unexpected-source-option",
    }
}

/// The neighbour discovery message in `message`, everything checked that RFC 4861 demands of a receiver:
/// hop limit, checksum, code, length, options, and addresses.
///
/// `message` is the whole ICMPv6 message, neither cut off nor padded (its length enters the checksum).
///
/// # Errors
/// The first [`NdpReason`] that applies.
pub fn check<'a>(ip: &Ipv6Header, message: &'a [u8]) -> Result<NdpMessage<'a>, NdpReason> {
    let (icmp, _) = Icmpv6Header::parse(message).map_err(|_| NdpReason::TooShort)?;
    if !icmp.kind.is_neighbour_discovery() {
        return Err(NdpReason::NotNdp);
    }
    if ip.hop_limit != 255 {
        return Err(NdpReason::BadHopLimit);
    }
    // an IPv6 payload that long would be a jumbogram, which nobody sends as neighbour discovery
    let len = u32::try_from(message.len()).map_err(|_| NdpReason::BadChecksum)?;
    let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, len);
    if !pseudo.plus(Partial::of(message)).is_valid() {
        return Err(NdpReason::BadChecksum);
    }
    if icmp.code != 0 {
        return Err(NdpReason::BadCode);
    }

    let unspecified = ip.src().is_unspecified();
    match icmp.kind {
        Icmpv6Type::NEIGHBOR_SOLICITATION => {
            let (message, options) = split::<NeighborSolicitation>(message)?;
            unicast(message.target())?;
            if unspecified && !ip.dst().is_solicited_node() {
                return Err(NdpReason::BadDestination);
            }
            no_source_option(unspecified, &options)?;
            Ok(NdpMessage::NeighborSolicitation(message, options))
        }
        Icmpv6Type::NEIGHBOR_ADVERTISEMENT => {
            let (message, options) = split::<NeighborAdvertisement>(message)?;
            unicast(message.target())?;
            if ip.dst().is_multicast() && message.flags().contains(NeighborFlags::SOLICITED) {
                return Err(NdpReason::BadDestination);
            }
            Ok(NdpMessage::NeighborAdvertisement(message, options))
        }
        Icmpv6Type::ROUTER_SOLICITATION => {
            let (message, options) = split::<RouterSolicitation>(message)?;
            no_source_option(unspecified, &options)?;
            Ok(NdpMessage::RouterSolicitation(message, options))
        }
        Icmpv6Type::ROUTER_ADVERTISEMENT => {
            let (message, options) = split::<RouterAdvertisement>(message)?;
            from_link_local(ip)?;
            Ok(NdpMessage::RouterAdvertisement(message, options))
        }
        _ => {
            let (message, options) = split::<Redirect>(message)?;
            from_link_local(ip)?;
            unicast(Ipv6Addr::from_octets(message.target))?;
            unicast(Ipv6Addr::from_octets(message.destination))?;
            Ok(NdpMessage::Redirect(message, options))
        }
    }
}

fn split<H: Header>(message: &[u8]) -> Result<(&H, NdpOptions<'_>), NdpReason> {
    let (header, rest) = H::parse(message).map_err(|_| NdpReason::TooShort)?;
    let options = NdpOptions::new(rest);
    if options.clone().any(|option| option.is_err()) {
        return Err(NdpReason::BadOption);
    }
    Ok((header, options))
}

fn unicast(address: Ipv6Addr) -> Result<(), NdpReason> {
    if address.is_multicast() { Err(NdpReason::BadTarget) } else { Ok(()) }
}

fn from_link_local(ip: &Ipv6Header) -> Result<(), NdpReason> {
    if ip.src().kind() == Ipv6Kind::LinkLocal { Ok(()) } else { Err(NdpReason::BadSource) }
}

fn no_source_option(unspecified: bool, options: &NdpOptions<'_>) -> Result<(), NdpReason> {
    let is_source = |option| matches!(option, Ok(NdpOption::Source(_)));
    if unspecified && options.clone().any(is_source) {
        Err(NdpReason::UnexpectedSourceOption)
    } else {
        Ok(())
    }
}
