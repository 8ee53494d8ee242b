//! What the packets of a vector have in common at a node.
//!
//! Nearly all packets of a vector differ in nothing that a node's decision depends on, nor in what it makes of them: they
//! came in by one interface, their headers begin at one place, they get the same table. A node says so once per vector, as
//! a [`Shape`], and then a packet is compared and changed in a few instructions, all fields at once. A packet that doesn't
//! fit is no error: it goes the node's general way.

use super::meta::{FIELDS, Flags, Meta};
use crate::simd::Simd;
use core::mem::offset_of;
use core::ops::RangeInclusive;

/// A 16-bit field of [`Meta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
    /// [`Meta::data`].
    Data = (offset_of!(Meta, data) / 2) as u8,
    /// [`Meta::end`].
    End = (offset_of!(Meta, end) / 2) as u8,
    /// [`Meta::l2`].
    L2 = (offset_of!(Meta, l2) / 2) as u8,
    /// [`Meta::l3`].
    L3 = (offset_of!(Meta, l3) / 2) as u8,
    /// [`Meta::l4`].
    L4 = (offset_of!(Meta, l4) / 2) as u8,
    /// [`Meta::rx_if`].
    RxIf = (offset_of!(Meta, rx_if) / 2) as u8,
    /// [`Meta::tx_if`].
    TxIf = (offset_of!(Meta, tx_if) / 2) as u8,
    /// [`Meta::table`].
    Table = (offset_of!(Meta, table) / 2) as u8,
}

/// The field that holds [`Meta::arc`] below and [`Meta::flags`] above.
const ARC_FLAGS: usize = offset_of!(Meta, arc) / 2;
const _: () = assert!(offset_of!(Meta, flags) == offset_of!(Meta, arc) + 1);

/// What fields a packet must have, and what fields it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Shape {
    /// Bits that are looked at ...
    look: [u16; FIELDS],
    /// ... of which the value is at least this ...
    low: [u16; FIELDS],
    /// ... and at most this much more.
    span: [u16; FIELDS],
    /// Bits that stay.
    keep: [u16; FIELDS],
    /// Bits that are set.
    set: [u16; FIELDS],
}

impl Shape {
    /// Every packet fits, and nothing is changed.
    pub const ANY: Self = Self {
        look: [0; FIELDS],
        low: [0; FIELDS],
        span: [0; FIELDS],
        keep: [u16::MAX; FIELDS],
        set: [0; FIELDS],
    };

    /// No packet fits.
    pub const NONE: Self = Self { low: [1; FIELDS], ..Self::ANY };

    /// And the field is within `values`.
    #[must_use]
    #[inline(always)]
    pub const fn expect(mut self, field: Field, values: RangeInclusive<u16>) -> Self {
        let at = field as usize;
        self.look[at] = u16::MAX;
        self.low[at] = *values.start();
        self.span[at] = values.end().saturating_sub(*values.start());
        self
    }

    /// And none of these flags is set.
    #[must_use]
    #[inline(always)]
    pub const fn without(mut self, flags: Flags) -> Self {
        self.look[ARC_FLAGS] |= u16::from_ne_bytes([0, flags.bits()]);
        self
    }

    /// The field gets this value.
    #[must_use]
    #[inline(always)]
    pub const fn put(mut self, field: Field, value: u16) -> Self {
        self.keep[field as usize] = 0;
        self.set[field as usize] = value;
        self
    }

    /// [`Meta::next_hop`] gets this value.
    #[must_use]
    #[inline(always)]
    pub const fn put_next_hop(mut self, id: u32) -> Self {
        let at = offset_of!(Meta, next_hop) / 2;
        let [a, b, c, d] = id.to_ne_bytes();
        (self.keep[at], self.keep[at + 1]) = (0, 0);
        (self.set[at], self.set[at + 1]) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        self
    }

