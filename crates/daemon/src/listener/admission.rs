//! Limits of a listener.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::client::Client;
use super::connection::Closer;
use super::table::{Removed, Table};

/// Limits of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of all clients.
    pub connections: usize,
    /// Connections of one client.
    pub connections_per_client: usize,
    /// Calls under way, of all clients.
    pub calls: usize,
    /// Calls under way of one client.
    pub calls_per_client: usize,
    /// Calls under way of one client of methods that hold more than others, by the method's name.
    pub scarce: &'static [(&'static str, usize)],
    /// How long a connection may stay without a first byte; `None`: the server has a deadline for a whole request.
    pub greeting: Option<Duration>,
}

/// A client has too many calls under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// Of whatever method.
    #[error(
        "too many calls at a time: the limit is {per_client} for each client, {all} in all; end some first"
    )]
    Calls {
        /// Of one client.
        per_client: usize,
        /// Of all clients.
        all: usize,
    },
    /// Of a method that holds more than others.
    #[error("too many calls of {method} at a time: the limit is {limit} for each client; end one first")]
    Scarce {
        /// The method.
        method: &'static str,
        /// Of one client.
        limit: usize,
    },
}

/// What a listener has done since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Connections at present.
    pub connections: usize,
    /// Calls under way at present.
    pub calls: usize,
    /// Connections closed to make room for others, or because they stayed silent.
    pub closed: u64,
    /// Calls refused because the client had too many.
    pub refused: u64,
}

/// How often the log mentions closed connections at most.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The connections and calls of one listener, within its limits.
#[derive(Debug)]
pub struct Admission {
    listener: &'static str,
    limits: Limits,
    table: Mutex<Table>,
    closed: AtomicU64,
    refused: AtomicU64,
    logged: Mutex<Option<(Instant, u64)>>,
}

/// A place among the connections of a listener; dropped, it is free.
#[derive(Debug)]
pub struct Ticket {
    admission: Arc<Admission>,
    id: u64,
    closer: Arc<Closer>,
}

/// A call under way; dropped, it has ended.
#[derive(Debug)]
pub struct Call {
    admission: Arc<Admission>,
    connection: u64,
    id: u64,
}

impl Admission {
    /// Limits of a listener of that name.
    #[must_use]
    pub fn new(listener: &'static str, limits: Limits) -> Arc<Self> {
        let (table, logged) = Default::default();
        Arc::new(Self {
            listener,
            limits,
            table,
            closed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            logged,
        })
    }

    /// The listener's name.
    pub fn listener(&self) -> &'static str {
        self.listener
    }

    /// What it has done since start.
    pub fn figures(&self) -> Figures {
        let table = self.table();
        Figures {
            connections: table.len(),
            calls: table.calls(),
            closed: self.closed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Closes connections that stay silent for longer than the listener's deadline, for as long as there is an admission.
    pub async fn expire(admission: Weak<Self>) {
        while let Some(greeting) = admission.upgrade().and_then(|admission| admission.limits.greeting) {
            tokio::time::sleep(greeting / 4).await;
            let Some(admission) = admission.upgrade() else { return };
            let expired = admission.table().expire(greeting);
            expired.into_iter().for_each(|removed| admission.close(Some(removed), "it sends nothing"));
        }
    }

    /// Admits a connection, and closes another where there is no room.
    pub fn admit(self: &Arc<Self>, client: Client) -> Ticket {
        let closer = Arc::<Closer>::default();
        let (id, removed) = self.table().open(&self.limits, client, Arc::clone(&closer));
        self.close(removed, "other clients need the room");
        Ticket { admission: Arc::clone(self), id, closer }
    }

    pub(super) fn begin(self: &Arc<Self>, connection: u64, method: &str) -> Result<Call, Busy> {
        let begun = self.table().begin(&self.limits, connection, method);
        let (id, removed) = begun.inspect_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
        })?;
        self.close(removed, "other clients need its calls' room");
        Ok(Call { admission: Arc::clone(self), connection, id })
    }

    pub(super) fn turn(&self, connection: u64) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.table().turn(connection)
    }

    fn close(&self, removed: Option<Removed>, reason: &'static str) {
        let Some((client, closer)) = removed else { return };
        closer.close();
        let closed = self.closed.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *logged {
            Some((at, _)) if at.elapsed() < LOG_INTERVAL => return,
            Some((_, before)) => before,
            None => 0,
        };
        *logged = Some((Instant::now(), closed));
        drop(logged);
        let (listener, more) = (self.listener, closed - before - 1);
        tracing::warn!(listener, %client, reason, more, "closed a client's connection");
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(super) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn closer(&self) -> &Closer {
        &self.closer
    }

    /// The first byte has come.
    pub(super) fn heard(&self) {
        if self.admission.limits.greeting.is_some() {
            self.spoke();
        }
    }

    /// The first request has come.
    pub(super) fn spoke(&self) {
        self.admission.table().spoke(self.id);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.admission.table().remove(self.id);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.admission.table().end(self.connection, self.id);
    }
}
