//! A server of `quiver.v1` on a unix socket in a temporary folder, and the program run against it.
#![allow(clippy::unwrap_used, missing_docs, dead_code)] // helpers of tests; no test file uses all of them

mod answers;
mod service;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::v1::ApplyRequest;
use api::v1::quiver_server::QuiverServer;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;

use service::Recorded;

/// Longer than `quiver` waits for a quiverd that says nothing.
pub const SLOW: Duration = Duration::from_secs(7);

/// Sessions of the tenant "many" that have ended: more than pipes and sockets hold.
pub const MANY_EVENTS: usize = 30_000;

/// A server and the folder its socket is in. It ends with the test.
pub struct Server {
    folder: TempDir,
    applied: Arc<Mutex<Vec<ApplyRequest>>>,
    _runtime: tokio::runtime::Runtime,
}

/// What the program said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Server {
    /// Listens in a new folder.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let service = Recorded::default();
        let applied = Arc::clone(&service.applied);
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(folder.path().join("quiver.sock")).unwrap()
        };
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(QuiverServer::new(service).max_decoding_message_size(api::client::MAX_MESSAGE))
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Self { folder, applied, _runtime: runtime }
    }

    /// Path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder.
    pub fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Runs `quiver` against this server.
    pub fn quiver(&self, words: &[&str]) -> Ran {
        self.quiver_with_input(words, "")
    }

    /// Runs `quiver` with something on standard input.
    pub fn quiver_with_input(&self, words: &[&str], input: &str) -> Ran {
        let path = self.file(".input", input);
        let output = quiver()
            .env("QUIVER_SOCKET", self.path("quiver.sock"))
            .args(words)
            .stdin(std::fs::File::open(path).unwrap())
            .output()
            .unwrap();
        ran(output)
    }

    /// Batches the server was sent; the parts of a stream one by one.
    pub fn applied(&self) -> Vec<ApplyRequest> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The program, without the surroundings of the test.
pub fn quiver() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quiver"));
    command.env_remove("QUIVER_SOCKET").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// What came of it.
pub fn ran(output: Output) -> Ran {
    Ran {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
