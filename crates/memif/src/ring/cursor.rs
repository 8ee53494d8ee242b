//! Index arithmetic of one side of a ring: pure, without memory, without ordering.

use super::RingSize;

/// The peer's index is at an impossible distance: it claims more slots than the ring has, or takes back what
/// was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("index {index} is impossible: at {taken}, with {held} of {size} slots held")]
pub struct IndexFault {
    /// What the peer wrote, with the queue's constant added.
    pub index: u16,
    /// Our next index.
    pub taken: u16,
    /// Slots taken and not given back.
    pub held: u16,
    /// Slots of the ring.
    pub size: u16,
}

/// Where one side stands in a ring of free-running 16-bit indices.
///
/// ```text
///   released ≤ taken ≤ peer ≤ released + size        (all modulo 2^16)
///      held: used, not given back │ available
/// ```
/// Slots are *taken* one by one as they are used, and *released* in the same order when their use is over, usually together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    size: u16,
    taken: u16,
    released: u16,
}

impl Cursor {
    /// At the beginning of a ring.
    #[must_use]
    pub const fn new(size: RingSize) -> Self {
        Self { size: size.descriptors(), taken: 0, released: 0 }
    }

    /// How many slots may be taken, `peer` being the other side's index, which it may have written anything
    /// to.
    ///
    /// # Errors
    /// [`IndexFault`] if that is not between what was taken and what the ring can hold.
    #[inline(always)]
    pub const fn available(&self, peer: u16) -> Result<u16, IndexFault> {
        let available = peer.wrapping_sub(self.taken);
        if available > self.size - self.held() {
            return Err(IndexFault { index: peer, taken: self.taken, held: self.held(), size: self.size });
        }
        Ok(available)
    }

    /// Index of the next slot to take.
    #[inline(always)]
    #[must_use]
    pub const fn next(&self) -> u16 {
        self.taken
    }

    /// Slots taken and not released.
    #[inline(always)]
    #[must_use]
    pub const fn held(&self) -> u16 {
        self.taken.wrapping_sub(self.released)
    }

    /// First slot that is held; the following `held()` ones are, too.
    #[inline(always)]
    #[must_use]
    pub const fn first_held(&self) -> u16 {
        self.released
    }

    /// Takes `n` slots, at most as many as [`available`](Self::available) gave.
    #[inline(always)]
    pub const fn take(&mut self, n: u16) {
        debug_assert!(n <= self.size - self.held());
        self.taken = self.taken.wrapping_add(n);
    }

    /// Releases all held slots; gives the index to publish.
    #[inline(always)]
    pub const fn release(&mut self) -> u16 {
        self.released = self.taken;
        self.released
    }

    /// Releases the first `n` of the held slots, at most all; gives the index to publish.
    #[inline(always)]
    pub const fn release_first(&mut self, n: u16) -> u16 {
        let n = if n < self.held() { n } else { self.held() };
        self.released = self.released.wrapping_add(n);
        self.released
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same in numbers that never wrap, and so obviously right.
    #[derive(Debug)]
    struct Oracle {
        size: u64,
        taken: u64,
        released: u64,
        peer: u64,
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// The peer moves on by part of what it may (in 1/255).
        Peer(u8),
        Take(u8),
        Release,
        /// Of what is held, and of more than that.
        ReleaseFirst(u8),
        /// The peer writes this; the cursor must agree with the oracle on whether it is possible.
        Hostile(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => any::<u8>().prop_map(Step::Peer),
            3 => any::<u8>().prop_map(Step::Take),
            1 => Just(Step::Release),
            2 => any::<u8>().prop_map(Step::ReleaseFirst),
            1 => any::<u16>().prop_map(Step::Hostile),
        ]
    }

    fn part(of: u64, part: u8) -> u64 {
        of * u64::from(part) / 255
    }

    /// Under Miri, which is a thousand times slower, not around the ring: there is nothing unsafe in it.
    const STEPS: usize = if cfg!(miri) { 20 } else { 2000 };

    proptest! {
        /// Long enough to wrap 16 bits many times over, whatever the ring size.
        #[test]
        fn agrees_with_the_oracle(log2 in 6u8..=14, steps in prop::collection::vec(step(), 1..STEPS)) {
            let size = RingSize::from_log2(log2).unwrap();
            let mut cursor = Cursor::new(size);
            let mut oracle = Oracle { size: u64::from(size.descriptors()), taken: 0, released: 0, peer: 0 };
            for step in steps {
                match step {
                    Step::Peer(p) => oracle.peer += part(oracle.released + oracle.size - oracle.peer, p),
                    Step::Take(p) => {
                        let n = part(oracle.peer - oracle.taken, p);
                        cursor.take(n as u16);
                        oracle.taken += n;
                    }
                    Step::Release => {
                        prop_assert_eq!(cursor.release(), oracle.taken as u16);
                        oracle.released = oracle.taken;
                    }
                    Step::ReleaseFirst(p) => {
                        let n = part(2 * (oracle.taken - oracle.released), p);
                        oracle.released = (oracle.released + n).min(oracle.taken);
                        prop_assert_eq!(cursor.release_first(n as u16), oracle.released as u16);
                        prop_assert_eq!(cursor.first_held(), oracle.released as u16);
                    }
                    Step::Hostile(index) => {
                        // Possible values: the 16-bit images of taken..=released + size.
                        let possible = (oracle.taken..=oracle.released + oracle.size)
                            .find(|i| *i as u16 == index)
                            .map(|i| (i - oracle.taken) as u16);
                        prop_assert_eq!(cursor.available(index).ok(), possible);
                    }
                }
                prop_assert_eq!(cursor.available(oracle.peer as u16), Ok((oracle.peer - oracle.taken) as u16));
                prop_assert_eq!(u64::from(cursor.held()), oracle.taken - oracle.released);
                prop_assert_eq!(cursor.next(), oracle.taken as u16);
            }
        }
    }
}
