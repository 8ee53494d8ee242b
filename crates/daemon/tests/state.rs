//! The state on disk: cut off, damaged, full disk, restart.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use std::fs;
use std::path::Path;

use api::v1::{ApplyRequest, Config, Kind, NextHop, ObjectState, Route};
use common::{World, apply, controller, deletes, upserts};
use quiverd::control::{ApplyError, Controller};
use quiverd::model::{Key, Name};
use quiverd::state::{Loaded, StateDirectory, StateError};

const ONE: &str = "[[interface]]\nname = \"one\"\nmemif = { socket = \"@one\", secret = \"hush\" }\naddresses = [\"10.0.0.1/24\"]";
const TWO: &str =
    "[[route]]\nprefix = \"192.0.2.0/24\"\nnext_hops = [{ address = \"10.0.0.2\", weight = 3 }]";

fn load(directory: &Path) -> Loaded {
    StateDirectory::open(directory).unwrap().load().unwrap()
}

/// A directory with two generations in it.
fn two_generations() -> (tempfile::TempDir, Config, Config) {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(ONE));
    let one = load_config(&controller);
    apply(&mut controller, &upserts(TWO));
    let two = load_config(&controller);
    (directory, one, two)
}

fn load_config(controller: &Controller) -> Config {
    let mut config = Config::default();
    controller.view().each(None, |object| {
        config.push(object);
        true
    });
    config
}

#[test]
fn an_empty_directory_is_an_empty_state() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = load(&directory.path().join("made/on/demand"));
    assert_eq!((loaded.snapshot.generation, loaded.snapshot.config), (0, Config::default()));
    assert!(loaded.warnings.is_empty());
}

#[test]
fn what_was_applied_is_read_again() {
    let (directory, _, two) = two_generations();
    let loaded = load(directory.path());
    assert_eq!((loaded.snapshot.generation, &loaded.snapshot.config), (2, &two));
    assert!(loaded.warnings.is_empty());
}

#[test]
fn people_can_read_it() {
    let (directory, ..) = two_generations();
    let text = fs::read_to_string(directory.path().join("state.jsonl")).unwrap();
    assert_eq!(
        text.lines().take(3).collect::<Vec<_>>(),
        [
            r#"{"quiver_state":1,"generation":2,"objects":2}"#,
            r#"{"interface":{"name":"one","addresses":["10.0.0.1/24"],"memif":{"socket":"@one","role":"server","secret":"hush"}}}"#,
            r#"{"route":{"prefix":"192.0.2.0/24","next_hops":[{"address":"10.0.0.2","weight":3}]}}"#,
        ]
    );
}

#[test]
fn a_file_cut_anywhere_gives_way_to_the_one_before() {
    let (directory, one, _) = two_generations();
    let whole = fs::read(directory.path().join("state.jsonl")).unwrap();
    let previous = fs::read(directory.path().join("state.jsonl.previous")).unwrap();
    for length in 0..whole.len() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("state.jsonl"), &whole[..length]).unwrap();
        fs::write(directory.path().join("state.jsonl.previous"), &previous).unwrap();
        let loaded = load(directory.path());
        assert_eq!((loaded.snapshot.generation, &loaded.snapshot.config), (1, &one), "cut at {length}");
        assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains("state.jsonl.corrupt-1"), "{:?}", loaded.warnings);
        assert_eq!(fs::read(directory.path().join("state.jsonl.corrupt-1")).unwrap(), &whole[..length]);
    }
}

#[test]
fn a_flipped_bit_is_noticed_wherever_it_is() {
    let (directory, one, _) = two_generations();
    let whole = fs::read(directory.path().join("state.jsonl")).unwrap();
    let previous = fs::read(directory.path().join("state.jsonl.previous")).unwrap();
    for position in 0..whole.len() {
        let directory = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[position] ^= 0x04;
        fs::write(directory.path().join("state.jsonl"), &damaged).unwrap();
        fs::write(directory.path().join("state.jsonl.previous"), &previous).unwrap();
        match StateDirectory::open(directory.path()).unwrap().load() {
            Ok(loaded) => {
                assert_eq!(
                    (loaded.snapshot.generation, &loaded.snapshot.config),
                    (1, &one),
                    "bit in {position}"
                );
            }
            // The bit that makes the format a later one.
            Err(error) => assert!(matches!(error, StateError::Newer { found: 5, .. }), "{position}: {error}"),
        }
    }
}

