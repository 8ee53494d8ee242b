//! The settings file.

use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::files;
use crate::listener::socket::{MAX_PATH, SocketSettings};

use super::{
    CaptureMemory, Copying, Ipfix, Listen, RestartSeconds, SessionLimit, SettingsError, StuckSeconds,
};

/// Where the file is unless it is named.
pub const DEFAULT_PATH: &str = "/etc/quiver/quiverd.toml";

/// All settings; every one has a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where clients connect.
    pub api: Api,
    /// Where metrics are served.
    pub metrics: Metrics,
    /// Where health is served.
    pub health: Health,
    /// Where the desired state is kept.
    pub state: State,
    /// Which cores move packets, and how many sessions on each.
    #[serde(deserialize_with = "workers")]
    pub workers: Workers,
    /// What packets are kept in.
    pub memory: Memory,
    /// Who copies the bodies of packets.
    pub copy: Copying,
    /// What is logged and how.
    pub log: Log,
    /// Who is told of sessions.
    #[serde(deserialize_with = "super::ipfix::all")]
    pub ipfix: Vec<Ipfix>,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// Path of the unix socket.
    pub socket: PathBuf,
    /// Who may connect, as octal digits.
    pub socket_mode: SocketMode,
    /// Group of the socket, by name; none: that of the process.
    pub socket_group: Option<String>,
}

/// Permissions of a socket, written as octal digits: "0660".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SocketMode(pub u32);

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// "127.0.0.1:9477", "unix:/run/quiver/metrics.sock" or "off".
    pub listen: Listen,
}

/// Where health is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// As [`Metrics::listen`]; none: a unix socket beside the API's, [`Settings::health_listen`].
    pub listen: Option<Listen>,
}

/// Where the desired state is kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// The directory; made if it doesn't exist.
    pub directory: PathBuf,
}

/// Which cores move packets, and how many sessions on each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workers {
    /// How many; none: as many as cores are named, or 1.
    pub count: Option<usize>,
    /// On which cores; none: the highest this process may use.
    pub cores: Vec<usize>,
    /// How many sessions each may have.
    pub sessions: SessionLimit,
    /// After how long without the end of a round a worker is told of.
    pub stuck_seconds: StuckSeconds,
    /// After how long quiverd ends for it.
    pub restart_seconds: RestartSeconds,
}

fn workers<'de, D: Deserializer<'de>>(from: D) -> Result<Workers, D::Error> {
    let workers = Workers::deserialize(from)?;
    workers.restart_seconds.check(workers.stuck_seconds).map_err(D::Error::custom)?;
    Ok(workers)
}

/// What packets are kept in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Whether to use huge pages.
    pub huge_pages: HugePages,
    /// Memory of all captures, in MiB.
    pub captures_mib: CaptureMemory,
}

/// Whether to use huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    /// If there are any; else ordinary ones, and it is said.
    #[default]
    Try,
    /// Ordinary ones.
    Never,
    /// Don't start without.
    Require,
}

/// What is logged and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// "error", "warn", "info", "debug", "trace", or per module: "info,quiverd::control=debug".
    pub level: String,
    /// For people or for programs.
    pub format: LogFormat,
}

/// For whom logs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object per line.
    Json,
}

impl Default for Api {
    fn default() -> Self {
        Self {
            socket: api::client::DEFAULT_SOCKET.into(),
            socket_mode: SocketMode(0o660),
            socket_group: None,
        }
    }
}

impl Api {
    /// The socket.
    #[must_use]
    pub fn socket_settings(&self) -> SocketSettings<'_> {
        let group = self.socket_group.as_deref().map(|group| ("api.socket_group", group));
        SocketSettings { setting: "api.socket", path: &self.socket, mode: Some(self.socket_mode.0), group }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { listen: Listen::Tcp(([127, 0, 0, 1], 9477).into()) }
    }
}

impl Default for State {
    fn default() -> Self {
        Self { directory: "/var/lib/quiver".into() }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Text }
    }
}

impl TryFrom<String> for SocketMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match u32::from_str_radix(&text, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Self(mode)),
            _ => Err(format!("{text:?} is no mode; write three or four octal digits: \"0660\"")),
        }
    }
}

impl Settings {
    /// Where health is served: where the settings say so, else at a unix socket beside the API's:
    /// "/run/quiver/quiver-health.sock" beside "/run/quiver/quiver.sock". Off where its path would be too long.
    #[must_use]
    pub fn health_listen(&self) -> Listen {
        if let Some(listen) = &self.health.listen {
            return listen.clone();
        }
        let socket = &self.api.socket;
        let mut name = socket.file_stem().unwrap_or_default().to_owned();
        name.push("-health");
        if let Some(extension) = socket.extension() {
            name.push(".");
            name.push(extension);
        }
        let path = socket.with_file_name(name);
        if path.as_os_str().len() > MAX_PATH { Listen::Off } else { Listen::Unix(path) }
    }
}

