//! Settings that can't be used.

use std::io;
use std::path::PathBuf;

/// Settings that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file can't be read.
    #[error("can't read {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file says something that has no meaning; the message shows the line.
    #[error("{path}: {source}", path = api::escape::path(.path))]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its place.
        source: Box<toml::de::Error>,
    },
    /// More workers than cores.
    #[error(
        "workers.count is {asked}, but this process may use {available} cores ({cores}): \
         take at most {available}, or give it more (CPUAffinity= of the unit, cpuset of the container)"
    )]
    TooManyWorkers {
        /// Workers asked for.
        asked: usize,
        /// Cores there are.
        available: usize,
        /// Their numbers.
        cores: String,
    },
    /// No worker at all.
    #[error("workers.count is 0: without a worker no packet moves; take at least 1")]
    NoWorkers,
    /// A core that isn't there or not ours.
    #[error("workers.cores names core {core}, but this process may use only {cores}")]
    NoSuchCore {
        /// The core.
        core: usize,
        /// Cores there are.
        cores: String,
    },
    /// A core twice: two workers that poll would take turns on it.
    #[error("workers.cores names core {core} twice; one worker per core")]
    CoreTwice {
        /// The core.
        core: usize,
    },
    /// Count and cores contradict each other.
    #[error("workers.count is {count}, but workers.cores names {cores}; leave one of the two out")]
    CountAndCores {
        /// Workers asked for.
        count: usize,
        /// Cores named.
        cores: usize,
    },
    /// The system doesn't say which cores we may use.
    #[error("can't find out which cores this process may use: {0}")]
    Cores(io::Error),
}
