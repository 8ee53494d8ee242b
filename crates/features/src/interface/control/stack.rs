//! What is stacked on what.

use crate::interface::{Interface, Interfaces, Layer2, LinkMode, VlanTags};
use graph::IfIndex;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{EtherType, Tci};

/// Why interfaces can't be stacked as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The interface below isn't there.
    #[error("vlan {name}: its parent, interface {parent}, doesn't exist: create it first")]
    NoParent {
        /// The sub-interface.
        name: Arc<str>,
        /// Index of the parent.
        parent: IfIndex,
    },
    /// The interface below is itself a sub-interface.
    #[error(
        "vlan {name}: its parent {parent} is a vlan itself: give outer and inner id on one sub-interface instead"
    )]
    Nested {
        /// The sub-interface.
        name: Arc<str>,
        /// The parent.
        parent: Arc<str>,
    },
    /// The interface below carries no Ethernet frames.
    #[error("vlan {name}: its parent {parent} is in IP mode and carries no tags: use an Ethernet interface")]
    NoEthernet {
        /// The sub-interface.
        name: Arc<str>,
        /// The parent.
        parent: Arc<str>,
    },
    /// An id or ethertype that can't be on the wire.
    #[error(
        "vlan {name}: tags {outer_type:#06x} {outer}.{inner} can't be: ids are 1 to 4094, types 0x8100 and 0x88a8"
    )]
    BadTags {
        /// The sub-interface.
        name: Arc<str>,
        /// Ethertype of the outer tag.
        outer_type: u16,
        /// Outer id.
        outer: u16,
        /// Inner id.
        inner: u16,
    },
    /// Two sub-interfaces of one parent have the same tags.
    #[error("vlan {name} has the same parent and tags as {other}: change one of them")]
    SameTags {
        /// The sub-interface.
        name: Arc<str>,
        /// The other one.
        other: Arc<str>,
    },
    /// A bridge member without Ethernet header.
    #[error("interface {name} is in IP mode and can't be a member of a bridge: use an Ethernet interface")]
    BridgedIp {
        /// The interface.
        name: Arc<str>,
    },
    /// Two interfaces that don't name each other.
    #[error(
        "interface {name} is cross-connected to interface {peer}, which isn't to it: both have to name each other"
    )]
    OneSided {
        /// The interface.
        name: Arc<str>,
        /// Index of the other one.
        peer: IfIndex,
    },
    /// One side has an Ethernet header, the other not.
    #[error(
        "interfaces {name} and {peer} can't be cross-connected: one carries Ethernet frames, the other IP packets"
    )]
    MixedModes {
        /// One side.
        name: Arc<str>,
        /// The other one.
        peer: Arc<str>,
    },
}

/// Checks what is stacked and joined, and gives each interface the list of its sub-interfaces.
///
/// # Errors
/// [`StackError`], and nothing is changed.
pub fn stack(interfaces: &mut Interfaces) -> Result<(), StackError> {
    let mut stacked: BTreeMap<IfIndex, Vec<(VlanTags, IfIndex)>> = BTreeMap::new();
    for (index, interface) in interfaces.iter() {
        joined(interfaces, index, interface)?;
        let Some((parent, tags)) = interface.vlan else { continue };
        check_vlan(interfaces, interface, parent, tags)?;
        let list = stacked.entry(parent).or_default();
        if let Some((_, other)) = list.iter().find(|entry| entry.0 == tags) {
            let other = Arc::clone(&interfaces.get(*other).name);
            return Err(StackError::SameTags { name: Arc::clone(&interface.name), other });
        }
        list.push((tags, index));
    }
    let mut changed = Vec::new();
    for (index, interface) in interfaces.iter() {
        let list = stacked.remove(&index).unwrap_or_default().into_iter().collect();
        if *interface.sub_interfaces != list {
            changed.push((index, Interface { sub_interfaces: Arc::new(list), ..interface.clone() }));
        }
    }
    for (index, interface) in changed {
        interfaces.set(index, Some(interface));
    }
    Ok(())
}

fn check_vlan(
    interfaces: &Interfaces,
    interface: &Interface,
    parent: IfIndex,
    tags: VlanTags,
) -> Result<(), StackError> {
    let name = Arc::clone(&interface.name);
    let below = interfaces.get(parent);
    if !below.exists {
        return Err(StackError::NoParent { name, parent });
    }
    if below.vlan.is_some() {
        return Err(StackError::Nested { name, parent: Arc::clone(&below.name) });
    }
    if below.mode == LinkMode::Ip {
        return Err(StackError::NoEthernet { name, parent: Arc::clone(&below.name) });
    }
    let VlanTags { outer_type, outer, inner } = tags;
    if !(1..=Tci::MAX_ID).contains(&outer) || inner > Tci::MAX_ID || !EtherType::new(outer_type).is_vlan() {
        return Err(StackError::BadTags { name, outer_type, outer, inner });
    }
    Ok(())
}

