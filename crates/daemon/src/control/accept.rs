//! What versions before have accepted, and this one doesn't: put right at start, so that no object is left out for it.

use std::collections::BTreeSet;

use api::v1::Config;
use features::bridge::control::MAX_AGE;

use crate::model::spec::{InterfaceSpec, L2, protocol, protocol_of_sessions};

/// Puts right what can be without anything else being done than was; says what, for the log.
pub(super) fn put_right(config: &mut Config) -> Vec<String> {
    let mut said = Vec::new();
    for bridge in &mut config.bridges {
        if let Some(age) = bridge.mac_age_seconds.filter(|age| *age > MAX_AGE) {
            bridge.mac_age_seconds = Some(MAX_AGE);
            said.push(format!("bridge {}: mac_age_seconds {age} is now {MAX_AGE}, the longest", bridge.name));
        }
    }
    for leg in &config.interfaces {
        // Why another one isn't accepted is said where all are judged.
        let Ok(spec) = InterfaceSpec::parse(leg) else { continue };
        let Some(L2::Bridge { name, bvi: true, .. }) = &spec.l2 else { continue };
        let own = spec.own_mac().to_string();
        let same = |mac: &str| mac.eq_ignore_ascii_case(&own);
        for bridge in config.bridges.iter_mut().filter(|bridge| bridge.name == name.to_string()) {
            if bridge.static_macs.iter().any(|entry| same(&entry.mac)) {
                bridge.static_macs.retain(|entry| !same(&entry.mac));
                said.push(format!(
                    "bridge {name}: {own} is the address of its leg, and not among static_macs any more"
                ));
            }
        }
    }
    for acl in &mut config.acls {
        acl.rules.retain(|rule| {
            let is_met =
                protocol("", &rule.protocol).is_err() || protocol_of_sessions("", &rule.protocol).is_ok();
            if !is_met {
                said.push(format!(
                    "acl {}: its rule for protocol {} is gone, which no session could meet",
                    acl.name, rule.protocol
                ));
            }
            is_met
        });
    }
    let engines = config.tenants.iter().flat_map(|tenant| &tenant.redirect);
    let engines: BTreeSet<String> = engines.flat_map(|engine| engine.interfaces.iter().cloned()).collect();
    for interface in config.interfaces.iter_mut().filter(|interface| engines.contains(&interface.name)) {
        if !interface.addresses.is_empty() {
            let addresses = std::mem::take(&mut interface.addresses).join(", ");
            said.push(format!(
                "interface {} leads to an engine and has {addresses} no longer",
                interface.name
            ));
        }
    }
    said
}
