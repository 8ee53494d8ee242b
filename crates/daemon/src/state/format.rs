//! The format of the state file.
//!
//! ```text
//! {"quiver_state":1,"generation":7,"objects":2}
//! {"interface":{"name":"pod-a","memif":{"socket":"@pod-a"}}}
//! {"route":{"prefix":"10.0.0.0/8","next_hops":[{"interface":"pod-a"}]}}
//! {"crc32":"1c291ca3"}
//! ```
//!
//! The checksum is over all bytes before its line. Without a last line the file was cut off.

use std::io::{self, BufRead, Write};

use api::v1::object::Object as AnyObject;
use api::v1::{Config, Object};
use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::model::RouteKey;
use crate::model::spec::RouteSpec;

/// The format this version writes.
pub const FORMAT: u32 = 1;

/// What a state file holds.
#[derive(Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Generation it was written in.
    pub generation: u64,
    /// All objects that could be read.
    pub config: Config,
    /// Lines that are intact but say something this version doesn't know: (line number, why).
    pub unknown: Vec<(usize, String)>,
}

/// Why a state file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// It ends too early.
    #[error("it is cut off after {0} lines")]
    CutOff(usize),
    /// It was changed or the disk is at fault.
    #[error("its checksum is {found}, but should be {written}")]
    Checksum {
        /// What the bytes give.
        found: String,
        /// What the last line says.
        written: String,
    },
    /// It doesn't begin as a state file does.
    #[error("it doesn't begin as a state file does: {0}")]
    NoHeader(String),
    /// Objects are missing or too many.
    #[error("it has {found} objects, but should have {written}")]
    Count {
        /// Lines with objects.
        found: u64,
        /// What the header says.
        written: u64,
    },
    /// It is of a later version: no damage, but of no use either.
    #[error("it has format {0}")]
    Newer(u32),
    /// The system can't read it.
    #[error("it can't be read: {0}")]
    Io(#[from] io::Error),
}

#[derive(Serialize, Deserialize)]
struct Header {
    quiver_state: u32,
    generation: u64,
    objects: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    crc32: String,
}

/// Writes the desired state.
///
/// # Errors
/// Those of `out`.
pub fn write(model: &Model, out: &mut impl Write) -> io::Result<()> {
    let mut out = Summing { out, sum: crc32fast::Hasher::new() };
    let objects = model.len() as u64;
    line(&mut out, &Header { quiver_state: FORMAT, generation: model.generation, objects })?;
    for stored in model.vrfs.values() {
        line(&mut out, &AnyObject::Vrf(stored.spec.to_api()))?;
    }
    for stored in model.bridges.values() {
        line(&mut out, &AnyObject::Bridge(stored.spec.to_api()))?;
    }
    for stored in model.interfaces.values() {
        line(&mut out, &AnyObject::Interface(stored.spec.to_api()))?;
    }
    for (vrf, table) in &model.routes {
        let mut key = RouteKey { vrf: vrf.clone(), prefix: ipnet::IpNet::default() };
        for (prefix, stored) in table.sorted() {
            key.prefix = prefix;
            line(&mut out, &AnyObject::Route(RouteSpec::api_of(&key, &stored.paths)))?;
        }
    }
    for stored in model.neighbors.values() {
        line(&mut out, &AnyObject::Neighbor(stored.spec.to_api()))?;
    }
    let crc32 = format!("{:08x}", out.sum.clone().finalize());
    line(&mut out, &Trailer { crc32 })
}

/// Reads a state file.
///
/// # Errors
/// [`Damage`] if not every byte is as it was written.
pub fn read(input: &mut impl BufRead) -> Result<Snapshot, Damage> {
    let mut lines = Lines { input, text: String::new(), number: 0, sum: crc32fast::Hasher::new() };
    let header = match lines.next()? {
        Some(text) => {
            serde_json::from_str::<Header>(text).map_err(|error| Damage::NoHeader(error.to_string()))?
        }
        None => return Err(Damage::CutOff(0)),
    };
    if header.quiver_state > FORMAT {
        return Err(Damage::Newer(header.quiver_state));
    }
    let mut snapshot = Snapshot { generation: header.generation, ..Snapshot::default() };
    let mut found = 0_u64;
    loop {
        let sum = lines.sum.clone();
        let Some(text) = lines.next()? else { return Err(Damage::CutOff(lines.number)) };
        // Only the last line can have this beginning: objects begin with their kind.
        if text.starts_with("{\"crc32\"") {
            let Ok(trailer) = serde_json::from_str::<Trailer>(text) else {
                return Err(Damage::CutOff(lines.number));
            };
            let sum = format!("{:08x}", sum.finalize());
            if sum != trailer.crc32 {
                return Err(Damage::Checksum { found: sum, written: trailer.crc32 });
            }
            break;
        }
        found += 1;
        match serde_json::from_str::<AnyObject>(text) {
            Ok(object) => snapshot.config.push(Object { object: Some(object), status: None }),
            Err(error) => snapshot.unknown.push((lines.number, error.to_string())),
        }
    }
    if found != header.objects {
        return Err(Damage::Count { found, written: header.objects });
    }
    Ok(snapshot)
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Passes bytes on and sums them up.
struct Summing<W> {
    out: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whole lines and the sum of those read so far.
struct Lines<R> {
    input: R,
    text: String,
    number: usize,
    sum: crc32fast::Hasher,
}

impl<R: BufRead> Lines<R> {
    /// The next line; `None` at the end, be it in the middle of a line.
    fn next(&mut self) -> Result<Option<&str>, Damage> {
        self.text.clear();
        match self.input.read_line(&mut self.text) {
            Ok(_) if self.text.ends_with('\n') => {}
            // Bytes that are no text can only be damage.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(None),
        }
        self.number += 1;
        self.sum.update(self.text.as_bytes());
        Ok(Some(self.text.trim_end_matches('\n')))
    }
}
