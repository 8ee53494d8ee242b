//! The health listener: a thread of its own, so that neither clients of the API nor scrapers keep probes waiting.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{oneshot, watch};

use crate::daemon::DaemonError;
use crate::http::{self, Endpoint, EndpointError};
use crate::listener::{Admission, Limits};
use crate::metrics::{Collector, HealthPages};
use crate::settings::Listen;

/// Limits of the health listener.
pub(crate) const LIMITS: Limits = Limits {
    connections: 32,
    connections_per_client: 8,
    calls: 32,
    calls_per_client: 8,
    scarce: &[],
    greeting: None,
};

/// Permissions of its socket: whoever reaches it may ask.
const MODE: u32 = 0o666;

/// Serves health until `stopped`; `None` where it is off.
///
/// # Errors
/// [`DaemonError`] if the listener can't be bound, or there is no thread.
pub(crate) async fn start(
    listen: Listen,
    admission: Arc<Admission>,
    collector: Arc<Collector>,
    mut stopped: watch::Receiver<bool>,
) -> Result<Option<JoinHandle<()>>, DaemonError> {
    if listen == Listen::Off {
        return Ok(None);
    }
    let system = |source| DaemonError::System { action: "start the health thread", source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
    let (tell, told) = oneshot::channel::<Result<(), EndpointError>>();
    let run = move || {
        runtime.block_on(async {
            let endpoint = match Endpoint::bind("health", "health.listen", &listen, Some(MODE)) {
                Ok(Some(endpoint)) => endpoint,
                other => return drop(tell.send(other.map(drop))),
            };
            let _ = tell.send(Ok(()));
            let stop = async {
                // An error means that the sender is gone, and with it everything else.
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            http::serve(endpoint, admission, Arc::new(HealthPages(collector)), stop).await;
        });
    };
    let thread = std::thread::Builder::new().name("health".into()).spawn(run).map_err(system)?;
    told.await.map_err(|_| system(io::Error::other("it ended")))??;
    Ok(Some(thread))
}
