//! The program: its results, its exit status, and what it says about bad input.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Middle, PATIENCE, STACK, program, server, socket};
use serde_json::Value;
use std::time::{Duration, Instant};

fn json(args: &[&str]) -> Value {
    let output = program(&[args, &["-o", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit status and what is on standard error.
fn fails(args: &[&str]) -> (Option<i32>, String) {
    let output = program(args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn flags_make_streams() {
    let count = ["--loop", "--seconds", "60", "--count", "3000", "--check", "payload"];
    let ways: [&[&str]; 9] = [
        &[],
        &["--size", "70,512", "--vlan", "7", "--vlan", "8"],
        &["--size", "imix", "--fcs", "--destinations", "250", "--sources", "9", "--random"],
        &[
            "--source",
            "2001:db8::1",
            "--destination",
            "2001:db8::2",
            "--destinations",
            "100",
            "--size",
            "78-1518",
        ],
        &["--protocol", "tcp", "--source-port", "1024-65535", "--size", "100"],
        &["--protocol", "icmp", "--queues", "2"],
        &["--size", "9000", "--buffer-size", "512", "--ring-size", "64"],
        &["--rate", "100kpps", "--full"],
        &["--source-macs", "100000", "--destination-macs", "3", "--random"],
    ];
    for way in ways {
        let result = json(&[&count, way].concat());
        assert_eq!(
            (&result["sent"], &result["received"], &result["lost"]),
            (&3000.into(), &3000.into(), &0.into()),
            "{way:?}"
        );
        assert_eq!(result["corrupted"], 0, "{way:?}");
    }
}

#[test]
fn listed_destinations_are_sent_to_in_turn() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let listed = |list: &str, more: &[&str]| {
        let args =
            [&["--loop", "--count", "30", "--check", "payload", "--destination-list", list], more].concat();
        json(&args)
    };
    let wide = write("wide", "2001:db8::1 # near\n\n# far\n2a00:1:2:3::9\nffff::\n");
    let result = listed(&wide, &["--source", "2001:db8::2", "--size", "78", "--bidirectional"]);
    assert_eq!((&result["received"], &result["corrupted"]), (&60.into(), &0.into()));
    let result = listed(&write("four", "10.0.0.1\n10.9.9.9"), &[]);
    assert_eq!(result["received"], 30);
    for (name, text, expected) in [
        ("word", "10.0.0.1\nnear\n", "line 2: \"near\" is not an IP address"),
        ("mixed", "10.0.0.1\n\n::1\n", "line 3: ::1 is of another family"),
        ("empty", "# nothing\n", "there is no address in it"),
    ] {
        let path = write(name, text);
        let (status, error) = fails(&["--loop", "--destination-list", &path]);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains(expected) && error.contains(&path), "{error}");
    }
    let (_, error) = fails(&["--loop", "--destination-list", &wide, "--destinations", "3"]);
    assert!(error.contains("--destinations"), "{error}");
    let (_, error) = fails(&["--loop", "--destination-list", &wide]);
    assert!(error.contains("two of IPv6"), "{error}");
    let (_, error) = fails(&["--loop", "--destination-list", "/does/not/exist"]);
    assert!(error.contains("/does/not/exist: No such file"), "{error}");
}

#[test]
fn stations_are_counted_up_from_the_first() {
    let (left, right) = (socket("stations-left"), socket("stations-right"));
    let (seen, macs) = std::sync::mpsc::channel();
    let middle = Middle::new(&left, &right, move |packet| {
        seen.send(packet[..12].to_vec()).unwrap();
        vec![packet.to_vec()]
    });
    json(&[
        "--tx",
        &left,
        "--rx",
        &right,
        "--count",
        "12",
        "--source-mac",
        "02:00:00:00:00:fe",
        "--source-macs",
        "4",
        "--destination-macs",
        "3",
    ]);
    drop(middle);
    let all: Vec<_> = macs.iter().collect();
    assert_eq!(all.len(), 12);
    for (n, macs) in all.iter().enumerate() {
        let source = 0x0200_0000_00fe_u64 + n as u64 % 4;
        assert_eq!(macs[6..], source.to_be_bytes()[2..], "source of packet {n}");
        assert_eq!(macs[..6], [2, 0, 0, 0, 0, 1 + n as u8 % 3], "destination of packet {n}");
    }
}

#[test]
fn both_directions_and_latency() {
    let args = [
        "--loop",
        "--bidirectional",
        "--rate",
        "20000",
        "--latency",
        "1000",
        "--seconds",
        "0.5",
        "--size",
        "64",
    ];
    let result = json(&args);
    assert_eq!(result["check"], "sequence", "timestamps need signatures");
    let names: Vec<_> =
        result["streams"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["forward", "forward-latency", "reverse", "reverse-latency"]);
    assert_eq!(result["lost"], 0);
    for name in ["min", "p50", "p90", "p99", "p99_9", "p99_99", "p99_9999", "max"] {
        assert!(result["latency_ns"][name].is_u64(), "{name}: {}", result["latency_ns"]);
    }
    assert_eq!(result["streams"][0]["latency_ns"], Value::Null);
}

#[test]
fn a_peer_that_gives_nothing_back_is_a_loss_with_its_own_status() {
    let socket = socket("hole");
    let mut port = server(&socket);
    let args = ["--tx", &socket, "--count", "100", "--drain", "0", "--max-loss", "0.5", "-o", "json"];
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| program(&args));
        let begun = Instant::now();
        while !generator.is_finished() && begun.elapsed() < PATIENCE {
            port.wait(Some(Duration::from_millis(5))).unwrap();
        }
        let output = generator.join().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&result["sent"], &result["received"], &result["loss_ratio"]),
            (&100.into(), &0.into(), &1.0.into())
        );
    });
}

