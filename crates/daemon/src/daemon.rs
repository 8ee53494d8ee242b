//! The whole daemon: its parts put together, and taken apart in order.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::control::{self, ApplyError, Controller};
use crate::dataplane::{Dataplane, Inspect};
use crate::grpc::{self, Service, SocketError};
use crate::metrics::{self, Collector, MetricsError, MetricsListener};
use crate::notify;
use crate::settings::Settings;
use crate::state::{StateDirectory, StateError, take_sessions, write_sessions};

/// The daemon can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The state can't be kept or read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The socket can't be served.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Metrics can't be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The state from disk can't be brought back.
    #[error("can't restore the state: {0}")]
    Restore(#[from] ApplyError),
    /// The system refused.
    #[error("can't {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The control thread ended by itself.
    #[error("the control thread has ended; the log says why")]
    Control,
}

/// How long clients may take to finish when we stop.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs until `stop` gives a reason to. Clients can connect only after the state from disk is in force.
///
/// # Errors
/// [`DaemonError`].
pub async fn run(
    settings: &Settings,
    dataplane: Box<dyn Dataplane>,
    inspect: Arc<dyn Inspect>,
    stop: impl Future<Output = &'static str>,
) -> Result<(), DaemonError> {
    let system = |action| move |source| DaemonError::System { action, source };
    let mut state = StateDirectory::open(&settings.state.directory)?;
    let loaded = state.load()?;
    for warning in &loaded.warnings {
        tracing::error!("{warning}");
    }
    let mut socket = grpc::bind(&settings.api)?;
    let metrics = MetricsListener::bind(&settings.metrics.listen).await?;

    let mut controller = Controller::new(dataplane, state);
    let sessions = take_sessions(&settings.state.directory).unwrap_or_else(|error| {
        tracing::error!(%error, "sessions to VIPs can't be read: they begin anew");
        Vec::new()
    });
    controller.go_on(sessions);
    controller.restore(loaded.snapshot)?;
    let (handle, thread) = control::start(controller).map_err(system("start the control thread"))?;

    let (stopping, stopped) = watch::channel(false);
    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // An error means that the sender is gone, and with it everything else.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let looks = Arc::clone(&inspect);
    let service = Service::new(handle.clone(), Arc::clone(&inspect));
    let listener = socket.listener().map_err(system("listen on the API socket"))?;
    let mut api = tokio::spawn(grpc::serve(service, listener, until_stopped(stopped.clone())));
    let metrics = metrics.map(|listener| {
        let collector = Arc::new(Collector::new(inspect));
        tokio::spawn(metrics::serve(listener, collector, handle.clone(), until_stopped(stopped)))
    });
    tokio::spawn(notify::watchdog(handle.clone()));

    tracing::info!(
        socket = %settings.api.socket.display(), metrics = %settings.metrics.listen, "ready for clients"
    );
    notify::ready(&format!("serving {}", settings.api.socket.display()));

    let result = tokio::select! {
        reason = stop => {
            tracing::info!(reason, "stopping");
            Ok(())
        }
        served = &mut api => match served {
            Ok(Err(source)) => Err(DaemonError::System { action: "serve the API", source }),
            Ok(Ok(())) | Err(_) => Err(DaemonError::Control),
        },
        () = ended(&handle) => Err(DaemonError::Control),
    };
    notify::stopping();
    drop(socket);
    // An error means that nobody serves any more.
    let _ = stopping.send(true);
    // Whoever is slow to read an answer isn't waited for.
    if !api.is_finished() && tokio::time::timeout(FAREWELL, &mut api).await.is_err() {
        api.abort();
    }
    if let Some(metrics) = metrics {
        // It leaves its loop at once and removes its socket. An error means that it is gone already.
        let _ = metrics.await;
    }
    // Last of all: what begins until then is among them.
    let directory = settings.state.directory.clone();
    // An error means that it panicked, and has said so.
    let _ = tokio::task::spawn_blocking(move || keep_sessions(&directory, &*looks)).await;
    handle.stop();
    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
    match joined {
        Ok(Ok(())) => result,
        Ok(Err(_)) | Err(_) => Err(DaemonError::Control),
    }
}

/// Writes the sessions with which the next process goes on.
fn keep_sessions(directory: &Path, inspect: &dyn Inspect) {
    let sessions = inspect.kept_sessions();
    match write_sessions(directory, &sessions) {
        Ok(()) => tracing::info!(sessions = sessions.len(), "sessions to VIPs are kept"),
        Err(error) => tracing::error!(%error, "sessions to VIPs can't be kept"),
    }
}

/// Returns when the control thread has ended, which it should not do by itself.
async fn ended(handle: &control::Handle) {
    while handle.ping().await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
