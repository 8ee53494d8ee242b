//! Answering HTTP clients.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::endpoint::{Endpoint, Stream};
use super::request;
use crate::listener::{Admission, Admitted};

/// From the connection to the end of the request's head.
const HEAD: Duration = Duration::from_secs(2);
/// From there to the last byte of the answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long no client is accepted after that has failed.
const RETRY: Duration = Duration::from_secs(1);

/// An answer.
#[derive(Debug, Clone)]
pub struct Page {
    /// "200 OK".
    pub status: &'static str,
    /// The text.
    pub body: Arc<str>,
}

/// What is served.
pub trait Pages: Send + Sync + 'static {
    /// The page of a path; `None` where there is none.
    fn page(self: Arc<Self>, path: String) -> impl Future<Output = io::Result<Option<Page>>> + Send;
    /// What there is instead of a page that there isn't.
    const MISSING: &'static str;
}

impl Page {
    /// A text that never changes.
    pub fn new(status: &'static str, body: &str) -> Self {
        Self { status, body: body.into() }
    }
}

/// Answers clients until `stop` is done. Every client is accepted at once; the [`Admission`] closes others where there
/// are too many.
pub async fn serve(
    endpoint: Endpoint,
    admission: Arc<Admission>,
    pages: Arc<impl Pages>,
    stop: impl Future<Output = ()>,
) {
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return,
            accepted = endpoint.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                let connection = Admitted::new(stream, admission.admit(client));
                let pages = Arc::clone(&pages);
                tokio::spawn(async move {
                    let answered = answer(connection, pages).await;
                    tracing::trace!(?answered, "answered an HTTP client");
                });
            }
            Err(error) => {
                // Mostly too many open files: trying again at once would only burn the core.
                tracing::warn!(listener = admission.listener(), %error, "can't accept a client");
                tokio::select! {
                    () = &mut stop => return,
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
        }
    }
}

async fn answer(mut connection: Admitted<Box<dyn Stream>>, pages: Arc<impl Pages>) -> io::Result<()> {
    let Some(request) = timeout(HEAD, request::read(&mut connection)).await?? else { return Ok(()) };
    connection.speaks();
    let Ok(_call) = connection.caller().begin("GET") else { return Ok(()) };
    timeout(ANSWER, respond(&mut connection, &request, pages)).await?
}

async fn respond<P: Pages>(
    connection: &mut (impl AsyncWrite + Unpin),
    request: &str,
    pages: Arc<P>,
) -> io::Result<()> {
    let page = match request.split(' ').collect::<Vec<_>>()[..] {
        ["GET" | "HEAD", path, _] => {
            let page = pages.page(path.to_owned()).await?;
            page.unwrap_or_else(|| Page::new("404 Not Found", P::MISSING))
        }
        [_, _, _] => Page::new("405 Method Not Allowed", "only GET is understood\n"),
        _ => Page::new("400 Bad Request", "no HTTP request\n"),
    };
    let Page { status, body } = page;
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
