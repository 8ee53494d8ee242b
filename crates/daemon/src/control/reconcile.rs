//! Bringing the dataplane to what shall be, and back if it refuses.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::Controller;
use super::controller::ApplyError;
use crate::dataplane::{Operation, Rejection};
use crate::model::{Batch, Flaw, Key, Readiness, Refusal, RouteKey, Undo};
use crate::reconcile::plan;

/// Whose fault it is if the dataplane refuses an object.
pub(super) enum Blame<'a> {
    /// That of the batch, if it has the object; then nothing of it is done. Objects outside of it fail by themselves.
    Batch(&'a Batch),
    /// Nobody's: the object fails, all others go on.
    Nobody,
}

/// Nothing was changed.
pub(super) enum Failure {
    /// Because objects of the batch were refused.
    Refused(Vec<Refusal>),
    /// Because it can't be kept, or the dataplane contradicts itself.
    Error(ApplyError),
}

impl Blame<'_> {
    fn is_guilty(&self, key: &Key) -> bool {
        match self {
            Self::Batch(batch) => batch.contains(key),
            Self::Nobody => false,
        }
    }

    fn is_batch(&self) -> bool {
        matches!(self, Self::Batch(_))
    }
}

impl Controller {
    /// Brings the dataplane to the model, of which `undo` is the last change; keeps the model on disk if a batch
    /// brought the change. Returns the routes that were looked at. With `dry_run` it only asks whether all of it could
    /// be done, and leaves in `readiness` what would be.
    pub(super) fn reconcile(
        &mut self,
        blame: &Blame<'_>,
        undo: &Undo,
        dry_run: bool,
    ) -> Result<Vec<RouteKey>, Failure> {
        let failures_before = self.failures.clone();
        // What is asked for again is tried again.
        match blame {
            Blame::Batch(batch) => self.failures.retain(|key, _| !batch.contains(key)),
            Blame::Nobody => self.failures.clear(),
        }
        let mut executed = Vec::new();
        let result = self.attempt(blame, undo, dry_run, &mut executed);
        if result.is_err() {
            self.failures = failures_before;
            self.take_back(&executed);
        } else if dry_run {
            self.failures = failures_before;
        }
        if executed.is_empty() {
            return result;
        }
        self.publish();
        // Of a refused batch the caller takes the model back first: what was lost meanwhile is dealt with by `tend`.
        let mut moved = result?;
        extend(&mut moved, self.absorb());
        Ok(moved)
    }

    fn publish(&mut self) {
        self.late = self.dataplane.publish().err().map(|flaw| Arc::from(flaw.to_string()));
    }

    /// Lets the objects fail that the dataplane has lost, and brings it to what is left. Returns the routes that were looked
    /// at.
    pub(super) fn absorb(&mut self) -> Vec<RouteKey> {
        let mut moved = Vec::new();
        // Every time around there are more failures, and only so many objects.
        while self.note_lost() {
            let (undo, mut executed) = (Undo::nothing(self.model.generation), Vec::new());
            match self.attempt(&Blame::Nobody, &undo, false, &mut executed) {
                Ok(more) => extend(&mut moved, more),
                Err(Failure::Refused(_)) => {}
                Err(Failure::Error(error)) => {
                    tracing::error!(%error, "what was lost could not be taken out of the dataplane");
                    self.take_back(&executed);
                    self.readiness = Arc::new(Readiness::of(&self.model, &self.failures));
                }
            }
            if !executed.is_empty() {
                self.publish();
            }
        }
        moved
    }

    /// Asks the dataplane what it has lost. False if that is nothing new.
    fn note_lost(&mut self) -> bool {
        let mut any = false;
        for Refusal { key, flaw } in self.dataplane.lost() {
            let there = self.readiness.standing(&self.model, &key).is_some();
            if there && !self.failures.contains_key(&key) {
                let reason = Arc::<str>::from(flaw.to_string());
                self.report(&key, &reason, "an object is in force no more");
                self.failures.insert(key, reason);
                any = true;
            }
        }
        any
    }

    /// Writes a failure to the log, once per reason: what fails for hours is tried again every few seconds.
    fn report(&mut self, key: &Key, reason: &Arc<str>, what: &str) {
        if self.reported.insert(key.clone(), Arc::clone(reason)).as_ref() != Some(reason) {
            tracing::warn!(object = %key, %reason, "{what}");
        }
    }

