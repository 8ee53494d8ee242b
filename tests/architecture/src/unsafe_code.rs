//! Unsafe code stands where the map allows it, and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files below `crates/` in which unsafe code may stand.
const ALLOWED: &[&str] = &[
    "memory/src",
    "memif/src/io/ancillary.rs",
    "memif/src/ring",
    "memif-c/src/ffi",
    "graph/src/publish",
    "ports/src/sys",
    "ports/src/memif/engine.rs",
    "copy/examples/engine_clocks.rs",
    "copy/src/engine.rs",
    "copy/src/cpu.rs",
    "copy/src/learn.rs",
    "copy/src/dsa",
    "copy/src/model",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line of code (not a comment, not a lint's name) has the keyword.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.into_iter().any(|word| word == "unsafe")
}

#[test]
fn unsafe_code_stands_only_where_it_may() {
    let crates = super::root().join("crates");
    let mut files = Vec::new();
    sources(&crates, &mut files);
    let mut found = 0;
    for file in &files {
        let name = file.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
        let lines = fs::read_to_string(file).unwrap();
        let count = lines.lines().filter(|line| has_unsafe(line)).count();
        found += count;
        let is_test = ["/tests/", "/fuzz/"].iter().any(|place| name.contains(place));
        let allowed = is_test || ALLOWED.iter().any(|place| name.starts_with(place));
        assert!(count == 0 || allowed, "crates/{name} has unsafe code; it may stand in {ALLOWED:?} only");
    }
    assert!(found > 0, "no unsafe code found at all: the test looks at the wrong place");
    println!("unsafe: {found} lines in {} files", files.len());
}
