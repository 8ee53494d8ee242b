//! What is told.

use super::Latency;
use crate::placement::Placement;
use crate::plan::{Check, Content, Plan};
use crate::stateless::{LaneCounts, Outcome};
use serde::Serialize;

/// The result of a run. Fields are `null` where nothing can be known: without signatures, what came in can't be told apart
/// by stream, and only its number says what is lost.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the generator.
    pub version: &'static str,
    /// What was looked at.
    pub check: Check,
    /// Seed of all that is random.
    pub seed: u64,
    /// Number of the run in signatures. Frames of another run count as foreign.
    pub run: u16,
    /// Frame length in bytes, without FCS, if all had the same.
    pub frame_size: Option<usize>,
    /// Seconds of sending.
    pub seconds: f64,
    /// Packets that the rates asked for, if all streams have one. Those not sent found no room at the device.
    pub intended: Option<u64>,
    /// Packets sent.
    pub sent: u64,
    /// Packets never sent, because they were more than `max_late` behind their time; `null` where all are sent, however late.
    pub missed: Option<u64>,
    /// Those of them whose time passed while the generator itself did not run: no fault of the device.
    pub overslept: Option<u64>,
    /// Longest time in nanoseconds, within the `seconds` of sending, from one turn of the generator's loop to the next. While it is
    /// kept from running, a device finds the receive ring full after ring size / rate.
    pub longest_stall_ns: u64,
    /// Sum in nanoseconds of all those longer than 50 µs (1 ms with interfaces of the kernel), without what the turn's own work took.
    pub stalled_ns: u64,
    /// The same of the time afterwards, in which it waited for the last packets.
    pub drain_stalled_ns: u64,
    /// Packets that became due in those: late, or never sent, because of the generator itself. Streams without a rate and
    /// captures at their own times have none.
    pub stalled_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received that are ours; each once, where signatures are looked at.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent and not received whole.
    pub lost: u64,
    /// Lost, as a share of those sent.
    pub loss_ratio: f64,
    /// Packets that came again.
    pub duplicated: Option<u64>,
    /// Packets that came after later ones.
    pub reordered: Option<u64>,
    /// Packets whose payload isn't what was sent; they count as lost, too. `null` unless payloads are looked at.
    pub corrupted: Option<u64>,
    /// Frames received that aren't ours.
    pub foreign: u64,
    /// Packets of ours that came in where they were not to, such as at the interface that they were sent to: they count as lost.
    pub misdirected: u64,
    /// Frames that came and that the kernel threw away because the generator took too few: its own losses, which `lost` and
    /// `loss_ratio` contain as far as they hit packets of ours. `null` where no interface can tell (memif: there the device
    /// finds the ring full).
    pub receive_drops: Option<u64>,
    /// Packets per second sent.
    pub sent_pps: f64,
    /// Packets per second received.
    pub received_pps: f64,
    /// Bits per second of the packets received, frames without FCS and gaps.
    pub received_bps: f64,
    /// Latency of all latency streams.
    pub latency_ns: Option<Latency>,
    /// By stream, in the order they were given.
    pub streams: Vec<StreamReport>,
    /// By interface.
    pub interfaces: Vec<InterfaceReport>,
    /// Round trip of a cache line to the core of the device under test, before and after, in nanoseconds.
    pub round_trip_ns: Option<(f64, f64)>,
    /// What that says.
    pub placement: Option<Placement>,
    /// Was interrupted: this is what came of it until then.
    pub stopped: bool,
    /// Why it ended before its time, if an interface was lost.
    pub error: Option<String>,
}

