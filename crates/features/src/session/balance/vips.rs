//! VIPs as workers see them: a part of the tables.

use super::affinity::{Affinity, Client};
use super::control::{BackendClients, VipConfig};
use super::ledger::{Books, Ledger};
use core::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::maglev::{Maglev, Member};
use tables::session::{Directory, Endpoint, Key, Seed};

/// Backends that are looked at for the one with fewest sessions: all of them, or as many taken at random.
const LOOKS: u32 = 32;

/// What clients are told apart by. It is no secret and the same everywhere: nodes with the same backends give a client the same one.
const CLIENTS: Seed =
    Seed::known([0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x27d4_eb2f_1656_67c5]);
/// The other half of a hash of 64 bits.
const MORE: Seed =
    Seed::known([0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3]);

fn hash64(key: &Key) -> u64 {
    u64::from(CLIENTS.hash(key)) << 32 | u64::from(MORE.hash(key))
}

/// How the backend of a new session is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// By a hash of the client: the same everywhere, and few clients have another one when backends change.
    #[default]
    Maglev,
    /// The one with fewest sessions for its weight.
    LeastFlows,
}

/// Which sessions are seen by their backend with an address of Quiver's instead of the client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceNat {
    /// Those whose client is the backend itself, and such whose answers wouldn't be found otherwise.
    #[default]
    Hairpin,
    /// All.
    Always,
    /// None.
    Never,
}

/// A backend that takes sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) endpoint: Endpoint,
    pub(super) weight: u32,
    pub(super) account: u32,
    /// Whose address it sees.
    pub(super) source_nat: SourceNat,
    /// Whose sessions it is given.
    pub(super) clients: BackendClients,
}

/// Backends, of which one is chosen for a client.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) backends: Vec<Backend>,
    /// Empty where it isn't chosen by that.
    table: Maglev,
}

impl Choice {
    fn new(algorithm: Algorithm, backends: Vec<Backend>) -> Self {
        let member =
            |backend: &Backend| Member { identity: identity(backend.endpoint), weight: backend.weight };
        let table = match algorithm {
            Algorithm::Maglev => Maglev::new(&backends.iter().map(member).collect::<Vec<_>>()),
            Algorithm::LeastFlows => Maglev::default(),
        };
        Self { backends, table }
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + size_of_val(&*self.backends)
    }

    fn fewest(&self, ledger: &Ledger, hash: u32) -> Option<&Backend> {
        let count = self.backends.len() as u32;
        let load = |backend: &&Backend| {
            let sessions =
                ledger.account(backend.account).map_or(0, |account| account.sessions.load(Ordering::Relaxed));
            // As a fraction of its weight, in a unit that no weight is lost in.
            (u128::from(sessions) << 32) / u128::from(backend.weight)
        };
        if count <= LOOKS {
            // From another one on for each: else all workers would take the first of equal ones at the same time.
            let (front, back) = self.backends.split_at(wire::flow::pick(hash, count.max(1)) as usize);
            return back.iter().chain(front).min_by_key(load);
        }
        let drawn = (0..LOOKS).map(|draw| hash.wrapping_add(draw.wrapping_mul(0x9e37_79b9)));
        drawn.filter_map(|hash| self.backends.get(wire::flow::pick(hash, count) as usize)).min_by_key(load)
    }
}

/// A VIP as workers see it.
#[derive(Debug)]
pub struct Vip {
    pub(super) algorithm: Algorithm,
    /// What backends see in the place of the client's address.
    pub(super) source: IpAddr,
    /// Clients that keep their address with [`SourceNat::Always`], too: first and last address of each range.
    except: Arc<[(IpAddr, IpAddr)]>,
    /// Clients that may ask, disjoint and ascending; `None`: all.
    sources: Option<Vec<(IpAddr, IpAddr)>>,
    /// Clients are told where no backend takes their session.
    pub(super) rejects: bool,
    /// Packets go to their backend as they are, and its answers past us.
    pub(super) direct: bool,
    /// Seconds that a client keeps its backend; 0: it isn't kept.
    pub(super) affinity: u32,
    /// For all clients, but for those that are inside where some backend makes a difference between them.
    choice: Choice,
    /// Clients that are inside, disjoint and ascending, and what they have instead.
    inside: Option<(Vec<(IpAddr, IpAddr)>, Choice)>,
    /// Packets that found no backend: the same through all versions.
    pub(super) refused: Arc<AtomicU64>,
}

