//! Sessions that the next process goes on with, beside the state.
//!
//! ```text
//! {"quiver_sessions":1,"boot":"5ca8…","written":64800,"sessions":1}
//! {"tenant":"red","context":0,"protocol":6,"endpoints":["10.1.0.2:40122","10.96.0.1:80"],"beyond":[…],…}
//! {"crc32":"1c291ca3"}
//! ```
//!
//! Written when quiverd ends, read once: who starts after a crash finds none, since those of an earlier end are another time's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use memory::clock::nanoseconds;
use serde::{Deserialize, Serialize};

use super::lines::{Line, LineReader, LineWriter};
use crate::dataplane::KeptSession;

const SESSIONS: &str = "sessions.jsonl";
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
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&next)?;
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
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    fs::remove_file(&path)?;
    let found = read(BufReader::with_capacity(1 << 18, file), &fs::read_to_string(BOOT)?, seconds())?;
    Ok(found.unwrap_or_default())
}

fn read(input: impl io::BufRead, boot: &str, now: u64) -> io::Result<Option<Vec<KeptSession>>> {
    let mut lines = LineReader::new(input);
    let Line::Text(text) = lines.next()? else { return Ok(None) };
    let Ok(header) = serde_json::from_str::<Header>(text) else { return Ok(None) };
    let fresh = (header.written..=header.written.saturating_add(STALE_SECONDS)).contains(&now);
    if header.quiver_sessions != FORMAT || header.boot != boot || !fresh {
        return Ok(None);
    }
    let mut sessions = Vec::new();
    loop {
        match lines.next()? {
            Line::Text(text) => match serde_json::from_str(text) {
                Ok(session) => sessions.push(session),
                Err(_) => return Ok(None),
            },
            Line::Good => return Ok((sessions.len() == header.sessions).then_some(sessions)),
            Line::Bad { .. } | Line::End => return Ok(None),
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
        assert_eq!(read(&text, header.written + STALE_SECONDS), Some(vec![session(1)]));
        assert_eq!(read(&text, header.written + STALE_SECONDS + 1), None);
        assert_eq!(read(&text, header.written - 1), None);
        for end in 0..text.len() {
            assert_eq!(read(&text[..end], header.written), None, "cut off after {end}");
        }
        assert_eq!(super::read(text.as_bytes(), "another", header.written).unwrap(), None);
        assert_eq!(read(&text.replace(":80\"", ":81\""), header.written), None);
        assert_eq!(read(&text.replace("sessions\":1,\"b", "sessions\":2,\"b"), header.written), None);
    }
}
