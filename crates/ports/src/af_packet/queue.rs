//! A socket on a shared device.

use super::device::prefix;
use crate::sys::packet;
use crate::vnet::{self, VnetHeader};
use crate::vnet_queue::Device;
use rustix::io::Errno;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::VlanTag;
use zerocopy::FromBytes;

/// Both addresses of an Ethernet header: what stands before a tag.
const ADDRESSES: usize = 12;
/// A tag with its EtherType.
const TAG: usize = size_of::<VlanTag>();

/// A queue of a device shared with the kernel.
pub(super) struct PacketQueue {
    pub(super) socket: Arc<OwnedFd>,
    /// Whether there is a `virtio_net_hdr` before each frame.
    pub(super) vnet: bool,
}

impl Device for PacketQueue {
    const DOWN: Errno = Errno::NETDOWN;
    const GONE: &'static [Errno] = &[Errno::NETDOWN, Errno::NXIO, Errno::NODEV];

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn prefix(&self) -> usize {
        prefix(self.vnet)
    }

    /// The addresses are received apart from the rest, so that a tag fits between them without moving more than these 12
    /// bytes.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(VnetHeader, usize, usize)> {
        let mut header = [0; vnet::LEN];
        let Some((front, rest)) = buffer.split_at_mut_checked(ADDRESSES + TAG) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (addresses, room) = front.split_at_mut(ADDRESSES);
        let before = self.prefix();
        let mut parts =
            [IoSliceMut::new(&mut header[..before]), IoSliceMut::new(addresses), IoSliceMut::new(rest)];
        let (n, tag) = packet::receive(self.socket.as_fd(), &mut parts)?;
        let header = VnetHeader::read_from_bytes(&header).unwrap_or_default();
        // A frame shorter than its addresses would have a hole: the kernel has none.
        let end = n.saturating_sub(before + ADDRESSES) + ADDRESSES + TAG;
        if let Some(tag) = tag {
            room.copy_from_slice(&[tag.tpid.to_be_bytes(), tag.tci.to_be_bytes()].concat());
            return Ok((header.behind(TAG as u16), 0, end));
        }
        front.copy_within(..ADDRESSES, TAG);
        Ok((header, TAG, end))
    }

    fn passes(&self, errno: Errno) -> bool {
        // Said once when the device is set down, and when it is deleted: then the socket has lost it.
        errno == Errno::NETDOWN && matches!(packet::bound_to(self.socket.as_fd()), Ok(Some(_)))
    }
}
