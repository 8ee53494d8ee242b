//! Many changes carried into the trie at once: each node on their way is read and written once, not once for each of them.

use super::address::Address;
use super::edit::{Editor, Op, ROOT_DEPTH};
use super::entry::{Entry, Kind};
use super::node::{Fold, RANKED_RUNS, Runs, SLOTS, STRIDE};
use super::words::word_of;

/// So many changes of one node are carried out one by one: below that, taking a node to pieces costs more.
const FEW: usize = 3;

impl Editor<'_> {
    /// Carries out changes of prefixes longer than /16 within one /16, in order. A reader may see several of them at once.
    /// [`needed`](super::edit::needed) chunks have to be free for each, and as many once more.
    pub(super) fn apply_within_root<A: Address>(&mut self, ops: &[Op<A>]) {
        let Some(first) = ops.first() else { return };
        let slot = first.prefix.root();
        let old = self.words.entry(slot);
        let new = self.edit_all(old, ROOT_DEPTH, ops);
        if new != old {
            self.words.publish(slot, new);
        }
    }

    /// The entry that has to stand where `entry` stands once all of `ops` are carried out, prefixes longer than `depth`
    /// that agree in the bits before it.
    fn edit_all<A: Address>(&mut self, mut entry: Entry, depth: u32, mut ops: &[Op<A>]) -> Entry {
        while ops.len() > FEW {
            if !entry.is_node() || entry.kind() != Kind::Fold || !A::FOLDS {
                return self.edit_open(entry, depth, ops);
            }
            let Fold { end, path, beside, below } = self.words.fold::<A>(entry);
            let on_path = |op: &Op<A>| !op.covers(end) && op.common(path, depth) >= end;
            if ops.iter().all(on_path) {
                let new = self.edit_all(below, end, ops);
                return self.put_below_fold::<A>(entry, depth, Fold { end, path, beside, below: new });
            }
            // One that leaves the path opens it there for the others.
            let Some((op, rest)) = ops.split_first() else { break };
            entry = self.edit(entry, depth, op);
            ops = rest;
        }
        ops.iter().fold(entry, |entry, op| self.edit(entry, depth, op))
    }

    /// As [`Editor::edit_all`], for a leaf or a node that has slots.
    fn edit_open<A: Address>(&mut self, entry: Entry, depth: u32, ops: &[Op<A>]) -> Entry {
        let old = entry.is_node().then(|| self.words.runs(entry));
        let mut slots = [entry; SLOTS];
        if let Some(old) = &old {
            for (index, run) in old.0.iter().enumerate() {
                slots[usize::from(run.start)..=usize::from(old.end(index))].fill(run.entry);
            }
        }
        let below = depth + STRIDE;
        let mut rest = ops;
        while let Some(op) = rest.first() {
            if op.covers(below) {
                let (first, last) = op.slots(depth);
                for slot in &mut slots[usize::from(first)..=usize::from(last)] {
                    *slot = self.edit(*slot, below, op);
                }
                rest = &rest[1..];
                continue;
            }
            let slot = op.prefix.byte(depth);
            let same = |op: &&Op<A>| !op.covers(below) && op.prefix.byte(depth) == slot;
            let (these, others) = rest.split_at(rest.iter().take_while(same).count());
            slots[usize::from(slot)] = self.edit_all(slots[usize::from(slot)], below, these);
            rest = others;
        }
        let mut new = Runs::default();
        (0..=u8::MAX).zip(slots).for_each(|(start, entry)| new.push(start, entry));
        let Some(old) = old else { return self.folded_node::<A>(&new, depth) };
        // A node stays direct until it is far below the size at which it becomes that, as in `edit_direct`.
        if entry.kind() == Kind::Direct && new.0.len() > RANKED_RUNS / 2 {
            let base = word_of(entry.granule());
            for (at, slot) in slots.into_iter().enumerate() {
                if self.words.entry(base + at) != slot {
                    self.words.publish(base + at, slot);
                }
            }
            return entry;
        }
        if old.same_bounds(&new) && !self.foldable::<A>(&new) {
            self.words.publish_runs(entry, &old, &new);
            return entry;
        }
        self.release(entry);
        self.folded_node::<A>(&new, depth)
    }
}