/// What a backend is told from others by, wherever it is one.
fn identity(endpoint: Endpoint) -> u64 {
    hash64(&Key::of_endpoint(0, 0, endpoint))
}

impl Vip {
    /// One with these backends; their order has no meaning.
    pub(super) fn new(config: &VipConfig, mut backends: Vec<Backend>, refused: Arc<AtomicU64>) -> Self {
        let algorithm = config.algorithm;
        backends.retain(|backend| backend.weight > 0);
        backends.sort_by_key(|backend| backend.endpoint);
        let but = |clients| backends.iter().copied().filter(move |backend| backend.clients != clients);
        let differs = backends.iter().any(|backend| backend.clients != BackendClients::All);
        let inside = differs.then(|| {
            let choice = Choice::new(algorithm, but(BackendClients::Outside).collect());
            (disjoint(&config.inside), choice)
        });
        Self {
            algorithm,
            source: config.source_nat_address.unwrap_or(config.endpoint.0),
            except: Arc::clone(&config.source_nat_except),
            sources: (!config.sources.is_empty()).then(|| disjoint(&config.sources)),
            rejects: config.reject,
            direct: config.direct,
            affinity: config.affinity,
            choice: Choice::new(algorithm, but(BackendClients::Inside).collect()),
            inside,
            refused,
        }
    }

    /// What a client has for a choice.
    fn choice(&self, client: IpAddr) -> &Choice {
        match &self.inside {
            Some((clients, choice)) if is_within(clients, client) => choice,
            _ => &self.choice,
        }
    }

    /// Whether a client may ask.
    pub(super) fn admits(&self, client: IpAddr) -> bool {
        self.sources.as_ref().is_none_or(|sources| is_within(sources, client))
    }

    /// Whose address a backend of it sees where that client asks.
    pub(super) fn source_nat(&self, backend: &Backend, client: IpAddr) -> SourceNat {
        match backend.source_nat {
            SourceNat::Always
                if self.except.iter().any(|(first, last)| (first..=last).contains(&&client)) =>
            {
                SourceNat::Hairpin
            }
            source_nat => source_nat,
        }
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sources = self.sources.as_deref().map_or(0, size_of_val);
        let inside =
            self.inside.as_ref().map_or(0, |(clients, choice)| size_of_val(&**clients) + choice.bytes());
        size_of::<Self>() + self.choice.bytes() + sources + inside
    }

    /// Adds one to the packets that found no backend.
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether an address is in one of these ranges, which are disjoint and ascending.
fn is_within(ranges: &[(IpAddr, IpAddr)], address: IpAddr) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| address <= *last)
}

/// The same addresses in ranges that don't overlap, ascending.
fn disjoint(ranges: &[(IpAddr, IpAddr)]) -> Vec<(IpAddr, IpAddr)> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let overlap = next.0 <= before.1;
        if overlap {
            before.1 = before.1.max(next.1);
        }
        overlap
    });
    ranges
}

/// Who an endpoint is, besides a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) vip: Option<Arc<Vip>>,
    /// Of how many VIPs it is a backend.
    pub(super) uses: u32,
}

/// All VIPs, and their backends.
#[derive(Clone, Debug, Default)]
pub struct Vips {
    pub(super) servers: Directory<Server>,
    pub(super) ledger: Arc<Ledger>,
    /// There when a VIP wants it.
    pub(super) affinity: Option<Arc<Affinity>>,
}

/// A client that asks a VIP.
pub(super) struct Asker {
    pub(super) context: u16,
    pub(super) protocol: u8,
    pub(super) endpoint: Endpoint,
    /// The VIP, as [`Key::of_endpoint`] makes it.
    pub(super) of: Key,
    /// Seconds on any clock.
    pub(super) now: u32,
}

