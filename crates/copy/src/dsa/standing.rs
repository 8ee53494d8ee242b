//! How a work queue stands: in use, or given up and to be tried again.

use std::fmt;
use std::time::{Duration, Instant};

/// Why a queue was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A transfer that took longer than this.
    NoAnswer(Duration),
    /// So many transfers in a row that it didn't do.
    Failures(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(patience) => write!(f, "no answer within {patience:?}"),
            Self::Failures(count) => write!(f, "the last {count} transfers failed"),
        }
    }
}

impl Reason {
    /// What can be done about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NoAnswer(_) => {
                "where memory is being swapped, give the node more of it; else `dmesg | grep idxd`, and `accel-config \
                 disable-device` and `enable-device` reset it"
            }
            Self::Failures(_) => {
                "`dmesg | grep idxd` says more, `accel-config disable-device` and `enable-device` reset it; or set copy.engine to \"cpu\""
            }
        }
    }
}

/// That a queue was given up, and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Why.
    pub reason: Reason,
    /// When it is tried again, from now; `None`: never.
    pub again_in: Option<Duration>,
    /// What became of the last try, if there was one.
    pub tried: Option<String>,
}

/// What whoever looks after a queue should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// It was given up: the CPU copies. Told once for each kind of reason, until the queue has served for as long as the longest pause.
    GivenUp(GivenUp),
    /// It is in use again. Told where it was told that it was given up.
    Back,
}

/// How a queue that was given up is tried again: after a pause, which doubles each time that it comes to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// The first.
    pub first: Duration,
    /// No longer than this. A queue that has served for so long begins with the first again.
    pub longest: Duration,
}

/// What is known of a queue.
#[derive(Debug)]
pub(super) struct Standing {
    given_up: Option<Reason>,
    /// Times that it was.
    pub times: u64,
    /// Since when it is in use, or was tried last.
    since: Instant,
    pause: Duration,
    tried: Option<String>,
    /// Reasons of which news were told, by kind.
    told: [bool; 2],
    news: Option<Reason>,
    /// That it is back is to be told then.
    awaited: bool,
    back: bool,
}

impl Standing {
    pub fn new() -> Self {
        Self {
            given_up: None,
            times: 0,
            since: Instant::now(),
            pause: Duration::ZERO,
            tried: None,
            told: [false; 2],
            news: None,
            awaited: false,
            back: false,
        }
    }

    /// It is given up; false where it was already.
    pub fn give_up(&mut self, reason: Reason, pauses: Option<Pauses>) -> bool {
        if self.given_up.is_some() {
            return false;
        }
        let now = Instant::now();
        self.times += 1;
        if let Some(Pauses { first, longest }) = pauses {
            if now.duration_since(self.since) >= longest {
                (self.pause, self.told) = (Duration::ZERO, [false; 2]);
            }
            self.pause = (self.pause * 2).max(first).min(longest);
        }
        self.given_up = Some(reason);
        (self.since, self.tried) = (now, None);
        // That it was back has passed before anybody heard of it.
        self.awaited |= std::mem::take(&mut self.back);
        let told = &mut self.told[usize::from(matches!(reason, Reason::Failures(_)))];
        if !std::mem::replace(told, true) {
            self.news = Some(reason);
        }
        true
    }

    /// It was tried, and didn't come back.
    pub fn failed(&mut self, why: String, pauses: Pauses) {
        self.pause = (self.pause * 2).max(pauses.first).min(pauses.longest);
        (self.since, self.tried) = (Instant::now(), Some(why));
    }

    /// It is in use again.
    pub fn returned(&mut self) {
        (self.given_up, self.tried, self.since) = (None, None, Instant::now());
        self.back = std::mem::take(&mut self.awaited);
    }

    /// Whether it is time to try it again.
    pub fn due(&self) -> bool {
        self.given_up.is_some() && self.since.elapsed() >= self.pause
    }

    /// Whether and why it is given up.
    pub fn get(&self, pauses: Option<Pauses>) -> Option<GivenUp> {
        let reason = self.given_up?;
        let again_in = pauses.map(|_| self.pause.saturating_sub(self.since.elapsed()));
        Some(GivenUp { reason, again_in, tried: self.tried.clone() })
    }

    /// What hasn't been told yet.
    pub fn news(&mut self, pauses: Option<Pauses>) -> Option<News> {
        if let Some(reason) = self.news.take() {
            let again_in = pauses.map(|_| self.pause);
            self.awaited = self.given_up.is_some();
            self.back = !self.awaited;
            return Some(News::GivenUp(GivenUp { reason, again_in, tried: None }));
        }
        std::mem::take(&mut self.back).then_some(News::Back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Option<Pauses> =
        Some(Pauses { first: Duration::from_millis(10), longest: Duration::from_secs(40) });

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut standing = Standing::new();
        let pauses = Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(5) };
        let mut seen = Vec::new();
        assert!(standing.give_up(Reason::Failures(1), Some(pauses)));
        assert!(!standing.give_up(Reason::Failures(1), Some(pauses)), "once is enough");
        for _ in 0..4 {
            seen.push(standing.pause.as_secs());
            assert!(!standing.due());
            standing.failed("no".into(), pauses);
        }
        assert_eq!(seen, [1, 2, 4, 5]);
        let given_up = standing.get(Some(pauses)).unwrap();
        assert_eq!((given_up.tried.as_deref(), standing.times), (Some("no"), 1));
        assert!(given_up.again_in.unwrap() > Duration::from_secs(4));
        // One that comes back for a moment begins where it stopped.
        standing.returned();
        assert!(standing.give_up(Reason::Failures(1), Some(pauses)));
        assert_eq!(standing.pause.as_secs(), 5);
        // One that has served is as good as new.
        standing.returned();
        standing.since -= Duration::from_secs(6);
        assert!(standing.give_up(Reason::Failures(1), Some(pauses)));
        assert_eq!((standing.pause.as_secs(), standing.times), (1, 3));
    }

    #[test]
    fn each_kind_of_reason_is_told_once() {
        let (silence, failures) = (Reason::NoAnswer(Duration::ZERO), Reason::Failures(3));
        let mut standing = Standing::new();
        let told = |standing: &mut Standing| match standing.news(SHORT) {
            Some(News::GivenUp(GivenUp { reason, .. })) => Some(reason.to_string()),
            Some(News::Back) => Some("back".into()),
            None => None,
        };
        let mut heard = Vec::new();
        for reason in [silence, silence, failures, silence, failures] {
            standing.give_up(reason, SHORT);
            heard.extend(told(&mut standing));
            assert_eq!(told(&mut standing), None);
            standing.returned();
            heard.extend(told(&mut standing));
        }
        assert_eq!(heard, ["no answer within 0ns", "back", "the last 3 transfers failed", "back"]);
        // After a good while it is news again, and in order, however late one asks.
        standing.since -= Duration::from_secs(41);
        standing.give_up(silence, SHORT);
        standing.returned();
        assert_eq!(
            [(); 3].map(|()| told(&mut standing).unwrap_or_default()),
            ["no answer within 0ns", "back", ""]
        );
    }
}
