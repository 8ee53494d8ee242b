//! A host on a memif: answers ARP requests and pings for every IPv4 address.
//!
//! ```text
//! cargo run -p memif --example echo -- client @quiver/demo 0    # id 0 of the server at that abstract socket
//! cargo run -p memif --example echo -- server /tmp/memif.sock 0
//! ```

use std::process::ExitCode;

use memif::app::{Batch, Port};
use memif::{Address, ClientConfig, ClientTiming, Error, ListenerSettings, ServerConfig};

/// Our MAC address: locally administered.
const MAC: [u8; 6] = [0x02, 0xfe, 0, 0, 0, 1];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let ([role @ ("client" | "server"), address, id], Some(Ok(number))) =
        (&arguments[..], arguments.get(2).map(|id| id.parse()))
    else {
        eprintln!("usage: echo client|server ADDRESS ID   (ADDRESS: a path, or @name)");
        return ExitCode::from(2);
    };
    let Ok(place) = address.parse::<Address>();
    let port = if *role == "client" {
        let config = ClientConfig { id: number, name: format!("echo{id}"), ..ClientConfig::default() };
        Port::client(place, config, ClientTiming::default())
    } else {
        let config = ServerConfig { name: format!("echo{id}"), ..ServerConfig::default() };
        Port::server(&place, number, config, ListenerSettings::default())
    };
    match port.and_then(serve) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut port: Port) -> Result<std::convert::Infallible, Error> {
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

/// The answer to a frame, if it asks for one.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let mut reply = frame.to_vec();
    let (ethernet, packet) = reply.split_at_mut_checked(14)?;
    match [ethernet[12], ethernet[13]] {
        [0x08, 0x06] => answer_arp(packet)?,
        [0x08, 0x00] => answer_ping(packet)?,
        _ => return None,
    }
    ethernet.copy_within(6..12, 0);
    ethernet[6..12].copy_from_slice(&MAC);
    Some(reply)
}

/// RFC 826: a request for Ethernet and IPv4 becomes a reply.
fn answer_arp(arp: &mut [u8]) -> Option<()> {
    if arp.len() < 28 || arp[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    arp[7] = 2;
    let (sender, target) = arp[8..28].split_at_mut(10);
    sender.swap_with_slice(target);
    sender[..6].copy_from_slice(&MAC);
    Some(())
}

/// RFC 792: an echo request becomes an echo reply. Swapping addresses leaves the IPv4 checksum right; the
/// ICMP checksum grows by what the type shrinks (RFC 1624).
fn answer_ping(ip: &mut [u8]) -> Option<()> {
    let header = usize::from(ip.first()? & 15) * 4;
    if ip[0] >> 4 != 4 || header < 20 || ip.len() < header + 8 || ip[9] != 1 || ip[header] != 8 {
        return None;
    }
    let (from, to) = ip[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    ip[header] = 0;
    let sum = u32::from(u16::from_be_bytes([ip[header + 2], ip[header + 3]])) + 0x0800;
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[header + 2..header + 4].copy_from_slice(&(sum as u16).to_be_bytes());
    Some(())
}
