//! The directory with the state.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use super::format::{self, FORMAT};
use super::sessions::SESSIONS;
use super::{Damage, Snapshot, StateError, journal};
use crate::files;
use crate::model::{Model, Undo};

const STATE: &str = "state.jsonl";
const PREVIOUS: &str = "state.jsonl.previous";
const NEXT: &str = "state.jsonl.next";
const PREVIOUS_NEXT: &str = "state.jsonl.previous.next";
const LOCK: &str = "lock";
/// Up to here writing all of it takes milliseconds, and one file is easier to understand than two.
const SMALL: usize = 5_000;

/// The directory with the state, for this process alone.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    /// Generation of the state on disk that counts.
    generation: Option<u64>,
    /// The journal that follows it; `None`: what comes next has to be a whole state.
    journal: Option<Journal>,
    /// Held as long as this lives.
    _lock: File,
}

/// The journal of the state that counts.
#[derive(Debug, Clone, Copy, Default)]
struct Journal {
    bytes: u64,
    /// Entries, at least.
    objects: usize,
}

/// What was found at start.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The state; empty if there was none.
    pub snapshot: Snapshot,
    /// What the operator has to know: damaged files and what became of them.
    pub warnings: Vec<String>,
}

/// A change that is on disk but doesn't count yet. Dropped, it is gone.
#[derive(Debug)]
#[must_use = "a staged change is gone unless it is committed"]
pub struct Staged(Kind);

#[derive(Debug)]
enum Kind {
    /// A new state beside the old one.
    State { next: PathBuf, generation: u64 },
    /// A batch at the end of the journal, without its last line.
    Batch { file: File, path: PathBuf, before: u64, trailer: String, after: Journal },
    /// It counts.
    Done,
}

