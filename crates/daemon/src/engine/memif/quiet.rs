//! Lines of the log that peers can cause as often as they like: the first is written, the next ones are counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often one kind of line is written at most.
const PERIOD: Duration = Duration::from_secs(10);

/// Keeps repetitions back. Who asks chooses few subjects and kinds: none that a peer makes up.
#[derive(Debug, Default)]
pub(super) struct Quiet(BTreeMap<(String, &'static str), Told>);

#[derive(Debug)]
struct Told {
    /// The end of the period.
    until: Instant,
    /// Lines kept back in it.
    kept_back: u64,
    /// The last of them.
    last: String,
}

/// Lines of one kind that were kept back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// What they are about.
    pub(super) subject: String,
    /// Their kind.
    pub(super) kind: &'static str,
    /// How many.
    pub(super) count: u64,
    /// The last of them.
    pub(super) last: String,
}

impl Quiet {
    /// Whether to write this line now. Else it is counted, and comes in a [summary](Quiet::summaries).
    pub(super) fn tell(&mut self, now: Instant, subject: &str, kind: &'static str, line: &str) -> bool {
        if let Some(told) = self.0.get_mut(&(subject.to_string(), kind)) {
            told.kept_back += 1;
            line.clone_into(&mut told.last);
            return false;
        }
        let told = Told { until: now + PERIOD, kept_back: 0, last: String::new() };
        self.0.insert((subject.to_string(), kind), told);
        true
    }

    /// The subject is gone: what another of that name causes is news.
    pub(super) fn forget(&mut self, subject: &str) {
        self.0.retain(|key, _| key.0 != subject);
    }

    /// What was kept back in periods that have ended. Another one begins where there was something.
    pub(super) fn summaries(&mut self, now: Instant) -> Vec<Summary> {
        let mut summaries = Vec::new();
        self.0.retain(|(subject, kind), told| {
            if now < told.until {
                return true;
            }
            if told.kept_back == 0 {
                return false;
            }
            let (count, last) = (std::mem::take(&mut told.kept_back), std::mem::take(&mut told.last));
            summaries.push(Summary { subject: subject.clone(), kind, count, last });
            told.until = now + PERIOD;
            true
        });
        summaries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_then_a_count_per_period() {
        let (mut quiet, start) = (Quiet::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(quiet.tell(at(0), "a", "mode", "first"));
        assert!(quiet.tell(at(0), "a", "secret", "another kind"));
        assert!(quiet.tell(at(0), "b", "mode", "another subject"));
        for second in 1..10 {
            assert!(!quiet.tell(at(second), "a", "mode", &format!("at {second}")));
            assert_eq!(quiet.summaries(at(second)), []);
        }
        let summary =
            |count, last: &str| Summary { subject: "a".into(), kind: "mode", count, last: last.into() };
        assert_eq!(quiet.summaries(at(10)), [summary(9, "at 9")]);
        // It goes on: no line of its own, but one count per period.
        assert!(!quiet.tell(at(11), "a", "mode", "again"));
        assert_eq!(quiet.summaries(at(19)), []);
        assert_eq!(quiet.summaries(at(20)), [summary(1, "again")]);
        // It has ended: after a silent period the next is written at once.
        assert_eq!(quiet.summaries(at(30)), []);
        assert!(quiet.tell(at(31), "a", "mode", "anew"));
        assert!(!quiet.tell(at(31), "a", "mode", "and again"));
        quiet.forget("a");
        assert!(quiet.tell(at(31), "a", "mode", "another one of that name"));
    }
}
