//! Going through the packets of a vector, quickly where they lie one behind the other.

use super::meta::Meta;
use super::slots::{HEAD_AREA, HeadArea, Packets, SlotId, index};
use core::ops::Range;

/// A way through the packets of a vector: stretches that are like what went before, and between them single packets that
/// are not.
///
/// A vector that came in together and hasn't been divided since lies in consecutive slots. Then finding the next packet is
/// two additions; from the number of its slot it takes a dozen instructions, as many as some nodes have to spend on it.
#[derive(Debug)]
pub struct Vector<'s> {
    slots: &'s [SlotId],
    at: usize,
    consecutive: bool,
}

impl<'s> Vector<'s> {
    /// The way through the packets in `slots`.
    #[must_use]
    #[inline(always)]
    pub fn new(slots: &'s [SlotId]) -> Self {
        Self { slots, at: 0, consecutive: consecutive(slots) }
    }

    /// The next packet, which isn't taken yet.
    #[must_use]
    #[inline(always)]
    pub fn peek(&self) -> Option<SlotId> {
        self.slots.get(self.at).copied()
    }

    /// All packets, taken or not.
    #[must_use]
    #[inline(always)]
    pub const fn slots(&self) -> &'s [SlotId] {
        self.slots
    }

    /// A way through these places of the vector.
    #[must_use]
    #[inline(always)]
    pub fn part(&self, places: Range<usize>) -> Self {
        let slots = self.slots.get(places).unwrap_or_default();
        Self { slots, at: 0, consecutive: self.consecutive }
    }

    /// Goes on for as long as `take` takes the packet it is shown, and tells the places in the vector of those that it
    /// took. Mark the closure `#[inline(always)]`, or it is compiled for the baseline tier.
    #[inline(always)]
    pub fn stretch(
        &mut self,
        packets: &mut Packets,
        mut take: impl FnMut(&mut Meta, &mut [u8; HEAD_AREA]) -> bool,
    ) -> Range<usize> {
        let start = self.at;
        let rest = self.slots.get(start..).unwrap_or_default();
        let first = rest.first().map_or(0, |slot| index(*slot));
        let range = first..first + rest.len();
        match (packets.metas.get_mut(range.clone()), packets.heads.get_mut(range)) {
            (Some(metas), Some(heads)) if self.consecutive => {
                let all = metas.iter_mut().zip(heads.iter_mut());
                self.at += count(
                    all,
                    #[inline(always)]
                    |(slot, HeadArea(area))| take(&mut slot.meta, area),
                );
            }
            _ => {
                self.at += count(
                    rest.iter(),
                    #[inline(always)]
                    |slot| {
                        let (meta, area) = packets.parts_mut(*slot);
                        take(meta, area)
                    },
                );
            }
        }
        start..self.at
    }
}

/// The packets that no stretch has taken, with their places in the vector.
impl Iterator for Vector<'_> {
    type Item = (usize, SlotId);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let slot = *self.slots.get(at)?;
        self.at += 1;
        Some((at, slot))
    }
}

/// How many items `take` takes before the first that it doesn't.
#[inline(always)]
fn count<T>(items: impl ExactSizeIterator<Item = T>, mut take: impl FnMut(T) -> bool) -> usize {
    let all = items.len();
    for (at, item) in items.enumerate() {
        if !take(item) {
            return at;
        }
    }
    all
}

#[inline(always)]
fn consecutive(slots: &[SlotId]) -> bool {
    let Some(first) = slots.first() else { return false };
    // The whole sum of differences, for the compiler to do many at a time; nearly always it comes to nothing.
    let numbers = (*first..).zip(slots);
    numbers.fold(0, |differ, (number, slot)| differ | (number ^ slot)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::SLOTS;

    /// All slots taken, each with its number in the metadata and in the head.
    fn numbered() -> Packets {
        let mut packets = Packets::new();
        for slot in 0..SLOTS {
            let slot = packets.take(0).unwrap_or(slot as SlotId);
            packets.meta_mut(slot).tx_if = if slot % 5 == 3 { 1 } else { 2 };
            packets.meta_mut(slot).next_hop = slot.into();
            packets.parts_mut(slot).1[9] = slot as u8;
        }
        packets
    }

    /// What is seen of `slots` when every packet with an odd `tx_if` is refused by the stretch.
    fn seen(packets: &mut Packets, slots: &[SlotId]) -> Vec<(usize, SlotId, bool)> {
        let mut seen = Vec::new();
        let mut vector = Vector::new(slots);
        loop {
            let mut taken = Vec::new();
            let stretch = vector.stretch(packets, |meta, area| {
                assert_eq!(meta.next_hop as u8, area[9], "meta and head are of one packet");
                taken.push(meta.next_hop as SlotId);
                meta.tx_if % 2 == 0
            });
            seen.extend(stretch.clone().zip(taken).map(|(at, slot)| (at, slot, true)));
            match vector.next() {
                Some((at, slot)) => seen.push((at, slot, false)),
                None => return seen,
            }
        }
    }

    #[test]
    fn every_packet_is_seen_once_in_order_wherever_it_lies() {
        let last = SLOTS as SlotId - 1;
        let cases: [Vec<SlotId>; 8] = [
            vec![],
            vec![7],
            (0..256).collect(),
            (last - 9..=last).collect(),
            (0..256).rev().collect(),
            vec![4, 5, 6, 9, 10, 2, 3, 3],
            vec![3, 8, 13],
            vec![last, 0, 1],
        ];
        let mut packets = numbered();
        for slots in cases {
            let want: Vec<_> =
                slots.iter().enumerate().map(|(at, slot)| (at, *slot, slot % 5 != 3)).collect();
            assert_eq!(seen(&mut packets, &slots), want);
        }
    }
}
