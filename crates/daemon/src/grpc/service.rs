//! The service.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::client::MAX_MESSAGE;
use api::v1::quiver_server::{Quiver, QuiverServer};
use api::v1::{
    AclMatchRequest, AclMatchResponse, AclsRequest, AclsResponse, AdjacenciesRequest, AdjacenciesResponse,
    ApplyRequest, ApplyResponse, BridgesRequest, BridgesResponse, CaptureRequest, CaptureResponse,
    ClearCountersRequest, ClearCountersResponse, ClearSessionsRequest, ClearSessionsResponse, CopyRequest,
    CopyResponse, DropsRequest, DropsResponse, Event, ExplainRequest, ExplainResponse, FibRequest,
    FibResponse, GetRequest, GetResponse, GraphRequest, GraphResponse, InterfacesRequest, InterfacesResponse,
    JudgeSessionsRequest, JudgeSessionsResponse, MemifRequest, MemifResponse, NatRequest, NatResponse,
    NeighborsRequest, NeighborsResponse, PolicerState, PolicersRequest, PolicersResponse, RuntimeRequest,
    RuntimeResponse, SessionEventsRequest, SessionEventsResponse, SessionsRequest, SessionsResponse,
    TenantsRequest, TenantsResponse, TraceAddRequest, TraceAddResponse, TraceClearRequest,
    TraceClearResponse, TraceShowRequest, TraceShowResponse, VersionRequest, VersionResponse, VipsRequest,
    VipsResponse, WatchRequest,
};
use futures_util::StreamExt as _;
use tokio::net::UnixListener;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, Streaming};

use super::get::{Parts, get};
use super::inspect::{acls, fib, named, sessions, version, vips};
use super::limits::{Limited, STREAMS};
use super::watch::watch as events_of;
use crate::control::Handle;
use crate::dataplane::Inspect;
use crate::listener::{Admission, Admitted, Caller, Client};

/// Packets traced where a client doesn't say how many, and most it may say.
const DEFAULT_TRACE: u32 = 10;
const MAX_TRACE: u32 = 10_000;

/// How long no client is accepted after that has failed.
const RETRY: Duration = Duration::from_secs(1);

/// The service `Quiver`.
#[derive(Clone)]
pub struct Service {
    control: Handle,
    inspect: Arc<dyn Inspect>,
    /// Whether it is served no more.
    stopped: Arc<watch::Sender<bool>>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Service").field("control", &self.control).finish_non_exhaustive()
    }
}

impl Service {
    /// A service over the control thread and the packet engine.
    pub fn new(control: Handle, inspect: Arc<dyn Inspect>) -> Self {
        Self { control, inspect, stopped: Arc::default() }
    }

