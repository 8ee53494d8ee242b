//! Writes what comes in on a memif to a pcap file, which Wireshark, tcpdump and scapy read.
//!
//! ```text
//! record FILE client|server ADDRESS ID [ip] [count N]      # until N packets came, or until it is interrupted
//! ```
//! The format is that of draft-ietf-opsawg-pcap: nanoseconds, link type Ethernet (1), or raw IP (101) with `ip`.

mod common;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memif::Mode;
use memif::app::{Batch, Port};

/// Most bytes of a packet, as the file's header says.
const SNAP: u32 = 262_144;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let mut words: Vec<_> = words.iter().map(String::as_str).collect();
    let mut most = u64::MAX;
    if let [.., "count", n] = words[..] {
        let Ok(n) = n.parse() else { return usage() };
        most = n;
        words.truncate(words.len() - 2);
    }
    let (file, mode, port) = match words[..] {
        [file, role, address, id] => (file, Mode::Ethernet, [role, address, id]),
        [file, role, address, id, "ip"] => (file, Mode::Ip, [role, address, id]),
        _ => return usage(),
    };
    let Some(port) = common::open("record", mode, port) else { return usage() };
    let done = port.map_err(io::Error::other).and_then(|port| record(port, file, mode, most));
    match done {
        Ok(packets) => {
            println!("{packets} packets");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: record FILE {} [ip] [count N]   (ADDRESS: a path, or @name)", common::PORT);
    ExitCode::from(2)
}

fn record(mut port: Port, file: &str, mode: Mode, most: u64) -> io::Result<u64> {
    let mut file = BufWriter::new(File::create(file)?);
    let link_type: u32 = if mode == Mode::Ethernet { 1 } else { 101 };
    // Magic of nanoseconds, version 2.4, two words of nothing, snap length, link type.
    for word in [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, SNAP, link_type] {
        file.write_all(&word.to_le_bytes())?;
    }
    let (mut batch, mut packets) = (Batch::new(256), 0);
    while packets < most {
        for event in port.wait(Some(Duration::from_secs(1))).map_err(io::Error::other)? {
            eprintln!("{event}");
        }
        // A peer that breaks the rules ends its connection, not this program.
        while packets < most && port.receive(&mut batch).is_ok_and(|received| received > 0) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let left = usize::try_from(most - packets).unwrap_or(usize::MAX);
            for packet in batch.packets().take(left) {
                let kept = &packet[..packet.len().min(SNAP as usize)];
                // Seconds since 1970, nanoseconds, bytes kept, bytes there were.
                let head = [now.as_secs() as u32, now.subsec_nanos(), kept.len() as u32, packet.len() as u32];
                for word in head {
                    file.write_all(&word.to_le_bytes())?;
                }
                file.write_all(kept)?;
                packets += 1;
            }
        }
        // Whoever looks at the file while nothing comes sees all of it.
        file.flush()?;
    }
    Ok(packets)
}
