//! Discovery, on a tree made like that of a machine with two devices.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use quiver_copy::dsa::Mode;
use quiver_copy::dsa::sysfs::{Queue, QueueError, discover, nearest, node_of, queue};
use quiver_copy::near::{Nearness, wanted};
use std::fs;
use std::path::Path;

fn put(folder: &Path, attributes: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    for (name, value) in attributes {
        fs::write(folder.join(name), format!("{value}\n")).unwrap();
    }
}

fn work_queue(root: &Path, name: &str, more: &[(&str, &str)]) {
    let common = [
        ("type", "user"),
        ("state", "enabled"),
        ("mode", "dedicated"),
        ("size", "16"),
        ("max_transfer_size", "2097152"),
        ("max_batch_size", "1024"),
        ("block_on_fault", "0"),
    ];
    put(&root.join(name), &common);
    put(&root.join(name), more);
}

fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let devices = root.path().join("devices");
    put(&devices.join("dsa0"), &[("numa_node", "0")]);
    put(&devices.join("dsa2"), &[("numa_node", "1")]);
    put(&devices.join("dsa4"), &[("numa_node", "-1")]);
    put(&devices.join("engine0.0"), &[("group_id", "0")]);
    work_queue(&devices, "wq0.0", &[]);
    work_queue(&devices, "wq0.1", &[("type", "kernel")]);
    work_queue(&devices, "wq2.0", &[("mode", "shared"), ("size", "64"), ("block_on_fault", "1")]);
    work_queue(&devices, "wq2.1", &[("state", "disabled")]);
    for (node, distances, cores) in [(0, "10 21", ["cpu0", "cpu1"]), (1, "21 10", ["cpu2", "cpu3"])] {
        let folder = root.path().join(format!("nodes/node{node}"));
        put(&folder, &[("distance", distances)]);
        cores.iter().for_each(|core| fs::create_dir(folder.join(core)).unwrap());
    }
    root
}

#[test]
fn queues_for_programs_are_found_with_what_they_can_do() {
    let root = machine();
    let found = discover(&root.path().join("devices")).unwrap().queues;
    let names = found.iter().map(|queue| (queue.name.as_str(), queue.node)).collect::<Vec<_>>();
    assert_eq!(names, [("wq0.0", Some(0)), ("wq2.0", Some(1))]);
    let (first, second) = (found[0].limits, found[1].limits);
    assert_eq!((first.mode, first.size, first.block_on_fault), (Mode::Dedicated, 16, false));
    assert_eq!((second.mode, second.size, second.block_on_fault), (Mode::Shared, 64, true));
    assert_eq!((first.max_batch, first.max_transfer), (1024, 2 << 20));
}

#[test]
fn the_nearest_is_chosen() {
    let root = machine();
    let (devices, nodes) = (root.path().join("devices"), root.path().join("nodes"));
    let names = |node| {
        let near = nearest(&nodes, discover(&devices).unwrap().queues, node);
        near.into_iter().map(|queue| queue.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Some(0)), ["wq0.0"]);
    assert_eq!(names(Some(1)), ["wq2.0"]);
    assert_eq!((node_of(&nodes, 1), node_of(&nodes, 2), node_of(&nodes, 9)), (Some(0), Some(1), None));
    work_queue(&devices, "wq4.0", &[]);
    assert_eq!(names(Some(1)), ["wq2.0"], "a device of no node isn't near");
}

#[test]
fn each_worker_takes_turns_among_the_queues_of_its_own_node() {
    let root = machine();
    let (devices, nodes) = (root.path().join("devices"), root.path().join("nodes"));
    work_queue(&devices, "wq2.1", &[]);
    work_queue(&devices, "wq4.0", &[]);
    let queues = |cores: &[usize]| wanted(&nodes, discover(&devices).unwrap().queues, cores);
    let names = |queues: &[Queue]| queues.iter().map(|queue| queue.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&queues(&[0, 1])), ["wq0.0"]);
    assert_eq!(names(&queues(&[3])), ["wq2.0", "wq2.1"]);
    assert_eq!(names(&queues(&[])), ["wq0.0", "wq2.0", "wq2.1", "wq4.0"], "nothing is known of cores");

    let cores = [1, 2, 3];
    let both = queues(&cores);
    assert_eq!(names(&both), ["wq0.0", "wq2.0", "wq2.1"], "not what is near to no worker");
    let near = Nearness::of(&nodes, &both, &cores);
    let next = |core: Option<usize>| both[near.next(core).unwrap()].name.as_str();
    assert_eq!([1, 1].map(|core| next(Some(core))), ["wq0.0", "wq0.0"]);
    // Two workers of one node share its queues between them.
    assert_eq!([2, 3, 2, 3].map(|core| next(Some(core))), ["wq2.0", "wq2.1", "wq2.0", "wq2.1"]);
    assert_eq!([0, 9, 0].map(|core| next(Some(core))), ["wq0.0", "wq2.0", "wq2.1"], "no worker is there");
    assert_eq!(next(None), "wq0.0");

    // Where a node's own couldn't be had, the nearest of those that could.
    let near = Nearness::of(&nodes, &both[1..], &cores);
    assert_eq!(near.next(Some(1)), Some(0));
    assert_eq!(Nearness::of(&nodes, &[], &cores).next(Some(1)), None);
}

