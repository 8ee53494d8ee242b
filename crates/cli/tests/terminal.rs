//! Commands that care whether there is a terminal.
#![allow(clippy::unwrap_used)] // also in helpers: what fails here fails the test

mod common;

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use common::{Server, quiver, ran};

/// Runs a command line on a terminal of `script` (bsdutils), of 24 lines and 100 columns; presses `keys` as soon as
/// `awaited` is on the screen. Gives back what was on the screen and the exit status. What hangs is ended by `timeout`.
fn on_a_terminal(server: &Server, words: &str, awaited: &str, keys: &str) -> (String, i32) {
    let quiver = env!("CARGO_BIN_EXE_quiver");
    let mut child = Command::new("timeout")
        .args(["60", "script", "-qec", &format!("stty rows 24 cols 100; exec {quiver} {words}"), "/dev/null"])
        .env("QUIVER_SOCKET", server.path("quiver.sock"))
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (mut screen, mut buffer) = (Vec::new(), [0; 4096]);
    let mut pressed = false;
    loop {
        let length = output.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        screen.extend_from_slice(&buffer[..length]);
        if !pressed && String::from_utf8_lossy(&screen).contains(awaited) {
            input.write_all(keys.as_bytes()).unwrap();
            pressed = true;
        }
    }
    assert!(pressed || keys.is_empty(), "{awaited} didn't come: {}", String::from_utf8_lossy(&screen));
    (String::from_utf8_lossy(&screen).into_owned(), child.wait().unwrap().code().unwrap())
}

#[test]
fn top_draws_and_quits() {
    let server = Server::start();
    let (screen, status) = on_a_terminal(&server, "top --interval 0.3", "Mpps", "q");
    assert_eq!(status, 0, "{screen}");
    // Takes the other screen and gives back the first one.
    assert!(screen.contains("\x1b[?1049h") && screen.contains("\x1b[?1049l"), "{screen}");
}

#[test]
fn top_needs_a_terminal() {
    let server = Server::start();
    let ran = server.quiver(&["top"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("needs a terminal"), "{}", ran.err);
}

#[test]
fn colours_on_a_terminal() {
    let server = Server::start();
    let (screen, status) = on_a_terminal(&server, "get", "", "");
    assert_eq!(status, 0);
    assert!(screen.contains("\x1b[32mapplied\x1b[0m"), "{screen}");
}

#[test]
fn a_capture_is_not_written_to_a_terminal() {
    let server = Server::start();
    let (screen, status) = on_a_terminal(&server, "pcap start --write -", "", "");
    assert_eq!(status, 2, "{screen}");
    assert!(screen.contains("is no text for a terminal"), "{screen}");
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let server = Server::start();
    let mut child = quiver()
        .env("QUIVER_SOCKET", server.path("quiver.sock"))
        .args(["show", "interface", "--watch", "0.01"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"NAME");
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
}

#[test]
fn doctor_judges_in_its_exit_status() {
    let server = Server::start();
    let ran = server.quiver(&["doctor", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() > 8);
    let failed = checks.iter().any(|check| check["verdict"] == "fail");
    assert_eq!(ran.status, i32::from(failed));
    // The server here is of another version.
    let quiverd = checks.iter().find(|check| check["name"] == "quiverd").unwrap();
    assert_eq!(quiverd["verdict"], "warn");
    assert!(quiverd["found"].as_str().unwrap().starts_with("0.0.1, while quiver is"));
}
