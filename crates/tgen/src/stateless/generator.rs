//! Packets of a stream's lane, made a burst at a time.
//!
//! The first lines of a burst's packets (all headers, and short packets as a whole) are kept as **images** in private memory;
//! what follows them is the same in all packets of a length, but for the signature at the end. A burst is made field by
//! field, not packet by packet: one loop draws the numbers of a field for all packets, one puts them in place, one adds
//! them up for each checksum. So each loop has one thing to decide and the compiler can turn it into vector code. Then
//! each packet is copied, once, to where it is sent from.
//!
//! Packets that repeat after a while, and aren't numbered, are all made beforehand: a **lap**.

use super::modifier::{Values, seed};
use super::signature::{self, Signature};
use super::template::{Field, Layout, Sum, Template, check_of, fold};
use crate::link::{Packets, Target};

/// Packets in a burst.
pub const BURST: usize = 128;
/// Bytes of a line.
const LINE: usize = 64;
/// Most packets of a lap, and least: a few hundred KiB, for a level-2 cache; few ends, where bursts are cut short.
const LAP: u64 = 4096;
const LEAST_LAP: u64 = 512;

/// A lane whose headers fit into `LINES` lines of 64 bytes.
#[derive(Debug)]
pub struct Generator<const LINES: usize> {
    images: Vec<[[u8; LINE]; LINES]>,
    /// Signatures of packets that are longer than their images.
    tails: Box<[[u8; signature::LEN]; BURST]>,
    templates: Vec<Template>,
    /// Lengths in turn, as places of `templates`.
    order: Vec<u16>,
    order_at: usize,
    /// Template of each packet of the burst, or of the lap.
    which: Vec<u16>,
    fields: Vec<Changing>,
    sums: Vec<Sum>,
    signature: Option<Signature>,
    /// Packets of the burst, or of the lap, that were sent.
    done: usize,
    ready: usize,
    /// All packets there are have been made.
    lap: bool,
    /// Length of all packets; 0 if there are several.
    fixed: u32,
    /// Images hold all that changes from packet to packet, none of which are shorter.
    bare: bool,
}

/// A field on its way.
#[derive(Debug)]
struct Changing {
    field: Field,
    values: Values,
    /// Its numbers in this burst.
    numbers: [u64; BURST],
    /// What they weigh in checksums.
    words: [u32; BURST],
}

/// What a lane is made from.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Headers.
    pub layout: Layout,
    /// One template for each length.
    pub templates: Vec<Template>,
    /// Lengths in turn, as places of `templates`.
    pub order: Vec<u16>,
    /// Number of the lane, where packets carry a signature, and whether they have a timestamp.
    pub signature: Option<(u16, bool)>,
    /// For what is random.
    pub seed: u64,
}

impl<const LINES: usize> Generator<LINES> {
    /// At the first packet.
    #[must_use]
    pub fn new(recipe: Recipe) -> Self {
        let Recipe { layout, templates, order, signature, seed: random_seed } = recipe;
        let changing = |(n, field): (usize, Field)| Changing {
            values: Values::new(field.modifier.clone(), seed(random_seed, 1 + n as u64)),
            field,
            numbers: [0; BURST],
            words: [0; BURST],
        };
        let fixed = match templates.as_slice() {
            [template] => template.bytes.len(),
            _ => 0,
        };
        let mut generator = Self {
            fixed: fixed as u32,
            bare: match signature {
                None => fixed >= LINE * LINES,
                Some((_, stamped)) => fixed == LINE * LINES && !stamped,
            },
            images: vec![[[0; LINE]; LINES]; BURST],
            tails: Box::new([[0; signature::LEN]; BURST]),
            fields: layout.fields.into_iter().enumerate().map(changing).collect(),
            sums: layout.sums,
            signature: signature.map(|(lane, stamped)| Signature {
                lane,
                payload_len: 0,
                sequence: 0,
                stamped,
            }),
            templates,
            order,
            order_at: 0,
            which: vec![0; BURST],
            done: 0,
            ready: 0,
            lap: false,
        };
        for packet in 0..BURST {
            generator.begin(packet);
        }
        if let Some(period) = generator.period() {
            generator.make_lap(period);
        }
        generator
    }

    /// Packets after which all is as it was, if they are few.
    fn period(&self) -> Option<u64> {
        let first = Some(self.order.len() as u64).filter(|_| self.signature.is_none());
        let fields = self.fields.iter().map(|changing| changing.values.period());
        fields
            .fold(first, |all, period| {
                let (all, period) = (all?, period?);
                all.checked_mul(period / gcd(all, period))
            })
            .filter(|period| *period <= LAP)
    }

