//! How many descriptors quiverd may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. The soft limit is low (1024 as a rule) only for programs that use `select`; every memif client, tap and
/// AF_PACKET queue is some descriptors. To be called before any socket of memif is opened: quotas go by the limit of then.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let wanted = Rlimit { current: limit.maximum, ..limit };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => tracing::debug!(from = ?limit.current, to = ?limit.maximum, "limit of open files raised"),
        Err(error) => {
            tracing::warn!(limit = ?limit.current, %error, "the limit of open files can't be raised")
        }
    }
}