/// Two sockets of a machine whose second node is offline: the kernel lists distances to nodes that are online (`node_read_distance`), here
/// to 0, 2 and 3, of which the last has memory and no core.
#[test]
fn distances_are_those_to_nodes_that_are_online() {
    let root = tempfile::tempdir().unwrap();
    let (devices, nodes) = (root.path().join("devices"), root.path().join("nodes"));
    for (device, node) in [(0, "0"), (2, "2"), (4, "3")] {
        put(&devices.join(format!("dsa{device}")), &[("numa_node", node)]);
        work_queue(&devices, &format!("wq{device}.0"), &[]);
    }
    put(&nodes, &[("online", "0,2-3"), ("has_cpu", "0,2")]);
    for (node, distances, cores) in
        [(0, "10 31 14", &["cpu0", "cpu10"][..]), (2, "31 10 21", &["cpu1"]), (3, "14 21 10", &[])]
    {
        let folder = nodes.join(format!("node{node}"));
        put(&folder, &[("distance", distances)]);
        cores.iter().for_each(|core| fs::create_dir(folder.join(core)).unwrap());
    }
    let names = |core, but: &str| {
        let mut queues = discover(&devices).unwrap().queues;
        queues.retain(|queue| queue.name != but);
        let near = nearest(&nodes, queues, node_of(&nodes, core));
        near.into_iter().map(|queue| queue.name).collect::<Vec<_>>()
    };
    assert_eq!((node_of(&nodes, 1), node_of(&nodes, 10)), (Some(2), Some(0)));
    assert_eq!(names(1, ""), ["wq2.0"]);
    assert_eq!(names(1, "wq2.0"), ["wq4.0"], "21, and 31 to node 0");
    assert_eq!(names(0, "wq0.0"), ["wq4.0"], "14, and 31 to node 2");
}

#[test]
fn what_is_missing_is_said() {
    let root = machine();
    let devices = root.path().join("devices");
    let said = discover(&root.path().join("nothing")).unwrap_err();
    assert!(
        matches!(said, QueueError::NoDriver { .. }) && said.to_string().contains("modprobe idxd"),
        "{said}"
    );
    let said = queue(&devices, "wq0.1").unwrap_err().to_string();
    assert!(said.contains("wq0.1") && said.contains("kernel") && said.contains("--type=user"), "{said}");
    let said = queue(&devices, "wq2.1").unwrap_err().to_string();
    assert!(said.contains("disabled") && said.contains("enable-wq"), "{said}");
    for name in ["wq0.0", "wq2.0"] {
        fs::write(devices.join(name).join("state"), "disabled\n").unwrap();
    }
    let said = discover(&devices).unwrap_err();
    assert!(
        matches!(said, QueueError::NoQueue { .. })
            && said.to_string().contains("accel-config config-engine dsa0/engine0.0 --group-id=0"),
        "{said}"
    );
    work_queue(&devices, "wq0.0", &[("size", "many")]);
    let said = queue(&devices, "wq0.0").unwrap_err().to_string();
    assert!(said.contains("wq0.0/size") && said.contains("many"), "{said}");
    let said = discover(&devices).unwrap_err().to_string();
    assert!(said.contains("wq0.1: kernel") && said.contains("wq0.0/size"), "{said}");
}

#[test]
fn a_queue_that_is_not_understood_hides_no_other() {
    let root = machine();
    let devices = root.path().join("devices");
    work_queue(&devices, "wq0.0", &[("mode", "borrowed")]);
    let found = discover(&devices).unwrap();
    let names = found.queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["wq2.0"]);
    let [said] = &found.left_alone[..] else { panic!("{:?}", found.left_alone) };
    assert!(said.to_string().contains("wq0.0/mode: \"borrowed\""), "{said}");
}