#[test]
fn what_was_not_measured_is_null() {
    // At this rate the first connection is due long after the end.
    let args = ["stateful", "--loop", "--rate", "0.001", "--seconds", "0.1", "-o", "json"];
    let output = program(&args);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &result["connect_latency_ns"]), (Some(1), &Value::Null), "{result}");
}

#[test]
fn what_was_never_sent_is_no_success() {
    let (status, error) = fails(&["--loop", "--seconds", "0", "--max-loss", "0"]);
    assert_eq!((status, error.contains("nothing was sent")), (Some(1), true), "{error}");
    // All that is sent comes through, but the device has no room for most of what the rate asks for.
    let (left, right) = (socket("left"), socket("right"));
    let _middle = Middle::new(&left, &right, |packet: &[u8]| {
        std::thread::sleep(Duration::from_micros(50));
        vec![packet.to_vec()]
    });
    let rate = ["--rate", "1Mpps", "--seconds", "0.2", "--ring-size", "64", "--drain", "5"];
    let args = [&["--tx", &left, "--rx", &right, "-o", "json", "--max-loss", "0.2"], &rate[..]].concat();
    let output = program(&args);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["sent"].as_u64() < result["intended"].as_u64(), "{result}");
    assert_eq!((output.status.code(), &result["lost"]), (Some(3), &0.into()), "{output:?}");
}

