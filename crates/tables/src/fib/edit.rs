//! One change of the routing table, carried into the trie. (Many at once: `bulk.rs`.)
//!
//! A change concerns the addresses of one prefix. [`Editor::edit`] walks the nodes on the way to it, and, where the
//! prefix is shorter than they are deep, the nodes under it. It works bottom up: an entry is replaced only after
//! everything it leads to is complete. No address has a result on the way that is neither the old nor the new one,
//! because every address depends on exactly one entry that changes.

use super::NextHopId;
use super::address::Address;
use super::allocator::Allocator;
use super::entry::{Entry, Kind};
use super::node::{Fold, RANKED_RUNS, Runs, SLOTS, STRIDE};
use super::words::{Words, word_of};

/// Depth of the first nodes: the root decides 16 bits.
pub(crate) const ROOT_DEPTH: u32 = 16;

/// What happens to the leaves of a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Leaves of shorter prefixes, or of this one, take this leaf.
    Insert(Entry),
    /// Leaves of this prefix take the leaf of the next shorter one.
    Remove(Entry),
    /// Leaves with the first id take the second, whatever prefix they are of.
    Rename(NextHopId, NextHopId),
}

/// A change and the prefix it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op<A> {
    pub(crate) prefix: A,
    pub(crate) len: u8,
    pub(crate) change: Change,
}

impl<A: Address> Op<A> {
    /// Bits in which an address agrees with the prefix, counted from the first; those before `depth` are taken to be the same, for a fold
    /// needn't know them.
    pub(super) fn common(&self, path: A, depth: u32) -> u32 {
        depth + ((self.prefix.widen() ^ path.widen()) << depth).leading_zeros()
    }

    fn leaf(&self, old: Entry) -> Entry {
        match self.change {
            Change::Insert(new) if old.len() <= self.len => new,
            Change::Remove(cover) if old.len() == self.len => cover,
            Change::Rename(from, to) if old.id() == from => Entry::leaf(to, old.len()),
            _ => old,
        }
    }

    /// Whether the prefix covers a whole slot above `depth`.
    pub(super) fn covers(&self, depth: u32) -> bool {
        u32::from(self.len) <= depth
    }

    /// The slots of the node at `depth` that the prefix touches.
    pub(super) fn slots(&self, depth: u32) -> (u8, u8) {
        let bits = u32::from(self.len).saturating_sub(depth);
        if bits == 0 {
            return (0, u8::MAX);
        }
        let first = self.prefix.byte(depth);
        (first, first | u8::MAX.checked_shr(bits).unwrap_or(0))
    }
}

/// Chunks that have to be free before a change may begin, so that it can't stop half way: enough for a node on every
/// level, and two more to each for what splitting and joining folds takes.
pub(crate) const fn needed<A: Address>() -> u32 {
    Allocator::chunks_for(3 * A::BITS as u32 / STRIDE)
}

/// The trie with its books, for the time of one change.
pub(crate) struct Editor<'a> {
    pub(crate) words: &'a Words,
    pub(crate) allocator: &'a mut Allocator,
    /// Whether someone may be reading: then blocks taken out wait for the grace period.
    pub(crate) readers: bool,
}

