//! Where a control socket is.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Error;

/// Name of a unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SocketName {
    /// A file.
    Path(PathBuf),
    /// A name in the abstract namespace, which belongs to a network namespace; without the leading NUL.
    Abstract(String),
}

/// Where a control socket is: its name, and the network namespace it is in if that is not ours.
///
/// Parsed from text: `@name` is abstract, everything else a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    name: SocketName,
    netns: Option<PathBuf>,
}

impl Address {
    /// A socket file.
    #[must_use]
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { name: SocketName::Path(path.into()), netns: None }
    }

    /// An abstract socket; `name` without '@'.
    #[must_use]
    pub fn abstract_name(name: impl Into<String>) -> Self {
        Self { name: SocketName::Abstract(name.into()), netns: None }
    }

    /// The same in another network namespace: a name under `/run/netns`, or a path (with a '/'), such as
    /// `/proc/42/ns/net`. Matters for abstract sockets only: files are found through the mount namespace.
    #[must_use]
    pub fn in_netns(self, netns: &str) -> Self {
        let path =
            if netns.contains('/') { PathBuf::from(netns) } else { Path::new("/run/netns").join(netns) };
        Self { netns: Some(path), ..self }
    }

    /// Whether there can be such a socket at all.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(&self) -> Result<(), Error> {
        let (setting, length, most) = match &self.name {
            SocketName::Abstract(name) => ("length of the abstract socket's name", name.len(), 107),
            // What is longer than a socket address goes through its directory's descriptor.
            SocketName::Path(path) if path.as_os_str().len() > 107 => {
                ("length of the socket's file name", path.file_name().map_or(0, |name| name.len()), 80)
            }
            SocketName::Path(path) => ("length of the socket's path", path.as_os_str().len(), 107),
        };
        if (1..=most).contains(&length) {
            return Ok(());
        }
        let allowed = if most == 80 { "1..=80" } else { "1..=107" };
        Err(Error::Setting { setting, value: length as u64, allowed })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &SocketName {
        &self.name
    }

    /// The file of the network namespace it is in, if not ours.
    #[must_use]
    pub fn netns(&self) -> Option<&Path> {
        self.netns.as_deref()
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix('@') {
            Some(name) => Self::abstract_name(name),
            None => Self::path(text),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            SocketName::Path(path) => write!(f, "{}", path.display())?,
            SocketName::Abstract(name) => write!(f, "@{name}")?,
        }
        match &self.netns {
            Some(netns) => write!(f, " in {}", netns.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_socket_can_have_are_told_at_once() {
        let long = |n| "x".repeat(n);
        for (text, works) in [
            ("@a".into(), true),
            ("/a".into(), true),
            (format!("@{}", long(107)), true),
            (format!("/{}/{}", long(300), long(80)), true),
            (String::new(), false),
            ("@".into(), false),
            (format!("@{}", long(108)), false),
            (format!("/{}/{}", long(300), long(81)), false),
        ] {
            let Ok(address) = text.parse::<Address>();
            assert_eq!(address.check().is_ok(), works, "{text}: {:?}", address.check());
        }
    }

    #[test]
    fn reads_and_prints() {
        let abstract_one: Address = "@vpp/memif-eth0".parse().unwrap();
        assert_eq!(abstract_one.name(), &SocketName::Abstract("vpp/memif-eth0".into()));
        assert_eq!(abstract_one.to_string(), "@vpp/memif-eth0");
        assert_eq!(abstract_one.in_netns("pod1").to_string(), "@vpp/memif-eth0 in /run/netns/pod1");
        let path: Address = "/run/memif.sock".parse().unwrap();
        assert_eq!(path.clone().in_netns("/proc/7/ns/net").netns(), Some(Path::new("/proc/7/ns/net")));
        assert_eq!(path.to_string(), "/run/memif.sock");
    }
}
