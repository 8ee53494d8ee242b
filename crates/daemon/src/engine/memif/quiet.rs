//! Lines of the log that peers can cause as often as they like: the first ones are written, the next ones are counted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

/// How often lines of one kind are summed up at most.
const PERIOD: Duration = Duration::from_secs(10);
/// Lines of one kind that are written at once, before more of them are kept back: who sees a link go down twice sees it when it does.
const AT_ONCE: u32 = 3;

/// What a line is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// An interface, by name.
    Interface(String),
    /// A socket, where peers asked for none of its interfaces.
    Socket(String),
}

/// What a line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Telling {
    LinkUp,
    LinkDown,
    Fault,
    Refused,
}

impl Telling {
    /// In a word.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::LinkUp => "link-up",
            Self::LinkDown => "link-down",
            Self::Fault => "fault",
            Self::Refused => "refused",
        }
    }
}

/// Keeps repetitions back: lines of the same kind about the same. Who asks chooses few subjects and kinds: none that a peer makes up.
#[derive(Debug, Default)]
pub(super) struct Quiet(BTreeMap<(Subject, Telling, String), Told>);

#[derive(Debug)]
struct Told {
    /// The end of the period.
    until: Instant,
    /// When there was a line last, written or kept back.
    seen: Instant,
    /// Lines that may still be written.
    left: u32,
    /// Lines kept back in it.
    kept_back: u64,
    /// The last of them.
    last: String,
}

/// Lines of one kind that were kept back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// What they are about.
    pub(super) subject: Subject,
    /// What they tell.
    pub(super) telling: Telling,
    /// Their kind.
    pub(super) kind: String,
    /// How many.
    pub(super) count: u64,
    /// The last of them.
    pub(super) last: String,
}

impl Quiet {
    /// Whether to write this line now. Else it is counted, and comes in a [summary](Quiet::summaries).
    pub(super) fn tell(
        &mut self,
        now: Instant,
        subject: Subject,
        telling: Telling,
        kind: &str,
        line: &str,
    ) -> bool {
        match self.0.entry((subject, telling, kind.to_string())) {
            Entry::Occupied(mut told) => {
                let told = told.get_mut();
                told.seen = now;
                if told.left > 0 {
                    told.left -= 1;
                    return true;
                }
                told.kept_back += 1;
                line.clone_into(&mut told.last);
                false
            }
            Entry::Vacant(place) => {
                let (until, left) = (now + PERIOD, AT_ONCE - 1);
                place.insert(Told { until, seen: now, left, kept_back: 0, last: String::new() });
                true
            }
        }
    }

    /// How many kinds of such lines about this are told, or kept back, at present.
    pub(super) fn kinds(&self, subject: &Subject, telling: Telling) -> usize {
        self.0.keys().filter(|key| key.0 == *subject && key.1 == telling).count()
    }

    /// The subject is gone: what another of that name causes is news.
    pub(super) fn forget(&mut self, subject: &Subject) {
        self.0.retain(|key, _| key.0 != *subject);
    }

    /// What was kept back in periods that have ended. What hasn't come for as long as a period is news when it comes again; until then another
    /// one begins, with no more lines than were left.
    pub(super) fn summaries(&mut self, now: Instant) -> Vec<Summary> {
        let mut summaries = Vec::new();
        self.0.retain(|(subject, telling, kind), told| {
            if now < told.until {
                return true;
            }
            if told.kept_back == 0 {
                told.until = told.seen + PERIOD;
                return now < told.until;
            }
            let (count, last) = (std::mem::take(&mut told.kept_back), std::mem::take(&mut told.last));
            let (subject, kind) = (subject.clone(), kind.clone());
            summaries.push(Summary { subject, telling: *telling, kind, count, last });
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
    fn some_lines_then_a_count_per_period() {
        let (mut quiet, start) = (Quiet::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let of = |name: &str| Subject::Interface(name.into());
        let refused = Telling::Refused;
        assert!(quiet.tell(at(0), of("a"), refused, "mode", "first"));
        assert!(quiet.tell(at(0), of("a"), refused, "secret", "another kind"));
        assert!(quiet.tell(at(0), of("a"), Telling::Fault, "mode", "something else"));
        assert!(quiet.tell(at(0), of("b"), refused, "mode", "another subject"));
        assert!(quiet.tell(at(0), Subject::Socket("a".into()), refused, "mode", "a socket of that name"));
        assert_eq!((quiet.kinds(&of("a"), refused), quiet.kinds(&of("a"), Telling::Fault)), (2, 1));
        for line in ["second", "third"] {
            assert!(quiet.tell(at(0), of("a"), refused, "mode", line), "few are told at once");
        }
        for second in 1..10 {
            assert!(!quiet.tell(at(second), of("a"), refused, "mode", &format!("at {second}")));
            assert_eq!(quiet.summaries(at(second)), []);
        }
        let summary = |count, last: &str| Summary {
            subject: of("a"),
            telling: refused,
            kind: "mode".into(),
            count,
            last: last.into(),
        };
        assert_eq!(quiet.summaries(at(10)), [summary(9, "at 9")]);
        // It goes on: no line of its own, but one count per period.
        assert!(!quiet.tell(at(11), of("a"), refused, "mode", "again"));
        assert_eq!(quiet.summaries(at(19)), []);
        assert_eq!(quiet.summaries(at(20)), [summary(1, "again")]);
        // It has ended: after a silent period the next is written at once.
        assert_eq!(quiet.summaries(at(30)), []);
        for line in ["anew", "once more", "a third time"] {
            assert!(quiet.tell(at(31), of("a"), refused, "mode", line));
        }
        assert!(!quiet.tell(at(31), of("a"), refused, "mode", "and again"));
        // What comes again and again isn't news, however slowly it does.
        let told = (0..100).filter(|time| {
            let now = at(100 + 4 * time);
            quiet.summaries(now);
            quiet.tell(now, of("slow"), refused, "mode", "every four seconds")
        });
        assert_eq!(told.collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(quiet.summaries(at(600)).len(), 1);
        quiet.forget(&of("a"));
        assert!(quiet.tell(at(31), of("a"), refused, "mode", "another one of that name"));
    }
}
