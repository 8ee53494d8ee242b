//! How a session is given an address and a port of a pool, and how that is given back.

use super::super::entry::Marks;
use super::super::events::What;
use super::super::sessions::Sessions;
use super::super::tenants::{Tenant, Tenants};
use super::super::translate::{Address, Address6, End, Translation};
use super::block_ports::{Found, Wanting};
use super::blocks::{Binding, Blocks};
use super::likely::Likely;
use super::pool::{Figures, Pool, Share};
use std::sync::Arc;
use tables::session::{Beside, Endpoint, Handle, Key};
use wire::IpProtocol;

/// Ports that are tried for a session: a pool in which as many in a row are taken is as good as used up.
pub(super) const TRIES: usize = 512;
/// Ports that are looked at for one whose answers come to this worker.
const LOOKS: usize = 1 << 14;
/// Wants for which there was no port just now, and isn't looked for one again in the same tick.
const REMEMBERED: usize = 16;

/// What there was no port for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Want {
    /// Where the pool's figures are, by which pools are told apart: hosts of several may have the same addresses.
    pool: usize,
    /// The address that hosts are seen with, or the host where its ports are no other's.
    who: u32,
    /// Protocol and remote; none: whichever.
    to: Option<(u8, End<u32>)>,
    /// When that was found out.
    tick: u64,
}

impl Want {
    /// Of a pool's host that may be seen with that share.
    fn new(pool: &Pool, host: u32, share: &Share, to: (u8, End<u32>), tick: u64) -> Self {
        let is_its_own = pool.blocks.is_some() || pool.deterministic.is_some();
        let who = if is_its_own { host } else { share.address };
        Self { pool: Arc::as_ptr(&pool.figures).addr(), who, to: Some(to), tick }
    }

    /// The same of whomever it asks.
    const fn of_all(self) -> Self {
        Self { to: None, ..self }
    }
}

/// Why a session gets no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum NoPort {
    /// The pool has nothing for that host.
    NoShare,
    /// All of its ports are in use to that destination.
    Exhausted,
    /// It has no block, and there is none for it, to whatever destination.
    NoBlock,
    /// All of its blocks' are, and it is given none more.
    NoMore,
    /// The one that the host is mapped to is.
    InUse,
}

/// What a session is to be translated to.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Wish {
    /// How its initiator is seen; `None`: with one of the pool's addresses and ports.
    pub(in super::super) source: Option<End<u32>>,
    /// Who is asked.
    pub(in super::super) responder: End<u32>,
}

/// Pools that a worker's sessions have ports of.
#[derive(Debug, Default)]
pub(in super::super) struct Pools {
    known: Vec<Known>,
    used_up: [Option<(Want, NoPort)>; REMEMBERED],
    /// There is one of them: a port that is given back needn't look.
    any_used_up: bool,
}

/// What a session that is translated leaves when it ends.
#[derive(Debug)]
struct Known {
    figures: Arc<Figures>,
    blocks: Option<Arc<Blocks>>,
}

impl Known {
    fn of(pool: &Pool) -> Self {
        Self { figures: Arc::clone(&pool.figures), blocks: pool.blocks.clone() }
    }

    fn is_of(&self, pool: &Pool) -> bool {
        let blocks = self.blocks.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.figures, &pool.figures) && blocks == pool.blocks.as_ref().map(Arc::as_ptr)
    }
}

impl Pools {
    /// A port of the pool of that number is given back; `seen` says which host was seen with which one.
    pub(in super::super) fn give(
        &mut self,
        pool: u16,
        seen: impl FnOnce() -> Option<(u32, End<u32>)>,
    ) -> Binding {
        let Some(Known { figures, blocks }) = self.known.get(usize::from(pool)) else {
            return Binding::Port;
        };
        figures.give();
        if core::mem::take(&mut self.any_used_up) {
            self.used_up = [None; REMEMBERED];
        }
        let left = || {
            let (blocks, (host, seen)) = (blocks.as_ref()?, seen()?);
            Some(blocks.leave(host, seen))
        };
        left().unwrap_or_default()
    }

    /// What is said of a port of the pool of that number that a host is seen with.
    pub(in super::super) fn binding(
        &self,
        pool: u16,
        seen: impl FnOnce() -> Option<(u32, End<u32>)>,
    ) -> Binding {
        let within = || {
            let blocks = self.known.get(usize::from(pool))?.blocks.as_ref()?;
            let (host, seen) = seen()?;
            blocks.has(host, seen).then_some(Binding::Within)
        };
        within().unwrap_or_default()
    }

