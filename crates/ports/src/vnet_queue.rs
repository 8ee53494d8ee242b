//! Queues of devices that put a `virtio_net_hdr` before each packet: what taps and packet sockets have in common.
//!
//! A packet is received straight into the worker's private memory and sent with one `writev` of header, head and body. The
//! body may still lie in the shared memory of whoever sent it, so that a page of *theirs* that is gone is met in *our*
//! system call: that is the sender's fault, and the device goes on.

use crate::vnet::VnetHeader;
use graph::IfIndex;
use graph::port::{PortFault, Received, RxQueue, Sent, Stop, TxQueue};
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Room for the longest packet there is (64 KiB), its link header with tags, and the `virtio_net_hdr`.
const BUFFER: usize = 66 * 1024;

/// What differs between kinds of device.
pub(crate) trait Device: Send {
    /// What sending fails with while the device is set down.
    const DOWN: Errno;
    /// What its queues fail with when the device was deleted.
    const GONE: &'static [Errno];

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
        max: usize,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let mut bytes = 0;
        let max = max.min(packets.free());
        while packets.taken() - first < max {
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

/// A transmit queue.
pub(crate) struct VnetTx<D> {
    device: D,
    /// For people.
    port: Arc<str>,
}

impl<D> VnetTx<D> {
    pub(crate) fn new(device: D, port: Arc<str>) -> Self {
        Self { device, port }
    }
}

impl<D: Device> TxQueue for VnetTx<D> {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let mut sent = Sent::default();
        for slot in slots {
            let meta = packets.meta(*slot);
            let (len, header) = (meta.len(), VnetHeader::of(meta));
            let Some(header) = header else {
                sent.stop = Stop::Refused;
                break;
            };
            let before = header.as_bytes().get(..self.device.prefix()).unwrap_or_default();
            let written = loop {
                match packets.write_fd(*slot, before, self.device.fd()) {
                    Err(error) if errno(&error) == Errno::INTR => {}
                    written => break written,
                }
            };
            let Err(error) = written else {
                sent.packets += 1;
                sent.bytes += u64::from(len);
                continue;
            };
            sent.stop = match errno(&error) {
                Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => Stop::Full,
                Errno::INVAL | Errno::MSGSIZE => Stop::Refused,
                Errno::FAULT => {
                    expose(packets, *slot);
                    Stop::Unreadable
                }
                errno if errno == D::DOWN => Stop::Down,
                _ => return Err(fault::<D>(&self.port, &error)),
            };
            break;
        }
        Ok(sent)
    }
}

/// Reads the packet ourselves: where pages of its body are gone, the region they were in is marked as lost and its owner's
/// link ends with the next look at it, for the kernel's refusal told nobody.
#[cold]
fn expose(packets: &Packets, slot: SlotId) {
    let mut copy = vec![0; packets.meta(slot).len() as usize];
    packets.copy_out(slot, &mut copy);
    core::hint::black_box(&copy);
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn fault<D: Device>(port: &str, error: &io::Error) -> PortFault {
    let reason = match errno(error) {
        errno if D::GONE.contains(&errno) => format!("{port} was deleted"),
        _ => format!("{port}: {error}"),
    };
    PortFault { kind: "device", reason }
}
