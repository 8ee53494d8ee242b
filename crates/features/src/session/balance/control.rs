//! The control side: VIPs by name, the accounts of their backends, and what of all that workers see.

use super::affinity::{Affinity, MAX_ACCOUNT};
use super::ledger::{Figures, Ledger, Standing};
use super::vips::{Algorithm, Backend, SourceNat, Vip, Vips};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tables::session::{Endpoint, Key};

/// What becomes of a backend's sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendState {
    /// It takes new ones.
    #[default]
    Active,
    /// Those that there are go on.
    Draining,
    /// They end, but for VIPs that keep them.
    Down,
}

/// Whose new sessions a backend is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendClients {
    /// Those of all clients.
    #[default]
    All,
    /// Those of clients that are inside.
    Inside,
    /// Those of all others.
    Outside,
}

/// A backend as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendConfig {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its share of new sessions, in proportion to the others; 0: none.
    pub weight: u32,
    /// What becomes of its sessions.
    pub state: BackendState,
    /// Whose address it sees; `None`: as its VIP says.
    pub source_nat: Option<SourceNat>,
    /// Whose new sessions it is given.
    pub clients: BackendClients,
}

/// A VIP as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipConfig {
    /// Address space.
    pub context: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Where clients ask.
    pub endpoint: Endpoint,
    /// Who answers: none twice.
    pub backends: Vec<BackendConfig>,
    /// How one is chosen.
    pub algorithm: Algorithm,
    /// Seconds that a client keeps its backend; 0: it isn't kept.
    pub affinity: u32,
    /// Whose address backends see.
    pub source_nat: SourceNat,
    /// What they see where that isn't the client's; `None`: the VIP's.
    pub source_nat_address: Option<IpAddr>,
    /// Clients that keep their address with [`SourceNat::Always`], too: first and last address of each range.
    pub source_nat_except: Arc<[(IpAddr, IpAddr)]>,
    /// Packets go to their backend as they are, and its answers past us: backends have the VIP's port, and see clients as they are.
    pub direct: bool,
    /// Clients that may ask: first and last address of each range; empty: all.
    pub sources: Arc<[(IpAddr, IpAddr)]>,
    /// Clients that are inside: first and last address of each range.
    pub inside: Arc<[(IpAddr, IpAddr)]>,
    /// Whether clients are told where no backend takes their session.
    pub reject: bool,
    /// Whether sessions go on whose backend is down.
    pub keep_down: bool,
    /// Whether sessions end whose backend is taken away.
    pub end_removed: bool,
}

impl VipConfig {
    fn key(&self, endpoint: Endpoint) -> Key {
        Key::of_endpoint(self.context, self.protocol, endpoint)
    }

    fn standing(&self, backend: &BackendConfig) -> Standing {
        match backend.state {
            BackendState::Active if backend.weight > 0 => Standing::Takes,
            BackendState::Down if !self.keep_down => Standing::Ends,
            BackendState::Active | BackendState::Draining | BackendState::Down => Standing::Keeps,
        }
    }
}

/// A backend that workers know.
#[derive(Clone, Debug)]
pub struct Placed {
    /// As it was asked for; as it was last, where it isn't any more.
    pub config: BackendConfig,
    /// It isn't asked for any more, and goes with its last session.
    pub leaving: bool,
    /// Its number in the ledger.
    account: u32,
    /// What the account had come to when it was given it.
    before: Figures,
}

impl Placed {
    /// What it has come to.
    #[must_use]
    pub fn figures(&self, ledger: &Ledger) -> Figures {
        ledger.figures(self.account).since(self.before)
    }
}

/// A VIP that workers know.
#[derive(Clone, Debug)]
pub struct PlacedVip {
    /// As it was asked for.
    pub config: Arc<VipConfig>,
    /// Its backends, and those that leave.
    pub backends: Vec<Placed>,
    /// What backends had come to that have gone.
    past: Figures,
    refused: Arc<AtomicU64>,
    bytes: usize,
}

impl PlacedVip {
    /// Figures of all of them, also of those that have gone.
    #[must_use]
    pub fn figures(&self, ledger: &Ledger) -> Figures {
        self.backends.iter().fold(self.past, |sum, backend| sum.plus(backend.figures(ledger)))
    }

    /// Packets that found no backend.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes of what workers choose by.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What a publication has changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// VIPs that are others now, or gone.
    pub vips: BTreeMap<Arc<str>, Option<Arc<PlacedVip>>>,
    /// What their figures are read from.
    pub ledger: Arc<Ledger>,
    /// Workers have to look through their sessions: some end, or may be given a backend.
    pub revisit: bool,
}

