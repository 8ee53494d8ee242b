//! One rule of a list: its words, and what no session can meet.

use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{AclAction, AclRule};
use features::session::acl::Action;
use features::session::acl::control::{RuleConfig, Side, within};
use tables::classifier::{Flags, PortRange, Prefix};
use wire::{IpProtocol, TcpFlags};

use super::acl::{api_action, pairs_of};
use super::address_set::{prefixes, text};
use crate::model::{Flaw, fields};

/// Sets that one side of a rule can name.
const MAX_SETS: usize = 1024;
/// Combinations of a source and a destination that a rule can have: workers know each of them. Prefixes of a side are one.
const MAX_PAIRS: usize = 4096;

/// Protocols with a word. Those with ports come first.
const PROTOCOLS: [(&str, IpProtocol); 9] = [
    ("tcp", IpProtocol::TCP),
    ("udp", IpProtocol::UDP),
    ("sctp", IpProtocol::SCTP),
    ("udplite", IpProtocol::UDP_LITE),
    ("dccp", IpProtocol::DCCP),
    ("esp", IpProtocol::ESP),
    ("ah", IpProtocol::AH),
    ("icmp", IpProtocol::ICMP),
    ("icmpv6", IpProtocol::ICMPV6),
];

const FLAGS: [(&str, TcpFlags); 8] = [
    ("fin", TcpFlags::FIN),
    ("syn", TcpFlags::SYN),
    ("rst", TcpFlags::RST),
    ("psh", TcpFlags::PSH),
    ("ack", TcpFlags::ACK),
    ("urg", TcpFlags::URG),
    ("ece", TcpFlags::ECE),
    ("cwr", TcpFlags::CWR),
];

/// Reads a protocol: a word or a number.
///
/// # Errors
/// [`Flaw`] if it is neither.
pub fn protocol(field: &str, said: &str) -> Result<IpProtocol, Flaw> {
    let word = PROTOCOLS.iter().find(|(word, _)| *word == said).map(|(_, protocol)| *protocol);
    word.or_else(|| said.parse().ok().map(IpProtocol)).ok_or_else(|| {
        let words = PROTOCOLS.map(|(word, _)| word).join(", ");
        Flaw::new(field, format!("{said:?} is no protocol"))
            .remedy(format!("take one of {words}, or a number up to 255"))
    })
}

/// Reads a protocol whose packets have sessions: rules are asked about those alone.
///
/// # Errors
/// [`Flaw`] if it is none, or has none.
pub fn protocol_of_sessions(field: &str, said: &str) -> Result<IpProtocol, Flaw> {
    let protocol = protocol(field, said)?;
    if !features::session::has_sessions(protocol) {
        let words = PROTOCOLS.map(|(word, _)| word).join(", ");
        return Err(Flaw::new(
            field,
            format!("protocol {} has no sessions, and rules are asked about sessions alone", protocol.0),
        )
        .remedy(format!(
            "take one of {words}; whether packets of others pass is said by `slow_path.unknown_protocol` of their tenant"
        )));
    }
    Ok(protocol)
}

fn protocol_text(protocol: u8) -> String {
    let word = PROTOCOLS.iter().find(|(_, known)| known.0 == protocol);
    word.map_or_else(|| protocol.to_string(), |(word, _)| (*word).into())
}

/// Reads flags: those that have to be there, and with "!" those that mustn't.
///
/// # Errors
/// [`Flaw`] naming the element.
pub fn tcp_flags(field: &str, said: &[String]) -> Result<Flags, Flaw> {
    let mut flags = Flags::default();
    for (index, text) in said.iter().enumerate() {
        let (word, there) = text.strip_prefix('!').map_or((text.as_str(), true), |word| (word, false));
        let known = FLAGS.iter().find(|(name, _)| *name == word).map(|(_, flag)| flag.bits());
        let field = || format!("{field}[{index}]");
        let flag = known.ok_or_else(|| {
            let words = FLAGS.map(|(word, _)| word).join(", ");
            Flaw::new(field(), format!("{word:?} is no TCP flag"))
                .remedy(format!("take some of {words}, each with ! in front if it mustn't be there"))
        })?;
        if flags.mask & flag != 0 {
            return Err(Flaw::new(field(), format!("{word} is said twice")).remedy("leave one out"));
        }
        flags.mask |= flag;
        flags.value |= if there { flag } else { 0 };
    }
    Ok(flags)
}

