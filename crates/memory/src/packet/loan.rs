//! Memory of packets that somebody reads after they were sent.

use super::slots::Packets;
use core::mem;
use std::sync::Arc;

/// Somebody reads bodies of the round: while this is there, the memory they lie in is neither freed nor used again, whatever becomes of
/// the [`Packets`]. Made by [`Packets::lend`]; dropping it gives the memory back, and is due before the round ends.
#[derive(Debug)]
pub struct Loan(Arc<()>);

impl Loan {
    /// Whether these packets have lent it.
    #[must_use]
    pub fn is_of(&self, packets: &Packets) -> bool {
        packets.lent.as_ref().is_some_and(|lent| Arc::ptr_eq(lent, &self.0))
    }
}

impl Packets {
    /// Lends the memory that the bodies of the round lie in, for whoever reads them later than the call that got the packets.
    #[must_use]
    pub fn lend(&mut self) -> Loan {
        Loan(Arc::clone(self.lent.get_or_insert_with(Arc::default)))
    }

    /// Whether somebody may be reading bodies.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.as_ref().is_some_and(|lent| Arc::strong_count(lent) > 1)
    }

    /// Leaves memory that is still lent to whoever reads it, for good. Nobody comes here but by a mistake or a panic: then it is better
    /// to lose memory than to have it read when it is something else.
    #[inline]
    pub(crate) fn leave_lent(&mut self) {
        // Where nobody has ever lent any, this is all there is to be looked at.
        if self.lent.is_some() {
            self.leave_if_lent();
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_if_lent(&mut self) {
        // `get_mut` also makes what the last reader has done come before what we do.
        if self.lent.as_mut().is_some_and(|lent| Arc::get_mut(lent).is_none()) {
            mem::forget(mem::take(&mut self.scratch));
            mem::forget(mem::take(&mut self.keep));
            // The next round's loans aren't those.
            self.lent = None;
        }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.leave_lent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::SlotId;

    fn packet(packets: &mut Packets, byte: u8) -> (SlotId, *const u8) {
        let slot = packets.take(0).unwrap();
        packets.new_body(slot, 3000).unwrap().fill(byte);
        (slot, packets.live(slot).unwrap().first_start)
    }

    #[test]
    fn memory_is_used_again_once_it_is_given_back() {
        let mut packets = Packets::new();
        let (_, at) = packet(&mut packets, 1);
        let (one, other) = (packets.lend(), packets.lend());
        assert!(one.is_of(&packets) && other.is_of(&packets) && !one.is_of(&Packets::new()));
        drop((one, other));
        packets.end_round();
        assert_eq!(packet(&mut packets, 2).1, at);
    }

    #[test]
    fn what_is_lent_is_not_changed() {
        let mut packets = Packets::new();
        let (slot, at) = packet(&mut packets, 1);
        let loan = packets.lend();
        packets.pull_body(slot).unwrap().fill(2);
        // SAFETY: the loan is there, and nobody writes.
        assert!(unsafe { core::slice::from_raw_parts(at, 3000) }.iter().all(|read| *read == 1));
        drop(loan);
        let moved = packets.live(slot).unwrap().first_start;
        packets.pull_body(slot).unwrap().fill(3);
        assert_eq!(packets.live(slot).unwrap().first_start, moved, "it is private, and nobody else's");
    }

    /// Not for Miri, which reports what is left to its readers for good: just what is looked at here.
    #[cfg(not(miri))]
    #[test]
    fn memory_that_is_lent_stays_what_it_is() {
        let mut packets = Packets::new();
        let (_, at) = packet(&mut packets, 1);
        let loan = packets.lend();
        packets.end_round();
        let (_, next) = packet(&mut packets, 2);
        assert!(!loan.is_of(&packets));
        let again = packets.lend();
        drop(packets);
        for (at, byte) in [(at, 1), (next, 2)] {
            // SAFETY: the loans are there, and nobody writes.
            let body = unsafe { core::slice::from_raw_parts(at, 3000) };
            assert!(body.iter().all(|read| *read == byte));
        }
        drop((loan, again));
    }
}
