//! The socket of a control connection: messages and descriptors, one by one.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown, sockopt::set_socket_passcred,
};

use super::disposal::{FDS, empty};
use super::foreign::{Closing, Departing, Taken, harmless};
use super::rights;
use crate::Reason;
use crate::control::{MESSAGE_SIZE, Message, Refusal};

/// A connected control socket. Never blocks, but may take as long as its peer likes: the kernel calls whatever waits for the peer's end
/// in the thread that sends, receives, shuts down or closes ours.
///
/// Descriptors in messages that nobody reads are closed with the socket, which can take as long as their sender likes: see
/// [`foreign`](super::foreign). So no message with descriptors is read where none are due, and a socket with messages left in it is
/// closed elsewhere.
#[derive(Debug)]
pub(super) struct Line {
    fd: Arc<OwnedFd>,
    closing: Closing,
    /// Dropped after `fd`, and so with the last hold on the socket.
    departing: Departing,
}

/// What waits to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    Message { bytes: usize, ancillary: bool },
}

/// A message, or one that was left.
#[derive(Debug)]
pub(super) enum Heard {
    /// As it came.
    Message(Received),
    /// The bytes of one with descriptors where none are due: it was not taken.
    NotDue(Vec<u8>),
}

/// One message as it came: up to one byte too many, and all descriptors.
#[derive(Debug)]
pub(super) struct Received {
    pub bytes: Vec<u8>,
    pub fds: Taken,
}

