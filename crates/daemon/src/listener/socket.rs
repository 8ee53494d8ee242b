//! Unix socket files: creation, permissions, removal.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A socket can't be served.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// There is no path.
    #[error("{setting} is empty: name a path, such as \"{example}\"")]
    Empty {
        /// The setting.
        setting: &'static str,
        /// A path that works.
        example: &'static str,
    },
    /// The kernel takes no such path.
    #[error(
        "{setting} {path}: the path has {bytes} bytes: take a path of at most {MAX_PATH} bytes, more the kernel doesn't take for a socket",
        path = .path.display()
    )]
    TooLong {
        /// The setting.
        setting: &'static str,
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The path names no file.
    #[error("{setting} {path}: that is no name of a file: name a path, such as \"{example}\"", path = .path.display())]
    NoName {
        /// The setting.
        setting: &'static str,
        /// The path.
        path: PathBuf,
        /// A path that works.
        example: &'static str,
    },
    /// Somebody listens there.
    #[error("another process already serves {path}; stop it, or take another path", path = .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// It is no socket, so it isn't ours to replace.
    #[error("{path} exists and is no socket; remove it, or take another path", path = .path.display())]
    NoSocket {
        /// What is there.
        path: PathBuf,
    },
    /// There is no such group.
    #[error("{setting} names the group {group:?}, which doesn't exist (see /etc/group)")]
    NoGroup {
        /// The setting.
        setting: &'static str,
        /// The name.
        group: String,
    },
    /// The system refused.
    #[error("can't {action} {path}: {source}", path = .path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Longest path of a socket: `sun_path` of unix(7) without its final zero.
pub const MAX_PATH: usize = 107;

/// A socket as the settings describe it.
#[derive(Debug, Clone, Copy)]
pub struct SocketSettings<'a> {
    /// Name of the setting with the path.
    pub setting: &'static str,
    /// The path.
    pub path: &'a Path,
    /// Permissions; `None`: what the umask leaves.
    pub mode: Option<u32>,
    /// Group, by name, and the setting that names it; `None`: that of the process.
    pub group: Option<(&'static str, &'a str)>,
}

/// A bound socket; its file goes when this is dropped.
#[derive(Debug)]
pub struct BoundSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl BoundSocket {
    /// The listener, non-blocking; it can be taken once.
    ///
    /// # Errors
    /// If it was taken, or the system has no descriptor left.
    pub fn listener(&mut self) -> io::Result<tokio::net::UnixListener> {
        let listener =
            self.listener.take().ok_or_else(|| io::Error::other("the listener was already taken"))?;
        tokio::net::UnixListener::from_std(listener)
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // It may be gone with its directory.
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks what [`bind`] would need, and changes nothing. A socket that is served is no error: it may be our own.
///
/// # Errors
/// [`SocketError`] if [`bind`] couldn't succeed.
pub fn check(settings: &SocketSettings<'_>) -> Result<(), SocketError> {
    check_path(settings)?;
    group(settings)?;
    match check_free(settings.path) {
        Ok(()) | Err(SocketError::InUse { .. }) => {}
        Err(error) => return Err(error),
    }
    let directory = parent(settings.path);
    crate::files::check_directory(directory)
        .map_err(|error| system("make a socket in the directory of", settings.path, error))
}

/// Binds the socket. What a predecessor left behind is replaced; a live one isn't.
///
/// # Errors
/// [`SocketError`].
pub fn bind(settings: &SocketSettings<'_>) -> Result<BoundSocket, SocketError> {
    let path = settings.path;
    check_path(settings)?;
    let group = group(settings)?;
    check_free(path)?;
    make_directory(parent(path)).map_err(|error| system("make the directory of", path, error))?;
    let directory =
        open_directory(parent(path)).map_err(|error| system("open the directory of", path, error))?;
    // Bound under another name and renamed when its permissions are right: at no moment may anybody connect who
    // shouldn't, and the file of a predecessor goes in the same step. By the directory's descriptor, so that the other
    // name is never too long.
    let fresh =
        PathBuf::from(format!("/proc/self/fd/{}/.quiver-{}", directory.as_raw_fd(), std::process::id()));
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).map_err(|error| system("bind", path, error))?;
    let prepared = prepare(&fresh, settings, group).and_then(|()| {
        listener.set_nonblocking(true).map_err(|error| system("listen on", path, error))?;
        fs::rename(&fresh, path).map_err(|error| system("put in place", path, error))
    });
    if let Err(error) = prepared {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(BoundSocket { path: path.to_owned(), listener: Some(listener) })
}

/// Mode of a directory that is made for the socket. The socket's own mode says who may use it: whom that lets in must get
/// there, and nobody but us may put another socket in its place.
const DIRECTORY_MODE: u32 = 0o755;

/// An example for messages.
const EXAMPLE: &str = "/run/quiver/quiver.sock";

fn check_path(settings: &SocketSettings<'_>) -> Result<(), SocketError> {
    let (setting, path) = (settings.setting, settings.path);
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(SocketError::Empty { setting, example: EXAMPLE });
    }
    if path.file_name().is_none() || bytes.ends_with(b"/") || bytes.contains(&0) {
        return Err(SocketError::NoName { setting, path: path.to_owned(), example: EXAMPLE });
    }
    if bytes.len() > MAX_PATH {
        return Err(SocketError::TooLong { setting, path: path.to_owned(), bytes: bytes.len() });
    }
    Ok(())
}

/// The socket's directory.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Makes the socket's directory where it is missing; one that is there stays as it is.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
    // Whatever the umask.
    fs::set_permissions(path, fs::Permissions::from_mode(DIRECTORY_MODE))
}

