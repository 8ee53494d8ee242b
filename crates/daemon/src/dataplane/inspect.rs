//! Looking into the packet engine.

use std::net::IpAddr;

use api::v1::{
    AclMatchRequest, AclMatchResponse, AclState, AclsRequest, AdjacencyState, BridgeState, CaptureRequest,
    CaptureResponse, ClearCountersRequest, CopyResponse, DropCounter, ExplainRequest, ExplainResponse,
    FibEntry, GraphResponse, InterfaceState, MemifSocket, MemifState, NatPoolState, NeighborState,
    PolicerState, RuntimeResponse, SessionEventsRequest, SessionEventsResponse, SessionFilter, SessionState,
    SessionVerdict, TenantState, TraceShowResponse, VipState,
};
use ipnet::IpNet;
use tokio::sync::mpsc;

use crate::model::Name;

use super::KeptSession;

/// The packet engine as it is looked at: from any thread, at any time, without holding up workers or changes.
pub trait Inspect: Send + Sync + 'static {
    /// Build and memory of the engine.
    fn engine(&self) -> EngineInfo;
    /// All interfaces, ordered by name.
    fn interfaces(&self) -> Vec<InterfaceState>;
    /// Load of workers and what nodes did.
    fn runtime(&self) -> RuntimeResponse;
    /// Numbers of the workers that stand still in such a way that another process would fare better.
    fn restart_helps(&self) -> Vec<u32>;
    /// Reasons for drops that occurred, most frequent first.
    fn drops(&self) -> Vec<DropCounter>;
    /// What nodes count besides drops, in the order of the graph; what never happened is left out.
    fn node_events(&self) -> Vec<NodeEvents>;
    /// Calls `each` with forwarding entries ordered by prefix until it returns false.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such VRF, prefix, or entry for an address.
    fn fib(&self, query: &FibQuery, each: &mut dyn FnMut(FibEntry) -> bool) -> Result<(), InspectError>;
    /// Whom next hops lead to, ordered by interface and address.
    fn adjacencies(&self) -> Vec<AdjacencyState>;
    /// All neighbours, ordered by interface and address.
    fn neighbors(&self) -> Vec<NeighborState>;
    /// All bridges, ordered by name.
    fn bridges(&self) -> Vec<BridgeState>;
    /// All tenants, ordered by name.
    fn tenants(&self) -> Vec<TenantState>;

    /// The sessions that another process has to know to go on with them, a hundred thousand at most.
    fn kept_sessions(&self) -> Vec<KeptSession> {
        Vec::new()
    }

    /// All NAT pools, ordered by name.
    fn nat_pools(&self) -> Vec<NatPoolState>;
    /// All policers, ordered by name.
    fn policers(&self) -> Vec<PolicerState>;
    /// Calls `each` with the VIP of that name, or with all of them if it is empty, ordered by name, until it returns false.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such VIP.
    fn vips(&self, name: &str, each: &mut dyn FnMut(VipState) -> bool) -> Result<(), InspectError>;
    /// All lists of rules without these, ordered by name.
    fn acls(&self) -> Vec<AclState>;
    /// Calls `each` with pieces of lists and their rules, ordered by name, until it returns false.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such list.
    fn acl_rules(
        &self,
        request: &AclsRequest,
        each: &mut dyn FnMut(AclState) -> bool,
    ) -> Result<(), InspectError>;
    /// What would become of a session, and which rules say so.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such tenant, [`InspectError::Invalid`] for a session that can't be.
    fn acl_match(&self, request: &AclMatchRequest) -> Result<AclMatchResponse, InspectError>;
    /// What a packet would meet, and what would become of it. Waits for the worker that has its flow.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such tenant or interface, [`InspectError::Invalid`] for a packet that can't be, or can't come in there,
    /// [`InspectError::Busy`] if the worker doesn't answer.
    fn explain(&self, request: &ExplainRequest) -> Result<ExplainResponse, InspectError>;
    /// Calls `each` with sessions, in no particular order, until it returns false. Waits for workers: they are asked a part at
    /// a time, between two of their rounds.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such tenant, [`InspectError::Invalid`] for a filter that makes no sense,
    /// [`InspectError::Busy`] if a worker doesn't answer.
    fn sessions(
        &self,
        filter: &SessionFilter,
        each: &mut dyn FnMut(SessionState) -> bool,
    ) -> Result<(), InspectError>;
    /// Ends sessions; gives how many there were.
    ///
    /// # Errors
    /// As [`Inspect::sessions`].
    fn clear_sessions(&self, filter: &SessionFilter) -> Result<u64, InspectError>;
    /// Says what becomes of the rest of sessions that an engine looks into; gives how many there were.
    ///
    /// # Errors
    /// As [`Inspect::sessions`].
    fn judge_sessions(&self, filter: &SessionFilter, verdict: SessionVerdict) -> Result<u64, InspectError>;
    /// Begins to tell what happens to sessions. It ends when the receiver is dropped. Workers don't wait: what is read too slowly is missed, and told so.
    ///
    /// # Errors
    /// [`InspectError`] for a filter that makes no sense or names nothing that there is, or if too many look on.
    fn session_events(&self, request: &SessionEventsRequest) -> Result<SessionEvents, InspectError>;
    /// Session events that somebody has missed, since start.
    fn missed_session_events(&self) -> u64;
    /// Who is told of sessions by IPFIX, in the order of the settings.
    fn exporters(&self) -> Vec<ExporterFigures>;
    /// All memif interfaces, ordered by name.
    fn memifs(&self) -> Vec<MemifState>;
    /// Sockets at which memif peers were turned away that asked for no interface that there is; ordered by socket.
    fn memif_sockets(&self) -> Vec<MemifSocket>;
    /// Who copies bodies.
    fn copy(&self) -> CopyResponse;
    /// Nodes and feature arcs.
    fn graph(&self) -> GraphResponse;
    /// Sets counters to zero.
    fn clear_counters(&self, which: &ClearCountersRequest);
    /// Traces the next `count` packets per worker, from an input node or interface; `None`: from all.
    ///
    /// # Errors
    /// [`InspectError::NotFound`] if there is no such node or interface.
    fn trace_add(&self, from: Option<&str>, count: u32) -> Result<(), InspectError>;
    /// Traces collected so far, at most `limit` packets (0: all).
    fn trace_show(&self, limit: u32) -> TraceShowResponse;
    /// Forgets traces and what was asked for.
    fn trace_clear(&self);
    /// Begins a capture. It ends when the receiver is dropped or `count` is reached.
    ///
    /// # Errors
    /// [`InspectError`] if an interface doesn't exist or too many captures run.
    fn capture(&self, request: &CaptureRequest) -> Result<Capture, InspectError>;
}