fn flags_text(flags: Flags) -> Vec<String> {
    let said = FLAGS.iter().filter(|(_, flag)| flags.mask & flag.bits() != 0);
    said.map(|(word, flag)| match flags.value & flag.bits() {
        0 => format!("!{word}"),
        _ => (*word).into(),
    })
    .collect()
}

pub(super) fn rule(said: &AclRule) -> Result<RuleConfig, Flaw> {
    let action = match fields::choice("action", said.action, AclAction::Unspecified)? {
        AclAction::Permit => Some(Action::Permit),
        AclAction::Deny => Some(Action::Deny),
        AclAction::Reflect => Some(Action::Reflect),
        AclAction::Redirect => Some(Action::Redirect),
        AclAction::Next => None,
        AclAction::Unspecified => {
            return Err(Flaw::new("action", "is missing")
                .remedy("take one of: permit, deny, reflect, redirect, next"));
        }
    };
    let sources = side("source", [&said.sources, &said.source_except, &said.source_sets])?;
    let destinations =
        side("destination", [&said.destinations, &said.destination_except, &said.destination_sets])?;
    let protocol = match said.protocol.as_str() {
        "" => None,
        text => Some(protocol_of_sessions("protocol", text)?),
    };
    families(&sources, &destinations, protocol)?;
    let with_ports = protocol.is_some_and(IpProtocol::has_ports);
    let ports = |field: &str, said: &[String]| {
        if !said.is_empty() && !with_ports {
            let words = PROTOCOLS[..5].iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            return Err(Flaw::new(field, "ports without a protocol that has ports")
                .remedy(format!("set protocol to one of {words}")));
        }
        port_ranges(field, said)
    };
    let flags = tcp_flags("tcp_flags", &said.tcp_flags)?;
    if flags.mask != 0 && protocol != Some(IpProtocol::TCP) {
        return Err(Flaw::new("tcp_flags", "flags without TCP").remedy("set protocol to tcp"));
    }
    let rule = RuleConfig {
        name: fields::optional_name("name", &said.name)?.map_or("".into(), |name| name.to_string().into()),
        remark: said.remark.as_str().into(),
        action,
        sources,
        destinations,
        protocol: protocol.map(|protocol| protocol.0),
        source_ports: ports("source_ports", &said.source_ports)?,
        destination_ports: ports("destination_ports", &said.destination_ports)?,
        flags,
        icmp: icmp(said, protocol)?,
    };
    let pairs = pairs_of(&rule);
    if pairs > MAX_PAIRS {
        let what = format!("with those of the source, these are {pairs} combinations");
        return Err(Flaw::new("destination_sets", what)
            .remedy(format!("take {MAX_PAIRS} at most: name fewer sets that have more members")));
    }
    Ok(rule)
}

/// A rule in canonical form.
pub fn api_rule(rule: &RuleConfig) -> AclRule {
    let texts = |prefixes: &[Prefix]| prefixes.iter().map(|prefix| text(*prefix)).collect();
    let names = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
    let ports = |ranges: &[PortRange]| ranges.iter().map(|range| range_text(*range)).collect();
    AclRule {
        name: rule.name.to_string(),
        remark: rule.remark.to_string(),
        action: api_action(rule.action).into(),
        sources: texts(&rule.sources.prefixes),
        source_except: texts(&rule.sources.except),
        source_sets: names(&rule.sources.sets),
        destinations: texts(&rule.destinations.prefixes),
        destination_except: texts(&rule.destinations.except),
        destination_sets: names(&rule.destinations.sets),
        protocol: rule.protocol.map(protocol_text).unwrap_or_default(),
        source_ports: ports(&rule.source_ports),
        destination_ports: ports(&rule.destination_ports),
        tcp_flags: flags_text(rule.flags),
        icmp_type: rule.icmp.map(|(kind, _)| kind.into()),
        icmp_code: rule.icmp.and_then(|(_, code)| code).map(u32::from),
    }
}

