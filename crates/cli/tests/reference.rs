//! What is made of the tree of commands: reference, manual pages, completion.
#![allow(clippy::unwrap_used)] // also in helpers: what fails here fails the test

mod common;

use std::path::Path;

use common::{Server, quiver, ran};

/// The reference as it is kept in the repository.
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");

#[test]
fn the_reference_is_current() {
    let ran = ran(quiver().args(["reference", "--check", REFERENCE]).output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.err);
}

#[test]
fn a_stale_reference_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cli.md");
    let check = || ran(quiver().arg("reference").arg("--check").arg(&file).output().unwrap());
    let missing = check();
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("first at line 1"), "{}", missing.err);
    let current = std::fs::read_to_string(REFERENCE).unwrap();
    std::fs::write(&file, current.replacen("Exit status", "Exit code", 1)).unwrap();
    assert_eq!(check().status, 1);
    assert!(quiver().arg("reference").arg("--write").arg(&file).status().unwrap().success());
    assert_eq!(check().status, 0);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    assert!(quiver().arg("man").arg("--dir").arg(folder.path()).status().unwrap().success());
    for page in ["quiver.1", "quiver-apply.1", "quiver-show-runtime.1", "quiver-pcap-start.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    assert!(!folder.path().join("quiver-man.1").exists(), "hidden commands have no page");
    assert_eq!(ran(quiver().args(["man", "--dir", "/nonexistent"]).output().unwrap()).status, 8);
}

/// What the shell is offered behind `words`.
fn completions(socket: &Path, words: &[&str]) -> Vec<String> {
    let index = (words.len() - 1).to_string();
    let output = quiver()
        .env("QUIVER_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", index)
        .env("_CLAP_IFS", "\n")
        .env("QUIVER_SOCKET", socket)
        .arg("--")
        .args(words)
        .output()
        .unwrap();
    ran(output).out.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn commands_kinds_and_names_are_completed() {
    let server = Server::start();
    let socket = server.path("quiver.sock");
    assert_eq!(completions(&socket, &["quiver", "ap"]), ["apply"]);
    assert_eq!(completions(&socket, &["quiver", "get", "ro"]), ["route"]);
    assert_eq!(completions(&socket, &["quiver", "show", "interface", "pod"]), ["pod-a", "pod-b"]);
    assert_eq!(completions(&socket, &["quiver", "delete", "if", "pod"]), ["pod-a", "pod-b"]);
    let sources = completions(&socket, &["quiver", "trace", "add", ""]);
    assert!(sources.contains(&"tap-input".into()) && !sources.contains(&"drop".into()), "{sources:?}");
}

#[test]
fn without_quiverd_no_names_are_completed_and_nothing_is_said() {
    let nowhere = Path::new("/nonexistent/quiver.sock");
    assert!(completions(nowhere, &["quiver", "show", "interface", "p"]).is_empty());
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ran(quiver().args(["completion", shell]).output().unwrap()).out;
        assert!(script.contains("QUIVER_COMPLETE"), "{shell}");
    }
}
