//! What becomes of batches: applied, pending, refused, taken back.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use api::v1::{ApplyRequest, ApplyResponse, ChangeKind, Kind, ObjectState};
use common::{ONE, TWO, World, apply, controller, deletes, outcome, refuse, upserts};
use quiverd::control::ApplyError;
use quiverd::model::{Flaw, Key, Name, Refusal};

const LAB: &str = r#"
    [[vrf]]
    name = "red"

    [[bridge]]
    name = "lan"
    static_macs = [{ mac = "02:00:00:00:00:99", interface = "pod-b" }]

    [[interface]]
    name = "pod-a"
    memif = { socket = "@pod-a" }
    addresses = ["10.0.0.1/24"]

    [[interface]]
    name = "pod-a.100"
    vlan = { parent = "pod-a", outer_id = 100 }
    addresses = ["10.0.1.1/24"]
    vrf = "red"

    [[interface]]
    name = "pod-b"
    tap = { netns = "pod-b", host_name = "eth0" }
    bridge = { name = "lan" }

    [[route]]
    prefix = "192.0.2.0/24"
    next_hops = [{ address = "10.0.0.2" }]

    [[route]]
    vrf = "red"
    prefix = "0.0.0.0/0"
    next_hops = [{ address = "10.0.1.2" }]

    [[neighbor]]
    interface = "pod-a"
    address = "10.0.0.2"
    mac = "02:00:00:00:00:02"
"#;

#[test]
fn a_whole_lab_is_applied_at_once() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let response = apply(&mut controller, &upserts(LAB));
    assert_eq!(response.generation, 1);
    let counts = response.counts.unwrap();
    assert_eq!((counts.applied, counts.pending, counts.refused), (8, 0, 0), "{:#?}", response.results);
    assert_eq!(world.interfaces(), ["pod-a", "pod-a.100", "pod-b"]);
    assert_eq!(world.route("192.0.2.0/24").as_deref(), Some("router 10.0.0.2 on pod-a"));
    assert_eq!(world.state().published, 1);
}

#[test]
fn the_same_again_changes_nothing() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(LAB));
    world.take_log();
    let response = apply(&mut controller, &upserts(LAB));
    assert_eq!(response.generation, 1);
    assert_eq!(response.counts.unwrap().unchanged, 8);
    assert_eq!(world.take_log(), Vec::<String>::new());
}

#[test]
fn objects_wait_by_name_for_what_they_stand_on() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let parts = upserts(LAB).upserts.unwrap();

    let mut only = |change: &dyn Fn(&mut api::v1::Config)| {
        let mut config = api::v1::Config::default();
        change(&mut config);
        apply(&mut controller, &ApplyRequest { upserts: Some(config), ..ApplyRequest::default() })
    };
    let response = only(&|config| config.routes = parts.routes.clone());
    assert_eq!(
        outcome(&response, "default/192.0.2.0/24"),
        "pending: no interface in VRF default has a network that covers 10.0.0.2"
    );
    assert_eq!(outcome(&response, "red/0.0.0.0/0"), "pending: there is no vrf red yet");
    let response = only(&|config| config.neighbors = parts.neighbors.clone());
    assert_eq!(outcome(&response, "pod-a/10.0.0.2"), "pending: there is no interface pod-a yet");
    let response = only(&|config| config.interfaces = parts.interfaces[1..].to_vec());
    assert_eq!(
        outcome(&response, "pod-a.100"),
        "pending: there is no vrf red yet; there is no interface pod-a yet"
    );
    assert_eq!(outcome(&response, "pod-b"), "pending: there is no bridge lan yet");
    assert_eq!(world.interfaces(), Vec::<String>::new());

    let response = only(&|config| config.bridges = parts.bridges.clone());
    assert_eq!(outcome(&response, "pod-b"), "applied", "one that waited comes up");
    let response = only(&|config| config.vrfs = parts.vrfs.clone());
    assert_eq!(outcome(&response, "pod-a.100"), "pending: there is no interface pod-a yet");
    assert_eq!(
        outcome(&response, "red/0.0.0.0/0"),
        "pending: no interface in VRF red has a network that covers 10.0.1.2"
    );
    let response = only(&|config| config.interfaces = parts.interfaces[..1].to_vec());
    for name in ["pod-a", "pod-a.100", "default/192.0.2.0/24", "red/0.0.0.0/0", "pod-a/10.0.0.2"] {
        assert_eq!(outcome(&response, name), "applied", "{name}");
    }
    assert_eq!(world.interfaces(), ["pod-a", "pod-a.100", "pod-b"]);
}

