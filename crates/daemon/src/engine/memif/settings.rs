//! What the configuration says, as the memif library wants it.

use std::sync::Arc;

use ::memif::control::Text;
use ::memif::io::{Address, ListenerSettings};
use ::memif::region::{HugePages, RegionError, SealPolicy};
use ::memif::ring::Signals;
use ::memif::{Admission, ClientConfig, Mode, Pool, QueueConfig, Reason, RingSize, Secret, ServerConfig};
use api::v1::{MemifMode, MemifPeerMemory};

use super::accounts;
use crate::model::Flaw;
use crate::model::spec::{Access, MemifSpec, SocketName};

/// Memory regions of a peer. One is usual, a pool of packet buffers has some; more would let a few peers use up the places of the
/// guard that all share.
const REGIONS: u16 = 16;
/// Memory that a peer which left it empty makes quiverd pay for: a few such peers, with quiverd's own memory, within the limit that the
/// chart gives it.
const HOLES: u64 = 256 << 20;

/// How the memory and the signals of all links are made.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) huge_pages: HugePages,
    pub(super) signals: Signals,
}

/// A client interface, with the buffers of its trust group.
///
/// # Errors
/// [`Flaw`] for a secret that is too long.
pub(super) fn client(
    name: &str,
    spec: &MemifSpec,
    made: &Made,
    pool: Option<Arc<Pool>>,
) -> Result<ClientConfig, Flaw> {
    let queues = QueueConfig {
        rx_queues: spec.rx_queues as u16,
        tx_queues: spec.tx_queues as u16,
        ring_size: spec.ring(),
        buffer_size: spec.buffer_size,
        huge_pages: made.huge_pages,
        pool,
        ..QueueConfig::default()
    };
    let (mode, secret, signals) = (mode(spec), secret(spec)?, made.signals.clone());
    Ok(ClientConfig { id: spec.id, mode, secret, name: name.into(), queues, signals })
}

/// A server interface.
///
/// # Errors
/// [`Flaw`] for a secret that is too long.
pub(super) fn server(name: &str, spec: &MemifSpec, made: &Made) -> Result<ServerConfig, Flaw> {
    Ok(ServerConfig {
        mode: mode(spec),
        secret: secret(spec)?,
        name: name.into(),
        max_regions: REGIONS,
        max_holes: HOLES,
        max_rx_queues: spec.rx_queues as u16,
        max_tx_queues: spec.tx_queues as u16,
        max_ring_size: spec.ring(),
        admission: admission(&spec.access),
        seals: match spec.access.memory {
            MemifPeerMemory::Any => SealPolicy::Allow,
            MemifPeerMemory::Shared => SealPolicy::Shared,
            MemifPeerMemory::Sealed | MemifPeerMemory::Unspecified => SealPolicy::Require,
        },
        max_memory: spec.access.max_memory,
        signals: made.signals.clone(),
        ..ServerConfig::default()
    })
}

fn mode(spec: &MemifSpec) -> Mode {
    match spec.mode {
        MemifMode::Ip => Mode::Ip,
        MemifMode::PuntInject => Mode::PuntInject,
        MemifMode::Ethernet | MemifMode::Unspecified => Mode::Ethernet,
    }
}

fn secret(spec: &MemifSpec) -> Result<Option<Secret>, Flaw> {
    let secret = (!spec.secret.is_empty()).then(|| Secret::new(&spec.secret)).transpose();
    secret.map_err(|error| Flaw::new("memif.secret", error.to_string()).remedy("use at most 24 bytes"))
}

pub(super) fn address(socket: &SocketName) -> Address {
    match socket {
        SocketName::Path(path) => Address::path(path),
        SocketName::Abstract { name, netns } => {
            let address = Address::abstract_name(name);
            netns.as_deref().map_or(address.clone(), |netns| address.in_netns(netns))
        }
    }
}

pub(super) fn socket_flaw(socket: &SocketName, error: &::memif::InterfaceError) -> Flaw {
    Flaw::new("memif.socket", format!("{socket}: {}", error.cause))
        .remedy("see that its directory or network namespace exists and may be used")
}

