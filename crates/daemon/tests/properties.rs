//! What holds for every sequence of batches.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use api::v1::interface::Port;
use api::v1::{
    AddressSet, ApplyRequest, Backend, Bridge, BridgePort, ChangeKind, Config, Interface, Kind, Memif,
    NatPool, Neighbor, NextHop, Object, ObjectRef, Policer, Route, RouteAction, Sink, StaticMac, Tap, Tenant,
    Vip, Vlan, Vrf, Vxlan,
};
use common::{World, controller};
use proptest::prelude::*;
use quiverd::control::Controller;
use quiverd::model::Key;
use quiverd::reconcile::Realised;

/// Few names, so that objects meet.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(Into::into)
}

fn vrf_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "default", "red", "blue"]).prop_map(Into::into)
}

fn interface() -> impl Strategy<Value = Interface> {
    let port =
        prop_oneof![
            (0..3u32, 1..3i32).prop_map(|(id, role)| Port::Memif(Memif {
                socket: "@x".into(),
                id,
                role,
                ..Memif::default()
            })),
            (prop::sample::select(vec!["eth0", "eth1"]), 1..3i32).prop_map(|(host_name, mode)| Port::Tap(
                Tap { host_name: host_name.into(), mode, ..Tap::default() }
            )),
            (name(), 1..3u32).prop_map(|(parent, outer_id)| Port::Vlan(Vlan {
                parent,
                outer_id,
                ..Vlan::default()
            })),
            (0..3u8, 1..3u8, 1..3u32, vrf_name()).prop_map(|(network, host, vni, underlay_vrf)| Port::Vxlan(
                Vxlan {
                    local: format!("10.0.{network}.{host}"),
                    remote: "10.9.0.1".into(),
                    vni,
                    underlay_vrf,
                    ..Vxlan::default()
                }
            )),
            Just(Port::Sink(Sink {})),
            Just(Port::Loopback(api::v1::Loopback {})),
        ];
    let address = (0..3u8, 1..3u8, prop::sample::select(vec![24, 32]))
        .prop_map(|(network, host, length)| format!("10.0.{network}.{host}/{length}"));
    let layer = prop_oneof![
        4 => prop::collection::vec(address, 0..2).prop_map(|addresses| (addresses, None, String::new())),
        1 => (name(), any::<bool>()).prop_map(|(name, bvi)| {
            (Vec::new(), Some(BridgePort { name, bvi, split_horizon_group: 0, max_macs: None }), String::new())
        }),
        1 => name().prop_map(|other| (Vec::new(), None, other)),
    ];
    (name(), port, layer, vrf_name(), any::<Option<bool>>()).prop_map(
        |(name, port, (addresses, bridge, cross_connect), vrf, admin_up)| Interface {
            name,
            port: Some(port),
            vrf: if addresses.is_empty() { String::new() } else { vrf },
            addresses,
            bridge,
            cross_connect,
            admin_up,
            ..Interface::default()
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    let hop = prop_oneof![
        (0..3u8, 3..5u8).prop_map(|(network, host)| NextHop {
            address: format!("10.0.{network}.{host}"),
            ..NextHop::default()
        }),
        name().prop_map(|interface| NextHop { interface, ..NextHop::default() }),
        Just(NextHop { vrf: "blue".into(), ..NextHop::default() }),
    ];
    let prefix = prop::sample::select(vec!["10.0.0.0/24", "10.0.1.0/24", "192.0.2.0/24", "0.0.0.0/0"]);
    (vrf_name(), prefix, prop::collection::vec(hop, 0..3)).prop_map(|(vrf, prefix, next_hops)| Route {
        vrf,
        prefix: prefix.into(),
        action: if next_hops.is_empty() { RouteAction::Blackhole.into() } else { 0 },
        next_hops,
        ..Route::default()
    })
}

fn bridge() -> impl Strategy<Value = Bridge> {
    (name(), prop::collection::btree_map(1..4u8, name(), 0..3), any::<bool>()).prop_map(
        |(name, macs, learn)| Bridge {
            name,
            learn: Some(learn),
            static_macs: macs
                .into_iter()
                .map(|(last, interface)| StaticMac {
                    mac: format!("02:00:00:00:00:{last:02x}"),
                    interface,
                    drop: false,
                })
                .collect(),
            ..Bridge::default()
        },
    )
}

fn tenant() -> impl Strategy<Value = Tenant> {
    let interfaces =
        || prop::collection::btree_set(name(), 0..3).prop_map(|names| names.into_iter().collect());
    let policer = prop::option::weighted(0.2, name());
    (name(), interfaces(), interfaces(), 0..2u32, 0..2u32, prop::option::of(name()), policer).prop_map(
        |(name, interfaces, outside_interfaces, context, max_sessions, pool, policer)| Tenant {
            forward_services: pool.iter().map(|_| "nat".into()).collect(),
            reverse_services: pool
                .iter()
                .map(|_| "nat".into())
                .chain(policer.iter().map(|_| "policer".into()))
                .collect(),
            nat_pool: pool.unwrap_or_default(),
            reverse_policer: policer.unwrap_or_default(),
            name,
            context,
            interfaces,
            outside_interfaces,
            max_sessions,
            ..Tenant::default()
        },
    )
}

fn nat_pool() -> impl Strategy<Value = NatPool> {
    (name(), 0..6u8, 0..4u8, 0..2u32).prop_map(|(name, first, more, context)| NatPool {
        name,
        addresses: vec![format!("192.0.2.{first}-192.0.2.{}", first + more)],
        context,
        ..NatPool::default()
    })
}

fn policer() -> impl Strategy<Value = Policer> {
    (name(), 1..4u64, any::<bool>()).prop_map(|(name, cir, per_session)| Policer {
        name,
        cir,
        cbs: 1500,
        per_session,
        ..Policer::default()
    })
}

fn vip() -> impl Strategy<Value = Vip> {
    let backends = prop::collection::btree_set(1..6u8, 0..3);
    (name(), 1..4u8, 1..3u32, backends).prop_map(|(name, host, port, backends)| Vip {
        name,
        address: format!("10.96.0.{host}"),
        port,
        backends: backends
            .into_iter()
            .map(|host| Backend { address: format!("10.1.0.{host}"), ..Backend::default() })
            .collect(),
        ..Vip::default()
    })
}

fn address_set() -> impl Strategy<Value = AddressSet> {
    (name(), prop::collection::btree_set(1..6u8, 0..3)).prop_map(|(name, hosts)| AddressSet {
        name,
        members: hosts.into_iter().map(|host| format!("10.1.0.{host}")).collect(),
        ..AddressSet::default()
    })
}

fn object() -> impl Strategy<Value = Object> {
    use api::v1::object::Object::{
        AddressSet as A, Bridge as B, Interface as I, NatPool as P, Neighbor as N, Policer as Q, Route as R,
        Tenant as T, Vip as W, Vrf as V,
    };
    let neighbor = (name(), 1..4u8).prop_map(|(interface, host)| Neighbor {
        interface,
        address: format!("10.0.0.{host}"),
        mac: "02:00:00:00:00:07".into(),
    });
    let vrf = (vrf_name(), prop::option::of(1..3u32)).prop_map(|(name, id)| Vrf {
        name: if name.is_empty() { "default".into() } else { name },
        id,
        ..Vrf::default()
    });
    prop_oneof![
        2 => vrf.prop_map(V),
        2 => bridge().prop_map(B),
        6 => interface().prop_map(I),
        4 => route().prop_map(R),
        1 => neighbor.prop_map(N),
        2 => tenant().prop_map(T),
        1 => nat_pool().prop_map(P),
        1 => policer().prop_map(Q),
        1 => vip().prop_map(W),
        1 => address_set().prop_map(A),
    ]
    .prop_map(|object| Object { object: Some(object), status: None })
}

fn batch() -> impl Strategy<Value = ApplyRequest> {
    let delete = prop_oneof![
        (
            prop::sample::select(vec![
                Kind::Interface,
                Kind::Bridge,
                Kind::Tenant,
                Kind::NatPool,
                Kind::Policer,
                Kind::Vip,
                Kind::AddressSet
            ]),
            name()
        )
            .prop_map(|(k, n)| ObjectRef::new(k, n)),
        Just(ObjectRef::new(Kind::Vrf, "red")),
        Just(ObjectRef::new(Kind::Route, "default/192.0.2.0/24")),
    ];
    (prop::collection::vec(object(), 0..8), prop::collection::vec(delete, 0..2), prop::bool::weighted(0.1))
        .prop_map(|(objects, deletes, replace_all)| {
            let mut config = Config::default();
            let mut names = Vec::new();
            for object in objects {
                let name = canonical(&object.object_ref().unwrap());
                if !names.contains(&name) {
                    names.push(name);
                    config.push(object);
                }
            }
            let deletes =
                deletes.into_iter().filter(|object| !names.contains(&canonical(object))).take(1).collect();
            ApplyRequest {
                upserts: Some(config),
                deletes,
                replace_all,
                list_changes: true,
                ..ApplyRequest::default()
            }
        })
}

/// Everything a client can see.
fn seen(controller: &Controller) -> Vec<Object> {
    let mut objects = Vec::new();
    controller.view().each(None, |mut object| {
        // The generation says when, not what.
        object.status.as_mut().unwrap().generation = 0;
        objects.push(object);
        true
    });
    objects
}

/// Everything the dataplane has.
fn has(world: &World) -> (Realised, Vec<String>) {
    let state = world.state();
    (state.realised.clone(), state.routes.iter().map(|(key, paths)| format!("{key:?} {paths:?}")).collect())
}

/// What takes a batch back, made from what it changed and what was there before.
fn inverse(changes: &[api::v1::Change], before: &[Object]) -> ApplyRequest {
    let mut request = ApplyRequest { upserts: Some(Config::default()), ..ApplyRequest::default() };
    for change in changes {
        let object = change.object.clone().unwrap();
        match change.kind() {
            ChangeKind::Added => request.deletes.push(object),
            _ => {
                let old = before.iter().find(|old| old.object_ref().as_ref() == Some(&canonical(&object)));
                request.upserts.as_mut().unwrap().push(old.expect("it was there").clone());
            }
        }
    }
    request
}

fn canonical(object: &ObjectRef) -> ObjectRef {
    Key::parse(object).unwrap().to_api()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The dataplane follows, whatever comes; the referee sees to it that every step makes sense. And what it has in
    /// the end only depends on the desired state: a dataplane that is told at once has the same.
    #[test]
    fn history_leaves_no_trace(batches in prop::collection::vec(batch(), 1..8)) {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        for batch in &batches {
            let (before, had) = (seen(&controller), has(&world));
            let response = controller.apply(batch).unwrap();
            if !response.committed {
                prop_assert_eq!(&seen(&controller), &before, "a refused batch left a trace");
                prop_assert_eq!(&has(&world), &had);
            }
        }
        let all = ApplyRequest { upserts: Some(config_of(&seen(&controller))), ..ApplyRequest::default() };
        let (fresh_directory, fresh_world) = (tempfile::tempdir().unwrap(), World::default());
        let mut fresh = common::controller(fresh_directory.path(), &fresh_world);
        prop_assert!(fresh.apply(&all).unwrap().committed);
        prop_assert_eq!(seen(&fresh), seen(&controller));
        prop_assert_eq!(has(&fresh_world), has(&world));
    }

    /// The order of objects in a batch, and whether they come in one batch or one by one, means nothing.
    #[test]
    fn order_means_nothing(batch in batch(), seed in any::<u64>()) {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut one = controller(directory.path(), &world);
        let accepted = one.apply(&batch).unwrap().committed;

        let (shuffled_directory, shuffled_world) = (tempfile::tempdir().unwrap(), World::default());
        let mut two = controller(shuffled_directory.path(), &shuffled_world);
        let mut shuffled = batch.clone();
        shuffle(shuffled.upserts.as_mut().unwrap(), seed);
        prop_assert_eq!(two.apply(&shuffled).unwrap().committed, accepted);
        prop_assert_eq!(seen(&two), seen(&one));
        prop_assert_eq!(has(&shuffled_world), has(&world));

        if accepted && batch.deletes.is_empty() {
            let (single_directory, single_world) = (tempfile::tempdir().unwrap(), World::default());
            let mut three = controller(single_directory.path(), &single_world);
            for single in singles(shuffled.upserts.as_ref().unwrap()) {
                prop_assert!(three.apply(&single).unwrap().committed, "{:?}", single);
            }
            prop_assert_eq!(seen(&three), seen(&one));
            prop_assert_eq!(has(&single_world), has(&world));
        }
    }

    /// A batch and then its inverse: nothing happened.
    #[test]
    fn a_change_can_be_taken_back(first in batch(), second in batch()) {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        controller.apply(&first).unwrap();
        let (before, had) = (seen(&controller), has(&world));
        let response = controller.apply(&second).unwrap();
        if !response.committed {
            return Ok(());
        }
        let back = inverse(&response.changes, &before);
        let response = controller.apply(&back).unwrap();
        prop_assert!(response.committed, "{:#?}", response);
        prop_assert_eq!(seen(&controller), before);
        prop_assert_eq!(has(&world), had);
    }

    /// What was applied comes back after a restart.
    #[test]
    fn a_restart_changes_nothing(batches in prop::collection::vec(batch(), 1..4)) {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut first = controller(directory.path(), &world);
        for batch in &batches {
            first.apply(batch).unwrap();
        }
        let (before, generation) = (seen(&first), first.view().generation());
        drop(first);
        let world_after = World::default();
        let mut state = quiverd::state::StateDirectory::open(directory.path()).unwrap();
        let loaded = state.load().unwrap();
        prop_assert_eq!(&loaded.warnings, &Vec::<String>::new());
        let mut second = Controller::new(Box::new(world_after.referee()), state);
        second.restore(loaded.snapshot).unwrap();
        prop_assert_eq!(seen(&second), before);
        prop_assert_eq!(second.view().generation(), generation);
        prop_assert_eq!(has(&world_after), has(&world));
    }
}

fn config_of(objects: &[Object]) -> Config {
    let mut config = Config::default();
    objects.iter().cloned().for_each(|object| config.push(object));
    config
}

/// One batch per object.
fn singles(config: &Config) -> Vec<ApplyRequest> {
    // Who is metered by one names one that is there.
    let policers = config.policers.iter().cloned().map(api::v1::object::Object::Policer);
    let tenants = config.tenants.iter().cloned().map(api::v1::object::Object::Tenant);
    let objects = (config.routes.iter().cloned().map(api::v1::object::Object::Route))
        .chain(config.neighbors.iter().cloned().map(api::v1::object::Object::Neighbor))
        .chain(config.interfaces.iter().cloned().map(api::v1::object::Object::Interface))
        .chain(config.bridges.iter().cloned().map(api::v1::object::Object::Bridge))
        .chain(config.vrfs.iter().cloned().map(api::v1::object::Object::Vrf));
    policers
        .chain(tenants)
        .chain(config.nat_pools.iter().cloned().map(api::v1::object::Object::NatPool))
        .chain(config.vips.iter().cloned().map(api::v1::object::Object::Vip))
        .chain(config.address_sets.iter().cloned().map(api::v1::object::Object::AddressSet))
        .chain(objects)
        .map(|object| {
            let upserts = config_of(&[Object { object: Some(object), status: None }]);
            ApplyRequest { upserts: Some(upserts), ..ApplyRequest::default() }
        })
        .collect()
}

/// Turns each list by a different amount.
fn shuffle(config: &mut Config, seed: u64) {
    fn turn<T>(list: &mut [T], by: u64) {
        if !list.is_empty() {
            list.rotate_left(usize::try_from(by % list.len() as u64).unwrap());
            if by.is_multiple_of(3) {
                list.reverse();
            }
        }
    }
    turn(&mut config.vrfs, seed);
    turn(&mut config.bridges, seed >> 8);
    turn(&mut config.interfaces, seed >> 16);
    turn(&mut config.routes, seed >> 24);
    turn(&mut config.neighbors, seed >> 32);
    turn(&mut config.tenants, seed >> 40);
    turn(&mut config.nat_pools, seed >> 48);
    turn(&mut config.policers, seed >> 12);
    turn(&mut config.vips, seed >> 56);
    turn(&mut config.address_sets, seed >> 4);
}