#[test]
fn nothing_is_overwritten_when_both_are_damaged() {
    let (directory, ..) = two_generations();
    for round in 1..=2 {
        fs::write(directory.path().join("state.jsonl"), "{").unwrap();
        fs::write(directory.path().join("state.jsonl.previous"), [0xff, 0xfe]).unwrap();
        let loaded = load(directory.path());
        assert_eq!(loaded.snapshot.config, Config::default());
        assert!(
            loaded.warnings.last().unwrap().contains("starting with an empty one"),
            "{:?}",
            loaded.warnings
        );
        assert!(directory.path().join(format!("state.jsonl.corrupt-{round}")).exists());
        assert!(directory.path().join(format!("state.jsonl.previous.corrupt-{round}")).exists());
    }
}

#[test]
fn a_later_format_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.jsonl");
    fs::write(&path, "{\"quiver_state\":2,\"generation\":1,\"objects\":0}\n").unwrap();
    let error = StateDirectory::open(directory.path()).unwrap().load().unwrap_err();
    assert!(error.to_string().contains("format 2"), "{error}");
    assert!(path.exists());
}

#[test]
fn a_line_of_a_later_version_is_kept_aside() {
    let directory = tempfile::tempdir().unwrap();
    let body = "{\"quiver_state\":1,\"generation\":3,\"objects\":2}\n{\"tunnel\":{\"name\":\"t\"}}\n{\"vrf\":{\"name\":\"red\"}}\n";
    let text = format!("{body}{{\"crc32\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    fs::write(directory.path().join("state.jsonl"), text).unwrap();
    let loaded = load(directory.path());
    assert_eq!(loaded.snapshot.config.vrfs.len(), 1);
    assert!(
        loaded.warnings[0].contains("line 2") && loaded.warnings[0].contains("tunnel"),
        "{:?}",
        loaded.warnings
    );
    assert!(directory.path().join("state.jsonl.unknown-1").exists());
}

#[test]
fn one_directory_has_one_master() {
    let directory = tempfile::tempdir().unwrap();
    let first = StateDirectory::open(directory.path()).unwrap();
    assert!(matches!(StateDirectory::open(directory.path()), Err(StateError::InUse { .. })));
    drop(first);
    StateDirectory::open(directory.path()).unwrap();
}

/// Files in a directory whose names begin so.
fn files(directory: &Path, prefix: &str) -> Vec<String> {
    let mut names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(prefix))
        .collect::<Vec<_>>();
    names.sort();
    names
}

/// More routes than are written again for every small change.
fn many_routes() -> ApplyRequest {
    let routes = (0..6000_u32).map(|number| Route {
        prefix: format!("{}/32", std::net::Ipv4Addr::from(0x0b00_0000 + number)),
        next_hops: vec![NextHop { interface: "one".into(), ..NextHop::default() }],
        ..Route::default()
    });
    let many = Config { routes: routes.collect(), ..Config::default() };
    ApplyRequest { upserts: Some(many), ..ApplyRequest::default() }
}

/// A large state of generation 1 and three small changes: the directory, and the state after each.
fn journaled() -> (tempfile::TempDir, Vec<Config>) {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let mut states = Vec::new();
    let batches = [
        many_routes(),
        upserts(ONE),
        upserts("[[route]]\nprefix = \"11.0.0.7/32\"\naction = \"blackhole\"\n[[vrf]]\nname = \"red\""),
        deletes(&[(Kind::Interface, "one"), (Kind::Route, "default/11.0.0.9/32")]),
    ];
    for batch in batches {
        apply(&mut controller, &batch);
        states.push(load_config(&controller));
    }
    (directory, states)
}