fn prepare(fresh: &Path, settings: &SocketSettings<'_>, group: Option<u32>) -> Result<(), SocketError> {
    if let Some(mode) = settings.mode {
        fs::set_permissions(fresh, fs::Permissions::from_mode(mode))
            .map_err(|error| system("set the mode of", settings.path, error))?;
    }
    if group.is_some() {
        std::os::unix::fs::chown(fresh, None, group)
            .map_err(|error| system("set the group of", settings.path, error))?;
    }
    Ok(())
}

/// Nothing is there, or the socket of a process that is gone.
fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at", path, error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match connect(path) {
        Err(Errno::CONNREFUSED) => Ok(()),
        // It is there, and its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::InUse { path: path.to_owned() }),
        Err(error) => Err(system("look at", path, error.into())),
    }
}

/// Connects without waiting.
fn connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn group(settings: &SocketSettings<'_>) -> Result<Option<u32>, SocketError> {
    let Some((setting, group)) = settings.group else { return Ok(None) };
    group_id(group).map(Some).ok_or_else(|| SocketError::NoGroup { setting, group: group.to_owned() })
}

/// The number of a group in /etc/group: "name:password:number:members".
fn group_id(name: &str) -> Option<u32> {
    let groups = crate::files::read_text(Path::new("/etc/group")).ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        fields.nth(1)?.parse().ok()
    })
}

fn system(action: &'static str, path: &Path, source: io::Error) -> SocketError {
    SocketError::System { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn settings(path: &Path) -> SocketSettings<'_> {
        SocketSettings { setting: "api.socket", path, mode: Some(0o640), group: None }
    }

    #[test]
    fn it_has_its_mode_and_goes_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/quiver.sock");
        let settings = settings(&path);
        let socket = bind(&settings).unwrap();
        let mode = fs::metadata(settings.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let mode = fs::metadata(directory.path().join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "who may use the socket gets there");
        UnixStream::connect(settings.path).unwrap();
        drop(socket);
        assert_eq!(fs::read_dir(settings.path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_process_left_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quiver.sock");
        let settings = settings(&path);
        drop(UnixListener::bind(settings.path).unwrap());
        assert!(settings.path.exists());
        let _socket = bind(&settings).unwrap();
        UnixStream::connect(settings.path).unwrap();
    }

    #[test]
    fn what_is_alive_or_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quiver.sock");
        let settings = settings(&path);
        let first = bind(&settings).unwrap();
        assert!(matches!(bind(&settings), Err(SocketError::InUse { .. })));
        UnixStream::connect(settings.path).unwrap();
        drop(first);
        fs::write(settings.path, "precious").unwrap();
        assert!(matches!(bind(&settings), Err(SocketError::NoSocket { .. })));
        assert_eq!(fs::read_to_string(settings.path).unwrap(), "precious");
    }

    #[test]
    fn a_group_that_does_not_exist_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quiver.sock");
        let settings =
            SocketSettings { group: Some(("api.socket_group", "no-such-group")), ..settings(&path) };
        for error in [bind(&settings).unwrap_err(), check(&settings).unwrap_err()] {
            assert!(
                error.to_string().contains("api.socket_group names the group \"no-such-group\""),
                "{error}"
            );
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
        assert_eq!(group_id("root"), Some(0));
    }

    #[test]
    fn a_path_may_be_as_long_as_the_kernel_takes_it() {
        let directory = tempfile::tempdir().unwrap();
        let room = MAX_PATH - directory.path().as_os_str().len() - 1;
        let [fits, long] = [room, room + 1].map(|length| directory.path().join("s".repeat(length)));
        check(&settings(&fits)).unwrap();
        let _socket = bind(&settings(&fits)).unwrap();
        UnixStream::connect(&fits).unwrap();
        assert_eq!(fs::metadata(&fits).unwrap().permissions().mode() & 0o777, 0o640);
        for error in [bind(&settings(&long)).unwrap_err(), check(&settings(&long)).unwrap_err()] {
            assert!(error.to_string().contains("108 bytes"), "{error}");
        }
    }

    #[test]
    fn check_and_bind_refuse_the_same_paths() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "precious").unwrap();
        std::os::unix::fs::symlink("elsewhere", directory.path().join("link")).unwrap();
        let under = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        for path in [
            String::new(),
            "/".into(),
            "..".into(),
            under("slash/"),
            under("zero\0"),
            under("file"),
            under("file/quiver.sock"),
            under("link"),
            "/proc/quiver.sock".into(),
        ] {
            let settings = settings(Path::new(&path));
            assert!(check(&settings).is_err(), "{path:?}");
            assert!(bind(&settings).is_err(), "{path:?}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_served_is_no_error_of_a_check() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quiver.sock");
        let _socket = bind(&settings(&path)).unwrap();
        check(&settings(&path)).unwrap();
        // Nor is it waited for where its queue is full.
        let clients = (0..5000).map_while(|_| match connect(&path) {
            Err(Errno::AGAIN) => None,
            _ => Some(()),
        });
        clients.count();
        check(&settings(&path)).unwrap();
    }
}
