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

use super::lines::{Line, LineReader, LineWriter};
use crate::model::spec::RouteSpec;
use crate::model::{Model, RouteKey};

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

/// Why a file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// It ends too early.
    #[error("it is cut off after {0} lines")]
    CutOff(usize),
    /// It was changed or the disk is at fault.
    #[error("the checksum in line {line} should be {written}, but is {found}")]
    Checksum {
        /// Line with the checksum.
        line: usize,
        /// What the bytes give.
        found: String,
        /// What the line says.
        written: String,
    },
    /// It doesn't begin as such a file does.
    #[error("line {line} isn't what should be there: {reason}")]
    Header {
        /// The line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Nothing that was ever written looks like that.
    #[error("line {line} isn't text")]
    NoText {
        /// The line.
        line: usize,
    },
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

/// Writes the desired state.
///
/// # Errors
/// Those of `out`.
pub fn write(model: &Model, out: &mut impl Write) -> io::Result<()> {
    let mut out = LineWriter::new(out);
    let objects = model.len() as u64;
    out.line(&Header { quiver_state: FORMAT, generation: model.generation, objects })?;
    for stored in model.vrfs.values() {
        out.line(&AnyObject::Vrf(stored.spec.to_api()))?;
    }
    for stored in model.bridges.values() {
        out.line(&AnyObject::Bridge(stored.spec.to_api()))?;
    }
    for stored in model.interfaces.values() {
        out.line(&AnyObject::Interface(stored.spec.to_api()))?;
    }
    for (vrf, table) in &model.routes {
        let mut key = RouteKey { vrf: vrf.clone(), prefix: ipnet::IpNet::default() };
        for (prefix, stored) in table.sorted() {
            key.prefix = prefix;
            out.line(&AnyObject::Route(RouteSpec::api_of(&key, &stored.paths)))?;
        }
    }
    for stored in model.neighbors.values() {
        out.line(&AnyObject::Neighbor(stored.spec.to_api()))?;
    }
    for stored in model.tenants.values() {
        out.line(&AnyObject::Tenant(stored.spec.to_api()))?;
    }
    for stored in model.nat_pools.values() {
        out.line(&AnyObject::NatPool(stored.spec.to_api()))?;
    }
    for stored in model.policers.values() {
        out.line(&AnyObject::Policer(stored.spec.to_api()))?;
    }
    for stored in model.vips.values() {
        out.line(&AnyObject::Vip(stored.spec.to_api()))?;
    }
    for stored in model.acls.values() {
        out.line(&AnyObject::Acl(stored.spec.to_api()))?;
    }
    for stored in model.address_sets.values() {
        out.line(&AnyObject::AddressSet(stored.spec.to_api()))?;
    }
    for stored in model.endpoints.values() {
        out.line(&AnyObject::Endpoint(stored.spec.to_api()))?;
    }
    out.finish()
}

/// Whether a state file begins as this version reads it; damage is no error.
///
/// # Errors
/// [`Damage::Newer`] and [`Damage::Io`].
pub(super) fn check(input: &mut impl BufRead) -> Result<(), Damage> {
    let mut lines = LineReader::new(input);
    let Line::Text(text) = lines.next()? else { return Ok(()) };
    match serde_json::from_str::<Header>(text) {
        Ok(header) if header.quiver_state > FORMAT => Err(Damage::Newer(header.quiver_state)),
        _ => Ok(()),
    }
}

/// Reads a state file.
///
/// # Errors
/// [`Damage`] if not every byte is as it was written.
pub fn read(input: &mut impl BufRead) -> Result<Snapshot, Damage> {
    let mut lines = LineReader::new(input);
    let header = match lines.next()? {
        Line::Text(text) => serde_json::from_str::<Header>(text)
            .map_err(|error| Damage::Header { line: 1, reason: error.to_string() })?,
        Line::NoText => return Err(Damage::NoText { line: 1 }),
        _ => return Err(Damage::CutOff(0)),
    };
    if header.quiver_state > FORMAT {
        return Err(Damage::Newer(header.quiver_state));
    }
    let mut snapshot = Snapshot { generation: header.generation, ..Snapshot::default() };
    let mut found = 0_u64;
    loop {
        let line = lines.number + 1;
        match lines.next()? {
            Line::Text(text) => match serde_json::from_str::<AnyObject>(text) {
                Ok(object) => snapshot.config.push(Object { object: Some(object), status: None }),
                Err(error) => snapshot.unknown.push((line, error.to_string())),
            },
            Line::Good => break,
            Line::Bad { found, written } => return Err(Damage::Checksum { line, found, written }),
            Line::NoText => return Err(Damage::NoText { line }),
            Line::End => return Err(Damage::CutOff(line - 1)),
        }
        found += 1;
    }
    if found == header.objects { Ok(snapshot) } else { Err(Damage::Count { found, written: header.objects }) }
}
