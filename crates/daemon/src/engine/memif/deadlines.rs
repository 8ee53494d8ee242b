//! When sockets are due.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// Deadlines by token, and the next of them.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    order: BTreeSet<(Instant, u64)>,
    of: HashMap<u64, Instant>,
}

impl Deadlines {
    /// `token` is due then, or never.
    pub(super) fn set(&mut self, token: u64, deadline: Option<Instant>) {
        let before = match deadline {
            Some(deadline) => self.of.insert(token, deadline),
            None => self.of.remove(&token),
        };
        if before == deadline {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, token));
        }
        self.order.extend(deadline.map(|deadline| (deadline, token)));
    }

    /// The next one.
    pub(super) fn first(&self) -> Option<Instant> {
        self.order.first().map(|(deadline, _)| *deadline)
    }

    /// Those that are due.
    pub(super) fn due(&self, now: Instant) -> Vec<u64> {
        self.order.range(..=(now, u64::MAX)).map(|(_, token)| *token).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_token_has_one_deadline_and_the_first_is_known() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((deadlines.first(), deadlines.due(at(100))), (None, vec![]));
        for (token, seconds) in [(1, 5), (2, 3), (3, 3), (2, 9)] {
            deadlines.set(token, Some(at(seconds)));
        }
        assert_eq!(deadlines.first(), Some(at(3)));
        assert!(deadlines.due(at(2)).is_empty());
        assert_eq!(deadlines.due(at(5)), [3, 1]);
        deadlines.set(3, None);
        deadlines.set(4, None);
        assert_eq!((deadlines.first(), deadlines.due(at(9))), (Some(at(5)), vec![1, 2]));
    }
}
