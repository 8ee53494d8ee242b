//! How long a running quiverd takes for the change of a single route, from the call to the answer:
//! `cargo run --release -p quiver-api --example apply_time -- GATEWAY [changes] [socket]`
//!
//! A route to 198.18.0.0/24 (RFC 2544) by GATEWAY comes and goes, in turn. When the answer comes, workers see the change, and it is kept on disk.

use std::error::Error;
use std::time::Instant;

use api::client::{DEFAULT_SOCKET, connect};
use api::v1::{ApplyRequest, Config, Kind, NextHop, ObjectRef, Route};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let gateway = words.next().ok_or("whose address does the route lead to?")?;
    let changes: usize = words.next().map_or(Ok(101), |word| word.parse())?;
    let socket = words.next().unwrap_or_else(|| DEFAULT_SOCKET.into());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut client = connect(socket).await?;
        let route = Route {
            prefix: "198.18.0.0/24".into(),
            next_hops: vec![NextHop { address: gateway, ..NextHop::default() }],
            ..Route::default()
        };
        let comes = ApplyRequest {
            upserts: Some(Config { routes: vec![route], ..Config::default() }),
            terse: true,
            ..ApplyRequest::default()
        };
        let goes = ApplyRequest {
            deletes: vec![ObjectRef { kind: Kind::Route.into(), name: "default/198.18.0.0/24".into() }],
            terse: true,
            ..ApplyRequest::default()
        };
        for (what, request) in [("comes", &comes), ("goes", &goes)] {
            let other = if what == "comes" { &goes } else { &comes };
            let mut took = Vec::new();
            for _ in 0..changes {
                client.apply(other.clone()).await?;
                let start = Instant::now();
                client.apply(request.clone()).await?;
                took.push(start.elapsed());
            }
            took.sort_unstable();
            let at = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64() * 1e3;
            println!(
                "a route {what}: median {:.2} ms, 90 % within {:.2} ms, longest {:.2} ms",
                at(50),
                at(90),
                at(100)
            );
        }
        client.apply(goes).await?;
        Ok(())
    })
}
