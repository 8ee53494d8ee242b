//! Objects of the desired state as tables, one per kind.

use api::names::{DEFAULT_VRF, Named};
use api::text::Words;
use api::v1::object::Object as Kinded;
use api::v1::{
    AclDefault, Backend, Bridge, GetResponse, Interface, Neighbor, NextHop, ObjectState, ObjectStatus, Route,
    Vip, VipProtocol, Vrf,
};

use super::report::waits;
use crate::render::{Cell, Column, Paint, Table, Tone, endpoint};
use crate::show::rates_of;

/// Heading of the last column: why an object isn't in force.
const WHY: Column = Column::left("WHY").optional();
/// Backends that are listed.
const BACKENDS: usize = 4;
/// Heading of the column before.
const STATE: Column = Column::left("STATE");

/// All objects, by kind; a line that says so if there is none.
pub(super) fn table(response: &GetResponse, paint: Paint) -> String {
    let mut vrfs = Table::new([Column::left("VRF"), Column::right("ID").optional(), STATE, WHY]);
    let mut bridges =
        Table::new([Column::left("BRIDGE"), Column::left("LEARN"), Column::left("FLOOD"), STATE, WHY]);
    let mut interfaces = Table::new([
        Column::left("INTERFACE"),
        Column::left("PORT"),
        Column::left("ADDRESSES").optional(),
        Column::left("PLACE"),
        Column::right("MTU"),
        STATE,
        WHY,
    ]);
    let mut routes = Table::new([Column::left("ROUTE"), Column::left("NEXT HOPS"), STATE, WHY]);
    let mut neighbors = Table::new([Column::left("NEIGHBOR"), Column::left("MAC"), STATE, WHY]);
    let mut tenants = Table::new([
        Column::left("TENANT"),
        Column::left("INTERFACES"),
        Column::left("OUTSIDE").optional(),
        STATE,
        WHY,
    ]);
    let mut vips =
        Table::new([Column::left("VIP"), Column::left("ASKED AT"), Column::left("BACKENDS"), STATE, WHY]);
    let mut acls =
        Table::new([Column::left("ACL"), Column::right("RULES"), Column::left("DEFAULT"), STATE, WHY]);
    let mut sets = Table::new([Column::left("ADDRESS SET"), Column::right("MEMBERS"), STATE, WHY]);
    let mut endpoints = Table::new([
        Column::left("ENDPOINT"),
        Column::left("ADDRESSES"),
        Column::left("INGRESS"),
        Column::left("EGRESS"),
        STATE,
        WHY,
    ]);
    let mut policers = Table::new([Column::left("POLICER"), Column::left("RATES"), STATE, WHY]);
    let mut pools = Table::new([Column::left("NAT POOL"), Column::left("ADDRESSES"), STATE, WHY]);

    for object in &response.objects {
        let [state, why] = status(object.status.as_ref());
        match &object.object {
            Some(Kinded::Vrf(it)) => vrfs.row([(&it.name).into(), vrf_id(it), state, why]),
            Some(Kinded::Bridge(it)) => bridges.row([(&it.name).into(), learn(it), flood(it), state, why]),
            Some(Kinded::Interface(it)) => interfaces.row([
                (&it.name).into(),
                it.port.as_ref().map_or("-", |port| port.word()).into(),
                it.addresses.join(" ").into(),
                place(it).into(),
                if it.mtu == 0 { "default".into() } else { it.mtu.into() },
                state,
                why,
            ]),
            Some(Kinded::Route(it)) => {
                routes.row([it.object_name().into(), next_hops(it).into(), state, why])
            }
            Some(Kinded::Neighbor(it)) => neighbors.row([name(it), (&it.mac).into(), state, why]),
            Some(Kinded::Tenant(it)) => tenants.row([
                (&it.name).into(),
                it.interfaces.join(" ").into(),
                it.outside_interfaces.join(" ").into(),
                state,
                why,
            ]),
            Some(Kinded::NatPool(it)) => {
                pools.row([(&it.name).into(), it.addresses.join(" ").into(), state, why]);
            }
            Some(Kinded::Policer(it)) => policers.row([(&it.name).into(), rates_of(it).into(), state, why]),
            Some(Kinded::Vip(it)) => {
                vips.row([(&it.name).into(), asked_at(it).into(), backends(it).into(), state, why])
            }
            Some(Kinded::Acl(it)) => {
                let default = match it.default_action() {
                    AclDefault::Unspecified => AclDefault::Next,
                    said => said,
                };
                acls.row([
                    (&it.name).into(),
                    (it.rules.len() as u64).into(),
                    default.word().into(),
                    state,
                    why,
                ]);
            }
            Some(Kinded::AddressSet(it)) => {
                sets.row([(&it.name).into(), (it.members.len() as u64).into(), state, why]);
            }
            Some(Kinded::Endpoint(it)) => endpoints.row([
                (&it.name).into(),
                it.addresses.join(" ").into(),
                it.ingress_acls.join(" ").into(),
                it.egress_acls.join(" ").into(),
                state,
                why,
            ]),
            None => {}
        }
    }
    let tables = [
        (!vrfs.is_empty()).then(|| vrfs.render(paint)),
        (!bridges.is_empty()).then(|| bridges.render(paint)),
        (!interfaces.is_empty()).then(|| interfaces.render(paint)),
        (!routes.is_empty()).then(|| routes.render(paint)),
        (!neighbors.is_empty()).then(|| neighbors.render(paint)),
        (!tenants.is_empty()).then(|| tenants.render(paint)),
        (!pools.is_empty()).then(|| pools.render(paint)),
        (!policers.is_empty()).then(|| policers.render(paint)),
        (!vips.is_empty()).then(|| vips.render(paint)),
        (!acls.is_empty()).then(|| acls.render(paint)),
        (!sets.is_empty()).then(|| sets.render(paint)),
        (!endpoints.is_empty()).then(|| endpoints.render(paint)),
    ];
    let tables = tables.into_iter().flatten().collect::<Vec<_>>();
    if tables.is_empty() { "no objects\n".into() } else { tables.join("\n") }
}

