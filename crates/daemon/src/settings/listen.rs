//! Where metrics are served.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Listen {
    /// Nowhere: "off".
    Off,
    /// On a TCP port: "127.0.0.1:9477", "[::]:9477".
    Tcp(SocketAddr),
    /// On a unix socket: "unix:/run/quiver/metrics.sock".
    Unix(PathBuf),
}

/// A text names no place to listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no place to listen; write \"127.0.0.1:9477\", \"unix:/run/quiver/metrics.sock\" or \"off\""
)]
pub struct ListenError(String);

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let error = || ListenError(text.to_owned());
        match text {
            "off" => Ok(Self::Off),
            _ => match text.strip_prefix("unix:") {
                Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
                Some(_) => Err(error()),
                None => text.parse().map(Self::Tcp).map_err(|_| error()),
            },
        }
    }
}

impl TryFrom<String> for Listen {
    type Error = ListenError;

    fn try_from(text: String) -> Result<Self, ListenError> {
        text.parse()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", api::escape::path(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written() {
        for text in ["off", "127.0.0.1:9477", "[::]:9477", "unix:/run/quiver/metrics.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", "9477", "localhost:9477", "unix:metrics.sock", "/run/m.sock"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }
}
