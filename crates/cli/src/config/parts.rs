//! Batches too large for one message.

use api::v1::{ApplyRequest, ApplyResponse, Config};

use crate::context::Client;
use crate::error::{Doing, Error};

/// Objects per message: a route takes some 50 bytes, so this stays far below the limit of 64 MiB for all but
/// monstrous objects.
const PART: usize = 20_000;

/// Sends a batch, in one message or in several.
pub(super) async fn send(
    client: &mut Client,
    request: ApplyRequest,
    doing: &str,
) -> Result<ApplyResponse, Error> {
    if request.upserts.as_ref().map_or(0, Config::len) <= PART {
        return client.apply(request).await.doing(doing);
    }
    client.apply_stream(tokio_stream::iter(split(request, PART))).await.doing(doing)
}

/// Takes a batch apart: the first message has all that isn't an object to create.
fn split(mut request: ApplyRequest, size: usize) -> Vec<ApplyRequest> {
    let config = request.upserts.take().unwrap_or_default();
    let mut parts = vec![Config::default()];
    spread(config.vrfs, size, &mut parts, |part| &mut part.vrfs);
    spread(config.bridges, size, &mut parts, |part| &mut part.bridges);
    spread(config.interfaces, size, &mut parts, |part| &mut part.interfaces);
    spread(config.routes, size, &mut parts, |part| &mut part.routes);
    spread(config.neighbors, size, &mut parts, |part| &mut part.neighbors);
    spread(config.tenants, size, &mut parts, |part| &mut part.tenants);
    spread(config.nat_pools, size, &mut parts, |part| &mut part.nat_pools);
    spread(config.policers, size, &mut parts, |part| &mut part.policers);
    spread(config.vips, size, &mut parts, |part| &mut part.vips);
    spread(config.acls, size, &mut parts, |part| &mut part.acls);
    spread(config.address_sets, size, &mut parts, |part| &mut part.address_sets);
    spread(config.endpoints, size, &mut parts, |part| &mut part.endpoints);

    let mut requests = parts
        .into_iter()
        .map(|part| ApplyRequest { upserts: Some(part), ..ApplyRequest::default() })
        .collect::<Vec<_>>();
    if let Some(first) = requests.first_mut() {
        request.upserts = first.upserts.take();
        *first = request;
    }
    requests
}

/// Appends the objects of one kind to the last part, beginning another whenever it is full.
fn spread<T>(objects: Vec<T>, size: usize, parts: &mut Vec<Config>, list: fn(&mut Config) -> &mut Vec<T>) {
    let mut objects = objects.into_iter().peekable();
    while objects.peek().is_some() {
        if parts.last().is_none_or(|part| part.len() >= size) {
            parts.push(Config::default());
        }
        if let Some(part) = parts.last_mut() {
            let room = size - part.len();
            list(part).extend(objects.by_ref().take(room));
        }
    }
}

#[cfg(test)]
mod tests {
    use api::v1::{Route, Vrf};

    use super::*;

    #[test]
    fn parts_are_full_and_together_they_are_the_batch() {
        let routes = (0..7).map(|n| Route { prefix: format!("10.{n}.0.0/16"), ..Route::default() });
        let config = Config { vrfs: vec![Vrf::default(); 2], routes: routes.collect(), ..Config::default() };
        let request = ApplyRequest {
            upserts: Some(config.clone()),
            replace_all: true,
            expected_generation: Some(3),
            ..ApplyRequest::default()
        };
        let parts = split(request, 4);
        let sizes = parts.iter().map(|part| part.upserts.as_ref().unwrap().len()).collect::<Vec<_>>();
        assert_eq!(sizes, [4, 4, 1]);
        assert!(parts[0].replace_all && !parts[1].replace_all);
        assert_eq!(parts[0].expected_generation, Some(3));
        let mut together = Config::default();
        parts.into_iter().for_each(|part| together.extend(part.upserts.unwrap()));
        assert_eq!(together, config);
    }
}