/// A running capture: parts of it, as they come.
pub type Capture = mpsc::Receiver<CaptureResponse>;

/// Session events, as they come.
pub type SessionEvents = mpsc::Receiver<SessionEventsResponse>;

/// Build and memory of the packet engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineInfo {
    /// Instruction set in use: "avx512", "avx2", "scalar".
    pub simd_tier: String,
    /// Number of workers.
    pub workers: u32,
    /// Memory of workers: "huge pages of 2 MiB" or why not.
    pub memory: String,
}

/// What was sent to a collector of flow records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExporterFigures {
    /// Its address and port.
    pub collector: String,
    /// Observation domain id.
    pub domain: u32,
    /// Messages, since start.
    pub messages: u64,
    /// Data records in them.
    pub records: u64,
    /// Data records that could not be sent.
    pub unsent: u64,
    /// Times that the collector's host has said that nobody listens.
    pub refused: u64,
}

/// A counter of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvents {
    /// The node.
    pub node: &'static str,
    /// What it counts.
    pub event: &'static str,
    /// How often it happened, since start.
    pub count: u64,
}

/// Which forwarding entries to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FibQuery {
    /// VRF.
    pub vrf: Name,
    /// Which of its entries.
    pub selection: FibSelection,
}

/// Which entries of a forwarding table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FibSelection {
    /// All of them.
    All,
    /// The one with this prefix.
    Exact(IpNet),
    /// The one a packet to this address takes.
    Lookup(IpAddr),
}

/// Something can't be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The question makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Not now.
    #[error("{0}")]
    Busy(String),
}
