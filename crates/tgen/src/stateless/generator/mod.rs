//! Packets of a stream's lane, made a burst at a time.
//!
//! The first lines of a burst's packets (all headers, and short packets as a whole) are kept as **images** in private memory;
//! what follows them is the same in all packets of a length, but for the signature at the end. A burst is made field by
//! field, not packet by packet: one loop draws the numbers of a field for all packets, one puts them in place, one adds
//! them up for each checksum. So each loop has one thing to decide and the compiler can turn it into vector code. Then
//! each packet is copied, once, to where it is sent from.
//!
//! Packets that repeat after a while, and aren't numbered, are all made beforehand: a **lap**.

mod burst;
mod packets;

use super::layout::Layout;
use super::modifier::{Values, seed};
use super::signature::{self, Mark, Signature};
use super::template::{Field, Sum, Template};

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
    /// Whose packets they are, where they carry a signature.
    pub signature: Option<Mark>,
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
                Some(mark) => fixed == LINE * LINES && !mark.stamped,
            },
            images: vec![[[0; LINE]; LINES]; BURST],
            tails: Box::new([[0; signature::LEN]; BURST]),
            fields: layout.fields.into_iter().enumerate().map(changing).collect(),
            sums: layout.sums,
            signature: signature.map(|mark| Signature { mark, payload_len: 0, sequence: 0 }),
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
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
