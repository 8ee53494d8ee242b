//! A result in a few lines.

use super::{Latency, Report};
use core::fmt;

/// A number with so many decimals and the prefix of its unit.
pub(super) fn scaled(value: f64, decimals: usize) -> String {
    let (scale, prefix) = match value {
        1e9.. => (1e9, "G"),
        1e6.. => (1e6, "M"),
        1e3.. => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{:.decimals$} {prefix}", value / scale)
}

/// The last lines of a result that isn't that of a whole run; nothing where it is.
#[must_use]
pub fn ending(stopped: bool, error: Option<&str>) -> String {
    let lost = error.map(|error| format!("\nincomplete: {error}: this is what came of it until then"));
    let stopped = stopped.then_some("\ninterrupted: this is what came of it until then");
    lost.unwrap_or_default() + stopped.unwrap_or_default()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame_size {
            Some(size) => write!(f, "{size} B frames")?,
            None => f.write_str("frames of several sizes")?,
        }
        let (seconds, pps, bps) = (self.seconds, scaled(self.received_pps, 2), scaled(self.received_bps, 1));
        writeln!(f, ", {seconds:.1} s: {pps}pps, {bps}bit/s received")?;
        let percent = self.loss_ratio * 100.0;
        write!(f, "sent {}, received {}, lost {} ({percent:.4} %)", self.sent, self.received, self.lost)?;
        let parts =
            [("duplicated", self.duplicated), ("reordered", self.reordered), ("corrupted", self.corrupted)];
        for (what, count) in parts {
            if let Some(count) = count {
                write!(f, ", {what} {count}")?;
            }
        }
        let missed = self.missed.unwrap_or(0);
        if missed > 0 {
            write!(f, "\n{missed} packets were not sent, as their time had passed")?;
        }
        if let Some(overslept) = self.overslept.filter(|count| *count > 0) {
            write!(f, ": {overslept} of them while the generator itself was kept from running")?;
        }
        let short = |intended: u64| intended.saturating_sub(self.sent + missed);
        if let Some(short) = self.intended.map(short).filter(|short| *short > 0) {
            let why = if self.stopped || self.error.is_some() {
                "it ended before their time"
            } else if self.streams.iter().any(|stream| stream.ring_full > 0) {
                "the device had no room for them"
            } else {
                "the generator was too slow"
            };
            write!(f, "\n{short} packets were not sent in time: {why}")?;
        }
        let complete = !self.stopped && self.error.is_none();
        for stream in self.streams.iter().filter(|_| complete) {
            let sent = stream.sent + stream.missed.unwrap_or(0);
            if let Some(count) = stream.count.filter(|count| *count > sent) {
                let name = &stream.name;
                write!(
                    f,
                    "\n{name}: {sent} of {count} packets were sent when the time was over ({seconds:.2} s)"
                )?;
            }
        }
        if self.stalled_ns > 0 {
            let ms = |ns: u64| ns as f64 / 1e6;
            let (all, longest) = (ms(self.stalled_ns), ms(self.longest_stall_ns));
            write!(
                f,
                "\nthe generator itself did not run for {all:.2} ms in all, and its longest turn took {longest:.2} ms"
            )?;
            if self.stalled_packets > 0 {
                write!(f, ": {} packets became due meanwhile", self.stalled_packets)?;
            }
        }
        if self.drain_stalled_ns > 0 {
            let all = self.drain_stalled_ns as f64 / 1e6;
            write!(
                f,
                "\nthe generator itself did not run for {all:.2} ms while it waited for the last packets"
            )?;
        }
        if let Some(own) = self.receive_drops.filter(|own| *own > 0) {
            write!(f, "\nTHE GENERATOR WAS TOO SLOW: {own} frames came that it didn't take in time")?;
            if self.lost > 0 {
                write!(f, "; up to {} of those lost were not lost by the device", own.min(self.lost))?;
            }
        }
        if self.misdirected > 0 {
            write!(f, "\n{} packets came in where they were not to, and count as lost", self.misdirected)?;
        }
        if self.foreign > 0 {
            write!(f, "\n{} frames came that aren't ours", self.foreign)?;
        }
        if self.streams.len() > 1 {
            for stream in &self.streams {
                write!(f, "\n{}: sent {}", stream.name, stream.sent)?;
                if let (Some(received), Some(lost)) = (stream.received, stream.lost) {
                    write!(f, ", received {received}, lost {lost}")?;
                }
            }
        }
        if let Some(latency) = &self.latency_ns {
            write!(f, "\n{latency}")?;
        }
        if let (Some((before, after)), Some(placement)) = (self.round_trip_ns, self.placement) {
            write!(
                f,
                "\ncores: {placement}, a cache line goes there and back in {before:.0} ns before, {after:.0} ns after"
            )?;
        }
        f.write_str(&ending(self.stopped, self.error.as_deref()))
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        write!(
            f,
            "latency of {} packets in µs: min {:.2}, mean {:.2}",
            self.count,
            us(self.min),
            self.mean / 1e3
        )?;
        let percentiles = [
            ("50 %", self.p50),
            ("90 %", self.p90),
            ("99 %", self.p99),
            ("99.9 %", self.p99_9),
            ("99.99 %", self.p99_99),
            ("99.9999 %", self.p99_9999),
        ];
        for (name, value) in percentiles {
            write!(f, ", {name} {:.2}", us(value))?;
        }
        write!(f, ", max {:.2}", us(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn units_scale() {
        let told = [0.0, 50.0, 1_000.0, 50_000.0, 28_314_000.0, 4.2e9].map(|value| scaled(value, 2) + "pps");
        assert_eq!(told, ["0.00 pps", "50.00 pps", "1.00 kpps", "50.00 kpps", "28.31 Mpps", "4.20 Gpps"]);
    }
}