impl StateDirectory {
    /// Opens the directory, makes it if it doesn't exist, and locks it.
    ///
    /// # Errors
    /// [`StateError`] if that isn't possible, or another quiverd has it.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        if path.as_os_str().is_empty() {
            return Err(StateError::Empty);
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(path)
            .map_err(|error| StateError::new("make the state directory", path, error))?;
        let lock_path = path.join(LOCK);
        let lock = files::open_own_for_writing(&lock_path, MODE)
            .map_err(|error| StateError::new("open", &lock_path, error))?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), generation: None, journal: None, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StateError::InUse { path: path.to_owned() }),
            Err(error) => Err(StateError::new("lock", &lock_path, error.into())),
        }
    }

    /// Checks what [`StateDirectory::open`] and [`StateDirectory::load`] would need, and changes nothing. A directory
    /// in use is no error: it may be our own.
    ///
    /// # Errors
    /// [`StateError`] if quiverd couldn't start with it.
    pub fn check(path: &Path) -> Result<(), StateError> {
        if path.as_os_str().is_empty() {
            return Err(StateError::Empty);
        }
        files::check_directory(path)
            .map_err(|error| StateError::new("keep the state in the directory", path, error))?;
        let own = |path: &Path| files::check_own(path).map_err(|error| StateError::new("use", path, error));
        for name in [LOCK, STATE, PREVIOUS, SESSIONS] {
            own(&path.join(name))?;
        }
        for name in [STATE, PREVIOUS] {
            let path = path.join(name);
            let Ok(file) = files::open_own(&path) else { continue };
            match format::check(&mut BufReader::new(file)) {
                Err(Damage::Newer(found)) => return Err(StateError::Newer { path, found, known: FORMAT }),
                Err(Damage::Io(error)) => return Err(StateError::new("read", &path, error)),
                _ => {}
            }
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| is_journal(path)).try_for_each(|path| own(&path))
    }

    /// Reads the state: the last one, or if that is damaged the one before; and the journal that follows it. What is
    /// damaged is kept aside.
    ///
    /// # Errors
    /// [`StateError`] if the system refuses, or if a later version wrote the state.
    pub fn load(&mut self) -> Result<Loaded, StateError> {
        let mut loaded = Loaded::default();
        for name in [STATE, PREVIOUS] {
            let path = self.path.join(name);
            match read(&path) {
                Ok(Some(snapshot)) => {
                    loaded.snapshot = snapshot;
                    self.generation = Some(loaded.snapshot.generation);
                    self.journal = Some(self.replay(&mut loaded)?);
                    if name == PREVIOUS {
                        // Otherwise the next start would not know that it was used.
                        self.journal = None;
                        loaded.warnings.push(format!(
                            "the state of generation {} from {} is used instead; later changes are lost",
                            loaded.snapshot.generation,
                            path.display()
                        ));
                    }
                    let unknown = std::mem::take(&mut loaded.snapshot.unknown);
                    self.keep_unknown(&path, &unknown, &mut loaded.warnings)?;
                    loaded.snapshot.unknown = unknown;
                    return Ok(loaded);
                }
                Ok(None) => {}
                Err(Damage::Newer(found)) => return Err(StateError::Newer { path, found, known: FORMAT }),
                Err(Damage::Io(error)) => return Err(StateError::new("read", &path, error)),
                Err(damage) => self.set_aside(&path, &damage, &mut loaded)?,
            }
        }
        if !loaded.warnings.is_empty() {
            loaded.warnings.push("there is no undamaged state: starting with an empty one".into());
        }
        Ok(loaded)
    }

    /// Writes a change to disk, of which `undo` says what changed to become `model`.
    ///
    /// # Errors
    /// [`StateError`]; what counted before is untouched.
    pub fn stage(&mut self, model: &Model, undo: &Undo) -> Result<Staged, StateError> {
        let weight = model.weight();
        let small_change = |journal: &Journal| (journal.objects + undo.weight(model)) * 2 < weight;
        match (self.generation, self.journal) {
            (Some(generation), Some(journal)) if weight > SMALL && small_change(&journal) => {
                self.stage_batch(generation, journal, model, undo)
            }
            _ => self.stage_state(model),
        }
    }

    /// Makes a change count.
    ///
    /// # Errors
    /// [`StateError`]; then it doesn't, and what counted before does.
    pub fn commit(&mut self, mut staged: Staged) -> Result<(), StateError> {
        match &mut staged.0 {
            Kind::State { next, generation } => {
                // Of a history that was lost with a damaged state.
                remove(&self.journal_of(*generation))?;
                self.put_in_place(next)?;
                self.drop_journals();
                self.generation = Some(*generation);
                self.journal = Some(Journal::default());
            }
            Kind::Batch { file, path, trailer, after, .. } => {
                file.write_all(trailer.as_bytes())
                    .and_then(|()| file.sync_data())
                    .map_err(|error| StateError::new("write", path, error))?;
                self.journal = Some(*after);
            }
            Kind::Done => {}
        }
        staged.0 = Kind::Done;
        Ok(())
    }

    fn stage_state(&self, model: &Model) -> Result<Staged, StateError> {
        let next = self.path.join(NEXT);
        // Dropped on failure, which removes what was written.
        let staged = Staged(Kind::State { next: next.clone(), generation: model.generation });
        let written = || -> io::Result<()> {
            // Whatever is there is replaced, not written through.
            match fs::remove_file(&next) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = files::open_own_for_writing(&next, MODE)?;
            let mut out = BufWriter::with_capacity(1 << 18, file);
            format::write(model, &mut out)?;
            out.get_ref().sync_all()
        };
        written().map_err(|error| StateError::new("write", &next, error))?;
        Ok(staged)
    }

    fn stage_batch(
        &self,
        generation: u64,
        journal: Journal,
        model: &Model,
        undo: &Undo,
    ) -> Result<Staged, StateError> {
        let path = self.journal_of(generation);
        let error = |error| StateError::new("write", &path, error);
        let is_new = !path.exists();
        let mut file = files::open_own_for_writing(&path, MODE).map_err(error)?;
        let before = file.seek(SeekFrom::End(0)).map_err(error)?;
        if before != journal.bytes {
            // The end of a change that was taken back could not be cut off.
            return self.stage_state(model);
        }
        let after = Journal { bytes: before, objects: journal.objects + undo.weight(model) };
        let mut kind = Kind::Batch { file, path: path.clone(), before, trailer: String::new(), after };
        if let Kind::Batch { file, trailer, after, .. } = &mut kind {
            let mut out = BufWriter::new(file);
            let written = journal::write(model, undo, &mut out).and_then(|text| {
                out.flush()?;
                *trailer = text;
                after.bytes = out.get_ref().metadata()?.len() + trailer.len() as u64;
                out.get_ref().sync_data()
            });
            drop(out);
            if let Err(source) = written {
                drop(Staged(kind));
                return Err(error(source));
            }
        }
        if is_new {
            sync_directory(&self.path)?;
        }
        Ok(Staged(kind))
    }

    /// Replaces the state file, and keeps the one before.
    fn put_in_place(&self, next: &Path) -> Result<(), StateError> {
        let (state, previous) = (self.path.join(STATE), self.path.join(PREVIOUS));
        let copy = self.path.join(PREVIOUS_NEXT);
        remove(&copy)?;
        // At no moment is there no state, or no previous one.
        match fs::hard_link(&state, &copy).and_then(|()| fs::rename(&copy, &previous)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StateError::new("keep a copy of", &state, error));
            }
            _ => {}
        }
        fs::rename(next, &state).map_err(|error| StateError::new("replace", &state, error))?;
        // The names too have to be on disk before anybody is told.
        sync_directory(&self.path).inspect_err(|_| {
            // The caller will take the change back, so the file has to say the same. If this fails too, the disk is
            // past helping, and the error says so already.
            let _ = fs::rename(&previous, &state);
        })
    }

    /// Reads the journal that follows the state, and cuts off what doesn't count.
    fn replay(&self, loaded: &mut Loaded) -> Result<Journal, StateError> {
        let path = self.journal_of(loaded.snapshot.generation);
        let file = match files::open_own(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Journal::default()),
            Err(error) => return Err(StateError::new("read", &path, error)),
        };
        let length = file.metadata().map_err(|error| StateError::new("read", &path, error))?.len();
        let journal = journal::read(loaded.snapshot.generation, &mut BufReader::with_capacity(1 << 18, file))
            .map_err(|error| StateError::new("read", &path, error))?;
        if let Some(damage) = &journal.damage {
            let aside = self.free_name(&path, "corrupt");
            fs::hard_link(&path, &aside)
                .and_then(|()| self.cut_copy(&path, journal.good))
                .map_err(|error| StateError::new("keep a copy of", &path, error))?;
            loaded.warnings.push(format!(
                "the journal {} is damaged: {damage}; a copy is kept as {}; changes after generation {} are lost",
                path.display(),
                aside.display(),
                journal.generation
            ));
        } else if journal.good < length {
            loaded.warnings.push(format!(
                "the journal {} ends in an incomplete change, which is dropped: it was not confirmed to anybody, unless \
                 the disk lost its end",
                path.display()
            ));
        }
        if journal.damage.is_none() && journal.good < length {
            files::open_own_for_writing(&path, MODE)
                .and_then(|file| file.set_len(journal.good))
                .map_err(|error| StateError::new("cut off the end of", &path, error))?;
        }
        self.keep_unknown(&path, &journal.unknown, &mut loaded.warnings)?;
        let found = Journal { bytes: journal.good, objects: journal.changes() };
        journal.replay(&mut loaded.snapshot);
        Ok(found)
    }

    /// Puts a copy of a file's beginning in its place. What follows isn't copied: it may be huge.
    fn cut_copy(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let next = self.path.join(NEXT);
        drop(fs::remove_file(&next));
        let mut copy = files::open_own_for_writing(&next, MODE)?;
        io::copy(&mut files::open_own(path)?.take(bytes), &mut copy)?;
        copy.sync_all()?;
        fs::rename(&next, path)
    }

    /// Lines this version doesn't know are lost with the next state: keep the file beside it. Of a journal, what is appended until then
    /// comes along, and takes nothing away.
    fn keep_unknown(
        &self,
        path: &Path,
        unknown: &[(usize, String)],
        warnings: &mut Vec<String>,
    ) -> Result<(), StateError> {
        let Some((number, reason)) = unknown.first() else { return Ok(()) };
        let error = |error| StateError::new("keep a copy of", path, error);
        let kept = self.link_aside(path, "unknown").map_err(error)?;
        warnings.push(format!(
            "{} lines of {} say what this version doesn't know, the first is line {number}: {reason}; a copy is kept as {}",
            unknown.len(),
            path.display(),
            kept.display()
        ));
        Ok(())
    }

    /// Keeps the state and its journal, as they are, beside them under names with `why`; gives these.
    ///
    /// # Errors
    /// [`StateError`] if the system refuses.
    pub fn keep(&self, why: &str) -> Result<Vec<PathBuf>, StateError> {
        let journal = self.generation.map(|generation| self.journal_of(generation));
        let files = [Some(self.path.join(STATE)), journal].into_iter().flatten().filter(|path| path.exists());
        let keep = |path: PathBuf| {
            self.link_aside(&path, why).map_err(|error| StateError::new("keep a copy of", &path, error))
        };
        files.map(keep).collect()
    }

    /// Gives a file another name beside its own, unless it has one from an earlier start.
    fn link_aside(&self, path: &Path, why: &str) -> io::Result<PathBuf> {
        let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
        let own = id(path)?;
        for name in self.names_aside(path, why) {
            match id(&name) {
                Ok(other) if other == own => return Ok(name),
                Ok(_) => {}
                Err(_) => return fs::hard_link(path, &name).map(|()| name),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn set_aside(&self, path: &Path, damage: &Damage, loaded: &mut Loaded) -> Result<(), StateError> {
        let aside = self.free_name(path, "corrupt");
        fs::rename(path, &aside).map_err(|error| StateError::new("set aside", path, error))?;
        loaded.warnings.push(format!(
            "the state file {} is damaged: {damage}; it is kept as {}",
            path.display(),
            aside.display()
        ));
        Ok(())
    }

    /// Names beside `path`: "state.jsonl.corrupt-1" and so on.
    fn names_aside(&self, path: &Path, why: &str) -> impl Iterator<Item = PathBuf> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (1_u64..).map(move |number| self.path.join(format!("{name}.{why}-{number}")))
    }

    /// The first of them that isn't taken.
    fn free_name(&self, path: &Path, why: &str) -> PathBuf {
        let name = self.names_aside(path, why).find(|candidate| !candidate.exists());
        name.unwrap_or_else(|| self.path.join(why))
    }

    /// The journal that follows the state of `generation`.
    fn journal_of(&self, generation: u64) -> PathBuf {
        self.path.join(format!("journal-{generation}.jsonl"))
    }

    /// Removes all journals but that of the state that was just replaced.
    fn drop_journals(&self) {
        let kept = self.generation.map(|generation| self.journal_of(generation));
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if is_journal(&path) && kept.as_ref() != Some(&path) {
                // One that stays is read by nobody.
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        match &self.0 {
            // It may not exist yet; and if it can't be removed, the next one replaces it.
            Kind::State { next, .. } => drop(fs::remove_file(next)),
            Kind::Batch { file, path, before, .. } => {
                if let Err(error) = file.set_len(*before) {
                    tracing::error!(path = %path.display(), %error, "can't cut off a change that was taken back");
                }
            }
            Kind::Done => {}
        }
    }
}

/// Permissions of the files.
const MODE: Mode = Mode::from_raw_mode(0o640);

fn is_journal(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("journal-") && name.ends_with(".jsonl")
}

/// `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Snapshot>, Damage> {
    match files::open_own(path) {
        Ok(file) => format::read(&mut BufReader::with_capacity(1 << 18, file)).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn remove(path: &Path) -> Result<(), StateError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StateError::new("remove", path, error)),
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> Result<(), StateError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| StateError::new("bring to disk", path, error))
}
