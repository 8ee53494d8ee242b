//! Lists of rules.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{Acl, AclAction, AclDefault, AclRule};
use features::session::acl::Action;
use features::session::acl::control::{AclConfig, RuleConfig, Side, within};
use tables::classifier::{Flags, PortRange, Prefix};
use wire::{IpProtocol, TcpFlags};

use super::address_set::{prefixes, text};
use crate::model::{Flaw, Name, fields};

/// Rules of a list at most: what numbers of counters and a message can hold.
const MAX_RULES: usize = 1_000_000;
/// Sets that one side of a rule can name.
const MAX_SETS: usize = 1024;
/// Combinations of a source and a destination that a rule can have: workers know each of them. Prefixes of a side are one.
const MAX_PAIRS: usize = 4096;
/// The same of a list.
const MAX_PAIRS_OF_LIST: usize = 1 << 21;

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

/// A list of rules; see [`Acl`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclSpec {
    /// Unique name.
    pub name: Name,
    /// What it is.
    pub config: Arc<AclConfig>,
    /// The sets that its rules name, each where it is named first.
    pub sets: Vec<SetUse>,
}

/// Where a set is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUse {
    /// The set.
    pub name: Arc<str>,
    /// Place of the rule, from 0 on.
    pub rule: usize,
    /// "source_sets" or "destination_sets".
    pub field: &'static str,
}

impl AclSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(acl: &Acl) -> Result<Self, Flaw> {
        let name = fields::name("name", &acl.name)?;
        if acl.rules.len() > MAX_RULES {
            let flaw = Flaw::new("rules", format!("{} are too many", acl.rules.len()));
            return Err(flaw.remedy(format!("take {MAX_RULES} at most")));
        }
        let otherwise = match fields::choice("default_action", acl.default_action, AclDefault::Next)? {
            AclDefault::Permit => Some(Action::Permit),
            AclDefault::Reflect => Some(Action::Reflect),
            AclDefault::Deny => Some(Action::Deny),
            AclDefault::Redirect => Some(Action::Redirect),
            AclDefault::Next | AclDefault::Unspecified => None,
        };
        let mut names = HashSet::new();
        let mut rules = Vec::with_capacity(acl.rules.len());
        let mut pairs = 0;
        for (index, said) in acl.rules.iter().enumerate() {
            let flaw = |flaw: Flaw| flaw.inside(&format!("rules[{index}]"));
            let rule = rule(said).map_err(flaw)?;
            if !rule.name.is_empty() && !names.insert(rule.name.clone()) {
                let twice = Flaw::new("name", format!("{} is that of another rule of the list", rule.name));
                return Err(flaw(twice.remedy("take another one, or none")));
            }
            pairs += pairs_of(&rule);
            if pairs > MAX_PAIRS_OF_LIST {
                let many = format!("up to here the list has {pairs} combinations of source and destination");
                return Err(Flaw::new("", many).inside(&format!("rules[{index}]")).remedy(format!(
                    "take {MAX_PAIRS_OF_LIST} at most: name fewer sets that have more members"
                )));
            }
            rules.push(rule);
        }
        let sets = sets(&rules);
        Ok(Self { name, config: Arc::new(AclConfig { rules, otherwise }), sets })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Acl {
        let default = match self.config.otherwise {
            None => AclDefault::Unspecified,
            said => api_default(said),
        };
        Acl {
            name: self.name.to_string(),
            rules: self.config.rules.iter().map(api_rule).collect(),
            default_action: default.into(),
        }
    }
}

/// Combinations of a source and a destination.
fn pairs_of(rule: &RuleConfig) -> usize {
    let terms = |side: &Side| (side.sets.len() + usize::from(!side.prefixes.is_empty())).max(1);
    terms(&rule.sources) * terms(&rule.destinations)
}

fn sets(rules: &[RuleConfig]) -> Vec<SetUse> {
    let mut known = HashSet::new();
    let mut uses = Vec::new();
    for (rule, config) in rules.iter().enumerate() {
        let sides = [("source_sets", &config.sources), ("destination_sets", &config.destinations)];
        for (field, name) in
            sides.into_iter().flat_map(|(field, side)| side.sets.iter().map(move |set| (field, set)))
        {
            if known.insert(Arc::clone(name)) {
                uses.push(SetUse { name: Arc::clone(name), rule, field });
            }
        }
    }
    uses
}

/// An action's word.
pub const fn api_action(action: Option<Action>) -> AclAction {
    match action {
        None => AclAction::Next,
        Some(Action::Permit) => AclAction::Permit,
        Some(Action::Deny) => AclAction::Deny,
        Some(Action::Reflect) => AclAction::Reflect,
        Some(Action::Redirect) => AclAction::Redirect,
    }
}

/// The word for what becomes of sessions that meet no rule.
pub fn api_default(otherwise: Option<Action>) -> AclDefault {
    match otherwise {
        None => AclDefault::Next,
        Some(Action::Permit) => AclDefault::Permit,
        Some(Action::Deny) => AclDefault::Deny,
        Some(Action::Reflect) => AclDefault::Reflect,
        Some(Action::Redirect) => AclDefault::Redirect,
    }
}

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

