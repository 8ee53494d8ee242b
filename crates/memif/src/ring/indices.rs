//! The shared words of a ring and their memory ordering.
//!
//! Generic over the atomic type: in production a 16-bit word of shared memory, under loom its model of one,
//! so that what is checked is what runs (`model`).

use std::sync::atomic::{self, AtomicU16, Ordering};

use super::{Cursor, IndexFault, RingSize};

/// A shared 16-bit word.
pub trait Word {
    /// Reads it.
    fn load(&self, ordering: Ordering) -> u16;
    /// Writes it.
    fn store(&self, value: u16, ordering: Ordering);
    /// A fence of the same memory model.
    fn fence(ordering: Ordering);
}

impl Word for AtomicU16 {
    #[inline(always)]
    fn load(&self, ordering: Ordering) -> u16 {
        Self::load(self, ordering)
    }

    #[inline(always)]
    fn store(&self, value: u16, ordering: Ordering) {
        Self::store(self, value, ordering);
    }

    #[inline(always)]
    fn fence(ordering: Ordering) {
        atomic::fence(ordering);
    }
}

/// Flag bit: the consumer polls, don't signal.
const MASK_INT: u16 = 1;

/// The three words of a ring that both sides use.
#[derive(Debug, Clone, Copy)]
pub struct Indices<'r, W> {
    /// Written by the client.
    pub head: &'r W,
    /// Written by the server.
    pub tail: &'r W,
    /// Written by the consumer.
    pub flags: &'r W,
}

impl<W: Word> Indices<'_, W> {
    /// Whether the consumer has asked for no signals.
    pub fn masked(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & MASK_INT != 0
    }
}

/// One side of one ring: which word is ours, and what to add to it and to the peer's so that one [`Cursor`]
/// serves all four kinds of queue (table in the module documentation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    client: bool,
    peer_bias: u16,
    own_bias: u16,
}

impl Endpoint {
    /// The server's end of a ring, either direction.
    #[must_use]
    pub const fn server() -> Self {
        Self { client: false, peer_bias: 0, own_bias: 0 }
    }

    /// The client's end of a ring it receives from.
    #[must_use]
    pub const fn client_rx(size: RingSize) -> Self {
        Self { client: true, peer_bias: 0, own_bias: size.descriptors() }
    }

    /// The client's end of a ring it sends to.
    #[must_use]
    pub const fn client_tx(size: RingSize) -> Self {
        Self { client: true, peer_bias: size.descriptors(), own_bias: 0 }
    }

    /// Whether this is the client's end.
    #[must_use]
    pub const fn is_client(self) -> bool {
        self.client
    }

    /// How many slots may be taken. Everything the peer wrote to them before it published its index is
    /// visible afterwards.
    ///
    /// # Errors
    /// [`IndexFault`] if the peer's index is impossible.
    #[inline(always)]
    pub fn available<W: Word>(self, words: Indices<'_, W>, cursor: &Cursor) -> Result<u16, IndexFault> {
        cursor.available(self.reached(words))
    }

    /// How far the peer has come, as our cursor counts; it may say anything.
    #[inline(always)]
    pub fn reached<W: Word>(self, words: Indices<'_, W>) -> u16 {
        let peer = if self.client { words.tail } else { words.head };
        peer.load(Ordering::Acquire).wrapping_add(self.peer_bias)
    }

    /// Publishes that everything up to `released` is the peer's again, with all that was written to it.
    #[inline(always)]
    pub fn publish<W: Word>(self, words: Indices<'_, W>, released: u16) {
        let own = if self.client { words.head } else { words.tail };
        own.store(released.wrapping_add(self.own_bias), Ordering::Release);
    }

    /// Consumer: asks for no signals.
    #[inline]
    pub fn disarm<W: Word>(self, words: Indices<'_, W>) {
        words.flags.store(MASK_INT, Ordering::Relaxed);
    }

    /// Consumer: asks for a signal and looks once more, so that what was published before the producer could
    /// see that is not slept over. Gives what [`available`](Self::available) gives.
    ///
    /// # Errors
    /// [`IndexFault`] if the peer's index is impossible.
    #[inline]
    pub fn arm<W: Word>(self, words: Indices<'_, W>, cursor: &Cursor) -> Result<u16, IndexFault> {
        words.flags.store(0, Ordering::Relaxed);
        // Pairs with the fence in `wanted`: either the producer sees the cleared flag, or we see its index.
        W::fence(Ordering::SeqCst);
        self.available(words, cursor)
    }

    /// Producer, after publishing: whether the consumer wants a signal.
    #[inline]
    pub fn wanted<W: Word>(self, words: Indices<'_, W>) -> bool {
        W::fence(Ordering::SeqCst);
        !words.masked()
    }
}

#[cfg(all(test, loom))]
mod model;
