//! What a command needs around it: the socket, the terminal.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use api::escape;
use api::v1::quiver_client::QuiverClient;
use tonic::transport::Channel;

use crate::cli::Global;
use crate::error::Error;
use crate::render::Paint;

/// A connection to quiverd.
pub(crate) type Client = QuiverClient<Channel>;

/// How long quiverd may say nothing at all, not even that it is there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Surroundings of a command.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where quiverd listens.
    pub(crate) socket: PathBuf,
    /// Colours for standard output.
    pub(crate) paint: Paint,
    /// Whether standard output is a terminal.
    pub(crate) terminal: bool,
}

impl Context {
    /// From the options of the command line.
    pub(crate) fn new(global: &Global) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            socket: global.socket.clone(),
            paint: Paint::new(global.color.decide(terminal, std::env::var_os("NO_COLOR"))),
            terminal,
        }
    }

    /// Connects to quiverd.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with what to do about it.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let connected = api::client::connect_with_keepalive(&self.socket, PATIENCE).await;
        connected.map_err(|error| Error::Unreachable {
            remedy: remedy(error.kind),
            socket: error.socket,
            reason: error.reason,
        })
    }

    /// Writes to standard output.
    ///
    /// # Errors
    /// [`Error::Output`] for a full disk and the like, also if whoever reads has stopped (`| head`).
    pub(crate) fn print(&self, text: &str) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Output)
    }

    /// Writes a remark to standard error. Nothing can be done if that fails.
    pub(crate) fn remark(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", escape::lines(text));
    }
}

/// What to do when the socket can't be connected to.
fn remedy(kind: Option<ErrorKind>) -> &'static str {
    match kind {
        Some(ErrorKind::PermissionDenied) => "run quiver as root or as a member of the socket's group",
        Some(ErrorKind::NotFound) => {
            "is it running? (systemctl start quiverd); does it listen elsewhere? (--socket or QUIVER_SOCKET)"
        }
        Some(ErrorKind::ConnectionRefused) => "it has ended; start it again (systemctl start quiverd)",
        // Those who wait to be accepted are as many as may.
        Some(ErrorKind::WouldBlock) => "it hangs; restart it (systemctl restart quiverd)",
        Some(_) => "is it running? (systemctl start quiverd)",
        // It accepts connections but doesn't speak gRPC.
        None => "something else may listen there, or quiverd is just starting: try again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_socket_is_named_with_what_to_do() {
        let context = Context {
            socket: PathBuf::from("/nonexistent/quiver.sock"),
            paint: Paint::new(false),
            terminal: false,
        };
        let error = context.connect().await.unwrap_err();
        assert_eq!(error.exit(), crate::Exit::Unreachable);
        assert_eq!(
            error.to_string(),
            "can't reach quiverd at /nonexistent/quiver.sock: No such file or directory (os error 2): is it \
             running? (systemctl start quiverd); does it listen elsewhere? (--socket or QUIVER_SOCKET)"
        );
    }
}
