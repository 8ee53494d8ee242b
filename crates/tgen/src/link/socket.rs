//! A Linux interface through a packet socket.

use super::private::{Device, PrivateLink};
use super::{LinkError, netns};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, getsockopt, recv, send, setsockopt,
    socket, sockopt,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes that may wait to be received.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Frames that are thrown away at most, of what came before the socket was bound.
const SCRAP: u32 = 100_000;

/// `PACKET_STATISTICS` (packet(7)): packets received and dropped since the last call.
#[derive(Clone, Copy, Debug)]
struct Statistics;

nix::getsockopt_impl!(
    Statistics,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats,
    sockopt::GetStruct<libc::tpacket_stats>
);

/// `PACKET_IGNORE_OUTGOING` (Linux 4.20): no frames that leave by the device, whoever sends them.
#[derive(Clone, Copy, Debug)]
struct IgnoreOutgoing;

nix::setsockopt_impl!(IgnoreOutgoing, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, bool, sockopt::SetBool);

/// A socket bound to a device, which receives what comes in by it.
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
        setsockopt(&socket, IgnoreOutgoing, &true).map_err(system("ignore what leaves by it"))?;
        bind(socket.as_raw_fd(), &address).map_err(system("bind a packet socket to it"))?;
        // What came from other devices before it was bound.
        let mut socket = Socket(socket);
        let mut scrap = [0; 64];
        let _ = (0..SCRAP).try_for_each(|_| socket.receive(&mut scrap).map(drop));
        let _ = socket.dropped();
        Ok(PrivateLink::new(name, Box::new(socket)))
    })
}

impl Device for Socket {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(self.0.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0.as_raw_fd(), into, MsgFlags::MSG_DONTWAIT)?)
    }

    /// The kernel takes the outermost VLAN tag off.
    fn hidden(&self) -> u32 {
        size_of::<wire::VlanTag>() as u32
    }

    fn dropped(&mut self) -> io::Result<u64> {
        Ok(getsockopt(&self.0, Statistics)?.tp_drops.into())
    }
}
