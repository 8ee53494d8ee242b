//! The unix socket of the API.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::settings::Api;

/// The socket can't be served.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
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
    #[error("api.socket_group names the group {group:?}, which doesn't exist (see /etc/group)")]
    NoGroup {
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

/// A bound socket; its file goes when this is dropped.
#[derive(Debug)]
pub struct ApiSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl ApiSocket {
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

impl Drop for ApiSocket {
    fn drop(&mut self) {
        // It may be gone with its directory.
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds the socket. What a predecessor left behind is replaced; a live one isn't.
///
/// # Errors
/// [`SocketError`].
pub fn bind(settings: &Api) -> Result<ApiSocket, SocketError> {
    let path = &settings.socket;
    check_free(path)?;
    if let Some(parent) = path.parent() {
        make_directory(parent).map_err(|error| system("make the directory of", path, error))?;
    }
    // Bound under another name and renamed when its permissions are right: at no moment may anybody connect who
    // shouldn't, and the file of a predecessor goes in the same step.
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).map_err(|error| system("bind", path, error))?;
    let prepared = prepare(&fresh, path, settings).and_then(|()| {
        listener.set_nonblocking(true).map_err(|error| system("listen on", path, error))?;
        fs::rename(&fresh, path).map_err(|error| system("put in place", path, error))
    });
    if let Err(error) = prepared {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(ApiSocket { path: path.clone(), listener: Some(listener) })
}

/// Mode of a directory that is made for the socket. The socket's own mode says who may use it: whom that lets in must get
/// there, and nobody but us may put another socket in its place.
const DIRECTORY_MODE: u32 = 0o755;

/// Makes the socket's directory where it is missing; one that is there stays as it is.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
    // Whatever the umask.
    fs::set_permissions(path, fs::Permissions::from_mode(DIRECTORY_MODE))
}

fn prepare(fresh: &Path, path: &Path, settings: &Api) -> Result<(), SocketError> {
    fs::set_permissions(fresh, fs::Permissions::from_mode(settings.socket_mode.0))
        .map_err(|error| system("set the mode of", path, error))?;
    if let Some(group) = &settings.socket_group {
        let id = group_id(group).ok_or_else(|| SocketError::NoGroup { group: group.clone() })?;
        std::os::unix::fs::chown(fresh, None, Some(id))
            .map_err(|error| system("set the group of", path, error))?;
    }
    Ok(())
}

/// Nothing is there, or the socket of a process that is gone.
///
/// # Errors
/// [`SocketError`] if it is a live one, or none.
pub fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at", path, error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "replacing the socket of a process that is gone");
            Ok(())
        }
        Err(error) => Err(system("look at", path, error)),
        Ok(_) => Err(SocketError::InUse { path: path.to_owned() }),
    }
}

/// The number of a group in /etc/group: "name:password:number:members".
fn group_id(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
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
    use super::*;
    use crate::settings::SocketMode;

    fn settings(path: PathBuf) -> Api {
        Api { socket: path, socket_mode: SocketMode(0o640), socket_group: None }
    }

    #[test]
    fn it_has_its_mode_and_goes_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path().join("run/quiver.sock"));
        let socket = bind(&settings).unwrap();
        let mode = fs::metadata(&settings.socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let mode = fs::metadata(directory.path().join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "who may use the socket gets there");
        UnixStream::connect(&settings.socket).unwrap();
        drop(socket);
        assert_eq!(fs::read_dir(settings.socket.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_process_left_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path().join("quiver.sock"));
        drop(UnixListener::bind(&settings.socket).unwrap());
        assert!(settings.socket.exists());
        let _socket = bind(&settings).unwrap();
        UnixStream::connect(&settings.socket).unwrap();
    }

    #[test]
    fn what_is_alive_or_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path().join("quiver.sock"));
        let first = bind(&settings).unwrap();
        assert!(matches!(bind(&settings), Err(SocketError::InUse { .. })));
        UnixStream::connect(&settings.socket).unwrap();
        drop(first);
        fs::write(&settings.socket, "precious").unwrap();
        assert!(matches!(bind(&settings), Err(SocketError::NoSocket { .. })));
        assert_eq!(fs::read_to_string(&settings.socket).unwrap(), "precious");
    }

    #[test]
    fn a_group_that_does_not_exist_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(directory.path().join("quiver.sock"));
        settings.socket_group = Some("no-such-group".into());
        let error = bind(&settings).unwrap_err();
        assert!(error.to_string().contains("no-such-group"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
        assert_eq!(group_id("root"), Some(0));
    }
}