/// What came of a stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamReport {
    /// Its name.
    pub name: String,
    /// Interface it was sent to.
    pub tx: String,
    /// Packets that its rate asked for.
    pub intended: Option<u64>,
    /// Packets after which it was to end, by its count or those of its capture; `null` where only the time ends it.
    pub count: Option<u64>,
    /// Packets sent.
    pub sent: u64,
    /// Packets never sent, because their time had passed.
    pub missed: Option<u64>,
    /// Those of them that the generator itself slept through.
    pub overslept: Option<u64>,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Times that the device had less room than there was to send.
    pub ring_full: u64,
    /// Packets received, each once.
    pub received: Option<u64>,
    /// Their bytes.
    pub received_bytes: Option<u64>,
    /// Packets sent and not received whole.
    pub lost: Option<u64>,
    /// Packets that came again.
    pub duplicated: Option<u64>,
    /// Packets that came after later ones.
    pub reordered: Option<u64>,
    /// Packets whose payload isn't what was sent.
    pub corrupted: Option<u64>,
    /// Packets that came in where they were not to.
    pub misdirected: Option<u64>,
    /// Its latency.
    pub latency_ns: Option<Latency>,
}

/// What went by an interface.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceReport {
    /// Its name.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Frames received, ours or not.
    pub received: u64,
    /// Bytes of all those frames.
    pub received_bytes: u64,
    /// Frames received that aren't ours.
    pub foreign: u64,
    /// Packets of ours received that were to come in elsewhere.
    pub misdirected: u64,
    /// Frames that came and that the kernel threw away because the generator took too few.
    pub receive_drops: Option<u64>,
}

impl Report {
    /// The report of a run, on interfaces of these names.
    #[must_use]
    pub fn new(plan: &Plan, names: &[String], outcome: &Outcome, round_trip_ns: Option<(f64, f64)>) -> Self {
        let streams: Vec<StreamReport> =
            (0..plan.streams.len()).map(|n| StreamReport::new(plan, names, outcome, n)).collect();
        let interface = |(n, name): (usize, &String)| {
            let counts = outcome.links.get(n).copied().unwrap_or_default();
            let sent =
                plan.streams.iter().zip(&streams).filter(|(of, _)| of.tx == n).map(|(_, s)| s.sent).sum();
            InterfaceReport {
                name: name.clone(),
                sent,
                received: counts.packets,
                received_bytes: counts.bytes,
                foreign: counts.foreign,
                misdirected: counts.misdirected,
                receive_drops: counts.dropped,
            }
        };
        let interfaces: Vec<InterfaceReport> = names.iter().enumerate().map(interface).collect();
        let sum = |of: fn(&StreamReport) -> u64| streams.iter().map(of).sum::<u64>();
        let known = |of: fn(&StreamReport) -> Option<u64>| streams.iter().map(of).sum::<Option<u64>>();
        let (sent, foreign) = (sum(|s| s.sent), interfaces.iter().map(|i| i.foreign).sum());
        let all: u64 = interfaces.iter().map(|i| i.received).sum();
        let misdirected: u64 = interfaces.iter().map(|i| i.misdirected).sum();
        let signed = outcome.checks.is_some();
        // Frames that aren't ours (the announcement of an interface that comes up) make up for none of ours.
        let received = known(|s| s.received).filter(|_| signed).unwrap_or(all - foreign - misdirected);
        let received_bytes = known(|s| s.received_bytes)
            .filter(|_| signed)
            .unwrap_or_else(|| outcome.links.iter().map(|link| link.bytes - link.other_bytes).sum());
        let lost = sent.saturating_sub(received);
        let seconds = outcome.seconds.max(f64::MIN_POSITIVE);
        let ns = |ticks: u64| (ticks as f64 * 1e9 / outcome.frequency) as u64;
        let histograms = outcome.checks.iter().flatten().filter_map(|lane| lane.latency.as_deref());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            check: plan.check,
            seed: plan.seed,
            run: plan.run,
            frame_size: frame_size(outcome),
            seconds: outcome.seconds,
            intended: known(|s| s.intended),
            sent,
            missed: known(|s| s.missed),
            overslept: known(|s| s.overslept),
            longest_stall_ns: ns(outcome.stalled.longest),
            stalled_ns: ns(outcome.stalled.total),
            drain_stalled_ns: ns(outcome.stalled.after),
            stalled_packets: outcome.stalled.packets,
            sent_bytes: sum(|s| s.sent_bytes),
            received,
            received_bytes,
            lost,
            loss_ratio: if sent == 0 { 0.0 } else { lost as f64 / sent as f64 },
            duplicated: known(|s| s.duplicated).filter(|_| signed),
            reordered: known(|s| s.reordered).filter(|_| signed),
            corrupted: known(|s| s.corrupted).filter(|_| signed),
            foreign,
            misdirected,
            receive_drops: interfaces.iter().filter_map(|i| i.receive_drops).reduce(|a, b| a + b),
            sent_pps: sent as f64 / seconds,
            received_pps: received as f64 / seconds,
            received_bps: received_bytes as f64 * 8.0 / seconds,
            latency_ns: Latency::of(histograms, outcome.frequency),
            streams,
            interfaces,
            placement: round_trip_ns.map(Placement::of),
            round_trip_ns,
            stopped: outcome.stopped,
            error: outcome.lost.as_ref().map(ToString::to_string),
        }
    }

    /// Packets that did not come through as a share of those that should have been sent: at a rate, those not sent in time
    /// are missing, too, unless the run was ended before their time.
    #[must_use]
    pub fn missing_ratio(&self) -> f64 {
        if self.stopped {
            return self.loss_ratio;
        }
        let wanted: u64 = self.streams.iter().map(|s| s.intended.unwrap_or(s.sent).max(s.sent)).sum();
        if wanted == 0 { 0.0 } else { wanted.saturating_sub(self.received) as f64 / wanted as f64 }
    }

    /// As JSON.
    ///
    /// # Errors
    /// None that is seen in practice: numbers and strings always have a JSON form.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

