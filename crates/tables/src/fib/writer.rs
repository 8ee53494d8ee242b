//! The side of the table that the control thread owns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::address::Address;
use super::allocator::Allocator;
use super::edit::{Change, Editor, Op, ROOT_DEPTH, needed};
use super::entry::Entry;
use super::prefixes::Prefixes;
use super::words::{ROOTS, Words};
use super::{Fib, FibError, NextHopId};

/// Address space reserved for a table where the caller doesn't choose. Only what is used becomes memory.
pub const DEFAULT_CAPACITY: usize = 256 << 20;
/// Changes that are carried into the trie together at most: what there has to be room for meanwhile grows with it.
const MOST_TOGETHER: usize = 512;

/// The one writer of a table; readers are made with [`reader`](Self::reader).
///
/// Prefixes are given as the address in host byte order, with all bits behind the length clear, and the length.
#[derive(Debug)]
pub struct FibWriter<A: Address> {
    words: Arc<Words>,
    allocator: Allocator,
    rib: Prefixes<A, NextHopId>,
    /// Changes of one batch on their way into the trie; empty in between.
    ops: Vec<Op<A>>,
    id: u64,
}

/// Stands for all blocks that were retired before it was made. Hand it to [`FibWriter::reclaim`] of the same table
/// when every reader has passed a quiescent state since.
#[derive(Debug)]
#[must_use = "without `reclaim` the retired blocks are never used again"]
pub struct Retired {
    table: u64,
    mark: u64,
}

/// A change of a routing table: a route that comes or changes, or one that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange<A> {
    /// First address, with all bits behind the length clear.
    pub prefix: A,
    /// Bits that count.
    pub len: u8,
    /// Where it leads from now on; [`NextHopId::NO_ROUTE`] withdraws it.
    pub id: NextHopId,
}

impl<A: Address> RouteChange<A> {
    /// Whether an insertion of it would be refused whatever the table holds. Withdrawals never are.
    fn check(&self) -> Result<(), FibError> {
        if self.id == NextHopId::NO_ROUTE {
            return Ok(());
        }
        check_prefix(self.prefix, self.len)?;
        check_id(self.id)
    }
}

/// Memory of a table, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Root and nodes that lookups go through.
    pub live: usize,
    /// Nodes waiting for a grace period.
    pub retired: usize,
    /// All trie memory touched so far: live, retired, and free for reuse.
    pub trie: usize,
    /// The list of prefixes.
    pub rib: usize,
}

