//! Linux interfaces: packet sockets on a veth, and a tap bridged to one, in a network namespace. Needs root and iproute2.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{STACK, root, run};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A network namespace that ends with the test.
struct Namespace(String);

impl Namespace {
    fn new(tag: &str) -> Self {
        let name = format!("tgen-{}-{tag}", std::process::id());
        ip(&["netns", "add", &name]);
        Self(name)
    }

    fn ip(&self, args: &[&str]) {
        ip(&[&["-n", &self.0], args].concat());
    }

    /// Runs a command inside.
    fn exec(&self, args: &[&str]) {
        ip(&[&["netns", "exec", &self.0], args].concat());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn packet(name: &str, device: &str, netns: &str) -> String {
    format!("[[interface]]\nname = \"{name}\"\npacket = {{ device = \"{device}\", netns = \"{netns}\" }}\n")
}

const STREAM: &str = "count = 5000\nrate = 20000\n";

#[test]
fn frames_cross_a_veth_both_ways() {
    if !root("frames_cross_a_veth_both_ways") {
        return;
    }
    let namespace = Namespace::new("veth");
    // Without IPv6 the kernel keeps quiet.
    namespace.exec(&["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
    namespace.ip(&["link", "add", "name", "a", "type", "veth", "peer", "name", "b"]);
    namespace.ip(&["link", "set", "dev", "a", "up"]);
    namespace.ip(&["link", "set", "dev", "b", "up"]);
    let interfaces = packet("a", "a", &namespace.0) + &packet("b", "b", &namespace.0);
    for size in ["64", "1514", "\"imix\""] {
        let report = run(&format!(
            "check = \"payload\"\nseconds = 60\nfcs = true\n{interfaces}\
             [[stream]]\ntx = \"a\"\n{STREAM}size = {size}\n{STACK}\n[[stream]]\ntx = \"b\"\n{STREAM}size = {size}\n{STACK}"
        ));
        assert_eq!((report.sent, report.received), (10_000, 10_000), "{size}: {report}");
        assert_eq!(
            (report.duplicated, report.reordered, report.corrupted),
            (Some(0), Some(0), Some(0)),
            "{size}"
        );
        assert_eq!(report.streams[1].received, Some(5000), "a socket doesn't get its own frames back");
        assert_eq!(report.interfaces[1].received, 5000 + report.interfaces[1].foreign);
        assert_eq!(report.receive_drops, Some(0), "{size}");
    }
}

#[test]
fn the_kernels_bridge_between_two_taps() {
    if !root("the_kernels_bridge_between_two_taps") {
        return;
    }
    let namespace = Namespace::new("tap");
    namespace.exec(&["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
    namespace.ip(&["link", "add", "name", "bridge", "type", "bridge", "mcast_snooping", "0"]);
    namespace.ip(&["link", "set", "dev", "bridge", "up"]);
    for tap in ["t0", "t1"] {
        // Made beforehand, so that it can be in the bridge when the generator takes it.
        namespace.ip(&["tuntap", "add", "dev", tap, "mode", "tap"]);
        namespace.ip(&["link", "set", "dev", tap, "master", "bridge", "up"]);
    }
    let tap = |name: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\ntap = {{ device = \"{name}\", netns = \"{}\" }}\n",
            namespace.0
        )
    };
    // The kernel needs a moment after the carrier comes to let frames through: what is lost before that isn't ours to judge.
    let profile = |count: u32| {
        format!(
            "check = \"payload\"\nseconds = 60\n{}{}[[stream]]\ntx = \"t0\"\ncount = {count}\nrate = 10000\nsize = 100\n{STACK}",
            tap("t0"),
            tap("t1")
        )
    };
    let report = run(&profile(5000));
    assert_eq!(report.sent, 5000, "{report}");
    assert!(report.received > 0, "{report}");
    assert_eq!((report.duplicated, report.reordered, report.corrupted), (Some(0), Some(0), Some(0)));
    assert_eq!(report.received + report.lost, report.sent);
}

#[test]
fn tagged_frames_that_are_counted_are_not_lost() {
    if !root("tagged_frames_that_are_counted_are_not_lost") {
        return;
    }
    let namespace = Namespace::new("tagged");
    namespace.exec(&["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
    namespace.ip(&["link", "add", "name", "a", "type", "veth", "peer", "name", "b"]);
    namespace.ip(&["link", "set", "dev", "a", "up"]);
    namespace.ip(&["link", "set", "dev", "b", "up"]);
    let stack = STACK.replace("  { ipv4", "  { vlan = { id = 7 } },\n  { ipv4");
    let interfaces = packet("a", "a", &namespace.0) + &packet("b", "b", &namespace.0);
    let report =
        run(&format!("seconds = 60\n{interfaces}[[stream]]\ntx = \"a\"\n{STREAM}size = 100\n{stack}"));
    assert_eq!((report.received, report.lost, report.foreign), (5000, 0, 0), "{report}");
}

/// Sends 40 000 long frames by a device and takes nothing.
fn flood(namespace: &Namespace, device: &str) {
    namespace.exec(&["python3", "-c", FLOOD, device]);
}

const FLOOD: &str = "\
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for _ in range(40_000): s.send(bytes(12) + b'\\x88\\xb5' + bytes(1486))
";

/// Runs the program, stops it for as long as `flood` takes, and gives the result.
fn held_up(args: &[&str], flood: impl FnOnce()) -> Value {
    let program = env!("CARGO_BIN_EXE_quiver-tgen");
    let mut child = Command::new(program)
        .args(args)
        .args(["--rate", "1000", "--seconds", "2", "--progress", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let mut line = String::new();
    // It is running.
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    flood();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn what_the_generator_does_not_take_in_time_is_told_apart() {
    if !root("what_the_generator_does_not_take_in_time_is_told_apart") {
        return;
    }
    let namespace = Namespace::new("slow");
    namespace.exec(&["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
    namespace.ip(&["link", "add", "name", "a", "type", "veth", "peer", "name", "b"]);
    namespace.ip(&["link", "set", "dev", "a", "up"]);
    namespace.ip(&["link", "set", "dev", "b", "up"]);
    // 16 MiB of buffer hold fewer, since each frame takes up a page or so.
    let args =
        ["--tx", "packet:a", "--tx-netns", &namespace.0, "--rx", "packet:b", "--rx-netns", &namespace.0];
    let result = held_up(&args, || flood(&namespace, "a"));
    let (drops, foreign) = (result["receive_drops"].as_u64().unwrap(), result["foreign"].as_u64().unwrap());
    assert!(drops > 0 && drops + foreign + result["received"].as_u64().unwrap() >= 40_000, "{result}");
    assert_eq!(result["interfaces"][1]["receive_drops"], drops, "{result}");
    assert_eq!(result["interfaces"][0]["receive_drops"], 0, "{result}");
    // The other side of a tap is the kernel: what it sends there waits in a queue that is much shorter.
    let result = held_up(&["--tx", "tap:t", "--tx-netns", &namespace.0], || flood(&namespace, "t"));
    assert!(result["receive_drops"].as_u64().unwrap() > 0, "{result}");
}

#[test]
fn a_device_that_is_down_is_named_with_what_to_do() {
    if !root("a_device_that_is_down_is_named_with_what_to_do") {
        return;
    }
    let namespace = Namespace::new("down");
    namespace.ip(&["link", "add", "name", "a", "type", "veth", "peer", "name", "b"]);
    let text = format!(
        "seconds = 5\n{}[[stream]]\ntx = \"a\"\n{STREAM}size = 64\n{STACK}",
        packet("a", "a", &namespace.0)
    );
    let report = run(&text);
    let error = report.error.unwrap();
    assert!(error.contains("interface a was lost") && error.contains("ip link set"), "{error}");
}
