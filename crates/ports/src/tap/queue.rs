//! The queues of a device.

use crate::vnet::{self, VnetHeader};
use graph::IfIndex;
use graph::port::{PortFault, Received, RxQueue, Sent, Stop, TxQueue};
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Room for the longest packet there is (64 KiB), its link header with tags, and the `virtio_net_hdr`.
const BUFFER: usize = 66 * 1024;

/// A receive queue.
pub(super) struct TapRx {
    file: Arc<OwnedFd>,
    port: Arc<str>,
}

impl TapRx {
    pub(super) fn new(file: Arc<OwnedFd>, port: Arc<str>) -> Self {
        Self { file, port }
    }
}

impl RxQueue for TapRx {
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
                let n = rustix::io::read(&*self.file, &mut *buffer)?;
                header = VnetHeader::read_from_prefix(buffer)
                    .map_or_else(|_| VnetHeader::default(), |read| read.0);
                Ok((vnet::LEN, n))
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
                    _ => return Err(fault(&self.port, &error)),
                },
            }
        }
        Ok(Received { slots: first..packets.taken(), bytes })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// A transmit queue.
pub(super) struct TapTx {
    file: Arc<OwnedFd>,
    port: Arc<str>,
}

impl TapTx {
    pub(super) fn new(file: Arc<OwnedFd>, port: Arc<str>) -> Self {
        Self { file, port }
    }
}

impl TxQueue for TapTx {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let mut sent = Sent::default();
        for slot in slots {
            let meta = packets.meta(*slot);
            let (len, header) = (meta.len(), VnetHeader::of(meta));
            let Some(header) = header else {
                sent.stop = Stop::Refused;
                break;
            };
            let written = loop {
                match packets.write_fd(*slot, header.as_bytes(), &*self.file) {
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
                        // What the kernel says while the device is set down.
                        Errno::IO => Stop::Down,
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
        Errno::BADFD => format!("{port} was deleted"),
        _ => format!("{port}: {error}"),
    };
    PortFault { reason }
}
