//! States on disk to begin with.

use std::fs;
use std::path::Path;

use api::v1::{ApplyRequest, Config, Kind, NextHop, Route};
use quiverd::control::Controller;
use quiverd::state::{Loaded, StateDirectory};

use super::{World, apply, controller, deletes, upserts};

pub const ONE: &str = "[[interface]]\nname = \"one\"\nmemif = { socket = \"@one\", secret = \"hush\" }\naddresses = [\"10.0.0.1/24\"]";

pub const TWO: &str =
    "[[route]]\nprefix = \"192.0.2.0/24\"\nnext_hops = [{ address = \"10.0.0.2\", weight = 3 }]";

pub fn load(directory: &Path) -> Loaded {
    StateDirectory::open(directory).unwrap().load().unwrap()
}

/// A directory with two generations in it.
pub fn two_generations() -> (tempfile::TempDir, Config, Config) {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    apply(&mut controller, &upserts(ONE));
    let one = load_config(&controller);
    apply(&mut controller, &upserts(TWO));
    let two = load_config(&controller);
    (directory, one, two)
}

pub fn load_config(controller: &Controller) -> Config {
    let mut config = Config::default();
    controller.view().each(None, |object| {
        config.push(object);
        true
    });
    config
}

/// Files in a directory whose names begin so.
pub fn files(directory: &Path, prefix: &str) -> Vec<String> {
    let mut names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(prefix))
        .collect::<Vec<_>>();
    names.sort();
    names
}

/// More routes than are written again for every small change.
pub fn many_routes() -> ApplyRequest {
    let routes = (0..6000_u32).map(|number| Route {
        prefix: format!("{}/32", std::net::Ipv4Addr::from(0x0b00_0000 + number)),
        next_hops: vec![NextHop { interface: "one".into(), ..NextHop::default() }],
        ..Route::default()
    });
    let many = Config { routes: routes.collect(), ..Config::default() };
    ApplyRequest { upserts: Some(many), ..ApplyRequest::default() }
}

/// A large state of generation 1 and three small changes: the directory, and the state after each.
pub fn journaled() -> (tempfile::TempDir, Vec<Config>) {
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

/// The journal puts objects at the end; their order means nothing.
pub fn sorted(mut config: Config) -> Config {
    config.routes.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    config.interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    config
}

/// A filesystem of its own, a few pages large; `None` where we may not mount one.
pub struct SmallDisk(pub tempfile::TempDir);

impl SmallDisk {
    pub fn mount(bytes: usize) -> Option<Self> {
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