#[test]
fn bad_arguments_are_named_with_what_would_be_right() {
    let cases: [(&[&str], &str); 39] = [
        (&[], "--tx"),
        (&["--loop", "--pcap", "/does/not/exist.pcap"], "/does/not/exist.pcap"),
        (&["replay", "--loop", "--pcap", "/does/not/exist.pcap"], "/does/not/exist.pcap"),
        (&["--loop", "--pcap", "x", "--size", "64"], "--size"),
        (&["--loop", "--pcap", "x", "--destinations", "5"], "--destinations"),
        (&["--loop", "--pcap", "x", "--original-timing", "--rate", "5"], "--rate"),
        (&["--loop", "--repeat", "3"], "--pcap"),
        (&["--profile", "x.toml", "--count", "3"], "--count"),
        (&["--profile", "x.toml", "--vlan", "3"], "--vlan"),
        (&["replay", "--loop", "--pcap", "x", "--turns", "3"], "--turns"),
        (&["--loop", "--size", "50", "--check", "sequence"], "too short"),
        (&["--loop", "--vlan", "5000"], "4095"),
        (&["--loop", "--ring-size", "1000"], "power of two"),
        (&["--loop", "--queues", "0"], "queues"),
        (&["--loop", "--queues", "5000"], "1 to 256"),
        (&["--loop", "--max-loss", "2"], "0 to 1"),
        (&["--loop", "--max-loss", "nan"], "0 to 1"),
        (&["--tx", "blah:foo"], "packet:DEVICE"),
        (&["--tx", "/a", "--rx", "pkt:eth0"], "memif:pkt:eth0"),
        (&["stateful", "--loop", "--ring-size", "1000"], "power of two"),
        (&["stateful", "--loop", "--hold", "inf"], "hold is inf"),
        (&["--loop", "--size", "0"], "frame size"),
        (&["--loop", "--rate", "fast"], "is no rate"),
        (&["--loop", "--source", "fd00::1"], "two of IPv6"),
        (&["--loop", "--source-port", "9-1"], "swap them"),
        (&["--loop", "--destination", "255.255.255.250", "--destinations", "10"], "beyond 255.255.255.255"),
        (
            &["--loop", "--source-mac", "02:00:00:ff:ff:fe", "--source-macs", "3"],
            "3 Ethernet addresses from 02:00:00:ff:ff:fe on go beyond 02:00:00:ff:ff:ff",
        ),
        (
            &["--loop", "--source-mac", "ff:ff:ff:ff:ff:fe", "--source-macs", "5"],
            "5 Ethernet addresses from ff:ff:ff:ff:ff:fe on go beyond ff:ff:ff:ff:ff:ff",
        ),
        (&["--loop", "--mode", "ip", "--source-macs", "4"], "no Ethernet addresses"),
        (&["--loop", "--latency=-1"], "--latency"),
        (&["--loop", "--latency", "0"], "more than 0"),
        (&["--loop", "--latency", "5Gbps"], "more than 0"),
        (&["--loop", "--seconds=-1"], "--seconds"),
        (&["--loop", "--seconds", "-1"], "--seconds -1: it must be"),
        (&["--loop", "--max-loss", "-0.1"], "0 to 1"),
        (&["stateful", "--loop", "--drain", "-1"], "--drain -1: it must be"),
        (&["--profile", "/does/not/exist.toml"], "/does/not/exist.toml"),
        (&["--tx", "/a#x"], "interface id"),
        (&["--loop", "--pcap", "x", "--check", "payload"], "no signatures"),
    ];
    for (args, expected) in cases {
        let (status, error) = fails(args);
        assert_eq!(status, Some(2), "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn what_can_not_run_says_why() {
    let cases: [(&[&str], &str); 5] = [
        (&["--loop", "--buffer-size", "1"], "buffer size"),
        (&["--loop", "--core", "99999"], "99999"),
        (&["--loop", "--core", "0", "--peer-core", "99999"], "--peer-core"),
        (&["--tx", "@nobody-listens-here", "--wait", "0.1"], "did not come up"),
        (&["--tx", "packet:no-such-device"], "no-such-device"),
    ];
    for (args, expected) in cases {
        let (status, error) = fails(args);
        assert_eq!(status, Some(1), "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

/// Message about a profile.
fn profile_error(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.toml");
    std::fs::write(&path, text).unwrap();
    let (status, error) = fails(&["--profile", path.to_str().unwrap()]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("profile.toml"), "{error}");
    error
}

/// A stream, and the beginning of another one with its name.
const TWICE: &str = "[[stream]]\nname = \"a\"\ntx = \"loop-client\"\nsize = 64\nstack = [ { udp = { src = 1, dst = 2 } } ]\n[[stream]]\nname = \"a\"";

#[test]
fn profile_errors_name_the_field_and_what_would_be_right() {
    let good = format!("[loop]\n[[stream]]\ntx = \"loop-client\"\nsize = 64\n{STACK}");
    let change = |from: &str, to: &str| {
        let changed = good.replace(from, to);
        assert_ne!(changed, good);
        profile_error(&changed)
    };
    for (from, to, expected) in [
        ("size = 64", "sise = 64", "sise"),
        ("size = 64", "", "has no size"),
        ("size = 64", "size = \"big\"", "is no frame size"),
        ("size = 64", "size = 64\nrate = \"quick\"", "is no rate"),
        ("size = 64", "size = 64\npcap = \"x\"", "either a stack, or a pcap"),
        ("size = 64", "size = 64\nrepeat = 3", "repeat"),
        ("loop-client", "elsewhere", "there are loop-client, loop-server"),
        ("[loop]", "", "[[interface]]"),
        ("[loop]", "[[interface]]\nname = \"x\"", "give one of memif"),
        ("[loop]", "check = \"all\"\n[loop]", "check"),
        ("[loop]", "seconds = -1\n[loop]", "seconds"),
        ("[[stream]]", TWICE, "stream \"a\": is there twice"),
        ("10.0.0.2", "10.0.0", "is not an IPv4 address"),
        ("10.0.1.251", "10.0.1.1", "swap them"),
        ("src = 1024", "src = 70000", "from 0 to 65535"),
        ("src = 1024", "src = { from = 1, to = 2, order = \"up\" }", "order"),
        ("src = 1024", "src = { from = 1 }", "`from` and `to`"),
        ("src = 1024", "src = { list = [] }", "`list` is empty"),
        ("src = 1024", "src = { from = 1, to = 2, step = 0 }", "`step` is 0"),
    ] {
        let error = change(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn the_profiles_of_the_documentation_are_valid() {
    let text = include_str!("../../../docs/tgen.md");
    let profiles: Vec<_> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(profiles.len(), 2);
    for profile in profiles {
        let plan = common::plan(profile);
        for stream in &plan.streams {
            if let quiver_tgen::plan::Content::Made { stack, .. } = &stream.content {
                quiver_tgen::stateless::Layout::new(stack).unwrap();
            }
        }
    }
}

#[test]
fn stacks_that_do_not_go_together_are_refused_by_name() {
    for (stack, expected) in [
        ("[]", "`stack` is empty"),
        ("[ { udp = { src = 1, dst = 2 } } ]", "begins with udp"),
        (
            "[ { ipv4 = { src = \"1.1.1.1\", dst = \"2.2.2.2\" } }, { icmpv6 = {} } ]",
            "icmpv6 after ipv4: what may follow ipv4 is udp, tcp, icmp",
        ),
        (
            "[ { ethernet = { src = \"02:00:00:00:00:01\", dst = \"02:00:00:00:00:02\" } }, { vlan = { id = 4096 } } ]",
            "vlan.id can be 4096, which is more than 4095",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(
            &path,
            format!("[loop]\n[[stream]]\ntx = \"loop-client\"\nsize = 64\nstack = {stack}\n"),
        )
        .unwrap();
        let (status, error) = fails(&["--profile", path.to_str().unwrap()]);
        assert!(status != Some(0) && error.contains(expected), "{error}");
    }
}

#[test]
fn rates_that_nothing_can_send_are_refused() {
    let packets = "it is at most 1Gpps or 1000Gbps; max is as many as can be";
    let stateful = "0 (as many as can be) to 1000000000 per second";
    for (args, expected) in [
        (&["--loop", "--rate", "1e300"][..], packets),
        (&["--loop", "--rate", "2Gpps"], packets),
        (&["--loop", "--rate", "1001Gbps"], packets),
        (&["--loop", "--rate", "-5"], "\"-5\" is no rate"),
        (&["--loop", "--rate", "-5Mpps"], "\"-5Mpps\" is no rate"),
        (&["stateful", "--loop", "--rate", "1e300"], stateful),
        (&["stateful", "--loop", "--rate", "-5"], stateful),
        (&["replay", "--loop", "--rate", "inf"], stateful),
    ] {
        let (status, error) = fails(args);
        assert_eq!((status, error.contains(expected)), (Some(2), true), "{args:?}: {error}");
    }
    let rate = ["--loop", "--seconds", "0", "--rate", "1000Gbps-l1", "-o", "json"];
    assert_eq!(program(&rate).status.code(), Some(0));
}

#[test]
fn a_third_tag_is_refused() {
    let (status, error) = fails(&["--loop", "--vlan", "1", "--vlan", "2", "--vlan", "3"]);
    assert_eq!((status, error.contains("two tags at most")), (Some(2), true), "{error}");
}
