//! Connecting to a running quiverd.

use std::path::{Path, PathBuf};

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
}

/// Connects to the unix socket `socket`.
///
/// # Errors
/// [`ConnectError`] if nobody listens there or access is denied.
pub async fn connect(socket: impl AsRef<Path>) -> Result<QuiverClient<Channel>, ConnectError> {
    let socket = socket.as_ref().to_path_buf();
    let path = socket.clone();
    // tonic wants a URI; a unix socket has none, so this one is never looked up.
    let channel = Endpoint::from_static("http://quiverd.local")
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .map_err(|error| ConnectError { socket, reason: innermost(&error) })?;
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

/// The text of the error at the bottom of the chain: the one that says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
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
