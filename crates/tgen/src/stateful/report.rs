//! What came of a run, for people and as JSON.

use super::counts::{Counts, Failed};
use super::profile::{Profile, Protocol};
use super::run::{Outcome, Snapshot};
use super::side::Traffic;
use crate::report::ending;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Why fewer connections were begun than asked for, where there were places for more.
const SLOW: &str = "the generator, or the device, was too slow";

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// How many there are.
    pub count: u64,
    /// Shortest.
    pub min: u64,
    /// Average.
    pub mean: f64,
    /// Longest.
    pub max: u64,
    /// Latency that so many per cent don't exceed.
    pub percentiles: Vec<(f64, u64)>,
}

impl Latency {
    /// `None` where nothing was measured.
    fn new(histogram: &Histogram<u64>) -> Option<Self> {
        let of = |percent| (percent, histogram.value_at_quantile(percent / 100.0));
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            max: histogram.max(),
            percentiles: [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999].map(of).to_vec(),
        })
    }
}

impl Latency {
    /// A line for people.
    fn text(&self) -> String {
        let us = |percent: f64| {
            let found = self.percentiles.iter().find(|(of, _)| *of == percent);
            found.map_or(0.0, |(_, ns)| *ns as f64 / 1e3)
        };
        format!(
            "\nconnect latency: min {:.1}, median {:.1}, 99 % {:.1}, 99.9 % {:.1}, max {:.1} µs",
            self.min as f64 / 1e3,
            us(50.0),
            us(99.0),
            us(99.9),
            self.max as f64 / 1e3,
        )
    }
}

/// One second of opening.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Seconds since the beginning, at its end.
    pub at: f64,
    /// Connections begun per second.
    pub attempted: f64,
    /// Connections established per second.
    pub established: f64,
    /// Connections closed per second.
    pub closed: f64,
    /// Connections failed per second.
    pub failed: f64,
    /// Connections at its end.
    pub active: u64,
    /// Packets of ours received by both sides per second.
    pub received_pps: f64,
}

impl Second {
    /// What happened between two snapshots.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let seconds = (after.ns - before.ns).max(1) as f64 * 1e-9;
        let per = |of: fn(&Snapshot) -> u64| (of(after) - of(before)) as f64 / seconds;
        let connections =
            |of: fn(&Counts) -> u64| (of(after.connections()) - of(before.connections())) as f64 / seconds;
        Self {
            at: after.ns as f64 * 1e-9,
            attempted: connections(|c| c.attempted),
            established: connections(|c| c.established),
            closed: connections(|c| c.closed),
            failed: connections(|c| c.failed.total()),
            active: after.connections().active(),
            received_pps: per(|s| s.client_traffic.received() + s.server_traffic.received()),
        }
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{:7.1} s  {:>9.0} attempted/s  {:>9.0} established/s  {:>9.0} closed/s  {:>7.0} failed/s  {:>8} active  {:.2} Mpps",
            self.at,
            self.attempted,
            self.established,
            self.closed,
            self.failed,
            self.active,
            self.received_pps / 1e6
        )
    }
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Clients.
    pub clients: String,
    /// Servers.
    pub servers: String,
    /// Seconds in which connections were opened.
    pub seconds: f64,
    /// Connections that the rate asked for in that time; `null` where there is no rate, or the clients are somebody else's.
    pub intended: Option<u64>,
    /// Connections begun per second of opening.
    pub attempted_per_second: f64,
    /// Connections established per second of opening: CSIT's "cps".
    pub established_per_second: f64,
    /// Connections closed as intended per second of opening.
    pub closed_per_second: f64,
    /// Packets of ours received by both sides per second of opening, whole, repeated ones too: CSIT's "pps" of its tput cases.
    pub received_pps: f64,
    /// Payload received by both sides, in bits per second of opening.
    pub goodput_bps: f64,
    /// Most connections at a time.
    pub most_active: u64,
    /// Whether at some time all places for connections were taken.
    #[serde(skip)]
    pub full: bool,
    /// Connections that had not ended at the end.
    pub unfinished: u64,
    /// Counters of the client side.
    pub client: Counts,
    /// Counters of the server side.
    pub server: Counts,
    /// The client side's link.
    pub client_link: Traffic,
    /// The server side's link.
    pub server_link: Traffic,
    /// Time from SYN to the handshake's end, or from a first request to its response; `null` where there was none, as where the
    /// clients are somebody else's.
    pub connect_latency_ns: Option<Latency>,
    /// Longest time from one turn of the generator's loop to the next: while it is kept from running it takes nothing.
    pub longest_stall_ns: u64,
    /// Second by second.
    pub per_second: Vec<Second>,
    /// Was interrupted: this is what came of it until then.
    pub stopped: bool,
    /// Why it ended before its time, if an interface was lost.
    pub error: Option<String>,
}

