//! Looking into the engine: counters and tables, without holding up workers.

mod adjacencies;
mod baseline;
mod bridges;
mod copying;
mod drops;
mod explain;
mod fib;
mod graph;
mod interfaces;
mod memifs;
mod neighbors;
mod runtime;
pub(super) mod sessions;
mod trace;
mod way;

pub(super) use baseline::Baseline;
pub(super) use runtime::clock_hz;

use api::v1::{
    AclMatchRequest, AclMatchResponse, AclState, AclsRequest, AdjacencyState, BridgeState, CaptureRequest,
    ClearCountersRequest, CopyResponse, DropCounter, ExplainRequest, ExplainResponse, FibEntry,
    GraphResponse, InterfaceState, MemifSocket, MemifState, NatPoolState, NeighborState, PolicerState,
    RuntimeResponse, SessionEventsRequest, SessionFilter, SessionState, SessionVerdict, TenantState,
    TraceShowResponse, VipState,
};

use super::start::EngineHandle;
use super::{acls, kept, nat, policers, vips, watching};
use crate::dataplane::{
    Capture, EngineInfo, ExporterFigures, FibQuery, Inspect, InspectError, KeptSession, NodeEvents,
    SessionEvents,
};

impl Inspect for EngineHandle {
    fn engine(&self) -> EngineInfo {
        let workers = self.shared.pool.workers().len() as u32;
        EngineInfo { simd_tier: self.shared.tier.name().into(), workers, memory: self.shared.memory.clone() }
    }

    fn interfaces(&self) -> Vec<InterfaceState> {
        interfaces::all(&self.shared)
    }

    fn runtime(&self) -> RuntimeResponse {
        runtime::all(&self.shared)
    }

    fn restart_helps(&self) -> Vec<u32> {
        let pool = &self.shared.pool;
        (0..pool.workers().len())
            .filter(|worker| pool.post(*worker).helps())
            .map(|worker| worker as u32)
            .collect()
    }

    fn drops(&self) -> Vec<DropCounter> {
        drops::all(&self.shared)
    }

    fn node_events(&self) -> Vec<NodeEvents> {
        runtime::events(&self.shared)
    }

    fn fib(&self, query: &FibQuery, each: &mut dyn FnMut(FibEntry) -> bool) -> Result<(), InspectError> {
        fib::entries(&self.shared, query, each)
    }

    fn adjacencies(&self) -> Vec<AdjacencyState> {
        adjacencies::all(&self.shared)
    }

    fn neighbors(&self) -> Vec<NeighborState> {
        neighbors::all(&self.shared)
    }

    fn bridges(&self) -> Vec<BridgeState> {
        bridges::all(&self.shared)
    }

    fn tenants(&self) -> Vec<TenantState> {
        sessions::tenants(&self.shared)
    }

    fn kept_sessions(&self) -> Vec<KeptSession> {
        kept::kept(&self.shared)
    }

    fn nat_pools(&self) -> Vec<NatPoolState> {
        nat::pools(&self.shared)
    }

    fn policers(&self) -> Vec<PolicerState> {
        policers::policers(&self.shared)
    }

    fn vips(&self, name: &str, each: &mut dyn FnMut(VipState) -> bool) -> Result<(), InspectError> {
        vips::each(&self.shared, name, each)
    }

    fn acls(&self) -> Vec<AclState> {
        acls::all(&self.shared)
    }

    fn acl_rules(
        &self,
        request: &AclsRequest,
        each: &mut dyn FnMut(AclState) -> bool,
    ) -> Result<(), InspectError> {
        acls::each(&self.shared, request, each)
    }

    fn acl_match(&self, request: &AclMatchRequest) -> Result<AclMatchResponse, InspectError> {
        acls::matching(&self.shared, request)
    }

    fn explain(&self, request: &ExplainRequest) -> Result<ExplainResponse, InspectError> {
        explain::explain(&self.shared, request)
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
        each: &mut dyn FnMut(SessionState) -> bool,
    ) -> Result<(), InspectError> {
        sessions::each(&self.shared, filter, each)
    }

    fn clear_sessions(&self, filter: &SessionFilter) -> Result<u64, InspectError> {
        sessions::clear(&self.shared, filter)
    }

    fn judge_sessions(&self, filter: &SessionFilter, verdict: SessionVerdict) -> Result<u64, InspectError> {
        sessions::judge(&self.shared, filter, verdict)
    }

    fn session_events(&self, request: &SessionEventsRequest) -> Result<SessionEvents, InspectError> {
        watching::start(&self.shared, request)
    }

    fn missed_session_events(&self) -> u64 {
        self.shared.watching.missed()
    }

    fn exporters(&self) -> Vec<ExporterFigures> {
        self.shared.exporters.iter().map(|exporter| exporter.figures()).collect()
    }

    fn memifs(&self) -> Vec<MemifState> {
        memifs::all(&self.shared)
    }

    fn memif_sockets(&self) -> Vec<MemifSocket> {
        memifs::sockets(&self.shared)
    }

    fn copy(&self) -> CopyResponse {
        copying::all(self.shared.copy.as_deref())
    }

    fn graph(&self) -> GraphResponse {
        graph::response(&self.shared)
    }

    fn clear_counters(&self, which: &ClearCountersRequest) {
        let all = !(which.interfaces || which.runtime || which.drops || which.adjacencies);
        let mut baseline = self.shared.baseline();
        if all || which.interfaces {
            baseline.clear_interfaces(&self.shared);
        }
        if all || which.runtime {
            baseline.clear_runtime(&self.shared);
        }
        if all || which.drops {
            baseline.clear_drops(&self.shared);
        }
        if all || which.adjacencies {
            self.shared.adjacencies.clear();
        }
    }

    fn trace_add(&self, from: Option<&str>, count: u32) -> Result<(), InspectError> {
        trace::add(&self.shared, from, count)
    }

    fn trace_show(&self, limit: u32) -> TraceShowResponse {
        trace::show(&self.shared, limit)
    }

    fn trace_clear(&self) {
        self.shared.pool.clear_traces();
    }

    fn capture(&self, request: &CaptureRequest) -> Result<Capture, InspectError> {
        super::capture::start(&self.shared, request)
    }
}