#[test]
fn small_changes_of_a_large_state_go_to_a_journal() {
    let (directory, states) = journaled();
    assert_eq!(files(directory.path(), "journal"), ["journal-1.jsonl"]);
    let text = fs::read_to_string(directory.path().join("journal-1.jsonl")).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("{\"batch\":")).count(), 3);
    assert!(
        text.lines().any(|line| line == "{\"delete\":{\"kind\":\"interface\",\"name\":\"one\"}}"),
        "{text}"
    );
    let loaded = load(directory.path());
    assert_eq!((loaded.snapshot.generation, loaded.warnings.len()), (4, 0));
    assert_eq!(sorted(loaded.snapshot.config), sorted(states[3].clone()));
}

#[test]
fn a_journal_cut_anywhere_loses_only_what_was_not_confirmed() {
    let (directory, states) = journaled();
    let state = fs::read(directory.path().join("state.jsonl")).unwrap();
    let whole = fs::read(directory.path().join("journal-1.jsonl")).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let mut ends = vec![0];
    ends.extend(text.match_indices("{\"crc32\"").map(|(at, _)| at + text[at..].find('\n').unwrap() + 1));
    for length in (0..=whole.len()).step_by(7) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("state.jsonl"), &state).unwrap();
        fs::write(directory.path().join("journal-1.jsonl"), &whole[..length]).unwrap();
        let loaded = load(directory.path());
        let batches = ends.iter().filter(|end| **end <= length).count() - 1;
        assert_eq!(loaded.snapshot.generation, 1 + batches as u64, "cut at {length}");
        assert_eq!(sorted(loaded.snapshot.config), sorted(states[batches].clone()), "cut at {length}");
        assert_eq!(loaded.warnings.len(), usize::from(!ends.contains(&length)), "{:?}", loaded.warnings);
        assert_eq!(
            fs::metadata(directory.path().join("journal-1.jsonl")).unwrap().len(),
            ends[batches] as u64
        );
    }
}

#[test]
fn a_flipped_bit_in_a_journal_costs_what_comes_after() {
    let (directory, states) = journaled();
    let state = fs::read(directory.path().join("state.jsonl")).unwrap();
    let whole = fs::read(directory.path().join("journal-1.jsonl")).unwrap();
    let first = String::from_utf8(whole.clone()).unwrap().find("{\"batch\":3").unwrap();
    for position in (first..whole.len()).step_by(5) {
        let directory = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[position] ^= 0x04;
        fs::write(directory.path().join("state.jsonl"), &state).unwrap();
        fs::write(directory.path().join("journal-1.jsonl"), &damaged).unwrap();
        let loaded = load(directory.path());
        let generation = usize::try_from(loaded.snapshot.generation).unwrap();
        assert!((2..4).contains(&generation), "bit in {position}: {generation}");
        assert_eq!(
            sorted(loaded.snapshot.config),
            sorted(states[generation - 1].clone()),
            "bit in {position}"
        );
        // Without one of the last two line breaks it looks like a batch that was never completed.
        let warning = &loaded.warnings[0];
        let is_noticed = warning.contains("journal-1.jsonl.corrupt-1") || whole[position] == b'\n';
        assert!(is_noticed, "bit in {position}: {warning}");
    }
}

#[test]
fn a_damaged_state_is_replaced_by_the_previous_one_and_its_journal() {
    let (directory, states) = journaled();
    // A large change: the whole state is written again, and what was before is still there.
    let (world, mut state) = (World::default(), StateDirectory::open(directory.path()).unwrap());
    let snapshot = state.load().unwrap().snapshot;
    let mut controller = Controller::new(Box::new(world.referee()), state);
    controller.restore(snapshot).unwrap();
    apply(&mut controller, &ApplyRequest { replace_all: true, ..upserts(ONE) });
    drop(controller);
    assert_eq!(files(directory.path(), "journal"), ["journal-1.jsonl"]);
    fs::write(directory.path().join("state.jsonl"), "{").unwrap();
    let (world, mut state) = (World::default(), StateDirectory::open(directory.path()).unwrap());
    let loaded = state.load().unwrap();
    assert_eq!(loaded.snapshot.generation, 4);
    assert!(loaded.warnings.iter().any(|warning| warning.contains("generation 4")), "{:?}", loaded.warnings);
    let restored = sorted(loaded.snapshot.config.clone());
    assert_eq!(restored, sorted(states[3].clone()));
    // What follows doesn't go to the old journal.
    let mut controller = Controller::new(Box::new(world.referee()), state);
    controller.restore(loaded.snapshot).unwrap();
    apply(&mut controller, &upserts(ONE));
    drop(controller);
    let loaded = load(directory.path());
    assert_eq!((loaded.snapshot.generation, loaded.warnings.len()), (5, 0));
}