    /// [`Meta::arc`] becomes 0: the packet begins an arc.
    #[must_use]
    #[inline(always)]
    pub const fn begin_arc(mut self) -> Self {
        self.keep[ARC_FLAGS] &= u16::from_ne_bytes([0, u8::MAX]);
        self
    }

    /// Flags that are cleared, and then flags that are set.
    #[must_use]
    #[inline(always)]
    pub const fn put_flags(mut self, clear: Flags, set: Flags) -> Self {
        self.keep[ARC_FLAGS] &= u16::from_ne_bytes([u8::MAX, !clear.bits()]);
        self.set[ARC_FLAGS] |= u16::from_ne_bytes([0, set.bits()]);
        self
    }

    /// Whether the packet is as expected.
    #[must_use]
    #[inline(always)]
    pub fn fits(&self, simd: impl Simd, meta: &Meta) -> bool {
        simd.within(meta.fields(), &self.look, &self.low, &self.span)
    }

    /// Makes the changes.
    #[inline(always)]
    pub fn apply(&self, simd: impl Simd, meta: &mut Meta) {
        simd.patch(meta.fields_mut(), &self.keep, &self.set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Scalar;

    fn meta() -> Meta {
        let mut meta = Meta::new(7);
        (meta.data, meta.end, meta.l2, meta.l3, meta.l4) = (130, 190, 128, 142, 162);
        (meta.tx_if, meta.table, meta.next_hop, meta.flow_hash) = (9, 3, 0xdead_beef, 0x0bad_cafe);
        (meta.arc, meta.trace) = (5, 11);
        meta.flags.set(Flags::LOCAL);
        meta
    }

    #[test]
    fn a_field_is_held_against_its_range_and_no_other() {
        let meta = meta();
        for (field, value) in [
            (Field::Data, 130),
            (Field::End, 190),
            (Field::L2, 128),
            (Field::L3, 142),
            (Field::L4, 162),
            (Field::RxIf, 7),
            (Field::TxIf, 9),
            (Field::Table, 3),
        ] {
            for (low, high, fits) in [
                (value, value, true),
                (0, value, true),
                (value, u16::MAX, true),
                (0, u16::MAX, true),
                (value + 1, u16::MAX, false),
                (0, value - 1, false),
            ] {
                assert_eq!(
                    Shape::ANY.expect(field, low..=high).fits(Scalar, &meta),
                    fits,
                    "{field:?} {low}..={high}"
                );
            }
        }
        assert!(
            Shape::ANY.fits(Scalar, &meta)
                && !Shape::NONE.fits(Scalar, &meta)
                && !Shape::NONE.fits(Scalar, &Meta::new(0))
        );
    }

    #[test]
    fn flags_can_be_asked_for_whatever_the_arc() {
        let mut meta = meta();
        assert!(!Shape::ANY.without(Flags::LOCAL).fits(Scalar, &meta));
        assert!(Shape::ANY.without(Flags::GROUP).without(Flags::OUR_MAC).fits(Scalar, &meta));
        meta.flags.set(Flags::OUR_MAC);
        assert!(!Shape::ANY.without(Flags::GROUP).without(Flags::OUR_MAC).fits(Scalar, &meta));
    }

    #[test]
    fn changes_are_made_where_asked_and_nowhere_else() {
        let mut changed = meta();
        Shape::ANY.apply(Scalar, &mut changed);
        assert_eq!(format!("{changed:?}"), format!("{:?}", meta()));
        Shape::ANY
            .put(Field::Data, 142)
            .put(Field::TxIf, 0)
            .begin_arc()
            .put_flags(Flags::LOCAL, Flags::OUR_MAC)
            .apply(Scalar, &mut changed);
        let mut wanted = meta();
        (wanted.data, wanted.tx_if, wanted.arc) = (142, 0, 0);
        wanted.flags.clear(Flags::LOCAL);
        wanted.flags.set(Flags::OUR_MAC);
        assert_eq!(format!("{changed:?}"), format!("{wanted:?}"));
    }
}
