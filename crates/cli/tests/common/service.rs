//! The service: it keeps what it is sent and answers with what was recorded.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use api::v1::quiver_server::Quiver;
use api::v1::*;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::answers;

type Answer<T> = Result<Response<T>, Status>;
type Parts<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Batches that came.
    pub applied: Arc<Mutex<Vec<ApplyRequest>>>,
    /// Times interfaces were asked for: their counters grow with it.
    samples: AtomicU64,
}

impl Recorded {
    fn keep(&self, request: &ApplyRequest) {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    }
}

/// An answer of several messages.
fn parts<T: Send + 'static>(parts: Vec<T>) -> Parts<T> {
    Box::pin(tokio_stream::iter(parts.into_iter().map(Ok)))
}

#[tonic::async_trait]
impl Quiver for Recorded {
    type GetStream = Parts<GetResponse>;
    type WatchStream = Parts<Event>;
    type FibStream = Parts<FibResponse>;
    type CaptureStream = Parts<CaptureResponse>;
    type SessionEventsStream = Parts<SessionEventsResponse>;
    type SessionsStream = Parts<SessionsResponse>;
    type AclsStream = Parts<AclsResponse>;
    type VipsStream = Parts<VipsResponse>;

    async fn apply(&self, request: Request<ApplyRequest>) -> Answer<ApplyResponse> {
        let request = request.into_inner();
        self.keep(&request);
        if request.upserts.iter().flat_map(Config::object_refs).any(|object| object.name == "slow") {
            tokio::time::sleep(super::SLOW).await;
        }
        answers::apply(&request).map(Response::new)
    }

    async fn apply_stream(&self, request: Request<Streaming<ApplyRequest>>) -> Answer<ApplyResponse> {
        let mut stream = request.into_inner();
        let mut all = ApplyRequest { upserts: Some(Config::default()), ..ApplyRequest::default() };
        while let Some(part) = stream.message().await? {
            self.keep(&part);
            all.upserts.get_or_insert_default().extend(part.upserts.unwrap_or_default());
        }
        answers::apply(&all).map(Response::new)
    }

    async fn get(&self, request: Request<GetRequest>) -> Answer<Self::GetStream> {
        answers::get(&request.into_inner()).map(parts).map(Response::new)
    }

    async fn watch(&self, _: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        Err(Status::unimplemented("watch"))
    }

    async fn interfaces(&self, request: Request<InterfacesRequest>) -> Answer<InterfacesResponse> {
        let sample = self.samples.fetch_add(1, Ordering::Relaxed);
        answers::interfaces(&request.into_inner().name, sample).map(Response::new)
    }

    async fn runtime(&self, _: Request<RuntimeRequest>) -> Answer<RuntimeResponse> {
        Ok(Response::new(answers::runtime()))
    }

    async fn drops(&self, _: Request<DropsRequest>) -> Answer<DropsResponse> {
        Ok(Response::new(DropsResponse::default()))
    }

    async fn fib(&self, request: Request<FibRequest>) -> Answer<Self::FibStream> {
        Ok(Response::new(parts(answers::fib(&request.into_inner()))))
    }

    async fn adjacencies(&self, _: Request<AdjacenciesRequest>) -> Answer<AdjacenciesResponse> {
        Ok(Response::new(AdjacenciesResponse::default()))
    }

    async fn neighbors(&self, _: Request<NeighborsRequest>) -> Answer<NeighborsResponse> {
        Ok(Response::new(NeighborsResponse::default()))
    }

    async fn bridges(&self, _: Request<BridgesRequest>) -> Answer<BridgesResponse> {
        Ok(Response::new(BridgesResponse::default()))
    }

    async fn copy(&self, _: Request<CopyRequest>) -> Answer<CopyResponse> {
        Ok(Response::new(CopyResponse { engine: "cpu".into(), ..CopyResponse::default() }))
    }

    async fn tenants(&self, _: Request<TenantsRequest>) -> Answer<TenantsResponse> {
        Ok(Response::new(TenantsResponse::default()))
    }

