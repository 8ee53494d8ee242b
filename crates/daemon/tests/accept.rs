//! Clients that can't be accepted for want of descriptors. One test: the limit is the process's.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use common::{Glass, World};
use quiverd::control::{self, Controller};
use quiverd::grpc::{self, Service};
use quiverd::http::{self, Endpoint};
use quiverd::listener::Admission;
use quiverd::metrics::{Collector, MetricsPages};
use quiverd::state::StateDirectory;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::UnixListener;
use tokio::sync::oneshot;

/// Has a server fail to accept, and then tells it to stop: at once, not when it would try again.
async fn stops_at_once<S: Future>(
    serve: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) -> S,
) -> S::Output {
    let (stop, stopped) = oneshot::channel();
    let before = getrlimit(Resource::Nofile);
    let lowest = File::open("/dev/null").unwrap().as_raw_fd();
    setrlimit(Resource::Nofile, Rlimit { current: u64::try_from(lowest).ok(), ..before }).unwrap();
    let refused = File::open("/dev/null").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    let mut serving = pin!(serve(Box::pin(async { stopped.await.unwrap() })));
    // Polled before the time is looked at: by then it has failed.
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut serving).await.is_err(), "it tries again");
    stop.send(()).unwrap();
    let done = tokio::time::timeout(Duration::ZERO, serving).await.unwrap();
    setrlimit(Resource::Nofile, before).unwrap();
    done
}

#[tokio::test]
async fn a_failed_accept_holds_up_nobody_who_stops() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(&directory.path().join("state")).unwrap();
    let (control, thread) =
        control::start(Controller::new(Box::new(World::default().referee()), state)).unwrap();
    let inspect = Arc::new(Glass::default());
    let collector = Arc::new(Collector::new(inspect.clone()));
    let [scrapers, callers] = ["metrics", "api"].map(|listener| Admission::new(listener, grpc::LIMITS));
    let [api, scrapes] = ["quiver.sock", "metrics.sock"].map(|name| directory.path().join(name));
    let [listens, scraped] = [&api, &scrapes].map(|path| UnixListener::bind(path).unwrap());
    let clients = [&api, &scrapes].map(|path| UnixStream::connect(path).unwrap());

    let pages = Arc::new(MetricsPages::new(collector, control.clone()));
    stops_at_once(|stop| http::serve(Endpoint::Unix(scraped, None), scrapers, pages, stop)).await;
    let service = Service::new(control.clone(), inspect);
    stops_at_once(|stop| grpc::serve(service, listens, callers, stop)).await.unwrap();
    drop(clients);
    control.stop();
    thread.join().unwrap();
}
