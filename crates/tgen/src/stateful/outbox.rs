//! Packets on their way to a ring.

/// Packets that state machines want to send, until the ring has room.
#[derive(Clone, Debug)]
pub struct Outbox<P> {
    packets: Vec<P>,
    sent: usize,
    limit: usize,
    unsent: u64,
}

impl<P: Copy> Outbox<P> {
    /// An empty one for up to `limit` packets.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { packets: Vec::with_capacity(limit), sent: 0, limit, unsent: 0 }
    }

    /// Adds a packet. Where the ring stays full for long it is lost, as on a wire, and counted.
    #[inline(always)]
    pub fn push(&mut self, packet: P) {
        if self.packets.len() < self.limit {
            self.packets.push(packet);
        } else {
            self.unsent += 1;
        }
    }

    /// What waits.
    #[inline(always)]
    #[must_use]
    pub fn waiting(&self) -> &[P] {
        self.packets.get(self.sent..).unwrap_or_default()
    }

    /// The first `n` of those that wait are gone.
    #[inline(always)]
    pub fn done(&mut self, n: usize) {
        self.sent += n;
        if self.sent >= self.packets.len() {
            self.packets.clear();
            self.sent = 0;
        } else if self.sent * 2 >= self.limit {
            self.packets.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Packets that were lost here, the ring being full.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.unsent
    }
}
