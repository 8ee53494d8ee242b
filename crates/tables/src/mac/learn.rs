//! Adding, moving and removing single addresses.

use super::slot::{Ordering, fence};
use super::table::{Found, MacError, MacTable, slots_of};
use super::word::{MacKey, Value};

/// What became of an address that was seen on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Known there already.
    Known,
    /// Added.
    New,
    /// Known at another interface until now: the station moved, or somebody pretends to be it.
    Moved {
        /// The interface until now.
        from: u32,
    },
    /// Configured, at this interface or another: nothing was changed.
    Static {
        /// The interface it is configured at.
        at: u32,
    },
    /// Not added: the bridge has as many addresses as it may.
    Limited,
    /// Not added, or not moved: as many addresses as may be are learned at the interface.
    MemberLimited,
    /// Not moved: several interfaces have sent from it in turn, so it stays where it was.
    Held {
        /// The interface that it stays at.
        at: u32,
    },
    /// Not added: no room for this address.
    Full,
    /// Not added or not refreshed: other workers changed it at the same time, several times over. The next packet
    /// will do it.
    Contended,
}

/// Slots of a pair of buckets that are left to keys whose other pair is fuller. With fewer, more keys are in their first bucket, but some
/// find both pairs full before the table holds what it was made for; with two that happens above it.
const SPARE: usize = 2;
/// How often a change is tried again when another worker was faster.
const TRIES: usize = 8;

impl MacTable {
    /// Notes that a packet from `key` came in at `interface` at tick `now`. Any number of workers may do so at once.
    ///
    /// The caller has checked that the address is a unicast one, and that `interface` is at most
    /// [`MAX_INTERFACE`](Self::MAX_INTERFACE) (else nothing is learned: [`Learned::Full`]).
    pub fn learn(&self, key: MacKey, interface: u32, now: u16) -> Learned {
        if interface > Self::MAX_INTERFACE {
            return Learned::Full;
        }
        for _ in 0..TRIES {
            let Some(Found { slot, value }) = self.find(key) else {
                match self.add(key, interface, now, false) {
                    Added::Yes => return Learned::New,
                    Added::Limited => return Learned::Limited,
                    Added::MemberLimited => return Learned::MemberLimited,
                    Added::Full => return Learned::Full,
                    Added::Twice => continue,
                }
            };
            let from = value.interface();
            if value.is_static() {
                return Learned::Static { at: from };
            }
            if from == interface && value.stamp() == now {
                return Learned::Known;
            }
            if from == interface {
                if self.slot(slot).replace(value, value.set(interface, now, false)) {
                    return Learned::Known;
                }
                continue;
            }
            if !self.may_move(slot, value, interface, now) {
                self.count_refused(interface);
                return Learned::Held { at: from };
            }
            if !self.count_learned(interface) {
                return Learned::MemberLimited;
            }
            if self.slot(slot).replace(value, value.set(interface, now, false)) {
                self.uncount_learned(from);
                self.has_moved(slot, value, interface, now);
                return Learned::Moved { from };
            }
            self.uncount_learned(interface);
        }
        Learned::Contended
    }

    /// [`learn`](Self::learn) of a key that was learned at that interface before and lies in its first bucket, as nearly all do; whether
    /// that was so. If not, nothing was done.
    #[inline(always)]
    pub fn refresh(&self, key: MacKey, interface: u32, now: u16) -> bool {
        let Some(Found { slot, value }) = self.find_at_home(key) else { return false };
        if value.interface() != interface || value.is_static() {
            return false;
        }
        value.stamp() == now || self.slot(slot).replace(value, value.set(interface, now, false))
    }

    /// Configures `key` at `interface`: it neither moves nor ages, and no limit applies. Replaces what was learned.
    ///
    /// # Errors
    /// [`MacError::Full`], [`MacError::Interface`].
    pub fn insert_static(&self, key: MacKey, interface: u32) -> Result<(), MacError> {
        if interface > Self::MAX_INTERFACE {
            return Err(MacError::Interface { interface });
        }
        loop {
            if let Some(Found { slot, value }) = self.find(key) {
                if self.slot(slot).replace(value, value.set(interface, 0, true)) {
                    if !value.is_static() {
                        self.uncount_learned(value.interface());
                        self.forget_history(slot);
                    }
                    return Ok(());
                }
                continue;
            }
            match self.add(key, interface, 0, true) {
                Added::Yes => return Ok(()),
                Added::Twice => {}
                Added::Limited | Added::MemberLimited | Added::Full => return Err(MacError::Full { key }),
            }
        }
    }

    /// Removes `key`, static or learned; whether it was there.
    pub fn remove(&self, key: MacKey) -> bool {
        let removed = self.slots(key).filter(|&slot| {
            while let Some(Found { value, .. }) = self.read(slot, key) {
                if self.clear(slot, key, value) {
                    return true;
                }
            }
            false
        });
        removed.count() > 0
    }

    /// Empties a slot that still holds `value` for `key`.
    pub(super) fn clear(&self, slot: usize, key: MacKey, value: Value) -> bool {
        let cleared = self.slot(slot).replace(value, value.cleared());
        if cleared {
            self.uncount(key.bridge());
            if !value.is_static() {
                self.uncount_learned(value.interface());
            }
            self.forget_history(slot);
        }
        cleared
    }

    fn add(&self, key: MacKey, interface: u32, now: u16, is_static: bool) -> Added {
        if !self.count(key.bridge(), is_static) {
            return Added::Limited;
        }
        if !is_static && !self.count_learned(interface) {
            self.uncount(key.bridge());
            return Added::MemberLimited;
        }
        let Some((slot, claimed)) = self.claim(key) else {
            self.uncount(key.bridge());
            if !is_static {
                self.uncount_learned(interface);
            }
            return Added::Full;
        };
        self.forget_history(slot);
        let value = claimed.set(interface, now, is_static);
        self.slot(slot).fill(key, value);
        // Two who add the same key: each publishes, then looks. The fence makes at least one see the other.
        fence(Ordering::SeqCst);
        self.settle(key, slot, value)
    }

    /// Takes an empty slot of `key`: in its first pair of buckets as long as that has some to spare, or more than the second.
    fn claim(&self, key: MacKey) -> Option<(usize, Value)> {
        let [near, far, near_too, far_too] = self.places(key);
        let mut pairs = [[near, near_too], [far, far_too]];
        let is_empty = |slot: &usize| self.slot(*slot).value().is_empty();
        let room = |pair: [usize; 2]| pair.into_iter().flat_map(slots_of).filter(is_empty).count();
        let spare = room(pairs[0]);
        if spare <= SPARE && spare < room(pairs[1]) {
            pairs.reverse();
        }
        let mut slots = pairs.into_iter().flatten().flat_map(slots_of);
        slots.find_map(|slot| self.slot(slot).claim().map(|claimed| (slot, claimed)))
    }

    /// Leaves one copy of `key`, the one in the first slot. `own` was just written to `slot`.
    fn settle(&self, key: MacKey, slot: usize, own: Value) -> Added {
        let mut passed_own = false;
        for other in self.slots(key) {
            if other == slot {
                passed_own = true;
                continue;
            }
            let Some(Found { value, .. }) = self.read(other, key) else { continue };
            if passed_own {
                // A copy that has changed since is found by its writer, or by the next one who adds.
                self.clear(other, key, value);
            } else {
                self.clear(slot, key, own);
                return Added::Twice;
            }
        }
        Added::Yes
    }
}

enum Added {
    Yes,
    /// Somebody else added it at the same time: look again.
    Twice,
    Limited,
    MemberLimited,
    Full,
}
