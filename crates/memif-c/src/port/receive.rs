//! Receiving: what a queue lends, and what waits of it.

use std::collections::VecDeque;
use std::sync::Arc;

use memif::Reason;
use rustix::io::Errno;

use super::{Port, lock};
use crate::lend::{Held, Lent, Piece, Sink, whole_packet};
use crate::link::Link;
use crate::status::{Failure, Status};

impl Port {
    /// Receives pieces of packets that are there into `out`; gives how many. They stay readable until
    /// [`release`](Self::release), also if the link goes down; the peer may change their bytes at any time.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue, [`Status::Fault`].
    pub fn receive(&self, queue: usize, out: impl FnMut(Piece), max: usize) -> Result<usize, Failure> {
        let (link, lent) = self.to_receive(queue)?;
        self.receive_into(link, &mut lock(lent), queue, out, max)
    }

    /// Gives the pieces of one packet that is there to `out`, and its slots back when `out` has seen all of them; without effect if there is
    /// none. Of several threads none gets in between.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn read(&self, queue: usize, mut out: impl FnMut(Piece)) -> Result<(), Failure> {
        let (link, lent) = self.to_receive(queue)?;
        let lent = &mut *lock(lent);
        let mut more = false;
        let one = |piece: Piece| {
            more = piece.more;
            out(piece);
        };
        self.receive_into(link, lent, queue, one, 1)?;
        if more
            && let Some(Held { rest, kept, .. }) = lent
            && let Some(pieces) = whole_packet(rest, usize::MAX, 0)
        {
            *kept += pieces;
            rest.drain(..pieces).for_each(out);
        }
        self.give_back(lent, queue, usize::MAX);
        Ok(())
    }

    /// The link, and what the queue has lent.
    fn to_receive(&self, queue: usize) -> Result<(Arc<Link>, &std::sync::Mutex<Lent>), Failure> {
        let link = self.up_rx(queue)?;
        match self.lent.get(queue) {
            Some(lent) => Ok((link, lent)),
            None => Err(self.no_queue("receive from", queue, link.rx.len())),
        }
    }

    fn receive_into(
        &self,
        link: Arc<Link>,
        lent: &mut Lent,
        queue: usize,
        mut out: impl FnMut(Piece),
        max: usize,
    ) -> Result<usize, Failure> {
        let Some(rx) = link.rx.get(queue) else {
            return Err(self.no_queue("receive from", queue, link.rx.len()));
        };
        // What nobody has got of an earlier connection nobody gets.
        lent.take_if(|held| held.kept == 0 && !Arc::ptr_eq(&held.link, &link));
        let mut first = VecDeque::new();
        let rest = match lent {
            Some(held) if !Arc::ptr_eq(&held.link, &link) => {
                let text = "release what was received over the last connection first";
                return Err(Failure::new(Status::Invalid, &self.name, text).with_errno(Errno::BUSY));
            }
            Some(held) => &mut held.rest,
            None => &mut first,
        };
        let mut given = 0;
        while let Some(pieces) = whole_packet(rest, max, given) {
            rest.drain(..pieces).for_each(&mut out);
            given += pieces;
        }
        if given == max || !rest.is_empty() {
            if let Some(held) = lent {
                held.kept += given;
            }
            return Ok(given);
        }
        let mut sink = Sink { out, given, max, rest };
        let received = lock(rx).receive(max - given, &mut sink);
        let Sink { mut out, mut given, rest, .. } = sink;
        if let Err(error) = received {
            // Of this call nothing is given out; what was given out before keeps its connection.
            rest.clear();
            return Err(self.broken(&link, &Reason::from(error.fault)));
        }
        // The first packet has more pieces than the array has places.
        if given == 0
            && let Some(pieces) = whole_packet(rest, max, 0)
        {
            rest.drain(..pieces).for_each(&mut out);
            given = pieces;
        }
        if given > 0 {
            lent.get_or_insert_with(|| Held { link, rest: first, kept: 0 }).kept += given;
        }
        Ok(given)
    }

    /// Gives all slots back that were received from: nobody uses their bytes any more. Without effect if there are none, or while
    /// pieces wait for the next `receive`; those of a link that is down wait no more, they are lost.
    ///
    /// # Errors
    /// [`Status::Invalid`] if there is no such queue.
    pub fn release(&self, queue: usize) -> Result<(), Failure> {
        self.release_first(queue, usize::MAX)
    }

    /// Gives back what was received first, so many pieces; where that is all that was received, as [`release`](Self::release). The slots of
    /// empty parts of packets, which make no pieces, are given back with the last.
    ///
    /// # Errors
    /// [`Status::Invalid`] if there is no such queue.
    pub fn release_first(&self, queue: usize, pieces: usize) -> Result<(), Failure> {
        let lent = self.lent.get(queue).ok_or_else(|| self.no_queue("release", queue, 256))?;
        self.give_back(&mut lock(lent), queue, pieces);
        Ok(())
    }

    fn give_back(&self, lent: &mut Lent, queue: usize, pieces: usize) {
        if let Some(held) = lent {
            if let Some(left) = held.kept.checked_sub(pieces).filter(|left| *left > 0) {
                held.kept = left;
                if let Some(rx) = held.link.rx.get(queue) {
                    // No piece lies in an earlier slot than that of its number.
                    lock(rx).release_first(pieces.try_into().unwrap_or(u16::MAX));
                }
                return;
            }
            held.kept = 0;
        }
        let waits = |held: &Held| self.link().is_some_and(|now| held.waits(&now));
        if let Some(held) = lent.take_if(|held| !waits(held))
            && let Some(rx) = held.link.rx.get(queue)
        {
            lock(rx).release();
        }
    }

    /// Whether a queue has something to receive.
    ///
    /// # Errors
    /// [`Status::Down`], [`Status::Invalid`] if there is no such queue.
    pub fn ready(&self, queue: usize) -> Result<bool, Failure> {
        let link = self.up_rx(queue)?;
        if self.waits(&link, queue) {
            return Ok(true);
        }
        let ready = self.sleepers.look(|waited_for| link.ready(queue, waited_for));
        ready.ok_or_else(|| self.no_queue("receive from", queue, link.rx.len()))
    }

    pub(crate) fn has_packets(&self) -> bool {
        self.link().is_some_and(|link| {
            self.any_waits(&link) || self.sleepers.look(|waited_for| link.any_ready(waited_for))
        })
    }

    /// Whether pieces of this link wait for the next `receive`: they aren't in the ring any more. Not under the sleepers' lock: who finds a fault tells
    /// them while it has what is lent.
    fn waits(&self, link: &Arc<Link>, queue: usize) -> bool {
        self.lent.get(queue).is_some_and(|lent| lock(lent).as_ref().is_some_and(|held| held.waits(link)))
    }

    /// The same for all queues.
    pub(super) fn any_waits(&self, link: &Arc<Link>) -> bool {
        (0..link.rx.len()).any(|queue| self.waits(link, queue))
    }
}
