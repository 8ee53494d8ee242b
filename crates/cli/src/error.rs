//! What can go wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use api::escape;
use api::v1::ApplyResponse;
use tonic::{Code, Status};

use crate::config::InputError;
use crate::context::PATIENCE;
use crate::exit::Exit;

/// A command could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers on the socket.
    #[error("can't reach quiverd at {socket}: {reason}: {remedy}", socket = .socket.display())]
    Unreachable {
        /// The socket that was tried.
        socket: PathBuf,
        /// What the system said.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Somebody listens on the socket, and says nothing.
    #[error(
        "{doing}: quiverd at {socket} doesn't answer (within {patience} s): it hangs, or isn't let run; look at its log \
         (journalctl -u quiverd), and restart it (systemctl restart quiverd)",
        socket = .socket.display(),
        patience = PATIENCE.as_secs()
    )]
    Silent {
        /// The command.
        doing: String,
        /// Where it was asked.
        socket: PathBuf,
    },
    /// quiverd answered with an error.
    #[error("{doing}: {}", explain(.status))]
    Daemon {
        /// The command, in the words of the user: "show memif".
        doing: String,
        /// The answer.
        status: Box<Status>,
    },
    /// quiverd has ended while something was watched.
    #[error("{doing}: quiverd has ended; start it again (systemctl start quiverd), and watch anew")]
    Ended {
        /// The command.
        doing: &'static str,
    },
    /// A file with objects can't be used.
    #[error("{0}")]
    Input(#[from] InputError),
    /// Something that was asked for by name isn't there.
    #[error("there is no {0}; quiver get lists what there is")]
    NotFound(String),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// An answer has no form in the chosen language.
    #[error("the answer {0}")]
    Text(#[from] api::text::TextError),
    /// The answer couldn't be written as JSON.
    #[error("can't write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A file can't be written.
    #[error("can't write {path}: {source}; choose another place", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Output or input failed.
    #[error("can't write the output: {0}")]
    Output(io::Error),
    /// The terminal can't be used.
    #[error("{0}")]
    Terminal(String),
    /// The reference doesn't say what the program does.
    #[error(
        "{path} isn't what the commands say (first at line {line}); write it anew: quiver reference --write {path}",
        path = .path.display()
    )]
    Stale {
        /// The file.
        path: PathBuf,
        /// First line that differs, counted from 1.
        line: usize,
    },
}

impl Error {
    /// Tells silence of quiverd from its answers, and where it was asked.
    pub(crate) fn asked_at(self, socket: &Path) -> Self {
        match self {
            Self::Daemon { doing, status } if api::client::is_silence(&status) => {
                Self::Silent { doing, socket: socket.to_owned() }
            }
            other => other,
        }
    }

    /// The message in plain characters, and in one line unless it shows its place in a file.
    pub fn printed(&self) -> String {
        let text = self.to_string();
        let escaped = match self {
            Self::Input(InputError::Syntax { .. }) => escape::lines(&text),
            _ => escape::text(&text),
        };
        escaped.into_owned()
    }

    /// The exit status that tells scripts what happened.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Unreachable { .. } | Self::Silent { .. } | Self::Ended { .. } => Exit::Unreachable,
            Self::Daemon { status, .. } if is_broken(status) => Exit::Unreachable,
            Self::Daemon { status, .. } => match status.code() {
                Code::NotFound => Exit::NotFound,
                Code::Aborted => Exit::Conflict,
                Code::Unavailable => Exit::Unreachable,
                Code::InvalidArgument => Exit::Refused,
                _ => Exit::Failed,
            },
            Self::Input(_) => Exit::Input,
            Self::NotFound(_) => Exit::NotFound,
            Self::Usage(_) | Self::Terminal(_) => Exit::Usage,
            Self::Stale { .. } => Exit::Differs,
            Self::Text(_) | Self::Json(_) | Self::Write { .. } | Self::Output(_) => Exit::Failed,
        }
    }
}

