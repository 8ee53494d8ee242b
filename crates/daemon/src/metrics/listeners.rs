//! Connections of quiverd's own listeners.

use std::sync::Arc;

use super::exposition::{Exposition, Kind};
use crate::listener::{Admission, Figures};

/// What each listener serves, and what it has closed or refused.
pub(super) fn collect(listeners: &[Arc<Admission>], out: &mut Exposition) {
    type Figure = (&'static str, Kind, &'static str, fn(&Figures) -> u64);
    const FIGURES: [Figure; 4] = [
        ("quiver_listener_connections", Kind::Gauge, "Connections of clients.", |one| one.connections as u64),
        ("quiver_listener_calls", Kind::Gauge, "Calls of clients under way.", |one| one.calls as u64),
        (
            "quiver_listener_closed_total",
            Kind::Counter,
            "Connections closed to make room for other clients, or because they sent nothing.",
            |one| one.closed,
        ),
        (
            "quiver_listener_refused_total",
            Kind::Counter,
            "Calls refused because their client had too many under way.",
            |one| one.refused,
        ),
    ];
    let all: Vec<_> = listeners.iter().map(|one| (one.listener(), one.figures())).collect();
    for (name, kind, help, figure) in FIGURES {
        let mut metric = out.metric(name, kind, help);
        for (listener, figures) in &all {
            metric.sample(&[("listener", listener)], figure(figures));
        }
    }
}
