//! The map of crates as a test: see `docs/architecture.md`.

#![forbid(unsafe_code)]

#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod unsafe_code;

/// Root of the repository.
#[cfg(test)]
fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
