//! One control connection: messages and descriptors over a seqpacket socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::credentials::{self, Credentials};
use super::foreign::harmless;
use crate::Reason;
use crate::control::{MESSAGE_SIZE, Message};

/// Space for more descriptors than any message has, so that a peer that sends more is told so.
const FDS: usize = 8;

/// A connected control socket. Never blocks.
#[derive(Debug)]
pub(super) struct Channel {
    fd: OwnedFd,
}

/// One message as it came: up to one byte too many, and all descriptors.
#[derive(Debug)]
pub(super) struct Received {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

impl Channel {
    pub const fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Who is at the other end.
    pub fn credentials(&self) -> Option<Credentials> {
        credentials::of(self.fd.as_fd())
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

    /// Receives a message, if there is one.
    pub fn receive(&self) -> Result<Option<Received>, Reason> {
        let mut buffer = [0; MESSAGE_SIZE + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
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
        let mut fds = Vec::new();
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                fds.extend(rights.map(|fd| harmless(fd, self.fd())));
            }
        }
        let fds = fds.into_iter().collect::<Result<Vec<_>, _>>().map_err(Reason::Socket)?;
        if message.bytes == 0 {
            return Err(Reason::Closed);
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Reason::AncillaryData);
        }
        Ok(Some(Received { bytes: buffer[..message.bytes.min(MESSAGE_SIZE + 1)].to_vec(), fds }))
    }

    /// Tells the peer why it is over, if that is news to it and it still listens: it may have closed its half only,
    /// or sent an empty message, which looks the same.
    pub fn farewell(&self, reason: &Reason) {
        if !matches!(reason, Reason::Peer { .. } | Reason::Socket(_)) {
            let _ = self.send(&Message::Disconnect { code: 0, reason: reason.text() }, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Channel, Channel) {
        let flags = SocketFlags::CLOEXEC;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Channel::new(a), Channel::new(b))
    }

    #[test]
    fn a_message_and_its_descriptor_arrive() {
        let (a, b) = pair();
        assert!(b.receive().unwrap().is_none());
        let event = crate::ring::Event::new().unwrap();
        a.send(&Message::Ack, Some(event.fd())).unwrap();
        let received = b.receive().unwrap().unwrap();
        assert_eq!((&received.bytes[..], received.fds.len()), (&Message::Ack.encode()[..], 1));
        drop(a);
        drop(received);
        assert_eq!(b.receive().unwrap_err(), Reason::Closed);
        assert_eq!(b.send(&Message::Ack, None).unwrap_err(), Reason::Closed);
    }

    /// A number like any other: one implementation takes it for none.
    #[test]
    fn hostile_descriptor_0_is_sent() {
        let (a, b) = pair();
        let stdin = std::io::stdin();
        assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&stdin), 0);
        a.send(&Message::Ack, Some(stdin.as_fd())).unwrap();
        assert_eq!(b.receive().unwrap().unwrap().fds.len(), 1);
    }

    #[test]
    fn last_words_are_heard_from_a_peer_that_did_not_listen() {
        let (a, b) = pair();
        a.send(&Message::Ack, None).unwrap();
        b.farewell(&Reason::Timeout);
        drop(b);
        let Message::Disconnect { reason, .. } =
            Message::decode(&a.receive().unwrap().unwrap().bytes).unwrap()
        else {
            panic!("no last words")
        };
        assert_eq!(reason, Reason::Timeout.text());
        assert_eq!(a.receive().unwrap_err(), Reason::Closed);
    }

    #[test]
    fn a_message_too_long_or_too_short_is_seen_as_such() {
        let (a, b) = pair();
        for size in [1, 127, 129, 300] {
            rustix::io::write(a.fd(), &vec![1; size]).unwrap();
            let received = b.receive().unwrap().unwrap();
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
        for count in [2, FDS + 5] {
            let fds = vec![write_end.as_fd(); count];
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS + 5))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
            let bytes = Message::Ack.encode();
            sendmsg(a.fd(), &[IoSlice::new(&bytes)], &mut control, SendFlags::empty()).unwrap();
            match b.receive() {
                Ok(received) => assert_eq!(received.unwrap().fds.len(), count),
                Err(reason) => assert_eq!((reason, count), (Reason::AncillaryData, FDS + 5)),
            }
        }
        drop(write_end);
        // All copies of the write end are gone: the pipe has ended.
        assert_eq!(rustix::io::read(&read_end, &mut [0; 1]).unwrap(), 0);
    }
}