pub(super) fn listener(access: &Access) -> Result<ListenerSettings, Flaw> {
    let Access { file, quota, .. } = access;
    Ok(ListenerSettings {
        max_descriptors: quota.descriptors as usize,
        max_memory: quota.memory,
        name: "quiver".into(),
        mode: file.mode,
        owner: file.owner.as_ref().map(accounts::user).transpose()?,
        group: file.group.as_ref().map(accounts::group).transpose()?,
        threaded: true,
        ..ListenerSettings::default()
    })
}

fn admission(access: &Access) -> Admission {
    Admission {
        uids: access.uids.clone(),
        gids: access.gids.clone(),
        pid_namespace: access.pid_namespace.clone().map(Into::into),
    }
}

/// What a peer is told whose interface is deleted.
pub(super) fn deleted() -> Reason {
    Reason::Local(Text::new("interface deleted"))
}

/// What the operator can do about a peer that is turned away, where a setting of the interface is the reason.
pub(super) fn remedy(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::Region(RegionError::Unsealed) => {
            Some("peer_memory = \"any\" takes such memory, of a peer that may keep a worker waiting")
        }
        // What is sealed against writing can't be taken at all.
        Reason::Region(RegionError::Unsealable) => {
            Some("peer_memory = \"shared\" takes such memory, of a peer that may keep a worker waiting")
        }
        Reason::RingSize { log2, max } if max < log2 && *max < RingSize::MAX.log2() => {
            Some("a larger ring_size, or none, lets it have such rings")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use api::v1::{Memif, MemifPeerMemory, MemifRole};

    use super::*;

    fn made() -> Made {
        Made { huge_pages: HugePages::Never, signals: Signals::Direct }
    }

    #[test]
    fn rings_are_as_large_as_is_said() {
        for (ring_size, offered, asked) in [(0, 16_384, 1024), (1024, 1024, 1024), (64, 64, 64)] {
            let spec = |role: MemifRole| {
                let memif = Memif { socket: "@pod".into(), role: role.into(), ring_size, ..Memif::default() };
                MemifSpec::parse(&memif).unwrap()
            };
            let most = server("pod", &spec(MemifRole::Server), &made()).unwrap().max_ring_size;
            let own = client("pod", &spec(MemifRole::Client), &made(), None).unwrap().queues.ring_size;
            assert_eq!((most.descriptors(), own.descriptors()), (offered, asked));
        }
    }

    /// Where the protocol allows no larger ones either, no setting helps.
    #[test]
    fn who_has_rings_too_large_for_the_setting_is_told_of_it() {
        assert!(remedy(&Reason::RingSize { log2: 9, max: 8 }).unwrap().contains("ring_size"));
        for (log2, max) in [(15, 14), (0, 8)] {
            assert_eq!(remedy(&Reason::RingSize { log2, max }), None);
        }
    }

    #[test]
    fn what_a_client_may_have_is_as_configured() {
        let configured = |memif: Memif| {
            let spec = MemifSpec::parse(&Memif { socket: "@pod".into(), ..memif }).unwrap();
            (server("pod", &spec, &made()).unwrap(), listener(&spec.access).unwrap())
        };
        let (server, listener) = configured(Memif::default());
        let usual = (ServerConfig::default(), ListenerSettings::default());
        assert_eq!((server.max_memory, server.seals), (usual.0.max_memory, SealPolicy::Require));
        let quota = |settings: &ListenerSettings| (settings.max_descriptors, settings.max_memory);
        assert_eq!(quota(&listener), quota(&usual.1));
        for (memory, seals) in [
            (MemifPeerMemory::Sealed, SealPolicy::Require),
            (MemifPeerMemory::Shared, SealPolicy::Shared),
            (MemifPeerMemory::Any, SealPolicy::Allow),
        ] {
            let (server, listener) = configured(Memif {
                peer_memory: memory.into(),
                max_memory: 1 << 20,
                socket_max_descriptors: 100,
                socket_max_memory: 1 << 22,
                ..Memif::default()
            });
            assert_eq!((server.max_memory, server.seals), (1 << 20, seals));
            assert_eq!(quota(&listener), (100, 1 << 22));
        }
    }
}
