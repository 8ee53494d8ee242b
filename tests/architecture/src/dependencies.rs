//! Crates depend one way: what stands higher may use what stands lower, never the other way round.

use std::collections::BTreeMap;
use std::fs;

/// For each folder of `crates/`, the ones it may use in what is built and shipped.
const MAY_USE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("memory", &[]),
    ("tables", &[]),
    ("memif", &["memory"]),
    ("memif-c", &["memif"]),
    ("copy", &["memory"]),
    ("graph", &["memory", "wire"]),
    ("ports", &["copy", "graph", "memif", "memory", "wire"]),
    ("features", &["graph", "tables", "wire"]),
    ("api", &[]),
    ("daemon", &["api", "copy", "features", "graph", "memif", "memory", "ports", "tables", "wire"]),
    ("cli", &["api", "wire"]),
    ("tgen", &["memif", "memory", "tables", "wire"]),
];

/// Our own crates by the name under which manifests know them.
fn ours(manifest: &toml::Table) -> BTreeMap<String, String> {
    let dependencies = manifest["workspace"]["dependencies"].as_table().expect("a table");
    let path = |value: &toml::Value| Some(value.get("path")?.as_str()?.strip_prefix("crates/")?.to_string());
    dependencies.iter().filter_map(|(name, value)| Some((name.clone(), path(value)?))).collect()
}

fn read(path: &std::path::Path) -> toml::Table {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn crates_depend_downwards_only() {
    let root = super::root();
    let ours = ours(&read(&root.join("Cargo.toml")));
    let mut seen = 0;
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        let manifest = root.join("crates").join(&folder).join("Cargo.toml");
        if !manifest.exists() {
            continue;
        }
        seen += 1;
        let allowed = MAY_USE.iter().find(|(name, _)| *name == folder);
        let (_, allowed) =
            allowed.unwrap_or_else(|| panic!("crates/{folder} has no place on the map of crates"));
        let manifest = read(&manifest);
        for section in ["dependencies", "build-dependencies"] {
            for name in manifest.get(section).and_then(|d| d.as_table()).into_iter().flat_map(|d| d.keys()) {
                if let Some(used) = ours.get(name) {
                    assert!(allowed.contains(&used.as_str()), "crates/{folder} must not use crates/{used}");
                }
            }
        }
    }
    assert!(seen >= 8, "only {seen} crates found: the test looks at the wrong place");
}

#[test]
fn the_map_itself_has_no_way_up() {
    for (name, uses) in MAY_USE {
        for used in *uses {
            let (_, back) = MAY_USE.iter().find(|(other, _)| other == used).expect("a known crate");
            assert!(!back.contains(name), "{name} and {used} may use each other");
        }
    }
}
