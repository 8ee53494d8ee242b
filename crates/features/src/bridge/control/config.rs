//! From a bridge's configuration to what workers see.

use super::addresses::{Allowed, Place, forget};
use crate::bridge::table::{BLOCKED, Bridge, Member, Moves};
use crate::interface::{Interfaces, Layer2};
use graph::IfIndex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::mac::{MacKey, MacTable};
use wire::MacAddr;

/// Longest time that an address can be remembered, in seconds (the address table's clock goes round).
pub const MAX_AGE: u32 = 32_766;

/// A bridge as configured. Its members are the interfaces that say so ([`Layer2::Bridge`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Remember which member a source address came from.
    pub learn: bool,
    /// Send broadcast and multicast to all members.
    pub flood: bool,
    /// Send unicast with unknown destination to all members.
    pub flood_unknown_unicast: bool,
    /// Send unicast with known destination to its member.
    pub forward: bool,
    /// Answer ARP requests and neighbour solicitations for known neighbours of the BVI instead of flooding them. Without
    /// a BVI it changes nothing.
    pub arp_termination: bool,
    /// Seconds after which a learned address that wasn't seen is forgotten, at most 32 766; 0: never.
    pub mac_age: u32,
    /// Learned addresses at most.
    pub learn_limit: u32,
    /// Addresses learned at one member at most; `None`: the [`default_share`] of the limit.
    pub max_macs: Option<u32>,
    /// Members for which that is another number.
    pub members_max_macs: BTreeMap<IfIndex, u32>,
    /// Addresses that are neither learned nor forgotten.
    pub static_macs: Vec<StaticMac>,
    /// Counts addresses that move, through all versions of the bridge.
    pub moves: Moves,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        Self {
            name: Arc::from(""),
            learn: true,
            flood: true,
            flood_unknown_unicast: true,
            forward: true,
            arp_termination: false,
            mac_age: 300,
            learn_limit: 65_536,
            max_macs: None,
            members_max_macs: BTreeMap::new(),
            static_macs: Vec::new(),
            moves: Moves::default(),
        }
    }
}

/// Addresses that one of so many members of a bridge may have by default: an equal share of the bridge's limit, from an eighth to half of it; at
/// least 16, but no more than half. So one member leaves room for others whatever the limit is.
#[must_use]
pub fn default_share(learn_limit: u32, members: usize) -> u32 {
    let members = members.clamp(2, 8) as u32;
    (learn_limit / members).max(16.min(learn_limit / 2)).max(1)
}

/// A fixed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticMac {
    /// The address.
    pub mac: MacAddr,
    /// Where it is.
    pub place: Place,
}

/// Why a bridge can't be as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// Number 0 stands for no bridge.
    #[error("bridge {name}: number 0 can't be used: choose another")]
    Zero {
        /// The bridge.
        name: Arc<str>,
    },
    /// There can be one routed leg.
    #[error("bridge {name}: {first} and {second} are both its BVI: leave one")]
    TwoBvis {
        /// The bridge.
        name: Arc<str>,
        /// One of the interfaces.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
    /// No station can have such an address.
    #[error("bridge {name}: {mac} is a group or zero and can't be a station's address: correct static_macs")]
    NoStation {
        /// The bridge.
        name: Arc<str>,
        /// The address.
        mac: MacAddr,
    },
    /// The address is there twice; the BVI's counts, too.
    #[error(
        "bridge {name}: {mac} is there twice (the BVI's own address counts): remove one from static_macs"
    )]
    Twice {
        /// The bridge.
        name: Arc<str>,
        /// The address.
        mac: MacAddr,
    },
    /// A fixed address at an interface outside.
    #[error(
        "bridge {name}: {mac} can't be at interface {interface}, which is no member: add it, or correct static_macs"
    )]
    NoMember {
        /// The bridge.
        name: Arc<str>,
        /// The address.
        mac: MacAddr,
        /// Index of the interface.
        interface: IfIndex,
    },
    /// Longer than the address table can tell.
    #[error("bridge {name}: mac_age {seconds} s is too long: at most {MAX_AGE}, or 0 for never")]
    Age {
        /// The bridge.
        name: Arc<str>,
        /// The time.
        seconds: u32,
    },
}

