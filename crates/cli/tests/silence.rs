//! A quiverd that says nothing, and others that only seem to.

mod common;

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use common::{MANY_EVENTS, SLOW, Server, quiver, ran};

/// As a process that is stopped: the kernel takes its connections, and nobody reads of them.
#[test]
fn one_that_hangs_is_told_in_a_moment() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("quiver.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let (input, capture) = (folder.path().join("red.toml"), folder.path().join("keep"));
    std::fs::write(&input, "[[vrf]]\nname = \"red\"\n").unwrap();
    std::fs::write(&capture, "precious").unwrap();
    let (input, file) = (input.to_str().unwrap(), capture.to_str().unwrap());
    // Calls of each kind: one answer, an answer in parts, streams without an end.
    let asked = [
        ("show version", vec!["show", "version"]),
        ("get", vec!["get"]),
        ("apply", vec!["apply", "-f", input]),
        ("watch session", vec!["watch", "session"]),
        ("pcap start", vec!["pcap", "start", "--write", file]),
    ];
    let asking = asked.map(|(doing, words)| {
        let mut command = quiver();
        command.arg("--socket").arg(&socket).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        (doing, command.spawn().unwrap())
    });
    for (doing, child) in asking {
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!((ran.status, ran.out.as_str()), (3, ""), "{doing}: {ran:?}");
        let said =
            format!("quiver: {doing}: quiverd at {} doesn't answer (within 5 s): it hangs", socket.display());
        assert!(ran.err.starts_with(&said) && ran.err.contains("systemctl restart quiverd"), "{}", ran.err);
    }
    assert_eq!(std::fs::read_to_string(capture).unwrap(), "precious");
}

/// So many wait for it already that the kernel takes nobody else.
#[test]
fn one_that_hangs_for_long_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("quiver.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waits = UnixStream::connect(&socket).unwrap();
    let ran = ran(quiver().arg("--socket").arg(&socket).args(["show", "version"]).output().unwrap());
    assert_eq!(ran.status, 3, "{ran:?}");
    let said =
        format!("quiver: can't reach quiverd at {}: Resource temporarily unavailable", socket.display());
    assert!(ran.err.starts_with(&said) && ran.err.contains("it hangs; restart it"), "{}", ran.err);
}

#[test]
fn one_that_works_for_long_is_waited_for() {
    let server = Server::start();
    let ran = server.quiver_with_input(&["apply", "-f", "-"], "[[vrf]]\nname = \"slow\"\n");
    assert_eq!(ran.out, "vrf slow: applied (new)\ngeneration 5: 1 applied\n");
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
}

/// It is quiver itself that stands still then, in the midst of writing.
#[test]
fn who_reads_the_output_may_take_a_rest() {
    let server = Server::start();
    let mut child = quiver()
        .env("QUIVER_SOCKET", server.path("quiver.sock"))
        .args(["watch", "session", "--tenant", "many", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut some) = (child.stdout.take().unwrap(), vec![0; 1 << 20]);
    let mut lines = 0;
    for _ in 0..3 {
        std::thread::sleep(SLOW);
        out.read_exact(&mut some).unwrap();
        lines += some.iter().filter(|byte| **byte == b'\n').count();
    }
    some.clear();
    out.read_to_end(&mut some).unwrap();
    lines += some.iter().filter(|byte| **byte == b'\n').count();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(lines, MANY_EVENTS, "{}", ran.err);
    // The server ends the stream.
    assert!(ran.err.starts_with("quiver: watch session: quiverd has ended"), "{}", ran.err);
}
