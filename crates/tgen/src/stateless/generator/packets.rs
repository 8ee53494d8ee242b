//! How links get a generator's packets.

use super::{BURST, Generator, LINE};
use crate::link::{Packets, Target};
use crate::stateless::signature::{self, Mark, Signature};
use crate::stateless::template::{Template, check_of};
use memif::Lines;

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
            put_short(into, image.as_flattened(), len);
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
        if let Some(Signature { mark: Mark { stamped: true, .. }, .. }) = self.signature {
            self.stamp(template, packet, into, stamp());
        }
    }

    #[inline(always)]
    fn lines(&self, rest: bool) -> Option<Lines<'_>> {
        let whole = self.fixed as usize <= LINE || !rest && self.signature.is_none();
        if LINES > 1 || self.fixed == 0 || !whole || self.signature.is_some_and(|of| of.mark.stamped) {
            return None;
        }
        let images = self.images.get(self.done..self.ready)?;
        Some(Lines { length: self.fixed, lines: images.as_flattened() })
    }

    #[inline(always)]
    fn sent(&mut self, n: usize) {
        self.done += n;
    }
}

/// Puts the first `len` bytes of an image. Those of one line at most in two stores that overlap: whoever sends small packets is limited by
/// how many of its stores are on their way.
#[inline(always)]
fn put_short<T: Target>(into: T, image: &[u8], len: usize) {
    const HALF: usize = LINE / 2;
    match (image.first_chunk::<HALF>(), image.get(..len).and_then(<[u8]>::last_chunk::<HALF>)) {
        (Some(first), Some(last)) if len <= LINE => {
            into.put_array(0, first);
            into.put_array((len - HALF) as u32, last);
        }
        _ => into.put(0, &image[..len]),
    }
}

impl<const LINES: usize> Generator<LINES> {
    /// Puts a timestamp into what was written, with the check that goes with it.
    #[inline]
    fn stamp<T: Target>(&self, template: &Template, packet: usize, into: T, stamp: u64) {
        let len = template.bytes.len();
        let at = len - signature::LEN;
        let image = self.images[packet].as_flattened();
        let mut bytes = [0; signature::STAMPED_LEN];
        bytes[..8].copy_from_slice(&stamp.to_be_bytes());
        bytes[8..].copy_from_slice(image.get(at..len).unwrap_or(&self.tails[packet]));
        let number = u64::from_be_bytes(bytes[16..].try_into().unwrap_or_default());
        bytes[14..16].copy_from_slice(&check_of(template.check_base, number, stamp).to_ne_bytes());
        into.put_array((len - signature::STAMPED_LEN) as u32, &bytes);
    }
}
