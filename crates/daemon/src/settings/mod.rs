//! quiverd's own settings: what has to be known before there is an API.
//!
//! Everything else (interfaces, routes…) is desired state and comes through the API. Settings are read once, at
//! start, from `/etc/quiver/quiverd.toml`.

mod captures;
mod copying;
mod cores;
mod error;
mod file;
mod ipfix;
mod listen;
mod percent;
mod sessions;
mod stuck;

pub use captures::{CaptureMemory, NoCaptureMemory};
pub use copying::{CopyEngine, Copying, ModelMode, ModelSettings};
pub use cores::{available_cores, leave_to_workers, place_workers};
pub use error::SettingsError;
pub use file::{
    Api, DEFAULT_PATH, Health, HugePages, Log, LogFormat, Memory, Metrics, Settings, SocketMode, State,
    Workers, load,
};
pub use ipfix::Ipfix;
pub use listen::Listen;
pub use percent::{NoPercentage, Percent};
pub use sessions::{NoSessionLimit, SessionLimit};
pub use stuck::{NoStuckSeconds, RestartSeconds, StuckSeconds};
