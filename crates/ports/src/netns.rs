//! Doing things in another network namespace.
//!
//! A thread belongs to one network namespace; sockets and tun files belong to the one they were opened in and stay there.
//! So a helper thread enters the namespace, opens what is needed, and ends; the calling thread never moves.

use core::fmt;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Netns {
    /// The one this process is in.
    #[default]
    Own,
    /// As `ip netns` names it: `/run/netns/NAME`.
    Named(String),
    /// The one that a process is in.
    Process(u32),
    /// A file that stands for a namespace, as a container runtime hands it out.
    Path(PathBuf),
}

impl Netns {
    /// The file that stands for it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Own => "/proc/thread-self/ns/net".into(),
            Self::Named(name) => PathBuf::from("/run/netns").join(name),
            Self::Process(pid) => format!("/proc/{pid}/ns/net").into(),
            Self::Path(path) => path.clone(),
        }
    }

    /// Opens it, so that it can be entered later and outlives its name.
    ///
    /// # Errors
    /// [`NetnsError::Missing`], [`NetnsError::Denied`], [`NetnsError::System`].
    pub fn open(&self) -> Result<OwnedFd, NetnsError> {
        let path = self.path();
        // Of a pipe nobody has to wait for the other end: it is none anyway.
        open(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
            .map_err(|error| self.error("open", error))
    }

    /// Runs `work` on a thread of its own inside the namespace and returns what it returns. Blocks until it is done.
    ///
    /// # Errors
    /// [`NetnsError`], before `work` has begun.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, NetnsError> {
        let target = match self {
            Self::Own => None,
            other => Some(other.open()?),
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, || {
                if let Some(target) = &target {
                    move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))
                        .map_err(|error| self.error("enter", error))?;
                }
                Ok(work())
            });
            let thread = thread.map_err(|source| NetnsError::Thread { source })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn error(&self, action: &'static str, error: Errno) -> NetnsError {
        let (netns, path) = (self.to_string(), self.path());
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::SRCH => {
                let remedy = match self {
                    Self::Named(name) => format!("make it with `ip netns add {name}`, or correct the name"),
                    Self::Process(pid) => format!("is process {pid} still running?"),
                    Self::Own | Self::Path(_) => "correct the path".into(),
                };
                NetnsError::Missing { netns, path, remedy }
            }
            // The file is there but no namespace is mounted on it: left over after a crash or by another mount
            // namespace.
            Errno::INVAL => NetnsError::NotOne { netns, path },
            Errno::PERM | Errno::ACCESS => NetnsError::Denied { netns, action },
            source => NetnsError::System { netns, action, source },
        }
    }
}

impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("of this process"),
            Self::Named(name) => f.write_str(name),
            Self::Process(pid) => write!(f, "of process {pid}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for Netns {
    type Err = Infallible;

    /// Nothing: this process's own; with a `/` in it: a path; anything else: a name.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "" => Self::Own,
            path if path.contains('/') => Self::Path(path.into()),
            name => Self::Named(name.into()),
        })
    }
}

/// Why nothing could be done in a network namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// It isn't there.
    #[error("network namespace {netns} doesn't exist ({path}): {remedy}", path = path.display())]
    Missing {
        /// The namespace.
        netns: String,
        /// Where it was looked for.
        path: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// Something else is there.
    #[error(
        "{path} is not a network namespace: delete the file and make the namespace {netns} again",
        path = path.display()
    )]
    NotOne {
        /// The namespace.
        netns: String,
        /// What was opened.
        path: PathBuf,
    },
    /// Not allowed.
    #[error("can't {action} network namespace {netns}: this needs CAP_SYS_ADMIN (run as root)")]
    Denied {
        /// The namespace.
        netns: String,
        /// What was tried.
        action: &'static str,
    },
    /// Something else went wrong.
    #[error("can't {action} network namespace {netns}: {source}")]
    System {
        /// The namespace.
        netns: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: Errno,
    },
    /// No thread can be made.
    #[error("no thread for work in a network namespace: {source} (raise the limit on processes)")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_namespaces() {
        for (text, netns, path) in [
            ("", Netns::Own, "/proc/thread-self/ns/net"),
            ("pod-a", Netns::Named("pod-a".into()), "/run/netns/pod-a"),
            ("/proc/7/ns/net", Netns::Path("/proc/7/ns/net".into()), "/proc/7/ns/net"),
        ] {
            assert_eq!(text.parse(), Ok(netns.clone()));
            assert_eq!(netns.path(), PathBuf::from(path));
        }
        assert_eq!(Netns::Process(7).path(), PathBuf::from("/proc/7/ns/net"));
    }

    #[test]
    fn own_needs_no_rights() {
        assert_eq!(Netns::Own.run(|| 7).unwrap(), 7);
    }

    #[test]
    fn a_missing_one_is_named_with_its_remedy() {
        let error = Netns::Named("quiver-none".into()).run(|| ()).unwrap_err().to_string();
        assert!(error.contains("quiver-none") && error.contains("ip netns add quiver-none"), "{error}");
        let error = Netns::Process(u32::MAX).run(|| ()).unwrap_err().to_string();
        assert!(error.contains("process 4294967295"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_namespace_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Netns::Path(file.path().into()).run(|| ()).unwrap_err();
        assert!(matches!(error, NetnsError::NotOne { .. }), "{error}");
    }
}
