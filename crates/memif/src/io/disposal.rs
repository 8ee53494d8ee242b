//! The end of what nobody asked for: without waiting, as far as it is in our hands.
//!
//! A socket is told not to linger. A unix socket may have others in its queue, which would linger in their turn as it is closed: it is
//! emptied first, and so is what is found in it. What is left are files in user space, whose servers may let every close wait.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, SocketFlags, SocketType,
    accept_with, recvmsg, shutdown, sockopt,
};
use rustix::process::{Resource, getrlimit};

use super::ancillary;

/// As many descriptors as the kernel lets one message have: what there is no space for it closes itself, in the thread that asks.
pub(super) const FDS: usize = 253;
/// Of these, how many a closer takes at once, each of the queues in queues it has before it, in proportion to what the process may have. The kernel
/// closes the others, in the closer.
fn at_once() -> usize {
    getrlimit(Resource::Nofile).current.map_or(FDS, |limit| (limit as usize / 64).clamp(1, FDS))
}

/// How deep sockets are looked for in sockets. The kernel lets none be sent that is deeper than 4; what waits to be accepted is deeper
/// by one each time.
const DEPTH: usize = 10;

/// Closes it. Not for the thread that serves the sockets: it may wait all the same.
pub(super) fn dispose(fd: OwnedFd) {
    dispose_at(fd, 0);
}

/// Takes all messages out of a unix socket, whose other end can send no more, and disposes of what came with them.
pub(super) fn empty(socket: BorrowedFd<'_>) {
    empty_at(socket, 0);
}

fn dispose_at(fd: OwnedFd, depth: usize) {
    // Fails where it is no socket. Whoever still has the socket can ask for it again, but then our close isn't the last.
    let _ = sockopt::set_socket_linger(&fd, None);
    if depth == DEPTH || sockopt::socket_domain(&fd) != Ok(AddressFamily::UNIX) {
        return;
    }
    let _ = shutdown(&fd, Shutdown::Both);
    empty_at(fd.as_fd(), depth + 1);
    // Connections that wait to be accepted have queues of their own.
    if sockopt::socket_acceptconn(&fd) == Ok(true)
        && fcntl_getfl(&fd).and_then(|flags| fcntl_setfl(&fd, flags | OFlags::NONBLOCK)).is_ok()
    {
        while let Ok(one) = accept_with(&fd, SocketFlags::CLOEXEC) {
            dispose_at(one, depth + 1);
        }
    }
}

fn empty_at(socket: BorrowedFd<'_>, depth: usize) {
    let mut space = ancillary::space(at_once());
    // Streams have no empty messages, and their end, unlike that of others, comes with credentials, too.
    let is_stream = sockopt::socket_type(socket) == Ok(SocketType::STREAM);
    let mut errors = 0;
    while errors <= 1 {
        // Credentials tell an empty message from the end. Each time, since whoever still has the socket can say that he wants none.
        let _ = sockopt::set_socket_passcred(socket, true);
        let found = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut [0; 1])],
            &mut RecvAncillaryBuffer::default(),
            RecvFlags::DONTWAIT | RecvFlags::PEEK,
        );
        match found {
            Ok(next) if next.bytes == 0 && (is_stream || !next.flags.contains(ReturnFlags::CTRUNC)) => return,
            Ok(_) => {}
            Err(_) => {
                // That the other end didn't listen is told once, and first.
                errors += 1;
                continue;
            }
        }
        match ancillary::take(socket, &mut space) {
            Ok(fds) => fds.into_iter().for_each(|fd| dispose_at(fd, depth)),
            Err(_) => errors += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use rustix::net::{
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, bind, connect, listen, sendmsg,
        socket_with, socketpair,
    };

    use super::*;

    /// One with unread data, that would linger for a day, and its other end.
    fn lingering() -> (OwnedFd, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (never_read, _) = server.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 1 << 16]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
        sockopt::set_socket_linger(&socket, Some(Duration::from_secs(86_400))).unwrap();
        (socket.into(), never_read)
    }

    fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// A test that doesn't end has failed.
    #[test]
    fn a_socket_that_would_linger_does_not() {
        let (socket, _end) = lingering();
        dispose(socket);
    }

    #[test]
    fn sockets_in_queues_of_sockets_do_not_either() {
        let (mut inner, _end) = lingering();
        for _ in 0..4 {
            let (outer, writer) = pair();
            send(&writer, &[], &[]);
            send(&writer, &[1], &[inner.as_fd(), inner.as_fd()]);
            inner = outer;
        }
        dispose(inner);
    }

    /// Sent before credentials were asked for, a message has those of process 0, which is none.
    #[test]
    fn messages_of_nobody_are_taken() {
        let (ours, theirs) = pair();
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        for fds in [&[][..], &[write_end.as_fd()]] {
            send(&theirs, &[], fds);
            send(&theirs, &[1], fds);
        }
        drop(write_end);
        empty(ours.as_fd());
        assert_eq!(rustix::io::read(&read_end, &mut [0; 1]), Ok(0), "all are taken");
    }

    /// The end of each kind of socket looks different. A test that doesn't end has failed.
    #[test]
    fn queues_of_every_kind_have_an_end() {
        for kind in [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET] {
            for closed in [true, false] {
                let (ours, theirs) =
                    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
                let (read_end, write_end) = rustix::pipe::pipe().unwrap();
                send(&theirs, &[1, 2], &[write_end.as_fd()]);
                send(&theirs, &[3], &[write_end.as_fd()]);
                drop(write_end);
                let kept = (!closed).then_some(theirs);
                empty(ours.as_fd());
                assert_eq!(rustix::io::read(&read_end, &mut [0; 1]), Ok(0), "{kind:?}, all are taken");
                drop(kept);
            }
        }
    }

    #[test]
    fn a_queue_behind_an_error_is_emptied() {
        let ((ours, theirs), (socket, _end)) = (pair(), lingering());
        send(&ours, &[1], &[]);
        send(&theirs, &[1], &[socket.as_fd()]);
        // Has not read what we said.
        drop((theirs, socket));
        dispose(ours);
    }

    #[test]
    fn connections_that_wait_are_emptied() {
        let socket =
            || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let name = format!("quiver-disposal-{}", std::process::id());
        let (address, listener) = (SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap(), socket());
        bind(&listener, &address).unwrap();
        listen(&listener, 8).unwrap();
        let mut ends = Vec::new();
        for _ in 0..3 {
            let (one, (inner, end)) = (socket(), lingering());
            connect(&one, &address).unwrap();
            send(&one, &[1], &[inner.as_fd()]);
            ends.push(end);
        }
        dispose(listener);
        // What comes from a pipe, a file or a directory is just closed.
        for other in [rustix::pipe::pipe().unwrap().0, std::fs::File::open("/").unwrap().into()] {
            dispose(other);
        }
    }
}
