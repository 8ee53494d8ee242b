//! Sets of addresses.

use std::net::IpAddr;
use std::sync::Arc;

use api::v1::AddressSet;
use features::session::acl::control::differences;
use ipnet::IpNet;
use tables::classifier::Prefix;

use crate::model::{Flaw, Name, fields};

/// Far more than anybody has, and few enough to be counted.
const MAX_MEMBERS: usize = 4_000_000;

/// A set of addresses; see [`AddressSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSetSpec {
    /// Unique name.
    pub name: Name,
    /// Its members, ascending.
    pub members: Arc<[Prefix]>,
}

/// A set as a batch has it: all of its members, or what changes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSetDelta {
    /// The set, with the members that are said.
    pub spec: Arc<AddressSetSpec>,
    add: Vec<Prefix>,
    remove: Vec<Prefix>,
}

impl AddressSetSpec {
    /// The canonical form.
    pub fn to_api(&self) -> AddressSet {
        AddressSet {
            name: self.name.to_string(),
            members: self.members.iter().map(|member| text(*member)).collect(),
            ..AddressSet::default()
        }
    }

    /// How many members come or go since `before`.
    pub fn changes_since(&self, before: &Self) -> usize {
        differences(&before.members, &self.members).iter().map(Vec::len).sum()
    }

    /// What changes since `before`, where that says less than all of the members do.
    pub fn since(&self, before: &Self) -> Option<AddressSet> {
        let [gone, new] = differences(&before.members, &self.members);
        let less = (gone.len() + new.len()) * 2 < self.members.len();
        let texts = |prefixes: Vec<Prefix>| prefixes.into_iter().map(text).collect();
        less.then(|| AddressSet {
            name: self.name.to_string(),
            add: texts(new),
            remove: texts(gone),
            ..AddressSet::default()
        })
    }
}

impl AddressSetDelta {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(set: &AddressSet) -> Result<Self, Flaw> {
        let members = prefixes("members", &set.members)?;
        let (add, remove) = (prefixes("add", &set.add)?, prefixes("remove", &set.remove)?);
        if !(members.is_empty() || add.is_empty() && remove.is_empty()) {
            return Err(Flaw::new("add", "stands in place of members, not beside them")
                .remedy("say either all members, or those that come and go"));
        }
        if let Some(both) = add.iter().find(|member| remove.binary_search(member).is_ok()) {
            return Err(Flaw::new("remove", format!("{} is one of those to add", text(*both)))
                .remedy("leave it out of one of the two"));
        }
        let spec = AddressSetSpec { name: fields::name("name", &set.name)?, members: members.into() };
        Ok(Self { spec: Arc::new(spec), add, remove })
    }

    /// What the set is after the batch, by what it was.
    pub fn after(&self, before: Option<&Arc<AddressSetSpec>>) -> Arc<AddressSetSpec> {
        let Some(before) = before.filter(|_| !(self.add.is_empty() && self.remove.is_empty())) else {
            if self.add.is_empty() {
                return Arc::clone(&self.spec);
            }
            let members = self.add.clone().into();
            return Arc::new(AddressSetSpec { members, name: self.spec.name.clone() });
        };
        let stays = |member: &&Prefix| {
            self.remove.binary_search(member).is_err() && self.add.binary_search(member).is_err()
        };
        let mut members: Vec<Prefix> = before.members.iter().filter(stays).copied().collect();
        members.extend(&self.add);
        // Two ascending lists, one after the other.
        members.sort();
        Arc::new(AddressSetSpec { members: members.into(), name: self.spec.name.clone() })
    }
}

/// An address, where all of its bits matter, or a prefix.
pub(super) fn text((address, length): Prefix) -> String {
    let whole = if address.is_ipv4() { 32 } else { 128 };
    if length == whole { address.to_string() } else { format!("{address}/{length}") }
}

/// Prefixes and addresses in ascending order, none twice.
///
/// # Errors
/// [`Flaw`] naming the element.
pub(super) fn prefixes(field: &str, texts: &[String]) -> Result<Vec<Prefix>, Flaw> {
    if texts.len() > MAX_MEMBERS {
        let flaw = Flaw::new(field, format!("{} are too many", texts.len()));
        return Err(flaw.remedy(format!("take {MAX_MEMBERS} at most")));
    }
    let mut all = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => fields::network(&format!("{field}[{index}]"), text)?,
        };
        all.push((network.addr(), network.prefix_len()));
    }
    all.sort_unstable();
    if let Some([one, _]) = all.array_windows().find(|[one, other]| one == other) {
        return Err(Flaw::new(field, format!("{} appears twice", text(*one))).remedy("leave one out"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[&str], add: &[&str], remove: &[&str]) -> AddressSet {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        AddressSet { name: "pods".into(), members: texts(members), add: texts(add), remove: texts(remove) }
    }

    fn members(spec: &AddressSetSpec) -> Vec<String> {
        spec.to_api().members
    }

    #[test]
    fn members_are_ordered_and_addresses_are_written_without_length() {
        let said = set(&["fd00::1/128", "10.1.0.0/16", "10.0.0.2", "fd00::/64"], &[], &[]);
        let parsed = AddressSetDelta::parse(&said).unwrap();
        assert_eq!(members(&parsed.spec), ["10.0.0.2", "10.1.0.0/16", "fd00::/64", "fd00::1"]);
        let again = AddressSetDelta::parse(&parsed.spec.to_api()).unwrap();
        assert_eq!(again, parsed);
    }

    #[test]
    fn members_come_and_go_without_the_others_being_said() {
        let of = |set: &AddressSet, before: Option<&Arc<AddressSetSpec>>| {
            AddressSetDelta::parse(set).unwrap().after(before)
        };
        let first = of(&set(&[], &["10.0.0.2", "10.0.0.1"], &["10.0.0.9"]), None);
        assert_eq!(members(&first), ["10.0.0.1", "10.0.0.2"]);
        let second = of(&set(&[], &["10.0.0.3", "10.0.0.2"], &["10.0.0.1", "10.0.0.9"]), Some(&first));
        assert_eq!(members(&second), ["10.0.0.2", "10.0.0.3"]);
        assert_eq!(members(&of(&set(&["10.0.0.7"], &[], &[]), Some(&second))), ["10.0.0.7"]);
        assert_eq!(members(&of(&set(&[], &[], &[]), Some(&second))), [""; 0]);
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        for (said, field) in [
            (set(&["10.0.0.1/8"], &[], &[]), "members[0]"),
            (set(&["pod"], &[], &[]), "members[0]"),
            (set(&["10.0.0.1", "10.0.0.1/32"], &[], &[]), "members"),
            (set(&["10.0.0.1"], &["10.0.0.2"], &[]), "add"),
            (set(&[], &["10.0.0.2"], &["10.0.0.2"]), "remove"),
        ] {
            assert_eq!(AddressSetDelta::parse(&said).unwrap_err().field, field);
        }
    }
}