    /// A stream that doesn't end by itself ends when nobody serves it any more: its client is told so, and nobody waits for it.
    fn while_served<T>(&self, stream: impl Stream<Item = Result<T, Status>> + Send + 'static) -> Parts<T> {
        let mut stopped = self.stopped.subscribe();
        Box::pin(stream.take_until(Box::pin(async move {
            // An error means that the service is gone.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })))
    }
}

/// Serves until `stop` is done; calls that run then are finished, and streams of what happens end.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    service: Service,
    listener: UnixListener,
    admission: Arc<Admission>,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let stopped = Arc::clone(&service.stopped);
    let stop = async move {
        stop.await;
        stopped.send_replace(true);
    };
    let service = QuiverServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    tokio::spawn(Admission::expire(Arc::downgrade(&admission)));
    let clients = unhurried(UnixListenerStream::new(listener)).map(move |accepted| {
        let stream = accepted?;
        let ticket = admission.admit(Client::of_unix(&stream));
        io::Result::Ok(Admitted::new(stream, ticket))
    });
    tonic::transport::Server::builder()
        .max_concurrent_streams(STREAMS)
        .add_service(Limited(service))
        .serve_with_incoming_shutdown(clients, stop)
        .await
        .map_err(io::Error::other)
}

/// What is accepted. Where that fails, mostly there are too many open files: trying again at once would only burn the core.
fn unhurried<T>(incoming: impl Stream<Item = io::Result<T>>) -> impl Stream<Item = io::Result<T>> {
    incoming.then(|accepted| async {
        if let Err(error) = &accepted {
            tracing::warn!(%error, "can't accept a client");
            tokio::time::sleep(RETRY).await;
        }
        accepted
    })
}

/// Waits for the client's turn: the changes of one client follow each other, so that those of others come in between.
async fn turn(caller: Option<&Caller>) -> Option<OwnedMutexGuard<()>> {
    caller?.turn().await
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Quiver for Service {
    async fn apply(&self, request: Request<ApplyRequest>) -> Answer<ApplyResponse> {
        let _turn = turn(request.extensions().get()).await;
        Ok(Response::new(self.control.apply(request.into_inner()).await??))
    }

    async fn apply_stream(&self, request: Request<Streaming<ApplyRequest>>) -> Answer<ApplyResponse> {
        let caller = request.extensions().get::<Caller>().cloned();
        let mut parts = request.into_inner();
        let Some(mut whole) = parts.message().await? else {
            return Err(Status::invalid_argument("a batch has at least one message"));
        };
        while let Some(part) = parts.message().await? {
            whole.deletes.extend(part.deletes);
            if let Some(upserts) = part.upserts {
                whole.upserts.get_or_insert_default().extend(upserts);
            }
        }
        let _turn = turn(caller.as_ref()).await;
        Ok(Response::new(self.control.apply(whole).await??))
    }

    type GetStream = Parts<GetResponse>;

    async fn get(&self, request: Request<GetRequest>) -> Answer<Self::GetStream> {
        get(&request.into_inner(), self.control.view().await?).map(Response::new)
    }

    type WatchStream = Parts<Event>;

    async fn watch(&self, request: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        let events = events_of(&request.into_inner(), self.control.watch())?;
        Ok(Response::new(self.while_served(events)))
    }

    async fn interfaces(&self, request: Request<InterfacesRequest>) -> Answer<InterfacesResponse> {
        let name = request.into_inner().name;
        let interfaces = named("interface", &name, self.inspect.interfaces(), |interface| &interface.name)?;
        Ok(Response::new(InterfacesResponse { interfaces }))
    }

    async fn runtime(&self, _: Request<RuntimeRequest>) -> Answer<RuntimeResponse> {
        Ok(Response::new(self.inspect.runtime()))
    }

    async fn drops(&self, _: Request<DropsRequest>) -> Answer<DropsResponse> {
        Ok(Response::new(DropsResponse { drops: self.inspect.drops() }))
    }

    type FibStream = Parts<FibResponse>;

    async fn fib(&self, request: Request<FibRequest>) -> Answer<Self::FibStream> {
        fib(&request.into_inner(), Arc::clone(&self.inspect)).map(Response::new)
    }

    async fn adjacencies(&self, request: Request<AdjacenciesRequest>) -> Answer<AdjacenciesResponse> {
        let interface = request.into_inner().interface;
        if !interface.is_empty() {
            named("interface", &interface, self.inspect.interfaces(), |interface| &interface.name)?;
        }
        let mut adjacencies = self.inspect.adjacencies();
        adjacencies.retain(|adjacency| interface.is_empty() || adjacency.interface == interface);
        Ok(Response::new(AdjacenciesResponse { adjacencies }))
    }

    async fn neighbors(&self, request: Request<NeighborsRequest>) -> Answer<NeighborsResponse> {
        let interface = request.into_inner().interface;
        if !interface.is_empty() {
            named("interface", &interface, self.inspect.interfaces(), |interface| &interface.name)?;
        }
        let mut neighbors = self.inspect.neighbors();
        neighbors.retain(|neighbor| interface.is_empty() || neighbor.interface == interface);
        Ok(Response::new(NeighborsResponse { neighbors }))
    }

    async fn bridges(&self, request: Request<BridgesRequest>) -> Answer<BridgesResponse> {
        let name = request.into_inner().name;
        let bridges = named("bridge", &name, self.inspect.bridges(), |bridge| &bridge.name)?;
        Ok(Response::new(BridgesResponse { bridges }))
    }

    async fn tenants(&self, request: Request<TenantsRequest>) -> Answer<TenantsResponse> {
        let name = request.into_inner().name;
        let tenants = named("tenant", &name, self.inspect.tenants(), |tenant| &tenant.name)?;
        Ok(Response::new(TenantsResponse { tenants }))
    }

    async fn nat(&self, request: Request<NatRequest>) -> Answer<NatResponse> {
        let name = request.into_inner().name;
        let pools = named("NAT pool", &name, self.inspect.nat_pools(), |pool| &pool.name)?;
        Ok(Response::new(NatResponse { pools }))
    }

    async fn policers(&self, request: Request<PolicersRequest>) -> Answer<PolicersResponse> {
        let name = request.into_inner().name;
        let name_of = |state: &PolicerState| state.policer.clone().unwrap_or_default().name;
        let policers = self.inspect.policers().into_iter();
        let policers: Vec<_> = policers.filter(|state| name.is_empty() || name_of(state) == name).collect();
        if policers.is_empty() && !name.is_empty() {
            return Err(Status::not_found(format!("there is no policer {name:?}")));
        }
        Ok(Response::new(PolicersResponse { policers }))
    }

    type VipsStream = Parts<VipsResponse>;

    async fn vips(&self, request: Request<VipsRequest>) -> Answer<Self::VipsStream> {
        Ok(Response::new(vips(request.into_inner(), Arc::clone(&self.inspect))))
    }

    type AclsStream = Parts<AclsResponse>;

    async fn acls(&self, request: Request<AclsRequest>) -> Answer<Self::AclsStream> {
        Ok(Response::new(acls(request.into_inner(), Arc::clone(&self.inspect))))
    }

    async fn acl_match(&self, request: Request<AclMatchRequest>) -> Answer<AclMatchResponse> {
        Ok(Response::new(self.inspect.acl_match(request.get_ref())?))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Answer<ExplainResponse> {
        let (request, inspect) = (request.into_inner(), Arc::clone(&self.inspect));
        // It waits for a worker.
        let explained = tokio::task::spawn_blocking(move || inspect.explain(&request)).await;
        Ok(Response::new(explained.map_err(|error| Status::internal(error.to_string()))??))
    }

    type SessionsStream = Parts<SessionsResponse>;

    async fn sessions(&self, request: Request<SessionsRequest>) -> Answer<Self::SessionsStream> {
        Ok(Response::new(sessions(request.into_inner(), Arc::clone(&self.inspect))))
    }

    type SessionEventsStream = Parts<SessionEventsResponse>;

    async fn session_events(
        &self,
        request: Request<SessionEventsRequest>,
    ) -> Answer<Self::SessionEventsStream> {
        let (request, inspect) = (request.into_inner(), Arc::clone(&self.inspect));
        // It waits for workers.
        let events = tokio::task::spawn_blocking(move || inspect.session_events(&request)).await;
        let events = events.map_err(|error| Status::internal(error.to_string()))??;
        Ok(Response::new(self.while_served(ReceiverStream::new(events).map(Ok))))
    }

    async fn clear_sessions(&self, request: Request<ClearSessionsRequest>) -> Answer<ClearSessionsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let inspect = Arc::clone(&self.inspect);
        // It waits for workers.
        let ended = tokio::task::spawn_blocking(move || inspect.clear_sessions(&filter)).await;
        let ended = ended.map_err(|error| Status::internal(error.to_string()))??;
        Ok(Response::new(ClearSessionsResponse { ended }))
    }

    async fn judge_sessions(&self, request: Request<JudgeSessionsRequest>) -> Answer<JudgeSessionsResponse> {
        let (request, inspect) = (request.into_inner(), Arc::clone(&self.inspect));
        let verdict = request.verdict();
        let filter = request.filter.unwrap_or_default();
        // It waits for workers.
        let judged = tokio::task::spawn_blocking(move || inspect.judge_sessions(&filter, verdict)).await;
        let judged = judged.map_err(|error| Status::internal(error.to_string()))??;
        Ok(Response::new(JudgeSessionsResponse { judged }))
    }

    async fn memif(&self, request: Request<MemifRequest>) -> Answer<MemifResponse> {
        let name = request.into_inner().interface;
        let memifs = named("memif interface", &name, self.inspect.memifs(), |memif| &memif.interface)?;
        // One that was asked for by name is shown alone.
        let sockets = if name.is_empty() { self.inspect.memif_sockets() } else { Vec::new() };
        Ok(Response::new(MemifResponse { memifs, sockets }))
    }

    async fn copy(&self, _: Request<CopyRequest>) -> Answer<CopyResponse> {
        Ok(Response::new(self.inspect.copy()))
    }

    async fn graph(&self, _: Request<GraphRequest>) -> Answer<GraphResponse> {
        Ok(Response::new(self.inspect.graph()))
    }

    async fn version(&self, _: Request<VersionRequest>) -> Answer<VersionResponse> {
        Ok(Response::new(version(&*self.inspect, self.control.generation())))
    }

    async fn clear_counters(&self, request: Request<ClearCountersRequest>) -> Answer<ClearCountersResponse> {
        let mut which = request.into_inner();
        if which == ClearCountersRequest::default() {
            which = ClearCountersRequest { interfaces: true, runtime: true, drops: true, adjacencies: true };
        }
        self.inspect.clear_counters(&which);
        Ok(Response::new(ClearCountersResponse {}))
    }

    async fn trace_add(&self, request: Request<TraceAddRequest>) -> Answer<TraceAddResponse> {
        let TraceAddRequest { from, count } = request.into_inner();
        let count = if count == 0 { DEFAULT_TRACE } else { count };
        if count > MAX_TRACE {
            return Err(Status::invalid_argument(format!("count is {count}; take 1 to {MAX_TRACE}")));
        }
        self.inspect.trace_add(Some(from.as_str()).filter(|from| !from.is_empty()), count)?;
        Ok(Response::new(TraceAddResponse {}))
    }

    async fn trace_show(&self, request: Request<TraceShowRequest>) -> Answer<TraceShowResponse> {
        Ok(Response::new(self.inspect.trace_show(request.into_inner().limit)))
    }

    async fn trace_clear(&self, _: Request<TraceClearRequest>) -> Answer<TraceClearResponse> {
        self.inspect.trace_clear();
        Ok(Response::new(TraceClearResponse {}))
    }

    type CaptureStream = Parts<CaptureResponse>;

    async fn capture(&self, request: Request<CaptureRequest>) -> Answer<Self::CaptureStream> {
        let mut request = request.into_inner();
        if !(request.rx || request.tx || request.drop) {
            (request.rx, request.tx, request.drop) = (true, true, true);
        }
        let capture = self.inspect.capture(&request)?;
        Ok(Response::new(self.while_served(ReceiverStream::new(capture).map(Ok))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accept_that_fails_is_not_tried_again_at_once() {
        let tries = std::cell::Cell::new(0);
        let failing = std::iter::repeat_with(|| {
            tries.set(tries.get() + 1);
            Err::<(), _>(io::ErrorKind::OutOfMemory.into())
        });
        let mut incoming = std::pin::pin!(unhurried(tokio_stream::iter(failing)));
        let all = async { while incoming.next().await.is_some() {} };
        assert!(tokio::time::timeout(RETRY / 10, all).await.is_err());
        assert_eq!(tries.get(), 1);
    }
}
