//! Who may use the socket of a memif server.

use std::fmt;

use api::v1::{Memif, MemifPeerMemory};

use super::memif::SocketName;
use crate::model::{Flaw, fields};

const DEFAULT_MODE: u32 = 0o660;
const DEFAULT_MEMORY: u64 = 1 << 30;
/// Of addresses half of those that a process has.
const MOST_MEMORY: u64 = 1 << 46;

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

/// What all clients of a socket may have together: one for all interfaces of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketQuota {
    /// Regions and rings.
    pub descriptors: u32,
    /// Bytes of the regions.
    pub memory: u64,
}

impl Default for SocketQuota {
    fn default() -> Self {
        Self { descriptors: 8192, memory: 1 << 38 }
    }
}

impl SocketQuota {
    fn parse(memif: &Memif) -> Result<Self, Flaw> {
        let Self { descriptors, memory } = Self::default();
        // A client has a region and a ring at least.
        let range = 2..=1 << 20;
        Ok(Self {
            descriptors: fields::number(
                "socket_max_descriptors",
                memif.socket_max_descriptors,
                range,
                descriptors,
            )?,
            memory: bytes("socket_max_memory", memif.socket_max_memory, memory)?,
        })
    }
}

fn bytes(field: &str, value: u64, default: u64) -> Result<u64, Flaw> {
    fields::number(field, value, 4096..=MOST_MEMORY, default)
}

/// What is taken of a peer: by the name of today or by the older one, which must not contradict each other.
fn peer_memory(memif: &Memif) -> Result<MemifPeerMemory, Flaw> {
    let said = fields::choice("peer_memory", memif.peer_memory, MemifPeerMemory::Sealed)?;
    if !memif.allow_unsealed {
        return Ok(said);
    }
    if memif.peer_memory != 0 && said != MemifPeerMemory::Any {
        return Err(Flaw::new("allow_unsealed", "is peer_memory = \"any\", and that is something else here")
            .remedy("leave it out: peer_memory says all of it"));
    }
    Ok(MemifPeerMemory::Any)
}

/// What a server asks of a peer, besides the secret; see [`Memif`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The socket's file.
    pub file: SocketFile,
    /// Effective users that may connect; empty: all.
    pub uids: Vec<u32>,
    /// Effective groups that may connect; empty: all.
    pub gids: Vec<u32>,
    /// Process namespace that may connect, as a path.
    pub pid_namespace: Option<String>,
    /// Which memory is taken.
    pub memory: MemifPeerMemory,
    /// Most bytes of it.
    pub max_memory: u64,
    /// The socket's part for all.
    pub quota: SocketQuota,
}