/// "10.96.0.1:80/tcp".
fn asked_at(vip: &Vip) -> String {
    let protocol = match vip.protocol() {
        VipProtocol::Unspecified => VipProtocol::Tcp,
        protocol => protocol,
    };
    format!("{}/{}", endpoint(&vip.address, vip.port), protocol.word())
}

/// "10.1.0.2:8080 10.1.0.3:8080", the first few of them.
fn backends(vip: &Vip) -> String {
    let one = |backend: &Backend| {
        endpoint(&backend.address, if backend.port == 0 { vip.port } else { backend.port })
    };
    let mut words: Vec<String> = vip.backends.iter().take(BACKENDS).map(one).collect();
    if vip.backends.len() > BACKENDS {
        words.push(format!("and {} more", vip.backends.len() - BACKENDS));
    }
    words.join(" ")
}

fn vrf_id(vrf: &Vrf) -> Cell {
    vrf.id.map_or_else(Cell::default, Cell::from)
}

fn learn(bridge: &Bridge) -> Cell {
    yes(bridge.learn.unwrap_or(true))
}

fn flood(bridge: &Bridge) -> Cell {
    yes(bridge.flood.unwrap_or(true))
}

fn yes(yes: bool) -> Cell {
    if yes { "yes".into() } else { "no".into() }
}

fn name(neighbor: &Neighbor) -> Cell {
    neighbor.object_name().into()
}

/// Where an interface's packets go: "bridge br0", "to pod-b", "vrf red".
fn place(interface: &Interface) -> String {
    match (&interface.bridge, interface.cross_connect.as_str()) {
        (Some(bridge), _) if bridge.bvi => format!("bvi of {}", bridge.name),
        (Some(bridge), _) => format!("bridge {}", bridge.name),
        (None, "") if interface.vrf.is_empty() => format!("vrf {DEFAULT_VRF}"),
        (None, "") => format!("vrf {}", interface.vrf),
        (None, other) => format!("to {other}"),
    }
}

