//! Static neighbours.

use api::v1::Neighbor;

use crate::model::{Flaw, Mac, NeighborKey, fields};

/// A static neighbour; see [`Neighbor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighborSpec {
    /// Interface and address.
    pub key: NeighborKey,
    /// Its Ethernet address.
    pub mac: Mac,
}

impl NeighborSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(neighbor: &Neighbor) -> Result<Self, Flaw> {
        let interface = fields::name("interface", &neighbor.interface)?;
        let address = fields::address("address", &neighbor.address)?;
        if address.is_multicast() || address.is_unspecified() {
            return Err(Flaw::new("address", format!("{address} can't be a neighbour's")));
        }
        Ok(Self { key: NeighborKey { interface, address }, mac: fields::station("mac", &neighbor.mac)? })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Neighbor {
        Neighbor {
            interface: self.key.interface.to_string(),
            address: self.key.address.to_string(),
            mac: self.mac.to_string(),
        }
    }
}