impl StreamReport {
    fn new(plan: &Plan, names: &[String], outcome: &Outcome, n: usize) -> Self {
        let of = plan.streams.get(n);
        let lanes = || outcome.lanes.iter().filter(|lane| lane.stream == n);
        let checks = outcome
            .checks
            .as_deref()
            .filter(|_| of.is_some_and(|of| matches!(of.content, Content::Made { .. })));
        let checked = |count: fn(&LaneCounts) -> u64| -> Option<u64> {
            let pairs = outcome.lanes.iter().zip(checks?);
            Some(pairs.filter(|(lane, _)| lane.stream == n).map(|(_, counts)| count(counts)).sum())
        };
        let sent = lanes().map(|lane| lane.packets).sum::<u64>();
        let received = checked(|counts| counts.tracker.received());
        let pairs = outcome.lanes.iter().zip(checks.unwrap_or_default());
        let histograms =
            pairs.filter(|(lane, _)| lane.stream == n).filter_map(|(_, counts)| counts.latency.as_deref());
        Self {
            name: of.map(|of| of.name.clone()).unwrap_or_default(),
            tx: of.and_then(|of| names.get(of.tx)).cloned().unwrap_or_default(),
            intended: lanes().map(|lane| lane.intended).sum(),
            count: lanes().map(|lane| lane.count).sum(),
            sent,
            missed: plan.max_late.map(|_| lanes().map(|lane| lane.missed).sum()),
            overslept: plan.max_late.map(|_| lanes().map(|lane| lane.overslept).sum()),
            sent_bytes: lanes().map(|lane| lane.bytes).sum(),
            ring_full: lanes().map(|lane| lane.full).sum(),
            received,
            received_bytes: checked(|counts| counts.bytes),
            lost: received.map(|received| sent.saturating_sub(received)),
            duplicated: checked(|counts| counts.tracker.duplicated()),
            reordered: checked(|counts| counts.tracker.reordered()),
            corrupted: checked(|counts| counts.corrupted).filter(|_| plan.check == Check::Payload),
            misdirected: checked(|counts| counts.misdirected),
            latency_ns: Latency::of(histograms, outcome.frequency),
        }
    }
}

/// Length of all frames, where it is the same.
fn frame_size(outcome: &Outcome) -> Option<usize> {
    let mut lens = outcome.lanes.iter().map(|lane| lane.lens);
    let (first, _) = lens.next()?;
    (outcome.lanes.iter().all(|lane| lane.lens == (first, first))).then_some(first)
}
