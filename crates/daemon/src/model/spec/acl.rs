//! Lists of rules.

use std::collections::HashSet;
use std::sync::Arc;

use api::v1::{Acl, AclAction, AclDefault};
use features::session::acl::Action;
use features::session::acl::control::{AclConfig, RuleConfig, Side};

use super::acl_rule::{api_rule, rule};
use crate::model::{Flaw, Name, fields};

/// Rules of a list at most: what numbers of counters and a message can hold.
const MAX_RULES: usize = 1_000_000;
/// The same of a list.
const MAX_PAIRS_OF_LIST: usize = 1 << 21;

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
pub(super) fn pairs_of(rule: &RuleConfig) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::AclRule;

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
        let ipsec = AclRule { protocol: "esp".into(), ..permit() };
        let passed_on = AclRule { protocol: "udp".into(), action: AclAction::Next.into(), ..permit() };
        for acl in [
            list(vec![]),
            Acl {
                default_action: AclDefault::Reflect.into(),
                ..list(vec![everything, ping, ipsec, passed_on, permit()])
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
            (AclRule { protocol: "47".into(), ..permit() }, "protocol", "protocol 47 has no sessions"),
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
