//! A message of a socket that others have in hand too, and every descriptor that the kernel hands over with it.
//!
//! Libraries know descriptors that were sent (`SCM_RIGHTS`). A socket's owner can also have each message come with one that nobody sent: its
//! sender's process (`SO_PASSPIDFD`, Linux 6.5), installed in whoever takes the message. What isn't known stays open. And they hold that the
//! sender is a process with a number, which 0 is not, while a message that was sent before credentials were asked for has that.

#![allow(unsafe_code)]

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{CMSG_DATA, CMSG_FIRSTHDR, CMSG_LEN, CMSG_NXTHDR, CMSG_SPACE};

/// Of `linux/socket.h`: the process that has sent the message.
const SCM_PIDFD: libc::c_int = 4;

/// Space for so many descriptors that were sent, the sender's process, and its credentials, where these are asked for.
pub(super) fn space(descriptors: usize) -> Vec<u64> {
    // SAFETY: only computes.
    let bytes = unsafe {
        CMSG_SPACE((descriptors * size_of::<RawFd>()) as u32)
            + CMSG_SPACE(size_of::<RawFd>() as u32)
            + CMSG_SPACE(size_of::<libc::ucred>() as u32)
    };
    vec![0; (bytes as usize).div_ceil(size_of::<u64>())]
}

/// Takes the next message, whatever it says, without waiting; gives the descriptors that came with it, all of them: those there is no space
/// for the kernel closes.
///
/// # Errors
/// What the kernel says, also that there is none.
pub(super) fn take(socket: BorrowedFd<'_>, space: &mut [u64]) -> std::io::Result<Vec<OwnedFd>> {
    let mut bytes = [0_u8; 4096];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: numbers and pointers, for which zeros stand for none.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(space);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `message` names `bytes` and `space`, as long as they are, which live and are ours alone during the call.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut fds = Vec::new();
    // SAFETY: the kernel has written whole control messages into the first `msg_controllen` bytes of `space`, which is aligned as they
    // are; the macros stay within these. Each number of the two kinds that is none of an error is a descriptor that the kernel has just
    // installed for us: nobody else closes it, and we take each once.
    unsafe {
        let mut next = CMSG_FIRSTHDR(&raw const message);
        while !next.is_null() {
            let libc::cmsghdr { cmsg_level, cmsg_type, cmsg_len, .. } = *next;
            if cmsg_level == libc::SOL_SOCKET && matches!(cmsg_type, libc::SCM_RIGHTS | SCM_PIDFD) {
                let count = cmsg_len.saturating_sub(CMSG_LEN(0) as usize) / size_of::<RawFd>();
                let data = CMSG_DATA(next).cast::<RawFd>();
                let numbers = (0..count).map(|i| data.add(i).read_unaligned());
                // A process that can't be had is told as a negative number.
                fds.extend(numbers.filter(|fd| *fd >= 0).map(|fd| OwnedFd::from_raw_fd(fd)));
            }
            next = CMSG_NXTHDR(&raw const message, next);
        }
    }
    Ok(fds)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::socket::setsockopt;
    use nix::{setsockopt_impl, sockopt_impl};
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};

    use super::*;

    /// The number of all architectures but parisc and sparc: `include/uapi/asm-generic/socket.h`.
    const SO_PASSPIDFD: libc::c_int = 76;

    sockopt_impl!(
        /// Whether a message comes with its sender's process.
        PassPidfd,
        SetOnly,
        libc::SOL_SOCKET,
        SO_PASSPIDFD,
        bool
    );

    fn processes() -> usize {
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        let names = all.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        names.filter(|name| name.to_string_lossy().contains("pidfd")).count()
    }

    /// Nobody has sent them, and nothing but the kernel knows of them.
    #[test]
    fn hostile_processes_that_come_with_messages_are_closed() {
        let flags = SocketFlags::CLOEXEC;
        for (what, credentials) in [("alone", false), ("behind credentials", true)] {
            let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            // Before that is asked for, messages are of process 0.
            send(&theirs, &[], SendFlags::empty()).unwrap();
            if setsockopt(&ours, PassPidfd, &true).is_err() {
                eprintln!("skipped: this kernel hands over no processes (before Linux 6.5)");
                return;
            }
            sockopt::set_socket_passcred(&ours, credentials).unwrap();
            for _ in 0..10 {
                send(&theirs, &[], SendFlags::empty()).unwrap();
            }
            let mut space = space(1);
            take(ours.as_fd(), &mut space).unwrap();
            let held = take(ours.as_fd(), &mut space).unwrap();
            assert_eq!((held.len(), processes()), (1, 1), "{what}");
            drop(held);
            super::super::disposal::dispose(ours);
            assert_eq!(processes(), 0, "{what}");
        }
    }
}