impl Report {
    /// The report of a run.
    #[must_use]
    pub fn new(profile: &Profile, outcome: &Outcome) -> Self {
        let (clients, servers) = profile.ends.text();
        let first = Snapshot::default();
        let end = outcome.seconds.last().unwrap_or(&first);
        let whole = Second::between(&first, end);
        let last = &outcome.last;
        let bytes = end.client.bytes + end.server.bytes;
        Self {
            protocol: profile.protocol,
            clients,
            servers,
            seconds: whole.at,
            intended: (profile.rate > 0.0 && end.clients)
                .then(|| ((whole.at * profile.rate) as u64).min(profile.connections)),
            attempted_per_second: whole.attempted,
            established_per_second: whole.established,
            closed_per_second: whole.closed,
            received_pps: whole.received_pps,
            goodput_bps: bytes as f64 * 8.0 / whole.at.max(1e-9),
            most_active: outcome.most_active,
            full: outcome.most_active >= profile.concurrent || last.client.no_place > 0,
            unfinished: last.connections().active(),
            client: last.client,
            server: last.server,
            client_link: last.client_traffic,
            server_link: last.server_traffic,
            connect_latency_ns: Latency::new(&outcome.latency),
            longest_stall_ns: outcome.longest_stall_ns,
            per_second: outcome.seconds.windows(2).map(|pair| Second::between(&pair[0], &pair[1])).collect(),
            stopped: outcome.stopped,
            error: outcome.lost.as_ref().map(ToString::to_string),
        }
    }

    /// A few lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let (client, server) = (&self.client, &self.server);
        let mut text = format!(
            "{:.1} s: {:.0} connections/s established ({:.0} attempted/s), {:.2} Mpps, {:.2} Gbit/s of payload\n\
             client: attempted {}, established {}, closed {}, failed {}, sent again {}\n\
             server: accepted {}, established {}, closed {}, failed {}, sent again {}\n\
             at a time: up to {}, unfinished {}",
            self.seconds,
            self.established_per_second,
            self.attempted_per_second,
            self.received_pps / 1e6,
            self.goodput_bps / 1e9,
            client.attempted,
            client.established,
            client.closed,
            client.failed.total(),
            client.retransmitted,
            server.attempted,
            server.established,
            server.closed,
            server.failed.total(),
            server.retransmitted,
            self.most_active,
            self.unfinished,
        );
        // A turn's worth is no shortfall.
        let short = |intended: &u64| intended.saturating_sub(client.attempted);
        let behind = |intended: &&u64| short(intended) * 100 > **intended;
        if let Some(short) = self.intended.as_ref().filter(behind).map(short) {
            let why = if self.full { "no place was free (--concurrent, --clients)" } else { SLOW };
            text.push_str(&format!("\n{short} connections were not begun in time: {why}"));
        }
        if let Some(latency) = &self.connect_latency_ns {
            text.push_str(&latency.text());
        }
        for (side, Failed { refused, reset, connect_timeout, timeout, closed_early }) in
            [("client", client.failed), ("server", server.failed)]
        {
            if refused + reset + connect_timeout + timeout + closed_early > 0 {
                text.push_str(&format!(
                    "\n{side} side failed: refused {refused}, reset {reset}, no answer to SYN {connect_timeout}, \
                     timed out {timeout}, closed early {closed_early}"
                ));
            }
        }
        for (side, link, counts) in
            [("client", &self.client_link, client), ("server", &self.server_link, server)]
        {
            let odd = [
                ("frames dropped by the generator, which was too slow", link.receive_drops.unwrap_or(0)),
                ("packets not sent, the ring being full", link.tx_lost),
                ("wrong checksums", link.bad_checksum),
                ("malformed", link.malformed),
                ("datagrams of somebody else's", link.foreign),
                ("stray segments", counts.stray),
                ("out of order", counts.out_of_order),
                ("times no place was free", counts.no_place),
            ];
            let odd: Vec<String> =
                odd.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
            if !odd.is_empty() {
                text.push_str(&format!("\n{side} side: {}", odd.join(", ")));
            }
        }
        text + &ending(self.stopped, self.error.as_deref())
    }
}
