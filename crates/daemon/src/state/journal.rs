//! The format of the journal: the batches that came after a state.
//!
//! ```text
//! {"batch":8,"objects":2}
//! {"put":{"interface":{"name":"pod-b","memif":{"socket":"@pod-b"}}}}
//! {"delete":{"kind":"route","name":"default/10.0.0.0/8"}}
//! {"crc32":"9be3e0a3"}
//! ```
//!
//! Of a set of addresses that is large, a batch has those members that come (`add`) and go (`remove`).
//!
//! The checksum is over the batch. A batch without it was being written when the process or the machine stopped.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use api::names::Named;
use api::v1::object::Object as AnyObject;
use api::v1::{Config, Object, ObjectRef};
use serde::{Deserialize, Serialize};

use super::format::{Damage, Snapshot};
use super::lines::{Line, LineReader, LineWriter};
use crate::model::{Model, Undo};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// The generation it leads to.
    batch: u64,
    objects: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Put(Box<AnyObject>),
    Delete(ObjectRef),
}

/// Members of a set by their text: whether they are there now.
#[derive(Debug, Default)]
struct Members(BTreeMap<String, bool>);

impl Members {
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Kind and name of an object, ordered.
type Id = (i32, String);

/// What a journal leads to.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Generation after the last good batch.
    pub(super) generation: u64,
    /// Where the last good batch ends, in bytes.
    pub(super) good: u64,
    /// Why nothing is good after that; `None`: nothing came after, or only a batch that wasn't completed.
    pub(super) damage: Option<Damage>,
    /// Objects that were put (with what they became) or deleted.
    changes: BTreeMap<Id, Option<AnyObject>>,
    /// Members of sets that came and went after what `changes` says of these.
    members: BTreeMap<String, Members>,
    /// Entries that are intact but say something this version doesn't know: (line number, why).
    pub(super) unknown: Vec<(usize, String)>,
}

/// Writes a batch but for its last line, which is returned: it makes the batch count.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(model: &Model, undo: &Undo, out: &mut impl Write) -> io::Result<String> {
    let mut out = LineWriter::new(out);
    out.line(&Header { batch: model.generation, objects: undo.len() as u64 })?;
    for (key, object) in undo.changed_objects(model) {
        let entry = match object {
            Some(object) => Entry::Put(Box::new(object)),
            None => Entry::Delete(key.to_api()),
        };
        out.line(&entry)?;
    }
    out.flush()?;
    out.trailer()
}

/// Reads a journal that follows a state of `generation`.
///
/// # Errors
/// Those of `input`; damage is no error, for what comes before it counts.
pub(super) fn read(generation: u64, input: &mut impl BufRead) -> io::Result<Journal> {
    let mut lines = LineReader::new(input);
    let mut journal = Journal { generation, ..Journal::default() };
    loop {
        match read_batch(&mut lines, &mut journal) {
            Ok(true) => {}
            Ok(false) => return Ok(journal),
            Err(Damage::Io(error)) => return Err(error),
            Err(damage) => {
                journal.damage = Some(damage);
                return Ok(journal);
            }
        }
    }
}

