//! Session events: from the workers to whoever looks on.
//!
//! Each worker has a queue to each of them, which it never waits for. Nobody is woken for an event either: whoever reads comes by.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::v1::{
    SessionEnd, SessionEvent, SessionEventKind, SessionEventsRequest, SessionEventsResponse, SessionState,
};
use features::session::nat::Binding;
use features::session::{self, Event, Filter, Kinds, Sessions, What};
use graph::plan::Plan;
use memory::clock::nanoseconds;
use tokio::sync::mpsc;

use super::inspect::sessions;
use super::start::Shared;
use crate::dataplane::{InspectError, SessionEvents};

/// Events that may wait in a worker's queue: some two megabytes.
const BACKLOG: usize = 8192;
/// Those who may look on at the same time: each of them costs workers time.
const WATCHES: usize = 16;
/// How often a reader comes by.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// How long sessions of a tenant that is gone are told of beside those of one that has its name: they end within about a second.
const LINGER: Duration = Duration::from_secs(5);
/// Events of one answer.
const BATCH: usize = 512;
/// Answers that may wait for the client.
const ANSWERS: usize = 2;

/// What all who look on have missed, and how many they are.
#[derive(Debug, Default)]
pub(super) struct Watching(Mutex<Watches>);

#[derive(Debug, Default)]
struct Watches {
    /// What each of them has missed.
    there: Vec<Arc<AtomicU64>>,
    /// What those had missed that don't look on any more.
    past: u64,
}

impl Watching {
    /// Events that somebody has missed, since start: also who stands still at the moment.
    pub(super) fn missed(&self) -> u64 {
        let watches = self.watches();
        watches.past + watches.there.iter().map(|lost| lost.load(Ordering::Relaxed)).sum::<u64>()
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; false where there are that many.
    fn add(&self, lost: &Arc<AtomicU64>, most: usize) -> bool {
        let mut watches = self.watches();
        let room = watches.there.len() < most;
        if room {
            watches.there.push(Arc::clone(lost));
        }
        room
    }

    fn remove(&self, lost: &Arc<AtomicU64>) {
        let mut watches = self.watches();
        watches.there.retain(|one| !Arc::ptr_eq(one, lost));
        watches.past += lost.load(Ordering::Relaxed);
    }
}

/// An event as it is read.
#[derive(Debug)]
pub(super) struct Happened<'a> {
    /// Where.
    pub(super) worker: usize,
    /// What.
    pub(super) event: Event,
    /// The session's tenant, by name.
    pub(super) tenant: &'a str,
}

/// Somebody who looks on at all workers.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    /// By worker.
    queues: Vec<Receiver<Event>>,
    lost: Arc<AtomicU64>,
}

impl Watch {
    /// Looks on. Once this returns, nothing goes by unheard. Waits for the workers, so not to be called where others wait.
    ///
    /// # Errors
    /// [`InspectError::Busy`] where there are too many already or a worker doesn't answer, [`InspectError::NotFound`] where the graph has no sessions.
    pub(super) fn start(shared: &Arc<Shared>, filter: Filter, kinds: Kinds) -> Result<Self, InspectError> {
        Self::one_of(WATCHES, shared, filter, kinds)
    }

    /// The same where there are fewer than `most`.
    fn one_of(most: usize, shared: &Arc<Shared>, filter: Filter, kinds: Kinds) -> Result<Self, InspectError> {
        let mut watch = Self { shared: Arc::clone(shared), queues: Vec::new(), lost: Arc::default() };
        if !shared.watching.add(&watch.lost, most) {
            return Err(InspectError::Busy(format!(
                "{WATCHES} look at session events already: end one of them"
            )));
        }
        for worker in shared.pool.workers() {
            let (watcher, events) = session::watch(filter, kinds, BACKLOG, &watch.lost);
            sessions::ask(shared, worker, move |sessions| sessions.watched_by(watcher))?;
            watch.queues.push(events);
        }
        Ok(watch)
    }