/// Of routes outside of the batch that an interface moves, those are told of that fit, however many the batch has itself, and the others are counted.
#[test]
fn routes_that_move_are_listed_or_counted() {
    const LISTED: usize = 10_000;
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let route = |net: u8, n: usize| {
        let prefix = format!("{net}.{}.{}.0/24", n >> 8, n & 255);
        format!("[[route]]\nprefix = \"{prefix}\"\nnext_hops = [{{ interface = \"x\" }}]\n")
    };
    let routes = |net, count| (0..count).map(|n| route(net, n)).collect::<String>();
    let interface = "[[interface]]\nname = \"x\"\nmemif = { socket = \"@x\" }\n";
    let counts = apply(&mut controller, &upserts(&routes(20, 5))).counts.unwrap();
    assert_eq!((counts.applied, counts.pending), (0, 5));
    let response = apply(&mut controller, &upserts(&(interface.to_owned() + &routes(30, LISTED))));
    assert_eq!(
        (response.results.len(), response.left_out),
        (5, 0),
        "those of the batch say no more than applied"
    );
    let told = response.results.iter().filter_map(|result| result.object.clone());
    assert!(told.map(|object| object.name).all(|name| name.contains("20.0.")), "{:?}", response.results[0]);
    let gone = deletes(&[(Kind::Interface, "x")]);
    let response = apply(&mut controller, &gone);
    assert_eq!((response.results.len(), response.left_out), (LISTED, 6), "one of them is the interface");
}

#[test]
fn what_loses_its_ground_waits_again() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(LAB));
    let response = apply(&mut controller, &deletes(&[(Kind::Interface, "pod-a"), (Kind::Bridge, "lan")]));
    assert_eq!(response.counts.unwrap().deleted, 2);
    assert_eq!(outcome(&response, "pod-a"), "applied");
    assert_eq!(outcome(&response, "pod-a.100"), "pending: there is no interface pod-a yet");
    assert_eq!(outcome(&response, "pod-b"), "pending: there is no bridge lan yet");
    assert_eq!(outcome(&response, "pod-a/10.0.0.2"), "pending: there is no interface pod-a yet");
    assert!(outcome(&response, "default/192.0.2.0/24").starts_with("pending: no interface"));
    assert_eq!(world.interfaces(), Vec::<String>::new());
    assert_eq!(world.route("192.0.2.0/24"), None);
}

#[test]
fn deleting_what_is_not_there_is_no_error() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let response =
        apply(&mut controller, &deletes(&[(Kind::Interface, "ghost"), (Kind::Route, "default/::/0")]));
    assert_eq!((response.generation, response.counts.unwrap().deleted), (0, 0));
}

#[test]
fn one_bad_object_stops_the_batch() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let batch =
        format!("{LAB}\n[[interface]]\nname = \"bad\"\nmemif = {{ socket = \"@x\", ring_size = 1000 }}");
    let response = refuse(&mut controller, &upserts(&batch));
    assert_eq!(response.counts.unwrap().refused, 1);
    assert_eq!(outcome(&response, "bad"), "refused memif.ring_size: 1000 is no power of two");
    assert_eq!(world.take_log(), Vec::<String>::new());
    assert!(controller.view().get(&Key::Vrf(Name::new("red").unwrap())).is_none());
}

