//! The journal of a large state: cut off, damaged, full disk, growing.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod common;

use std::collections::BTreeSet;
use std::fs;

use api::v1::ApplyRequest;
use common::{
    ONE, SmallDisk, World, apply, controller, files, journaled, load, load_config, many_routes, sorted,
    upserts,
};
use quiverd::control::{ApplyError, Controller};
use quiverd::model::{Key, Name};
use quiverd::state::{StateDirectory, StateError};

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
    // The uppermost bit makes bytes of it that are no text.
    for (position, bit) in (first..whole.len()).step_by(5).flat_map(|at| [(at, 0x04), (at + 1, 0x80)]) {
        let directory = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        let Some(byte) = damaged.get_mut(position) else { continue };
        *byte ^= bit;
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
fn a_journals_line_of_a_later_version_is_kept_aside() {
    let (directory, _) = journaled();
    let path = directory.path().join("journal-1.jsonl");
    let body = "{\"batch\":5,\"objects\":1}\n{\"put\":{\"tunnel\":{\"name\":\"t\"}}}\n";
    let sum = format!("{{\"crc32\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    let whole = [fs::read(&path).unwrap(), body.into(), sum.into()].concat();
    fs::write(&path, &whole).unwrap();
    // However often it is started, and also when the journal itself has gone.
    for _ in 0..2 {
        let loaded = load(directory.path());
        assert_eq!((loaded.snapshot.generation, loaded.warnings.len()), (5, 1), "{:?}", loaded.warnings);
        let warning = &loaded.warnings[0];
        assert!(warning.contains("journal-1.jsonl.unknown-1") && warning.contains("tunnel"), "{warning}");
    }
    assert_eq!(files(directory.path(), "journal"), ["journal-1.jsonl", "journal-1.jsonl.unknown-1"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(fs::read(directory.path().join("journal-1.jsonl.unknown-1")).unwrap(), whole);
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

/// A set that is changed a member at a time is written down a member at a time, and is there as a whole after a restart.
#[test]
fn members_that_come_and_go_are_written_alone() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let set = |fields: &str| upserts(&format!("[[address_set]]\nname = \"pods\"\n{fields}"));
    let all: Vec<String> = (0..6000).map(|n| format!("\"10.1.{}.{}\"", n / 250, n % 250)).collect();
    let members = |controller: &Controller| {
        let object = controller.view().get(&Key::AddressSet(Name::new("pods").unwrap())).unwrap().object;
        let Some(api::v1::object::Object::AddressSet(set)) = object else { panic!("{object:?}") };
        set.members
    };
    let mut first = controller(directory.path(), &world);
    apply(&mut first, &set(&format!("members = [{}]", all.join(", "))));
    apply(&mut first, &set("add = [\"192.0.2.1\", \"fd00::3\"]\nremove = [\"10.1.0.7\"]"));
    apply(&mut first, &set("add = [\"10.1.0.7\"]\nremove = [\"192.0.2.1\", \"10.1.0.8\"]"));
    let expected = members(&first);
    assert_eq!((expected.len(), expected.last().map(String::as_str)), (6000, Some("fd00::3")));
    assert!(!expected.contains(&"10.1.0.8".to_string()) && expected.contains(&"10.1.0.7".to_string()));
    drop(first);
    let journals = files(directory.path(), "journal");
    let [journal] = &journals[..] else { panic!("{journals:?}") };
    let written = fs::read(directory.path().join(journal)).unwrap();
    assert!(written.len() < 1000, "{}", String::from_utf8_lossy(&written));
    let mut sets = load(directory.path()).snapshot.config.address_sets;
    let after = sets.remove(0).members;
    assert_eq!((after.len(), sets.len()), (6000, 0));
    assert_eq!(after.into_iter().collect::<BTreeSet<_>>(), expected.into_iter().collect());
}
