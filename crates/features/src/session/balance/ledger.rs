//! What is counted of backends, and what becomes of their sessions: shared by all workers and the control side.

use super::super::tenants::Tenant;
use super::super::translate::NOBODY;
use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Accounts of a chunk.
pub(super) const CHUNK: usize = 256;

/// What becomes of a backend's sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// Those that there are go on, and others begin.
    #[default]
    Takes,
    /// Those that there are go on.
    Keeps,
    /// They end.
    Ends,
}

/// What all workers change: when a session comes or goes, not for each packet.
#[derive(Debug, Default)]
pub struct Account {
    /// Sessions that there are.
    pub sessions: AtomicU64,
    /// Sessions that there have been.
    pub created: AtomicU64,
    standing: AtomicU8,
}

impl Account {
    /// What becomes of its sessions.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.standing.load(Ordering::Relaxed) {
            0 => Standing::Takes,
            1 => Standing::Keeps,
            _ => Standing::Ends,
        }
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        self.standing.store(standing as u8, Ordering::Relaxed);
    }
}

/// What one worker counts of a backend's packets, for each of them; stored by it alone.
#[derive(Debug, Default)]
struct Traffic {
    /// Packets to the backend, and from it.
    packets: [AtomicU64; 2],
    /// Their bytes, from the IP header on.
    bytes: [AtomicU64; 2],
}

/// Figures of a backend, or of all of a VIP's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Sessions that there are.
    pub sessions: u64,
    /// Sessions that there have been.
    pub created: u64,
    /// Packets to it, and from it.
    pub packets: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
}

impl Figures {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// What has come since the others.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { sessions: self.sessions, ..self.with(earlier, u64::wrapping_sub) }
    }

    fn with(self, other: Self, merge: fn(u64, u64) -> u64) -> Self {
        let both = |a: [u64; 2], b: [u64; 2]| [merge(a[0], b[0]), merge(a[1], b[1])];
        Self {
            sessions: merge(self.sessions, other.sessions),
            created: merge(self.created, other.created),
            packets: both(self.packets, other.packets),
            bytes: both(self.bytes, other.bytes),
        }
    }
}

type Accounts = Arc<[Account; CHUNK]>;
type Page = Arc<[Traffic; CHUNK]>;

/// The accounts of all backends by number. It only grows: a number is valid in every later one.
#[derive(Clone, Default)]
pub struct Ledger {
    accounts: Vec<Accounts>,
    /// By worker.
    traffic: Vec<Vec<Page>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("accounts", &self.len()).finish_non_exhaustive()
    }
}

impl Ledger {
    pub(super) fn of_workers(workers: usize) -> Self {
        Self { accounts: Vec::new(), traffic: vec![Vec::new(); workers.max(1)] }
    }

    pub(super) fn len(&self) -> usize {
        self.accounts.len() * CHUNK
    }

    pub(super) fn grow(&mut self) {
        self.accounts.push(Arc::new(core::array::from_fn(|_| Account::default())));
        self.traffic.iter_mut().for_each(|pages| {
            pages.push(Arc::new(core::array::from_fn(|_| Traffic::default())));
        });
    }

    /// The account of that number.
    #[inline(always)]
    #[must_use]
    pub fn account(&self, number: u32) -> Option<&Account> {
        let number = number as usize;
        self.accounts.get(number / CHUNK).map(|chunk| &chunk[number % CHUNK])
    }

    /// What that account has come to.
    #[must_use]
    pub fn figures(&self, number: u32) -> Figures {
        let Some(account) = self.account(number) else { return Figures::default() };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let at = number as usize;
        let pages = self.traffic.iter().filter_map(|pages| pages.get(at / CHUNK));
        let of_packets = pages.map(|page| {
            let Traffic { packets, bytes } = &page[at % CHUNK];
            Figures {
                packets: [read(&packets[0]), read(&packets[1])],
                bytes: [read(&bytes[0]), read(&bytes[1])],
                ..Figures::default()
            }
        });
        let of_sessions = Figures {
            sessions: read(&account.sessions),
            created: read(&account.created),
            ..Figures::default()
        };
        of_packets.fold(of_sessions, Figures::plus)
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.accounts.len() * CHUNK * (size_of::<Account>() + self.traffic.len() * size_of::<Traffic>())
    }
}

/// The ledger as one worker has it.
#[derive(Debug, Default)]
pub(in super::super) struct Books {
    ledger: Arc<Ledger>,
    worker: usize,
}

impl Books {
    /// The worker has it from now on.
    pub(super) fn open(&mut self, ledger: &Arc<Ledger>, worker: u32) {
        if !Arc::ptr_eq(&self.ledger, ledger) {
            self.ledger = Arc::clone(ledger);
        }
        self.worker = worker as usize;
    }

    /// A backend has one session more.
    pub(super) fn take(&self, account: u32) {
        if let Some(account) = self.ledger.account(account) {
            account.sessions.fetch_add(1, Ordering::Relaxed);
            account.created.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It has one less, if there is such a backend.
    pub(in super::super) fn give(&self, account: u32) {
        if let Some(account) = self.ledger.account(account).filter(|_| account != NOBODY) {
            account.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether new sessions may begin with a backend.
    pub(in super::super) fn takes(&self, account: u32) -> bool {
        self.ledger.account(account).is_some_and(|account| account.standing() == Standing::Takes)
    }

    /// Whether a session may go on with its backend, now that its tenant or its VIP has changed.
    pub(in super::super) fn hold(&self, tenant: &Tenant, account: u32) -> bool {
        let account = self.ledger.account(account);
        let stands = account.is_some_and(|account| account.standing() != Standing::Ends);
        stands && tenant.chain[0].has(super::number())
    }

    /// What this worker counts of a backend's packets.
    #[inline(always)]
    fn traffic(&self, account: u32) -> Option<&Traffic> {
        let at = account as usize;
        let page = self.ledger.traffic.get(self.worker)?.get(at / CHUNK)?;
        Some(&page[at % CHUNK])
    }

    /// Tells `soon` the cache line that [`Books::note`] will write to, for a prefetch.
    #[inline(always)]
    pub(in super::super) fn soon(&self, account: u32, soon: impl Fn(*const u8)) {
        if let Some(traffic) = self.traffic(account) {
            soon(core::ptr::from_ref(traffic).cast());
        }
    }

    /// Counts a packet to a backend, or from it.
    #[inline(always)]
    pub(in super::super) fn note(&self, account: u32, leaves: bool, bytes: u32) {
        let Some(traffic) = self.traffic(account) else { return };
        let way = usize::from(!leaves);
        // Nobody else stores here.
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&traffic.packets[way], 1);
        add(&traffic.bytes[way], bytes.into());
    }
}
