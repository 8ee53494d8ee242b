//! Packets copied out of rings, and slices copied into them.

use memory::region::CheckedRange;

use crate::{QueueError, RingSize, RxQueue, RxSink, TxQueue, TxSource};

/// Received packets, one after another in private memory. Allocates only while it grows to the size it is
/// used with.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each packet ends.
    ends: Vec<usize>,
    max: usize,
}

impl Batch {
    /// An empty batch that takes up to `max` packets at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        // However many it may take, a ring has no more: it grows if it is used for several.
        let first = max.min(RingSize::MAX.descriptors().into());
        Self { bytes: Vec::new(), ends: Vec::with_capacity(first), max }
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The packets, in the order in which they came.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ends.iter().enumerate().map(|(i, end)| {
            let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..*end]
        })
    }

    fn append(&mut self, part: CheckedRange<'_>) {
        let start = self.bytes.len();
        self.bytes.resize(start + part.len() as usize, 0);
        part.read(&mut self.bytes[start..]);
    }
}

impl RxSink for Batch {
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.append(bytes);
        self.ends.push(self.bytes.len());
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], _length: u32) {
        for part in parts {
            self.append(*part);
        }
        self.ends.push(self.bytes.len());
    }
}

struct Slices<'p, P>(&'p [P]);

impl<P: AsRef<[u8]>> TxSource for Slices<'_, P> {
    fn length(&mut self, packet: usize) -> u32 {
        // What is longer than 32 bits can say is longer than any ring, too.
        u32::try_from(self.0[packet].as_ref().len()).unwrap_or(u32::MAX)
    }

    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        into.write(self.0[packet].as_ref());
    }

    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        let mut rest = self.0[packet].as_ref();
        for part in into {
            rest = &rest[part.write(rest)..];
        }
    }
}

impl RxQueue {
    /// Copies packets to the end of `batch`, up to the number it was made for, and gives their slots back at
    /// once; gives how many.
    ///
    /// # Errors
    /// [`QueueError`] as [`receive`](Self::receive).
    pub fn recv_batch(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let received = self.receive(batch.max.saturating_sub(batch.len()), batch)?;
        self.release();
        Ok(received)
    }
}

impl TxQueue {
    /// Sends packets and wakes the peer if it sleeps; gives how many were dealt with: the rest found no room.
    /// Packets that can never be sent, empty or longer than the whole ring, are dropped and count as dealt
    /// with.
    ///
    /// # Errors
    /// [`QueueError`] as [`transmit`](Self::transmit).
    pub fn send_batch<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> Result<usize, QueueError> {
        let done = self.transmit(packets.len(), &mut Slices(packets))?;
        if done.sent > 0 {
            self.notify();
        }
        Ok(done.done())
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::{QueueConfig, in_process};

    /// However many it may take, it makes room for what comes.
    #[test]
    fn a_batch_may_be_of_any_size() {
        let config = QueueConfig { ring_size: RingSize::MIN, ..QueueConfig::default() };
        let (mut client, mut server) = in_process(&config).unwrap();
        for max in [1, 1 << 40, usize::MAX] {
            let mut batch = Batch::new(max);
            assert_eq!(client.tx[0].send_batch(&[[7; 60]]).unwrap(), 1);
            assert_eq!(server.rx[0].recv_batch(&mut batch).unwrap(), 1);
            assert_eq!(batch.packets().next(), Some(&[7; 60][..]));
        }
    }
}
