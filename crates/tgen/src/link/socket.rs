//! A Linux interface through a packet socket.

use super::private::{Device, PrivateLink};
use super::{LinkError, netns};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, send, setsockopt,
    socket, sockopt,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes that may wait to be received.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Frames that are thrown away at most, of what came before the socket was bound.
const SCRAP: u32 = 100_000;
/// `sll_pkttype` of a frame that leaves by the device (Linux `PACKET_OUTGOING`).
const OUTGOING: u8 = 4;

/// A socket bound to a device. Frames that it sends itself the kernel doesn't give back to it.
#[derive(Debug)]
struct Socket(OwnedFd);

pub(super) fn open(name: &str, device: &str, netns: Option<&str>) -> Result<PrivateLink, LinkError> {
    netns::within(name, netns, || {
        let system = |action| move |errno: nix::Error| LinkError::system(name, action, errno);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let addresses = nix::ifaddrs::getifaddrs().map_err(system("list devices"))?;
        let address = addresses
            .filter(|found| found.interface_name == device)
            .find_map(|found| found.address?.as_link_addr().copied());
        let address =
            address.ok_or_else(|| LinkError::NoDevice { name: name.into(), device: device.into() })?;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .map_err(system("open a packet socket"))?;
        // Without the right to a larger one, bursts are lost earlier.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER);
        bind(socket.as_raw_fd(), &address).map_err(system("bind a packet socket to it"))?;
        // What came from other devices before it was bound.
        let socket = Socket(socket);
        let mut scrap = [0; 64];
        let _ = (0..SCRAP).try_for_each(|_| socket.receive(&mut scrap).map(drop));
        Ok(PrivateLink::new(name, Box::new(socket)))
    })
}

impl Device for Socket {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(self.0.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let (n, from) = recvfrom::<LinkAddr>(self.0.as_raw_fd(), into)?;
        Ok(if from.is_some_and(|from| from.pkttype() == OUTGOING) { None } else { Some(n) })
    }
}