#[test]
fn a_refused_batch_leaves_the_journal_as_it_was() {
    let (directory, _) = journaled();
    let path = directory.path().join("journal-1.jsonl");
    let before = fs::read(&path).unwrap();
    let (world, mut state) = (World::default(), StateDirectory::open(directory.path()).unwrap());
    let snapshot = state.load().unwrap().snapshot;
    let mut controller = Controller::new(Box::new(world.referee()), state);
    controller.restore(snapshot).unwrap();
    world.state().refused_by_execute.insert("one".into());
    assert!(!controller.apply(&upserts(ONE)).unwrap().committed);
    assert_eq!(fs::read(&path).unwrap(), before);
    world.state().refused_by_execute.clear();
    apply(&mut controller, &upserts(ONE));
    drop(controller);
    assert_eq!(load(directory.path()).snapshot.generation, 5);
}

#[test]
fn a_journal_that_grew_is_folded_into_a_new_state() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &many_routes());
    for round in 0..8 {
        let mut batch = many_routes();
        batch.upserts.as_mut().unwrap().routes.truncate(1000);
        for route in &mut batch.upserts.as_mut().unwrap().routes {
            route.next_hops[0].weight = 2 + round;
        }
        apply(&mut controller, &batch);
    }
    let config = load_config(&controller);
    drop(controller);
    assert_ne!(files(directory.path(), "journal"), ["journal-1.jsonl"]);
    let loaded = load(directory.path());
    assert_eq!((loaded.snapshot.generation, sorted(loaded.snapshot.config)), (9, sorted(config)));
}

/// The journal puts objects at the end; their order means nothing.
fn sorted(mut config: Config) -> Config {
    config.routes.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    config.interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    config
}

/// A filesystem of its own, a few pages large; `None` where we may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: usize) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "quiver-test"])
            .arg(directory.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    let Some(disk) = SmallDisk::mount(64 << 10) else {
        eprintln!("skipped: mounting a small filesystem needs root");
        return;
    };
    let world = World::default();
    let mut controller = controller(disk.0.path(), &world);
    apply(&mut controller, &upserts(ONE));
    let (before, config) = (world.state().realised.clone(), load_config(&controller));
    world.take_log();

    let routes = (0..2000_u32).map(|number| Route {
        prefix: format!("{}/32", std::net::Ipv4Addr::from(0x0b00_0000 + number)),
        next_hops: vec![NextHop { interface: "one".into(), ..NextHop::default() }],
        ..Route::default()
    });
    let many = Config { routes: routes.collect(), ..Config::default() };
    let request = ApplyRequest { upserts: Some(many), ..ApplyRequest::default() };
    let error = controller.apply(&request).unwrap_err();
    assert!(matches!(error, ApplyError::State(StateError::Full { .. })), "{error}");
    assert!(error.to_string().contains("Nothing was changed"), "{error}");
    assert_eq!(world.take_log(), Vec::<String>::new(), "the dataplane was touched");
    assert_eq!(world.state().realised, before);
    assert_eq!(load_config(&controller), config);

    // There is room again: a smaller change goes through, and the file on disk is whole.
    let response = apply(&mut controller, &upserts(TWO));
    assert_eq!(response.generation, 2);
    drop(controller);
    assert_eq!(load(disk.0.path()).snapshot.generation, 2);
}

