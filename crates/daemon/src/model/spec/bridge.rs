//! Bridges.

use std::collections::BTreeSet;
use std::time::Duration;

use api::v1::{Bridge, StaticMac};
use features::bridge::control::MAX_AGE;

use crate::model::{Flaw, Mac, Name, fields};

const DEFAULT_AGE: Duration = Duration::from_secs(300);
const DEFAULT_LEARN_LIMIT: u32 = 65_536;
const MAX_LEARN_LIMIT: u32 = 1 << 20;

/// A bridge; see [`Bridge`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeSpec {
    /// Unique name.
    pub name: Name,
    /// Remember which member a source address came from.
    pub learn: bool,
    /// Send broadcast and multicast to all members.
    pub flood: bool,
    /// Send unicast with unknown destination to all members.
    pub flood_unknown_unicast: bool,
    /// Send unicast with known destination to its member.
    pub forward: bool,
    /// Answer for known neighbours of the BVI instead of flooding the question.
    pub arp_termination: bool,
    /// After how long an address that wasn't seen is forgotten; `None`: never.
    pub mac_age: Option<Duration>,
    /// Learned addresses at most.
    pub learn_limit: u32,
    /// Addresses learned at one member at most; `None`: a share of the limit.
    pub max_macs: Option<u32>,
    /// Fixed entries, ordered by address.
    pub static_macs: Vec<StaticMacSpec>,
}

/// A fixed entry of the address table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticMacSpec {
    /// Ethernet address.
    pub mac: Mac,
    /// What is done with frames to it.
    pub target: MacTarget,
}

/// What is done with frames to an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MacTarget {
    /// They are sent to this member.
    Member(Name),
    /// They are dropped.
    Drop,
}

