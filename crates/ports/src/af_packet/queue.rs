//! The queues of a shared device.

use super::device::prefix;
use crate::sys::packet;
use crate::vnet::{self, VnetHeader};
use graph::IfIndex;
use graph::port::{PortFault, Received, RxQueue, Sent, Stop, TxQueue};
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use rustix::io::Errno;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::VlanTag;
use zerocopy::{FromBytes, IntoBytes};

/// Room for the longest packet there is (64 KiB), its link header and a tag put back.
const BUFFER: usize = 66 * 1024;
/// Both addresses of an Ethernet header: what stands before a tag.
const ADDRESSES: usize = 12;
/// A tag with its EtherType.
const TAG: usize = size_of::<VlanTag>();

/// A receive queue.
pub(super) struct PacketRx {
    socket: Arc<OwnedFd>,
    port: Arc<str>,
    vnet: bool,
}

impl PacketRx {
    pub(super) fn new(socket: Arc<OwnedFd>, port: Arc<str>, vnet: bool) -> Self {
        Self { socket, port, vnet }
    }

    /// Receives one frame: its offloads, and where in `buffer` it begins and ends. The addresses are received apart from
    /// the rest, so that a tag fits between them without moving more than these 12 bytes.
    fn frame(&self, buffer: &mut [u8]) -> io::Result<(VnetHeader, bool, usize, usize)> {
        let mut header = [0; vnet::LEN];
        let Some((front, rest)) = buffer.split_at_mut_checked(ADDRESSES + TAG) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (addresses, room) = front.split_at_mut(ADDRESSES);
        let before = prefix(self.vnet);
        let mut parts =
            [IoSliceMut::new(&mut header[..before]), IoSliceMut::new(addresses), IoSliceMut::new(rest)];
        let (n, tag) = packet::receive(self.socket.as_fd(), &mut parts)?;
        let header = VnetHeader::read_from_bytes(&header).unwrap_or_default();
        // A frame shorter than its addresses would have a hole: the kernel has none.
        let end = n.saturating_sub(before + ADDRESSES) + ADDRESSES + TAG;
        if let Some(tag) = tag {
            room.copy_from_slice(&[tag.tpid.to_be_bytes(), tag.tci.to_be_bytes()].concat());
            return Ok((header, true, 0, end));
        }
        front.copy_within(..ADDRESSES, TAG);
        Ok((header, false, TAG, end))
    }

    /// What an error means: nothing, or the end.
    fn judge(&self, error: &io::Error) -> Result<(), PortFault> {
        match errno(error) {
            Errno::AGAIN | Errno::INTR => Ok(()),
            // Said once when the device is set down, and when it is deleted: then the socket has lost it.
            Errno::NETDOWN if matches!(packet::bound_to(self.socket.as_fd()), Ok(Some(_))) => Ok(()),
            _ => Err(fault(&self.port, error)),
        }
    }
}

impl RxQueue for PacketRx {
    fn receive(
        &mut self,
        _tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        max: usize,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let mut bytes = 0;
        let max = max.min(packets.free());
        while packets.taken() - first < max {
            let mut header = VnetHeader::default();
            let received = packets.receive_private(rx_if, BUFFER, |buffer| {
                let (read, tagged, start, end) = self.frame(buffer)?;
                header = if tagged { read.behind(TAG as u16) } else { read };
                Ok((start, end))
            });
            match received {
                Ok(Some(slot)) => {
                    let meta = packets.meta_mut(slot);
                    let len = meta.len();
                    meta.offload = header.to_offload(len as usize);
                    bytes += u64::from(len);
                }
                Ok(None) => break,
                Err(error) => {
                    self.judge(&error)?;
                    break;
                }
            }
        }
        Ok(Received { slots: first..packets.taken(), bytes })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// A transmit queue.
pub(super) struct PacketTx {
    socket: Arc<OwnedFd>,
    port: Arc<str>,
    vnet: bool,
}

impl PacketTx {
    pub(super) fn new(socket: Arc<OwnedFd>, port: Arc<str>, vnet: bool) -> Self {
        Self { socket, port, vnet }
    }
}

impl TxQueue for PacketTx {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let mut sent = Sent::default();
        for slot in slots {
            let len = packets.meta(*slot).len();
            let Some(header) = VnetHeader::of(packets.meta(*slot)) else {
                sent.stop = Stop::Refused;
                break;
            };
            let written = loop {
                let before = header.as_bytes().get(..prefix(self.vnet)).unwrap_or_default();
                match packets.write_fd(*slot, before, &*self.socket) {
                    Err(error) if errno(&error) == Errno::INTR => {}
                    written => break written,
                }
            };
            match written {
                Ok(_) => {
                    sent.packets += 1;
                    sent.bytes += u64::from(len);
                }
                Err(error) => {
                    sent.stop = match errno(&error) {
                        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => Stop::Full,
                        Errno::NETDOWN => Stop::Down,
                        Errno::INVAL | Errno::MSGSIZE => Stop::Refused,
                        _ => return Err(fault(&self.port, &error)),
                    };
                    break;
                }
            }
        }
        Ok(sent)
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn fault(port: &str, error: &io::Error) -> PortFault {
    let reason = match errno(error) {
        Errno::NETDOWN | Errno::NXIO | Errno::NODEV => format!("{port} was deleted"),
        _ => format!("{port}: {error}"),
    };
    PortFault { reason }
}