/// Prefixes, exceptions and sets of a side.
fn side(which: &str, [said, except, sets]: [&[String]; 3]) -> Result<Side, Flaw> {
    let field = format!("{which}_except");
    let side = Side {
        prefixes: prefixes(&format!("{which}s"), said)?,
        except: prefixes(&field, except)?,
        sets: {
            let field = format!("{which}_sets");
            let mut sets = super::endpoint::lists(&field, sets)?;
            if sets.len() > MAX_SETS {
                let flaw = Flaw::new(field, format!("{} are too many", sets.len()));
                return Err(flaw.remedy(format!("take {MAX_SETS} at most")));
            }
            sets.sort_unstable();
            sets
        },
    };
    if let Some((except, _)) = within(&side.except, &side.prefixes).find(|(_, within)| !within) {
        return Err(Flaw::new(field, format!("{} is in none of {which}s", text(except)))
            .remedy(format!("say from which of {which}s it is an exception; sets have none")));
    }
    Ok(side)
}

/// A rule is met by packets of one family.
fn families(sources: &Side, destinations: &Side, protocol: Option<IpProtocol>) -> Result<(), Flaw> {
    let address = |side: &Side, v4: bool| -> Option<IpAddr> {
        side.prefixes.iter().map(|(address, _)| *address).find(|address| address.is_ipv4() == v4)
    };
    let of = |v4| {
        let found = address(sources, v4).map(|address| ("sources", address));
        found.or_else(|| address(destinations, v4).map(|address| ("destinations", address)))
    };
    let wants = match protocol {
        Some(IpProtocol::ICMP) => Some(true),
        Some(IpProtocol::ICMPV6) => Some(false),
        _ => None,
    };
    match (of(true), of(false), wants) {
        (Some((_, v4)), Some((field, v6)), _) => {
            Err(Flaw::new(field, format!("{v6} and {v4} are of different families: no session meets both"))
                .remedy("write one rule for each family"))
        }
        (Some((field, address)), _, Some(false)) | (_, Some((field, address)), Some(true)) => {
            Err(Flaw::new(field, format!("{address} is of the other family than the protocol"))
                .remedy("take icmp with IPv4, and icmpv6 with IPv6"))
        }
        _ => Ok(()),
    }
}

fn icmp(said: &AclRule, protocol: Option<IpProtocol>) -> Result<Option<(u8, Option<u8>)>, Flaw> {
    let number = |field: &str, said: u32| {
        u8::try_from(said)
            .map_err(|_| Flaw::new(field, format!("{said} is out of range")).remedy("take 0 to 255"))
    };
    let (field, missing) = match (said.icmp_type, said.icmp_code) {
        (None, None) => return Ok(None),
        (None, Some(_)) => ("icmp_code", Some("the type is missing")),
        (Some(_), _) => ("icmp_type", None),
    };
    if let Some(missing) = missing {
        return Err(Flaw::new(field, missing).remedy("set icmp_type"));
    }
    if !matches!(protocol, Some(IpProtocol::ICMP | IpProtocol::ICMPV6)) {
        return Err(Flaw::new(field, "a type without ICMP").remedy("set protocol to icmp or icmpv6"));
    }
    let kind = number("icmp_type", said.icmp_type.unwrap_or_default())?;
    let code = said.icmp_code.map(|code| number("icmp_code", code)).transpose()?;
    Ok(Some((kind, code)))
}

fn range_text((first, last): PortRange) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Ranges in ascending order, none of which overlaps another.
fn port_ranges(field: &str, said: &[String]) -> Result<Vec<PortRange>, Flaw> {
    let mut ranges = Vec::with_capacity(said.len());
    for (index, text) in said.iter().enumerate() {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let wrong = || {
            Flaw::new(format!("{field}[{index}]"), format!("{text:?} is no port or range of ports"))
                .remedy("write \"80\" or \"1024-65535\"")
        };
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(wrong());
        }
        ranges.push((first, last));
    }
    ranges.sort_unstable();
    if let Some([one, other]) = ranges.array_windows().find(|[one, other]| one.1 >= other.0) {
        let what = format!("{} and {} overlap", range_text(*one), range_text(*other));
        return Err(Flaw::new(field, what).remedy("write one range for both"));
    }
    Ok(ranges)
}
