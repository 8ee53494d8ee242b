//! Notes what the program is built from, for `quiverd --version`.

use std::process::Command;

#[path = "../api/commit.rs"]
mod commit;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../api/commit.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    set("QUIVERD_COMMIT", Some(commit::commit()));
    set("QUIVERD_RUSTC", commit::output(Command::new(rustc).arg("--version")));
    set("QUIVERD_PROFILE", std::env::var("PROFILE").ok());
    set("QUIVERD_TARGET", std::env::var("TARGET").ok());
}

fn set(name: &str, value: Option<String>) {
    println!("cargo:rustc-env={name}={}", value.as_deref().unwrap_or("unknown"));
}
