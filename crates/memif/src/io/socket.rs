//! Opening control sockets: in other network namespaces, at paths longer than a socket address, over stale
//! files.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmod, chownat, fchmod, fstat, lstat, open, stat, unlink,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::foreign::Closing;
use super::line::Line;
use super::{Address, ListenerSettings, SocketName};
use crate::Error;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// A listening socket; its file goes away with it.
#[derive(Debug)]
pub(super) struct Bound {
    pub fd: OwnedFd,
    file: Option<SocketFile>,
}

/// The file that a socket was bound to: itself, whatever somebody who may write to the directory puts in its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// `O_PATH`: nothing but a name for it.
    file: OwnedFd,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// The file that was made just now at `path`: a socket, ours, and without another name.
    fn just_made(path: &Path) -> Result<Self, Errno> {
        let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&file)?;
        let ours = (stat.st_uid, stat.st_nlink) == (geteuid().as_raw(), 1);
        if !ours || FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Err(Errno::STALE);
        }
        Ok(Self { path: path.to_owned(), file, identity: (stat.st_dev, stat.st_ino) })
    }

    /// Whether it is still where it was made.
    fn is_in_place(&self) -> bool {
        lstat(&self.path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity)
    }
}

impl Bound {
    /// Gives the file, if there is one, another mode and owner. Nothing that somebody put in its place is touched.
    pub fn set_file(&self, mode: u32, owner: Option<u32>, group: Option<u32>) -> Result<(), Error> {
        let Some(SocketFile { path, file, .. }) = &self.file else { return Ok(()) };
        let failed = |step| move |errno| Error::Socket { address: path.display().to_string(), step, errno };
        let owner = owner.map_or_else(geteuid, Uid::from_raw);
        let group = group.map_or_else(getegid, Gid::from_raw);
        chownat(file, "", Some(owner), Some(group), AtFlags::EMPTY_PATH).map_err(failed("chown"))?;
        // There is no such call for the mode before Linux 6.6.
        let file = format!("/proc/self/fd/{}", file.as_raw_fd());
        chmod(file, Mode::from_raw_mode(mode)).map_err(failed("chmod"))
    }

    /// # Errors
    /// [`Error::Socket`] if the file isn't there any more, or something else is in its place.
    pub fn check_file(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) if !file.is_in_place() => Err(Error::Socket {
                address: file.path.display().to_string(),
                step: "find the socket's file",
                errno: Errno::STALE,
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Only if it is still ours: a successor may have taken the path.
        if let Some(file) = &self.file
            && file.is_in_place()
        {
            let _ = unlink(&file.path);
        }
    }
}

fn failed<'a>(address: &'a Address, step: &'static str) -> impl FnOnce(Errno) -> Error + 'a {
    move |errno| Error::Socket { address: address.to_string(), step, errno }
}

/// Listens at an address; a file gets mode and owner of the settings, whatever the umask.
pub(super) fn listen_at(address: &Address, settings: &ListenerSettings) -> Result<Bound, Error> {
    let mode = settings.mode;
    let fd = open_socket(address)?;
    let file = match address.name() {
        SocketName::Abstract(_) => {
            bind_to(&fd, address).map_err(|errno| match errno {
                Errno::ADDRINUSE => Error::InUse { address: address.to_string() },
                errno => failed(address, "bind")(errno),
            })?;
            None
        }
        SocketName::Path(path) => {
            remove_stale(address, path)?;
            // A socket file is born with the mode of its socket, less the umask: never more open than asked
            // for.
            fchmod(&fd, Mode::from_raw_mode(mode)).map_err(failed(address, "fchmod"))?;
            bind_to(&fd, address).map_err(|errno| match errno {
                Errno::NOENT => Error::NoDirectory { path: path.clone() },
                Errno::ADDRINUSE => Error::InUse { address: address.to_string() },
                errno => failed(address, "bind")(errno),
            })?;
            Some(SocketFile::just_made(path).map_err(failed(address, "find the socket's file"))?)
        }
    };
    // Owned from here on, so that an error removes the file.
    let bound = Bound { fd, file };
    bound.set_file(mode, settings.owner, settings.group)?;
    listen(&bound.fd, BACKLOG).map_err(failed(address, "listen"))?;
    Ok(bound)
}

/// Connects to an address, without waiting.
pub(super) fn connect_to(address: &Address) -> Result<OwnedFd, Error> {
    let fd = open_socket(address)?;
    let connected = with_address(address, |sockaddr| connect(&fd, sockaddr));
    connected.map_err(|errno| match (errno, address.name()) {
        (Errno::ACCESS, SocketName::Path(path)) => Error::Denied { path: path.clone() },
        (errno, _) => failed(address, "connect")(errno),
    })?;
    Ok(fd)
}

/// Removes a socket file that nobody listens at.
fn remove_stale(address: &Address, path: &Path) -> Result<(), Error> {
    let Ok(stat) = lstat(path) else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(Error::NotASocket { path: path.to_owned() });
    }
    match connect_to(address) {
        Err(Error::Socket { errno: Errno::CONNREFUSED, .. }) => {
            unlink(path).map_err(failed(address, "unlink"))
        }
        // Nobody can tell whether somebody listens.
        Err(denied @ Error::Denied { .. }) => Err(denied),
        // Somebody listens, be it by another protocol (PROTOTYPE) or with a full backlog (AGAIN).
        listens => {
            // It may have said something already, with descriptors whose close hangs.
            drop(listens.map(|fd| Line::new(fd, &Closing::default())));
            Err(Error::InUse { address: address.to_string() })
        }
    }
}

