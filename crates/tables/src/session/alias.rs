//! Other keys that sessions are found by.

use super::Key;
use super::table::{Handle, LINE, Look, NONE, SessionTable, Taken};

/// What is found by a key is a session where it is below, and one of its other keys where it is not ([`NONE`] is neither).
pub(super) const FIRST: u32 = 1 << 31;

/// Another key of a session: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Alias {
    pub(super) key: Key,
    /// The session, also by generation: once it is gone this leads nowhere. [`NONE`] where there is no key.
    pub(super) session: Handle,
    /// The free one behind this one.
    pub(super) next: u32,
    /// Who is the higher endpoint of this key is the lower one of the session's.
    pub(super) turned: bool,
}

const _: () = assert!(size_of::<Alias>() == 64);

impl Default for Alias {
    fn default() -> Self {
        let session = Handle { index: NONE, generation: 0 };
        Self { key: Key::NONE, session, next: NONE, turned: false }
    }
}

/// Whether what was found by a key is a session's other key: [`SessionTable::aliased`](super::SessionTable::aliased) says whose.
#[inline(always)]
#[must_use]
pub const fn is_alias(found: u32) -> bool {
    found >= FIRST && found != NONE
}

impl<V: Copy + Default> SessionTable<V> {
    /// Makes a session be found by another key, too; `turned`: who is the higher endpoint there is the lower one of its own key. Gives
    /// the number of that key, to [remove](Self::remove_alias) it with the session.
    ///
    /// # Errors
    /// [`Taken`] where a session is found by it already.
    pub fn add_alias(&mut self, session: Handle, key: Key, turned: bool) -> Result<u32, Taken> {
        let hash = self.hash(&key);
        if self.find(&key, hash).is_some() {
            return Err(Taken);
        }
        Ok(self.add_vacant_alias(session, (key, hash), turned))
    }

    /// The same with a key of that hash, of which is known that nothing is found by it ([`is_vacant`](Self::is_vacant)): nobody looks again.
    pub fn add_vacant_alias(&mut self, session: Handle, (key, hash): (Key, u32), turned: bool) -> u32 {
        debug_assert!(hash == self.hash(&key) && self.find(&key, hash).is_none(), "a session has that key");
        self.grow();
        let fresh = Alias { key, session, next: NONE, turned };
        let at = self.free_alias;
        let number = if let Some(alias) = self.aliases.get_mut((at ^ FIRST) as usize).filter(|_| is_alias(at))
        {
            self.free_alias = core::mem::replace(alias, fresh).next;
            at
        } else {
            self.aliases.push(fresh);
            (self.aliases.len() - 1) as u32 | FIRST
        };
        self.buckets.insert(hash, number);
        number
    }

    /// Makes the session not be found by that key any more.
    pub fn remove_alias(&mut self, number: u32) {
        let Some(key) = self.alias(number).map(|alias| alias.key) else { return };
        self.buckets.remove(self.seed.hash(&key), number);
        let next = core::mem::replace(&mut self.free_alias, number);
        if let Some(alias) = self.aliases.get_mut((number ^ FIRST) as usize) {
            *alias = Alias { next, ..Alias::default() };
        }
    }

    /// The session that has the other key of that number, and whether its endpoints are [turned](Self::add_alias). `None` where it is gone.
    #[inline(always)]
    #[must_use]
    pub fn aliased(&self, number: u32) -> Option<(u32, bool)> {
        let alias = self.alias(number)?;
        let entry = self.entries.get(alias.session.index as usize)?;
        (entry.generation == alias.session.generation).then_some((alias.session.index, alias.turned))
    }

    #[inline(always)]
    pub(super) fn alias(&self, number: u32) -> Option<&Alias> {
        let there = |alias: &&Alias| alias.session.index != NONE;
        if is_alias(number) { self.aliases.get((number ^ FIRST) as usize).filter(there) } else { None }
    }

    /// Looking up, between the second step and the third: what was found by another key of a session is from now on looked up by that
    /// session's own. `turn` is told where the endpoints are [turned](Self::add_alias) by that.
    #[inline(never)]
    pub fn by_own_keys<M>(&self, looks: &mut [Look<M>], soon: impl Fn(*const u8), turn: impl Fn(&mut M)) {
        for look in looks {
            let Some(alias) = self.alias(look.session).filter(|alias| alias.key == look.key) else {
                continue;
            };
            let session = alias.session;
            let Some(entry) = self.entries.get(session.index as usize) else { continue };
            if entry.generation == session.generation {
                (look.key, look.session) = (entry.key(), session.index);
                look.hash = self.hash(&look.key);
                soon(core::ptr::from_ref(entry).cast::<u8>().wrapping_add(LINE));
                if alias.turned {
                    turn(&mut look.mark);
                }
            }
        }
    }
}
