//! Who is at the other end of a control socket, as the kernel says.

use std::os::fd::BorrowedFd;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

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

/// Asks the kernel; `None` where it doesn't say.
pub(super) fn of(socket: BorrowedFd<'_>) -> Option<Credentials> {
    // Not by rustix: it has process ids that are never 0, and here 0 stands for one of another namespace.
    let peer = getsockopt(&socket, PeerCredentials).ok()?;
    let pid = u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0);
    Some(Credentials { pid, uid: peer.uid(), gid: peer.gid() })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

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
    fn what_is_no_socket_has_none() {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(of(pipe.as_fd()), None);
    }
}
