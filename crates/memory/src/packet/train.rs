//! Packets that go to another worker together.

use super::meta::Meta;
use super::slots::{NoSlot, Packets, SlotId};

/// Bytes with which a train is full: some dozens of full-sized frames.
const FULL: usize = 128 << 10;
/// Bytes that there is room for, the largest packet on top.
const ROOM: usize = FULL + (64 << 10);

/// A vector of packets with bytes of their own, all in one piece of memory, which is used again once they have been taken
/// out: nothing is allocated for a packet.
#[derive(Debug, Default)]
pub struct Train {
    cars: Vec<Car>,
    bytes: Vec<u8>,
}

/// A packet on it.
#[derive(Debug)]
struct Car {
    meta: Meta,
    /// Where its bytes begin in the head area.
    start: u16,
    /// Where they end in the train.
    end: usize,
    target: u32,
}

impl Train {
    /// Packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cars.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cars.is_empty()
    }

    /// Whether it carries as many bytes as one may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// Target and interface of packet `number`.
    #[must_use]
    pub fn label(&self, number: usize) -> Option<(u32, u16)> {
        self.cars.get(number).map(|car| (car.target, car.meta.rx_if))
    }

    /// Empties it. Its memory stays.
    pub fn clear(&mut self) {
        self.cars.clear();
        self.bytes.clear();
    }
}

impl Packets {
    /// Puts a copy of the packet on the train, with a word for whoever takes it out.
    pub fn load(&self, slot: SlotId, target: u32, train: &mut Train) {
        if train.bytes.capacity() == 0 {
            // All that it will ever need, so that it doesn't grow by doubling.
            train.bytes.reserve_exact(ROOM);
        }
        let (start, meta) = self.pack(slot, &mut train.bytes);
        train.cars.push(Car { meta, start, end: train.bytes.len(), target });
    }

    /// Brings packet `number` of the train into a slot of this round.
    ///
    /// # Errors
    /// [`NoSlot`] when all are taken, the packet is larger than any may be, or there is no such packet.
    pub fn unload(&mut self, train: &Train, number: usize) -> Result<SlotId, NoSlot> {
        let before = number.checked_sub(1).and_then(|before| train.cars.get(before)).map_or(0, |car| car.end);
        let car = train.cars.get(number).ok_or(NoSlot)?;
        self.unpack(&car.meta, car.start, &train.bytes[before..car.end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::OwnedPacket;

    /// Miri takes minutes for more.
    const PACKETS: usize = if cfg!(miri) { 9 } else { 99 };

    #[test]
    fn packets_come_out_as_they_went_in() -> Result<(), Box<dyn core::error::Error>> {
        let (mut here, mut there) = (Packets::try_new()?, Packets::try_new()?);
        let bytes = |n: usize| (0..n * 97).map(|at| (at * 7 + n) as u8).collect::<Vec<_>>();
        let mut train = Train::default();
        for turn in 0..2 {
            for n in 1..=PACKETS {
                let mut packet = OwnedPacket::new(n as u16, bytes(n));
                (packet.meta_mut().flow_hash, packet.meta_mut().decapsulated) = (n as u32, 3);
                let slot = here.adopt(&packet)?;
                here.meta_mut(slot).data += 10;
                here.load(slot, 1000 + n as u32, &mut train);
            }
            here.end_round();
            assert_eq!(train.len(), PACKETS, "turn {turn}");
            for n in 1..=PACKETS {
                assert_eq!(train.label(n - 1), Some((1000 + n as u32, n as u16)));
                let slot = there.unload(&train, n - 1)?;
                let meta = there.meta(slot);
                assert_eq!((meta.flow_hash, meta.data - meta.l2, meta.decapsulated), (n as u32, 10, 3));
                let mut out = vec![0; meta.len() as usize];
                there.copy_out(slot, &mut out);
                assert_eq!(out, bytes(n)[10..], "packet {n}");
            }
            there.end_round();
            assert!(there.unload(&train, PACKETS).is_err());
            train.clear();
            assert!(train.is_empty() && !train.is_full());
        }
        Ok(())
    }

    #[test]
    fn a_full_train_says_so() -> Result<(), Box<dyn core::error::Error>> {
        let mut packets = Packets::try_new()?;
        let mut train = Train::default();
        let slot = packets.adopt(&OwnedPacket::new(1, vec![0; 9000]))?;
        let loaded = (0..1000).take_while(|_| {
            let room = !train.is_full();
            packets.load(slot, 0, &mut train);
            room
        });
        assert_eq!(loaded.count(), FULL.div_ceil(9000));
        Ok(())
    }
}