    async fn nat(&self, _: Request<NatRequest>) -> Answer<NatResponse> {
        Ok(Response::new(NatResponse::default()))
    }

    async fn policers(&self, _: Request<PolicersRequest>) -> Answer<PolicersResponse> {
        Ok(Response::new(PolicersResponse::default()))
    }

    async fn vips(&self, _: Request<VipsRequest>) -> Answer<Self::VipsStream> {
        Ok(Response::new(parts(vec![VipsResponse::default()])))
    }

    async fn acls(&self, _: Request<AclsRequest>) -> Answer<Self::AclsStream> {
        Ok(Response::new(parts(vec![AclsResponse::default()])))
    }

    async fn explain(&self, _: Request<ExplainRequest>) -> Answer<ExplainResponse> {
        Ok(Response::new(ExplainResponse::default()))
    }

    async fn acl_match(&self, _: Request<AclMatchRequest>) -> Answer<AclMatchResponse> {
        Ok(Response::new(AclMatchResponse::default()))
    }

    async fn sessions(&self, request: Request<SessionsRequest>) -> Answer<Self::SessionsStream> {
        Ok(Response::new(parts(answers::sessions(&request.into_inner()))))
    }

    async fn session_events(
        &self,
        request: Request<SessionEventsRequest>,
    ) -> Answer<Self::SessionEventsStream> {
        Ok(Response::new(parts(answers::session_events(&request.into_inner()))))
    }

    async fn clear_sessions(&self, request: Request<ClearSessionsRequest>) -> Answer<ClearSessionsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        Ok(Response::new(ClearSessionsResponse { ended: if filter.tenant == "red" { 2 } else { 7 } }))
    }

    async fn judge_sessions(&self, request: Request<JudgeSessionsRequest>) -> Answer<JudgeSessionsResponse> {
        let request = request.into_inner();
        let drops = request.verdict() == SessionVerdict::DropRest;
        Ok(Response::new(JudgeSessionsResponse { judged: if drops { 1 } else { 2 } }))
    }

    async fn memif(&self, _: Request<MemifRequest>) -> Answer<MemifResponse> {
        Err(Status::unimplemented(""))
    }

    async fn graph(&self, _: Request<GraphRequest>) -> Answer<GraphResponse> {
        Ok(Response::new(answers::graph()))
    }

    async fn version(&self, _: Request<VersionRequest>) -> Answer<VersionResponse> {
        Ok(Response::new(VersionResponse {
            version: "0.0.1".into(),
            workers: 2,
            ..VersionResponse::default()
        }))
    }

    async fn clear_counters(&self, request: Request<ClearCountersRequest>) -> Answer<ClearCountersResponse> {
        let request = request.into_inner();
        if request.drops && !request.runtime && !request.interfaces {
            Ok(Response::new(ClearCountersResponse {}))
        } else {
            Err(Status::invalid_argument(format!("{request:?}")))
        }
    }

    async fn trace_add(&self, request: Request<TraceAddRequest>) -> Answer<TraceAddResponse> {
        match request.into_inner() {
            TraceAddRequest { from, count: 5 } if from == "pod-a" => Ok(Response::new(TraceAddResponse {})),
            other => Err(Status::not_found(format!("there is no node or interface {}", other.from))),
        }
    }

    async fn trace_show(&self, _: Request<TraceShowRequest>) -> Answer<TraceShowResponse> {
        Ok(Response::new(TraceShowResponse::default()))
    }

    async fn trace_clear(&self, _: Request<TraceClearRequest>) -> Answer<TraceClearResponse> {
        Ok(Response::new(TraceClearResponse {}))
    }

    async fn capture(&self, request: Request<CaptureRequest>) -> Answer<Self::CaptureStream> {
        // Like quiverd's, the stream stays open until the client goes.
        let packets = answers::capture(&request.into_inner());
        Ok(Response::new(Box::pin(parts(packets).chain(tokio_stream::pending()))))
    }
}
