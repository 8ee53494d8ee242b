//! What the clients of one socket may have open and mapped, all together, and those of one process.
//!
//! Each region and each ring of a client is a descriptor of ours, and each region a mapping, until its queues are dropped. Of both the process
//! has a number that all share (`RLIMIT_NOFILE`, `vm.max_map_count`), and of addresses as well: whoever had them all would keep
//! everybody else out.
//!
//! So there are two [quotas](Quota), one within the other: the process's and the socket's. [Members](Member) of both are interfaces: all
//! of the process, and those of the socket. Half of a quota is promised to its members in equal parts, to none more than it can use; the
//! other half is for whoever comes first. So a member that takes all it can get leaves each of the others its part, as far as they are
//! there by then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Reason;

/// Descriptors and bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Regions and rings.
    pub descriptors: usize,
    /// Bytes of the regions.
    pub memory: u64,
}

impl Amount {
    /// No bound.
    pub const MAX: Self = Self { descriptors: usize::MAX, memory: u64::MAX };

    fn plus(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.saturating_add(other.descriptors),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.saturating_sub(other.descriptors),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    fn least(self, other: Self) -> Self {
        Self { descriptors: self.descriptors.min(other.descriptors), memory: self.memory.min(other.memory) }
    }

    /// One of twice so many equal parts.
    const fn half_among(self, members: usize) -> Self {
        Self { descriptors: self.descriptors / 2 / members, memory: self.memory / 2 / members as u64 }
    }
}

/// Whose a quota is: what a refusal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The interfaces of all sockets of the process.
    Process,
    /// The interfaces of one socket.
    Socket,
}

/// A bound that several share, and what is left of it.
#[derive(Debug)]
pub struct Quota {
    scope: Scope,
    within: Option<Arc<Quota>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    max: Amount,
    used: Amount,
    members: BTreeMap<u64, Part>,
    last: u64,
}

/// What one member has, and could use; and what it is in the quota around.
#[derive(Debug, Clone, Copy)]
struct Part {
    used: Amount,
    most: Amount,
    outer: Option<u64>,
}

impl Quota {
    /// So much for all members together.
    #[must_use]
    pub fn new(scope: Scope, max: Amount) -> Self {
        Self { scope, within: None, state: Mutex::new(State { max, ..State::default() }) }
    }

    /// Its members are members of that one as well.
    #[must_use]
    pub fn within(self, outer: Arc<Self>) -> Self {
        Self { within: Some(outer), ..self }
    }

    /// The bound.
    #[must_use]
    pub fn max(&self) -> Amount {
        self.state().max
    }

    /// Changes the bound. Who has more keeps it. What the quota around promises to the members changes with it: none more than it can use.
    pub fn set_max(&self, max: Amount) {
        let mut state = self.state();
        state.max = max;
        let Some(outer) = &self.within else { return };
        for Part { most, outer: id, .. } in state.members.values() {
            if let Some(id) = id {
                outer.set_most(*id, most.least(max));
            }
        }
    }

    /// What a member could use, from now on.
    fn set_most(&self, member: u64, most: Amount) {
        let mut state = self.state();
        let max = state.max;
        let Some(part) = state.members.get_mut(&member) else { return };
        part.most = most;
        if let (Some(outer), Some(id)) = (&self.within, part.outer) {
            outer.set_most(id, most.least(max));
        }
    }

    /// What there is now.
    #[must_use]
    pub fn in_use(&self) -> Amount {
        self.state().used
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes what is used, of all and of that member.
    fn change(&mut self, member: u64, change: impl Fn(Amount) -> Amount) {
        self.used = change(self.used);
        if let Some(part) = self.members.get_mut(&member) {
            part.used = change(part.used);
        }
    }

    fn check(&self, scope: Scope, member: u64, more: Amount) -> Result<(), Reason> {
        let (max, wanted) = (self.max, self.used.plus(more));
        // A size that is too large to be added is one that nobody has, whatever is allowed.
        let overflows = self.used.memory.checked_add(more.memory).is_none();
        if overflows || wanted.memory > max.memory {
            return Err(scope.no_memory(wanted.memory, max.memory));
        }
        if wanted.descriptors > max.descriptors {
            return Err(scope.no_descriptors(max.descriptors));
        }
        let Some(own) = self.members.get(&member) else { return Ok(()) };
        let equal = max.half_among(self.members.len());
        let part = equal.least(own.most);
        let others = self.members.iter().filter(|(id, _)| **id != member);
        let promised = others.fold(Amount::default(), |sum, (_, Part { used, most, .. })| {
            sum.plus(equal.least(*most).minus(*used))
        });
        let (wanted, own) = (wanted.plus(promised), own.used.plus(more));
        if more.memory > 0 && own.memory > part.memory && wanted.memory > max.memory {
            return Err(scope.no_share_of_memory(own.memory, max.memory));
        }
        if own.descriptors > part.descriptors && wanted.descriptors > max.descriptors {
            return Err(scope.no_share(own.descriptors, max.descriptors));
        }
        Ok(())
    }
}

impl Scope {
    const fn no_descriptors(self, max: usize) -> Reason {
        match self {
            Self::Process => Reason::QuotaOfProcess(max),
            Self::Socket => Reason::QuotaOfDescriptors(max),
        }
    }

