//! Who may use the socket of a memif server.

use std::fmt;

use api::v1::Memif;

use super::memif::SocketName;
use crate::model::{Flaw, fields};

const DEFAULT_MODE: u32 = 0o660;

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// By number.
    Id(u32),
    /// By name, looked up where it is used.
    Name(String),
}

impl Account {
    fn parse(field: &str, text: &str) -> Result<Option<Self>, Flaw> {
        fields::no_nul(field, text)?;
        Ok(match (text, text.parse()) {
            ("", _) => None,
            (_, Ok(id)) => Some(Self::Id(id)),
            (name, Err(_)) => Some(Self::Name(name.into())),
        })
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Name(name) => name.fmt(formatter),
        }
    }
}

/// Mode and owner of the socket's file: one for all interfaces of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFile {
    /// Mode.
    pub mode: u32,
    /// User; `None`: that of quiverd.
    pub owner: Option<Account>,
    /// Group; `None`: that of quiverd.
    pub group: Option<Account>,
}

impl Default for SocketFile {
    fn default() -> Self {
        Self { mode: DEFAULT_MODE, owner: None, group: None }
    }
}

/// What a server asks of a peer, besides the secret; see [`Memif`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The socket's file.
    pub file: SocketFile,
    /// Effective users that may connect; empty: all.
    pub uids: Vec<u32>,
    /// Effective groups that may connect; empty: all.
    pub gids: Vec<u32>,
    /// Process namespace that may connect, as a path.
    pub pid_namespace: Option<String>,
    /// Memory that its owner can truncate is taken, too.
    pub unsealed: bool,
}

impl Access {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub(super) fn parse(memif: &Memif, socket: &SocketName) -> Result<Self, Flaw> {
        let file = SocketFile {
            mode: mode(&memif.socket_mode)?,
            owner: Account::parse("socket_owner", &memif.socket_owner)?,
            group: Account::parse("socket_group", &memif.socket_group)?,
        };
        if matches!(socket, SocketName::Abstract { .. }) && file != SocketFile::default() {
            let field = if file.owner.is_some() {
                "socket_owner"
            } else if file.group.is_some() {
                "socket_group"
            } else {
                "socket_mode"
            };
            return Err(Flaw::new(field, "has no meaning for an abstract socket: there is no file").remedy(
                "leave it out, and name who may connect by allow_uids, allow_gids or allow_pid_namespace",
            ));
        }
        let sorted = |list: &[u32]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list.dedup();
            list
        };
        Ok(Self {
            file,
            uids: sorted(&memif.allow_uids),
            gids: sorted(&memif.allow_gids),
            pid_namespace: fields::path("allow_pid_namespace", &memif.allow_pid_namespace)?,
            unsealed: memif.allow_unsealed,
        })
    }

    /// Writes the canonical form.
    pub(super) fn write(&self, memif: &mut Memif) {
        let account =
            |account: &Option<Account>| account.as_ref().map(ToString::to_string).unwrap_or_default();
        if self.file.mode != DEFAULT_MODE {
            memif.socket_mode = format!("{:04o}", self.file.mode);
        }
        memif.socket_owner = account(&self.file.owner);
        memif.socket_group = account(&self.file.group);
        memif.allow_uids.clone_from(&self.uids);
        memif.allow_gids.clone_from(&self.gids);
        memif.allow_pid_namespace = self.pid_namespace.clone().unwrap_or_default();
        memif.allow_unsealed = self.unsealed;
    }

    /// The first field that is set, if any is.
    pub(super) fn first_set(&self) -> Option<&'static str> {
        let Self { file, uids, gids, pid_namespace, unsealed } = self;
        [
            (file.mode != DEFAULT_MODE, "socket_mode"),
            (file.owner.is_some(), "socket_owner"),
            (file.group.is_some(), "socket_group"),
            (!uids.is_empty(), "allow_uids"),
            (!gids.is_empty(), "allow_gids"),
            (pid_namespace.is_some(), "allow_pid_namespace"),
            (*unsealed, "allow_unsealed"),
        ]
        .into_iter()
        .find_map(|(set, field)| set.then_some(field))
    }
}

fn mode(text: &str) -> Result<u32, Flaw> {
    if text.is_empty() {
        return Ok(DEFAULT_MODE);
    }
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| (1..=0o777).contains(mode));
    mode.ok_or_else(|| {
        Flaw::new("socket_mode", format!("{text:?} is no mode of a file"))
            .remedy("write three octal digits: \"0660\" lets user and group connect")
    })
}

#[cfg(test)]
mod tests {
    use super::super::memif::MemifSpec;
    use super::*;

    fn server() -> Memif {
        Memif { socket: "/run/quiver/m.sock".into(), ..Memif::default() }
    }

    #[test]
    fn all_of_it_comes_back_in_the_canonical_form() {
        let memif = Memif {
            socket_mode: "660".into(),
            socket_owner: "0".into(),
            socket_group: "pods".into(),
            allow_uids: vec![7, 3, 7],
            allow_pid_namespace: "/proc/1/ns/pid".into(),
            allow_unsealed: true,
            ..server()
        };
        let spec = MemifSpec::parse(&memif).unwrap();
        let Access { file, uids, gids, unsealed, .. } = &spec.access;
        assert_eq!((file.mode, &file.owner), (0o660, &Some(Account::Id(0))));
        assert_eq!(file.group, Some(Account::Name("pods".into())));
        assert_eq!((&uids[..], &gids[..], *unsealed), (&[3, 7][..], &[][..], true));
        let written = spec.to_api();
        assert_eq!((written.socket_mode.as_str(), written.socket_owner.as_str()), ("", "0"));
        assert_eq!(MemifSpec::parse(&written).unwrap(), spec);
        let spec = MemifSpec::parse(&Memif { socket_mode: "0600".into(), ..server() }).unwrap();
        assert_eq!(spec.to_api().socket_mode, "0600");
    }

    #[test]
    fn each_bad_field_is_named() {
        let abstract_socket = Memif { socket: "@pod".into(), ..Memif::default() };
        let client = Memif { role: 2, ..server() };
        for (memif, field) in [
            (Memif { socket_mode: "rw".into(), ..server() }, "socket_mode"),
            (Memif { socket_mode: "0".into(), ..server() }, "socket_mode"),
            (Memif { socket_mode: "1777".into(), ..server() }, "socket_mode"),
            (Memif { socket_mode: "0600".into(), ..abstract_socket.clone() }, "socket_mode"),
            (Memif { socket_group: "pods".into(), ..abstract_socket }, "socket_group"),
            (Memif { allow_pid_namespace: "ns/pid".into(), ..server() }, "allow_pid_namespace"),
            (Memif { allow_uids: vec![1], ..client.clone() }, "allow_uids"),
            (Memif { allow_unsealed: true, ..client }, "allow_unsealed"),
        ] {
            assert_eq!(MemifSpec::parse(&memif).unwrap_err().field, field, "{memif:?}");
        }
    }
}
