//! Where HTTP clients connect.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::listener::Client;
use crate::listener::socket::{self, BoundSocket, SocketError, SocketSettings};
use crate::settings::Listen;

/// An HTTP endpoint can't be served.
#[derive(Debug, thiserror::Error)]
#[error("can't serve {what} on {listen}: {source}; set {setting} to another place or \"off\"")]
pub struct EndpointError {
    what: &'static str,
    setting: &'static str,
    listen: Listen,
    source: EndpointFault,
}

#[derive(Debug, thiserror::Error)]
enum EndpointFault {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Where HTTP clients connect.
#[derive(Debug)]
pub enum Endpoint {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a unix socket.
    Unix(UnixListener, Option<BoundSocket>),
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Endpoint {
    /// Listens; `None` if it is off. A unix socket that a predecessor left behind is replaced; a live one isn't, nor
    /// what is none. `mode`: permissions of a unix socket. Needs a runtime.
    ///
    /// # Errors
    /// [`EndpointError`] if the port or the socket is taken or not ours.
    pub fn bind(
        what: &'static str,
        setting: &'static str,
        listen: &Listen,
        mode: Option<u32>,
    ) -> Result<Option<Self>, EndpointError> {
        let bound = || -> Result<Option<Self>, EndpointFault> {
            match listen {
                Listen::Off => Ok(None),
                Listen::Tcp(address) => {
                    let listener = std::net::TcpListener::bind(address)?;
                    listener.set_nonblocking(true)?;
                    Ok(Some(Self::Tcp(TcpListener::from_std(listener)?)))
                }
                Listen::Unix(path) => {
                    let mut socket = socket::bind(&SocketSettings { setting, path, mode, group: None })?;
                    Ok(Some(Self::Unix(socket.listener()?, Some(socket))))
                }
            }
        };
        bound().map_err(|source| EndpointError { what, setting, listen: listen.clone(), source })
    }

    /// Checks what [`Endpoint::bind`] would need. A port or socket that is served is no error: it may be our own.
    ///
    /// # Errors
    /// [`EndpointError`] if that couldn't succeed.
    pub fn check(what: &'static str, setting: &'static str, listen: &Listen) -> Result<(), EndpointError> {
        let checked = match listen {
            Listen::Off => Ok(()),
            Listen::Tcp(address) => check_tcp(*address).map_err(EndpointFault::from),
            Listen::Unix(path) => check_unix(setting, path).map_err(EndpointFault::from),
        };
        checked.map_err(|source| EndpointError { what, setting, listen: listen.clone(), source })
    }

    /// The next client.
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Client)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Box::new(stream), Client::of_tcp(peer)))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let client = Client::of_unix(&stream);
                Ok((Box::new(stream), client))
            }
        }
    }
}

fn check_unix(setting: &'static str, path: &Path) -> Result<(), SocketError> {
    socket::check(&SocketSettings { setting, path, mode: None, group: None })
}

fn check_tcp(address: SocketAddr) -> io::Result<()> {
    match std::net::TcpListener::bind(address) {
        Err(error) if error.raw_os_error() != Some(Errno::ADDRINUSE.raw_os_error()) => Err(error),
        _ => Ok(()),
    }
}
