//! Packets that are all of one short length, given out quickly.

use super::slot::Slot;
use super::slots::{HEAD, HEAD_AREA, HeadArea, Packets, SlotId, index};
use crate::simd::Simd;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Packets of one length, at most two cache lines, that lie in consecutive slots and have no body.
#[derive(Clone, Copy)]
pub struct Alike<'p> {
    heads: &'p [HeadArea],
    data: usize,
    len: u32,
}

impl core::fmt::Debug for Alike<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Alike").field("count", &self.heads.len()).field("len", &self.len).finish()
    }
}

impl Packets {
    /// As many packets of `slots`, from the first on, as are alike: none where the first isn't short.
    #[must_use]
    #[inline(always)]
    pub fn alike(&self, slots: &[SlotId]) -> Alike<'_> {
        let none = Alike { heads: &[], data: 0, len: 0 };
        let Some(first) = slots.first() else { return none };
        let (data, end) = (self.meta(*first).data, self.meta(*first).end);
        let len = u32::from(end).wrapping_sub(data.into());
        // Whole lines are read of each, whatever its length.
        if len.wrapping_sub(1) >= HEAD as u32 || usize::from(data) > HEAD_AREA - Alike::reach(len) as usize {
            return none;
        }
        let from = index(*first);
        let metas = self.metas.get(from..).unwrap_or_default();
        let same =
            (*first..).zip(slots).zip(metas).take_while(|((number, slot), Slot { meta, first_len, .. })| {
                (number == *slot) & (meta.data == data) & (meta.end == end) & (*first_len == 0)
            });
        let count = same.count();
        Alike { heads: self.heads.get(from..from + count).unwrap_or_default(), data: data.into(), len }
    }
}

impl Alike<'_> {
    /// How many they are.
    #[must_use]
    #[inline(always)]
    pub const fn count(&self) -> usize {
        self.heads.len()
    }

    /// Bytes of each, 1 to 128.
    #[must_use]
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Bytes of as many whole lines as packets of `len` bytes, up to 128, take.
    #[must_use]
    #[inline(always)]
    pub const fn reach(len: u32) -> u32 {
        if len as usize > LINE { HEAD as u32 } else { LINE as u32 }
    }

    /// Writes them, four at a time to where `next` says, up to `quads` times and as long as it says so. Gives how many. `TWO`: they are longer than
    /// a line.
    ///
    /// # Safety
    /// Each address is writable for [`len`](Self::len) bytes, and `TWO` is said of packets that are longer than a line, and of no others.
    #[inline(always)]
    pub unsafe fn write<S: Simd, const TWO: bool>(
        &self,
        simd: S,
        quads: usize,
        mut next: impl FnMut() -> Option<[*mut u8; 4]>,
    ) -> usize {
        let (heads, _) = self.heads.as_chunks::<4>();
        let (whole, rest) = if TWO { (LINE, self.len as usize - LINE) } else { (0, self.len as usize) };
        let mut done = 0;
        for heads in heads.iter().take(quads) {
            let Some(targets) = next() else { break };
            for (head, target) in heads.iter().zip(targets) {
                // SAFETY: `data` is so far from the area's end that whole lines are readable; the target is as long as the packet,
                // and exactly its bytes are written, none that an earlier packet left behind it.
                unsafe {
                    let head = head.0.as_ptr().add(self.data);
                    if TWO {
                        simd.copy_line(target, head);
                    }
                    simd.copy_front(target.add(whole), head.add(whole), rest);
                }
            }
            done += 4;
        }
        done
    }
}