    fn number_of(&mut self, pool: &Pool) -> u16 {
        let known = self.known.iter().position(|known| known.is_of(pool));
        // One that nobody else knows any more is of a pool that is gone, as are its translations; and where the same pool has had other blocks, nobody has any of those.
        let free = || {
            let gone = |known: &Known| Arc::strong_count(&known.figures) == 1 && idle(&known.figures);
            let other = |known: &Known| {
                let unused = |blocks: &Arc<Blocks>| Arc::strong_count(blocks) == 1 && blocks.taken() == 0;
                Arc::ptr_eq(&known.figures, &pool.figures) && known.blocks.as_ref().is_some_and(unused)
            };
            self.known.iter().position(|known| gone(known) || other(known))
        };
        if let Some(at) = known.or_else(free) {
            self.known[at] = Known::of(pool);
            return at as u16;
        }
        self.known.push(Known::of(pool));
        (self.known.len() - 1) as u16
    }
}

fn idle(figures: &Figures) -> bool {
    figures.translations() == 0
}

/// Whether a session may go on as it is translated, now that its tenant has changed.
pub(in super::super) fn holds(
    tenants: &Tenants,
    tenant: &Tenant,
    key: &Key,
    translation: &Translation<u32>,
) -> bool {
    let Some(pool) = &tenant.nat else { return false };
    let (low, high) = key.v4_endpoints();
    let (host, remote) = if translation.near_is_high { (high, low) } else { (low, high) };
    let ([seen, asked], protocol) = (translation.beyond(), key.protocol());
    let meant = pool.mappings.inward(protocol, remote);
    // An echo's identifier stands for both ports.
    let as_asked = meant.map_or(asked.0 == remote.0, |meant| meant.0 == asked.0);
    let as_seen = match pool.mappings.outward(protocol, host) {
        Some(mapped) => mapped == seen || seen == host && meant.is_some(),
        // It began outside.
        None if seen == host => meant.is_some(),
        None => pool.covers(host.0, seen, tenants),
    };
    tenant.chain[0].has(super::number()) && as_asked && as_seen
}

/// Whether a protocol's ports can be changed: SCTP's are covered by a checksum over the whole packet, and by them alone a worker is chosen.
pub(super) fn has_free_ports(protocol: IpProtocol) -> bool {
    protocol != IpProtocol::SCTP
}

impl Sessions {
    /// Gives a session whose initiator is inside an address and a port of the pool, or those that it is mapped to; its responder, where
    /// that is mapped, the host that is meant.
    ///
    /// The port is one with which the answers' key is this worker's, as the session is, and no other session's. So nobody has to know which
    /// ports are in use, and one serves as many sessions as there are destinations.
    #[cold]
    pub(in super::super) fn translate(
        &mut self,
        tenants: &Tenants,
        worker: u32,
        index: u32,
        (pool, wish): (&Pool, Wish),
        likely: Option<&Likely>,
        tick: u64,
    ) -> Result<(), NoPort> {
        let Some((handle, key, session)) = self.table.visit(index) else { return Ok(()) };
        let (key, inside_is_high) = (key, session.initiator_is_high());
        let (low, high) = key.v4_endpoints();
        let ((host, asked), remote) =
            (if inside_is_high { (high, low) } else { (low, high) }, wish.responder);
        if let Some(seen) = wish.source {
            let protocol = IpProtocol(key.protocol());
            let (alias, seen_is_high) = Key::v4_by_protocol(key.context(), protocol.0, seen, remote);
            // Both keys are this worker's, as the owner goes by hosts' own addresses.
            let alias = self.table.add_alias(handle, alias, seen_is_high != inside_is_high);
            let alias = alias.map_err(|_| NoPort::InUse)?;
            let found = (alias, [seen, remote], Binding::Port);
            return self.note(index, (handle, key, inside_is_high), found, pool);
        }
        let ends = (host, remote, inside_is_high);
        if let Some(likely) = likely.filter(|_| asked == remote) {
            for (seen, hash) in likely.of(handle) {
                if self.table.is_vacant(hash) {
                    let seen = candidate(&key, ends, seen);
                    let alias = self.table.add_vacant_alias(handle, (seen.key, hash), seen.turned);
                    let found = (alias, seen.beyond, Binding::Port);
                    return self.note(index, (handle, key, inside_is_high), found, pool);
                }
            }
        }
        let share = pool.share(host.0, &tenants.shares).ok_or(NoPort::NoShare)?;
        let want = Want::new(pool, host.0, &share, (key.protocol(), remote), tick);
        let mut used_up = self.translations.pools.used_up.iter().flatten();
        if let Some((_, why)) = used_up.find(|(it, _)| *it == want || *it == want.of_all()) {
            return Err(pool.figures.refuse(*why));
        }
        let found = match &pool.blocks {
            Some(blocks) => {
                let wanting = Wanting { worker, key: &key, ends };
                self.block_port(tenants, (handle, &wanting), blocks, share.address)
            }
            None => {
                let seen = self.port(tenants, worker, (&key, ends), &share, TRIES);
                let found = seen.and_then(|seen| {
                    let alias = self.table.add_alias(handle, seen.key, seen.turned).ok()?;
                    Some((alias, seen.beyond, Binding::Port))
                });
                found.ok_or(NoPort::Exhausted)
            }
        };
        match found {
            Ok(found) => self.note(index, (handle, key, inside_is_high), found, pool),
            Err(why) => {
                // One that had to keep its port says nothing of others.
                if has_free_ports(IpProtocol(key.protocol())) {
                    // Any place does: it is for those that come by thousands, to a few remotes each.
                    let place = self.table.hash(&key) as usize % REMEMBERED;
                    // Who has no block need not be looked for again, whomever it asks.
                    let want = if why == NoPort::NoBlock { want.of_all() } else { want };
                    self.translations.pools.used_up[place] = Some((want, why));
                    self.translations.pools.any_used_up = true;
                }
                Err(pool.figures.refuse(why))
            }
        }
    }

