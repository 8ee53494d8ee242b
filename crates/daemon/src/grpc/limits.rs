//! Calls within the limits of the API's listener.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use crate::listener::{Call, Caller, Limits};

/// Calls of one connection; clients queue more by themselves (SETTINGS_MAX_CONCURRENT_STREAMS of HTTP/2).
pub(super) const STREAMS: u32 = 32;

/// Limits of the API. A call may hold a thread that waits for its client, and some messages.
pub const LIMITS: Limits = Limits {
    connections: 256,
    connections_per_client: 64,
    calls: 128,
    calls_per_client: 32,
    // A capture has memory and costs workers time; so does a watch, of which there are 16 in all.
    scarce: &[("Capture", 16), ("SessionEvents", 8)],
    greeting: Some(Duration::from_secs(10)),
};

/// A service whose calls count until their answers have been sent.
#[derive(Debug, Clone)]
pub(super) struct Limited<S>(pub(super) S);

impl<S: NamedService> NamedService for Limited<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Limited<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        // "/quiver.v1.Quiver/Get".
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        let begun = request.extensions().get::<Caller>().map(|caller| caller.begin(method)).transpose();
        let call = match begun {
            Ok(call) => call,
            Err(busy) => {
                let refused = tonic::Status::resource_exhausted(busy.to_string()).into_http();
                return Box::pin(async { Ok(refused) });
            }
        };
        let answered = self.0.call(request);
        Box::pin(async move { Ok(answered.await?.map(|body| Body::new(Answer { body, _call: call }))) })
    }
}

/// The body of an answer, with the call that ends with it.
struct Answer {
    body: Body,
    _call: Option<Call>,
}

impl HttpBody for Answer {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