impl BridgeSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(bridge: &Bridge) -> Result<Self, Flaw> {
        let mac_age = match bridge.mac_age_seconds {
            None => Some(DEFAULT_AGE),
            Some(0) => None,
            Some(seconds) => {
                Some(Duration::from_secs(fields::number("mac_age_seconds", seconds, 1..=MAX_AGE, 0)?.into()))
            }
        };
        let learn_limit = match bridge.learn_limit {
            None => DEFAULT_LEARN_LIMIT,
            Some(limit) => fields::number("learn_limit", limit, 1..=MAX_LEARN_LIMIT, 0)?,
        };
        Ok(Self {
            max_macs: max_macs("max_macs", bridge.max_macs)?,
            name: fields::name("name", &bridge.name)?,
            learn: bridge.learn.unwrap_or(true),
            flood: bridge.flood.unwrap_or(true),
            flood_unknown_unicast: bridge.flood_unknown_unicast.unwrap_or(true),
            forward: bridge.forward.unwrap_or(true),
            arp_termination: bridge.arp_termination,
            mac_age,
            learn_limit,
            static_macs: static_macs(&bridge.static_macs)?,
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Bridge {
        let unless_true = |value: bool| if value { None } else { Some(false) };
        Bridge {
            name: self.name.to_string(),
            learn: unless_true(self.learn),
            flood: unless_true(self.flood),
            flood_unknown_unicast: unless_true(self.flood_unknown_unicast),
            forward: unless_true(self.forward),
            arp_termination: self.arp_termination,
            mac_age_seconds: match self.mac_age {
                Some(DEFAULT_AGE) => None,
                Some(age) => Some(u32::try_from(age.as_secs()).unwrap_or(MAX_AGE)),
                None => Some(0),
            },
            learn_limit: (self.learn_limit != DEFAULT_LEARN_LIMIT).then_some(self.learn_limit),
            static_macs: self.static_macs.iter().map(StaticMacSpec::to_api).collect(),
            max_macs: self.max_macs,
        }
    }
}

/// A limit of the addresses that are learned at a member.
pub(super) fn max_macs(field: &'static str, limit: Option<u32>) -> Result<Option<u32>, Flaw> {
    let number = |limit| match limit {
        0 => Err(Flaw::new(field, "is 0").remedy(format!("take 1 to {MAX_LEARN_LIMIT}, or leave it out"))),
        limit => fields::number(field, limit, 1..=MAX_LEARN_LIMIT, limit),
    };
    limit.map(number).transpose()
}

impl StaticMacSpec {
    fn parse(entry: &StaticMac) -> Result<Self, Flaw> {
        let target = match (entry.interface.as_str(), entry.drop) {
            ("", true) => MacTarget::Drop,
            ("", false) => {
                return Err(
                    Flaw::new("interface", "is missing").remedy("name a member of the bridge, or set drop")
                );
            }
            (_, true) => {
                return Err(Flaw::new("drop", "contradicts interface").remedy("leave one of the two out"));
            }
            (interface, false) => MacTarget::Member(fields::name("interface", interface)?),
        };
        Ok(Self { mac: fields::station("mac", &entry.mac)?, target })
    }

    fn to_api(&self) -> StaticMac {
        StaticMac {
            mac: self.mac.to_string(),
            interface: match &self.target {
                MacTarget::Member(name) => name.to_string(),
                MacTarget::Drop => String::new(),
            },
            drop: self.target == MacTarget::Drop,
        }
    }
}

fn static_macs(entries: &[StaticMac]) -> Result<Vec<StaticMacSpec>, Flaw> {
    let mut seen = BTreeSet::new();
    let mut macs = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let inside = format!("static_macs[{index}]");
        let spec = StaticMacSpec::parse(entry).map_err(|flaw| flaw.inside(&inside))?;
        if !seen.insert(spec.mac) {
            return Err(
                Flaw::new("static_macs", format!("{} appears twice", spec.mac)).remedy("leave one out")
            );
        }
        macs.push(spec);
    }
    macs.sort();
    Ok(macs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_enough() {
        let api = Bridge { name: "lan".into(), ..Bridge::default() };
        let spec = BridgeSpec::parse(&api).unwrap();
        assert!(spec.learn && spec.flood && spec.flood_unknown_unicast && spec.forward);
        assert_eq!(spec.mac_age, Some(DEFAULT_AGE));
        assert_eq!(spec.to_api(), api);
    }

    #[test]
    fn zero_seconds_means_never() {
        let api =
            Bridge { name: "lan".into(), mac_age_seconds: Some(0), learn: Some(false), ..Bridge::default() };
        let spec = BridgeSpec::parse(&api).unwrap();
        assert_eq!(spec.mac_age, None);
        assert_eq!(spec.to_api(), api);
    }

    #[test]
    fn a_limit_of_members_is_kept() {
        let api = Bridge { name: "lan".into(), max_macs: Some(100), ..Bridge::default() };
        assert_eq!(BridgeSpec::parse(&api).unwrap().to_api(), api);
        for limit in [0, MAX_LEARN_LIMIT + 1] {
            let api = Bridge { max_macs: Some(limit), ..api.clone() };
            assert_eq!(BridgeSpec::parse(&api).unwrap_err().field, "max_macs");
        }
    }

    #[test]
    fn static_entries_are_checked_one_by_one() {
        let entry = |mac: &str, interface: &str, drop| StaticMac {
            mac: mac.into(),
            interface: interface.into(),
            drop,
        };
        for (entries, field) in [
            (vec![entry("02:00:00:00:00:01", "", false)], "static_macs[0].interface"),
            (vec![entry("02:00:00:00:00:01", "a", true)], "static_macs[0].drop"),
            (vec![entry("03:00:00:00:00:01", "a", false)], "static_macs[0].mac"),
            (
                vec![entry("02:00:00:00:00:01", "a", false), entry("02:00:00:00:00:01", "b", false)],
                "static_macs",
            ),
        ] {
            let api = Bridge { name: "lan".into(), static_macs: entries, ..Bridge::default() };
            assert_eq!(BridgeSpec::parse(&api).unwrap_err().field, field);
        }
    }
}
