//! The side that answers.

use crate::stateful::address::Address;
use crate::stateful::clock::Now;
use crate::stateful::counts::Counts;
use crate::stateful::endpoint::Endpoint;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::{Datagram, TAG_LEN};
use core::marker::PhantomData;

/// Servers: they answer every request that begins with our tag, at whatever address and port, with its own tag.
#[derive(Debug)]
pub struct Server<A> {
    response: u16,
    counts: Counts,
    addresses: PhantomData<A>,
}

impl<A: Address> Server<A> {
    /// Servers whose responses have `response` bytes.
    #[must_use]
    pub fn new(response: u16) -> Self {
        Self { response: response.max(TAG_LEN), counts: Counts::default(), addresses: PhantomData }
    }
}

impl<A: Address> Endpoint for Server<A> {
    type Packet = Datagram<A>;

    #[inline(always)]
    fn place(&self, _: &Datagram<A>) -> u32 {
        0
    }

    #[inline(always)]
    fn arrive(&mut self, _: u32, request: &Datagram<A>, _: Now, out: &mut Outbox<Datagram<A>>) {
        let first = u64::from(request.turn == 0);
        self.counts.attempted += first;
        self.counts.established += first;
        // Nothing is kept that could be closed later.
        self.counts.closed += first;
        self.counts.messages += 1;
        self.counts.bytes += u64::from(request.len);
        out.push(Datagram {
            src: request.dst,
            dst: request.src,
            src_port: request.dst_port,
            dst_port: request.src_port,
            len: self.response,
            ..*request
        });
    }

    fn expire(&mut self, _: Now, _: &mut Outbox<Datagram<A>>) {}

    fn counts(&self) -> &Counts {
        &self.counts
    }
}