    /// Calls `each` with what has happened since, at most `limit` times for each worker. Gives whether there was anything.
    pub(super) fn take(&mut self, limit: usize, each: &mut dyn FnMut(&Happened<'_>)) -> bool {
        let mut any = false;
        let mut names = Arc::default();
        for (worker, queue) in self.queues.iter().enumerate() {
            for event in queue.try_iter().take(limit) {
                let number = event.seen.session.tenant;
                if !HashMap::contains_key(&names, &number) {
                    // By the time that there is an event of its sessions, a tenant is among them.
                    names = Arc::clone(&self.shared.directory.get().tenant_names);
                }
                let tenant = names.get(&number).map_or("", |name| &**name);
                each(&Happened { worker, event, tenant });
                any = true;
            }
        }
        any
    }

    /// Events that were lost, since it began.
    pub(super) fn missed(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Events that nobody has taken yet: they are lost.
    fn give_up(&self) {
        let left: usize = self.queues.iter().map(|queue| queue.try_iter().count()).sum();
        self.lost.fetch_add(left as u64, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.watching.remove(&self.lost);
        // Workers forget those of whom this is gone.
        self.lost = Arc::default();
        let Some(key) = self.shared.plan.schema.local_key::<Sessions>() else { return };
        for worker in self.shared.pool.workers() {
            worker.send(move |graph| graph.local(key).tidy_watchers());
        }
    }
}

/// Begins a stream.
///
/// # Errors
/// [`InspectError`] where the filter names nothing that there is, or too many look on.
pub(super) fn start(
    shared: &Arc<Shared>,
    request: &SessionEventsRequest,
) -> Result<SessionEvents, InspectError> {
    let asked = request.filter.clone().unwrap_or_default();
    let (filter, kinds) = (sessions::read(&shared.directory.get(), &asked)?, kinds(request));
    let watch = Watch::start(shared, filter, kinds)?;
    let stream = Stream { watch, before: None, filter, kinds, tenant: asked.tenant, missed: 0 };
    let (answers, events) = mpsc::channel(ANSWERS);
    std::thread::Builder::new()
        .name("session events".into())
        .spawn(move || stream.carry(&answers))
        .map_err(|error| InspectError::Busy(format!("no thread for session events: {error}")))?;
    Ok(events)
}

fn kinds(request: &SessionEventsRequest) -> Kinds {
    let asked = [
        (request.began, Kinds::BEGAN),
        (request.translated, Kinds::TRANSLATED),
        (request.blocked, Kinds::BLOCKED),
        (request.ended, Kinds::ENDED),
    ];
    let kinds = asked.into_iter().filter(|(asked, _)| *asked).fold(Kinds::NONE, |all, (_, one)| all.and(one));
    if kinds == Kinds::NONE { Kinds::ALL } else { kinds }
}

/// What a client is told.
struct Stream {
    watch: Watch,
    /// Of the tenant's number before this one, for those that end with it, and since when there has been another.
    before: Option<(Watch, Instant)>,
    filter: Filter,
    kinds: Kinds,
    /// The tenant that is meant, by name; empty: all.
    tenant: String,
    /// Events that were lost by watches that are gone.
    missed: u64,
}

impl Stream {
    /// Carries events from the workers to the client until it is gone.
    fn carry(mut self, answers: &mpsc::Sender<SessionEventsResponse>) {
        let shared = Arc::clone(&self.watch.shared);
        let mut told = 0;
        while !answers.is_closed() && !shared.stop.load(Ordering::Acquire) {
            self.follow();
            let mut events = Vec::new();
            let since_1970 = since_1970();
            let tenant = &self.tenant;
            let before = self.before.as_mut().map(|(watch, _)| watch);
            let mut any = false;
            for watch in before.into_iter().chain([&mut self.watch]) {
                any |= watch.take(BATCH, &mut |happened| {
                    // Another may have the number that it had.
                    if tenant.is_empty() || happened.tenant == tenant {
                        events.push(as_clients_know_it(&shared.plan, happened, since_1970));
                    }
                });
            }
            let before = self.before.as_ref().map_or(0, |(watch, _)| watch.missed());
            let missed = self.missed + before + self.watch.missed();
            if events.is_empty() && missed == told {
                if !any {
                    std::thread::sleep(PAUSE);
                }
                continue;
            }
            told = missed;
            if answers.blocking_send(SessionEventsResponse { events, missed }).is_err() {
                return;
            }
        }
    }

    /// Whoever looks on means a tenant by its name: one that is made anew has another number.
    fn follow(&mut self) {
        if self.before.as_ref().is_some_and(|(_, since)| since.elapsed() > LINGER) {
            self.forget();
        }
        if self.filter.tenant.is_none() {
            return;
        }
        let number = sessions::tenant_number(&self.watch.shared.directory.get(), &self.tenant);
        if number.is_none() || number == self.filter.tenant {
            return;
        }
        self.forget();
        let filter = Filter { tenant: number, ..self.filter };
        // It takes the place of the one before, which is there beside it for a while. Where a worker doesn't answer, next time.
        if let Ok(next) = Watch::one_of(2 * WATCHES, &self.watch.shared, filter, self.kinds) {
            let before = core::mem::replace(&mut self.watch, next);
            (self.before, self.filter) = (Some((before, Instant::now())), filter);
        }
    }

    /// Nothing is told any more of the number before.
    fn forget(&mut self) {
        if let Some((watch, _)) = self.before.take() {
            watch.give_up();
            self.missed += watch.missed();
        }
    }
}

/// What is added to monotonic nanoseconds to have those since 1970-01-01 UTC.
pub(super) fn since_1970() -> i128 {
    // Before 1970 there was no quiverd.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as i128 - i128::from(nanoseconds())
}

fn as_clients_know_it(plan: &Plan, happened: &Happened<'_>, since_1970: i128) -> SessionEvent {
    let Happened { worker, event, tenant } = happened;
    let (kind, end) = match event.what {
        What::Began => (SessionEventKind::Began, SessionEnd::Unspecified),
        What::Translated => (SessionEventKind::Translated, SessionEnd::Unspecified),
        What::Blocked => (SessionEventKind::Blocked, SessionEnd::Unspecified),
        What::Ended(end) => (SessionEventKind::Ended, sessions::session_end(end)),
    };
    let session: SessionState = sessions::state(&event.seen, tenant, *worker, event.at);
    let (first_port, last_port) = match event.binding {
        Binding::Block(first, last) => (first.into(), last.into()),
        Binding::Port | Binding::Within => (0, 0),
    };
    let drop = event.seen.session.chain[0].block().and_then(|reason| plan.drops.get(usize::from(reason)));
    SessionEvent {
        timestamp_ns: u64::try_from(i128::from(event.at) + since_1970).unwrap_or_default(),
        kind: kind.into(),
        end: end.into(),
        session: Some(session),
        drop_node: drop.map(|(node, _)| plan.nodes[usize::from(*node)].spec.name.into()).unwrap_or_default(),
        drop_reason: drop.map(|(_, spec)| spec.name.into()).unwrap_or_default(),
        first_port,
        last_port,
    }
}