#[test]
fn the_same_object_twice_has_no_meaning() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let mut request = upserts("[[vrf]]\nname = \"red\"\n[[vrf]]\nname = \"red\"");
    let response = refuse(&mut controller, &request);
    assert_eq!(outcome(&response, "red"), "refused name: appears twice in the batch");
    request.upserts.as_mut().unwrap().vrfs.pop();
    request.deletes = deletes(&[(Kind::Vrf, "red")]).deletes;
    refuse(&mut controller, &request);
}

#[test]
fn a_refusal_of_the_system_is_found_before_anything_is_done() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    world.state().refused_by_check.insert("pod-b".into());
    let response = refuse(&mut controller, &upserts(LAB));
    assert_eq!(outcome(&response, "pod-b"), "refused tap.netns: doesn't exist");
    assert_eq!(world.take_log(), Vec::<String>::new());
    let mut dry = upserts(LAB);
    dry.dry_run = true;
    assert_eq!(outcome(&controller.apply(&dry).unwrap(), "pod-b"), "refused tap.netns: doesn't exist");
}

#[test]
fn a_refusal_in_the_middle_is_taken_back() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(
        &mut controller,
        &upserts("[[interface]]\nname = \"old\"\nsink = {}\naddresses = [\"10.0.0.1/24\"]"),
    );
    let before = world.state().realised.clone();
    world.take_log();
    world.state().refused_by_execute.insert("pod-b".into());
    let mut request = upserts(LAB);
    request.replace_all = true;
    let response = refuse(&mut controller, &request);
    assert_eq!(outcome(&response, "pod-b"), "refused tap.host_name: is taken");
    assert!(world.take_log().len() >= 4, "something was done and taken back");
    assert_eq!(world.state().realised, before);
    world.state().refused_by_execute.clear();
    apply(&mut controller, &request);
    assert_eq!(world.interfaces(), ["pod-a", "pod-a.100", "pod-b"]);
}

#[test]
fn a_batch_is_not_blamed_for_others() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let waiting = "[[interface]]\nname = \"w\"\nsink = {}\nvrf = \"red\"";
    apply(&mut controller, &upserts(waiting));
    for by_check in [true, false] {
        let mut state = world.state();
        if by_check { &mut state.refused_by_check } else { &mut state.refused_by_execute }.insert("w".into());
        drop(state);
        let response = apply(&mut controller, &upserts("[[vrf]]\nname = \"red\""));
        assert_eq!(outcome(&response, "red"), "applied");
        assert!(outcome(&response, "w").starts_with("pending: tap."), "{response:#?}");
        assert!(world.state().realised.vrfs.contains_key("red"));

        // Asked for again, it is tried again, and now the batch is to blame.
        let response = refuse(&mut controller, &upserts(waiting));
        assert!(outcome(&response, "w").starts_with("refused tap."));

        let mut state = world.state();
        state.refused_by_check.clear();
        state.refused_by_execute.clear();
        drop(state);
        controller.retry();
        assert_eq!(world.interfaces(), ["w"]);
        apply(&mut controller, &deletes(&[(Kind::Vrf, "red")]));
        assert_eq!(world.interfaces(), Vec::<String>::new());
    }
}

#[test]
fn a_generation_that_is_not_in_force_is_refused() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &ApplyRequest { expected_generation: Some(0), ..upserts(LAB) });
    let error = controller.apply(&ApplyRequest { expected_generation: Some(0), ..upserts(LAB) }).unwrap_err();
    assert!(matches!(error, ApplyError::Generation { expected: 0, actual: 1 }), "{error}");
}

