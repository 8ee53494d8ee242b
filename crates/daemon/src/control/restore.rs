//! Coming back: the state from disk at start, and objects the system refused, later.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use api::v1::object_result::Outcome;
use api::v1::{Config, Event, ObjectRef, ObjectResult, Refused};

use super::Controller;
use super::accept::put_right;
use super::answer::{MAX_LISTED, changed_standings};
use super::controller::ApplyError;
use super::reconcile::{Blame, Failure};
use crate::dataplane::KeptSession;
use crate::model::{Batch, Flaw, Key, Readiness, Refusal, RouteKey, Undo, conflicts};
use crate::state::Snapshot;

impl Controller {
    /// Sessions of the process before go on with the state that is brought back next.
    pub fn go_on(&mut self, sessions: Vec<KeptSession>) {
        self.dataplane.go_on(sessions);
    }

    /// Brings back the state from disk. What the system refuses now (say, a namespace that is gone) fails by itself
    /// and is tried again; what this version doesn't accept any more is left out and logged.
    ///
    /// # Errors
    /// [`ApplyError::Dataplane`] if the dataplane contradicts itself.
    pub fn restore(&mut self, snapshot: Snapshot) -> Result<(), ApplyError> {
        let Snapshot { generation, mut config, .. } = snapshot;
        let before = put_right(&mut config);
        for what in &before {
            tracing::warn!(%what, "the version before accepted it");
        }
        let mut is_whole = before.is_empty();
        let batch = loop {
            let refused = match Batch::parse(&config, &[], false) {
                Ok(batch) => {
                    let undo = self.model.merge(&batch);
                    let conflicts = conflicts::check_kept(&self.model, &batch);
                    if conflicts.is_empty() {
                        for Refusal { key, flaw } in conflicts::accepted_before(&self.model, &batch) {
                            tracing::warn!(object = %key, %flaw, "the version before accepted it");
                        }
                        break (batch, undo);
                    }
                    self.model.undo(undo);
                    conflicts
                        .into_iter()
                        .map(|refusal| (refusal.key.to_api(), refusal.flaw.to_string()))
                        .collect()
                }
                Err(results) => results.into_iter().filter_map(reason).collect::<Vec<_>>(),
            };
            for (object, reason) in &refused {
                tracing::error!(%object, reason, "an object of the kept state isn't accepted any more and is left out");
            }
            is_whole = false;
            leave_out(&mut config, &refused.into_iter().map(|(object, _)| object).collect::<Vec<_>>());
        };
        if !is_whole {
            // The next state that is written says nothing of it any more.
            match self.state.keep("before") {
                Ok(kept) => tracing::warn!(?kept, "the state as it was is kept"),
                Err(error) => tracing::error!(%error, "the state as it was can't be kept"),
            }
        }
        let (batch, undo) = batch;
        self.model.generation = generation;
        match self.reconcile(&Blame::Nobody, &undo, false) {
            Ok(_) => {
                tracing::info!(
                    generation,
                    objects = batch.len(),
                    failed = self.failures.len(),
                    "state restored"
                );
                Ok(())
            }
            Err(Failure::Error(error)) => Err(error),
            // Nobody is blamed, so nothing is refused.
            Err(Failure::Refused(_)) => Ok(()),
        }
    }

    /// Tries again what the system refused.
    pub fn retry(&mut self) {
        if self.failures.is_empty() {
            return;
        }
        let before = Arc::clone(&self.readiness);
        let failures = self.failures.clone();
        let undo = Undo::nothing(self.model.generation);
        match self.reconcile(&Blame::Nobody, &undo, false) {
            Ok(moved) => {
                for key in failures.keys().filter(|key| !self.failures.contains_key(key)) {
                    tracing::info!(object = %key, "the system accepts an object again");
                }
                self.reported.retain(|key, _| self.failures.contains_key(key));
                self.announce(&before, &undo, &moved);
            }
            Err(Failure::Error(error)) => {
                tracing::error!(%error, "trying again failed");
                self.readiness = Arc::new(Readiness::of(&self.model, &self.failures));
            }
            Err(Failure::Refused(_)) => {}
        }
    }

    /// Looks what the dataplane has lost since (a device is gone) and lets it fail, to be tried again.
    pub fn tend(&mut self) {
        let before = Arc::clone(&self.readiness);
        let moved = self.absorb();
        if !Arc::ptr_eq(&before, &self.readiness) {
            self.announce(&before, &Undo::nothing(self.model.generation), &moved);
        }
    }

    /// Tells watchers what changed.
    pub(super) fn announce(&self, before: &Readiness, undo: &Undo, moved: &[RouteKey]) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let mut keys = undo.changed().take(MAX_LISTED).collect::<std::collections::BTreeSet<_>>();
        let (changed, _) = changed_standings(&self.model, before, &self.readiness, moved.iter());
        keys.extend(changed.into_iter().map(|(key, _)| key));
        let timestamp_ns = now_ns();
        let generation = self.model.generation;
        for key in &keys {
            let event = Event {
                timestamp_ns,
                generation,
                object: Some(key.to_api()),
                status: self.status(key),
                missed: 0,
            };
            // No receiver is no error: watchers come and go.
            let _ = self.events.send(event);
        }
        let missed = undo.changed().count().max(moved.len()).saturating_sub(MAX_LISTED);
        if missed > 0 {
            let _ = self.events.send(Event {
                timestamp_ns,
                generation,
                missed: missed as u64,
                ..Event::default()
            });
        }
    }

    fn status(&self, key: &Key) -> Option<api::v1::ObjectStatus> {
        let standing = self.readiness.standing(&self.model, key)?;
        Some(standing.to_api(self.model.changed_in(key)?))
    }
}

/// The object of a refusal and why it was refused.
fn reason(result: ObjectResult) -> Option<(ObjectRef, String)> {
    let Outcome::Refused(Refused { field, reason, remedy }) = result.outcome? else { return None };
    Some((result.object?, Flaw { field, reason, remedy }.to_string()))
}

fn leave_out(config: &mut Config, names: &[ObjectRef]) {
    let names =
        names.iter().map(|name| (name.kind, name.name.as_str())).collect::<std::collections::BTreeSet<_>>();
    fn keep<T: api::names::Named>(names: &std::collections::BTreeSet<(i32, &str)>) -> impl Fn(&T) -> bool {
        move |object| {
            let name = object.object_ref();
            !names.contains(&(name.kind, name.name.as_str()))
        }
    }
    config.vrfs.retain(keep(&names));
    config.bridges.retain(keep(&names));
    config.interfaces.retain(keep(&names));
    config.routes.retain(keep(&names));
    config.neighbors.retain(keep(&names));
    config.tenants.retain(keep(&names));
    config.nat_pools.retain(keep(&names));
    config.policers.retain(keep(&names));
    config.vips.retain(keep(&names));
    config.acls.retain(keep(&names));
    config.address_sets.retain(keep(&names));
    config.endpoints.retain(keep(&names));
}

/// Nanoseconds since 1970-01-01 UTC; 0 if the clock is before that.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
