//! Files that quiverd reads and writes: regular files only, and of bounded size.
//!
//! Opening a FIFO waits for its other end, reading `/dev/zero` never ends, and opening some devices has effects. So
//! each file is looked at by a descriptor that only names it (`O_PATH`) before it is opened by that descriptor.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Largest file of settings, or of the system, that is read as a whole.
const MAX_TEXT: u64 = 16 << 20;

/// Largest state file. A million routes take some 100 MB.
const MAX_STATE: u64 = 64 << 30;

/// Why a file isn't used. The message follows the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileFlaw {
    /// It isn't a regular file.
    #[error("it is {0}, not a regular file: remove it, or put a regular file in its place")]
    NotRegular(&'static str),
    /// It belongs to another user.
    #[error(
        "it belongs to user {owner}, and quiverd runs as user {own}: change its owner (chown), or remove it"
    )]
    NotOurs {
        /// Its owner.
        owner: u32,
        /// The user of this process.
        own: u32,
    },
    /// It is larger than any file that makes sense.
    #[error("it has {bytes} bytes, more than the limit of {limit}: remove it")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// It isn't a directory.
    #[error("it is {0}, not a directory: take another path")]
    NotDirectory(&'static str),
}

impl From<FileFlaw> for io::Error {
    fn from(flaw: FileFlaw) -> Self {
        Self::new(io::ErrorKind::InvalidInput, flaw)
    }
}

/// Reads a text file of the settings or of the system; symbolic links are followed.
///
/// # Errors
/// What the system says, or a [`FileFlaw`]; `InvalidData` for what isn't UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let file = reopen(&regular(path, OFlags::empty(), MAX_TEXT)?, OFlags::RDONLY)?;
    let mut text = String::new();
    // Files of the kernel have no size.
    let bytes = file.take(MAX_TEXT + 1).read_to_string(&mut text)? as u64;
    if bytes > MAX_TEXT {
        return Err(FileFlaw::TooLarge { bytes, limit: MAX_TEXT }.into());
    }
    Ok(text)
}

/// Opens a file of quiverd's state to read it: a regular file of this process's user, and no symbolic link.
///
/// # Errors
/// What the system says, or a [`FileFlaw`].
pub fn open_own(path: &Path) -> io::Result<File> {
    reopen(&own(path)?, OFlags::RDONLY)
}

/// Opens a file of quiverd's state to write it; it is created where there is none.
///
/// # Errors
/// As [`open_own`].
pub fn open_own_for_writing(path: &Path, mode: Mode) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, mode) {
        Ok(file) => Ok(file.into()),
        Err(Errno::EXIST) => reopen(&own(path)?, OFlags::WRONLY),
        Err(error) => Err(error.into()),
    }
}

/// Checks that a file of quiverd's state, where it exists, is one that [`open_own`] opens.
///
/// # Errors
/// As [`open_own`].
pub fn check_own(path: &Path) -> io::Result<()> {
    match open_own(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Checks that files can be created in a directory, which needn't exist where it can be created.
///
/// # Errors
/// What the system says, or a [`FileFlaw`].
pub fn check_directory(path: &Path) -> io::Result<()> {
    let mut at = path;
    let found = loop {
        match fs::metadata(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match at.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => at = parent,
                Some(_) => at = Path::new("."),
                None => return Err(error),
            },
            other => break other?,
        }
    };
    if !found.is_dir() {
        return Err(FileFlaw::NotDirectory(name(FileType::from_raw_mode(found.mode()))).into());
    }
    rustix::fs::access(at, Access::WRITE_OK | Access::EXEC_OK)?;
    // Only creating one shows whether the file system takes any.
    let probe = at.join(format!(".quiverd-check-{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(&probe, flags, Mode::RUSR)?;
    fs::remove_file(&probe)
}

fn own(path: &Path) -> io::Result<OwnedFd> {
    let file = regular(path, OFlags::NOFOLLOW, MAX_STATE)?;
    let (owner, own) = (rustix::fs::fstat(&file)?.st_uid, rustix::process::geteuid().as_raw());
    if owner == own { Ok(file) } else { Err(FileFlaw::NotOurs { owner, own }.into()) }
}

/// A descriptor that names a regular file.
fn regular(path: &Path, follow: OFlags, limit: u64) -> io::Result<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        other => return Err(FileFlaw::NotRegular(name(other)).into()),
    }
    let bytes = u64::try_from(found.st_size).unwrap_or_default();
    if bytes > limit { Err(FileFlaw::TooLarge { bytes, limit }.into()) } else { Ok(file) }
}

/// Opens what a descriptor names: the same file, whatever has become of its name.
fn reopen(file: impl AsFd, flags: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::open(path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?
        .into())
}

fn name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn flaw(error: &io::Error) -> Option<FileFlaw> {
        error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
    }

    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink("file", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, found) in [
            ("directory", "a directory"),
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
            ("link", "a symbolic link"),
        ] {
            for error in [
                open_own(&at(name)).unwrap_err(),
                open_own_for_writing(&at(name), Mode::RUSR).unwrap_err(),
                check_own(&at(name)).unwrap_err(),
            ] {
                assert_eq!(flaw(&error), Some(FileFlaw::NotRegular(found)), "{name}: {error}");
            }
        }
        for (path, found) in [("/dev/zero", "a character device"), ("/proc", "a directory")] {
            assert_eq!(flaw(&open_own(Path::new(path)).unwrap_err()), Some(FileFlaw::NotRegular(found)));
            assert_eq!(flaw(&read_text(Path::new(path)).unwrap_err()), Some(FileFlaw::NotRegular(found)));
        }
        assert_eq!(flaw(&read_text(&at("fifo")).unwrap_err()), Some(FileFlaw::NotRegular("a FIFO")));
        // Settings may be behind a link: volumes of Kubernetes are.
        assert_eq!(read_text(&at("link")).unwrap(), "text");
        assert_eq!(open_own(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        check_own(&at("none")).unwrap();
    }

    #[test]
    fn own_files_are_written_and_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        for text in ["some", "more"] {
            open_own_for_writing(&path, Mode::RUSR | Mode::WUSR).unwrap().write_all(text.as_bytes()).unwrap();
        }
        let mut text = String::new();
        open_own(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "more");
    }

    #[test]
    fn files_without_end_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        File::create(&path).unwrap().set_len(MAX_TEXT + 1).unwrap();
        let error = read_text(&path).unwrap_err();
        assert_eq!(flaw(&error), Some(FileFlaw::TooLarge { bytes: MAX_TEXT + 1, limit: MAX_TEXT }));
        open_own(&path).unwrap();
    }

    #[test]
    fn directories_are_checked_without_a_trace() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        check_directory(directory.path()).unwrap();
        check_directory(&directory.path().join("a/b/c")).unwrap();
        check_directory(Path::new("relative")).unwrap();
        assert!(check_directory(&directory.path().join("file/a")).is_err());
        let error = check_directory(&directory.path().join("file")).unwrap_err();
        assert_eq!(flaw(&error), Some(FileFlaw::NotDirectory("a regular file")));
        assert!(check_directory(Path::new("/proc")).is_err(), "no file can be made there");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
