//! A Linux interface of its own, whose other side we are.

use super::private::{Device, PrivateLink};
use super::{LinkError, netns};
use std::io;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

struct Tap(SyncDevice);

impl core::fmt::Debug for Tap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Tap")
    }
}

/// Makes the tap, or takes an existing one that nobody uses, and sets it up.
pub(super) fn open(name: &str, device: &str, netns: Option<&str>) -> Result<PrivateLink, LinkError> {
    netns::within(name, netns, || {
        let failed = |error| LinkError::system(name, "make a tap", error);
        let tap = DeviceBuilder::new().name(device).layer(Layer::L2).build_sync().map_err(failed)?;
        tap.set_nonblocking(true).map_err(failed)?;
        Ok(PrivateLink::new(name, Box::new(Tap(tap))))
    })
}

impl Device for Tap {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.0.recv(into).map(Some)
    }
}
