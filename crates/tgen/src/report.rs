//! The result.

use crate::options::{Options, Output};
use crate::placement::Placement;
use crate::run::Counts;
use serde::Serialize;

/// The result of a run, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Frame length in bytes, without FCS.
    pub frame_size: u16,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent and not received with their length.
    pub lost: u64,
    /// Lost, as a share of those sent.
    pub loss_ratio: f64,
    /// Packets received whose length isn't that of what was sent.
    pub odd_length: u64,
    /// Seconds of sending.
    pub seconds: f64,
    /// Packets per second received.
    pub received_pps: f64,
    /// Bits per second received, frames without FCS and gaps.
    pub received_bps: f64,
    /// Round trip of a cache line to the core of the device under test, before and after, in nanoseconds.
    pub round_trip_ns: Option<(f64, f64)>,
    /// What that says.
    pub placement: Option<Placement>,
}

impl Report {
    /// The report of a run.
    #[must_use]
    pub fn new(options: &Options, counts: &Counts, round_trip_ns: Option<(f64, f64)>) -> Self {
        // Frames of another length (the announcement of an interface that comes up) make up for none of ours.
        let lost = counts.sent.saturating_sub(counts.received.saturating_sub(counts.odd_length));
        let seconds = counts.seconds.max(f64::MIN_POSITIVE);
        Self {
            frame_size: options.size,
            sent: counts.sent,
            received: counts.received,
            lost,
            loss_ratio: if counts.sent == 0 { 0.0 } else { lost as f64 / counts.sent as f64 },
            odd_length: counts.odd_length,
            seconds: counts.seconds,
            received_pps: counts.received as f64 / seconds,
            received_bps: counts.received_bytes as f64 * 8.0 / seconds,
            placement: round_trip_ns.map(|(before, after)| Placement::of(before.max(after))),
            round_trip_ns,
        }
    }

    /// The report as the options ask for it.
    ///
    /// # Errors
    /// None that is seen in practice: numbers and strings always have a JSON form.
    pub fn render(&self, output: Output) -> Result<String, serde_json::Error> {
        if output == Output::Json {
            return serde_json::to_string_pretty(self);
        }
        let mut text = format!(
            "{} B frames, {:.1} s: {:.2} Mpps, {:.1} Gbit/s received\nsent {}, received {}, lost {} ({:.4} %)",
            self.frame_size,
            self.seconds,
            self.received_pps / 1e6,
            self.received_bps / 1e9,
            self.sent,
            self.received,
            self.lost,
            self.loss_ratio * 100.0
        );
        if self.odd_length > 0 {
            text.push_str(&format!("\n{} packets came back with another length", self.odd_length));
        }
        if let (Some((before, after)), Some(placement)) = (self.round_trip_ns, self.placement) {
            text.push_str(&format!(
                "\ncores: {placement:?}, a cache line goes there and back in {before:.0} ns before, {after:.0} ns after"
            ));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn foreign_frames_do_not_hide_a_loss() {
        let options = Options::parse_from(["quiver-tgen", "--tx", "@a"]);
        let counts = Counts { sent: 100, received: 100, odd_length: 2, ..Counts::default() };
        assert_eq!(Report::new(&options, &counts, None).lost, 2);
    }
}
