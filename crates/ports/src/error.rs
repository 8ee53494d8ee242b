//! Why a port can't be opened or changed.

use crate::netns::NetnsError;
use std::io;

/// Why a port can't be opened or changed. Each names the port, what failed and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The network namespace can't be entered.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// An option has a value that can't be.
    #[error("{port}: {field} {problem}")]
    Option {
        /// The port, `tap eth0`.
        port: String,
        /// The option.
        field: &'static str,
        /// What is wrong with it, and what it may be.
        problem: String,
    },
    /// The system refused something.
    #[error("{port}: can't {action}: {source}{remedy}")]
    System {
        /// The port, `tap eth0 in network namespace pod-a`.
        port: String,
        /// What was tried, to follow "can't".
        action: String,
        /// What the system said.
        source: io::Error,
        /// What to do about it: empty, or ` (...)`.
        remedy: &'static str,
    },
    /// The device is there but somebody else has it.
    #[error("{port} is in use: {by}; stop that, or choose another name")]
    InUse {
        /// The port.
        port: String,
        /// Who has it.
        by: String,
    },
}

impl PortError {
    /// What the system said when `port` tried to do `action`, with the remedy for what people meet most.
    pub(crate) fn system(
        port: impl Into<String>,
        action: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        let source = source.into();
        let remedy = match source.kind() {
            io::ErrorKind::PermissionDenied => " (this needs CAP_NET_ADMIN: run as root)",
            io::ErrorKind::NotFound => " (check the name)",
            _ => match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::NODEV) => " (no such device: check its name and network namespace)",
                Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    " (raise the limit on open files)"
                }
                _ => "",
            },
        };
        Self::System { port: port.into(), action: action.into(), source, remedy }
    }
}
