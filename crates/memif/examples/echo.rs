//! A host on a memif: answers ARP requests, neighbour solicitations and pings for every address.
//!
//! ```text
//! cargo run -p memif --example echo -- client @quiver/demo 0    # id 0 of the server at that abstract socket
//! cargo run -p memif --example echo -- server /tmp/memif.sock 0
//! ```

mod answer;
mod common;

use std::process::ExitCode;

use answer::answer;
use memif::app::{Batch, Port};
use memif::{InterfaceError, Mode};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let opened = match &arguments[..] {
        [role, address, id] => common::open("echo", Mode::Ethernet, [role, address, id]),
        _ => None,
    };
    let Some(port) = opened else {
        eprintln!("usage: echo {}   (ADDRESS: a path, or @name)", common::PORT);
        return ExitCode::from(2);
    };
    match port.and_then(serve) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut port: Port) -> Result<std::convert::Infallible, InterfaceError> {
    let mut batch = Batch::new(256);
    loop {
        for event in port.wait(None)? {
            eprintln!("{event}");
        }
        // A peer that breaks the rules ends its connection, not this program.
        while port.receive(&mut batch).is_ok_and(|received| received > 0) {
            let answers: Vec<_> = batch.packets().filter_map(answer).collect();
            let _ = port.send(&answers);
        }
    }
}