    const fn no_share(self, held: usize, max: usize) -> Reason {
        match self {
            Self::Process => Reason::QuotaOfProcess(max),
            Self::Socket => Reason::ShareOfDescriptors { total: held, max },
        }
    }

    const fn no_memory(self, total: u64, max: u64) -> Reason {
        match self {
            Self::Process => Reason::AddressesOfProcess(max),
            Self::Socket => Reason::QuotaOfMemory { total, max },
        }
    }

    const fn no_share_of_memory(self, held: u64, max: u64) -> Reason {
        match self {
            Self::Process => Reason::AddressesOfProcess(max),
            Self::Socket => Reason::ShareOfMemory { total: held, max },
        }
    }
}

/// One of those who share a quota, and the one around it; it has left when this is dropped.
#[derive(Debug)]
pub struct Member {
    of: Arc<Quota>,
    id: u64,
    /// In the quota around.
    outer: Option<Box<Self>>,
}

impl Member {
    /// One more, who can't use more than that: more isn't promised to it.
    #[must_use]
    pub fn new(of: &Arc<Quota>, most: Amount) -> Self {
        // Its lock is held meanwhile: whoever changes the bound finds the member in both, or in none.
        let mut state = of.state();
        let outer = of.within.as_ref().map(|outer| Box::new(Self::new(outer, most.least(state.max))));
        state.last += 1;
        let id = state.last;
        let part = Part { used: Amount::default(), most, outer: outer.as_ref().map(|outer| outer.id) };
        state.members.insert(id, part);
        drop(state);
        Self { of: Arc::clone(of), id, outer }
    }

    /// One that shares with nobody, and has no bounds.
    #[must_use]
    pub fn unbounded() -> Self {
        Self::new(&Arc::new(Quota::new(Scope::Socket, Amount::MAX)), Amount::MAX)
    }

    /// Nothing is promised to it any more. What it has counts until it is given back.
    pub fn leave(&self) {
        self.of.state().members.remove(&self.id);
        if let Some(outer) = &self.outer {
            outer.leave();
        }
    }

    /// The lock of a quota is taken before that of the one around it.
    fn take(&self, more: Amount) -> Result<(), Reason> {
        let mut state = self.of.state();
        state.check(self.of.scope, self.id, more)?;
        if let Some(outer) = &self.outer {
            outer.take(more)?;
        }
        state.change(self.id, |used| used.plus(more));
        Ok(())
    }

    fn give_back(&self, less: Amount) {
        self.of.state().change(self.id, |used| used.minus(less));
        if let Some(outer) = &self.outer {
            outer.give_back(less);
        }
    }

    /// One more region, of so many bytes.
    ///
    /// # Errors
    /// [`Reason::QuotaOfDescriptors`], [`Reason::QuotaOfMemory`], [`Reason::QuotaOfProcess`], [`Reason::AddressesOfProcess`];
    /// [`Reason::ShareOfDescriptors`], [`Reason::ShareOfMemory`] where the rest is promised to others.
    pub(crate) fn region(self: &Arc<Self>, memory: u64) -> Result<Lease, Reason> {
        let amount = Amount { descriptors: 1, memory };
        self.take(amount)?;
        Ok(Lease { member: Arc::clone(self), amount })
    }

    /// One more ring.
    ///
    /// # Errors
    /// As [`region`](Self::region), for descriptors.
    pub(crate) fn ring(self: &Arc<Self>) -> Result<Lease, Reason> {
        self.region(0)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

/// What one region or ring has of a quota: given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    member: Arc<Member>,
    amount: Amount,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.member.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests;