fn rule(said: &AclRule) -> Result<RuleConfig, Flaw> {
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
        text => Some(protocol("protocol", text)?),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    fn permit() -> AclRule {
        AclRule { action: AclAction::Permit.into(), ..AclRule::default() }
    }

    fn list(rules: Vec<AclRule>) -> Acl {
        Acl { name: "web".into(), rules, ..Acl::default() }
    }

    #[test]
    fn the_canonical_form_says_what_was_said() {
        let everything = AclRule {
            name: "from-pods".into(),
            remark: "as the web team wants it".into(),
            action: AclAction::Reflect.into(),
            sources: texts(&["10.0.0.0/8", "192.0.2.1"]),
            source_except: texts(&["10.1.0.0/16"]),
            source_sets: texts(&["a", "b"]),
            destination_sets: texts(&["c"]),
            protocol: "tcp".into(),
            source_ports: texts(&["1024-65535"]),
            destination_ports: texts(&["80", "443", "8000-8999"]),
            tcp_flags: texts(&["syn", "!ack"]),
            ..AclRule::default()
        };
        let ping = AclRule {
            action: AclAction::Deny.into(),
            protocol: "icmpv6".into(),
            destinations: texts(&["fd00::/64"]),
            icmp_type: Some(128),
            icmp_code: Some(0),
            ..AclRule::default()
        };
        let ospf = AclRule { protocol: "89".into(), ..permit() };
        let passed_on = AclRule { protocol: "udp".into(), action: AclAction::Next.into(), ..permit() };
        for acl in [
            list(vec![]),
            Acl {
                default_action: AclDefault::Reflect.into(),
                ..list(vec![everything, ping, ospf, passed_on, permit()])
            },
        ] {
            assert_eq!(AclSpec::parse(&acl).unwrap().to_api(), acl);
        }
        let said = Acl { default_action: AclDefault::Next.into(), ..list(vec![]) };
        assert_eq!(AclSpec::parse(&said).unwrap().to_api(), list(vec![]));
    }

    #[test]
    fn what_no_session_can_meet_is_refused_by_field() {
        let tcp = || AclRule { protocol: "tcp".into(), ..permit() };
        for (rule, field, reason) in [
            (AclRule::default(), "action", "is missing"),
            (AclRule { sources: texts(&["10.0.0.1/8"]), ..permit() }, "sources[0]", "has bits set beyond"),
            (
                AclRule { sources: texts(&["10.0.0.0/8"]), destinations: texts(&["fd00::1"]), ..permit() },
                "destinations",
                "of different families",
            ),
            (
                AclRule { sources: texts(&["10.0.0.0/8"]), protocol: "icmpv6".into(), ..permit() },
                "sources",
                "of the other family",
            ),
            (AclRule { source_except: texts(&["10.0.0.0/8"]), ..permit() }, "source_except", "in none of"),
            (AclRule { destination_ports: texts(&["80"]), ..permit() }, "destination_ports", "ports without"),
            (
                AclRule { source_ports: texts(&["80"]), protocol: "icmp".into(), ..permit() },
                "source_ports",
                "ports without",
            ),
            (AclRule { destination_ports: texts(&["90-80"]), ..tcp() }, "destination_ports[0]", "no port"),
            (
                AclRule { destination_ports: texts(&["80-90", "90"]), ..tcp() },
                "destination_ports",
                "80-90 and 90 overlap",
            ),
            (AclRule { tcp_flags: texts(&["syn"]), ..permit() }, "tcp_flags", "without TCP"),
            (AclRule { tcp_flags: texts(&["syn", "!syn"]), ..tcp() }, "tcp_flags[1]", "twice"),
            (AclRule { tcp_flags: texts(&["sin"]), ..tcp() }, "tcp_flags[0]", "no TCP flag"),
            (AclRule { icmp_type: Some(8), ..tcp() }, "icmp_type", "without ICMP"),
            (AclRule { icmp_code: Some(8), ..permit() }, "icmp_code", "the type is missing"),
            (AclRule { protocol: "carrier".into(), ..permit() }, "protocol", "no protocol"),
        ] {
            let flaw = AclSpec::parse(&list(vec![permit(), rule])).unwrap_err();
            assert_eq!(flaw.field, format!("rules[1].{field}"), "{flaw}");
            assert!(flaw.reason.contains(reason), "{flaw}");
        }
        let sets = |count: usize| (0..count).map(|number| format!("s{number}")).collect::<Vec<_>>();
        let pairs = |sources, destinations| AclRule {
            source_sets: sets(sources),
            destination_sets: sets(destinations),
            ..permit()
        };
        assert!(AclSpec::parse(&list(vec![pairs(64, 64), pairs(1024, 0)])).is_ok());
        let flaw = AclSpec::parse(&list(vec![pairs(64, 65)])).unwrap_err();
        assert_eq!(flaw.field, "rules[0].destination_sets");
        assert!(flaw.reason.contains("4160 combinations"), "{flaw}");
        let flaw = AclSpec::parse(&list(vec![pairs(64, 64); 513])).unwrap_err();
        assert_eq!(flaw.field, "rules[512]");
        let named = || AclRule { name: "one".into(), ..permit() };
        assert_eq!(AclSpec::parse(&list(vec![named(), named()])).unwrap_err().field, "rules[1].name");
    }
}
