//! A packet engine to look into, with one of everything.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use api::v1::{
    AclMatchRequest, AclMatchResponse, AclState, AclVerdict, AclsRequest, AdjacencyState, BridgeState,
    CaptureRequest, CaptureResponse, CapturedPacket, ClearCountersRequest, CopyQueue, CopyResponse,
    DropCounter, DropSeverity, EndedSessions, ExplainRequest, ExplainResponse, FibEntry, FibSource,
    GraphNode, GraphResponse, InterfaceCounters, InterfaceState, MemifHeldRegion, MemifRefusals, MemifSocket,
    MemifState, NatPoolState, NeighborPhase, NeighborState, NodeRuntime, Policer, PolicerHits, PolicerState,
    PolicerUser, RuntimeResponse, SessionEnd, SessionEvent, SessionEventKind, SessionEventsRequest,
    SessionEventsResponse, SessionFilter, SessionState, SessionVerdict, TenantState, TraceShowResponse,
    TracedPacket, VipState, WorkerRuntime,
};
use quiverd::dataplane::{
    Capture, EngineInfo, ExporterFigures, FibQuery, FibSelection, Inspect, InspectError, NodeEvents,
    SessionEvents,
};
use tokio::sync::mpsc;

/// The engine; what was asked of it is noted.
#[derive(Clone, Default)]
pub struct Glass {
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Glass {
    fn note(&self, question: String) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question);
    }

    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Entries of the forwarding table: more than one part.
pub const FIB_ENTRIES: u32 = 2500;

/// Sessions: more than one part.
pub const SESSIONS: u32 = 1500;

impl Inspect for Glass {
    fn engine(&self) -> EngineInfo {
        EngineInfo { simd_tier: "scalar".into(), workers: 1, memory: "ordinary pages".into() }
    }

    fn interfaces(&self) -> Vec<InterfaceState> {
        ["a", "b"]
            .map(|name| InterfaceState {
                name: name.into(),
                port: "memif".into(),
                admin_up: true,
                link_up: name == "a",
                link_ups: 1,
                counters: Some(InterfaceCounters { rx_packets: 7, ..InterfaceCounters::default() }),
                ..InterfaceState::default()
            })
            .into()
    }

    fn runtime(&self) -> RuntimeResponse {
        let node =
            NodeRuntime { name: "ip4-lookup".into(), calls: 3, vectors: 3, packets: 600, clocks: 9000 };
        let worker = WorkerRuntime {
            core: 1,
            load: 0.25,
            packets: 600,
            nodes: vec![node],
            sessions: 8,
            max_sessions: 1 << 24,
            session_bytes: 1536,
            ..Default::default()
        };
        RuntimeResponse { workers: vec![worker], clock_hz: 2_000_000_000, untraced: 0 }
    }

    fn restart_helps(&self) -> Vec<u32> {
        Vec::new()
    }

    fn drops(&self) -> Vec<DropCounter> {
        vec![DropCounter {
            node: "ip4-input".into(),
            reason: "bad-checksum".into(),
            severity: DropSeverity::Invalid.into(),
            packets: 5,
            ..DropCounter::default()
        }]
    }

    fn fib(&self, query: &FibQuery, each: &mut dyn FnMut(FibEntry) -> bool) -> Result<(), InspectError> {
        self.note(format!("{query:?}"));
        if *query.vrf != *"default" {
            return Err(InspectError::NotFound(format!("there is no VRF {}", query.vrf)));
        }
        let count = if query.selection == FibSelection::All { FIB_ENTRIES } else { 1 };
        for number in 0..count {
            let prefix = format!("{}/32", IpAddr::from(number.to_be_bytes()));
            let entry = FibEntry {
                vrf: "default".into(),
                prefix,
                source: FibSource::Static.into(),
                ..FibEntry::default()
            };
            if !each(entry) {
                break;
            }
        }
        Ok(())
    }

