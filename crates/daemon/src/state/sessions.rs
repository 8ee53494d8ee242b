//! Sessions that the next process goes on with, beside the state.
//!
//! ```text
//! {"quiver_sessions":1,"boot":"5ca8…","written":64800,"sessions":1}
//! {"tenant":"red","context":0,"protocol":6,"endpoints":["10.1.0.2:40122","10.96.0.1:80"],"beyond":[…],…}
//! {"crc32":"1c291ca3"}
//! ```
//!
//! Written when quiverd ends, read once: who starts after a crash finds none, since those of an earlier end are another time's.

use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use memory::clock::nanoseconds;
use serde::{Deserialize, Serialize};

use super::lines::{Line, LineReader, LineWriter};
use crate::dataplane::KeptSession;
use crate::files;

pub(super) const SESSIONS: &str = "sessions.jsonl";
const NEXT: &str = "sessions.jsonl.next";
const FORMAT: u32 = 1;
/// Names what the kernel has been up for since it was booted: clocks of another time say nothing, and of pods of then there are none.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// After so long few clients still wait, and ports are used for something else.
const STALE_SECONDS: u64 = 600;

#[derive(Serialize, Deserialize)]
struct Header {
    quiver_sessions: u32,
    boot: String,
    /// Seconds since then: a clock that nobody sets.
    written: u64,
    sessions: usize,
}

/// Writes them.
///
/// # Errors
/// What the system says; then there are none.
pub fn write_sessions(directory: &Path, sessions: &[KeptSession]) -> io::Result<()> {
    let next = directory.join(NEXT);
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    let mut out = LineWriter::new(BufWriter::with_capacity(1 << 18, file));
    out.line(&Header {
        quiver_sessions: FORMAT,
        boot: fs::read_to_string(BOOT)?,
        written: seconds(),
        sessions: sessions.len(),
    })?;
    for session in sessions {
        out.line(session)?;
    }
    out.finish()?;
    // (Not brought to disk: if the power goes, connections have gone, too.)
    fs::rename(&next, directory.join(SESSIONS))
}

/// Takes those that were written last. There are none where that is too long ago, another version has written them, or they are damaged.
///
/// # Errors
/// What the system says.
pub fn take_sessions(directory: &Path) -> io::Result<Vec<KeptSession>> {
    let path = directory.join(SESSIONS);
    let file = match files::open_own(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    fs::remove_file(&path)?;
    let found = read(BufReader::with_capacity(1 << 18, file), &fs::read_to_string(BOOT)?, seconds())?;
    Ok(found.unwrap_or_else(|reason| {
        tracing::warn!(reason, "sessions to VIPs of the process before begin anew");
        Vec::new()
    }))
}

/// Why sessions that were written are none.
type Void = &'static str;

fn read(input: impl io::BufRead, boot: &str, now: u64) -> io::Result<Result<Vec<KeptSession>, Void>> {
    const DAMAGED: Void = "the file is damaged";
    const ANOTHERS: Void = "another version has written the file";
    let mut lines = LineReader::new(input);
    let Line::Text(text) = lines.next()? else { return Ok(Err(DAMAGED)) };
    let Ok(header) = serde_json::from_str::<Header>(text) else { return Ok(Err(ANOTHERS)) };
    if header.quiver_sessions != FORMAT {
        return Ok(Err(ANOTHERS));
    }
    if header.boot != boot {
        return Ok(Err("the machine was booted since"));
    }
    if !(header.written..=header.written.saturating_add(STALE_SECONDS)).contains(&now) {
        return Ok(Err("that was more than ten minutes ago"));
    }
    let mut sessions = Vec::new();
    loop {
        match lines.next()? {
            Line::Text(text) => match serde_json::from_str(text) {
                Ok(session) => sessions.push(session),
                Err(_) => return Ok(Err(DAMAGED)),
            },
            Line::Good if sessions.len() == header.sessions => return Ok(Ok(sessions)),
            Line::Good | Line::Bad { .. } | Line::NoText | Line::End => return Ok(Err(DAMAGED)),
        }
    }
}

fn seconds() -> u64 {
    nanoseconds() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(port: u16) -> KeptSession {
        let at = |port: u16| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        KeptSession {
            tenant: "red".into(),
            interface: "a".into(),
            context: 0,
            protocol: 6,
            endpoints: [at(port), at(80)],
            beyond: [at(port), at(8080)],
            direct: false,
            closing: port == 2,
            tcp_flags: [0x12, 0x10],
        }
    }

    #[test]
    fn what_is_written_is_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = [session(1), session(2)];
        assert_eq!(take_sessions(directory.path()).unwrap(), []);
        write_sessions(directory.path(), &sessions).unwrap();
        assert_eq!(take_sessions(directory.path()).unwrap(), sessions);
        assert_eq!(take_sessions(directory.path()).unwrap(), []);
    }

    #[test]
    fn what_is_stale_of_another_version_or_damaged_is_none() {
        let directory = tempfile::tempdir().unwrap();
        write_sessions(directory.path(), &[session(1)]).unwrap();
        let text = fs::read_to_string(directory.path().join(SESSIONS)).unwrap();
        let header: Header = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let read = |text: &str, now| read(text.as_bytes(), &header.boot, now).unwrap();
        assert_eq!(read(&text, header.written + STALE_SECONDS), Ok(vec![session(1)]));
        assert!(read(&text, header.written + STALE_SECONDS + 1).unwrap_err().contains("ten minutes"));
        assert!(read(&text, header.written - 1).is_err());
        for end in 0..text.len() {
            assert!(read(&text[..end], header.written).is_err(), "cut off after {end}");
        }
        assert!(
            super::read(text.as_bytes(), "another", header.written).unwrap().unwrap_err().contains("booted")
        );
        assert!(read(&text.replace(":80\"", ":81\""), header.written).unwrap_err().contains("damaged"));
        // Whole files, with their own sums, of another version and with another number of sessions.
        let written = |quiver_sessions, sessions| {
            let (boot, written) = (header.boot.clone(), header.written);
            let mut file = Vec::new();
            let mut out = LineWriter::new(&mut file);
            out.line(&Header { quiver_sessions, boot, written, sessions }).unwrap();
            out.line(&session(1)).unwrap();
            out.finish().unwrap();
            read(&String::from_utf8(file).unwrap(), header.written)
        };
        assert!(written(FORMAT, 1).is_ok());
        assert!(written(FORMAT + 1, 1).unwrap_err().contains("another version"));
        assert!(written(FORMAT, 2).unwrap_err().contains("damaged"));
    }
}
