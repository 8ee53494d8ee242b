//! The fast end of forwarding: packets to one next hop whose IP headers begin at one place.

use super::next_hop::MAX_REWRITE;
use super::output::Lane;
use super::rewrite::Forwards;
use graph::IfIndex;
use graph::packet::{Field, Flags, HEAD_AREA, Meta, Shape};
use graph::simd::Simd;

/// Length in bytes of the link-layer header that is put in front: Ethernet without tags. Where there is none, as to interfaces of IP packets, none is; others go
/// the general way.
const HEADER: usize = 14;

/// What packets to a next hop have to be like, and what is made of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// What `shape` was made for: where the IP header begins, how long it is at least, the interface to leave by, and how long the link-layer header is.
    made_for: (u16, u16, u16, u8),
    shape: Shape,
    /// Where a link-layer header begins. Where there is none, the free bytes there are written all the same: to ask would cost all others more.
    before: usize,
    header: [u8; HEADER],
    mtu: u32,
}

impl Usual {
    /// No packet.
    pub(crate) const NONE: Self =
        Self { made_for: (0, 0, 0, 0), shape: Shape::NONE, before: 0, header: [0; HEADER], mtu: 0 };

    /// Becomes that of the packets of `lane` whose IP headers begin at `at` and have `len` bytes or more.
    #[inline(always)]
    pub(crate) fn adapt(&mut self, lane: &Lane<'_>, at: u16, len: u16) {
        let hop = lane.hop;
        if ![0, HEADER].contains(&hop.header_len.into()) || at < MAX_REWRITE as u16 {
            *self = Self::NONE;
            return;
        }
        let made_for = (at, len, hop.tx_if, hop.header_len);
        if self.made_for != made_for {
            self.made_for = made_for;
            self.before = usize::from(at) - HEADER;
            self.shape = shape(made_for);
        }
        // The MTU is 0 where the lane is closed.
        self.mtu = lane.mtu;
        if let Some(header) = hop.header.first_chunk() {
            self.header = *header;
        }
    }

    /// Sends a packet on: it has one hop less, and the link-layer header is put in front. Gives its length before that. `None`,
    /// and nothing changed, where the packet is another or [`Forwards::take_hop`] says so.
    #[inline(always)]
    pub(crate) fn send<F: Forwards>(
        &self,
        simd: impl Simd,
        meta: &mut Meta,
        area: &mut [u8; HEAD_AREA],
    ) -> Option<u32> {
        let (header, rest) = area.get_mut(self.before..)?.split_first_chunk_mut()?;
        let ip = F::bytes_mut(rest)?;
        if !self.shape.fits(simd, meta) {
            return None;
        }
        let len = meta.len();
        if len > self.mtu || !F::take_hop(ip) {
            return None;
        }
        *header = self.header;
        self.shape.apply(simd, meta);
        Some(len)
    }
}

/// Of packets whose IP headers begin at `at` and have `len` bytes or more, on their way to interface `tx_if`, which get so long a header.
#[inline(never)]
fn shape((at, len, tx_if, header_len): (u16, u16, IfIndex, u8)) -> Shape {
    let data = at - u16::from(header_len);
    Shape::ANY
        .expect(Field::Data, at..=at)
        .expect(Field::End, at + len..=HEAD_AREA as u16)
        .without(Flags::LOCAL)
        .put(Field::Data, data)
        .put(Field::L2, data)
        .put(Field::TxIf, tx_if)
        .begin_arc()
}