fn bind_to(fd: &OwnedFd, address: &Address) -> Result<(), Errno> {
    with_address(address, |sockaddr| bind(fd, sockaddr))
}

/// Uses the socket address of an address.
fn with_address(
    address: &Address,
    act: impl FnOnce(&SocketAddrUnix) -> Result<(), Errno>,
) -> Result<(), Errno> {
    match address.name() {
        SocketName::Abstract(name) => act(&SocketAddrUnix::new_abstract_name(name.as_bytes())?),
        SocketName::Path(path) => match SocketAddrUnix::new(path) {
            Ok(sockaddr) => act(&sockaddr),
            // A socket address holds 108 bytes, paths of Kubernetes volumes are longer: go through the
            // directory's descriptor.
            Err(Errno::NAMETOOLONG) => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let directory = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
                let name = path.file_name().ok_or(Errno::INVAL)?;
                let mut short = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
                short.extend_from_slice(name.as_bytes());
                act(&SocketAddrUnix::new(short)?)
            }
            Err(errno) => Err(errno),
        },
    }
}

/// The network namespace, as device and inode of its file, that a socket at this address can be reached from alone; `None` where that is ours, or
/// where the socket is a file, which may be mounted anywhere.
pub(super) fn pod(address: &Address) -> Option<(u64, u64)> {
    let of = |path: &Path| stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let SocketName::Abstract(_) = address.name() else { return None };
    let its = of(Path::new(address.netns()?))?;
    (of(Path::new("/proc/self/ns/net"))? != its).then_some(its)
}

/// A non-blocking seqpacket socket in the address's network namespace.
fn open_socket(address: &Address) -> Result<OwnedFd, Error> {
    let open_here = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
    };
    let Some(netns) = address.netns() else {
        return open_here().map_err(failed(address, "socket"));
    };
    // A socket stays in the network namespace of the thread that made it, and abstract names are looked up
    // there. So a thread that ends right afterwards goes there; ours stays where it is.
    let in_namespace = || {
        // Without waiting for who would write to it, should it be a pipe.
        let file = open(netns, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        open_here()
    };
    let opened = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("memif-netns".into()).spawn_scoped(scope, in_namespace);
        match thread {
            Ok(thread) => thread.join().unwrap_or(Err(Errno::IO)),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
        }
    });
    opened.map_err(|errno| Error::Netns { path: netns.to_owned(), errno })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_reaches_an_abstract_socket_is_in_its_namespace() {
        let named = |netns: &str| pod(&Address::abstract_name("x").in_netns(netns));
        assert_eq!(pod(&Address::abstract_name("x")), None);
        assert_eq!(named("/proc/self/ns/net"), None, "everybody here does");
        assert_eq!(named("/no/such/namespace"), None);
        if !geteuid().is_root() {
            eprintln!("SKIPPED: not root, so no network namespace can be made");
            return;
        }
        let mut other = Command::new("unshare").args(["--net", "sleep", "1000"]).spawn().unwrap();
        let its = format!("/proc/{}/ns/net", other.id());
        // The program has moved there before it becomes `sleep`.
        let begun = std::time::Instant::now();
        while named(&its).is_none() && begun.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        let file = stat(&its).unwrap();
        let found = named(&its);
        let by_path = pod(&Address::path("/run/x").in_netns(&its));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((found, by_path), (Some((file.st_dev, file.st_ino)), None));
    }
}