/// Checks an interface's bridge membership or cross-connect.
fn joined(interfaces: &Interfaces, index: IfIndex, interface: &Interface) -> Result<(), StackError> {
    let name = || Arc::clone(&interface.name);
    match interface.layer2 {
        Layer2::None => Ok(()),
        Layer2::Bridge { .. } if interface.mode == LinkMode::Ip => {
            Err(StackError::BridgedIp { name: name() })
        }
        Layer2::Bridge { .. } => Ok(()),
        Layer2::CrossConnect { peer } => {
            let other = interfaces.get(peer);
            if peer == index || !other.exists || other.layer2 != (Layer2::CrossConnect { peer: index }) {
                Err(StackError::OneSided { name: name(), peer })
            } else if other.mode != interface.mode {
                Err(StackError::MixedModes { name: name(), peer: Arc::clone(&other.name) })
            } else {
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> Interface {
        Interface { exists: true, up: true, name: name.into(), ..Interface::default() }
    }

    fn vlan(name: &str, parent: IfIndex, outer_type: u16, outer: u16, inner: u16) -> Interface {
        Interface { vlan: Some((parent, VlanTags { outer_type, outer, inner })), ..port(name) }
    }

    fn table(list: impl IntoIterator<Item = Interface>) -> Interfaces {
        let mut table = Interfaces::default();
        for (at, interface) in list.into_iter().enumerate() {
            table.set(at as IfIndex + 1, Some(interface));
        }
        table
    }

    #[test]
    fn parents_learn_their_sub_interfaces_and_forget_them() {
        let mut interfaces = table([port("a"), vlan("a.5", 1, 0x8100, 5, 0), vlan("a.5.6", 1, 0x88a8, 5, 6)]);
        stack(&mut interfaces).unwrap();
        let subs = Arc::clone(&interfaces.get(1).sub_interfaces);
        assert_eq!(subs.get(VlanTags { outer_type: 0x8100, outer: 5, inner: 0 }), Some(2));
        assert_eq!(subs.get(VlanTags { outer_type: 0x88a8, outer: 5, inner: 6 }), Some(3));
        interfaces.set(2, None);
        stack(&mut interfaces).unwrap();
        assert_eq!(interfaces.get(1).sub_interfaces.len(), 1);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let ip = |name| Interface { mode: LinkMode::Ip, ..port(name) };
        let cross = |interface, peer| Interface { layer2: Layer2::CrossConnect { peer }, ..interface };
        let member = Layer2::Bridge { bridge: 1, split_horizon_group: 0, bvi: false };
        let cases = [
            (vec![vlan("v", 7, 0x8100, 5, 0)], "vlan v: its parent, interface 7,"),
            (
                vec![port("a"), vlan("v", 1, 0x8100, 5, 0), vlan("w", 2, 0x8100, 6, 0)],
                "w: its parent v is a vlan",
            ),
            (vec![ip("a"), vlan("v", 1, 0x8100, 5, 0)], "its parent a is in IP mode"),
            (vec![port("a"), vlan("v", 1, 0x8100, 0, 0)], "0x8100 0.0 can't be"),
            (vec![port("a"), vlan("v", 1, 0x8100, 4095, 0)], "4095.0 can't be"),
            (vec![port("a"), vlan("v", 1, 0x88a8, 5, 4095)], "5.4095 can't be"),
            (vec![port("a"), vlan("v", 1, 0x0800, 5, 0)], "0x0800 5.0 can't be"),
            (
                vec![port("a"), vlan("v", 1, 0x8100, 5, 0), vlan("w", 1, 0x8100, 5, 0)],
                "w has the same parent",
            ),
            (vec![Interface { layer2: member, ..ip("a") }], "a is in IP mode and can't be a member"),
            (vec![cross(port("a"), 1)], "a is cross-connected to interface 1"),
            (vec![cross(port("a"), 2), port("b")], "both have to name each other"),
            (vec![cross(port("a"), 3)], "both have to name each other"),
            (vec![cross(port("a"), 2), cross(ip("b"), 1)], "a and b can't be cross-connected"),
        ];
        for (list, expected) in cases {
            let mut interfaces = table(list);
            let text = stack(&mut interfaces).unwrap_err().to_string();
            assert!(text.contains(expected), "{text:?} should say {expected:?}");
        }
        let mut fine =
            table([cross(port("a"), 2), cross(port("b"), 1), cross(ip("c"), 4), cross(ip("d"), 3)]);
        assert_eq!(stack(&mut fine), Ok(()));
    }
}
