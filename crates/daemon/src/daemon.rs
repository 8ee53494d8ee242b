//! The whole daemon: its parts put together, and taken apart in order.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::check::{self, SamePlace};
use crate::control::{self, ApplyError, Controller};
use crate::dataplane::{Dataplane, Inspect};
use crate::grpc::{self, Service};
use crate::health;
use crate::http::{self, Endpoint, EndpointError};
use crate::listener::socket::{self, SocketError};
use crate::listener::{Admission, Limits};
use crate::metrics::{Collector, MetricsPages};
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
    /// Two listeners are at the same place.
    #[error(transparent)]
    Places(#[from] SamePlace),
    /// Metrics or health can't be served.
    #[error(transparent)]
    Http(#[from] EndpointError),
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

/// Limits of the metrics listener.
const SCRAPERS: Limits = Limits {
    connections: 64,
    connections_per_client: 16,
    calls: 64,
    calls_per_client: 16,
    scarce: &[],
    greeting: None,
};

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
    check::places(settings)?;
    let mut state = StateDirectory::open(&settings.state.directory)?;
    let loaded = state.load()?;
    for warning in &loaded.warnings {
        tracing::error!(%warning, "the state on disk is not as it was left");
    }
    let mut socket = socket::bind(&settings.api.socket_settings())?;
    let metrics = Endpoint::bind("metrics", "metrics.listen", &settings.metrics.listen, None)?;
    let [api_clients, scrapers, probes] =
        [("api", grpc::LIMITS), ("metrics", SCRAPERS), ("health", health::LIMITS)]
            .map(|(listener, limits)| Admission::new(listener, limits));
    let listeners = [&api_clients, &scrapers, &probes].map(Arc::clone).to_vec();
    let collector = Arc::new(Collector::new(Arc::clone(&inspect)).with_listeners(listeners));
    let (stopping, stopped) = watch::channel(false);
    let health = settings.health_listen();
    let health = health::start(health, probes, Arc::clone(&collector), stopped.clone()).await?;

    let mut controller = Controller::new(dataplane, state);
    let sessions = take_sessions(&settings.state.directory).unwrap_or_else(|error| {
        tracing::error!(%error, "sessions to VIPs can't be read: they begin anew");
        Vec::new()
    });
    controller.go_on(sessions);
    controller.restore(loaded.snapshot)?;
    let (handle, thread) = control::start(controller).map_err(system("start the control thread"))?;

    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // An error means that the sender is gone, and with it everything else.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let looks = Arc::clone(&inspect);
    let service = Service::new(handle.clone(), inspect);
    let listener = socket.listener().map_err(system("listen on the API socket"))?;
    let mut api = tokio::spawn(grpc::serve(service, listener, api_clients, until_stopped(stopped.clone())));
    let metrics = metrics.map(|endpoint| {
        let pages = Arc::new(MetricsPages::new(collector, handle.clone()));
        tokio::spawn(http::serve(endpoint, scrapers, pages, until_stopped(stopped)))
    });
    tokio::spawn(notify::watchdog(handle.clone()));

    tracing::info!(
        socket = %settings.api.socket.display(), metrics = %settings.metrics.listen,
        health = %settings.health_listen(), "ready for clients"
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
    if let Some(health) = health {
        let _ = tokio::task::spawn_blocking(move || health.join()).await;
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
