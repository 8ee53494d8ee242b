//! Where a control socket is.

use std::convert::Infallible;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
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
    /// [`Error::Address`].
    pub fn check(&self) -> Result<(), Error> {
        let (text, abstract_one) = match &self.name {
            SocketName::Path(path) => (path.as_os_str().as_bytes(), false),
            SocketName::Abstract(name) => (name.as_bytes(), true),
        };
        // What is longer than a socket address goes through its directory's descriptor.
        let file = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let why = match text.len() {
            0 => "it is empty",
            _ if text.contains(&0) => "it contains a NUL",
            108.. if abstract_one => "an abstract name has at most 107 bytes",
            108.. if file.is_empty() || file.len() == text.len() => {
                "a path of more than 107 bytes must name a directory and a file in it"
            }
            108.. if file.len() > 80 => {
                "a file in a directory, with a path of more than 107 bytes, has a name of at most 80"
            }
            _ => return Ok(()),
        };
        Err(Error::Address { address: self.to_string(), why })
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
            (format!("/{}/", long(300)), false),
            (long(108), false),
            ("/a\0b".into(), false),
        ] {
            let Ok(address) = text.parse::<Address>();
            match address.check() {
                Ok(()) => assert!(works, "{text}"),
                Err(error) => assert!(!works && error.to_string().contains(&format!("{text:?}")), "{error}"),
            }
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