    /// Makes all packets of some periods.
    fn make_lap(&mut self, period: u64) {
        // A burst, if that is whole periods.
        let least = if (BURST as u64).is_multiple_of(period) { BURST as u64 } else { LEAST_LAP };
        let len = (period * least.div_ceil(period)) as usize;
        let (mut images, mut which) = (Vec::with_capacity(len + BURST), Vec::with_capacity(len + BURST));
        while images.len() < len {
            self.refill();
            images.extend_from_slice(&self.images);
            which.extend_from_slice(&self.which);
        }
        images.truncate(len);
        which.truncate(len);
        (self.images, self.which, self.ready, self.lap) = (images, which, len, true);
    }

    /// Puts the template of a packet into its image.
    #[inline(always)]
    fn begin(&mut self, packet: usize) {
        let template = &self.templates[usize::from(self.which[packet])];
        let image = self.images[packet].as_flattened_mut();
        let n = template.bytes.len().min(image.len());
        image[..n].copy_from_slice(&template.bytes[..n]);
    }

    /// The next burst.
    #[inline(always)]
    fn refill(&mut self) {
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
        let Some(mut signature) = self.signature else { return };
        for packet in 0..BURST {
            let template = &self.templates[usize::from(self.which[packet])];
            let len = template.bytes.len();
            let at = len - signature::LEN;
            // Lane and payload length stand in the template.
            let mut bytes = [0; signature::LEN];
            bytes.copy_from_slice(&template.bytes[at..]);
            let check = check_of(template.check_base, signature.sequence, 0);
            bytes[6..8].copy_from_slice(&check.to_ne_bytes());
            bytes[8..].copy_from_slice(&signature.sequence.to_be_bytes());
            match self.images[packet].as_flattened_mut().get_mut(at..len) {
                Some(place) => place.copy_from_slice(&bytes),
                None => self.tails[packet] = bytes,
            }
            signature.sequence += 1;
        }
        self.signature = Some(signature);
    }

    /// Puts a timestamp into what was written, with the check that goes with it.
    #[inline]
    fn stamp<T: Target>(&self, template: &Template, packet: usize, into: T, stamp: u64) {
        let len = template.bytes.len();
        let at = len - signature::LEN;
        let image = self.images[packet].as_flattened();
        let mut bytes = [0; signature::STAMPED_LEN];
        bytes[..8].copy_from_slice(&stamp.to_be_bytes());
        bytes[8..].copy_from_slice(image.get(at..len).unwrap_or(&self.tails[packet]));
        let sequence = u64::from_be_bytes(bytes[16..].try_into().unwrap_or_default());
        bytes[14..16].copy_from_slice(&check_of(template.check_base, sequence, stamp).to_ne_bytes());
        into.put_array((len - signature::STAMPED_LEN) as u32, &bytes);
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

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
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

impl<const LINES: usize> Packets for Generator<LINES> {
    #[inline(always)]
    fn prepare(&mut self) -> usize {
        if self.done == self.ready {
            if !self.lap {
                self.refill();
                self.ready = BURST;
            }
            self.done = 0;
        }
        self.ready - self.done
    }

    #[inline(always)]
    fn len(&self, packet: usize) -> u32 {
        if self.fixed > 0 {
            return self.fixed;
        }
        let which = self.which.get(self.done + packet).copied().unwrap_or(0);
        self.templates.get(usize::from(which)).map_or(0, |template| template.bytes.len() as u32)
    }

    #[inline(always)]
    fn write<T: Target>(&self, packet: usize, into: T, rest: bool, stamp: impl Fn() -> u64) {
        let packet = self.done + packet;
        let image = &self.images[packet];
        if self.bare {
            for (n, line) in image.iter().enumerate() {
                into.put_array((n * LINE) as u32, line);
            }
            if rest && let [template] = self.templates.as_slice() {
                into.put((LINE * LINES) as u32, &template.bytes[LINE * LINES..]);
            }
            return;
        }
        let template = &self.templates[usize::from(self.which[packet])];
        let len = template.bytes.len();
        if len < LINE * LINES {
            into.put(0, &image.as_flattened()[..len]);
        } else {
            for (n, line) in image.iter().enumerate() {
                into.put_array((n * LINE) as u32, line);
            }
            if len > LINE * LINES {
                if rest {
                    into.put((LINE * LINES) as u32, &template.bytes[LINE * LINES..]);
                }
                if self.signature.is_some() {
                    into.put_array((len - signature::LEN) as u32, &self.tails[packet]);
                }
            }
        }
        if let Some(Signature { stamped: true, .. }) = self.signature {
            self.stamp(template, packet, into, stamp());
        }
    }

    #[inline(always)]
    fn sent(&mut self, n: usize) {
        self.done += n;
    }
}
