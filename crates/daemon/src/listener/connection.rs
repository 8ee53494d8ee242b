//! A connection that can be closed from elsewhere.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedMutexGuard;
use tonic::transport::server::Connected;

use super::admission::{Admission, Busy, Call, Ticket};

/// Closes a connection.
#[derive(Debug, Default)]
pub(super) struct Closer {
    closed: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

impl Closer {
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.reader.wake();
        self.writer.wake();
    }

    /// An error once it is closed; until then `waker` is woken when it is.
    fn check(&self, waker: &AtomicWaker, context: &Context<'_>) -> io::Result<()> {
        waker.register(context.waker());
        match self.closed.load(Ordering::SeqCst) {
            true => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "closed: other clients need the room"))
            }
            false => Ok(()),
        }
    }
}

/// A connection of a listener. Reads and writes fail once [`Admission`] has closed it.
#[derive(Debug)]
pub struct Admitted<S> {
    stream: S,
    ticket: Ticket,
    spoke: bool,
}

impl<S> Admitted<S> {
    /// A connection with its ticket.
    pub fn new(stream: S, ticket: Ticket) -> Self {
        Self { stream, ticket, spoke: false }
    }

    /// The way to its limits.
    pub fn caller(&self) -> Caller {
        Caller { admission: Arc::clone(self.ticket.admission()), id: self.ticket.id() }
    }

    /// Notes that the client has sent its first request.
    pub fn speaks(&self) {
        self.ticket.spoke();
    }
}

/// The connection that a call came by.
#[derive(Debug, Clone)]
pub struct Caller {
    admission: Arc<Admission>,
    id: u64,
}

impl Caller {
    /// Begins a call of a method, which ends when the result is dropped.
    ///
    /// # Errors
    /// [`Busy`] where the client has too many.
    pub fn begin(&self, method: &str) -> Result<Call, Busy> {
        self.admission.begin(self.id, method)
    }

    /// Waits until no other call of the client has its turn; the turn ends when the result is dropped.
    pub async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        Some(self.admission.turn(self.id)?.lock_owned().await)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Admitted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let closer = self.ticket.closer();
        closer.check(&closer.reader, context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !self.spoke && buffer.filled().len() > before {
            self.spoke = true;
            self.ticket.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Admitted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let closer = self.ticket.closer();
        closer.check(&closer.writer, context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let closer = self.ticket.closer();
        closer.check(&closer.writer, context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closer = self.ticket.closer();
        closer.check(&closer.writer, context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S> Connected for Admitted<S> {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller()
    }
}
