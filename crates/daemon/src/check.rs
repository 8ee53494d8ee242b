//! What `quiverd --check` checks: all that a start would refuse, without a trace.

use std::net::SocketAddr;

use copy::{CopyOptions, Engines, SetupError};
use graph::simd::Tier;

use crate::daemon::DaemonError;
use crate::http::Endpoint;
use crate::listener::socket;
use crate::settings::{CopyEngine, Listen, Settings};
use crate::state::StateDirectory;

/// Settings that a start would refuse.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A listener or the state.
    #[error(transparent)]
    Daemon(Box<DaemonError>),
    /// The copy engine that is asked for isn't there.
    #[error("copy engine: {0}")]
    Copy(SetupError),
}

impl<E: Into<DaemonError>> From<E> for CheckError {
    fn from(error: E) -> Self {
        Self::Daemon(Box::new(error.into()))
    }
}

/// Two listeners at the same place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second} are both {place}: give each a place of its own, or set one to \"off\"")]
pub struct SamePlace {
    first: &'static str,
    second: &'static str,
    place: String,
}

/// Checks what a start needs of the system. What a running quiverd holds (sockets, ports, the state) is no error.
///
/// # Errors
/// [`CheckError`] if quiverd couldn't start with these settings.
pub fn check(settings: &Settings, cores: &[usize]) -> Result<(), CheckError> {
    places(settings)?;
    StateDirectory::check(&settings.state.directory)?;
    socket::check(&settings.api.socket_settings())?;
    Endpoint::check("metrics", "metrics.listen", &settings.metrics.listen)?;
    Endpoint::check("health", "health.listen", &settings.health_listen())?;
    if settings.copy.engine == CopyEngine::Dsa {
        // With a threshold nothing is measured.
        let options = CopyOptions { threshold: Some(1), ..settings.copy.options(cores) };
        Engines::open(&options, Tier::detect()).map_err(CheckError::Copy)?;
    }
    Ok(())
}

/// Checks that no two listeners are at the same place.
///
/// # Errors
/// [`SamePlace`].
pub fn places(settings: &Settings) -> Result<(), SamePlace> {
    let health = settings.health_listen();
    let places = [
        ("api.socket", Listen::Unix(settings.api.socket.clone())),
        ("metrics.listen", settings.metrics.listen.clone()),
        ("health.listen", health),
    ];
    for (at, (second, place)) in places.iter().enumerate() {
        if let Some((first, _)) = places.iter().take(at).find(|(_, other)| overlap(other, place)) {
            return Err(SamePlace { first, second, place: place.to_string() });
        }
    }
    Ok(())
}

fn overlap(one: &Listen, other: &Listen) -> bool {
    let wildcard = |address: &SocketAddr| address.ip().is_unspecified();
    match (one, other) {
        (Listen::Unix(one), Listen::Unix(other)) => one == other,
        (Listen::Tcp(one), Listen::Tcp(other)) => {
            let same = one.ip() == other.ip() || wildcard(one) || wildcard(other);
            one.port() == other.port() && one.port() != 0 && one.is_ipv4() == other.is_ipv4() && same
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(directory: &std::path::Path) -> Settings {
        let mut settings = Settings::default();
        settings.api.socket = directory.join("quiver.sock");
        settings.state.directory = directory.join("state");
        settings.metrics.listen = Listen::Off;
        settings
    }

    #[test]
    fn a_check_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        check(&settings(directory.path()), &[0]).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_start_refuses_a_check_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let unix = |path: &str| Listen::Unix(path.into());
        type Change = fn(&mut Settings);
        let changes: [(Change, &str); 8] = [
            (|settings| settings.api.socket = "".into(), "api.socket is empty"),
            (|settings| settings.api.socket = format!("/tmp/{}", "x".repeat(108)).into(), "113 bytes"),
            (|settings| settings.api.socket_group = Some("ghosts".into()), "api.socket_group"),
            (|settings| settings.state.directory = "".into(), "state.directory is empty"),
            (|settings| settings.state.directory = "/dev/null/state".into(), "/dev/null/state"),
            (|settings| settings.metrics.listen = Listen::Tcp(([192, 0, 2, 1], 1).into()), "192.0.2.1:1"),
            (|settings| settings.health.listen = Some(Listen::Unix("/proc/h.sock".into())), "/proc/h.sock"),
            (|settings| settings.copy.engine = CopyEngine::Dsa, "copy engine"),
        ];
        for (change, part) in changes {
            let mut settings = settings(directory.path());
            change(&mut settings);
            let error = check(&settings, &[0]).unwrap_err().to_string();
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
        let mut same = settings(directory.path());
        same.metrics.listen = unix("/run/x.sock");
        same.health.listen = Some(unix("/run/x.sock"));
        let error = check(&same, &[0]).unwrap_err().to_string();
        assert!(error.contains("metrics.listen and health.listen are both unix:/run/x.sock"), "{error}");
    }

    #[test]
    fn places_overlap_by_port() {
        let tcp = |text: &str| Listen::Tcp(text.parse().unwrap());
        assert!(overlap(&tcp("127.0.0.1:1"), &tcp("0.0.0.0:1")));
        assert!(!overlap(&tcp("127.0.0.1:1"), &tcp("127.0.0.2:1")));
        assert!(!overlap(&tcp("127.0.0.1:1"), &tcp("127.0.0.1:2")));
        assert!(!overlap(&tcp("0.0.0.0:1"), &tcp("[::]:1")));
        assert!(!overlap(&Listen::Off, &Listen::Off));
    }
}