impl Default for Access {
    /// As where nothing is said.
    fn default() -> Self {
        let (file, uids, gids, pid_namespace, quota) = Default::default();
        let (memory, max_memory) = (MemifPeerMemory::Sealed, DEFAULT_MEMORY);
        Self { file, uids, gids, pid_namespace, memory, max_memory, quota }
    }
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
            memory: peer_memory(memif)?,
            max_memory: bytes("max_memory", memif.max_memory, DEFAULT_MEMORY)?,
            quota: SocketQuota::parse(memif)?,
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
        if self.memory != MemifPeerMemory::Sealed {
            memif.peer_memory = self.memory.into();
        }
        let (SocketQuota { descriptors, memory }, usual) = (self.quota, SocketQuota::default());
        memif.max_memory = if self.max_memory == DEFAULT_MEMORY { 0 } else { self.max_memory };
        memif.socket_max_descriptors = if descriptors == usual.descriptors { 0 } else { descriptors };
        memif.socket_max_memory = if memory == usual.memory { 0 } else { memory };
    }

    /// The first field that is set, if any is.
    pub(super) fn first_set(&self) -> Option<&'static str> {
        let Self { file, uids, gids, pid_namespace, memory, max_memory, quota } = self;
        let usual = SocketQuota::default();
        [
            (file.mode != DEFAULT_MODE, "socket_mode"),
            (file.owner.is_some(), "socket_owner"),
            (file.group.is_some(), "socket_group"),
            (!uids.is_empty(), "allow_uids"),
            (!gids.is_empty(), "allow_gids"),
            (pid_namespace.is_some(), "allow_pid_namespace"),
            (*memory != MemifPeerMemory::Sealed, "peer_memory"),
            (*max_memory != DEFAULT_MEMORY, "max_memory"),
            (quota.descriptors != usual.descriptors, "socket_max_descriptors"),
            (quota.memory != usual.memory, "socket_max_memory"),
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
            peer_memory: MemifPeerMemory::Shared.into(),
            max_memory: 1 << 20,
            socket_max_descriptors: 100,
            socket_max_memory: 1 << 33,
            ..server()
        };
        let spec = MemifSpec::parse(&memif).unwrap();
        let Access { file, uids, gids, memory, max_memory, quota, .. } = &spec.access;
        assert_eq!((file.mode, &file.owner), (0o660, &Some(Account::Id(0))));
        assert_eq!(file.group, Some(Account::Name("pods".into())));
        assert_eq!((&uids[..], &gids[..], *memory), (&[3, 7][..], &[][..], MemifPeerMemory::Shared));
        assert_eq!((*max_memory, *quota), (1 << 20, SocketQuota { descriptors: 100, memory: 1 << 33 }));
        let written = spec.to_api();
        assert_eq!((written.socket_mode.as_str(), written.socket_owner.as_str()), ("", "0"));
        assert_eq!(MemifSpec::parse(&written).unwrap(), spec);
        let spec = MemifSpec::parse(&Memif { socket_mode: "0600".into(), ..server() }).unwrap();
        assert_eq!(spec.to_api().socket_mode, "0600");
    }

    #[test]
    fn what_is_not_said_is_as_documented() {
        let spec = MemifSpec::parse(&server()).unwrap();
        assert_eq!((spec.access.memory, spec.access.max_memory), (MemifPeerMemory::Sealed, 1 << 30));
        assert_eq!(spec.access.quota, SocketQuota { descriptors: 8192, memory: 1 << 38 });
        assert_eq!(spec.to_api().peer_memory, 0);
    }

    #[test]
    fn the_older_name_goes_on() {
        let any = Memif { allow_unsealed: true, ..server() };
        let spec = MemifSpec::parse(&any).unwrap();
        assert_eq!(spec.access.memory, MemifPeerMemory::Any);
        let written = spec.to_api();
        assert_eq!((written.allow_unsealed, written.peer_memory()), (false, MemifPeerMemory::Any));
        assert_eq!(MemifSpec::parse(&Memif { allow_unsealed: true, ..written }).unwrap(), spec);
        for other in [MemifPeerMemory::Sealed, MemifPeerMemory::Shared] {
            let both = Memif { peer_memory: other.into(), ..any.clone() };
            assert_eq!(MemifSpec::parse(&both).unwrap_err().field, "allow_unsealed");
        }
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
            (Memif { allow_unsealed: true, ..client.clone() }, "peer_memory"),
            (Memif { max_memory: 1 << 20, ..client.clone() }, "max_memory"),
            (Memif { socket_max_descriptors: 10, ..client.clone() }, "socket_max_descriptors"),
            (Memif { socket_max_memory: 1 << 20, ..client }, "socket_max_memory"),
            (Memif { peer_memory: 7, ..server() }, "peer_memory"),
            (Memif { max_memory: 4095, ..server() }, "max_memory"),
            (Memif { socket_max_descriptors: 1, ..server() }, "socket_max_descriptors"),
            (Memif { socket_max_memory: (1 << 46) + 1, ..server() }, "socket_max_memory"),
        ] {
            assert_eq!(MemifSpec::parse(&memif).unwrap_err().field, field, "{memif:?}");
        }
    }
}
