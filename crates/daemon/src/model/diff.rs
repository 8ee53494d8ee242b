//! What changes, field by field.

use std::collections::BTreeMap;

use api::v1::{Change, ChangeKind, FieldChange};
use serde::Serialize;
use serde_json::Value;

use super::spec::RouteSpec;
use super::undo::Replaced;
use super::{Key, Model, Undo};

/// What a batch changed: `undo` is what [`Model::merge`] gave, `model` is the desired state after it. Ordered by kind
/// and name.
pub fn changes(model: &Model, undo: &Undo) -> Vec<Change> {
    let mut changes = undo.replaced.iter().map(|replaced| change(model, replaced)).collect::<Vec<_>>();
    changes.sort_by(|(a, _), (b, _)| a.cmp(b));
    changes.into_iter().map(|(_, change)| change).collect()
}

fn change(model: &Model, replaced: &Replaced) -> (Key, Change) {
    let key = replaced.key();
    let (before, after) = match replaced {
        Replaced::Vrf(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.vrfs.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Bridge(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.bridges.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Interface(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.interfaces.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Neighbor(key, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.neighbors.get(key).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Tenant(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.tenants.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::NatPool(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.nat_pools.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Policer(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.policers.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Vip(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.vips.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Acl(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.acls.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::AddressSet(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.address_sets.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Endpoint(name, old) => (
            old.as_ref().map(|old| value(&old.spec.to_api())),
            model.endpoints.get(name).map(|new| value(&new.spec.to_api())),
        ),
        Replaced::Route(key, old) => (
            old.as_ref().map(|old| value(&RouteSpec::api_of(key, &old.paths))),
            model.route(key).map(|new| value(&RouteSpec::api_of(key, &new.paths))),
        ),
    };
    let kind = match (&before, &after) {
        (None, _) => ChangeKind::Added,
        (Some(_), Some(_)) => ChangeKind::Changed,
        (Some(_), None) => ChangeKind::Removed,
    };
    let fields = match (before, after) {
        (_, None) => Vec::new(),
        (before, Some(after)) => fields(before.as_ref().unwrap_or(&Value::Null), &after),
    };
    let change = Change { object: Some(key.to_api()), kind: kind.into(), fields };
    (key, change)
}

/// Messages of our own always have a form in JSON: their maps have strings as keys.
fn value<T: Serialize>(message: &T) -> Value {
    serde_json::to_value(message).unwrap_or(Value::Null)
}

/// Fields that differ. Lists are compared as a whole: their elements have no names.
fn fields(before: &Value, after: &Value) -> Vec<FieldChange> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    leaves("", before, &mut old);
    leaves("", after, &mut new);
    let names = old.keys().chain(new.keys()).collect::<std::collections::BTreeSet<_>>();
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| FieldChange {
            field: name.clone(),
            before: text(name, old.get(name)),
            after: text(name, new.get(name)),
        })
        .collect()
}

fn leaves<'a>(path: &str, value: &'a Value, leaves_found: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Null if path.is_empty() => {}
        Value::Object(fields) if !fields.is_empty() || path.is_empty() => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(&path, value, leaves_found);
            }
        }
        _ => {
            leaves_found.insert(path.to_owned(), value);
        }
    }
}

/// A secret is shown as changed, not as what it is: differences are printed and logged.
fn text(field: &str, value: Option<&&Value>) -> String {
    match value {
        None => String::new(),
        Some(_) if field.ends_with("secret") => "\"…\"".into(),
        Some(value) => value.to_string(),
    }
}
