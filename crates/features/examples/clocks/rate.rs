//! A rate that all packets keep to.

use crate::clocks::or_exit;
use quiver_features::policer::{Action, Profile};
use std::sync::Arc;
use tables::policer::{Kind, Meter, Rates, Unit};

/// What policers that drop nothing say.
pub fn profile() -> Arc<Profile> {
    let rates = Rates {
        kind: Kind::SingleRate,
        unit: Unit::Bits,
        committed: 100_000_000_000,
        committed_burst: 1_000_000_000,
        other: 0,
        other_burst: 0,
    };
    Arc::new(Profile {
        name: "cost".into(),
        meter: or_exit(Meter::new(&rates)),
        actions: [Action::Transmit, Action::Transmit, Action::Drop],
        is_aware: false,
        per_session: false,
        version: 1,
    })
}