impl Editor<'_> {
    /// Carries out `op`. [`needed`] chunks have to be free.
    pub(crate) fn apply<A: Address>(&mut self, op: &Op<A>) {
        let first = op.prefix.root();
        let last = first | 0xffff_usize.checked_shr(u32::from(op.len)).unwrap_or(0);
        for slot in first..=last {
            let old = self.words.entry(slot);
            let new = self.edit(old, ROOT_DEPTH, op);
            if new != old {
                self.words.publish(slot, new);
            }
        }
    }

    /// The entry that has to stand where `entry` stands, in a slot whose node decides the bits before `depth`.
    pub(super) fn edit<A: Address>(&mut self, entry: Entry, depth: u32, op: &Op<A>) -> Entry {
        if !entry.is_node() {
            let new = op.leaf(entry);
            return if op.covers(depth) || new == entry { new } else { self.grow(entry, new, depth, op) };
        }
        match entry.kind() {
            Kind::Fold if A::FOLDS => self.edit_fold(entry, depth, op),
            Kind::Direct => self.edit_direct(entry, depth, op),
            _ => self.edit_runs(entry, depth, op),
        }
    }

    /// Replaces a leaf above a longer prefix by the nodes down to it.
    fn grow<A: Address>(&mut self, old: Entry, new: Entry, depth: u32, op: &Op<A>) -> Entry {
        let bottom = (u32::from(op.len) - 1) / STRIDE * STRIDE;
        let (first, last) = op.slots(bottom);
        let node = self.node(&Runs::island(first, last, new, old));
        self.path(depth, bottom, op.prefix, old, node)
    }

    fn edit_runs<A: Address>(&mut self, node: Entry, depth: u32, op: &Op<A>) -> Entry {
        let old = self.words.runs(node);
        let mut new = Runs::default();
        if op.covers(depth) {
            let mut changed = old.clone();
            changed.0.iter_mut().for_each(|run| run.entry = self.edit(run.entry, depth + STRIDE, op));
            changed.0.iter().for_each(|run| new.push(run.start, run.entry));
            if self.is_short::<A>() {
                self.words.publish_runs(node, &old, &changed);
                return node;
            }
        } else {
            let (first, last) = op.slots(depth);
            for (index, run) in old.0.iter().enumerate() {
                let end = old.end(index);
                let (from, to) = (run.start.max(first), end.min(last));
                if from > to {
                    new.push(run.start, run.entry);
                    continue;
                }
                if run.start < from {
                    new.push(run.start, run.entry);
                }
                new.push(from, self.edit(run.entry, depth + STRIDE, op));
                if to < end {
                    new.push(to + 1, run.entry);
                }
            }
        }
        if old.same_bounds(&new) && !self.foldable::<A>(&new) {
            self.words.publish_runs(node, &old, &new);
            return node;
        }
        self.release(node);
        self.folded_node::<A>(&new, depth)
    }

    /// Whether joining runs has to be left undone because the room is kept for the nodes on the way up. A change
    /// that covers a node can always be stored entry by entry.
    fn is_short<A: Address>(&self) -> bool {
        self.allocator.room() < needed::<A>() + 1
    }

    fn edit_direct<A: Address>(&mut self, node: Entry, depth: u32, op: &Op<A>) -> Entry {
        let (first, last) = op.slots(depth);
        let base = word_of(node.granule());
        let mut before = usize::from(first).checked_sub(1).map(|slot| self.words.entry(base + slot));
        let (mut changed, mut joined) = (false, false);
        for slot in usize::from(first)..=usize::from(last) {
            let old = self.words.entry(base + slot);
            let new = self.edit(old, depth + STRIDE, op);
            if new != old {
                self.words.publish(base + slot, new);
                changed = true;
            }
            joined |= before == Some(new);
            before = Some(new);
        }
        joined |=
            before == (usize::from(last) + 1 < SLOTS).then(|| self.words.entry(base + usize::from(last) + 1));
        if !changed || !joined || self.is_short::<A>() {
            return node;
        }
        // Only far below the size at which a node becomes direct: a route that comes and goes must not flip it.
        let runs = self.words.runs(node);
        if runs.0.len() > RANKED_RUNS / 2 {
            return node;
        }
        self.release(node);
        self.folded_node::<A>(&runs, depth)
    }

    fn edit_fold<A: Address>(&mut self, node: Entry, depth: u32, op: &Op<A>) -> Entry {
        let Fold { end, path, beside, below } = self.words.fold::<A>(node);
        let common = op.common(path, depth);
        if op.covers(depth) || (!op.covers(end) && common >= end) {
            let new_beside = if op.covers(depth) { op.leaf(beside) } else { beside };
            let new_below = self.edit(below, end, op);
            if op.covers(depth) && self.is_short::<A>() && new_below.is_node() {
                self.words.publish_fold(node, new_beside, new_below);
                return node;
            }
            let fold = Fold { end, path, beside: new_beside, below: new_below };
            return self.put_below_fold::<A>(node, depth, fold);
        }
        // The prefix ends on the path or leaves it: at that level an open node is needed.
        let leaves_at = common.min(u32::from(op.len) - 1) / STRIDE * STRIDE;
        let lower = self.path(leaves_at + STRIDE, end, path, beside, below);
        let slot = path.byte(leaves_at);
        let open = self.node(&Runs::island(slot, slot, lower, beside));
        self.release(node);
        let changed = self.edit(open, leaves_at, op);
        self.path(depth, leaves_at, path, beside, changed)
    }

    /// What stands where a fold at `depth` stands that is to lead to these: the same, where that is a fold still.
    pub(super) fn put_below_fold<A: Address>(&mut self, node: Entry, depth: u32, fold: Fold<A>) -> Entry {
        let Fold { end, path, beside, below } = fold;
        if below.is_node() && !self.folds_under(below, beside) {
            self.words.publish_fold(node, beside, below);
            return node;
        }
        self.release(node);
        self.path(depth, end, path, beside, below)
    }

    /// What leads from `depth` along the bits of `path` to `target` at depth `end`, and everything beside to the
    /// leaf `beside`.
    fn path<A: Address>(&mut self, depth: u32, end: u32, path: A, beside: Entry, target: Entry) -> Entry {
        if depth == end || target == beside {
            return target;
        }
        if target.is_node() && A::FOLDS {
            if target.kind() == Kind::Fold {
                let lower = self.words.fold::<A>(target);
                if lower.beside == beside {
                    self.release(target);
                    let bits = lower.path.widen() & (u128::MAX >> end) | path.masked(end as u8).widen();
                    let fold = Fold { path: A::narrow(bits), ..lower };
                    return self.fold(fold);
                }
            }
            if target.kind() == Kind::Tiny
                && let Some((slot, below, rest)) = self.words.runs(target).single_way()
                && rest == beside
            {
                self.release(target);
                let bits = path.masked(end as u8).widen() | u128::from(slot) << (120 - end);
                return self.path(depth, end + STRIDE, A::narrow(bits), beside, below);
            }
            if end - depth > STRIDE {
                return self.fold(Fold { end, path, beside, below: target });
            }
        }
        let above = end - STRIDE;
        let slot = path.byte(above);
        let node = self.node(&Runs::island(slot, slot, target, beside));
        self.path(depth, above, path, beside, node)
    }

    /// Whether a node would become one with a path above it whose other addresses end with `beside`.
    fn folds_under(&self, node: Entry, beside: Entry) -> bool {
        node.is_node()
            && match node.kind() {
                Kind::Tiny => self.words.runs(node).single_way().is_some_and(|(.., rest)| rest == beside),
                // The address type doesn't matter for a comparison of leaves.
                Kind::Fold => self.words.fold::<u128>(node).beside == beside,
                Kind::Ranked | Kind::Direct => false,
            }
    }

    /// Whether the node of these runs is a step of a longer path without branches.
    pub(super) fn foldable<A: Address>(&self, runs: &Runs) -> bool {
        A::FOLDS && runs.single_way().is_some_and(|(_, below, rest)| self.folds_under(below, rest))
    }

    /// A node for `runs`, or the fold it is a part of, or the leaf it has become. Of a fold's path only the bits
    /// from its depth on count, so those above needn't be known.
    pub(super) fn folded_node<A: Address>(&mut self, runs: &Runs, depth: u32) -> Entry {
        match runs.single_way() {
            Some((slot, below, rest)) if A::FOLDS && self.folds_under(below, rest) => {
                let path = A::narrow(u128::from(slot) << (120 - depth));
                self.path(depth, depth + STRIDE, path, rest, below)
            }
            _ => self.node(runs),
        }
    }

    fn node(&mut self, runs: &Runs) -> Entry {
        match runs.0.as_slice() {
            [only] => only.entry,
            _ => reserved(self.words.encode(self.allocator, runs)),
        }
    }

    fn fold<A: Address>(&mut self, fold: Fold<A>) -> Entry {
        reserved(self.words.encode_fold(self.allocator, fold))
    }

    pub(super) fn release(&mut self, node: Entry) {
        self.allocator.release(node.granule(), self.readers);
    }
}

/// A block within the room that [`needed`] set aside; were it missing, "no route" is the safe answer.
fn reserved(block: Option<Entry>) -> Entry {
    debug_assert!(block.is_some(), "the room was checked before the change began");
    block.unwrap_or(Entry::NO_ROUTE)
}
