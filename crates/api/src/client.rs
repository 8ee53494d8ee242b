//! Connecting to a running quiverd.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message as _;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::v1::quiver_client::QuiverClient;
use crate::v1::{ApplyRequest, ApplyResponse, Config};

/// Where quiverd listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/quiver/quiver.sock";

/// Largest message either side accepts, in bytes. What is larger is sent in parts (`ApplyStream`, `Get`, `Fib`, `Vips`).
pub const MAX_MESSAGE: usize = 64 << 20;

/// A connection could not be made.
#[derive(Debug, thiserror::Error)]
#[error("can't reach quiverd at {socket}: {reason}. Is it running (systemctl status quiverd), and may you access the socket?", socket = .socket.display())]
pub struct ConnectError {
    /// The socket that was tried.
    pub socket: PathBuf,
    /// What the system said.
    pub reason: String,
    /// The same, for programs; none if it wasn't the system.
    pub kind: Option<io::ErrorKind>,
}

/// Connects to the unix socket `socket`.
///
/// # Errors
/// [`ConnectError`] if nobody listens there or access is denied.
pub async fn connect(socket: impl AsRef<Path>) -> Result<QuiverClient<Channel>, ConnectError> {
    connect_to(socket.as_ref(), endpoint()).await
}

/// Connects to the unix socket `socket`; a quiverd that hangs ends all calls, after `patience`, with an error of which
/// [`is_silence`] is true. One that works on a call may take as long as it likes.
///
/// It is asked all the time whether it is there (HTTP/2's PING), so something has to drive the connection all the time: a runtime
/// with a thread besides the one that waits for answers and may block elsewhere.
///
/// # Errors
/// [`ConnectError`] if nobody listens there or access is denied.
pub async fn connect_with_keepalive(
    socket: impl AsRef<Path>,
    patience: Duration,
) -> Result<QuiverClient<Channel>, ConnectError> {
    let interval = patience / 5;
    let endpoint = endpoint()
        .http2_keep_alive_interval(interval)
        .keep_alive_timeout(patience - interval)
        // Else the first call would have to be under way when the connection is driven for the first time.
        .keep_alive_while_idle(true);
    connect_to(socket.as_ref(), endpoint).await
}

/// Whether a call has ended since quiverd doesn't answer ([`connect_with_keepalive`]).
pub fn is_silence(status: &Status) -> bool {
    let mut source = Error::source(status);
    while let Some(error) = source {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout) {
            return true;
        }
        source = error.source();
    }
    false
}

/// tonic wants a URI; a unix socket has none, so this one is never looked up.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://quiverd.local")
}

async fn connect_to(socket: &Path, endpoint: Endpoint) -> Result<QuiverClient<Channel>, ConnectError> {
    let socket = socket.to_path_buf();
    let path = socket.clone();
    let channel = endpoint
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .map_err(|error| {
            let innermost = innermost(&error);
            let kind = innermost.downcast_ref::<io::Error>().map(io::Error::kind);
            ConnectError { socket, reason: innermost.to_string(), kind }
        })?;
    Ok(QuiverClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE))
}

/// Applies a batch of any size: in one message if it fits, else in parts.
///
/// # Errors
/// Those of the call; refused objects are no error but part of the answer.
pub async fn apply(
    client: &mut QuiverClient<Channel>,
    request: ApplyRequest,
) -> Result<ApplyResponse, Status> {
    if request.encoded_len() <= PART {
        return Ok(client.apply(request).await?.into_inner());
    }
    Ok(client.apply_stream(tokio_stream::iter(in_parts(request))).await?.into_inner())
}

/// Bytes of one part of a batch: some tens of thousands of routes.
const PART: usize = 4 << 20;

/// Splits the long lists of a batch; all the rest is in the first part.
fn in_parts(mut request: ApplyRequest) -> Vec<ApplyRequest> {
    let upserts = request.upserts.take().unwrap_or_default();
    let deletes = std::mem::take(&mut request.deletes);
    let mut parts = Parts { finished: vec![request], part: ApplyRequest::default(), bytes: 0 };
    let Config {
        vrfs,
        bridges,
        interfaces,
        routes,
        neighbors,
        tenants,
        nat_pools,
        policers,
        vips,
        acls,
        address_sets,
        endpoints,
    } = upserts;
    parts.put(vrfs, |part, vrf| part.upserts.get_or_insert_default().vrfs.push(vrf));
    parts.put(bridges, |part, bridge| part.upserts.get_or_insert_default().bridges.push(bridge));
    parts.put(interfaces, |part, interface| part.upserts.get_or_insert_default().interfaces.push(interface));
    parts.put(routes, |part, route| part.upserts.get_or_insert_default().routes.push(route));
    parts.put(neighbors, |part, neighbor| part.upserts.get_or_insert_default().neighbors.push(neighbor));
    parts.put(tenants, |part, tenant| part.upserts.get_or_insert_default().tenants.push(tenant));
    parts.put(nat_pools, |part, pool| part.upserts.get_or_insert_default().nat_pools.push(pool));
    parts.put(policers, |part, policer| part.upserts.get_or_insert_default().policers.push(policer));
    parts.put(vips, |part, vip| part.upserts.get_or_insert_default().vips.push(vip));
    parts.put(acls, |part, acl| part.upserts.get_or_insert_default().acls.push(acl));
    parts.put(address_sets, |part, address_set| {
        part.upserts.get_or_insert_default().address_sets.push(address_set)
    });
    parts.put(endpoints, |part, endpoint| part.upserts.get_or_insert_default().endpoints.push(endpoint));
    parts.put(deletes, |part, object| part.deletes.push(object));
    parts.finished.push(parts.part);
    parts.finished
}

struct Parts {
    finished: Vec<ApplyRequest>,
    part: ApplyRequest,
    bytes: usize,
}

impl Parts {
    fn put<T: prost::Message>(&mut self, things: Vec<T>, put: impl Fn(&mut ApplyRequest, T)) {
        for thing in things {
            self.bytes += thing.encoded_len();
            put(&mut self.part, thing);
            if self.bytes > PART {
                self.finished.push(std::mem::take(&mut self.part));
                self.bytes = 0;
            }
        }
    }
}

/// The error at the bottom of the chain: the one that says what happened.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Kind, ObjectRef, Route, Vrf};

    #[test]
    fn parts_are_small_and_together_the_whole() {
        let routes = (0..300_000).map(|number| Route { prefix: format!("{number:040}"), ..Route::default() });
        let upserts = Config {
            vrfs: vec![Vrf { name: "red".into(), ..Vrf::default() }],
            routes: routes.collect(),
            ..Config::default()
        };
        let whole = ApplyRequest {
            upserts: Some(upserts),
            deletes: vec![ObjectRef::new(Kind::Vrf, "blue")],
            expected_generation: Some(7),
            replace_all: true,
            ..ApplyRequest::default()
        };
        let mut parts = in_parts(whole.clone());
        assert!(parts.len() > 3);
        assert!(parts.iter().all(|part| part.encoded_len() < 2 * PART));
        let mut again = parts.remove(0);
        assert_eq!(
            (again.expected_generation, again.replace_all),
            (Some(7), true),
            "the first part says how"
        );
        for part in parts {
            again.deletes.extend(part.deletes);
            again.upserts.get_or_insert_default().extend(part.upserts.unwrap_or_default());
        }
        assert_eq!(again, whole);
    }
}
