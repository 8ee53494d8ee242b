//! A socket that can't be closed.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

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

/// Ours should not be the last close; where the listener was faster it hangs elsewhere.
pub fn close(lingering: impl Send + 'static) {
    std::thread::spawn(move || drop(lingering));
}
