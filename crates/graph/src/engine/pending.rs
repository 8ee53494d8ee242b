//! Packets that wait for their next node within a round.

use memory::packet::SlotId;

/// A list of packets per node, and a bit for each that isn't empty.
#[derive(Debug)]
pub(crate) struct Pending {
    lists: Box<[Vec<SlotId>]>,
    bits: Box<[u64]>,
}

impl Pending {
    pub(super) fn new(nodes: usize) -> Self {
        let lists =
            core::iter::repeat_with(|| Vec::with_capacity(2 * super::MAX_VECTOR)).take(nodes).collect();
        Self { lists, bits: vec![0; nodes.div_ceil(64)].into() }
    }

    #[inline(always)]
    fn mark(&mut self, node: usize) {
        self.bits[node / 64] |= 1 << (node % 64);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, node: u16, slot: SlotId) {
        self.lists[node as usize].push(slot);
        self.mark(node as usize);
    }

    #[inline]
    pub(crate) fn extend(&mut self, node: u16, slots: impl Iterator<Item = SlotId>) {
        self.lists[node as usize].extend(slots);
        self.mark(node as usize);
    }

    #[inline]
    pub(crate) fn extend_from(&mut self, node: u16, slots: &[SlotId]) {
        self.lists[node as usize].extend_from_slice(slots);
        self.mark(node as usize);
    }

    /// All slots from `first` on, in order, wherever they wait: what an input node has emitted that found so many taken. It may have taken
    /// others, which are no packets of this round.
    #[cold]
    pub(super) fn since(&self, first: usize) -> Vec<SlotId> {
        let slots = self.lists.iter().flatten().copied();
        let mut slots: Vec<_> = slots.filter(|slot| usize::from(*slot) >= first).collect();
        slots.sort_unstable();
        slots
    }

    /// The lowest node with packets.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        let word = self.bits.iter().position(|bits| *bits != 0)?;
        Some(word * 64 + self.bits[word].trailing_zeros() as usize)
    }

    /// Takes a node's packets, leaving `empty` in their place.
    #[inline]
    pub(super) fn take(&mut self, node: usize, empty: Vec<SlotId>) -> Vec<SlotId> {
        self.bits[node / 64] &= !(1 << (node % 64));
        core::mem::replace(&mut self.lists[node], empty)
    }

    /// Hands a whole vector to a node. Where nothing waits there yet it is only a change of owner; the list that was
    /// there is returned, empty.
    #[inline]
    pub(super) fn give(&mut self, node: u16, mut slots: Vec<SlotId>) -> Vec<SlotId> {
        let list = &mut self.lists[node as usize];
        if list.is_empty() {
            core::mem::swap(list, &mut slots);
        } else {
            list.extend_from_slice(&slots);
            slots.clear();
        }
        self.mark(node as usize);
        slots
    }
}
