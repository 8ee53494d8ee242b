//! Errors in the words of gRPC.

use tonic::Status;

use crate::control::{ApplyError, Gone};
use crate::dataplane::InspectError;
use crate::model::Flaw;
use crate::state::StateError;

impl From<Gone> for Status {
    fn from(gone: Gone) -> Self {
        Self::unavailable(gone.to_string())
    }
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Self {
        let message = error.to_string();
        match error {
            ApplyError::Generation { .. } => Self::aborted(message),
            ApplyError::State(StateError::Full { .. }) => Self::resource_exhausted(message),
            ApplyError::State(_) | ApplyError::Dataplane(_) => Self::internal(message),
        }
    }
}

impl From<InspectError> for Status {
    fn from(error: InspectError) -> Self {
        match error {
            InspectError::NotFound(message) => Self::not_found(message),
            InspectError::Invalid(message) => Self::invalid_argument(message),
            InspectError::Busy(message) => Self::resource_exhausted(message),
        }
    }
}

impl From<Flaw> for Status {
    fn from(flaw: Flaw) -> Self {
        Self::invalid_argument(flaw.to_string())
    }
}