impl Line {
    pub fn new(fd: OwnedFd, closing: &Closing) -> Self {
        Self { fd: Arc::new(fd), closing: closing.clone(), departing: Departing::new(closing) }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether too much of what its peer's origin has sent before is still to be closed.
    pub fn is_beyond_share(&self) -> bool {
        self.closing.is_beyond_share()
    }

    /// Sends a message. Both sides speak in turn, so that a full socket means a peer that doesn't read: an
    /// error.
    pub fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> Result<(), Reason> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fd) = &fd
            && !control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(fd)))
        {
            return Err(Reason::Socket(Errno::NOBUFS));
        }
        let bytes = message.encode();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.fd, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(MESSAGE_SIZE) => Ok(()),
            Ok(_) => Err(Reason::Socket(Errno::MSGSIZE)),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Reason::Closed),
            Err(errno) => Err(Reason::Socket(errno)),
        }
    }

    /// Looks at the next message, without taking it or anything that came with it.
    fn peek(&self, buffer: &mut [u8]) -> Result<Next, Errno> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        match next(&self.fd, buffer, flags) {
            // An error is told once.
            Err(_) => next(&self.fd, buffer, flags),
            found => found,
        }
    }

    /// Receives a message, if there is one. One with descriptors stays where it is unless some may be `due`, and its sender is not beyond
    /// its share of those that wait to be closed, nor all are beyond theirs.
    pub fn receive(&self, due: bool) -> Result<Option<Heard>, Reason> {
        let mut buffer = [0; MESSAGE_SIZE + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let takes = due && !self.is_beyond_share() && !self.closing.is_full();
        let room = if takes { space.len() } else { 0 };
        let mut control = RecvAncillaryBuffer::new(&mut space[..room]);
        if !takes {
            match self.peek(&mut buffer) {
                Ok(Next::Nothing) => return Ok(None),
                Ok(Next::Message { ancillary: true, .. }) if due => return Err(Reason::HangingDescriptors),
                Ok(Next::Message { bytes, ancillary: true }) => {
                    return Ok(Some(Heard::NotDue(buffer[..bytes.min(MESSAGE_SIZE + 1)].to_vec())));
                }
                Ok(Next::Message { .. }) => {}
                // Without space for them, what comes after the errors would be closed here.
                Err(Errno::CONNRESET) => return Err(Reason::Closed),
                Err(errno) => return Err(Reason::Socket(errno)),
            }
        }
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut receive = || recvmsg(&self.fd, &mut [IoSliceMut::new(&mut buffer)], &mut control, flags);
        // A peer that closed with something unread: that is told first and once, then what it said last.
        let message = match receive().or_else(|e| if e == Errno::CONNRESET { receive() } else { Err(e) }) {
            Ok(message) => message,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(Reason::Closed),
            Err(errno) => return Err(Reason::Socket(errno)),
        };
        // Take all of them, so that whatever is not used is closed.
        let rights = control.drain().filter_map(|ancillary| match ancillary {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let fds = harmless(rights.flatten(), self.fd(), &self.closing).map_err(Reason::Socket)?;
        if message.bytes == 0 {
            return Err(Reason::Closed);
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            // There is space for all that there can be: if some are missing, it is we who have no descriptors left.
            let ours = Reason::Socket(Errno::MFILE);
            return Err(if fds.len() < FDS { ours } else { Reason::AncillaryData });
        }
        let bytes = buffer[..message.bytes.min(MESSAGE_SIZE + 1)].to_vec();
        Ok(Some(Heard::Message(Received { bytes, fds })))
    }

    /// Tells the peer why it is over, if that is news to it and it still listens: it may have closed its half only,
    /// or sent an empty message, which looks the same.
    pub fn farewell(&self, reason: &Reason) {
        if !matches!(reason, Reason::Peer { .. } | Reason::Socket(_)) {
            let code = reason.refusal().map_or(0, Refusal::code);
            let _ = self.send(&Message::Disconnect { code, reason: reason.text() }, None);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // From now on nothing comes, and a message, even an empty one, is told from the end by its sender's credentials.
        let _ = set_socket_passcred(&self.fd, true);
        let _ = shutdown(&self.fd, Shutdown::Both);
        // What was never let in can't be left.
        if rights::may_have(self.fd())
            && !matches!(self.peek(&mut [0]), Ok(Next::Message { ancillary: false, .. }))
        {
            self.departing.last(Rest(Arc::clone(&self.fd)));
        }
    }
}

/// A socket in which messages are left. Its peer has still to read why: it would be told of them instead, were they left when it is
/// closed.
#[derive(Debug)]
pub(super) struct Rest(Arc<OwnedFd>);

impl Drop for Rest {
    fn drop(&mut self) {
        empty(self.0.as_fd());
    }
}

/// The next message, without space for what came with it.
fn next(socket: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> Result<Next, Errno> {
    let mut control = RecvAncillaryBuffer::default();
    match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
        Ok(message) => {
            let ancillary = message.flags.contains(ReturnFlags::CTRUNC);
            Ok(Next::Message { bytes: message.bytes, ancillary })
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Next::Nothing),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn received(line: &Line) -> Received {
        match line.receive(true).unwrap().unwrap() {
            Heard::Message(message) => message,
            Heard::NotDue(bytes) => panic!("left {bytes:?}"),
        }
    }

    fn pair() -> (Line, Line) {
        let flags = SocketFlags::CLOEXEC;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Line::new(a, &Closing::default()), Line::new(b, &Closing::default()))
    }

    #[test]
    fn a_message_and_its_descriptor_arrive() {
        let (a, b) = pair();
        assert!(b.receive(true).unwrap().is_none());
        let event = crate::ring::Event::new("test").unwrap();
        a.send(&Message::Ack, Some(event.fd())).unwrap();
        let received = received(&b);
        assert_eq!((&received.bytes[..], received.fds.len()), (&Message::Ack.encode()[..], 1));
        drop(a);
        drop(received);
        assert_eq!(b.receive(true).unwrap_err(), Reason::Closed);
        assert_eq!(b.send(&Message::Ack, None).unwrap_err(), Reason::Closed);
    }

    /// A number like any other: one implementation takes it for none.
    #[test]
    fn hostile_descriptor_0_is_sent() {
        let (a, b) = pair();
        let stdin = std::io::stdin();
        assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&stdin), 0);
        a.send(&Message::Ack, Some(stdin.as_fd())).unwrap();
        assert_eq!(received(&b).fds.len(), 1);
    }

    #[test]
    fn last_words_are_heard_from_a_peer_that_did_not_listen() {
        let (a, b) = pair();
        a.send(&Message::Ack, None).unwrap();
        b.farewell(&Reason::Timeout);
        drop(b);
        let Message::Disconnect { reason, .. } = Message::decode(&received(&a).bytes).unwrap() else {
            panic!("no last words")
        };
        assert_eq!(reason, Reason::Timeout.text());
        assert_eq!(a.receive(false).unwrap_err(), Reason::Closed);
    }

    #[test]
    fn a_message_too_long_or_too_short_is_seen_as_such() {
        let (a, b) = pair();
        for size in [1, 127, 129, 300] {
            rustix::io::write(a.fd(), &vec![1; size]).unwrap();
            let received = received(&b);
            assert_eq!(
                Message::decode(&received.bytes).unwrap_err(),
                Reason::MessageSize(size.min(MESSAGE_SIZE + 1))
            );
        }
    }

    #[test]
    fn unexpected_descriptors_are_closed() {
        let (a, b) = pair();
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        for (due, count) in [(true, 2), (true, FDS), (false, 1)] {
            let fds = vec![write_end.as_fd(); count];
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
            let bytes = Message::Ack.encode();
            sendmsg(a.fd(), &[IoSlice::new(&bytes)], &mut control, SendFlags::empty()).unwrap();
            match b.receive(due) {
                Ok(Some(Heard::Message(received))) => assert_eq!((received.fds.len(), due), (count, true)),
                Ok(Some(Heard::NotDue(bytes))) => {
                    assert_eq!((bytes, due), (Message::Ack.encode().to_vec(), false))
                }
                other => panic!("{other:?}"),
            }
        }
        drop((write_end, b));
        // All copies of the write end are gone, or will be: the pipe ends.
        assert_eq!(rustix::io::read(&read_end, &mut [0; 1]).unwrap(), 0);
    }
}
