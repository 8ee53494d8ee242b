//! The same host as `echo`, as a task of a tokio runtime: it sleeps in the runtime's own event loop.
//!
//! ```text
//! cargo run -p memif --example async_echo -- client @quiver/demo 0
//! ```
//! With mio or a bare epoll it is the same: watch `Port::fd`, call `Port::poll`, and sleep no longer than it says.

mod answer;
mod common;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use answer::answer;
use memif::Mode;
use memif::app::{Batch, LinkEvent, Port, Progress};
use tokio::io::unix::AsyncFd;
use tokio::time::timeout_at;

/// A port and its descriptor in the runtime's event loop.
struct AsyncPort {
    port: Port,
    fd: AsyncFd<OwnedFd>,
}

impl AsyncPort {
    fn new(port: Port) -> io::Result<Self> {
        #[expect(deprecated, reason = "its successor asks for a promise that an OwnedFd keeps by itself")]
        let fd = AsyncFd::new(port.fd().try_clone_to_owned()?)?;
        Ok(Self { port, fd })
    }

    /// Sleeps until there may be something to receive, or something has happened to the link.
    async fn ready(&mut self) -> io::Result<Vec<LinkEvent>> {
        loop {
            let until = match self.port.poll().map_err(io::Error::other)? {
                Progress::Ready(events) => return Ok(events),
                Progress::Sleep(until) => until,
            };
            let readable = self.fd.readable();
            let woken = match until {
                Some(until) => timeout_at(until.into(), readable).await.ok(),
                None => Some(readable.await),
            };
            if let Some(guard) = woken {
                guard?.clear_ready();
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let opened = match &arguments[..] {
        [role, address, id] => common::open("async", Mode::Ethernet, [role, address, id]),
        _ => None,
    };
    let Some(port) = opened else {
        eprintln!("usage: async_echo {}   (ADDRESS: a path, or @name)", common::PORT);
        return ExitCode::from(2);
    };
    let port = port.map_err(io::Error::other).and_then(AsyncPort::new);
    let served = match port {
        // The runtime is free for other tasks while this one sleeps.
        Ok(port) => tokio::spawn(serve(port)).await.map_err(io::Error::other).and_then(|served| served),
        Err(error) => Err(error),
    };
    match served {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("async_echo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(mut port: AsyncPort) -> io::Result<std::convert::Infallible> {
    let mut batch = Batch::new(256);
    loop {
        for event in port.ready().await? {
            eprintln!("{event}");
        }
        // A peer that breaks the rules ends its connection, not this program.
        while port.port.receive(&mut batch).is_ok_and(|received| received > 0) {
            let answers: Vec<_> = batch.packets().filter_map(answer).collect();
            let _ = port.port.send(&answers);
        }
        tokio::task::yield_now().await;
    }
}