/// Reads settings: those of `path`, or if that is `None` those of [`DEFAULT_PATH`], or if there is no such file the
/// defaults.
///
/// # Errors
/// [`SettingsError`] if the file can't be read or has a mistake.
pub fn load(path: Option<&Path>) -> Result<Settings, SettingsError> {
    let (path, must_exist) = match path {
        Some(path) => (path, true),
        None => (Path::new(DEFAULT_PATH), false),
    };
    let text = match files::read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => String::new(),
        Err(source) => return Err(SettingsError::Read { path: path.to_owned(), source }),
    };
    toml::from_str(&text)
        .map_err(|source| SettingsError::Parse { path: path.to_owned(), source: Box::new(source) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        load(Some(file.path()))
    }

    #[test]
    fn nothing_said_means_defaults() {
        assert_eq!(parse("").unwrap(), Settings::default());
    }

    #[test]
    fn the_commented_example_says_what_the_defaults_are() {
        let example = include_str!("../../../../deploy/systemd/quiverd.toml");
        assert_eq!(parse(example).unwrap(), Settings::default());
        // With the comment signs of its settings taken away it says the same.
        let uncommented = example
            .lines()
            .map(|line| {
                line.strip_prefix('#')
                    .filter(|rest| !rest.starts_with(' ') && !rest.is_empty())
                    .unwrap_or(line)
            })
            .collect::<Vec<_>>()
            .join("\n");
        let mut settings = parse(&uncommented).unwrap();
        assert_eq!(settings.api.socket_group.take().as_deref(), Some("quiver"));
        assert_eq!(
            (settings.workers.count.take(), std::mem::take(&mut settings.workers.cores)),
            (Some(1), vec![1])
        );
        assert_eq!(settings.copy.threshold.take(), Some(1024));
        let restart = std::mem::take(&mut settings.workers.restart_seconds);
        assert_eq!(
            restart.get(StuckSeconds::default()),
            RestartSeconds::default().get(StuckSeconds::default())
        );
        let [ipfix] = &settings.ipfix[..] else { panic!("{:?}", settings.ipfix) };
        let said = (ipfix.collector.to_string(), ipfix.source.map(|source| source.to_string()));
        assert_eq!(said, ("192.0.2.9:4739".into(), Some("192.0.2.1".into())));
        assert_eq!((ipfix.domain, ipfix.template_seconds.get(), ipfix.active_seconds), (0, 60, None));
        settings.ipfix.clear();
        let health = settings.health.listen.take();
        assert_eq!(health, Some(Settings::default().health_listen()));
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        for (text, parts) in [
            ("[worker]\ncount = 1", &["line 1", "worker", "workers"][..]),
            ("[workers]\ncuont = 1", &["line 2", "cuont", "count"]),
            ("[workers]\nsessions = 16777217", &["line 2", "workers.sessions is 16777217", "1 to 16777216"]),
            ("[workers]\nstuck_seconds = 1", &["line 2", "workers.stuck_seconds is 1", "2 to 3600"]),
            ("[workers]\nrestart_seconds = -1", &["line 2", "restart_seconds = -1"]),
            (
                "[workers]\nstuck_seconds = 30\nrestart_seconds = 10",
                &["workers.restart_seconds is 10", "workers.stuck_seconds 30", "take 30 or more"],
            ),
            ("[workers]\nrestart_seconds = 1", &["workers.restart_seconds is 1", "workers.stuck_seconds 2"]),
            ("[memory]\ncaptures_mib = 7", &["line 2", "memory.captures_mib is 7", "8 to 65536"]),
            ("[workers]\nsessions = 0", &["line 2", "workers.sessions is 0", "1 to 16777216"]),
            ("[workers]\nsessions = -1", &["line 2", "sessions = -1"]),
            ("[memory]\nhuge_pages = \"maybe\"", &["line 2", "maybe", "try", "never", "require"]),
            ("[metrics]\nlisten = \"everywhere\"", &["line 2", "everywhere", "127.0.0.1:9477"]),
            ("[copy]\nengine = \"gpu\"", &["line 2", "gpu", "cpu", "dsa", "dsa-model"]),
            ("[copy.model]\nsize = 0", &["line 2", "size = 0", "nonzero"]),
            ("[copy.model]\nerrors = 101", &["line 2", "101 is no percentage", "0 to 100"]),
            ("[copy.model]\nfull = 1000", &["line 2", "1000 is no percentage"]),
            ("[[ipfix]]\nsource = \"10.0.0.1\"", &["line 1", "collector"]),
            ("[[ipfix]]\ncollector = \"192.0.2.9\"", &["line 2", "192.0.2.9", "socket address"]),
            ("[[ipfix]]\ncollector = \"192.0.2.9:0\"", &["line 1", "nobody can listen at 192.0.2.9:0"]),
            (
                "[[ipfix]]\ncollector = \"[::1]:4739\"\n[[ipfix]]\ncollector = \"[::1]:4739\"",
                &["[::1]:4739 appears twice with domain 0"],
            ),
            (
                &"[[ipfix]]\ncollector = \"[::1]:4739\"\n".repeat(9),
                &["9 collectors are too many", "at most 8"],
            ),
            ("[[ipfix]]\ncollector = \"[::]:4739\"", &["nobody can listen at [::]:4739"]),
            (
                "[[ipfix]]\ncollector = \"192.0.2.9:4739\"\nsource = \"::1\"",
                &["::1 can't send", "same IP version"],
            ),
            ("[[ipfix]]\ncollector = \"192.0.2.9:4739\"\nactive_seconds = 0", &["line 3", "nonzero"]),
            ("[[ipfix]]\ncollector = \"192.0.2.9:4739\"\ntenant = \"red\"", &["line 3", "tenant", "tenants"]),
            ("[api]\nsocket_mode = \"rw\"", &["line 2", "octal"]),
        ] {
            let error = parse(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part:?} is missing in: {error}");
            }
        }
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let error = load(Some(Path::new("/nonexistent/quiverd.toml"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/quiverd.toml"), "{error}");
    }
}