#[test]
fn a_disk_that_fills_up_under_the_journal_changes_nothing() {
    let Some(disk) = SmallDisk::mount(1 << 20) else {
        eprintln!("skipped: mounting a small filesystem needs root");
        return;
    };
    let world = World::default();
    let mut controller = controller(disk.0.path(), &world);
    apply(&mut controller, &many_routes());
    apply(&mut controller, &upserts(ONE));
    let journal = fs::read(disk.0.path().join("journal-1.jsonl")).unwrap();
    // All that is left on the disk is taken by somebody else.
    let mut hog = fs::File::create(disk.0.path().join("hog")).unwrap();
    while std::io::Write::write(&mut hog, &[0; 4096]).is_ok_and(|written| written > 0) {}
    world.take_log();
    let mut batch = many_routes();
    batch.upserts.as_mut().unwrap().routes.truncate(1000);
    batch.upserts.as_mut().unwrap().routes.iter_mut().for_each(|route| route.next_hops[0].weight = 9);
    let error = controller.apply(&batch).unwrap_err();
    assert!(matches!(error, ApplyError::State(StateError::Full { .. })), "{error}");
    assert_eq!(world.take_log(), Vec::<String>::new());
    assert_eq!(fs::read(disk.0.path().join("journal-1.jsonl")).unwrap(), journal);
    fs::remove_file(disk.0.path().join("hog")).unwrap();
    drop(hog);
    apply(&mut controller, &batch);
    drop(controller);
    let loaded = load(disk.0.path());
    assert_eq!((loaded.snapshot.generation, loaded.warnings.len()), (3, 0), "{:?}", loaded.warnings);
}

#[test]
fn a_directory_that_vanished_changes_nothing() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let inner = directory.path().join("state");
    let mut controller = controller(&inner, &world);
    fs::remove_dir_all(&inner).unwrap();
    let error = controller.apply(&upserts(ONE)).unwrap_err();
    assert!(matches!(error, ApplyError::State(StateError::System { .. })), "{error}");
    assert_eq!(world.interfaces(), Vec::<String>::new());
}

#[test]
fn a_refused_batch_leaves_no_file_behind() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    world.state().refused_by_execute.insert("one".into());
    assert!(!controller.apply(&upserts(ONE)).unwrap().committed);
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["lock"]);
}

#[test]
fn what_the_system_refuses_at_start_comes_back_later() {
    let (directory, ..) = two_generations();
    let world = World::default();
    world.state().refused_by_check.insert("one".into());
    let mut state = StateDirectory::open(directory.path()).unwrap();
    let snapshot = state.load().unwrap().snapshot;
    let mut controller = Controller::new(Box::new(world.referee()), state);
    controller.restore(snapshot).unwrap();
    let status = |controller: &Controller, key: &Key| controller.view().get(key).unwrap().status.unwrap();
    let one = Key::Interface(Name::new("one").unwrap());
    assert_eq!(status(&controller, &one).state(), ObjectState::Failed);
    assert_eq!(status(&controller, &one).failure, "tap.netns: doesn't exist; create it");
    let route = Key::parse(&api::v1::ObjectRef::new(Kind::Route, "192.0.2.0/24")).unwrap();
    assert_eq!(status(&controller, &route).state(), ObjectState::Pending);
    controller.retry();
    assert_eq!(status(&controller, &one).state(), ObjectState::Failed, "still refused");

    world.state().refused_by_check.clear();
    let mut events = controller.events().subscribe();
    controller.retry();
    assert_eq!(status(&controller, &one).state(), ObjectState::Applied);
    assert_eq!(status(&controller, &route).state(), ObjectState::Applied);
    assert_eq!(world.route("192.0.2.0/24").as_deref(), Some("router 10.0.0.2 on one"));
    let first = events.try_recv().unwrap();
    assert_eq!(first.object.unwrap().name, "one");
    assert_eq!(first.status.unwrap().state(), ObjectState::Applied);
    // Nothing of this is a change of what is wanted.
    assert_eq!(controller.view().generation(), 2);
    apply(&mut controller, &deletes(&[(Kind::Interface, "one")]));
}