    /// The session is found by its second key, and looks so beyond.
    fn note(
        &mut self,
        index: u32,
        (handle, key, inside_is_high): (Handle, Key, bool),
        (alias, beyond, binding): Found,
        pool: &Pool,
    ) -> Result<(), NoPort> {
        let number = self.translations.pools.number_of(pool);
        let noted = note(&mut self.translations.v4, (handle, &key, inside_is_high), (alias, beyond), number);
        if noted.is_none()
            && let Some(blocks) = &pool.blocks
        {
            let (low, high) = key.v4_endpoints();
            blocks.leave(if inside_is_high { high.0 } else { low.0 }, beyond[0]);
        }
        self.noted(index, noted, (alias, binding), pool)
    }

    /// A session of IPv6 whose initiator and responder are seen so beyond, with the ports that they have.
    ///
    /// # Errors
    /// [`NoPort`] where another session is found by that.
    #[cold]
    pub(super) fn exchange(&mut self, index: u32, pool: &Pool, beyond: [Endpoint; 2]) -> Result<(), NoPort> {
        let Some((handle, key, session)) = self.table.visit(index) else { return Ok(()) };
        let near_is_high = session.initiator_is_high();
        let second = Key::of(key.context(), key.protocol(), beyond[0], beyond[1]);
        let (second, seen_is_high) = second.ok_or(NoPort::NoShare)?;
        // Both keys are this worker's, as the owner goes by hosts' own addresses.
        let alias = self.table.add_alias(handle, second, seen_is_high != near_is_high);
        let alias = alias.map_err(|_| NoPort::InUse)?;
        let number = self.translations.pools.number_of(pool);
        let noted = match beyond.map(|(address, port)| Some((Address6::of(address)?, port))) {
            [Some(near), Some(far)] => {
                let session = (handle, &key, near_is_high);
                note(&mut self.translations.v6, session, (alias, [near, far]), number)
            }
            _ => None,
        };
        self.noted(index, noted, (alias, Binding::Port), pool)
    }

    fn noted(
        &mut self,
        index: u32,
        noted: Option<()>,
        (alias, binding): (u32, Binding),
        pool: &Pool,
    ) -> Result<(), NoPort> {
        if noted.is_none() {
            self.table.remove_alias(alias);
            return Err(NoPort::Exhausted);
        }
        pool.figures.take();
        if let Some(session) = self.table.get_mut(index) {
            session.marks.put(Marks::TRANSLATED, true);
        }
        self.tell_of(index, What::Translated, binding);
        Ok(())
    }

    /// Where the search for a session's port begins: nobody can foresee it (RFC 6056).
    #[inline(always)]
    pub(super) fn start(&self, key: &Key) -> u32 {
        self.table.hash(key).rotate_left(16)
    }

