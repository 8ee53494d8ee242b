//! Notes what the program is built from, for `quiverd --version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=QUIVER_COMMIT");
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments));
    // Changes with every commit and checkout, also in a linked worktree.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let commit = std::env::var("QUIVER_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let rustc =
        output(Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into())).arg("--version"));
    set("QUIVERD_COMMIT", commit);
    set("QUIVERD_RUSTC", rustc);
    set("QUIVERD_PROFILE", std::env::var("PROFILE").ok());
    set("QUIVERD_TARGET", std::env::var("TARGET").ok());
}

fn set(name: &str, value: Option<String>) {
    println!("cargo:rustc-env={name}={}", value.as_deref().unwrap_or("unknown"));
}

/// What a program says; none where it isn't there or fails (a source archive has no git).
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
