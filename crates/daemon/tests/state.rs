//! The state on disk: cut off, damaged, full disk, restart.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use std::fs;
use std::path::Path;

use api::v1::{ApplyRequest, Config, Kind, NextHop, ObjectState, Route, Vip};
use common::{
    ONE, SmallDisk, TWO, World, apply, controller, deletes, load, load_config, refuse, two_generations,
    upserts,
};
use quiverd::control::{ApplyError, Controller};
use quiverd::model::{Key, Name};
use quiverd::state::{StateDirectory, StateError, take_sessions};

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
fn what_is_not_accepted_any_more_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let body = "{\"quiver_state\":1,\"generation\":3,\"objects\":4}\n\
                {\"vrf\":{\"name\":\"has space\"}}\n\
                {\"vrf\":{\"name\":\"blue\",\"id\":1}}\n\
                {\"vrf\":{\"name\":\"red\",\"id\":1}}\n\
                {\"interface\":{\"name\":\"one\",\"sink\":{},\"vrf\":\"blue\"}}\n";
    let text = format!("{body}{{\"crc32\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    fs::write(directory.path().join("state.jsonl"), text).unwrap();
    let mut state = StateDirectory::open(directory.path()).unwrap();
    let snapshot = state.load().unwrap().snapshot;
    let world = World::default();
    let mut controller = Controller::new(Box::new(world.referee()), state);
    controller.restore(snapshot).unwrap();
    let config = load_config(&controller);
    assert_eq!(
        config.object_refs().map(|name| name.to_string()).collect::<Vec<_>>(),
        ["vrf blue", "interface one"]
    );
    assert_eq!(world.interfaces(), ["one"]);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_though_somebody_always_asks_for_something() {
    let (directory, ..) = two_generations();
    let world = World::default();
    world.state().refused_by_check.insert("one".into());
    let mut state = StateDirectory::open(directory.path()).unwrap();
    let snapshot = state.load().unwrap().snapshot;
    let mut controller = Controller::new(Box::new(world.referee()), state);
    controller.restore(snapshot).unwrap();
    let (handle, thread) = quiverd::control::start(controller).unwrap();
    let one = Key::Interface(Name::new("one").unwrap());
    assert_eq!(handle.view().await.unwrap().get(&one).unwrap().status.unwrap().state(), ObjectState::Failed);
    world.state().refused_by_check.clear();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while handle.view().await.unwrap().get(&one).unwrap().status.unwrap().state() != ObjectState::Applied {
        assert!(std::time::Instant::now() < end, "it is never tried again");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    handle.stop();
    thread.join().unwrap();
}

/// Writes objects as the state that a version before has left.
fn written(directory: &Path, lines: &[&str]) -> String {
    let body = format!(
        "{{\"quiver_state\":1,\"generation\":3,\"objects\":{}}}\n{}\n",
        lines.len(),
        lines.join("\n")
    );
    let text = format!("{body}{{\"crc32\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    fs::write(directory.join("state.jsonl"), &text).unwrap();
    text
}

fn restored(directory: &Path) -> Controller {
    let mut state = StateDirectory::open(directory).unwrap();
    let loaded = state.load().unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let mut controller = Controller::new(Box::new(World::default().referee()), state);
    controller.restore(loaded.snapshot).unwrap();
    controller
}

/// A VIP where a pool has hosts seen is refused, but not where both were there before; and others come and go beside them.
#[test]
fn a_vip_at_a_pool_s_address_that_was_there_before_stays() {
    let directory = tempfile::tempdir().unwrap();
    let vip =
        r#"{"vip":{"name":"web","address":"192.0.2.1","port":8080,"backends":[{"address":"10.1.0.2"}]}}"#;
    let text = written(directory.path(), &[vip, r#"{"nat_pool":{"name":"out","addresses":["192.0.2.1"]}}"#]);
    let mut controller = restored(directory.path());
    let config = load_config(&controller);
    assert_eq!((config.vips.len(), config.nat_pools.len()), (1, 1));
    assert_eq!(fs::read_to_string(directory.path().join("state.jsonl")).unwrap(), text);
    let other = |port| {
        let backends = vec![api::v1::Backend { address: "10.1.0.3".into(), ..Default::default() }];
        let vip = Vip { name: "other".into(), address: "192.0.2.1".into(), port, backends, ..Vip::default() };
        let config = Config { vips: vec![vip], ..Config::default() };
        ApplyRequest { upserts: Some(config), ..ApplyRequest::default() }
    };
    apply(&mut controller, &other(80));
    assert_eq!(load_config(&controller).vips.len(), 2);
    refuse(&mut controller, &other(8081));
}

/// What the version before accepted, and this one doesn't, costs no object: least of all a tenant, whose interfaces would forward without its rules.
#[test]
fn what_was_accepted_before_is_put_right() {
    let directory = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"bridge":{"name":"lan","mac_age_seconds":40000,"static_macs":[{"mac":"02:00:00:00:00:0A","drop":true}]}}"#,
        r#"{"interface":{"name":"leg","loopback":{},"mac":"02:00:00:00:00:0a","bridge":{"name":"lan","bvi":true}}}"#,
        r#"{"interface":{"name":"ids","addresses":["10.0.0.1/24"],"sink":{}}}"#,
        r#"{"interface":{"name":"pod","sink":{}}}"#,
        r#"{"acl":{"name":"guard","default_action":"deny","rules":[{"action":"permit","protocol":"47"},{"action":"permit","protocol":"tcp"},{"action":"permit"}]}}"#,
        r#"{"tenant":{"name":"red","interfaces":["pod"],"redirect":{"interfaces":["ids"]},"forward_services":["redirect"],"reverse_services":["redirect"]}}"#,
    ];
    let text = written(directory.path(), &lines);
    let controller = restored(directory.path());
    let config = load_config(&controller);
    assert_eq!(config.len(), lines.len(), "{config:#?}");
    assert_eq!((config.bridges[0].mac_age_seconds, config.bridges[0].static_macs.len()), (Some(32_766), 0));
    assert!(config.interfaces.iter().all(|interface| interface.addresses.is_empty()));
    assert_eq!(config.tenants.len(), 1);
    let rules = config.acls[0].rules.iter().map(|rule| rule.protocol.as_str()).collect::<Vec<_>>();
    assert_eq!(rules, ["tcp", ""]);
    assert_eq!(fs::read_to_string(directory.path().join("state.jsonl.before-1")).unwrap(), text);
}

/// Nobody writes to a FIFO, and `/dev/zero` has no end: a start says so instead of waiting.
#[test]
fn only_regular_files_are_read() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let link = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    type Make<'m> = &'m dyn Fn(&Path);
    let kinds: [(Make<'_>, &str); 3] =
        [(&fifo, "it is a FIFO"), (&link, "it is a symbolic link"), (&directory, "it is a directory")];
    for (make, found) in kinds {
        for name in ["lock", "state.jsonl", "state.jsonl.previous", "journal-2.jsonl", "sessions.jsonl"] {
            // A journal is read where it follows a state.
            let place = match name {
                "journal-2.jsonl" => two_generations().0,
                _ => tempfile::tempdir().unwrap(),
            };
            make(&place.path().join(name));
            let checked = StateDirectory::check(place.path()).unwrap_err().to_string();
            let error = match (StateDirectory::open(place.path()), name) {
                (Ok(_), "sessions.jsonl") => take_sessions(place.path()).unwrap_err().to_string(),
                (Ok(mut state), _) => state.load().unwrap_err().to_string(),
                (Err(error), _) => error.to_string(),
            };
            for error in [&checked, &error] {
                assert!(error.contains(found), "{name}: {error}");
            }
            assert!(checked.contains(name), "{checked}");
        }
    }
}

#[test]
fn a_state_of_zeros_is_set_aside() {
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("state.jsonl");
    fs::File::create(&state).unwrap().set_len(32 << 30).unwrap();
    StateDirectory::check(place.path()).unwrap();
    let loaded = StateDirectory::open(place.path()).unwrap().load().unwrap();
    assert!(
        loaded.warnings[0].contains("state.jsonl is damaged: line 1 isn't text"),
        "{:?}",
        loaded.warnings
    );
    assert!(!state.exists());
}

#[test]
fn the_good_part_of_a_damaged_journal_is_all_that_is_copied() {
    let (place, _, two) = two_generations();
    let journal = place.path().join("journal-2.jsonl");
    let file = fs::File::create(&journal).unwrap();
    file.set_len(32 << 30).unwrap();
    let loaded = load(place.path());
    assert_eq!((loaded.snapshot.generation, &loaded.snapshot.config), (2, &two));
    assert!(loaded.warnings[0].contains("journal-2.jsonl is damaged"), "{:?}", loaded.warnings);
    assert_eq!(fs::metadata(&journal).unwrap().len(), 0);
    assert_eq!(fs::metadata(place.path().join("journal-2.jsonl.corrupt-1")).unwrap().len(), 32 << 30);
}