/// All VIPs, for their one writer.
#[derive(Debug)]
pub struct Balancer {
    wanted: HashMap<Arc<str>, Arc<VipConfig>>,
    /// Names of those that have been changed since.
    changed: BTreeSet<Arc<str>>,
    placed: HashMap<Arc<str>, Arc<PlacedVip>>,
    /// Names of those that have backends which leave.
    leaving: BTreeSet<Arc<str>>,
    ledger: Ledger,
    /// Accounts that nobody has, those that were given back last at the end.
    free: VecDeque<u32>,
    vips: Vips,
    /// Backends of VIPs that are gone, which have sessions that are about to end.
    departed: Vec<(Key, u32)>,
}

impl Balancer {
    /// No VIPs, for that many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            wanted: HashMap::new(),
            changed: BTreeSet::new(),
            placed: HashMap::new(),
            leaving: BTreeSet::new(),
            ledger: Ledger::of_workers(workers),
            free: VecDeque::new(),
            vips: Vips::default(),
            departed: Vec::new(),
        }
    }

    /// A VIP shall be so, or not be. Nothing happens before [`Balancer::publish`].
    pub fn set(&mut self, name: &str, config: Option<VipConfig>) {
        let name: Arc<str> = name.into();
        match config {
            Some(config) => self.wanted.insert(Arc::clone(&name), Arc::new(config)),
            None => self.wanted.remove(&name),
        };
        self.changed.insert(name);
    }

    /// Whether something was changed that isn't published.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What workers are to see.
    #[must_use]
    pub fn vips(&self) -> &Vips {
        &self.vips
    }

    /// A VIP that workers know.
    #[must_use]
    pub fn placed(&self, name: &str) -> Option<&Arc<PlacedVip>> {
        self.placed.get(name)
    }

    /// Accounts of all backends, and whether their VIP's packets go to them as they are: by VIP, as [`Key::of_endpoint`] makes it, and backend.
    #[must_use]
    pub fn accounts(&self) -> HashMap<(Key, Endpoint), (u32, bool)> {
        let of_vip = |vip: &Arc<PlacedVip>| {
            let (vip, config) = (Arc::clone(vip), Arc::clone(&vip.config));
            (0..vip.backends.len()).map(move |at| {
                let backend = &vip.backends[at];
                ((config.key(config.endpoint), backend.config.endpoint), (backend.account, config.direct))
            })
        };
        self.placed.values().flat_map(of_vip).collect()
    }

    /// Bytes of memory that workers' part takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.placed.values().map(|vip| vip.bytes).sum::<usize>() + self.ledger.bytes()
    }

    /// Takes all changes over into what workers are to see, and into the accounts.
    pub fn publish(&mut self) -> Changed {
        let mut done = Changed::default();
        self.sweep_departed();
        let changed = std::mem::take(&mut self.changed);
        // First who goes: what one gives up another may take.
        for name in &changed {
            let gone = match (self.placed.get(name), self.wanted.get(name)) {
                (Some(placed), Some(wanted)) => !same_place(&placed.config, wanted),
                (Some(_), None) => true,
                (None, _) => false,
            };
            if gone && let Some(vip) = self.placed.remove(name) {
                self.depart(&vip);
                self.leaving.remove(name);
                done.vips.insert(Arc::clone(name), None);
                done.revisit = true;
            }
        }
        let left: Vec<_> = self.leaving.iter().filter(|name| self.has_left(name)).cloned().collect();
        for name in changed.into_iter().chain(left).collect::<BTreeSet<_>>() {
            let Some(wanted) = self.wanted.get(&name).map(Arc::clone) else { continue };
            let before = self.placed.get(&name).map(Arc::clone);
            let (placed, revisit) = self.place(&wanted, before.as_deref());
            done.revisit |= revisit;
            if placed.backends.iter().any(|backend| backend.leaving) {
                self.leaving.insert(Arc::clone(&name));
            } else {
                self.leaving.remove(&name);
            }
            let placed = Arc::new(placed);
            self.placed.insert(Arc::clone(&name), Arc::clone(&placed));
            done.vips.insert(name, Some(placed));
        }
        if self.vips.ledger.len() != self.ledger.len() {
            self.vips.ledger = Arc::new(self.ledger.clone());
        }
        done.ledger = Arc::clone(&self.vips.ledger);
        done
    }

    /// Whether one of its backends that leave has no sessions any more.
    fn has_left(&self, name: &str) -> bool {
        let gone = |backend: &Placed| backend.leaving && self.ledger.figures(backend.account).sessions == 0;
        self.placed.get(name).is_some_and(|vip| vip.backends.iter().any(gone))
    }

    /// A VIP of that address comes or changes. Second: whether sessions have to be looked through.
    fn place(&mut self, wanted: &Arc<VipConfig>, before: Option<&PlacedVip>) -> (PlacedVip, bool) {
        let mut revisit = before.is_none();
        let mut had: BTreeMap<Endpoint, &Placed> = before
            .iter()
            .flat_map(|vip| &vip.backends)
            .map(|backend| (backend.config.endpoint, backend))
            .collect();
        let mut past = before.map(|vip| vip.past).unwrap_or_default();
        let mut backends = Vec::with_capacity(wanted.backends.len());
        for config in &wanted.backends {
            let (account, earlier) = match had.remove(&config.endpoint) {
                Some(backend) => (backend.account, backend.before),
                None => {
                    let account = self.take_account();
                    self.uses(&wanted.key(config.endpoint), 1);
                    (account, self.ledger.figures(account))
                }
            };
            revisit |= self.stand(account, wanted.standing(config));
            backends.push(Placed { config: *config, leaving: false, account, before: earlier });
        }
        for backend in had.into_values() {
            let figures = self.ledger.figures(backend.account);
            if figures.sessions > 0 {
                // As if it were draining, or down.
                let standing = if wanted.end_removed { Standing::Ends } else { Standing::Keeps };
                revisit |= self.stand(backend.account, standing);
                backends.push(Placed { leaving: true, ..backend.clone() });
            } else {
                past = past.plus(figures.since(backend.before));
                self.uses(&wanted.key(backend.config.endpoint), -1);
                self.free.push_back(backend.account);
            }
        }
        let refused = before.map(|vip| Arc::clone(&vip.refused)).unwrap_or_default();
        let takes =
            |backend: &&Placed| !backend.leaving && wanted.standing(&backend.config) == Standing::Takes;
        let of = |backend: &Placed| Backend {
            endpoint: backend.config.endpoint,
            weight: backend.config.weight,
            account: backend.account,
            source_nat: backend.config.source_nat.unwrap_or(wanted.source_nat),
            clients: backend.config.clients,
        };
        let taking: Vec<Backend> = backends.iter().filter(takes).map(of).collect();
        let vip = Vip::new(wanted, taking, Arc::clone(&refused));
        if wanted.affinity > 0 {
            self.vips.affinity.get_or_insert_with(|| Arc::new(Affinity::default()));
        }
        let bytes = vip.bytes();
        let vip = Arc::new(vip);
        self.vips.servers.change(&wanted.key(wanted.endpoint), |server| {
            server.get_or_insert_default().vip = Some(vip);
        });
        (PlacedVip { config: Arc::clone(wanted), backends, past, refused, bytes }, revisit)
    }

    /// A VIP goes: its sessions end.
    fn depart(&mut self, vip: &PlacedVip) {
        self.vips.servers.change(&vip.config.key(vip.config.endpoint), |server| {
            if let Some(there) = server {
                there.vip = None;
                if there.uses == 0 {
                    *server = None;
                }
            }
        });
        for backend in &vip.backends {
            self.stand(backend.account, Standing::Ends);
            self.departed.push((vip.config.key(backend.config.endpoint), backend.account));
        }
    }

    /// Accounts are given to others when their last session has ended.
    fn sweep_departed(&mut self) {
        for (key, account) in std::mem::take(&mut self.departed) {
            if self.ledger.figures(account).sessions > 0 {
                self.departed.push((key, account));
            } else {
                self.uses(&key, -1);
                self.free.push_back(account);
            }
        }
    }

    /// Says what becomes of an account's sessions; whether some may end by that.
    fn stand(&self, account: u32, standing: Standing) -> bool {
        let Some(account) = self.ledger.account(account) else { return false };
        let before = account.standing();
        account.set_standing(standing);
        before != standing && standing == Standing::Ends
    }

    fn take_account(&mut self) -> u32 {
        if let Some(free) = self.free.pop_front() {
            return free;
        }
        let first = self.ledger.len() as u32;
        self.ledger.grow();
        self.free.extend(first + 1..(self.ledger.len() as u32).min(MAX_ACCOUNT));
        first
    }

    fn uses(&mut self, endpoint: &Key, more: i32) {
        self.vips.servers.change(endpoint, |server| {
            let there = server.get_or_insert_default();
            there.uses = there.uses.saturating_add_signed(more);
            if there.uses == 0 && there.vip.is_none() {
                *server = None;
            }
        });
    }
}

/// Whether clients ask both at the same place.
fn same_place(one: &VipConfig, other: &VipConfig) -> bool {
    (one.context, one.protocol, one.endpoint) == (other.context, other.protocol, other.endpoint)
}
