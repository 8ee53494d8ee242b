//! Queues of devices that put a `virtio_net_hdr` before each packet: what taps and packet sockets have in common.
//!
//! A packet is received straight into the worker's private memory. What is sent goes by an [output thread](crate::output).

use crate::vnet::VnetHeader;
use graph::IfIndex;
use graph::port::{PortFault, Quota, Received, RxQueue};
use memory::packet::Packets;
use memory::simd::Tier;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Room for the longest packet there is (64 KiB), its link header with tags, and the `virtio_net_hdr`.
const BUFFER: usize = 66 * 1024;

/// What differs between kinds of device.
pub(crate) trait Device: Send {
    /// What sending fails with while the device is set down.
    const DOWN: Errno;
    /// What its queues fail with when the device was deleted.
    const GONE: &'static [Errno];

    /// Bytes of the shortest packet that it takes.
    const SHORTEST: usize = 1;

    /// What is read, written and waited for.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Bytes of the `virtio_net_hdr` in front of each packet: all or none.
    fn prefix(&self) -> usize;

    /// Receives one packet into `buffer`: its header, and where in `buffer` the packet begins and ends.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(VnetHeader, usize, usize)>;

    /// Whether an error while receiving tells of something that passes.
    fn passes(&self, _errno: Errno) -> bool {
        false
    }
}

/// A receive queue.
pub(crate) struct VnetRx<D> {
    device: D,
    /// For people.
    port: Arc<str>,
}

impl<D> VnetRx<D> {
    pub(crate) fn new(device: D, port: Arc<str>) -> Self {
        Self { device, port }
    }
}

impl<D: Device> RxQueue for VnetRx<D> {
    fn receive(
        &mut self,
        _tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let mut bytes = 0;
        let max = quota.packets.min(packets.free());
        while packets.taken() - first < max && bytes < quota.bytes {
            let mut header = VnetHeader::default();
            let received = packets.receive_private(rx_if, BUFFER, |buffer| {
                let (read, start, end) = self.device.receive(buffer)?;
                header = read;
                Ok((start, end))
            });
            match received {
                Ok(Some(slot)) => {
                    let meta = packets.meta_mut(slot);
                    let len = meta.len();
                    meta.offload = header.to_offload(len as usize);
                    bytes += u64::from(len);
                }
                // The kernel doesn't hand out packets of no bytes.
                Ok(None) => break,
                // No memory for this round: the device has nothing to do with it.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => break,
                Err(error) => match errno(&error) {
                    Errno::AGAIN => break,
                    Errno::INTR => {}
                    errno if self.device.passes(errno) => break,
                    _ => return Err(fault::<D>(&self.port, &error)),
                },
            }
        }
        Ok(Received { slots: first..packets.taken(), bytes, ..Received::default() })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.fd())
    }

    fn rests(&self) -> bool {
        true
    }
}

pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

pub(crate) fn fault<D: Device>(port: &str, error: &io::Error) -> PortFault {
    let reason = match errno(error) {
        errno if D::GONE.contains(&errno) => format!("{port} was deleted"),
        _ => format!("{port}: {error}"),
    };
    PortFault { kind: "device", reason }
}
