//! Regions that are being mapped, or sealed, by threads other than the one that serves the sockets.
//!
//! To seal a file, and to look for holes in it, waits for the lock of its inode, which others may hold: for tens of milliseconds a GiB who
//! frees its pages, for as long as he likes who writes to it from memory that is itself slow to come. No signal ends that wait. So a peer
//! that does this while it announces its memory keeps a thread, and its own handshake until that is out of time, and nobody else's. So does
//! a server that does it to the memory of a client.

use std::time::Instant;

use memory::region::Region;
use rustix::io::Errno;

use super::credentials::Origin;
use super::errands::Errands;
use super::held::{Held, Whose};
use super::outcomes::{Bell, Outcomes};
use crate::Reason;

/// How it went, by the token of the connection and where that comes from.
pub(super) type Outcome<T = Region> = (u64, Origin, Result<T, Reason>);

/// All of a listener, or of a client.
#[derive(Debug)]
pub(super) struct Mapping<T = Region> {
    /// By [line](Origin::line), with no more than one region of each interface.
    errands: Errands<(Origin, Option<u32>)>,
    done: Outcomes<Outcome<T>>,
}

impl<T: Send + 'static> Mapping<T> {
    /// `name`: of its threads; `bell`: rung when there is something [`finished`](Self::finished).
    pub(super) fn new(name: &'static str, bell: &Bell) -> Self {
        Self { errands: Errands::new(name), done: Outcomes::new(bell) }
    }

    /// Maps what the connection with this token to this interface has announced, or closes it; or seals it. `whose`: for who asks what is
    /// [held](super::held_regions), from when it is begun.
    pub(super) fn begin(
        &self,
        token: u64,
        id: u32,
        origin: Origin,
        whose: Whose,
        map: impl FnOnce() -> Result<T, Reason> + Send + 'static,
    ) {
        let report = Report { done: self.done.clone(), token, origin, outcome: None };
        self.errands.run(origin.line(id), move || {
            let mut report = report;
            let _held = Held::begin(whose);
            report.outcome = Some(map());
        });
    }

    /// Why no thread can be started that there should be.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.errands.failed()
    }

    /// When [`finished`](Self::finished) is to be asked for, as there should be one thread more.
    pub(super) fn due(&self) -> Option<Instant> {
        self.errands.due()
    }

    /// Whether something isn't done yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.errands.done()
    }

    /// What is done by now.
    pub(super) fn finished(&self) -> Vec<Outcome<T>> {
        self.errands.go_on();
        self.done.take()
    }
}

/// Tells how it went, also where it panicked.
struct Report<T> {
    done: Outcomes<Outcome<T>>,
    token: u64,
    origin: Origin,
    outcome: Option<Result<T, Reason>>,
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| Err(Reason::Local("internal error".into())));
        self.done.add((self.token, self.origin, outcome));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{HeldRegion, held_regions};
    use super::*;

    fn whose(name: &str) -> Whose {
        Whose { interface: format!("@{name} id 0"), name: name.into(), peer: Some(7) }
    }

    fn held(name: &str, at_least: Duration) -> Vec<HeldRegion> {
        held_regions(at_least).into_iter().filter(|region| region.name == name).collect()
    }

    /// Whoever waits for it is told.
    #[test]
    fn a_panic_is_an_outcome() {
        let bell = Bell::new().unwrap();
        let mapping = Mapping::<()>::new("test", &bell);
        mapping.begin(7, 0, Origin::Nobody, whose("panic"), || panic!("as it should in this test"));
        let mut ready = [rustix::event::PollFd::from_borrowed_fd(bell.fd(), rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut ready, Some(&patience)), Ok(1));
        assert!(matches!(mapping.finished()[..], [(7, Origin::Nobody, Err(Reason::Local(_)))]));
        assert_eq!(held("panic", Duration::ZERO), []);
    }

    /// They are all the same origin: one's region that hangs keeps none of the others from being mapped.
    #[test]
    fn hostile_holder_that_nobody_sees_stops_no_other() {
        stops_no_other(Origin::Hidden(None), "hidden");
        stops_no_other(Origin::Ended, "ended");
    }

    fn stops_no_other(origin: Origin, kind: &str) {
        let [hanging, harmless] = ["hangs", "doesn't"].map(|does| format!("{kind} {does}"));
        let bell = Bell::new().unwrap();
        let mapping = Mapping::<()>::new("test", &bell);
        let (end, hangs) = std::sync::mpsc::channel::<()>();
        mapping.begin(1, 1, origin, whose(&hanging), move || {
            let _ = hangs.recv();
            Ok(())
        });
        while held(&hanging, Duration::ZERO).is_empty() {
            std::thread::yield_now();
        }
        mapping.begin(2, 2, origin, whose(&harmless), || Ok(()));
        let mut ready = [rustix::event::PollFd::from_borrowed_fd(bell.fd(), rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut ready, Some(&patience)), Ok(1));
        assert!(matches!(mapping.finished()[..], [(2, _, Ok(()))]));
        assert!(mapping.is_busy());
        // One behind it keeps no thread. What is told is the one that does, until it is let go.
        mapping.begin(3, 1, origin, whose(&hanging), || Ok(()));
        let [region] = &held(&hanging, Duration::ZERO)[..] else {
            panic!("{:?}", held_regions(Duration::ZERO))
        };
        assert_eq!((region.interface.as_str(), region.peer), (&*format!("@{hanging} id 0"), Some(7)));
        assert_eq!(held(&hanging, Duration::from_secs(3600)), []);
        assert_eq!(held(&harmless, Duration::ZERO), []);
        drop(end);
        while mapping.is_busy() {
            std::thread::yield_now();
        }
        assert_eq!(held(&hanging, Duration::ZERO), []);
    }
}
