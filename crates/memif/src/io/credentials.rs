//! Who is at the other end of a control socket, as the kernel says.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{fstat, stat};

/// The process at the other end, as it was when it connected (for a client's peer: when it began to listen).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Credentials {
    /// Its process id; `None` where it lives in a process namespace that ours doesn't see into.
    pub pid: Option<u32>,
    /// Its effective user id, as our user namespace numbers it.
    pub uid: u32,
    /// Its effective group id, likewise.
    pub gid: u32,
}

/// Who answers for what a connection leaves behind. By nothing that a process can have several of at will, such as user ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Origin {
    /// Nobody in particular.
    #[default]
    Nobody,
    /// A process namespace other than ours, by device and inode: a container, however many processes it starts. Or a network namespace, a pod's: of
    /// those whose process namespace can't be told, at a socket that only such as are in it can reach.
    Namespace(u64, u64),
    /// A process of our namespace, or of one that we may not look at.
    Process(u32),
    /// A process of a namespace that ours doesn't see into, by what else tells it from others.
    Hidden(Option<u64>),
    /// All whose process has ended: nobody can tell any more where it was. Whoever has it connect by a process that ends shares with all others
    /// who do.
    Ended,
}

impl Origin {
    /// By what work of an interface's connection is kept apart: of origins that nobody can tell from each other each interface is one by itself;
    /// there are no more of these than we have.
    pub(super) fn line(self, id: u32) -> (Self, Option<u32>) {
        (self, matches!(self, Self::Hidden(None) | Self::Ended).then_some(id))
    }

    /// Asks the kernel. `pod`: the network namespace that the socket can be reached from alone, if there is one.
    pub(super) fn of(socket: BorrowedFd<'_>, pod: Option<(u64, u64)>) -> Self {
        let of_pod = |other| pod.map_or(other, |(device, inode)| Self::Namespace(device, inode));
        let Some(Credentials { pid, .. }) = of(socket) else { return Self::Nobody };
        let ours = || stat("/proc/self/ns/pid").ok().map(|stat| (stat.st_dev, stat.st_ino));
        match pid.map(|pid| (pid, pid_namespace(pid, socket))) {
            Some((_, Some((device, inode)))) if ours().is_some_and(|ours| ours != (device, inode)) => {
                Self::Namespace(device, inode)
            }
            Some((pid, Some(_))) => Self::Process(pid),
            _ if has_ended(socket, pid) => of_pod(Self::Ended),
            Some((pid, None)) => Self::Process(pid),
            None => of_pod(Self::Hidden(process(socket))),
        }
    }
}

/// The process namespace, as device and inode of its file, that the process at the other end lives in; `None` where that can't be told, or
/// where the process has ended.
pub(super) fn pid_namespace(pid: u32, socket: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = stat(format!("/proc/{pid}/ns/pid")).ok()?;
    (!has_ended(socket, Some(pid))).then_some((found.st_dev, found.st_ino))
}

/// Whether the process that connected has ended, so that its number may be another's by now. Before Linux 6.5 only a number that nobody has
/// tells.
fn has_ended(socket: BorrowedFd<'_>, pid: Option<u32>) -> bool {
    match getsockopt(&socket, PeerPidfd) {
        // Readable once it has ended.
        Ok(process) => poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&Timespec::default())) != Ok(0),
        Err(Errno::ENOPROTOOPT) => pid.is_some_and(|pid| {
            stat("/proc/self").is_ok() && stat(format!("/proc/{pid}")).err() == Some(rustix::io::Errno::NOENT)
        }),
        // Nobody waits for its end any more.
        Err(_) => true,
    }
}

/// Asks the kernel; `None` where it doesn't say.
pub(super) fn of(socket: BorrowedFd<'_>) -> Option<Credentials> {
    // Not by rustix: it has process ids that are never 0, and here 0 stands for one of another namespace.
    let peer = getsockopt(&socket, PeerCredentials).ok()?;
    let pid = u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0);
    Some(Credentials { pid, uid: peer.uid(), gid: peer.gid() })
}

