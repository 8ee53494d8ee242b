//! Counts what comes in on a memif, and with `send N` keeps sending packets of N bytes. Polls: takes a whole
//! core.
//!
//! ```text
//! cargo run --release -p memif --example count -- server /tmp/memif.sock 0
//! cargo run --release -p memif --example count -- client /tmp/memif.sock 0 send 64
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use memif::region::CheckedRange;
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, InterfaceError, Listener,
    ListenerSettings, QueueError, Reason, RxSink, ServerConfig, ServerEvent, TxSource,
};

/// Counts, without looking at the bytes.
#[derive(Default)]
struct Count {
    packets: u64,
    bytes: u64,
}

impl RxSink for Count {
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.packets += 1;
        self.bytes += u64::from(bytes.len());
    }

    fn chain(&mut self, _parts: &[CheckedRange<'_>], length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
    }
}

/// The same packet again and again.
struct Same(Vec<u8>);

impl TxSource for Same {
    fn length(&mut self, _: usize) -> u32 {
        self.0.len() as u32
    }

    fn write(&mut self, _: usize, into: CheckedRange<'_>) {
        into.write(&self.0);
    }

    fn write_chain(&mut self, _: usize, into: &[CheckedRange<'_>]) {
        let mut rest = &self.0[..];
        for part in into {
            rest = &rest[part.write(rest)..];
        }
    }
}

enum Control {
    Client(Client),
    Server(Listener),
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (role, address, id, send) = match arguments[..] {
        [role @ ("client" | "server"), address, id] => (role, address, id.parse(), Ok(0)),
        [role @ ("client" | "server"), address, id, "send", n] => (role, address, id.parse(), n.parse()),
        _ => ("", "", Ok(0), Ok(0)),
    };
    let (false, Ok(id), Ok(send)) = (role.is_empty(), id, send) else {
        eprintln!("usage: count client|server ADDRESS ID [send BYTES]   (ADDRESS: a path, or @name)");
        return ExitCode::from(2);
    };
    let Ok(address) = address.parse::<Address>();
    match open(role, address, id).and_then(|control| run(control, id, &mut Same(vec![0; send]))) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("count: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(role: &str, address: Address, id: u32) -> Result<Control, InterfaceError> {
    if role == "client" {
        let config = ClientConfig { id, name: "count".into(), ..ClientConfig::default() };
        return Client::new(address, config, ClientTiming::default()).map(Control::Client);
    }
    let mut listener = Listener::bind(&address, ListenerSettings::default())?;
    listener.register(id, ServerConfig { name: "count".into(), ..ServerConfig::default() })?;
    Ok(Control::Server(listener))
}

fn run(mut control: Control, id: u32, packet: &mut Same) -> Result<std::convert::Infallible, InterfaceError> {
    let (mut connection, mut count, mut sent) = (None, Count::default(), 0);
    let mut since = Instant::now();
    loop {
        for _ in 0..1000 {
            let Some(open) = &mut connection else { break };
            if let Err(error) = poll(open, &mut count, packet, &mut sent) {
                eprintln!("link down: {error}");
                let reason = Reason::from(error.fault);
                connection = None;
                match &mut control {
                    Control::Client(client) => client.disconnect(Instant::now(), &reason),
                    Control::Server(listener) => {
                        listener.disconnect(id, &reason);
                    }
                }
            }
        }
        if connection.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        link(&mut control, &mut connection)?;
        let passed = since.elapsed().as_secs_f64();
        if passed >= 1.0 {
            let (packets, bits) = (count.packets as f64 / passed, count.bytes as f64 * 8.0 / passed);
            let sending = sent as f64 / passed / 1e6;
            println!("received {:.3} Mpps, {:.3} Gbit/s; sent {sending:.3} Mpps", packets / 1e6, bits / 1e9);
            (count, sent, since) = (Count::default(), 0, Instant::now());
        }
    }
}

fn poll(
    connection: &mut Connection,
    count: &mut Count,
    packet: &mut Same,
    sent: &mut u64,
) -> Result<(), QueueError> {
    for queue in &mut connection.rx {
        queue.receive(256, count)?;
        queue.release();
    }
    if !packet.0.is_empty() {
        for queue in &mut connection.tx {
            *sent += queue.transmit(256, packet)?.sent as u64;
            queue.notify();
        }
    }
    Ok(())
}

fn link(control: &mut Control, connection: &mut Option<Connection>) -> Result<(), InterfaceError> {
    let now = Instant::now();
    match control {
        Control::Client(client) => {
            for event in client.process(now) {
                let (what, why) = match event {
                    ClientEvent::Connected(up) => {
                        *connection = Some(up);
                        continue;
                    }
                    ClientEvent::Disconnected { reason } => ("link down", reason.to_string()),
                    ClientEvent::Refused { reason } => ("refused", reason.to_string()),
                    ClientEvent::Unreachable { error } => ("can't connect", error.to_string()),
                };
                eprintln!("{what}: {why}");
                *connection = None;
            }
        }
        Control::Server(listener) => {
            for event in listener.process(now)? {
                match event {
                    ServerEvent::Connected(up) => *connection = Some(up),
                    ServerEvent::Disconnected { reason, .. } => {
                        eprintln!("link down: {reason}");
                        *connection = None;
                    }
                    ServerEvent::Refused { reason, .. } => eprintln!("refused: {reason}"),
                    ServerEvent::NotAccepting { error } => eprintln!("can't accept: {error}"),
                }
            }
        }
    }
    Ok(())
}
