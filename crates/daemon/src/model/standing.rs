//! What became of an accepted object.

use std::sync::Arc;

use api::v1::{ObjectState, ObjectStatus, Wait};

use super::Key;

/// What became of an accepted object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is in force.
    Ready,
    /// It is in force but for parts that wait, say one of several next hops. To clients this is pending too, so that
    /// "applied" means all of it.
    Partial(Vec<Waiting>),
    /// It waits.
    Pending(Vec<Waiting>),
    /// The system refuses it now; it is tried again.
    Failed(Arc<str>),
}

/// One thing an object waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The object that must come up first, if it is a single one.
    pub on: Option<Key>,
    /// In words.
    pub reason: String,
}

impl Waiting {
    /// Waits for an object that isn't there.
    pub fn missing(on: Key) -> Self {
        Self { reason: format!("there is no {on} yet"), on: Some(on) }
    }

    /// Waits for an object that is there but not in force.
    pub fn idle(on: Key) -> Self {
        Self { reason: format!("{on} isn't up itself"), on: Some(on) }
    }

    /// The words of the API.
    pub fn to_api(&self) -> Wait {
        Wait { object: self.on.as_ref().map(Key::to_api), reason: self.reason.clone() }
    }
}

impl Standing {
    /// Ready without waits, pending with them.
    pub fn from_waits(waits: Vec<Waiting>) -> Self {
        if waits.is_empty() { Self::Ready } else { Self::Pending(waits) }
    }

    /// Whether it is in force, if only in part.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Ready | Self::Partial(_))
    }

    /// What it waits for.
    pub fn waits(&self) -> &[Waiting] {
        match self {
            Self::Partial(waits) | Self::Pending(waits) => waits,
            Self::Ready | Self::Failed(_) => &[],
        }
    }

    /// The words of the API.
    pub fn to_api(&self, generation: u64) -> ObjectStatus {
        let state = match self {
            Self::Ready => ObjectState::Applied,
            Self::Partial(_) | Self::Pending(_) => ObjectState::Pending,
            Self::Failed(_) => ObjectState::Failed,
        };
        ObjectStatus {
            state: state.into(),
            waits_for: self.waits().iter().map(Waiting::to_api).collect(),
            failure: match self {
                Self::Failed(reason) => reason.to_string(),
                _ => String::new(),
            },
            generation,
        }
    }
}
