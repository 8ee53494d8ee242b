//! A peer that breaks the rules in the middle of what an application receives: nothing of it is left for the next connection.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::connect;
use memif::{Address, ListenerSettings, ServerConfig};
use quiver_memif::port::Port;
use quiver_memif::status::Status;

#[test]
fn pieces_that_wait_end_with_a_connection_that_ends_by_a_fault() {
    let address = Address::abstract_name(format!("quiver/stale-{}", std::process::id()));
    let server = Port::server(&address, 0, ServerConfig::default(), ListenerSettings::default()).unwrap();
    let (client, mut connection) = connect(&address, &server);
    // A packet of five slots, and then an empty one, which is against the rules.
    assert_eq!(connection.tx[0].send_batch(&[[7; 320]]).unwrap(), 1);
    let memory = connection.tx[0].regions().clone();
    memory.check(0, 128 + 5 * 16, 16).unwrap().write(&[0; 16]);
    memory.check(0, 6, 2).unwrap().write(&6_u16.to_le_bytes());
    let mut pieces = 0;
    let failed = server.receive(0, |_| pieces += 1, 2).unwrap_err();
    assert_eq!(failed.status, Status::Fault, "{failed:?}");
    drop((client, connection));
    let (_client, mut connection) = connect(&address, &server);
    assert_eq!(server.receive(0, |piece| panic!("from nowhere: {piece:?}"), 2).unwrap(), 0);
    assert_eq!(connection.tx[0].send_batch(&[[8; 60]]).unwrap(), 1);
    let mut lengths = Vec::new();
    assert_eq!(server.receive(0, |piece| lengths.push(piece.length), 2).unwrap(), 1);
    assert_eq!(lengths, [60]);
    server.release(0).unwrap();
}
