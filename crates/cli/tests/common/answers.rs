//! Recorded answers.

use api::v1::object::Object as Kinded;
use api::v1::object_result::Outcome;
use api::v1::*;
use tonic::Status;

/// Generation that is in force.
const GENERATION: u64 = 4;

/// An interface named "bad" is refused, a route waits, "pod-x" isn't there to be deleted.
pub fn apply(request: &ApplyRequest) -> Result<ApplyResponse, Status> {
    if request.expected_generation.is_some_and(|expected| expected != GENERATION) {
        return Err(Status::aborted(format!("generation {GENERATION} is in force")));
    }
    let mut response = ApplyResponse::default();
    let mut counts = ApplyCounts::default();
    for object in request.upserts.iter().flat_map(Config::object_refs) {
        let outcome = if object.name == "bad" {
            counts.refused += 1;
            Outcome::Refused(Refused {
                field: "memif.socket".into(),
                reason: "is empty".into(),
                remedy: "give a path or @name".into(),
            })
        } else if object.kind() == Kind::Route {
            counts.pending += 1;
            let wait = Wait { object: Some(ObjectRef::new(Kind::Interface, "pod-z")), reason: String::new() };
            Outcome::Pending(Pending { waits_for: vec![wait] })
        } else {
            counts.applied += 1;
            Outcome::Applied(Applied {})
        };
        if object.name != "same" {
            response.changes.push(change(object.clone(), ChangeKind::Added));
        }
        if !request.terse || !matches!(outcome, Outcome::Applied(_)) {
            response.results.push(ObjectResult {
                object: Some(object),
                outcome: Some(outcome),
                warnings: Vec::new(),
            });
        }
    }
    for object in &request.deletes {
        if object.name != "pod-x" {
            counts.deleted += 1;
            response.changes.push(change(object.clone(), ChangeKind::Removed));
        }
        let outcome = Some(Outcome::Applied(Applied {}));
        response.results.push(ObjectResult { object: Some(object.clone()), outcome, warnings: Vec::new() });
    }
    // As quiverd does: changes are listed on demand.
    if !(request.dry_run || request.list_changes) {
        response.changes.clear();
    }
    response.committed = counts.refused == 0 && !request.dry_run;
    response.generation = GENERATION + u64::from(response.committed);
    response.counts = Some(counts);
    Ok(response)
}

fn change(object: ObjectRef, kind: ChangeKind) -> Change {
    let field = FieldChange { field: "mtu".into(), before: String::new(), after: "9000".into() };
    Change { object: Some(object), kind: kind.into(), fields: vec![field] }
}

/// Two interfaces, in two messages.
pub fn get(request: &GetRequest) -> Result<Vec<GetResponse>, Status> {
    let object = |name: &str, netns: &str| Object {
        object: Some(Kinded::Interface(Interface {
            name: name.into(),
            addresses: vec!["10.0.0.1/24".into()],
            port: Some(interface::Port::Tap(Tap { netns: netns.into(), ..Tap::default() })),
            ..Interface::default()
        })),
        status: Some(ObjectStatus { state: ObjectState::Applied.into(), ..ObjectStatus::default() }),
    };
    match (request.kind(), request.name.as_str()) {
        (Kind::Unspecified | Kind::Interface, "") => Ok(vec![
            GetResponse { generation: GENERATION, objects: vec![object("pod-a", "blue")] },
            GetResponse { generation: GENERATION, objects: vec![object("pod-b", "green")] },
        ]),
        (Kind::Interface, "pod-a") => {
            Ok(vec![GetResponse { generation: GENERATION, objects: vec![object("pod-a", "blue")] }])
        }
        (Kind::Unspecified | Kind::Interface, name) => {
            Err(Status::not_found(format!("there is no interface {name}")))
        }
        (_, "") => Ok(vec![]),
        (_, name) => Err(Status::not_found(format!("there is no object {name}"))),
    }
}

/// One interface, whose counter grows by a million with every sample.
pub fn interfaces(name: &str, sample: u64) -> Result<InterfacesResponse, Status> {
    if !name.is_empty() && name != "pod-a" {
        return Err(Status::not_found(format!("there is no interface {name}")));
    }
    let counters = InterfaceCounters { rx_packets: sample * 1_000_000, ..InterfaceCounters::default() };
    let interface = InterfaceState {
        name: "pod-a".into(),
        index: 1,
        port: "tap".into(),
        admin_up: true,
        link_up: true,
        mtu: 1500,
        counters: Some(counters),
        ..InterfaceState::default()
    };
    Ok(InterfacesResponse { interfaces: vec![interface] })
}

