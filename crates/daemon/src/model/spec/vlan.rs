//! VLAN sub-interfaces.

use api::v1::{Vlan, VlanTag};

use crate::model::{Flaw, Name, fields};

/// A VLAN sub-interface; see [`Vlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlanSpec {
    /// Interface whose tagged packets these are.
    pub parent: Name,
    /// Ethertype of the outer tag.
    pub outer_tag: VlanTag,
    /// VLAN id of the outer tag, 1 to 4094.
    pub outer_id: u16,
    /// VLAN id of the inner tag (always 0x8100), 1 to 4094; `None`: one tag only.
    pub inner_id: Option<u16>,
}

impl VlanSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub fn parse(vlan: &Vlan) -> Result<Self, Flaw> {
        let inner_id = if vlan.inner_id == 0 { None } else { Some(id("inner_id", vlan.inner_id)?) };
        Ok(Self {
            parent: fields::name("parent", &vlan.parent)?,
            outer_tag: fields::choice("outer_tag", vlan.outer_tag, default_tag(inner_id))?,
            outer_id: id("outer_id", vlan.outer_id)?,
            inner_id,
        })
    }

    /// Bytes of its tags.
    pub const fn tag_len(&self) -> u32 {
        if self.inner_id.is_some() { 8 } else { 4 }
    }

    /// The canonical form.
    pub fn to_api(&self) -> Vlan {
        Vlan {
            parent: self.parent.to_string(),
            outer_id: self.outer_id.into(),
            inner_id: self.inner_id.unwrap_or_default().into(),
            outer_tag: if self.outer_tag == default_tag(self.inner_id) {
                VlanTag::Unspecified.into()
            } else {
                self.outer_tag.into()
            },
        }
    }
}

/// Two tags are IEEE 802.1ad outside and 802.1Q inside.
fn default_tag(inner_id: Option<u16>) -> VlanTag {
    if inner_id.is_some() { VlanTag::Dot1ad } else { VlanTag::Dot1q }
}

fn id(field: &str, value: u32) -> Result<u16, Flaw> {
    u16::try_from(value).ok().filter(|id| (1..=4094).contains(id)).ok_or_else(|| {
        Flaw::new(field, format!("{value} is no VLAN id")).remedy("take 1 to 4094 (IEEE 802.1Q §9.6)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_tag_follows_the_inner_one() {
        let one = Vlan { parent: "u".into(), outer_id: 100, ..Vlan::default() };
        let two = Vlan { inner_id: 7, ..one.clone() };
        assert_eq!(VlanSpec::parse(&one).unwrap().outer_tag, VlanTag::Dot1q);
        assert_eq!(VlanSpec::parse(&two).unwrap().outer_tag, VlanTag::Dot1ad);
        for vlan in [one, two] {
            assert_eq!(VlanSpec::parse(&vlan).unwrap().to_api(), vlan);
        }
    }

    #[test]
    fn reserved_ids_are_refused() {
        for id in [0, 4095, 70_000] {
            let vlan = Vlan { parent: "u".into(), outer_id: id, ..Vlan::default() };
            assert_eq!(VlanSpec::parse(&vlan).unwrap_err().field, "outer_id");
        }
    }
}