/// Whether it isn't quiverd that says so: the connection to it has gone.
fn is_broken(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// What quiverd said, with a remedy where its words can't have one.
fn explain(status: &Status) -> String {
    let said = status.message();
    match status.code() {
        _ if is_broken(status) => format!("quiverd went away ({said}); see its log (journalctl -u quiverd)"),
        Code::Unimplemented => {
            format!("this quiverd doesn't know that; compare versions with quiver show version ({said})")
        }
        Code::Unavailable => format!("quiverd went away: {said}; see its log (journalctl -u quiverd)"),
        Code::Aborted => format!("{said}; look at quiver diff and try again"),
        Code::OutOfRange | Code::ResourceExhausted | Code::Internal if said.is_empty() => {
            format!("quiverd failed ({}); see its log (journalctl -u quiverd)", status.code())
        }
        _ if said.is_empty() => status.code().to_string(),
        _ => said.to_owned(),
    }
}

/// Names the command in errors of quiverd.
pub(crate) trait Doing<T> {
    /// Unpacks the answer; an error gets the words of the command put before it.
    fn doing(self, what: &str) -> Result<T, Error>;
}

/// An answer of quiverd that is an error, with the words of the command put before it.
fn daemon(doing: &str) -> impl FnOnce(Status) -> Error {
    move |status| Error::Daemon { doing: doing.to_owned(), status: Box::new(status) }
}

impl<T> Doing<T> for Result<tonic::Response<T>, Status> {
    fn doing(self, what: &str) -> Result<T, Error> {
        self.map(tonic::Response::into_inner).map_err(daemon(what))
    }
}

impl<T> Doing<Option<T>> for Result<Option<T>, Status> {
    fn doing(self, what: &str) -> Result<Option<T>, Error> {
        self.map_err(daemon(what))
    }
}

impl Doing<ApplyResponse> for Result<ApplyResponse, Status> {
    fn doing(self, what: &str) -> Result<ApplyResponse, Error> {
        self.map_err(daemon(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(status: Status) -> Error {
        Error::Daemon { doing: "show memif".into(), status: Box::new(status) }
    }

    #[test]
    fn answers_of_quiverd_become_exit_statuses() {
        for (status, exit) in [
            (Status::not_found("no interface pod-x"), Exit::NotFound),
            (Status::aborted("generation is 7, not 5"), Exit::Conflict),
            (Status::unavailable("broken pipe"), Exit::Unreachable),
            (Status::invalid_argument("count is 0"), Exit::Refused),
            (Status::resource_exhausted("no space"), Exit::Failed),
            (Status::unimplemented(""), Exit::Failed),
        ] {
            assert_eq!(daemon(status.clone()).exit(), exit, "{status}");
        }
    }

    /// As tonic tells of a connection that broke: it keeps what it heard of it.
    #[test]
    fn a_connection_that_breaks_means_that_quiverd_went_away() {
        let broken = Status::from_error(Box::new(io::Error::from(io::ErrorKind::BrokenPipe)));
        assert!(!broken.message().is_empty());
        let error = daemon(broken);
        assert_eq!(error.exit(), Exit::Unreachable);
        assert!(error.to_string().starts_with("show memif: quiverd went away ("), "{error}");
        assert_eq!(Error::Ended { doing: "watch session" }.exit(), Exit::Unreachable);
    }

    #[test]
    fn messages_name_the_command_and_a_remedy() {
        assert_eq!(
            daemon(Status::aborted("generation is 7, not 5")).to_string(),
            "show memif: generation is 7, not 5; look at quiver diff and try again"
        );
        assert_eq!(
            daemon(Status::not_found("no interface pod-x")).to_string(),
            "show memif: no interface pod-x"
        );
        assert!(daemon(Status::unimplemented("")).to_string().contains("compare versions"));
    }
}
