//! Why an interface can't be had, or was lost.

/// Why an interface can't be had, or was lost.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// What was given isn't valid.
    #[error("interface {name}: {what} {value:?} is not valid: {reason}")]
    Option {
        /// The interface.
        name: String,
        /// Which option.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The library refuses.
    #[error("memif interface {name}: {source}")]
    Memif {
        /// The interface.
        name: String,
        /// Why.
        source: memif::InterfaceError,
    },
    /// The time is up.
    #[error("memif interface {name} did not come up: {last} ({hint})")]
    Down {
        /// The interface.
        name: String,
        /// What was heard last.
        last: String,
        /// What to look at.
        hint: &'static str,
    },
    /// A signal came first.
    #[error("stopped before memif interface {name} came up: {last}")]
    Stopped {
        /// The interface.
        name: String,
        /// What was heard last.
        last: String,
    },
    /// It was up and is no more.
    #[error("interface {name} was lost: {reason}")]
    Lost {
        /// The interface.
        name: String,
        /// Why.
        reason: String,
    },
    /// It is up, but nobody takes what is sent.
    #[error("interface {name}: the other side has taken nothing for {seconds} s: it stands still")]
    Stuck {
        /// The interface.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// All buffers of the ring together are shorter than a packet.
    #[error(
        "memif interface {name}: a packet is longer than all buffers of the ring together: take larger ones, or more (--buffer-size, --ring-size)"
    )]
    TooLong {
        /// The interface.
        name: String,
    },
    /// There is no such device.
    #[error(
        "interface {name}: there is no device {device} here: make it (ip link add …), or correct the name or its netns"
    )]
    NoDevice {
        /// The interface.
        name: String,
        /// The device.
        device: String,
    },
    /// A system call failed.
    #[error("interface {name}: can't {action}: {source}{hint}")]
    System {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
}

impl LinkError {
    /// Whether what was asked for can't be, whatever the system is like.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Option { .. })
    }

    /// A failed system call, with what to do where that is known.
    pub(super) fn system(name: &str, action: &'static str, source: impl Into<std::io::Error>) -> Self {
        let source = source.into();
        let hint = match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                " (this needs CAP_NET_ADMIN and CAP_NET_RAW: run as root)"
            }
            _ => "",
        };
        Self::System { name: name.into(), action, source, hint }
    }
}
