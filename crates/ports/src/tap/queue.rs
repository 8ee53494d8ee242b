//! A queue's file: what is read is received, what is written is sent.

use crate::vnet::{self, VnetHeader};
use crate::vnet_queue::Device;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use zerocopy::FromBytes;

/// A queue of a tap or tun device.
pub(super) struct TapQueue(pub(super) Arc<OwnedFd>);

impl Device for TapQueue {
    const DOWN: Errno = Errno::IO;
    const GONE: &'static [Errno] = &[Errno::BADFD];
    const SHORTEST: usize = 1;

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn prefix(&self) -> usize {
        vnet::LEN
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<(VnetHeader, usize, usize)> {
        let n = rustix::io::read(&*self.0, &mut *buffer)?;
        let header =
            VnetHeader::read_from_prefix(buffer).map_or_else(|_| VnetHeader::default(), |read| read.0);
        Ok((header, vnet::LEN, n))
    }
}