/// Two workers, one node.
pub fn runtime() -> RuntimeResponse {
    let worker = |index| WorkerRuntime {
        index,
        core: index + 1,
        load: 0.37,
        busy: 0.37,
        packets: 24_600_000,
        seconds: 2.0,
        nodes: vec![NodeRuntime {
            name: "tap-input".into(),
            calls: 2,
            vectors: 1,
            packets: 256,
            clocks: 2560,
        }],
        ..WorkerRuntime::default()
    };
    RuntimeResponse { workers: vec![worker(0), worker(1)], clock_hz: 2_000_000_000, untraced: 0 }
}

/// What was asked for, put into the answer.
pub fn fib(request: &FibRequest) -> Vec<FibResponse> {
    let prefix =
        if request.lookup.is_empty() { request.prefix.clone() } else { format!("{}/32", request.lookup) };
    let entry = FibEntry {
        vrf: request.vrf.clone(),
        prefix,
        source: FibSource::Connected.into(),
        paths: vec![FibPath { interface: "pod-a".into(), resolved: true, ..FibPath::default() }],
        ..FibEntry::default()
    };
    vec![FibResponse { entries: vec![entry] }]
}

/// An input node and a drop.
pub fn graph() -> GraphResponse {
    let node = |name: &str, kind: GraphNodeKind, edges: &[&str]| GraphNode {
        name: name.into(),
        kind: kind.into(),
        edges: edges.iter().map(ToString::to_string).collect(),
        ..GraphNode::default()
    };
    let nodes =
        vec![node("tap-input", GraphNodeKind::Input, &["drop"]), node("drop", GraphNodeKind::Internal, &[])];
    GraphResponse { nodes, arcs: vec![] }
}

/// Three packets of those kinds that were asked for, the last one dropped.
pub fn capture(request: &CaptureRequest) -> Vec<CaptureResponse> {
    let all = !(request.rx || request.tx || request.drop);
    let packet = |direction: CaptureDirection, reason: &str| CapturedPacket {
        timestamp_ns: 1_700_000_000_000_000_000,
        interface: "pod-a".into(),
        direction: direction.into(),
        link: CaptureLink::Ethernet.into(),
        original_length: 60,
        data: vec![0; 60],
        drop_node: if reason.is_empty() { String::new() } else { "ip4-input".into() },
        drop_reason: reason.into(),
        worker: 0,
    };
    let mut packets = Vec::new();
    if all || request.rx {
        packets.push(packet(CaptureDirection::Rx, ""));
    }
    if all || request.tx {
        packets.push(packet(CaptureDirection::Tx, ""));
    }
    if all || request.drop {
        packets.push(packet(CaptureDirection::Drop, "ttl-expired"));
    }
    vec![CaptureResponse { packets, missed: 0 }]
}

/// Two sessions of the tenant that is asked for.
pub fn sessions(request: &SessionsRequest) -> Vec<SessionsResponse> {
    let filter = request.filter.clone().unwrap_or_default();
    let session = |port: u32| SessionState {
        id: format!("0-{port}.1"),
        tenant: filter.tenant.clone(),
        protocol: filter.protocol.unwrap_or(17),
        initiator: "10.0.0.2".into(),
        initiator_port: port,
        responder: "10.0.1.2".into(),
        responder_port: filter.port,
        phase: filter.phase,
        ..SessionState::default()
    };
    // In two parts.
    [1, 2].map(|port| SessionsResponse { sessions: vec![session(port)] }).into()
}

/// One that ends, and then, after three were lost, one that begins; of what was asked for.
pub fn session_events(request: &SessionEventsRequest) -> Vec<SessionEventsResponse> {
    let filter = request.filter.clone().unwrap_or_default();
    let session = SessionState { tenant: filter.tenant, protocol: 17, ..SessionState::default() };
    let event = |kind: SessionEventKind, end: SessionEnd| SessionEvent {
        kind: kind.into(),
        end: end.into(),
        session: Some(session.clone()),
        ..SessionEvent::default()
    };
    if session.tenant == "many" {
        let events = vec![event(SessionEventKind::Ended, SessionEnd::Finished); 100];
        return vec![SessionEventsResponse { events, missed: 0 }; super::MANY_EVENTS / 100];
    }
    let mut parts = vec![SessionEventsResponse {
        events: vec![event(SessionEventKind::Ended, SessionEnd::Finished)],
        missed: 0,
    }];
    if request.began || !request.ended {
        let events = vec![event(SessionEventKind::Began, SessionEnd::Unspecified)];
        parts.push(SessionEventsResponse { events, missed: 3 });
    }
    parts
}