    fn attempt(
        &mut self,
        blame: &Blame<'_>,
        undo: &Undo,
        dry_run: bool,
        executed: &mut Vec<Operation>,
    ) -> Result<Vec<RouteKey>, Failure> {
        let before = Arc::clone(&self.readiness);
        let mut moved = undo.changed_routes().cloned().collect::<Vec<_>>();
        let keep = blame.is_batch() && !dry_run && !undo.is_empty();
        let mut staged = None;
        let readiness = loop {
            let readiness = Readiness::of(&self.model, &self.failures);
            extend(&mut moved, readiness.moved_routes(&before, &self.model));
            let plan = plan(&self.realised, &self.model, &readiness, &moved);
            if self.check(blame, &plan)? {
                continue;
            }
            // Before anything is touched: a full disk must be noticed while nothing has happened yet.
            if keep && staged.is_none() {
                staged =
                    Some(self.state.stage(&self.model, undo).map_err(|error| Failure::Error(error.into()))?);
            }
            if dry_run || self.execute(blame, plan, executed)? {
                break readiness;
            }
        };
        if let Some(staged) = staged {
            self.state.commit(staged).map_err(|error| Failure::Error(error.into()))?;
        }
        self.readiness = Arc::new(readiness);
        Ok(moved)
    }

    /// Asks the dataplane about every step. True if objects outside of the batch failed, so that there must be
    /// another plan.
    fn check(&mut self, blame: &Blame<'_>, plan: &[Operation]) -> Result<bool, Failure> {
        let (mut refused, mut failed) = (Vec::new(), false);
        for operation in plan {
            if let Err(rejection) = self.dataplane.check(operation) {
                let refusal = refusal(operation, rejection);
                if blame.is_guilty(&refusal.key) {
                    refused.push(refusal);
                } else {
                    failed = true;
                    self.fail(refusal)?;
                }
            }
        }
        if refused.is_empty() { Ok(failed) } else { Err(Failure::Refused(refused)) }
    }

    /// Executes a plan. False if an object outside of the batch failed, so that there must be another plan.
    fn execute(
        &mut self,
        blame: &Blame<'_>,
        plan: Vec<Operation>,
        executed: &mut Vec<Operation>,
    ) -> Result<bool, Failure> {
        for operation in plan {
            tracing::debug!(%operation, "dataplane");
            match self.dataplane.execute(&operation) {
                Ok(()) => {
                    self.realised.record(&operation);
                    executed.push(operation);
                }
                Err(rejection) => {
                    let refusal = refusal(&operation, rejection);
                    if blame.is_guilty(&refusal.key) {
                        return Err(Failure::Refused(vec![refusal]));
                    }
                    self.fail(refusal)?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// An object fails by itself. That it fails once more means that the dataplane won't let it go either.
    fn fail(&mut self, refusal: Refusal) -> Result<(), Failure> {
        let reason = Arc::<str>::from(refusal.flaw.to_string());
        self.report(&refusal.key, &reason, "the system refuses an object; it is tried again");
        match self.failures.insert(refusal.key.clone(), reason) {
            None => Ok(()),
            Some(_) => Err(Failure::Error(ApplyError::Dataplane(refusal))),
        }
    }

    /// Executes the inverses of what was executed, last first.
    fn take_back(&mut self, executed: &[Operation]) {
        for operation in executed.iter().rev().map(Operation::inverse) {
            match self.dataplane.execute(&operation) {
                Ok(()) => self.realised.record(&operation),
                Err(rejection) => {
                    let refusal = refusal(&operation, rejection);
                    tracing::error!(
                        %operation, object = %refusal.key, reason = %refusal.flaw,
                        "could not take back a step of a refused batch; it is tried again"
                    );
                    self.failures.insert(refusal.key, Arc::from(refusal.flaw.to_string()));
                }
            }
        }
    }
}

/// Adds routes that aren't there yet.
fn extend(moved: &mut Vec<RouteKey>, more: Vec<RouteKey>) {
    if more.is_empty() {
        return;
    }
    let mut known = moved.iter().cloned().collect::<HashSet<_, RandomState>>();
    moved.extend(more.into_iter().filter(|key| known.insert(key.clone())));
}

/// The object a rejection is about.
fn refusal(operation: &Operation, rejection: Rejection) -> Refusal {
    let first_route = || match operation {
        Operation::Routes(changes) => changes.first().map(|change| Key::Route(change.key.clone())),
        _ => None,
    };
    let key = rejection.key.or_else(|| operation.key()).or_else(first_route);
    match key {
        Some(key) => Refusal { key, flaw: rejection.flaw },
        // A change without object: only an empty one, which no plan has.
        None => Refusal {
            key: Key::Vrf(crate::model::Name::default_vrf()),
            flaw: Flaw { field: String::new(), ..rejection.flaw },
        },
    }
}
