//! Interoperation with programs that send everything back: those of `QUIVER_REFLECTORS`, separated by colons, each called as
//! `PROGRAM SOCKET master|slave QUEUES epoll|poll [polling]`.
//!
//! `scripts/libraries.sh` gives the one that is built with the layer for libmemif's applications; and those with libmemif itself and
//! with gomemif, where it is told where these are.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/matrix.rs"]
mod matrix;

use std::path::Path;
use std::process::{Child, Command};

use common::{client_connection, drive, server_connection, small_queues};
use matrix::{SIZES, WAYS, Waiting, cell};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Listener, ListenerSettings, QueueConfig,
    ServerConfig, ServerEvent,
};

/// Ends with the test.
struct Reflector(Child);

impl Reflector {
    fn start(program: &str, socket: &Path, role: &str, queues: u16, how: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg(socket).arg(role).arg(queues.to_string()).args(how);
        Self(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}")))
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

#[test]
fn every_cell_with_every_program_that_reflects() {
    let Ok(programs) = std::env::var("QUIVER_REFLECTORS") else {
        eprintln!("SKIPPED: QUIVER_REFLECTORS names no programs: see scripts/libraries.sh");
        return;
    };
    for program in programs.split(':').filter(|program| !program.is_empty()) {
        for queues in [1, 4] {
            for how in [&["epoll"][..], &["poll"], &["poll", "polling"]] {
                as_server(program, queues, how);
                as_client(program, queues, how);
            }
        }
    }
}

/// gomemif's `WritePacket` puts the beginning of the packet into every buffer of a chain.
fn sizes(program: &str) -> impl Iterator<Item = (usize, Waiting)> {
    let longest = if name(program) == "gomemif" { 2048 } else { usize::MAX };
    SIZES
        .into_iter()
        .filter(move |size| *size <= longest)
        .flat_map(|size| WAYS.map(|waiting| (size, waiting)))
}

/// Times eight packets, over all queues.
const ROUNDS: usize = 40;

/// Our server and its client; then the client is killed and comes back.
fn as_server(program: &str, queues: u16, how: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let mut listener = Listener::bind(&Address::path(&path), ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    for _life in 0..2 {
        let reflector = Reflector::start(program, &path, "slave", queues, how);
        let up = |events: &[ServerEvent]| events.iter().any(|e| matches!(e, ServerEvent::Connected(_)));
        let (served, _) = drive(Some(&mut listener), &mut [], |s, _| up(s));
        let mut ours = served.into_iter().find_map(server_connection).unwrap();
        assert_eq!((ours.rx.len(), ours.tx.len()), (usize::from(queues), usize::from(queues)));
        let name = format!("our server, {} {}", name(program), how.join(" "));
        for (size, waiting) in sizes(program) {
            cell(&name, &mut ours.tx, &mut ours.rx, size, waiting, ROUNDS / usize::from(queues));
        }
        drop(reflector);
        let ended =
            |events: &[ServerEvent]| events.iter().any(|e| matches!(e, ServerEvent::Disconnected { .. }));
        drive(Some(&mut listener), &mut [], |s, _| ended(s));
    }
}

/// Our client and its server; then we go and come back, and it doesn't notice more than that; then it is killed and comes back, and our
/// client finds it by itself.
fn as_client(program: &str, queues: u16, how: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let start = || Reflector::start(program, &path, "master", queues, how);
    let mut reflector = start();
    let new = || {
        let queue_config = QueueConfig { rx_queues: queues, tx_queues: queues, ..small_queues() };
        let config = ClientConfig { queues: queue_config, ..ClientConfig::default() };
        Client::new(Address::path(&path), config, ClientTiming::default()).unwrap()
    };
    let mut client = new();
    for life in 0..3 {
        match life {
            0 => {}
            1 => client = new(),
            _ => {
                drop(reflector);
                let ended = |happened: &[Vec<ClientEvent>]| {
                    happened[0].iter().any(|event| matches!(event, ClientEvent::Disconnected { .. }))
                };
                drive(None, &mut [&mut client], |_, h| ended(h));
                // libmemif doesn't bind where the file of one that was killed is left.
                let _ = std::fs::remove_file(&path);
                reflector = start();
            }
        }
        let up = |happened: &[Vec<ClientEvent>]| {
            happened[0].iter().any(|event| matches!(event, ClientEvent::Connected(_)))
        };
        let (_, mut happened) = drive(None, &mut [&mut client], |_, h| up(h));
        let mut ours = happened.remove(0).into_iter().find_map(client_connection).unwrap();
        let name = format!("our client, {} {}", name(program), how.join(" "));
        for (size, waiting) in sizes(program) {
            cell(&name, &mut ours.tx, &mut ours.rx, size, waiting, ROUNDS / usize::from(queues));
        }
    }
    drop(reflector);
}