#[test]
fn a_dry_run_says_what_would_be_and_does_nothing() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(LAB));
    world.take_log();
    let mut request = upserts(
        "[[interface]]\nname = \"pod-a\"\nmemif = { socket = \"@pod-a\", secret = \"s\" }\naddresses = [\"10.0.0.1/24\"]\nmtu = 9000\n\
         [[vrf]]\nname = \"blue\"",
    );
    request.deletes = deletes(&[(Kind::Bridge, "lan")]).deletes;
    request.dry_run = true;
    let response = controller.apply(&request).unwrap();
    assert!(!response.committed);
    assert_eq!(response.generation, 1);
    assert_eq!(world.take_log(), Vec::<String>::new());
    assert_eq!(outcome(&response, "pod-b"), "pending: there is no bridge lan yet");
    let changes = response
        .changes
        .iter()
        .map(|change| {
            let fields = change.fields.iter().map(|f| format!("{} {}→{}", f.field, f.before, f.after));
            (
                change.object.as_ref().unwrap().name.clone(),
                change.kind(),
                fields.collect::<Vec<_>>().join(" "),
            )
        })
        .collect::<Vec<_>>();
    assert_eq!(
        changes,
        [
            ("blue".into(), ChangeKind::Added, "name →\"blue\"".into()),
            ("lan".into(), ChangeKind::Removed, String::new()),
            ("pod-a".into(), ChangeKind::Changed, "memif.secret →\"…\" mtu →9000".into()),
        ]
    );
    let again = controller.apply(&request).unwrap();
    assert_eq!(again, response, "nothing was left behind");
}

#[test]
fn replace_all_takes_out_the_rest() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(LAB));
    let mut request = upserts("[[interface]]\nname = \"only\"\nsink = {}");
    request.replace_all = true;
    let response = apply(&mut controller, &request);
    assert_eq!(response.counts.unwrap().deleted, 8);
    assert_eq!(world.interfaces(), ["only"]);
    assert!(world.state().routes.is_empty() && world.state().realised.neighbors.is_empty());
}

#[test]
fn a_vlan_can_take_the_port_of_its_parent() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(
        &mut controller,
        &upserts(
            "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\" }
             [[interface]]\nname = \"d\"\nvlan = { parent = \"a\", outer_id = 1 }",
        ),
    );
    let mut request = upserts("[[interface]]\nname = \"d\"\nmemif = { socket = \"@x\" }");
    request.deletes = deletes(&[(Kind::Interface, "a")]).deletes;
    world.take_log();
    apply(&mut controller, &request);
    assert_eq!(
        world.take_log(),
        [
            "close the port of interface d",
            "change interface a",
            "destroy interface a",
            "open the port of interface d"
        ]
    );
}

#[test]
fn routes_move_before_their_old_way_goes() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let lab = |name: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nsink = {{}}
             [[route]]\nprefix = \"192.0.2.0/24\"\nnext_hops = [{{ interface = \"{name}\" }}]"
        )
    };
    apply(&mut controller, &upserts(&lab("a")));
    world.take_log();
    apply(&mut controller, &ApplyRequest { replace_all: true, ..upserts(&lab("b")) });
    assert_eq!(
        world.take_log(),
        [
            "create interface b",
            "change interface b",
            "change route default/192.0.2.0/24",
            "change interface a",
            "destroy interface a"
        ]
    );
}

#[test]
fn what_the_dataplane_loses_fails_with_a_reason_and_comes_back() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let refusal = |key: Key, reason: &str| Refusal { key, flaw: Flaw::new("", reason) };
    let route = Key::parse(&api::v1::ObjectRef::new(Kind::Route, "192.0.2.0/24")).unwrap();
    // While it is published: what was accepted isn't in force, and the answer says so.
    world.state().lost = vec![refusal(route.clone(), "the table is full")];
    let both = upserts(&format!("{ONE}\n{TWO}"));
    let response = apply(&mut controller, &both);
    assert_eq!(outcome(&response, "one"), "applied");
    assert_eq!(outcome(&response, "default/192.0.2.0/24"), "pending: the table is full");
    assert_eq!(world.route("192.0.2.0/24"), None, "it isn't left behind");
    controller.retry();
    assert_eq!(world.route("192.0.2.0/24").as_deref(), Some("router 10.0.0.2 on one"));

    // Later, by itself: the interface goes with what depends on it, and watchers hear of it.
    let mut events = controller.events().subscribe();
    let one = Key::Interface(Name::new("one").unwrap());
    world.state().lost = vec![refusal(one.clone(), "device eth0 was deleted"), refusal(one.clone(), "twice")];
    controller.tend();
    let status = |key: &Key| controller.view().get(key).unwrap().status.unwrap();
    assert_eq!(
        (status(&one).state(), &*status(&one).failure),
        (ObjectState::Failed, "device eth0 was deleted")
    );
    assert_eq!(status(&route).state(), ObjectState::Pending);
    assert!(world.interfaces().is_empty());
    assert_eq!(events.try_recv().unwrap().status.unwrap().state(), ObjectState::Failed);
    controller.retry();
    assert_eq!(controller.view().get(&route).unwrap().status.unwrap().state(), ObjectState::Applied);
    assert_eq!(controller.generation(), 1, "nothing of this changes what is wanted");
    // What isn't wanted any more can't fail.
    apply(&mut controller, &deletes(&[(Kind::Interface, "one")]));
    world.state().lost = vec![refusal(one, "late")];
    controller.tend();
    assert!(world.interfaces().is_empty());
}

