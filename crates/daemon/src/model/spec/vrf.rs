//! Virtual routing tables.

use api::v1::Vrf;

use crate::model::{Flaw, Name, fields};

/// A virtual routing table pair; see [`Vrf`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VrfSpec {
    /// Unique name.
    pub name: Name,
    /// Number for tools that know tables by number.
    pub id: Option<u32>,
    /// Both directions of a flow take the same of several equal ways.
    pub symmetric_flow_hash: bool,
}

impl VrfSpec {
    /// A VRF of that name with all defaults.
    pub fn new(name: Name) -> Self {
        Self { name, id: None, symmetric_flow_hash: false }
    }

    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(vrf: &Vrf) -> Result<Self, Flaw> {
        Ok(Self {
            name: fields::name("name", &vrf.name)?,
            id: vrf.id,
            symmetric_flow_hash: vrf.symmetric_flow_hash,
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Vrf {
        Vrf { name: self.name.to_string(), id: self.id, symmetric_flow_hash: self.symmetric_flow_hash }
    }
}
