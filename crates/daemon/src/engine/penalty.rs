//! Ports that are taken away because of a call that didn't return: for how long, and when for good.
//!
//! The first time, the port is opened again after [`FIRST`]; each further time within [`MEMORY`] it is closed twice as long. A port that is taken away
//! [`STRIKES`] times within [`MEMORY`] stays closed until its configuration changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::model::spec::InterfaceSpec;
use crate::model::{Flaw, Name};

/// Kind of the fault with which a port is taken away.
pub(super) const STALL: &str = "stall";

/// How long a port is closed the first time.
const FIRST: Duration = Duration::from_secs(3);
/// How long a strike counts.
const MEMORY: Duration = Duration::from_secs(60);
/// Strikes with which it stays closed.
const STRIKES: usize = 3;

/// All ports that were taken away, by interface.
#[derive(Debug, Default)]
pub(super) struct Penalties(Mutex<HashMap<Name, Record>>);

#[derive(Debug)]
struct Record {
    spec: Arc<InterfaceSpec>,
    strikes: Vec<Instant>,
    /// How often in all.
    times: u64,
    reason: String,
}

impl Penalties {
    fn records(&self) -> MutexGuard<'_, HashMap<Name, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port of an interface is taken away at this time.
    pub(super) fn strike(&self, spec: &Arc<InterfaceSpec>, reason: &str, now: Instant) {
        let mut records = self.records();
        let record = records.entry(spec.name.clone()).or_insert_with(|| Record {
            spec: Arc::clone(spec),
            strikes: Vec::new(),
            times: 0,
            reason: String::new(),
        });
        if !record.is_final() {
            record.strikes.retain(|strike| now.saturating_duration_since(*strike) < MEMORY);
        }
        record.spec = Arc::clone(spec);
        record.strikes.push(now);
        record.times += 1;
        reason.clone_into(&mut record.reason);
    }

    /// The last strike of an interface came to nothing: its port is there.
    pub(super) fn take_back(&self, name: &Name) {
        if let Some(record) = self.records().get_mut(name)
            && record.strikes.pop().is_some()
        {
            record.times -= 1;
        }
    }

    /// The interface is gone. One of the same name that comes later is another one.
    pub(super) fn forget(&self, name: &Name) {
        self.records().remove(name);
    }

    /// How often the port of an interface was taken away since its configuration changed, and why the last time.
    pub(super) fn told(&self, name: &Name) -> (u64, String) {
        self.records().get(name).map(|record| (record.times, record.reason.clone())).unwrap_or_default()
    }

    /// Whether the port of an interface may be opened at this time.
    ///
    /// # Errors
    /// [`Flaw`] that gives the reason for which it was taken away, and when it is opened again.
    pub(super) fn check(&self, spec: &InterfaceSpec, now: Instant) -> Result<(), Flaw> {
        let mut records = self.records();
        let Some(record) = records.get(&spec.name) else { return Ok(()) };
        if *record.spec != *spec {
            records.remove(&spec.name);
            return Ok(());
        }
        let flaw = |until| Flaw::new("", format!("its port was taken away: {}", record.reason)).remedy(until);
        if record.is_final() {
            let times = record.strikes.len();
            return Err(flaw(format!(
                "it stays closed, after {times} times within a minute, until the interface is changed"
            )));
        }
        let pause = FIRST * 2_u32.pow(record.strikes.len().saturating_sub(1) as u32);
        match record.strikes.last() {
            Some(last) if now < *last + pause => {
                Err(flaw(format!("it is opened again after {} s", pause.as_secs())))
            }
            _ => Ok(()),
        }
    }
}

impl Record {
    fn is_final(&self) -> bool {
        self.strikes.len() >= STRIKES
    }
}

#[cfg(test)]
mod tests {
    use api::v1::{Interface, Sink, interface};

    use super::*;

    fn spec(mtu: u32) -> Arc<InterfaceSpec> {
        let sink = Some(interface::Port::Sink(Sink::default()));
        let interface = Interface { name: "pod".into(), port: sink, mtu, ..Interface::default() };
        Arc::new(InterfaceSpec::parse(&interface).unwrap())
    }

    #[test]
    fn a_port_comes_back_after_a_pause_that_grows() {
        let (penalties, spec, start) = (Penalties::default(), spec(0), Instant::now());
        assert!(penalties.check(&spec, start).is_ok());
        penalties.strike(&spec, "tap-input has not returned for 2.0 s", start);
        let flaw = penalties.check(&spec, start + FIRST / 2).unwrap_err().to_string();
        assert!(flaw.contains("not returned") && flaw.contains("after 3 s"), "{flaw}");
        assert!(penalties.check(&spec, start + FIRST).is_ok());
        let second = start + 2 * FIRST;
        penalties.strike(&spec, "again", second);
        assert!(penalties.check(&spec, second + FIRST).is_err());
        assert!(penalties.check(&spec, second + 2 * FIRST).is_ok());
    }

    #[test]
    fn the_third_time_within_a_minute_it_stays_closed_until_it_is_changed() {
        let (penalties, first, start) = (Penalties::default(), spec(0), Instant::now());
        for second in [0, 20, 40] {
            penalties.strike(&first, "stalls", start + Duration::from_secs(second));
        }
        let later = start + Duration::from_secs(3600);
        let flaw = penalties.check(&first, later).unwrap_err().to_string();
        assert!(flaw.contains("until the interface is changed"), "{flaw}");
        assert!(penalties.check(&spec(1400), later).is_ok());
        assert!(penalties.check(&first, later).is_ok(), "its owner has changed it: all is forgiven");
    }

    #[test]
    fn what_is_a_minute_old_does_not_count() {
        let (penalties, spec, start) = (Penalties::default(), spec(0), Instant::now());
        for minute in 0..5 {
            let now = start + MEMORY * minute;
            penalties.strike(&spec, "stalls", now);
            assert!(penalties.check(&spec, now + FIRST).is_ok());
        }
        assert_eq!(penalties.told(&spec.name), (5, "stalls".into()), "all five count");
        penalties.take_back(&spec.name);
        assert_eq!(penalties.told(&spec.name).0, 4);
        penalties.forget(&spec.name);
        assert_eq!(penalties.told(&spec.name), (0, String::new()));
    }
}
