//! Connecting to a running quiverd.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::v1::quiver_client::QuiverClient;

/// Where quiverd listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/quiver/quiver.sock";

/// Largest message either side accepts, in bytes. What is larger is sent in parts (`ApplyStream`, `Get`, `Fib`).
pub const MAX_MESSAGE: usize = 64 << 20;

/// A connection could not be made.
#[derive(Debug, thiserror::Error)]
#[error("can't reach quiverd at {socket}: {reason}. Is it running (systemctl status quiverd), and may you access the socket?", socket = .socket.display())]
pub struct ConnectError {
    /// The socket that was tried.
    pub socket: PathBuf,
    /// What the system said.
    pub reason: String,
}

/// Connects to the unix socket `socket`.
///
/// # Errors
/// [`ConnectError`] if nobody listens there or access is denied.
pub async fn connect(socket: impl AsRef<Path>) -> Result<QuiverClient<Channel>, ConnectError> {
    let socket = socket.as_ref().to_path_buf();
    let path = socket.clone();
    // tonic wants a URI; a unix socket has none, so this one is never looked up.
    let channel = Endpoint::from_static("http://quiverd.local")
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .map_err(|error| ConnectError { socket, reason: innermost(&error) })?;
    Ok(QuiverClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE))
}

/// The text of the error at the bottom of the chain: the one that says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}
