//! Interfaces of engines.

use std::collections::BTreeMap;

use super::Conflicts;
use crate::model::spec::{InterfaceSpec, PortSpec};
use crate::model::{Flaw, Key, Name};

impl Conflicts<'_> {
    /// An engine's interfaces are there for one tenant's sessions and for nothing else.
    pub(super) fn redirects(&mut self) {
        let mut owners = BTreeMap::<&Name, &Name>::new();
        for (name, stored) in &self.model.tenants {
            for interface in stored.spec.engine_interfaces() {
                if let Some(other) = owners.insert(interface, name) {
                    self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                        Flaw::new(
                            "redirect.interfaces",
                            format!("{interface} leads to {other}'s engine already"),
                        )
                        .remedy("give each tenant's engine interfaces of its own")
                    });
                }
            }
        }
        for (name, stored) in &self.model.tenants {
            for interface in stored.spec.all_interfaces() {
                let Some(other) = owners.get(interface) else { continue };
                let (user, owner) = (Key::Tenant(name.clone()), Key::Tenant((*other).clone()));
                let says = user.clone();
                self.blame(user, owner, |other| {
                    let field = if *other == says { "redirect.interfaces" } else { "interfaces" };
                    Flaw::new(
                        field,
                        format!("{interface} leads to an engine, and sessions begin or go out there"),
                    )
                    .remedy("take interfaces for the engine that are nobody else's")
                });
            }
        }
        for (interface, tenant) in owners {
            let Some(stored) = self.model.interfaces.get(interface) else { continue };
            let Some((field, reason, remedy)) = unfit(&stored.spec) else { continue };
            let key = Key::Interface(interface.clone());
            self.blame(Key::Tenant(tenant.clone()), key.clone(), |other| {
                let field = if *other == key { "redirect.interfaces" } else { field };
                Flaw::new(field, format!("{interface}, which leads to an engine, {reason}")).remedy(remedy)
            });
        }
    }
}

/// Why no engine can be behind an interface, if none can: field, reason, remedy.
fn unfit(spec: &InterfaceSpec) -> Option<(&'static str, &'static str, &'static str)> {
    match &spec.port {
        _ if spec.l2.is_some() => {
            Some(("bridge", "is bridged or cross-connected", "leave bridge and cross_connect out"))
        }
        PortSpec::Loopback => Some(("loopback", "is a loopback", "take a tap or a memif")),
        port if !port.is_ethernet() => {
            Some(("mode", "has no Ethernet header", "set its mode to ethernet or tap"))
        }
        _ if !spec.addresses.is_empty() => Some(("addresses", "has addresses", "leave them out")),
        _ => None,
    }
}
