//! The state can't be kept or read.

use std::io;
use std::path::{Path, PathBuf};

/// The state can't be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The disk is full, or a quota or limit is reached.
    #[error("no room for the state in {path}: {source}; free some space. Nothing was changed", path = .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else the system refused.
    #[error("can't {action} {path}: {source}", path = .path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no directory.
    #[error("state.directory is empty: name a directory, such as \"/var/lib/quiver\"")]
    Empty,
    /// Another quiverd works with this directory.
    #[error("the state directory {path} is in use by another quiverd; stop it, or give this one another directory", path = .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The state was written by a later version.
    #[error("{path} has format {found}, this quiverd knows {known}; run the version that wrote it, or move the file away to start empty", path = .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The latest format this version knows.
        known: u32,
    },
}

impl StateError {
    pub(super) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            _ => Self::System { action, path, source },
        }
    }
}