    fn adjacencies(&self) -> Vec<AdjacencyState> {
        let one = |index, interface: &str, address: &str, packets| AdjacencyState {
            index,
            interface: interface.into(),
            address: address.into(),
            packets,
            bytes: packets * 64,
            ..AdjacencyState::default()
        };
        let crowd = (0..300).map(|n| one(10 + n, "crowd", &format!("10.1.{}.{}", n / 256, n % 256), 1));
        let few = [one(1, "a", "10.0.0.2", 3), one(2, "b", "", 4), one(5000, "b", "10.0.1.2", 5)];
        crowd.chain(few).collect()
    }

    fn neighbors(&self) -> Vec<NeighborState> {
        ["a", "b"]
            .map(|interface| NeighborState {
                interface: interface.into(),
                address: "10.0.0.2".into(),
                phase: NeighborPhase::Reachable.into(),
                ..NeighborState::default()
            })
            .into()
    }

    fn bridges(&self) -> Vec<BridgeState> {
        vec![BridgeState { name: "lan".into(), moves: 2, ..BridgeState::default() }]
    }

    fn copy(&self) -> CopyResponse {
        let queue = CopyQueue { name: "wq0.0".into(), transfers: 12, faults: 3, ..CopyQueue::default() };
        CopyResponse { engine: "dsa".into(), threshold: 1024, queues: vec![queue], timings: Vec::new() }
    }

    fn acls(&self) -> Vec<AclState> {
        vec![AclState { name: "web".into(), rule_count: 2, denied: 3, ..AclState::default() }]
    }

    fn acl_rules(&self, _: &AclsRequest, each: &mut dyn FnMut(AclState) -> bool) -> Result<(), InspectError> {
        self.acls().into_iter().all(each);
        Ok(())
    }

    fn acl_match(&self, request: &AclMatchRequest) -> Result<AclMatchResponse, InspectError> {
        let tenant = request.tenant.clone();
        Ok(AclMatchResponse { tenant, verdict: AclVerdict::Denied.into(), steps: Vec::new() })
    }

    fn explain(&self, request: &ExplainRequest) -> Result<ExplainResponse, InspectError> {
        match request.interface.as_str() {
            "" => Ok(ExplainResponse { interface: "a".into(), ..ExplainResponse::default() }),
            name => Err(InspectError::NotFound(format!("there is no interface {name}"))),
        }
    }

    fn vips(&self, name: &str, each: &mut dyn FnMut(VipState) -> bool) -> Result<(), InspectError> {
        if !matches!(name, "" | "web") {
            return Err(InspectError::NotFound(format!("there is no VIP {name} in force")));
        }
        each(VipState { name: "web".into(), sessions: 2, ..VipState::default() });
        Ok(())
    }

    fn nat_pools(&self) -> Vec<NatPoolState> {
        vec![NatPoolState { name: "out".into(), translations: 3, ..NatPoolState::default() }]
    }

    fn policers(&self) -> Vec<PolicerState> {
        let hits = |packets| Some(PolicerHits { packets, bytes: 100 * packets });
        let user = |user| PolicerUser { green: hits(3), yellow: hits(2), red: hits(1), ..user };
        let tenant = PolicerUser { tenant: "red".into(), reverse: true, ..PolicerUser::default() };
        let interface = PolicerUser { interface: "uplink".into(), ..PolicerUser::default() };
        let policer = Some(Policer { name: "gold".into(), cir: 1000, cbs: 2000, ..Policer::default() });
        vec![PolicerState { policer, users: vec![user(tenant), user(interface)] }]
    }

    fn tenants(&self) -> Vec<TenantState> {
        let ended = vec![EndedSessions { end: SessionEnd::EvictedForQuota.into(), sessions: 5 }];
        vec![TenantState {
            name: "red".into(),
            sessions: 8,
            max_sessions: 9,
            max_new_sessions_per_second: 4,
            ended,
            forward_packets: 30,
            forward_bytes: 3000,
            reverse_packets: 20,
            reverse_bytes: 2000,
            ..TenantState::default()
        }]
    }