    /// A port for the session.
    ///
    /// Of one in use the other session's line, which comes from memory, would tell for certain; the bucket tells all but a few of them from
    /// those that are free. So the lines are looked at only where no port seems to be free.
    pub(super) fn port(
        &self,
        tenants: &Tenants,
        worker: u32,
        (key, ends): (&Key, (End<u32>, End<u32>, bool)),
        share: &Share,
        tries: usize,
    ) -> Option<Candidate> {
        let hash = |seen: &Candidate| self.table.hash(&seen.key);
        let all = || candidates(tenants, worker, (key, self.start(key)), ends, share).take(tries);
        all()
            .find(|seen| self.table.is_vacant(hash(seen)))
            .or_else(|| all().find(|seen| self.table.find(&seen.key, hash(seen)).is_none()))
    }

    /// How both sides of a session that began now would be seen.
    ///
    /// # Errors
    /// [`NoPort`] as [`Sessions::translate`].
    pub(in super::super) fn would_translate(
        &self,
        tenants: &Tenants,
        worker: u32,
        (key, inside_is_high): (Key, bool),
        (pool, wish): (&Pool, Wish),
    ) -> Result<[End<u32>; 2], NoPort> {
        let (low, high) = key.v4_endpoints();
        let (host, remote) = (if inside_is_high { high } else { low }, wish.responder);
        let is_free = |alias: Key| self.table.find(&alias, self.table.hash(&alias)).is_none();
        if let Some(seen) = wish.source {
            let (alias, _) = Key::v4_by_protocol(key.context(), key.protocol(), seen, remote);
            return if is_free(alias) { Ok([seen, remote]) } else { Err(NoPort::InUse) };
        }
        let share = pool.share(host.0, &tenants.shares).ok_or(NoPort::NoShare)?;
        let ends = (host, remote, inside_is_high);
        match &pool.blocks {
            Some(blocks) => {
                let wanting = Wanting { worker, key: &key, ends };
                self.would_have_block_port(tenants, &wanting, blocks, share.address)
            }
            None => {
                let seen = self.port(tenants, worker, (&key, ends), &share, TRIES);
                seen.map(|seen| seen.beyond).ok_or(NoPort::Exhausted)
            }
        }
    }
}

/// Notes how a session is seen beyond.
fn note<A: Address>(
    known: &mut Beside<Translation<A>>,
    (handle, key, near_is_high): (Handle, &Key, bool),
    (alias, beyond): (u32, [End<A>; 2]),
    pool: u16,
) -> Option<()> {
    let (translation, _) = known.get_mut(handle)?;
    *translation = Translation::new(key, near_is_high, beyond);
    (translation.pool, translation.alias) = (pool, alias);
    Some(())
}

/// How a session could be seen.
pub(super) struct Candidate {
    /// What its answers are looked up by.
    pub(super) key: Key,
    /// Who is the higher endpoint of that key is the lower one of the session's.
    pub(super) turned: bool,
    /// Both sides.
    pub(super) beyond: [End<u32>; 2],
}

/// How a session with that key could be seen with one address and port.
#[inline(always)]
pub(super) fn candidate(
    key: &Key,
    (_, remote, inside_is_high): (End<u32>, End<u32>, bool),
    seen: End<u32>,
) -> Candidate {
    let protocol = IpProtocol(key.protocol());
    // An echo's identifier stands for both ports.
    let other = if protocol == IpProtocol::ICMP { (remote.0, seen.1) } else { remote };
    let (key, seen_is_high) = Key::v4(key.context(), protocol.0, seen, other);
    Candidate { key, turned: seen_is_high != inside_is_high, beyond: [seen, other] }
}

/// How a session could be seen, in the order in which that is tried: with those ports of the share whose key is this worker's.
#[inline(always)]
pub(super) fn candidates(
    tenants: &Tenants,
    worker: u32,
    (key, start): (&Key, u32),
    ends: (End<u32>, End<u32>, bool),
    share: &Share,
) -> impl Iterator<Item = Candidate> {
    let (address, own, is_free) = (share.address, ends.0.1, has_free_ports(IpProtocol(key.protocol())));
    let ports = share.candidates(own, start).take(if is_free { LOOKS } else { 1 });
    ports.filter_map(
        #[inline(always)]
        move |port| {
            let seen = candidate(key, ends, (address, port));
            let is_ours = tenants.workers <= 1 || tenants.owner(&seen.key) == worker;
            let can_be = is_ours && (is_free || port == own);
            can_be.then_some(seen)
        },
    )
}