/// "10.0.0.1 via pod-a weight 2, 10.0.0.3", or what is done instead.
fn next_hops(route: &Route) -> String {
    if route.next_hops.is_empty() {
        return route.action().word();
    }
    let one = |hop: &NextHop| {
        let mut words = Vec::new();
        if !hop.address.is_empty() {
            words.push(hop.address.clone());
        }
        if !hop.interface.is_empty() {
            words.push(format!("via {}", hop.interface));
        }
        if !hop.vrf.is_empty() {
            words.push(format!("in vrf {}", hop.vrf));
        }
        if hop.weight > 1 {
            words.push(format!("weight {}", hop.weight));
        }
        words.join(" ")
    };
    let mut ways: Vec<String> = route.next_hops.iter().map(one).collect();
    if let Some(split) = &route.port_split {
        let way = split.next_hop.as_ref().map(one).unwrap_or_default();
        ways.push(format!("{} {way}", split.ports.join(" ")));
    }
    ways.join(", ")
}

/// State and why it isn't "applied".
fn status(status: Option<&ObjectStatus>) -> [Cell; 2] {
    let Some(status) = status else { return ["-".into(), Cell::default()] };
    match status.state() {
        ObjectState::Applied => [Cell::toned("applied", Tone::Good), Cell::default()],
        ObjectState::Pending => [Cell::toned("pending", Tone::Warn), waits(&status.waits_for).into()],
        ObjectState::Failed => [Cell::toned("failed", Tone::Bad), (&status.failure).into()],
        ObjectState::Unspecified => ["-".into(), Cell::default()],
    }
}

#[cfg(test)]
mod tests {
    use api::v1::interface::Port;
    use api::v1::{Kind, Memif, Object, ObjectRef, Tap, Wait};

    use super::*;

    fn object(object: Kinded, state: ObjectState, failure: &str) -> Object {
        let wait = Wait { object: Some(ObjectRef::new(Kind::Interface, "pod-z")), reason: String::new() };
        let status = ObjectStatus {
            state: state.into(),
            waits_for: if state == ObjectState::Pending { vec![wait] } else { vec![] },
            failure: failure.into(),
            generation: 3,
        };
        Object { object: Some(object), status: Some(status) }
    }

    #[test]
    fn objects_stand_by_kind() {
        let hop = |address: &str, interface: &str, weight| NextHop {
            address: address.into(),
            interface: interface.into(),
            weight,
            ..NextHop::default()
        };
        let response = GetResponse {
            generation: 3,
            objects: vec![
                object(
                    Kinded::Interface(Interface {
                        name: "pod-a".into(),
                        addresses: vec!["10.0.0.1/24".into(), "fd00::1/64".into()],
                        port: Some(Port::Memif(Memif::default())),
                        ..Interface::default()
                    }),
                    ObjectState::Applied,
                    "",
                ),
                object(
                    Kinded::Interface(Interface {
                        name: "pod-b".into(),
                        cross_connect: "pod-a".into(),
                        mtu: 9000,
                        port: Some(Port::Tap(Tap::default())),
                        ..Interface::default()
                    }),
                    ObjectState::Failed,
                    "network namespace blue is gone",
                ),
                object(
                    Kinded::Route(Route {
                        prefix: "10.9.0.0/16".into(),
                        next_hops: vec![hop("10.0.0.2", "pod-a", 2), hop("10.0.0.3", "", 0)],
                        ..Route::default()
                    }),
                    ObjectState::Pending,
                    "",
                ),
            ],
        };
        assert_eq!(
            table(&response, Paint::new(false)),
            "INTERFACE  PORT   ADDRESSES               PLACE            MTU  STATE    WHY\n\
             pod-a      memif  10.0.0.1/24 fd00::1/64  vrf default  default  applied\n\
             pod-b      tap                            to pod-a        9000  failed   network namespace blue is gone\n\
             \n\
             ROUTE                NEXT HOPS                              STATE    WHY\n\
             default/10.9.0.0/16  10.0.0.2 via pod-a weight 2, 10.0.0.3  pending  waits for interface pod-z\n"
        );
        assert_eq!(table(&GetResponse::default(), Paint::new(false)), "no objects\n");
    }
}