impl<A: Address> FibWriter<A> {
    /// An empty table with room for 256 MiB of nodes (address space; memory is taken as it fills).
    ///
    /// # Errors
    /// [`FibError::Reserve`] if the system refuses the address space.
    pub fn new() -> Result<Self, FibError> {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// An empty table with `capacity` bytes of address space for root and nodes; less than 512 KiB is raised to
    /// that, more than 8 GiB lowered.
    ///
    /// # Errors
    /// [`FibError::Reserve`] if the system refuses the address space.
    pub fn with_capacity(capacity: usize) -> Result<Self, FibError> {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let words = Words::reserve(capacity).ok_or(FibError::Reserve { capacity })?;
        Ok(Self {
            allocator: Allocator::new(&words),
            words: Arc::new(words),
            rib: Prefixes::default(),
            ops: Vec::new(),
            id: TABLES.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// A view for workers.
    #[must_use]
    pub fn reader(&self) -> Fib<A> {
        Fib::new(Arc::clone(&self.words))
    }

    /// Routes `prefix`/`len` to `id`; gives the id it had before, if any.
    ///
    /// # Errors
    /// [`FibError::Length`], [`FibError::HostBits`], [`FibError::Id`], [`FibError::Full`]; nothing has changed then.
    pub fn insert(&mut self, prefix: A, len: u8, id: NextHopId) -> Result<Option<NextHopId>, FibError> {
        check_prefix(prefix, len)?;
        check_id(id)?;
        self.check_room(2)?;
        let old = self.put(prefix, len, id);
        if old != Some(id) {
            self.change(Op { prefix, len, change: Change::Insert(Entry::leaf(id, len)) });
        }
        Ok(old)
    }

    /// Withdraws `prefix`/`len`; its addresses fall back to the next shorter prefix. `None`: it wasn't there.
    ///
    /// # Errors
    /// [`FibError::Full`] (a withdrawal may need a new node too); nothing has changed then.
    pub fn remove(&mut self, prefix: A, len: u8) -> Result<Option<NextHopId>, FibError> {
        if self.rib.get(prefix, len).is_none() {
            return Ok(None);
        }
        self.check_room(1)?;
        let old = self.rib.remove(prefix, len);
        let change = self.removal(prefix, len);
        self.change(Op { prefix, len, change });
        Ok(old)
    }

    /// Carries out many changes, each as [`FibWriter::insert`] or [`FibWriter::remove`] would, in order. Changes one after the
    /// other within one /16 are the faster the more they are, and readers may see several of them at once.
    ///
    /// # Errors
    /// The position of the first refused change and the reason; those before it are in force.
    pub fn change_all(&mut self, changes: &[RouteChange<A>]) -> Result<(), (usize, FibError)> {
        let mut done = 0;
        while let Some(first) = changes.get(done) {
            let root = first.prefix.root();
            let together = |change: &&RouteChange<A>| {
                u32::from(change.len) > ROOT_DEPTH && change.prefix.root() == root && change.check().is_ok()
            };
            let group = changes[done..].iter().take(MOST_TOGETHER).take_while(together).count();
            let room = (group as u32 + 1) * needed::<A>();
            if group > 1 && self.allocator.room() >= room {
                self.change_group(&changes[done..done + group]);
                done += group;
                continue;
            }
            // Alone: too short, refused, or there may not be room for all of the group.
            let one = match first.id {
                NextHopId::NO_ROUTE => self.remove(first.prefix, first.len),
                id => self.insert(first.prefix, first.len, id),
            };
            one.map_err(|error| (done, error))?;
            done += 1;
        }
        Ok(())
    }

    /// Changes of prefixes longer than /16 within one /16, that are as they should be and that there is room for.
    fn change_group(&mut self, changes: &[RouteChange<A>]) {
        let mut ops = core::mem::take(&mut self.ops);
        for RouteChange { prefix, len, id } in changes.iter().copied() {
            let change = if id == NextHopId::NO_ROUTE {
                if self.rib.remove(prefix, len).is_none() {
                    continue;
                }
                self.removal(prefix, len)
            } else {
                if self.put(prefix, len, id) == Some(id) {
                    continue;
                }
                Change::Insert(Entry::leaf(id, len))
            };
            ops.push(Op { prefix, len, change });
        }
        self.editor().apply_within_root(&ops);
        ops.clear();
        self.ops = ops;
    }

    /// Sends every route of `from` to `to`; gives their number. Costs a walk through the whole table.
    ///
    /// # Errors
    /// [`FibError::Id`], [`FibError::Full`]; nothing has changed then.
    pub fn replace_id(&mut self, from: NextHopId, to: NextHopId) -> Result<usize, FibError> {
        check_id(from)?;
        check_id(to)?;
        self.check_room(1)?;
        let routes = self.rib.values_mut().filter(|id| **id == from).map(|id| *id = to).count();
        if routes > 0 && from != to {
            self.change(Op { prefix: A::narrow(0), len: 0, change: Change::Rename(from, to) });
        }
        Ok(routes)
    }

    /// The id of exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: A, len: u8) -> Option<NextHopId> {
        self.rib.get(prefix, len).copied()
    }

    /// The route a lookup of `addr` takes: prefix, length and id.
    #[must_use]
    pub fn route_of(&self, addr: A) -> Option<(A, u8, NextHopId)> {
        let host = self.rib.get(addr, A::BITS).map(|id| (A::BITS, id));
        host.or_else(|| self.rib.cover(addr, A::BITS)).map(|(len, id)| (addr.masked(len), len, *id))
    }

    /// All routes, shorter prefixes first, otherwise in no order.
    pub fn iter(&self) -> impl Iterator<Item = (A, u8, NextHopId)> {
        self.rib.iter().map(|(prefix, len, id)| (prefix, len, *id))
    }

    /// Number of routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A token for all blocks retired so far; see [`Retired`].
    pub fn retire_mark(&self) -> Retired {
        Retired { table: self.id, mark: self.allocator.mark() }
    }

    /// Makes the blocks that `retired` stands for usable again; gives their number. A token of another table does
    /// nothing.
    pub fn reclaim(&mut self, retired: Retired) -> usize {
        if retired.table == self.id { self.allocator.reclaim(retired.mark) } else { 0 }
    }

    /// How much memory the table takes.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let (live, retired, trie) = self.allocator.bytes();
        Usage { live: live + ROOTS * 4, retired, trie, rib: self.rib.bytes() }
    }

    /// Has the table count as one that reaches this far.
    #[cfg(test)]
    pub(super) fn note_large(&mut self, granule: u32) {
        self.words.begin_block(granule);
    }

    fn change(&mut self, op: Op<A>) {
        self.editor().apply(&op);
    }

    fn editor(&mut self) -> Editor<'_> {
        // Only the writer can make the first reader, and it is busy here: none now is none until the change is done.
        let readers = Arc::get_mut(&mut self.words).is_none();
        Editor { words: &self.words, allocator: &mut self.allocator, readers }
    }

    /// Puts a prefix on the list; gives the id it had before.
    fn put(&mut self, prefix: A, len: u8, id: NextHopId) -> Option<NextHopId> {
        self.rib.get_or_insert(prefix, len, id).map(|old| core::mem::replace(old, id))
    }

    /// What becomes of the leaves of a prefix that isn't on the list any more.
    fn removal(&self, prefix: A, len: u8) -> Change {
        let cover = self.rib.cover(prefix, len);
        Change::Remove(cover.map_or(Entry::NO_ROUTE, |(len, id)| Entry::leaf(*id, len)))
    }

    /// Whether there is room for so many changes. An insertion leaves room for one more, so that a full table can
    /// always be emptied: a withdrawal takes new nodes before it gives up old ones.
    fn check_room(&self, changes: u32) -> Result<(), FibError> {
        if self.allocator.room() >= changes * needed::<A>() {
            return Ok(());
        }
        let Usage { live, retired, .. } = self.usage();
        Err(FibError::Full { live, retired, capacity: self.words.capacity() })
    }
}

fn check_prefix<A: Address>(prefix: A, len: u8) -> Result<(), FibError> {
    if len > A::BITS {
        return Err(FibError::Length { len, max: A::BITS });
    }
    if prefix.masked(len) != prefix {
        return Err(FibError::HostBits { len });
    }
    Ok(())
}

fn check_id(id: NextHopId) -> Result<(), FibError> {
    if id == NextHopId::NO_ROUTE || id > NextHopId::MAX {
        return Err(FibError::Id { id });
    }
    Ok(())
}
