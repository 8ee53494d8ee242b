//! Sockets that can't be closed.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, connect, listen, sendmsg, socket_with,
};

/// One whose last close takes a day, or until the other end, given beside it, is dropped.
pub fn lingering() -> (TcpStream, TcpStream) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let (unread, _) = server.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(86_400))).unwrap();
    (socket, unread)
}

/// The same, so deep in queues of sockets that nobody finds it to tell it not to linger: it was sent to a connection that waits to be
/// accepted at a socket, which was sent to such a connection in its turn, and so on.
pub fn unclosable() -> (OwnedFd, TcpStream) {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let socket =
        || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (inner, end) = lingering();
    let mut inner = OwnedFd::from(inner);
    for _ in 0..8 {
        let (outer, waits) = (socket(), socket());
        let name =
            format!("quiver-unclosable-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        bind(&outer, &address).unwrap();
        listen(&outer, 1).unwrap();
        connect(&waits, &address).unwrap();
        let (mut space, fds) = ([MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))], [inner.as_fd()]);
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&waits, &[IoSlice::new(&[1])], &mut control, SendFlags::empty()).unwrap();
        inner = outer;
    }
    (inner, end)
}

/// Ours should not be the last close; where the listener was faster it hangs elsewhere.
pub fn close(lingering: impl Send + 'static) {
    std::thread::spawn(move || drop(lingering));
}
