//! Interfaces between two configurations.

use api::v1::ReversePathFilter;

use crate::model::Name;
use crate::model::spec::InterfaceSpec;

impl InterfaceSpec {
    /// The interface just after it was created and just before it is destroyed: down, not bridged, without addresses.
    #[must_use]
    pub fn bare(&self) -> Self {
        Self {
            admin_up: false,
            fault: None,
            l2: None,
            vrf: Name::default_vrf(),
            addresses: Vec::new(),
            rpf: ReversePathFilter::Off,
            proxy_arp: Vec::new(),
            allowed_sources: Vec::new(),
            policer: None,
            ..self.clone()
        }
    }

    /// The interface without what it won't have: addresses, VRF, bridge and cross-connect that `after` has not.
    ///
    /// Every interface gives away first what another may take in the same plan; so an address can move between two
    /// interfaces, and no state in between has it twice.
    #[must_use]
    pub fn stripped(&self, after: Option<&Self>) -> Self {
        let same_vrf = after.is_some_and(|after| after.vrf == self.vrf);
        let same_l2 = after.is_some_and(|after| after.l2 == self.l2);
        let addresses = match after {
            Some(after) if same_vrf => {
                self.addresses.iter().filter(|address| after.addresses.contains(address)).copied().collect()
            }
            _ => Vec::new(),
        };
        Self {
            l2: if same_l2 { self.l2.clone() } else { None },
            vrf: if same_vrf { self.vrf.clone() } else { Name::default_vrf() },
            addresses,
            ..self.clone()
        }
    }
}