/// The client as its VIP knows it again, where it does.
fn client(vip: &Vip, asker: &Asker) -> Option<Client> {
    if vip.affinity == 0 {
        return None;
    }
    let client = hash64(&Key::of_endpoint(asker.context, asker.protocol, (asker.endpoint.0, 0)));
    Some(Client(client ^ hash64(&asker.of).rotate_left(7)))
}

impl Vips {
    /// The VIP of an endpoint as [`Key::of_endpoint`] makes it, if it is one.
    pub(super) fn get(&self, endpoint: &Key) -> Option<&Arc<Vip>> {
        self.servers.get(endpoint)?.vip.as_ref()
    }

    /// Who of a session's two is the client, where the other one is a VIP or a backend: as a key of [`Key::of_endpoint`]. Of a session and of what it looks like
    /// beyond, that is the same, so its worker follows from it.
    #[inline]
    #[must_use]
    pub fn client(&self, key: &Key) -> Option<Key> {
        if self.servers.is_empty() { None } else { self.client_of(key) }
    }

    #[inline(never)]
    fn client_of(&self, key: &Key) -> Option<Key> {
        let [low, high] = key.each_endpoint();
        match (self.servers.get(&low), self.servers.get(&high)) {
            (None, Some(_)) => Some(low),
            (Some(_), None) => Some(high),
            // Somebody's backend asks from its own port.
            (Some(server), Some(client)) if server.vip.is_some() && client.vip.is_none() => Some(high),
            (Some(client), Some(server)) if server.vip.is_some() && client.vip.is_none() => Some(low),
            _ => None,
        }
    }

    /// The backend of a new session, which the client keeps.
    pub(super) fn choose<'v>(&self, vip: &'v Vip, asker: &Asker) -> Option<&'v Backend> {
        let backend = self.would_choose(vip, asker)?.0;
        if let Some((table, client)) = self.affinity.as_ref().zip(client(vip, asker)) {
            table.put(client, backend.account, asker.now);
        }
        Some(backend)
    }

    /// The backend that a new session would have; second: whether since the client had it before.
    pub(super) fn would_choose<'v>(&self, vip: &'v Vip, asker: &Asker) -> Option<(&'v Backend, bool)> {
        let Asker { context, protocol, endpoint: (address, port), now, .. } = *asker;
        let choice = vip.choice(address);
        let Some(entry) = client(vip, asker) else {
            let hash = CLIENTS.hash(&Key::of_endpoint(context, protocol, (address, port)));
            return self.pick((vip.algorithm, choice), hash).map(|backend| (backend, false));
        };
        let last = self.affinity.as_ref().and_then(|table| table.last(entry, now));
        let kept = last.filter(|(_, ago)| *ago < vip.affinity);
        let kept =
            kept.and_then(|(account, _)| choice.backends.iter().find(|backend| backend.account == account));
        if let Some(kept) = kept {
            return Some((kept, true));
        }
        // Who isn't known is given the same one by every node, and by this one when it has begun anew. Whose time is over is given any.
        let port = if last.is_some_and(|(_, ago)| ago >= vip.affinity) { port } else { 0 };
        let hash = (hash64(&Key::of_endpoint(context, protocol, (address, port))) >> 32) as u32;
        self.pick((vip.algorithm, choice), hash).map(|backend| (backend, false))
    }

    fn pick<'v>(&self, (algorithm, choice): (Algorithm, &'v Choice), hash: u32) -> Option<&'v Backend> {
        match algorithm {
            Algorithm::Maglev => choice.backends.get(usize::from(choice.table.pick(hash)?)),
            Algorithm::LeastFlows => choice.fewest(&self.ledger, hash),
        }
    }

    /// Has a worker count in these accounts.
    pub(super) fn open(&self, books: &mut Books, worker: u32) {
        books.open(&self.ledger, worker);
    }
}
