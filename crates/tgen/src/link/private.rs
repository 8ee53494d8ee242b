//! Interfaces of the kernel: frames in private memory, one system call each.

use super::{LinkError, Packets, Receiver};
use core::cell::Cell;
use memory::clock::cycles;
use std::io;

/// Room for the longest frame.
const BUFFER: usize = 66 * 1024;
/// Frames received in one go, so that sending isn't kept waiting.
const BATCH: usize = 256;

/// What a kernel interface can do. Neither of them waits.
pub(super) trait Device: Send + core::fmt::Debug {
    /// Sends one frame. [`io::ErrorKind::WouldBlock`] where there is no room now.
    fn send(&self, frame: &[u8]) -> io::Result<()>;

    /// Receives one frame; gives its length.
    fn receive(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Bytes that received frames may lack.
    fn hidden(&self) -> u32 {
        0
    }

    /// Frames that came and that the kernel has thrown away since the last call, because we have taken too few of them.
    fn dropped(&mut self) -> io::Result<u64>;
}

/// A kernel interface that is up.
#[derive(Debug)]
pub struct PrivateLink {
    name: String,
    device: Box<dyn Device>,
    buffer: Vec<u8>,
    dropped: u64,
}

impl PrivateLink {
    pub(super) fn new(name: &str, device: Box<dyn Device>) -> Self {
        Self { name: name.into(), device, buffer: vec![0; BUFFER], dropped: 0 }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn hidden(&self) -> u32 {
        self.device.hidden()
    }

    pub(super) fn transmit<P: Packets>(&mut self, n: usize, packets: &P) -> Result<usize, LinkError> {
        for packet in 0..n {
            let frame = self.buffer.get_mut(..packets.len(packet) as usize).unwrap_or_default();
            packets.write(packet, Cell::from_mut(&mut *frame).as_slice_of_cells(), true, cycles);
            match self.device.send(frame) {
                Ok(()) => {}
                Err(error) if is_full(&error) => return Ok(packet),
                Err(error) => return Err(self.lost(&error)),
            }
        }
        Ok(n)
    }

    pub(super) fn receive<R: Receiver>(&mut self, receiver: &mut R) -> Result<usize, LinkError> {
        for received in 0..BATCH {
            match self.device.receive(&mut self.buffer) {
                Ok(n) => receiver.frame(self.buffer.get(..n).unwrap_or_default()),
                Err(error) if is_full(&error) => return Ok(received),
                Err(error) => return Err(self.lost(&error)),
            }
        }
        Ok(BATCH)
    }

    pub(super) fn dropped(&mut self) -> Option<u64> {
        self.dropped += self.device.dropped().ok()?;
        Some(self.dropped)
    }

    #[cold]
    fn lost(&self, error: &io::Error) -> LinkError {
        let hint = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::MSGSIZE) => {
                " (frames are longer than its MTU: raise that, or send shorter ones)"
            }
            Some(rustix::io::Errno::NETDOWN | rustix::io::Errno::IO) => " (is it set up? ip link set … up)",
            _ => "",
        };
        LinkError::Lost { name: self.name.clone(), reason: format!("{error}{hint}") }
    }
}

/// No room to send, or nothing to receive, for now.
fn is_full(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || matches!(errno, Some(Errno::NOBUFS | Errno::NOMEM))
}
