//! The directory with the state file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::format::{self, FORMAT};
use super::{Damage, Snapshot, StateError};
use crate::model::Model;

const STATE: &str = "state.jsonl";
const PREVIOUS: &str = "state.jsonl.previous";
const NEXT: &str = "state.jsonl.next";
const LOCK: &str = "lock";

/// The directory with the state file, for this process alone.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    /// Held as long as this lives.
    _lock: File,
}

/// What was found at start.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The state; empty if there was none.
    pub snapshot: Snapshot,
    /// What the operator has to know: damaged files and what became of them.
    pub warnings: Vec<String>,
}

/// A new state that is on disk but not yet in force. Dropped, it is gone.
#[derive(Debug)]
#[must_use = "a staged state is gone unless it is committed"]
pub struct Staged {
    directory: PathBuf,
    committed: bool,
}

impl StateDirectory {
    /// Opens the directory, makes it if it doesn't exist, and locks it.
    ///
    /// # Errors
    /// [`StateError`] if that isn't possible, or another quiverd has it.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(path)
            .map_err(|error| StateError::new("make the state directory", path, error))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o640)
            .open(&lock_path)
            .map_err(|error| StateError::new("open", &lock_path, error))?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StateError::InUse { path: path.to_owned() }),
            Err(error) => Err(StateError::new("lock", &lock_path, error.into())),
        }
    }

    /// Reads the state: the last one, or if that is damaged the one before. What is damaged is kept aside.
    ///
    /// # Errors
    /// [`StateError`] if the system refuses, or if a later version wrote the state.
    pub fn load(&self) -> Result<Loaded, StateError> {
        let mut loaded = Loaded::default();
        for name in [STATE, PREVIOUS] {
            let path = self.path.join(name);
            match read(&path) {
                Ok(Some(snapshot)) => {
                    if !loaded.warnings.is_empty() {
                        loaded.warnings.push(format!(
                            "the state of generation {} from {} is used instead; later changes are lost",
                            snapshot.generation,
                            path.display()
                        ));
                    }
                    loaded.snapshot = snapshot;
                    self.keep_unknown(&path, &mut loaded)?;
                    return Ok(loaded);
                }
                Ok(None) => {}
                Err(Damage::Newer(found)) => return Err(StateError::Newer { path, found, known: FORMAT }),
                Err(Damage::Io(error)) => return Err(StateError::new("read", &path, error)),
                Err(damage) => {
                    let aside = self.set_aside(&path, "corrupt")?;
                    loaded.warnings.push(format!(
                        "the state file {} is damaged: {damage}; it is kept as {}",
                        path.display(),
                        aside.display()
                    ));
                }
            }
        }
        if !loaded.warnings.is_empty() {
            loaded.warnings.push("there is no undamaged state: starting with an empty one".into());
        }
        Ok(loaded)
    }

    /// Writes a new state to disk beside the one in force.
    ///
    /// # Errors
    /// [`StateError`]; the state in force is untouched.
    pub fn stage(&self, model: &Model) -> Result<Staged, StateError> {
        let path = self.path.join(NEXT);
        // Dropped on failure, which removes what was written.
        let staged = Staged { directory: self.path.clone(), committed: false };
        let written = || -> io::Result<()> {
            let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&path)?;
            let mut out = BufWriter::with_capacity(1 << 18, file);
            format::write(model, &mut out)?;
            out.flush()?;
            out.get_ref().sync_all()
        };
        written().map_err(|error| StateError::new("write", &path, error))?;
        Ok(staged)
    }

    /// Lines this version doesn't know are lost with the next change: keep a copy of the file.
    fn keep_unknown(&self, path: &Path, loaded: &mut Loaded) -> Result<(), StateError> {
        let Some((number, reason)) = loaded.snapshot.unknown.first() else { return Ok(()) };
        let copy = self.free_name(path, "unknown");
        fs::hard_link(path, &copy).map_err(|error| StateError::new("keep a copy of", path, error))?;
        loaded.warnings.push(format!(
            "{} lines of {} say what this version doesn't know, the first is line {number}: {reason}; a copy is kept as {}",
            loaded.snapshot.unknown.len(),
            path.display(),
            copy.display()
        ));
        Ok(())
    }

    fn set_aside(&self, path: &Path, why: &str) -> Result<PathBuf, StateError> {
        let aside = self.free_name(path, why);
        fs::rename(path, &aside).map_err(|error| StateError::new("set aside", path, error))?;
        Ok(aside)
    }

    /// A name beside `path` that isn't taken: "state.jsonl.corrupt-1".
    fn free_name(&self, path: &Path, why: &str) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (1_u64..)
            .map(|number| self.path.join(format!("{name}.{why}-{number}")))
            .find(|candidate| !candidate.exists())
            .unwrap_or_else(|| self.path.join(format!("{name}.{why}")))
    }
}

impl Staged {
    /// Puts the new state in place of the old one, which is kept as the previous one.
    ///
    /// # Errors
    /// [`StateError`]; then the old state is still in place.
    pub fn commit(mut self) -> Result<(), StateError> {
        let path = |name: &str| self.directory.join(name);
        let (state, previous, next) = (path(STATE), path(PREVIOUS), path(NEXT));
        match fs::remove_file(&previous) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StateError::new("remove", &previous, error));
            }
            _ => {}
        }
        // A link, not a rename: at no moment is there no state file.
        match fs::hard_link(&state, &previous) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StateError::new("keep a copy of", &state, error));
            }
            _ => {}
        }
        fs::rename(&next, &state).map_err(|error| StateError::new("replace", &state, error))?;
        self.committed = true;
        // The names too have to be on disk before anybody is told.
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| {
            // The caller will take the change back, so the file has to say the same. If this fails too, the disk is
            // past helping, and the error says so already.
            let _ = fs::rename(&previous, &state);
            StateError::new("bring to disk", &self.directory, error)
        })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.committed {
            // It may not exist yet; and if it can't be removed, the next one replaces it.
            let _ = fs::remove_file(self.directory.join(NEXT));
        }
    }
}

/// `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Snapshot>, Damage> {
    match File::open(path) {
        Ok(file) => format::read(&mut BufReader::with_capacity(1 << 18, file)).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
