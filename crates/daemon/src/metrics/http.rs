//! As much HTTP/1.1 as a scraper speaks.

use std::fs;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use super::Collector;
use crate::control::Handle;
use crate::grpc;
use crate::settings::Listen;

/// A request of a scraper has some hundred bytes.
const MAX_REQUEST: usize = 8 << 10;
/// From the first byte of the request to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Scrapes at a time; more wait.
const CONNECTIONS: usize = 8;

/// Metrics can't be served.
#[derive(Debug, thiserror::Error)]
#[error("can't serve metrics on {listen}: {source}; set metrics.listen to another place or \"off\"")]
pub struct MetricsError {
    listen: Listen,
    source: io::Error,
}

/// Where scrapers connect.
#[derive(Debug)]
pub enum MetricsListener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a unix socket, whose file goes when this is dropped.
    Unix(UnixListener, PathBuf),
}

impl MetricsListener {
    /// Listens; `None` if metrics are off. A unix socket that a predecessor left behind is replaced; a live one isn't, nor what is none.
    ///
    /// # Errors
    /// [`MetricsError`] if the port or the socket is taken or not ours.
    pub async fn bind(listen: &Listen) -> Result<Option<Self>, MetricsError> {
        let error = |source| MetricsError { listen: listen.clone(), source };
        match listen {
            Listen::Off => Ok(None),
            Listen::Tcp(address) => Ok(Some(Self::Tcp(TcpListener::bind(address).await.map_err(error)?))),
            Listen::Unix(path) => {
                grpc::check_free(path).map_err(|reason| error(io::Error::other(reason)))?;
                match fs::remove_file(path) {
                    Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error(source)),
                    _ => {}
                }
                Ok(Some(Self::Unix(UnixListener::bind(path).map_err(error)?, path.clone())))
            }
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix(listener, _) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Drop for MetricsListener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // It may be gone with its directory.
            let _ = fs::remove_file(path);
        }
    }
}

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

/// Answers scrapers until `stop` is done.
pub async fn serve(
    listener: MetricsListener,
    collector: Arc<Collector>,
    control: Handle,
    stop: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            // Also where all connections are silent: whoever waits for this has sessions to keep.
            biased;
            () = &mut stop => return,
            accepted = async {
                let permit = Arc::clone(&permits).acquire_owned().await;
                (permit, listener.accept().await)
            } => accepted,
        };
        match accepted {
            // Nobody closes the semaphore.
            (Err(_), _) => return,
            (Ok(permit), Ok(connection)) => {
                let (collector, control) = (Arc::clone(&collector), control.clone());
                tokio::spawn(async move {
                    let answered =
                        tokio::time::timeout(PATIENCE, answer(connection, collector, control)).await;
                    tracing::trace!(?answered, "scrape");
                    drop(permit);
                });
            }
            (_, Err(error)) => {
                // Mostly too many open files: trying again at once would only burn the core.
                tracing::warn!(%error, "can't accept a scraper");
                tokio::select! {
                    () = &mut stop => return,
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            }
        }
    }
}

/// Status and words of what is wrong with the workers.
fn health(collector: &Collector) -> (&'static str, String) {
    let (faults, helps) = (collector.faults(), collector.restart_helps());
    match faults.join("\n") {
        none if none.is_empty() => ("200 OK", "ok\n".to_owned()),
        words if helps => ("503 Service Unavailable", words + "\n"),
        words => ("200 OK", format!("a restart would not help: {words}\n")),
    }
}

async fn answer(
    mut connection: Box<dyn Connection>,
    collector: Arc<Collector>,
    control: Handle,
) -> io::Result<()> {
    let Some(request) = request(&mut connection).await? else { return Ok(()) };
    let (status, body) = match request.split(' ').collect::<Vec<_>>()[..] {
        ["GET" | "HEAD", path, _] if path == "/metrics" || path.starts_with("/metrics?") => {
            let view = control.view().await.ok();
            let body = tokio::task::spawn_blocking(move || collector.collect(view.as_ref())).await;
            ("200 OK", body.map_err(io::Error::other)?)
        }
        ["GET" | "HEAD", "/healthz", _] => {
            let health = tokio::task::spawn_blocking(move || health(&collector)).await;
            health.map_err(io::Error::other)?
        }
        ["GET" | "HEAD", _, _] => {
            ("404 Not Found", "metrics are at /metrics, and health at /healthz\n".to_owned())
        }
        [_, _, _] => ("405 Method Not Allowed", "only GET is understood\n".to_owned()),
        _ => ("400 Bad Request", "no HTTP request\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await?;
    if !request.starts_with("HEAD ") {
        connection.write_all(body.as_bytes()).await?;
    }
    connection.shutdown().await
}

/// The first line of a request, once its head is complete; `None` if it is too long or breaks off.
async fn request(connection: &mut Box<dyn Connection>) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = connection.read(&mut buffer).await?;
        if read == 0 || head.len() + read > MAX_REQUEST {
            return Ok(None);
        }
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            return Ok(Some(String::from_utf8_lossy(line).into_owned()));
        }
    }
}
