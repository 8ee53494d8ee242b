//! Questions to the packet engine.

use std::sync::Arc;

use api::names::DEFAULT_VRF;
use api::v1::{
    AclState, AclsRequest, AclsResponse, FibEntry, FibRequest, FibResponse, SessionState, SessionsRequest,
    SessionsResponse, VersionResponse, VipState, VipsRequest, VipsResponse,
};
use tonic::Status;

use super::get::{Parts, in_parts};
use crate::dataplane::{FibQuery, FibSelection, Inspect};
use crate::model::fields;
use crate::version;

/// Of a list, the one with a name, or all of them if none is given.
pub(super) fn named<T>(
    what: &str,
    name: &str,
    all: Vec<T>,
    name_of: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Status> {
    if name.is_empty() {
        return Ok(all);
    }
    let found = all.into_iter().filter(|one| name_of(one) == name).collect::<Vec<_>>();
    if found.is_empty() {
        return Err(Status::not_found(format!("there is no {what} {name} in force")));
    }
    Ok(found)
}

/// The part of the forwarding table a client asked for.
pub(super) fn fib(request: &FibRequest, inspect: Arc<dyn Inspect>) -> Result<Parts<FibResponse>, Status> {
    let selection = match (request.prefix.as_str(), request.lookup.as_str()) {
        ("", "") => FibSelection::All,
        (prefix, "") => FibSelection::Exact(fields::network("prefix", prefix)?),
        ("", address) => FibSelection::Lookup(fields::address("lookup", address)?),
        _ => return Err(Status::invalid_argument("give a prefix or an address to look up, not both")),
    };
    let vrf = if request.vrf.is_empty() { DEFAULT_VRF } else { &request.vrf };
    let query = FibQuery { vrf: fields::name("vrf", vrf)?, selection };
    Ok(in_parts(
        move |each| inspect.fib(&query, each).map_err(Status::from),
        |entries: Vec<FibEntry>| FibResponse { entries },
    ))
}

/// The sessions a client asked for.
pub(super) fn sessions(request: SessionsRequest, inspect: Arc<dyn Inspect>) -> Parts<SessionsResponse> {
    let SessionsRequest { filter, limit } = request;
    let filter = filter.unwrap_or_default();
    let limit = if limit == 0 { u64::MAX } else { limit.into() };
    in_parts(
        move |each| {
            let mut sent = 0;
            let mut limited = |session: SessionState| {
                sent += 1;
                each(session) && sent < limit
            };
            inspect.sessions(&filter, &mut limited).map_err(Status::from)
        },
        |sessions: Vec<SessionState>| SessionsResponse { sessions },
    )
}

/// The lists of rules a client asked for.
pub(super) fn acls(request: AclsRequest, inspect: Arc<dyn Inspect>) -> Parts<AclsResponse> {
    in_parts(
        move |each| inspect.acl_rules(&request, each).map_err(Status::from),
        |acls: Vec<AclState>| AclsResponse { acls },
    )
}

/// The VIPs a client asked for.
pub(super) fn vips(request: VipsRequest, inspect: Arc<dyn Inspect>) -> Parts<VipsResponse> {
    in_parts(
        move |each| inspect.vips(&request.name, each).map_err(Status::from),
        |vips: Vec<VipState>| VipsResponse { vips },
    )
}

/// What runs here.
pub(super) fn version(inspect: &dyn Inspect, generation: u64) -> VersionResponse {
    let engine = inspect.engine();
    VersionResponse {
        version: version::VERSION.into(),
        commit: version::COMMIT.into(),
        profile: version::PROFILE.into(),
        rustc: version::RUSTC.into(),
        target: version::TARGET.into(),
        simd_tier: engine.simd_tier,
        pid: std::process::id(),
        uptime_seconds: version::uptime().as_secs_f64(),
        workers: engine.workers,
        memory: engine.memory,
        generation,
    }
}
