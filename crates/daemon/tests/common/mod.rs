//! What the tests of the control plane share.
#![allow(dead_code, unused_imports)] // each test program uses a part

mod disk;
mod glass;
mod referee;

use std::path::Path;

use api::text::{Format, read_config};
use api::v1::{ApplyRequest, ApplyResponse, Config, Kind, ObjectRef, Refused, Wait, object_result::Outcome};
pub use disk::{
    ONE, SmallDisk, TWO, files, journaled, load, load_config, many_routes, sorted, two_generations,
};
pub use glass::{FIB_ENTRIES, Glass, SESSIONS};
use quiverd::control::Controller;
use quiverd::state::StateDirectory;
pub use referee::World;

/// A controller over a referee, with its state in `directory`.
pub fn controller(directory: &Path, world: &World) -> Controller {
    Controller::new(Box::new(world.referee()), StateDirectory::open(directory).unwrap())
}

/// A desired state from TOML.
pub fn config(toml: &str) -> Config {
    read_config(toml, Format::Toml).unwrap()
}

/// A batch that puts in what the TOML says.
pub fn upserts(toml: &str) -> ApplyRequest {
    ApplyRequest { upserts: Some(config(toml)), ..ApplyRequest::default() }
}

/// A batch that takes out.
pub fn deletes(names: &[(Kind, &str)]) -> ApplyRequest {
    ApplyRequest {
        deletes: names.iter().map(|(kind, name)| ObjectRef::new(*kind, *name)).collect(),
        ..ApplyRequest::default()
    }
}

/// What became of one object, in a form that is easy to compare: "applied", "pending: …", "refused field: …".
pub fn outcome(response: &ApplyResponse, name: &str) -> String {
    let result = response
        .results
        .iter()
        .find(|result| result.object.as_ref().is_some_and(|object| object.name == name))
        .unwrap_or_else(|| panic!("no result for {name}: {response:#?}"));
    match result.outcome.as_ref().unwrap() {
        Outcome::Applied(_) => "applied".into(),
        Outcome::Pending(pending) => {
            let reasons = pending.waits_for.iter().map(reason).collect::<Vec<_>>();
            format!("pending: {}", reasons.join("; "))
        }
        Outcome::Refused(Refused { field, reason, .. }) => format!("refused {field}: {reason}"),
    }
}

fn reason(wait: &Wait) -> String {
    wait.reason.clone()
}

/// Asserts that a batch was accepted and returns the answer.
#[track_caller]
pub fn apply(controller: &mut Controller, request: &ApplyRequest) -> ApplyResponse {
    let response = controller.apply(request).unwrap();
    assert!(response.committed, "refused: {:#?}", response.results);
    response
}

/// Asserts that a batch was refused and returns the answer.
#[track_caller]
pub fn refuse(controller: &mut Controller, request: &ApplyRequest) -> ApplyResponse {
    let before = controller.view().generation();
    let response = controller.apply(request).unwrap();
    assert!(!response.committed, "accepted: {response:#?}");
    assert_eq!(controller.view().generation(), before);
    response
}
