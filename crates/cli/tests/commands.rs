//! The program itself against a server of its API.

mod common;

use api::v1::Kind;
use common::{Server, quiver, ran};

const LAB: &str = "
[[interface]]
name = \"pod-a\"
tap = { netns = \"blue\" }

[[interface]]
name = \"same\"
sink = {}

[[route]]
prefix = \"10.9.0.0/16\"
next_hops = [{ address = \"10.0.0.2\" }]
";

#[test]
fn apply_reports_object_by_object() {
    let server = Server::start();
    let lab = server.file("lab.toml", LAB);
    let ran = server.quiver(&["apply", "-f", &lab]);
    assert_eq!(
        ran.out,
        "interface pod-a: applied (new)\n\
         interface same: applied (unchanged)\n\
         route default/10.9.0.0/16: pending (new): waits for interface pod-z\n\
         generation 5: 2 applied, 1 pending\n"
    );
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    let request = server.applied().pop().unwrap();
    assert_eq!(request.upserts.unwrap().len(), 3);
    assert!(!request.dry_run && !request.replace_all);
}

#[test]
fn several_files_and_standard_input_are_one_batch() {
    let server = Server::start();
    let lab = server.file("lab.toml", LAB);
    let json = "{\"vrf\": [{\"name\": \"red\"}]}";
    let ran = server.quiver_with_input(&["apply", "-f", &lab, "-f", "-", "--dry-run", "--replace"], json);
    assert!(
        ran.out.ends_with("dry run on generation 4: 3 applied, 1 pending; nothing was changed\n"),
        "{ran:?}"
    );
    let [request] = server.applied().try_into().unwrap();
    assert_eq!(request.upserts.unwrap().len(), 4);
    assert!(request.dry_run && request.replace_all);
}

#[test]
fn a_refused_object_has_field_reason_and_remedy() {
    let server = Server::start();
    let bad = server.file("bad.toml", "[[interface]]\nname = \"bad\"\nmemif = {}\n");
    let ran = server.quiver(&["apply", "-f", &bad]);
    assert_eq!(
        ran.out,
        "interface bad: refused\n    field   memif.socket\n    reason  is empty\n    remedy  give a path or @name\n\
         nothing was changed, generation stays 4: 1 refused\n"
    );
    assert_eq!(ran.status, 5);
}

#[test]
fn a_batch_too_large_for_one_message_is_sent_in_parts() {
    let server = Server::start();
    let address = |n: u32| std::net::Ipv4Addr::from(0x0a00_0000 + n);
    let routes = (0..300_000).map(|n| format!("[[route]]\nprefix = \"{}/32\"\n", address(n)));
    let many = server.file("many.toml", &routes.collect::<String>());
    let ran = server.quiver(&["apply", "-f", &many, "-o", "json"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let sizes = server
        .applied()
        .iter()
        .map(|part| part.upserts.as_ref().map_or(0, |all| all.len()))
        .collect::<Vec<_>>();
    assert!(sizes.len() > 2 && sizes.iter().sum::<usize>() == 300_000, "{sizes:?}");
}

#[test]
fn another_generation_is_a_conflict() {
    let server = Server::start();
    let lab = server.file("lab.toml", LAB);
    let ran = server.quiver(&["apply", "-f", &lab, "--expect-generation", "3"]);
    assert_eq!(ran.status, 6);
    assert_eq!(ran.err, "quiver: apply: generation 4 is in force; look at quiver diff and try again\n");
    assert_eq!(server.quiver(&["apply", "-f", &lab, "--expect-generation", "4"]).status, 0);
}

#[test]
fn a_broken_file_is_named_with_line_and_column() {
    let server = Server::start();
    let lab = server.file("lab.toml", "[[interface]]\nnaem = \"a\"\n");
    let ran = server.quiver(&["apply", "-f", &lab]);
    assert_eq!(ran.status, 7);
    assert!(ran.err.starts_with(&format!("quiver: {lab}:2:1: TOML: unknown field `naem`")), "{}", ran.err);
    assert_eq!(server.quiver(&["apply", "-f", "/nonexistent"]).status, 7);
    assert_eq!(server.quiver_with_input(&["apply", "-f", "-"], "").status, 7);
    assert_eq!(server.applied().len(), 0);
}

#[test]
fn diff_says_what_would_change() {
    let server = Server::start();
    let lab = server.file("lab.toml", LAB);
    let ran = server.quiver(&["diff", "-f", &lab]);
    assert_eq!(ran.status, 1);
    assert_eq!(ran.out, "+ interface pod-a\n    mtu = 9000\n+ route default/10.9.0.0/16\n    mtu = 9000\n");
    let same = server.file("same.toml", "[[interface]]\nname = \"same\"\n");
    let ran = server.quiver(&["diff", "-f", &same]);
    assert_eq!((ran.status, ran.out.as_str()), (0, ""));
    assert!(server.applied().iter().all(|request| request.dry_run));
}

#[test]
fn get_gives_what_apply_takes() {
    let server = Server::start();
    let table = server.quiver(&["get"]).out;
    assert!(table.starts_with("INTERFACE  PORT  ADDRESSES    PLACE"), "{table}");
    assert_eq!(table.lines().count(), 3);

    for form in ["toml", "json"] {
        let text = server.quiver(&["get", "interfaces", "-o", form]).out;
        let ran = server.quiver_with_input(&["apply", "-f", "-"], &text);
        assert_eq!(ran.status, 0, "{ran:?}");
        let request = server.applied().pop().unwrap();
        let names = request.upserts.unwrap().object_refs().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names, ["pod-a", "pod-b"], "{form}");
    }
    assert_eq!(
        server.quiver(&["get", "if/pod-a", "-o", "toml"]).out,
        server.quiver(&["get", "if", "pod-a", "-o", "toml"]).out
    );
    assert!(server.quiver(&["get", "if", "-o", "json", "--status"]).out.contains("\"applied\""));
}

#[test]
fn what_is_not_there() {
    let server = Server::start();
    let ran = server.quiver(&["get", "interface", "pod-q"]);
    assert_eq!((ran.status, ran.err.as_str()), (4, "quiver: get: there is no interface pod-q\n"));
    assert_eq!(server.quiver(&["show", "interface", "pod-q"]).status, 4);
    let ran = server.quiver(&["delete", "if", "pod-a", "pod-x"]);
    assert_eq!(ran.status, 4);
    assert_eq!(ran.out, "interface pod-a: deleted\ngeneration 5: 1 deleted\n");
    assert_eq!(ran.err, "quiver: there is no interface pod-x; quiver get lists what there is\n");
    assert_eq!(server.quiver(&["delete", "if", "pod-x", "--ignore-not-found"]).status, 0);
}

#[test]
fn delete_takes_names_and_files() {
    let server = Server::start();
    assert_eq!(server.quiver(&["delete", "route", "10.0.0.0/8", "red/FD00:0::/64"]).status, 0);
    let lab = server.file("lab.toml", LAB);
    assert_eq!(server.quiver(&["delete", "-f", &lab]).status, 0);
    let names = |index: usize| {
        let request = server.applied().swap_remove(index);
        request.deletes.iter().map(|it| (it.kind(), it.name.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(0), [(Kind::Route, "default/10.0.0.0/8".into()), (Kind::Route, "red/fd00::/64".into())]);
    assert_eq!(names(1).len(), 3);
    assert_eq!(server.quiver(&["delete", "if"]).status, 2);
    assert_eq!(server.quiver(&["delete"]).status, 2);
}

#[test]
fn show_writes_tables_and_json() {
    let server = Server::start();
    let runtime = server.quiver(&["show", "runtime"]).out;
    assert!(runtime.starts_with("worker 0 (core 1): 37 % busy, 12.3 Mpps\n"), "{runtime}");
    assert!(runtime.contains("\nworker 1 (core 2): 37 % busy, 12.3 Mpps\n"), "{runtime}");
    assert_eq!(server.quiver(&["show", "drops"]).out, "no packet was dropped\n");
    assert!(
        server.quiver(&["show", "fib", "10.1.2.3", "--vrf", "red"]).out.contains("10.1.2.3/32  connected")
    );
    assert!(server.quiver(&["show", "graph", "--dot"]).out.contains("\"tap-input\" -> \"drop\";"));
    assert!(server.quiver(&["show", "version"]).out.contains("quiverd 0.0.1"));
    let json = server.quiver(&["show", "interface", "-o", "json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["interfaces"][0]["name"], "pod-a");
    let ran = server.quiver(&["show", "memif"]);
    assert_eq!(ran.status, 8);
    assert!(ran.err.contains("this quiverd doesn't know that"), "{}", ran.err);
}

#[test]
fn sessions_are_asked_for_by_what_is_known_of_them() {
    let server = Server::start();
    let words =
        ["show", "session", "--tenant", "red", "--protocol", "tcp", "--port", "80", "--state", "closing"];
    let ran = server.quiver(&words);
    assert!(ran.out.contains("red     tcp       10.0.0.2:2  10.0.1.2:80  closing"), "{ran:?}");
    let ran = server.quiver(&[&words[..], &["--output", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["sessions"].as_array().map(Vec::len), Some(2), "both parts");
    assert_eq!(json["sessions"][0]["protocol"], 6);
    assert_eq!(server.quiver(&["show", "tenant"]).out, "no tenants\n");
    assert_eq!(server.quiver(&["show", "copy"]).out, "bodies are copied by the workers\n");
    assert_eq!(server.quiver(&["show", "nat"]).out, "no NAT pools\n");
    assert_eq!(server.quiver(&["show", "session", "--protocol", "tpc"]).status, 2);
}

#[test]
fn an_interval_shows_rates() {
    let server = Server::start();
    let ran = server.quiver(&["show", "interface", "--interval", "0.05"]);
    let heading = ran.out.lines().next().unwrap();
    assert!(heading.ends_with("RX-RATE  RX-BITS  TX-RATE  TX-BITS"), "{heading}");
    // A million packets in at least 50 ms.
    assert!(ran.out.contains("pps"), "{}", ran.out);
}

#[test]
fn trace_and_clear() {
    let server = Server::start();
    let ran = server.quiver(&["trace", "add", "pod-a", "5"]);
    assert_eq!((ran.status, ran.err.as_str()), (0, "look at them with: quiver trace show\n"));
    assert_eq!(server.quiver(&["trace", "add", "nowhere", "5"]).status, 4);
    assert_eq!(server.quiver(&["trace", "add", "pod-a", "0"]).status, 2);
    assert_eq!(server.quiver(&["show", "trace"]).out, server.quiver(&["trace", "show"]).out);
    assert_eq!(server.quiver(&["trace", "clear"]).status, 0);
    assert_eq!(server.quiver(&["clear", "counters", "drops"]).status, 0);
    assert_eq!(server.quiver(&["clear", "trace"]).status, 0);
    assert_eq!(server.quiver(&["clear", "session"]).out, "7 sessions ended\n");
    assert_eq!(server.quiver(&["clear", "session", "--tenant", "red"]).out, "2 sessions ended\n");
    assert_eq!(server.quiver(&["verdict", "allow-rest"]).out, "2 sessions judged\n");
    assert_eq!(server.quiver(&["verdict", "drop-rest", "--port", "80"]).out, "1 session judged\n");
}

#[test]
fn a_capture_ends_after_count_and_says_why_packets_were_dropped() {
    let server = Server::start();
    let file = server.path("x.pcapng");
    let ran = server.quiver(&["pcap", "start", "--count", "3", "--write", file.to_str().unwrap()]);
    assert_eq!(ran.status, 0);
    assert!(ran.err.starts_with("3 packets, "), "{}", ran.err);
    let mut decoder = wire::capture::Decoder::new();
    decoder.feed(&std::fs::read(file).unwrap());
    let mut comments = Vec::new();
    while let Some(packet) = decoder.next_packet().unwrap() {
        comments.push(packet.comment.to_owned());
    }
    assert_eq!(comments, ["", "", "dropped by ip4-input: ttl-expired"]);
}

#[test]
fn a_capture_ends_when_its_time_is_over() {
    let server = Server::start();
    let file = server.path("x.pcapng");
    let ran =
        server.quiver(&["pcap", "start", "--drop", "--duration", "200ms", "-w", file.to_str().unwrap()]);
    assert_eq!(ran.status, 0);
    assert!(ran.err.starts_with("1 packets, "), "{}", ran.err);
}

#[test]
fn session_events_are_lines_and_what_is_missed_is_told() {
    let server = Server::start();
    let ran = server.quiver(&["watch", "session", "--tenant", "red", "-o", "json"]);
    let events: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let words: Vec<_> = events.iter().map(|event| (event["kind"].as_str(), event["end"].as_str())).collect();
    // It is that quiverd which ends.
    assert_eq!((ran.status, words), (3, vec![(Some("ended"), Some("finished")), (Some("began"), None)]));
    assert_eq!(events[0]["session"]["tenant"], "red");
    assert!(ran.err.starts_with("3 events were missed\nevents are missed when "), "{}", ran.err);
    assert!(ran.err.contains("quiver: watch session: quiverd has ended; start it again"), "{}", ran.err);
    let ran = server.quiver(&["watch", "session", "--count", "1"]);
    assert_eq!((ran.status, ran.out.lines().count(), ran.err), (0, 1, String::new()));
    assert!(ran.out.contains("ended: finished"), "{}", ran.out);
    assert_eq!(server.quiver(&["watch", "session", "--ended"]).out.lines().count(), 1);
    let ran = server.quiver(&["watch", "session", "-o", "toml"]);
    assert_eq!(ran.status, 2, "{}", ran.err);
}

#[test]
fn without_quiverd() {
    let run = |words: &[&str]| {
        ran(quiver().args(["--socket", "/nonexistent/q.sock"]).args(words).output().unwrap())
    };
    let ran = run(&["show", "version"]);
    assert_eq!(ran.status, 3);
    assert!(
        ran.err.starts_with("quiver: can't reach quiverd at /nonexistent/q.sock: No such file or directory"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("systemctl start quiverd"), "{}", ran.err);
    // A capture that can't begin leaves the file alone.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keep");
    std::fs::write(&file, "precious").unwrap();
    assert_eq!(run(&["pcap", "start", "--write", file.to_str().unwrap()]).status, 3);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "precious");
}

#[test]
fn wrong_command_lines() {
    for words in [
        &["frobnicate"][..],
        &["get", "pods"],
        &["show", "fib", "nonsense"],
        &["show", "interface", "--watch=0"],
    ] {
        let ran = ran(quiver().args(words).output().unwrap());
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
    }
}

#[test]
fn colours_only_on_demand() {
    let server = Server::start();
    assert!(!server.quiver(&["get"]).out.contains('\x1b'));
    assert!(server.quiver(&["--color", "always", "get"]).out.contains("\x1b[32mapplied\x1b[0m"));
}

#[test]
fn the_version_has_the_commit() {
    let ran = ran(quiver().arg("--version").output().unwrap());
    let (version, commit) = ran.out.trim_end().split_once(" (commit ").unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(version, concat!("quiver ", env!("CARGO_PKG_VERSION")));
    let git = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let git = git
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8(output.stdout).unwrap());
    // Without git there is none, unless who builds says it.
    let expected = option_env!("QUIVER_COMMIT").or(git.as_deref().map(str::trim)).unwrap_or("unknown");
    assert_eq!(commit, format!("{expected})"));
}