impl BridgeConfig {
    /// The bridge as workers see it under `number`.
    ///
    /// # Errors
    /// [`BridgeError`] names what contradicts what.
    pub fn build(&self, number: u16, interfaces: &Interfaces) -> Result<Bridge, BridgeError> {
        let name = || Arc::clone(&self.name);
        if number == 0 {
            return Err(BridgeError::Zero { name: name() });
        }
        if self.mac_age > MAX_AGE {
            return Err(BridgeError::Age { name: name(), seconds: self.mac_age });
        }
        let members: Arc<[Member]> = members(number, interfaces).map(|(member, _)| member).collect();
        let bvis: Vec<IfIndex> = bvis(number, interfaces).collect();
        if let [first, second, ..] = bvis[..] {
            let [first, second] = [first, second].map(|index| Arc::clone(&interfaces.get(index).name));
            return Err(BridgeError::TwoBvis { name: name(), first, second });
        }
        let bvi = bvis.first().copied().unwrap_or(0);
        let fixed = self.fixed(number, interfaces);
        for (at, (mac, place)) in fixed.iter().enumerate() {
            if !mac.is_unicast() {
                return Err(BridgeError::NoStation { name: name(), mac: *mac });
            }
            if fixed.iter().take(at).any(|earlier| earlier.0 == *mac) {
                return Err(BridgeError::Twice { name: name(), mac: *mac });
            }
            if let Place::Interface(interface) = *place
                && !members.iter().any(|member| member.interface == interface)
            {
                return Err(BridgeError::NoMember { name: name(), mac: *mac, interface });
            }
        }
        Ok(Bridge {
            exists: true,
            learn: self.learn,
            flood: self.flood,
            flood_unknown_unicast: self.flood_unknown_unicast,
            forward: self.forward,
            answer: self.arp_termination && bvi != 0,
            bvi,
            members,
            mac_age: self.mac_age as u16,
            name: name(),
            moves: self.moves.clone(),
        })
    }

    /// Removes all addresses of a bridge that is no more, and its limit. To be called after it was removed from the
    /// published tables.
    pub fn remove_addresses(macs: &MacTable, number: u16) {
        forget(macs, number, None, true);
        macs.set_limit(number, None);
    }

    /// What the address table may have of it.
    pub(super) fn allowed(&self, number: u16, interfaces: &Interfaces) -> Allowed {
        let fixed: Vec<(MacKey, u32)> = self
            .fixed(number, interfaces)
            .iter()
            .map(|(mac, place)| (MacKey::new(number, mac.0), place.number()))
            .collect();
        let learning =
            || members(number, interfaces).filter(|(_, bvi)| !bvi).map(|(member, _)| member.interface);
        let count = learning().count();
        let with_limit = |interface| (u32::from(interface), self.max_macs_of(interface, count));
        Allowed {
            // The table counts fixed addresses, too.
            limit: self.learn_limit.saturating_add(fixed.len() as u32),
            learned_at: learning().filter(|_| self.learn).map(with_limit).collect(),
            fixed,
        }
    }

    /// Addresses that may be learned at one of so many members.
    #[must_use]
    pub fn max_macs_of(&self, interface: IfIndex, members: usize) -> u32 {
        let own = self.members_max_macs.get(&interface).copied();
        own.or(self.max_macs).unwrap_or(default_share(self.learn_limit, members))
    }

    /// Configured addresses and those of the BVI.
    fn fixed(&self, number: u16, interfaces: &Interfaces) -> Vec<(MacAddr, Place)> {
        let bvis = bvis(number, interfaces).map(|bvi| (interfaces.get(bvi).mac, Place::Interface(bvi)));
        bvis.chain(self.static_macs.iter().map(|fixed| (fixed.mac, fixed.place))).collect()
    }
}

/// The members of a bridge, and whether each is the BVI.
fn members(number: u16, interfaces: &Interfaces) -> impl Iterator<Item = (Member, bool)> {
    interfaces.iter().filter_map(move |(interface, entry)| match entry.layer2 {
        Layer2::Bridge { bridge, split_horizon_group, bvi } if bridge == number => {
            Some((Member { interface, split_horizon_group }, bvi))
        }
        _ => None,
    })
}

fn bvis(number: u16, interfaces: &Interfaces) -> impl Iterator<Item = IfIndex> {
    members(number, interfaces).filter(|(_, bvi)| *bvi).map(|(member, _)| member.interface)
}

impl Place {
    /// As the address table has it.
    fn number(self) -> u32 {
        match self {
            Self::Interface(interface) => u32::from(interface),
            Self::Blocked => BLOCKED,
        }
    }
}
