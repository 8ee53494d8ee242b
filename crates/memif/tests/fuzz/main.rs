//! A short fuzz run with every test run: the corpus as it is, and changed at random. The long one is
//! `scripts/fuzz.sh`; what it finds belongs into the corpus.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../fuzz/harness/mod.rs"]
mod harness;

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Inputs that are worth keeping, each found by a fuzzer or written for a case.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let inputs: Vec<_> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs
}

/// Two inputs joined, then single bytes changed.
fn mutated(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let input = prop_oneof![
        6 => prop::sample::select(corpus),
        1 => prop::collection::vec(any::<u8>(), 0..400),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (input.clone(), input, any::<prop::sample::Index>(), edits).prop_map(|(mut bytes, tail, cut, edits)| {
        bytes.truncate(cut.index(bytes.len() + 1).max(bytes.len() / 2));
        bytes.extend(tail);
        for (at, value) in edits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        bytes
    })
}

fn run(target: &str, cases: u32, fuzz: fn(&[u8])) {
    let corpus = corpus(target);
    corpus.iter().for_each(|input| fuzz(input));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let case = |input: Vec<u8>| {
        fuzz(&input);
        Ok(())
    };
    TestRunner::new(config).run(&mutated(corpus), case).unwrap();
}

#[test]
fn hostile_client_says_anything() {
    run("server", 3000, harness::server);
}

#[test]
fn hostile_server_says_anything() {
    run("client", 1000, harness::client);
}

#[test]
fn hostile_memory_holds_anything_and_an_oracle_agrees() {
    run("rings", 2000, harness::rings);
}

#[test]
fn hostile_peers_of_a_trust_group_describe_anything() {
    run("pool", 1000, harness::pool);
}
