//! Where an interface's packets go when they come in, and where they go to leave by it.

use crate::interface::{Interface, Layer2, LinkMode};
use graph::IfIndex;
use graph::arc::{Arcs, TooManyFeatures};
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::plan::{Plan, PlanError};

/// The nodes at which an interface's two arcs end. `None`: packets are dropped where the arc begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// End of `device-input`.
    pub device_input: Option<&'static str>,
    /// End of `interface-output`.
    pub interface_output: Option<&'static str>,
}

impl Ends {
    /// The ends of an interface whose kind of port has output node `port_output` (`memif-tx`), or that has no port.
    ///
    /// | interface | `device-input` ends at | `interface-output` ends at |
    /// |---|---|---|
    /// | down | – | – |
    /// | port, cross-connected | `cross-connect` | `port_output` |
    /// | port, IP mode | `l3-input` | `port_output` |
    /// | port, bridge member | `bridge-input` | `port_output` |
    /// | port, otherwise | `ip-forward`, if it is `plain`, else `ethernet-input` | `port_output` |
    /// | VLAN sub-interface | – (the parent's frames come to it) | `vlan-output` |
    /// | tunnel | as of a port, but `ethernet-input` instead of `ip-forward` | `vxlan-output`, `geneve-output` |
    /// | BVI | `ethernet-input` | `bvi-output` |
    /// | other interface without port | – | – |
    ///
    /// `plain`: features don't see all its packets on their way to the lookups. A port with sub-interfaces is always `ethernet-input`'s: its frames have to be told apart first.
    #[must_use]
    pub fn of(interface: &Interface, port_output: Option<&'static str>, plain: bool) -> Self {
        if !interface.exists || !interface.up {
            return Self::default();
        }
        if interface.vlan.is_some() {
            return Self { device_input: None, interface_output: Some("vlan-output") };
        }
        if let Layer2::Bridge { bvi: true, .. } = interface.layer2 {
            return Self { device_input: Some("ethernet-input"), interface_output: Some("bvi-output") };
        }
        let port_output = interface.tunnel.map(|tunnel| tunnel.encapsulation.output()).or(port_output);
        if port_output.is_none() {
            return Self::default();
        }
        let input = match (interface.mode, interface.layer2) {
            (LinkMode::Ethernet, _) if !interface.sub_interfaces.is_empty() => "ethernet-input",
            (_, Layer2::CrossConnect { .. }) => "cross-connect",
            (LinkMode::Ip, _) => "l3-input",
            (LinkMode::Ethernet, Layer2::Bridge { .. }) => "bridge-input",
            (LinkMode::Ethernet, Layer2::None) if interface.tunnel.is_some() || !plain => "ethernet-input",
            (LinkMode::Ethernet, Layer2::None) => "ip-forward",
        };
        Self { device_input: Some(input), interface_output: port_output }
    }

    /// Writes the interface's ways along both arcs: through these features, in the order that they have declared, to
    /// the ends.
    ///
    /// # Errors
    /// [`EndsError`]; `arcs` may then be half changed: throw it away.
    pub fn set(
        self,
        plan: &Plan,
        arcs: &mut Arcs,
        index: IfIndex,
        input_features: &[&str],
        output_features: &[&str],
    ) -> Result<(), EndsError> {
        let ways = [
            (DEVICE_INPUT, input_features, self.device_input),
            (INTERFACE_OUTPUT, output_features, self.interface_output),
        ];
        for (name, features, end) in ways {
            let number = plan.arc(name).ok_or_else(|| PlanError::UnknownArc { arc: name.into() })?;
            let chain = match end {
                Some(end) => plan.chain(name, features, end)?,
                None => Vec::new(),
            };
            arcs.set(number, index, &chain)?;
        }
        Ok(())
    }
}

/// Why an interface's way along an arc can't be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndsError {
    /// The graph has no such feature, end or arc.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are more features than a chain can hold.
    #[error(transparent)]
    TooManyFeatures(#[from] TooManyFeatures),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::VlanTags;
    use crate::tunnel::{Dscp, Encapsulation, Tunnel};
    use std::sync::Arc;

    #[test]
    fn every_kind_of_interface_has_its_ends() {
        const TX: Option<&str> = Some("memif-tx");
        let up = Interface { exists: true, up: true, ..Interface::default() };
        let ip = Interface { mode: LinkMode::Ip, ..up.clone() };
        let member = Layer2::Bridge { bridge: 1, split_horizon_group: 0, bvi: false };
        let bvi = Layer2::Bridge { bridge: 1, split_horizon_group: 0, bvi: true };
        let cross = Layer2::CrossConnect { peer: 2 };
        let tags = VlanTags { outer_type: 0x8100, outer: 5, inner: 0 };
        let trunk = Interface { sub_interfaces: Arc::new([(tags, 9)].into_iter().collect()), ..up.clone() };
        let tunnel = Tunnel {
            encapsulation: Encapsulation::Vxlan,
            local: [10, 0, 0, 1].into(),
            remote: [10, 0, 0, 2].into(),
            vni: 1,
            port: 4789,
            vrf: 0,
            ttl: 64,
            dscp: Dscp::Copied,
            checksum: false,
        };
        let vxlan = Interface { tunnel: Some(tunnel), ..up.clone() };
        let geneve = Tunnel { encapsulation: Encapsulation::Geneve, ..tunnel };
        let geneve = Interface { tunnel: Some(geneve), ..ip.clone() };
        let table = [
            (vxlan.clone(), None, Some("ethernet-input"), Some("vxlan-output")),
            (Interface { layer2: member, ..vxlan.clone() }, None, Some("bridge-input"), Some("vxlan-output")),
            (Interface { layer2: cross, ..vxlan.clone() }, None, Some("cross-connect"), Some("vxlan-output")),
            (Interface { up: false, ..vxlan }, None, None, None),
            (geneve, None, Some("l3-input"), Some("geneve-output")),
            (Interface { up: false, ..up.clone() }, TX, None, None),
            (Interface { exists: false, ..up.clone() }, TX, None, None),
            (up.clone(), TX, Some("ip-forward"), TX),
            (ip.clone(), TX, Some("l3-input"), TX),
            (Interface { layer2: cross, ..up.clone() }, TX, Some("cross-connect"), TX),
            (Interface { layer2: cross, ..ip }, TX, Some("cross-connect"), TX),
            (Interface { layer2: member, ..up.clone() }, TX, Some("bridge-input"), TX),
            (trunk.clone(), TX, Some("ethernet-input"), TX),
            (Interface { layer2: member, ..trunk.clone() }, TX, Some("ethernet-input"), TX),
            (Interface { layer2: cross, ..trunk }, TX, Some("ethernet-input"), TX),
            (Interface { layer2: bvi, ..up.clone() }, None, Some("ethernet-input"), Some("bvi-output")),
            (Interface { vlan: Some((1, tags)), ..up.clone() }, None, None, Some("vlan-output")),
            (up, None, None, None),
        ];
        for (interface, port, device_input, interface_output) in table {
            let ends = Ends { device_input, interface_output };
            assert_eq!(Ends::of(&interface, port, true), ends, "{interface:?}");
            let busy = device_input.map(|end| if end == "ip-forward" { "ethernet-input" } else { end });
            assert_eq!(
                Ends::of(&interface, port, false),
                Ends { device_input: busy, ..ends },
                "{interface:?}"
            );
        }
    }
}
