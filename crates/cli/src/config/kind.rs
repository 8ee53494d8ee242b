//! How people name kinds of objects.

use std::net::IpAddr;

use api::names::DEFAULT_VRF;
use api::text::Words;
use api::v1::{Kind, ObjectRef};

/// A kind with the words that stand for it, the first of which is the usual one.
const WORDS: [(Kind, &[&str]); 12] = [
    (Kind::Vrf, &["vrf", "vrfs"]),
    (Kind::Bridge, &["bridge", "bridges", "br"]),
    (Kind::Interface, &["interface", "interfaces", "if", "int", "iface"]),
    (Kind::Route, &["route", "routes", "rt"]),
    (Kind::Neighbor, &["neighbor", "neighbors", "neighbour", "neighbours", "neigh", "nb"]),
    (Kind::Tenant, &["tenant", "tenants"]),
    (Kind::NatPool, &["nat_pool", "nat_pools", "nat-pool", "nat-pools"]),
    (Kind::Policer, &["policer", "policers"]),
    (Kind::Vip, &["vip", "vips"]),
    (Kind::Acl, &["acl", "acls"]),
    (Kind::AddressSet, &["address_set", "address_sets", "address-set", "address-sets", "set", "sets"]),
    (Kind::Endpoint, &["endpoint", "endpoints", "ep"]),
];

/// Which objects are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Kind; `None`: all.
    pub(super) kind: Option<Kind>,
    /// Name, where it was written as "kind/name".
    pub(super) name: Option<String>,
}

/// Reads "interface", "if", "interfaces", "all", "interface/pod-a".
///
/// # Errors
/// A text for the user that lists the kinds.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    let (word, name) = match text.split_once('/') {
        Some((word, name)) if !name.is_empty() => (word, Some(name)),
        Some(_) => return Err("there is no name behind the slash".into()),
        None => (text, None),
    };
    if word == "all" && name.is_none() {
        return Ok(Selector { kind: None, name: None });
    }
    let kind = parse_kind(word).ok_or_else(|| {
        let kinds = WORDS.iter().filter_map(|(_, words)| words.first()).copied().collect::<Vec<_>>();
        format!("there is no such kind; take one of {}, all", kinds.join(", "))
    })?;
    Ok(Selector { kind: Some(kind), name: name.map(|name| full_name(kind, name)) })
}

/// The kind a word stands for, also in upper case.
pub(crate) fn parse_kind(word: &str) -> Option<Kind> {
    let word = word.to_ascii_lowercase();
    WORDS.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(kind, _)| *kind)
}

/// The name as quiverd knows it: a route without a VRF is in the default one.
pub(super) fn full_name(kind: Kind, name: &str) -> String {
    let begins_with_address = name.split('/').next().is_some_and(|part| part.parse::<IpAddr>().is_ok());
    if kind == Kind::Route && begins_with_address { format!("{DEFAULT_VRF}/{name}") } else { name.to_owned() }
}

/// "interface pod-a", also for kinds this version doesn't know.
pub(super) fn describe(object: Option<&ObjectRef>) -> String {
    match object {
        Some(object) if object.kind() == Kind::Unspecified => object.name.clone(),
        Some(object) => format!("{} {}", object.kind().word(), object.name),
        None => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_plural_and_short() {
        for (word, kind) in [
            ("interface", Kind::Interface),
            ("Interfaces", Kind::Interface),
            ("if", Kind::Interface),
            ("br", Kind::Bridge),
            ("neighbours", Kind::Neighbor),
            ("rt", Kind::Route),
            ("vrfs", Kind::Vrf),
        ] {
            assert_eq!(selector(word), Ok(Selector { kind: Some(kind), name: None }), "{word}");
        }
        assert_eq!(selector("all"), Ok(Selector { kind: None, name: None }));
    }

    #[test]
    fn every_kind_has_words() {
        for word in Kind::WORDS {
            assert_eq!(parse_kind(word).map(|kind| kind.word()), Some((*word).to_owned()));
        }
    }

    #[test]
    fn kind_and_name_in_one_word() {
        let name = |text| selector(text).unwrap().name.unwrap();
        assert_eq!(name("if/pod-a"), "pod-a");
        assert_eq!(name("route/red/10.0.0.0/8"), "red/10.0.0.0/8");
        assert_eq!(name("route/10.0.0.0/8"), "default/10.0.0.0/8");
        assert_eq!(name("rt/fd00::/64"), "default/fd00::/64");
    }

    #[test]
    fn what_is_no_kind() {
        for wrong in ["pod", "", "interface/", "all/x"] {
            assert!(selector(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            selector("pod").unwrap_err(),
            "there is no such kind; take one of vrf, bridge, interface, route, neighbor, tenant, nat_pool, policer, vip, acl, address_set, endpoint, all"
        );
    }
}
