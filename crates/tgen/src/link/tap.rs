//! A Linux interface of its own, whose other side we are.

use super::private::{Device, PrivateLink};
use super::{LinkError, netns};
use std::fs::File;
use std::io::{self, Read, Seek};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Counters of the network namespace's devices, a line each.
const DEVICES: &str = "/proc/thread-self/net/dev";
/// Column of [`DEVICES`] with frames to be sent that the device dropped, counted from the one behind its name.
const TX_DROPPED: usize = 11;

struct Tap {
    device: SyncDevice,
    name: String,
    /// [`DEVICES`] of the device's namespace.
    counters: File,
    /// What it said last.
    dropped: u64,
}

impl core::fmt::Debug for Tap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tap").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Makes the tap, or takes an existing one that nobody uses, and sets it up.
pub(super) fn open(name: &str, device: &str, netns: Option<&str>) -> Result<PrivateLink, LinkError> {
    netns::within(name, netns, || {
        let failed = |error| LinkError::system(name, "make a tap", error);
        let tap = DeviceBuilder::new().name(device).layer(Layer::L2).build_sync().map_err(failed)?;
        tap.set_nonblocking(true).map_err(failed)?;
        let counters =
            File::open(DEVICES).map_err(|error| LinkError::system(name, "read its counters", error))?;
        let mut tap = Tap { device: tap, name: device.into(), counters, dropped: 0 };
        tap.dropped().map_err(|error| LinkError::system(name, "read its counters", error))?;
        Ok(PrivateLink::new(name, Box::new(tap)))
    })
}

impl Device for Tap {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.device.send(frame).map(drop)
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        self.device.recv(into)
    }

    /// What the kernel sends by a tap is what we receive.
    fn dropped(&mut self) -> io::Result<u64> {
        let mut text = String::new();
        self.counters.rewind()?;
        self.counters.read_to_string(&mut text)?;
        let all = tx_dropped(&text, &self.name).ok_or(io::ErrorKind::NotFound)?;
        let before = core::mem::replace(&mut self.dropped, all);
        Ok(all.saturating_sub(before))
    }
}

fn tx_dropped(devices: &str, name: &str) -> Option<u64> {
    let mut lines = devices.lines().filter_map(|line| line.split_once(':'));
    let (_, counters) = lines.find(|(found, _)| found.trim() == name)?;
    counters.split_whitespace().nth(TX_DROPPED)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::tx_dropped;

    #[test]
    fn the_column_is_that_of_dropped_frames() {
        // As Linux writes it, with another number in each column of t0.
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
                    lo:    9024      94    0    0    0     0          0         0     9024      94    0    0    0     0       0          0\n    \
                    t0:       1       2    3    4    5     6          7         8        9      10   11 4711   13    14      15         16\n";
        assert_eq!((tx_dropped(text, "t0"), tx_dropped(text, "lo")), (Some(4711), Some(0)));
        assert_eq!(tx_dropped(text, "t"), None);
    }
}