#[test]
fn what_workers_do_not_take_is_not_called_applied() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    world.state().stuck = true;
    let response = apply(&mut controller, &upserts(ONE));
    assert_eq!(outcome(&response, "one"), "pending: a worker doesn't take it");
    assert_eq!(response.counts.unwrap().applied, 0);
    world.state().stuck = false;
    let response = apply(&mut controller, &upserts(TWO));
    assert_eq!(outcome(&response, "default/192.0.2.0/24"), "applied");
}

#[test]
fn a_tenant_is_in_force_where_its_interfaces_are() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let tenant = "[[tenant]]\nname = \"red\"\ninterfaces = [\"a\"]\noutside_interfaces = [\"b\"]";
    let response = apply(&mut controller, &upserts(tenant));
    let waits = "pending: there is no interface a yet; there is no interface b yet";
    assert_eq!(outcome(&response, "red"), waits);
    let interfaces = "[[interface]]\nname = \"a\"\nsink = {}\n[[interface]]\nname = \"b\"\nsink = {}";
    let response = apply(&mut controller, &upserts(interfaces));
    assert_eq!(outcome(&response, "red"), "applied");
    world.take_log();
    let response = apply(&mut controller, &deletes(&[(Kind::Interface, "b")]));
    assert_eq!(outcome(&response, "red"), "pending: there is no interface b yet");
    let log = world.take_log();
    assert_eq!(
        log.first().map(String::as_str),
        Some("change tenant red"),
        "before what it refers to: {log:?}"
    );
    // It moves to another tenant in one batch: at no point it is both's.
    let mut request = upserts("[[tenant]]\nname = \"blue\"\ninterfaces = [\"a\"]");
    request.deletes = deletes(&[(Kind::Tenant, "red")]).deletes;
    let response = apply(&mut controller, &request);
    assert_eq!(outcome(&response, "blue"), "applied");
    assert_eq!(world.take_log(), ["destroy tenant red", "create tenant blue"]);
}

#[test]
fn quotas_of_sessions_that_do_not_fit_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::default();
    world.state().session_room = Some(1000);
    let mut controller = controller(directory.path(), &world);
    let tenant = |name: &str, quota: u32| {
        upserts(&format!("[[tenant]]\nname = \"{name}\"\ncontext = {quota}\nmax_sessions = {quota}\n"))
    };
    let warnings = |response: &ApplyResponse| -> Vec<String> {
        response.results.iter().flat_map(|result| result.warnings.clone()).collect()
    };
    let first = controller.apply(&tenant("red", 700)).unwrap();
    assert_eq!((first.committed, warnings(&first)), (true, Vec::new()));
    let second = controller.apply(&ApplyRequest { terse: true, ..tenant("blue", 1300) }).unwrap();
    assert!(second.committed);
    assert_eq!(
        warnings(&second),
        [
            "max_sessions of all tenants are 2000, and workers have room for 1000: 588 of its 1300 are guaranteed; lower \
          max_sessions, or raise workers.sessions"
        ]
    );
    let third = controller.apply(&tenant("blue", 300)).unwrap();
    assert_eq!((third.committed, warnings(&third)), (true, Vec::new()));
}
