//! The sequence of a change.

use std::sync::Arc;

use api::v1::{ApplyRequest, ApplyResponse, Event};
use tokio::sync::broadcast;

use super::View;
use super::answer::Answer;
use super::reconcile::{Blame, Failure};
use crate::dataplane::Dataplane;
use crate::model::{Batch, Failures, Model, Readiness, Refusal, SessionShares, conflicts, diff};
use crate::reconcile::Realised;
use crate::state::{StateDirectory, StateError};

/// Events a slow watcher may fall behind before it misses some.
const EVENT_BACKLOG: usize = 1024;

/// Desired state, disk and dataplane, kept in step.
pub struct Controller {
    pub(super) model: Model,
    pub(super) readiness: Arc<Readiness>,
    pub(super) realised: Realised,
    pub(super) failures: Failures,
    /// The failures the log has already told of.
    pub(super) reported: Failures,
    /// Why workers don't have all of the last change yet.
    pub(super) late: Option<Arc<str>>,
    pub(super) dataplane: Box<dyn Dataplane>,
    pub(super) state: StateDirectory,
    pub(super) events: broadcast::Sender<Event>,
}

/// A batch could not be judged or not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Somebody else changed something in between.
    #[error("generation {actual} is in force, not {expected}: somebody else changed something")]
    Generation {
        /// What the client expected.
        expected: u64,
        /// What is in force.
        actual: u64,
    },
    /// The state can't be kept on disk.
    #[error(transparent)]
    State(#[from] StateError),
    /// The dataplane refused what it had already agreed to or taken back.
    #[error("the dataplane contradicts itself: {0}")]
    Dataplane(Refusal),
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Controller")
            .field("generation", &self.model.generation)
            .field("objects", &self.model.len())
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller with an empty desired state over a dataplane that has nothing but the default VRF.
    pub fn new(dataplane: Box<dyn Dataplane>, state: StateDirectory) -> Self {
        let model = Model::default();
        let failures = Failures::new();
        Self {
            readiness: Arc::new(Readiness::of(&model, &failures)),
            model,
            realised: Realised::default(),
            failures,
            reported: Failures::new(),
            late: None,
            dataplane,
            state,
            events: broadcast::channel(EVENT_BACKLOG).0,
        }
    }

    /// Changes the desired state by one batch: all of it or nothing.
    ///
    /// # Errors
    /// [`ApplyError`] if nothing was judged or nothing can be kept. Refused objects are no error but an answer.
    pub fn apply(&mut self, request: &ApplyRequest) -> Result<ApplyResponse, ApplyError> {
        if let Some(expected) =
            request.expected_generation.filter(|expected| *expected != self.model.generation)
        {
            return Err(ApplyError::Generation { expected, actual: self.model.generation });
        }
        let empty = api::v1::Config::default();
        let upserts = request.upserts.as_ref().unwrap_or(&empty);
        let batch = match Batch::parse(upserts, &request.deletes, request.replace_all) {
            Ok(batch) => batch,
            Err(refused) => return Ok(Answer::refused(self.model.generation, refused)),
        };
        let undo = self.model.merge(&batch);
        let conflicts = conflicts::check(&self.model, &batch);
        if !conflicts.is_empty() {
            self.model.undo(undo);
            return Ok(Answer::conflicting(self.model.generation, conflicts));
        }
        let changes = if request.dry_run || request.list_changes {
            diff::changes(&self.model, &undo)
        } else {
            Vec::new()
        };
        let before = Arc::clone(&self.readiness);
        let mut answer = Answer::new(request, &batch, changes);
        self.late = None;
        let outcome = if undo.is_empty() && !batch.contains_any(self.failures.keys()) {
            Ok(Vec::new())
        } else {
            self.reconcile(&Blame::Batch(&batch), &undo, request.dry_run)
        };
        match outcome {
            Ok(moved) => {
                let after = Arc::clone(&self.readiness);
                let quotas = self.model.tenants.values().map(|tenant| tenant.spec.max_sessions);
                let shares = SessionShares::new(self.dataplane.session_room(), quotas);
                answer.accepted(&self.model, [&before, &after], self.late.as_deref(), &undo, &moved, shares);
                if request.dry_run {
                    self.readiness = before;
                    self.model.undo(undo);
                } else {
                    self.announce(&before, &undo, &moved);
                }
                Ok(answer.finish(self.model.generation))
            }
            Err(failure) => {
                self.model.undo(undo);
                self.readiness = Arc::new(Readiness::of(&self.model, &self.failures));
                match failure {
                    Failure::Refused(refusals) => Ok(Answer::conflicting(self.model.generation, refusals)),
                    Failure::Error(error) => Err(error),
                }
            }
        }
    }

    /// Generation of the desired state.
    pub fn generation(&self) -> u64 {
        self.model.generation
    }

    /// A snapshot of the desired state and where its objects stand.
    pub fn view(&self) -> View {
        View { model: self.model.clone(), readiness: Arc::clone(&self.readiness) }
    }

    /// Events from now on.
    pub fn events(&self) -> broadcast::Sender<Event> {
        self.events.clone()
    }
}
