//! The fast way through `ip4-input` and `ip6-input`: packets of one interface whose headers begin at one place.

use super::input::Arrives;
use graph::IfIndex;
use graph::packet::{Field, Flags, HEAD_AREA, Meta, Shape};
use graph::simd::Simd;

/// What such packets have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) rx_if: IfIndex,
    /// Where the header begins.
    pub(crate) at: u16,
    pub(crate) vrf: u16,
    /// First edge of the arc, 0 where there is none.
    pub(crate) edge: u8,
    /// Of those that can be forwarded.
    shape: Shape,
}

impl Arrival {
    /// No packet.
    pub(crate) const NONE: Self = Self { rx_if: 0, at: 0, vrf: 0, edge: 0, shape: Shape::NONE };

    /// Packets of interface `rx_if`, of table `vrf`, with a header of `len` bytes at `at`, go to `edge`.
    #[inline(never)]
    pub(crate) fn new(rx_if: IfIndex, at: u16, len: u16, vrf: u16, edge: u8) -> Self {
        let end = at + len;
        let shape = Shape::ANY
            .expect(Field::RxIf, rx_if..=rx_if)
            .expect(Field::Data, at..=at)
            .expect(Field::End, end..=HEAD_AREA as u16)
            .without(Flags::GROUP)
            .put(Field::L3, at)
            .put(Field::L4, end)
            .put(Field::Table, vrf)
            .begin_arc();
        Self { rx_if, at, vrf, edge, shape: if edge == 0 { Shape::NONE } else { shape } }
    }

    /// Deals with a packet that is one of these, and whose header [passes](Arrives::passes): short ones lose the padding that
    /// Ethernet wants behind them. False, and nothing changed, where it isn't.
    #[inline(always)]
    pub(crate) fn take<F: Arrives>(&self, simd: impl Simd, meta: &mut Meta, area: &[u8; HEAD_AREA]) -> bool {
        let Some(header) = F::bytes_at(area, self.at) else { return false };
        // Before the row is loaded: the compiler would pick the numbers out of its register, at three times the cost.
        let end = meta.end_of(self.at, F::length(header));
        let padded = end != u32::from(meta.end);
        let usual = (!padded || meta.exceeds(end)) && self.shape.fits(simd, meta) && F::passes(header);
        if usual {
            // In this order: the row is loaded whole, which has to wait for a narrower store into it.
            self.shape.apply(simd, meta);
            if padded {
                meta.end = end as u16;
            }
        }
        usual
    }
}