/// Reads one batch; false at the end.
fn read_batch<R: BufRead>(lines: &mut LineReader<R>, journal: &mut Journal) -> Result<bool, Damage> {
    let line = lines.number + 1;
    let expected = journal.generation + 1;
    let header = match lines.next()? {
        Line::Text(text) => serde_json::from_str::<Header>(text)
            .map_err(|error| Damage::Header { line, reason: error.to_string() })?,
        Line::End => return Ok(false),
        Line::NoText => return Err(Damage::NoText { line }),
        _ => return Err(Damage::Header { line, reason: "a checksum without a batch".into() }),
    };
    let mut changes = Vec::new();
    let mut unknown = Vec::new();
    let mut found = 0_u64;
    loop {
        let line = lines.number + 1;
        match lines.next()? {
            Line::Text(text) => match serde_json::from_str::<Entry>(text) {
                Ok(Entry::Put(object)) => changes.extend(id_of(&object).map(|id| (id, Some(*object)))),
                Ok(Entry::Delete(object)) => changes.push(((object.kind, object.name), None)),
                Err(error) => unknown.push((line, error.to_string())),
            },
            Line::Good => break,
            Line::Bad { found, written } => return Err(Damage::Checksum { line, found, written }),
            Line::NoText => return Err(Damage::NoText { line }),
            Line::End => return Ok(false),
        }
        found += 1;
        if found > header.objects {
            // Its last line is damaged beyond recognition, or it is gone.
            return Err(Damage::Count { found, written: header.objects });
        }
    }
    if found != header.objects {
        return Err(Damage::Count { found, written: header.objects });
    }
    if header.batch != expected {
        let reason = format!("it leads to generation {}, but {expected} comes next", header.batch);
        return Err(Damage::Header { line, reason });
    }
    journal.generation = header.batch;
    journal.good = lines.bytes;
    changes.into_iter().for_each(|(id, object)| journal.note(id, object));
    journal.unknown.extend(unknown);
    Ok(true)
}

impl Journal {
    /// Number of objects that changed.
    pub(super) fn changes(&self) -> usize {
        self.changes.len() + self.members.values().map(Members::len).sum::<usize>()
    }

    /// Brings a state to what the journal leads to.
    pub(super) fn replay(mut self, snapshot: &mut Snapshot) {
        snapshot.generation = self.generation;
        if self.changes.is_empty() && self.members.is_empty() {
            return;
        }
        let Config {
            vrfs,
            bridges,
            interfaces,
            routes,
            neighbors,
            tenants,
            nat_pools,
            policers,
            vips,
            acls,
            address_sets,
            endpoints,
        } = &mut snapshot.config;
        drop_changed(vrfs, &self.changes);
        drop_changed(bridges, &self.changes);
        drop_changed(interfaces, &self.changes);
        drop_changed(routes, &self.changes);
        drop_changed(neighbors, &self.changes);
        drop_changed(tenants, &self.changes);
        drop_changed(nat_pools, &self.changes);
        drop_changed(policers, &self.changes);
        drop_changed(vips, &self.changes);
        drop_changed(acls, &self.changes);
        drop_changed(address_sets, &self.changes);
        drop_changed(endpoints, &self.changes);
        for object in self.changes.into_values().flatten() {
            snapshot.config.push(Object { object: Some(object), status: None });
        }
        for set in &mut snapshot.config.address_sets {
            if let Some(members) = self.members.remove(&set.name) {
                set.members.retain(|member| !members.0.contains_key(member));
                let come = members.0.into_iter().filter(|(_, there)| *there);
                set.members.extend(come.map(|(member, _)| member));
            }
        }
    }

    fn note(&mut self, id: Id, object: Option<AnyObject>) {
        match object {
            Some(AnyObject::AddressSet(set)) if !(set.add.is_empty() && set.remove.is_empty()) => {
                let members = self.members.entry(set.name).or_default();
                members.0.extend(set.add.into_iter().map(|member| (member, true)));
                members.0.extend(set.remove.into_iter().map(|member| (member, false)));
            }
            object => {
                if id.0 == i32::from(api::v1::Kind::AddressSet) {
                    self.members.remove(&id.1);
                }
                self.changes.insert(id, object);
            }
        }
    }
}

fn drop_changed<T: Named>(list: &mut Vec<T>, changes: &BTreeMap<Id, Option<AnyObject>>) {
    list.retain(|object| !changes.contains_key(&(T::KIND.into(), object.object_name())));
}

fn id_of(object: &AnyObject) -> Option<Id> {
    let name = Object { object: Some(object.clone()), status: None }.object_ref()?;
    Some((name.kind, name.name))
}