    fn sessions(
        &self,
        filter: &SessionFilter,
        each: &mut dyn FnMut(SessionState) -> bool,
    ) -> Result<(), InspectError> {
        if filter.tenant == "ghost" {
            return Err(InspectError::NotFound("there is no tenant ghost in force".into()));
        }
        for number in 0..SESSIONS {
            if !each(SessionState { initiator_port: number, ..SessionState::default() }) {
                break;
            }
        }
        Ok(())
    }

    fn clear_sessions(&self, filter: &SessionFilter) -> Result<u64, InspectError> {
        self.note(format!("clear sessions of {:?}", filter.tenant));
        Ok(3)
    }

    fn judge_sessions(&self, filter: &SessionFilter, verdict: SessionVerdict) -> Result<u64, InspectError> {
        self.note(format!("judge sessions of {:?}: {verdict:?}", filter.tenant));
        Ok(2)
    }

    fn session_events(&self, request: &SessionEventsRequest) -> Result<SessionEvents, InspectError> {
        let tenant = request.filter.clone().unwrap_or_default().tenant;
        if tenant == "nobody" {
            return Err(InspectError::NotFound("there is no tenant nobody in force".into()));
        }
        self.note(format!("events of {tenant:?}"));
        let (sender, receiver) = mpsc::channel(4);
        for missed in 0..2 {
            let event = SessionEvent { kind: SessionEventKind::Ended.into(), ..SessionEvent::default() };
            let part = SessionEventsResponse { events: vec![event], missed };
            sender.try_send(part).expect("there is room");
        }
        Ok(receiver)
    }

    fn missed_session_events(&self) -> u64 {
        3
    }

    fn exporters(&self) -> Vec<ExporterFigures> {
        vec![ExporterFigures { collector: "192.0.2.9:4739".into(), records: 6, ..ExporterFigures::default() }]
    }

    fn memifs(&self) -> Vec<MemifState> {
        let refusals = vec![MemifRefusals { reason: "mode".into(), count: 5 }];
        vec![MemifState {
            interface: "a".into(),
            connected: true,
            disconnects: 4,
            refusals,
            held_regions: vec![MemifHeldRegion::default(); 2],
            ..MemifState::default()
        }]
    }

    fn node_events(&self) -> Vec<NodeEvents> {
        vec![NodeEvents { node: "icmp4-error", event: "icmp-limited", count: 6 }]
    }

    fn memif_sockets(&self) -> Vec<MemifSocket> {
        let refusals = vec![MemifRefusals { reason: "timeout".into(), count: 3 }];
        vec![MemifSocket { socket: "@a".into(), refusals, ..MemifSocket::default() }]
    }

    fn graph(&self) -> GraphResponse {
        let node = GraphNode { name: "drop".into(), ..GraphNode::default() };
        GraphResponse { nodes: vec![node], arcs: Vec::new() }
    }

    fn clear_counters(&self, which: &ClearCountersRequest) {
        let ClearCountersRequest { interfaces, runtime, drops, adjacencies } = which;
        self.note(format!("clear {interfaces} {runtime} {drops} {adjacencies}"));
    }

    fn trace_add(&self, from: Option<&str>, count: u32) -> Result<(), InspectError> {
        self.note(format!("trace {count} from {from:?}"));
        if from == Some("ghost") {
            return Err(InspectError::NotFound("there is no node or interface ghost".into()));
        }
        Ok(())
    }

    fn trace_show(&self, _limit: u32) -> TraceShowResponse {
        TraceShowResponse { packets: vec![TracedPacket { id: 1, ..TracedPacket::default() }], remaining: 2 }
    }

    fn trace_clear(&self) {
        self.note("trace clear".into());
    }

    fn capture(&self, request: &CaptureRequest) -> Result<Capture, InspectError> {
        self.note(format!("capture {} {} {}", request.rx, request.tx, request.drop));
        let (sender, receiver) = mpsc::channel(4);
        for number in 0..3_u8 {
            let packet = CapturedPacket { data: vec![number; 4], ..CapturedPacket::default() };
            let part = CaptureResponse { packets: vec![packet], missed: 0 };
            sender.try_send(part).map_err(|error| InspectError::Busy(error.to_string()))?;
        }
        Ok(receiver)
    }
}
