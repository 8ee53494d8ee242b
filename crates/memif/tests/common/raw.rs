//! A client driven by hand, which may say and send anything.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use memif::control::{AddRegion, AddRing, Init, Message, RING_S2M, VERSION};
use memif::region::{HugePages, Region, RegionOptions, RegionTable};
use memif::ring::{Event, RingSize, RingView};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, recvmsg, sendmsg, socket_with,
};

/// A connected socket, and memory with one valid ring each way.
pub struct Raw {
    socket: OwnedFd,
    pub region: Arc<Region>,
    pub table: Arc<RegionTable>,
    pub event: Event,
}

/// Size of the raw client's rings.
pub const SIZE: RingSize = RingSize::MIN;
/// Where its ring to the server is.
pub const TX_RING: u32 = 0;
/// Where its ring from the server is.
pub const RX_RING: u32 = 8192;
/// Bytes of its region.
pub const REGION: u64 = 65_536;

impl Raw {
    /// Connects to an abstract socket.
    pub fn connect(name: &str) -> Self {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        Self::over(socket)
    }

    /// The same, by a process of its own, which has ended.
    pub fn connect_by_another(name: &str) -> Self {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let program = "import socket, sys; socket.socket(fileno=0).connect('\\0' + sys.argv[1])";
        let status = std::process::Command::new("python3")
            .args(["-c", program, name])
            .stdin(socket.try_clone().unwrap())
            .status();
        assert!(status.unwrap().success());
        Self::over(socket)
    }

    /// The other role: takes a client that has connected.
    pub fn serve(listening: &OwnedFd) -> Self {
        Self::over(accept_with(listening, SocketFlags::CLOEXEC).unwrap())
    }

    fn over(socket: OwnedFd) -> Self {
        let options = RegionOptions { name: "raw".into(), size: REGION, huge_pages: HugePages::Never };
        let region = Arc::new(Region::create(&options).unwrap());
        let table = Arc::new(RegionTable::new(vec![Arc::clone(&region)]).unwrap());
        for offset in [TX_RING, RX_RING] {
            RingView::new(Arc::clone(&table), 0, offset, SIZE).unwrap().initialise();
        }
        Self { socket, region, table, event: Event::new("test").unwrap() }
    }

    /// Sends bytes and descriptors.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        // A server that has closed already is fine: what it says is read afterwards.
        let _ = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    /// Sends a message with the descriptors that belong to it.
    pub fn say(&self, message: &Message) {
        let fds = match message {
            Message::AddRegion(_) => vec![self.region.fd()],
            Message::AddRing(_) => vec![self.event.fd()],
            _ => vec![],
        };
        self.send(&message.encode(), &fds);
    }

    /// What the server has said, up to now.
    pub fn hear(&self) -> Vec<Message> {
        let mut heard = Vec::new();
        loop {
            let mut buffer = [0; 128];
            let mut control = RecvAncillaryBuffer::new(&mut []);
            let flags = RecvFlags::DONTWAIT;
            match recvmsg(self.socket.as_fd(), &mut [IoSliceMut::new(&mut buffer)], &mut control, flags) {
                Ok(message) if message.bytes > 0 => heard.push(Message::decode(&buffer).unwrap()),
                // The server has closed with something of ours unread: its last words come after that.
                Err(rustix::io::Errno::CONNRESET) => {}
                _ => return heard,
            }
        }
    }
}

/// A valid INIT.
pub fn init() -> Message {
    Message::Init(Init { version: VERSION, id: 0, mode: 0, secret: None, name: "raw".into() })
}

/// A valid ADD_REGION.
pub fn region() -> Message {
    Message::AddRegion(AddRegion { index: 0, size: REGION })
}

/// A valid ADD_RING, to the server.
pub const RING: AddRing = AddRing {
    flags: RING_S2M,
    index: 0,
    region: 0,
    offset: TX_RING,
    log2_ring_size: SIZE.log2(),
    private_hdr_size: 0,
};

/// The two rings.
pub fn rings() -> [Message; 2] {
    [Message::AddRing(RING), Message::AddRing(AddRing { flags: 0, offset: RX_RING, ..RING })]
}

/// CONNECT.
pub fn connect_message() -> Message {
    Message::Connect { interface: "raw0".into() }
}

/// All messages of a good client.
pub fn handshake() -> Vec<Message> {
    let [tx, rx] = rings();
    vec![init(), region(), tx, rx, connect_message()]
}
