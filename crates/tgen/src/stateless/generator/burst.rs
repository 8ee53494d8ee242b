//! How a burst is made: field by field, then checksum by checksum, then signatures.

use super::{BURST, Changing, Generator, LINE};
use crate::stateless::signature;
use crate::stateless::template::{check_of, fold};

impl<const LINES: usize> Generator<LINES> {
    /// The next burst.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if self.order.len() > 1 {
            for packet in 0..BURST {
                self.which[packet] = self.order[self.order_at];
                self.order_at = if self.order_at + 1 == self.order.len() { 0 } else { self.order_at + 1 };
                self.begin(packet);
            }
        }
        for changing in &mut self.fields {
            changing.refill();
            let (offset, numbers) = (changing.field.offset, &changing.numbers);
            match changing.field.width {
                1 => place::<LINES, 1>(&mut self.images, offset, numbers),
                2 => place::<LINES, 2>(&mut self.images, offset, numbers),
                4 => place::<LINES, 4>(&mut self.images, offset, numbers),
                6 => place::<LINES, 6>(&mut self.images, offset, numbers),
                _ => place::<LINES, 8>(&mut self.images, offset, numbers),
            }
        }
        if !self.fields.is_empty() {
            for n in 0..self.sums.len() {
                self.fill_sum(n);
            }
        }
        if self.signature.is_some() {
            self.sign();
        }
    }

    /// Checksum number `n` of all packets.
    #[inline(always)]
    fn fill_sum(&mut self, n: usize) {
        let mut totals = [0u32; BURST];
        match self.templates.as_slice() {
            [template] => totals = [template.base[n]; BURST],
            templates => {
                for (total, which) in totals.iter_mut().zip(&self.which) {
                    *total = templates[usize::from(*which)].base[n];
                }
            }
        }
        for changing in &self.fields {
            let weight = changing.field.weights[n];
            for _ in 0..weight.unsigned_abs() {
                if weight > 0 {
                    totals.iter_mut().zip(&changing.words).for_each(|(total, words)| *total += words);
                } else {
                    totals
                        .iter_mut()
                        .zip(&changing.words)
                        .for_each(|(total, words)| *total += 4 * 0xffff - words);
                }
            }
        }
        let sum = &self.sums[n];
        let mut checksums = [0u16; BURST];
        for (checksum, total) in checksums.iter_mut().zip(&totals) {
            *checksum = !fold(*total);
        }
        if sum.udp {
            checksums
                .iter_mut()
                .for_each(|checksum| *checksum = if *checksum == 0 { 0xffff } else { *checksum });
        }
        let offset = sum.offset.min(LINE * LINES - 2);
        for (image, checksum) in self.images.iter_mut().zip(&checksums) {
            image.as_flattened_mut()[offset..offset + 2].copy_from_slice(&checksum.to_ne_bytes());
        }
    }

    /// Numbers all packets.
    #[inline(always)]
    fn sign(&mut self) {
        let Some(signature) = &mut self.signature else { return };
        let first = signature.number();
        signature.sequence += BURST as u64;
        for (packet, number) in (0..BURST).zip(first..) {
            let template = &self.templates[usize::from(self.which[packet])];
            let len = template.bytes.len();
            let at = len - signature::LEN;
            // Lane and payload length stand in the template.
            let mut bytes = [0; signature::LEN];
            bytes.copy_from_slice(&template.bytes[at..]);
            let check = check_of(template.check_base, number, 0);
            bytes[6..8].copy_from_slice(&check.to_ne_bytes());
            bytes[8..].copy_from_slice(&number.to_be_bytes());
            match self.images[packet].as_flattened_mut().get_mut(at..len) {
                Some(place) => place.copy_from_slice(&bytes),
                None => self.tails[packet] = bytes,
            }
        }
    }
}

impl Changing {
    #[inline(always)]
    fn refill(&mut self) {
        self.values.fill(&mut self.numbers);
        let field = &self.field;
        for (number, words) in self.numbers.iter_mut().zip(&mut self.words) {
            *number = field.number(*number);
            *words = field.words(*number);
        }
    }
}

/// Puts a field of `W` bytes into all packets.
#[inline(always)]
fn place<const LINES: usize, const W: usize>(
    images: &mut [[[u8; LINE]; LINES]],
    offset: usize,
    numbers: &[u64; BURST],
) {
    // Fields lie within the images; said so that no packet is asked.
    let offset = offset.min(LINE * LINES - W);
    for (image, number) in images.iter_mut().zip(numbers) {
        if let Some(bytes) = number.to_be_bytes().last_chunk::<W>() {
            image.as_flattened_mut()[offset..offset + W].copy_from_slice(bytes);
        }
    }
}