/// A number that stands for the process at the other end, also where its process id can't be told; `None` before Linux 6.9, where all
/// processes have the same.
fn process(socket: BorrowedFd<'_>) -> Option<u64> {
    let process = getsockopt(&socket, PeerPidfd).ok()?;
    let (process, other) = (fstat(&process).ok()?, fstat(eventfd(0, EventfdFlags::CLOEXEC).ok()?).ok()?);
    // An inode of its own, not the one that all files without a file system share.
    (process.st_dev != other.st_dev || process.st_ino != other.st_ino).then_some(process.st_ino)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::linux::net::SocketAddrExt;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn the_kernel_tells_who_it_is() {
        let kind = SocketType::SEQPACKET;
        let (ours, _theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let credentials = of(ours.as_fd()).unwrap();
        assert_eq!(credentials.pid, Some(std::process::id()));
        assert_eq!(credentials.uid, rustix::process::geteuid().as_raw());
        assert_eq!(credentials.gid, rustix::process::getegid().as_raw());
    }

    #[test]
    fn a_process_is_told_from_others() {
        let address = std::env::temp_dir().join(format!("quiver-process-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&address).unwrap();
        let accept = || process(listener.accept().unwrap().0.as_fd());
        let connect = || std::os::unix::net::UnixStream::connect(&address).unwrap();
        let _one = connect();
        let (first_connected, _) = listener.accept().unwrap();
        let first = process(first_connected.as_fd());
        let (_two, second) = (connect(), accept());
        let other = "import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); input()";
        let mut other = std::process::Command::new("python3")
            .args(["-c", other])
            .arg(&address)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (connected, _) = listener.accept().unwrap();
        let third = process(connected.as_fd());
        let pid = of(connected.as_fd()).unwrap().pid;
        assert!(!has_ended(connected.as_fd(), pid));
        assert_eq!(Some(Origin::of(connected.as_fd(), None)), pid.map(Origin::Process));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(has_ended(connected.as_fd(), pid), "its number may be another's now");
        assert_eq!(Origin::of(connected.as_fd(), None), Origin::Ended);
        assert_eq!(Origin::of(connected.as_fd(), Some((1, 7))), Origin::Namespace(1, 7), "it was in the pod");
        std::fs::remove_file(&address).unwrap();
        assert_eq!(first, second);
        // All, or none.
        assert_eq!(first.is_some(), third.is_some());
        assert!(first.is_none() || first != third);
    }

    /// One container, whose processes connect, and whose processes have others connect that end: two origins, however many they are.
    #[test]
    fn hostile_container_is_one_origin_and_what_has_ended_another() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: not root, so no process namespace can be made");
            return;
        }
        let name = format!("quiver-origins-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        let program = r"
import os, socket, sys
kept = []
for number in range(6):
    s = socket.socket(socket.AF_UNIX)
    kept.append(s)
    child = os.fork()
    if child == 0:
        os.setgid(number); os.setuid(number); s.connect('\0' + sys.argv[1])
        if number % 2: os._exit(0)
        import time; time.sleep(1000)
    if number % 2: os.waitpid(child, 0)
    print(number, flush=True)
import time; time.sleep(1000)
";
        let mut container = std::process::Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "python3", "-c", program, &name])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = std::io::BufReader::new(container.stdout.take().unwrap());
        // Once it has told of the last, those that end have ended.
        (0..6).for_each(|_| assert!(std::io::BufRead::read_line(&mut told, &mut String::new()).unwrap() > 0));
        let mut origins = std::collections::HashMap::<_, usize>::new();
        for _ in 0..6 {
            *origins.entry(Origin::of(listener.accept().unwrap().0.as_fd(), None)).or_default() += 1;
        }
        container.kill().unwrap();
        container.wait().unwrap();
        assert_eq!(origins.remove(&Origin::Ended), Some(3), "{origins:?}");
        let rest: Vec<_> = origins.into_iter().collect();
        assert!(matches!(rest[..], [(Origin::Namespace(..), 3)]), "{rest:?}");
    }

    #[test]
    fn what_is_no_socket_has_none() {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(of(pipe.as_fd()), None);
    }
}
