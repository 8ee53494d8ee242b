//! The matrix with DPDK: one testpmd with two ports, each forwarding to the other, is at once the client of our server and the server
//! of our client. What it can't do: its receive side always polls, and its mode is always ethernet.

use std::time::Instant;

use memif::region::SealPolicy;
use memif::{Address, ClientConfig, Connection, QueueConfig, ServerConfig};

use crate::common::small_queues;
use crate::matrix::{SIZES, WAYS, cell};
use crate::testpmd::{Testpmd, available};
use crate::{Ours, accept, dial, serve};

/// Times eight packets: several times around our rings.
const ROUNDS: usize = 64;

/// Both ways through it: from our server to our client and back.
fn cells(how: &str, sizes: &[usize], server: &mut Connection, client: &mut Connection) {
    for (size, waiting) in sizes.iter().copied().flat_map(|size| WAYS.map(|waiting| (size, waiting))) {
        let rounds = ROUNDS / server.rx.len();
        let name = format!("our server → DPDK {how} → our client");
        cell(&name, &mut server.tx, &mut client.rx, size, waiting, rounds);
        let name = format!("our client → DPDK {how} → our server");
        cell(&name, &mut client.tx, &mut server.rx, size, waiting, rounds);
    }
}

fn matrix(how: &str, queues: u16, options: &[&str], of_client: &str, seals: SealPolicy) {
    let directory = tempfile::tempdir().unwrap();
    let paths = [directory.path().join("a.sock"), directory.path().join("b.sock")];
    let config = || ServerConfig { seals, ..ServerConfig::default() };
    let listener = serve(&Address::path(&paths[0]), config());
    let of_client =
        format!("role=client,id=0,socket={},socket-abstract=no,rsize=8{of_client}", paths[0].display());
    let of_server = format!("role=server,id=0,socket={},socket-abstract=no", paths[1].display());
    let queue_options = [format!("--rxq={queues}"), format!("--txq={queues}"), "--forward-mode=io".into()];
    let queue_options: Vec<_> = queue_options.iter().map(String::as_str).collect();
    let mut testpmd = Testpmd::serve(&[&of_client, &of_server], options, &queue_options);
    let mut server = accept(listener);
    let queue_config = QueueConfig { rx_queues: queues, tx_queues: queues, ..small_queues() };
    let config = ClientConfig { queues: queue_config, ..ClientConfig::default() };
    let mut client = dial(&Address::path(&paths[1]), config.clone());
    testpmd.forward();
    for connection in [&server.connection, &client.connection] {
        assert_eq!((connection.rx.len(), connection.tx.len()), (usize::from(queues), usize::from(queues)));
    }
    cells(how, &SIZES, &mut server.connection, &mut client.connection);

    // We go and come back; the same testpmd serves us again. It must not forward meanwhile: it would use queues that it has freed.
    testpmd.say("stop", "Done.");
    drop(client);
    let mut client = dial(&Address::path(&paths[1]), config);
    // It throws away what it finds before that is done.
    testpmd.forward();
    cells(&format!("{how}, we restarted"), &SIZES[2..], &mut server.connection, &mut client.connection);
    // Before we go: see above.
    testpmd.say("stop", "Done.");
    quiet(server);
    quiet(client);
}

/// Nothing went wrong on the control channel meanwhile.
fn quiet(ours: Ours) {
    if let Some(mut listener) = ours.listener {
        assert!(listener.process(Instant::now()).unwrap().is_empty());
    }
    if let Some(mut client) = ours.client {
        assert!(client.process(Instant::now()).is_empty());
    }
}

#[test]
fn matrix_of_one_queue() {
    if available() {
        matrix("copying", 1, &[], "", SealPolicy::Require);
    }
}

#[test]
fn matrix_of_four_queues() {
    if available() {
        matrix("copying", 4, &[], "", SealPolicy::Require);
    }
}

/// DPDK's client exposes its own packet buffers, which it can't seal: only a server that allows that takes them.
#[test]
fn matrix_of_a_zero_copy_client() {
    if available() {
        let options = ["--single-file-segments"];
        for queues in [1, 4] {
            matrix("zero-copy", queues, &options, ",zero-copy=yes", SealPolicy::Allow);
        }
    }
}
