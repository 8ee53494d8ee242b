//! The loop on one core that drives both sides.

use super::address::Address;
use super::clock::Now;
use super::counts::Counts;
use super::endpoint::{Endpoint, Opener};
use super::profile::{Ends, Profile, Protocol};
use super::side::{BATCH, Face, FaceOf, Side, Traffic};
use super::{tcp, udp};
use crate::link::{Link, LinkError};
use hdrhistogram::{CreationError, Histogram};
use memory::clock::nanoseconds;
use memory::simd::{Simd, Tier, TierTask};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks at control channels and at whether to stop.
const LOOK_NS: u64 = 20_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Longest latency that is told apart: a minute, beyond all retransmissions of a SYN.
const LONGEST_NS: u64 = 64 * SECOND_NS;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long connections are opened.
    pub seconds: f64,
    /// How long they may take to end afterwards.
    pub drain: f64,
    /// Whether the clients are ours.
    pub clients: bool,
}

/// Both sides' counters at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Nanoseconds since the beginning.
    pub ns: u64,
    /// Whether the clients are ours.
    pub clients: bool,
    /// The client side.
    pub client: Counts,
    /// The server side.
    pub server: Counts,
    /// The client side's link.
    pub client_traffic: Traffic,
    /// The server side's link.
    pub server_traffic: Traffic,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Once a second, the last one at the end of opening.
    pub seconds: Vec<Snapshot>,
    /// At the end.
    pub last: Snapshot,
    /// Most connections at a time.
    pub most_active: u64,
    /// Time from a SYN to the handshake's end, or from a first request to its response, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Longest time in nanoseconds from one turn of the loop to the next.
    pub longest_stall_ns: u64,
    /// Was stopped before its time.
    pub stopped: bool,
    /// A link was lost, which ended it.
    pub lost: Option<LinkError>,
}

impl Snapshot {
    /// Counters of the connections: those of the clients, or where these are somebody else's, what the servers saw.
    #[must_use]
    pub const fn connections(&self) -> &Counts {
        if self.clients { &self.client } else { &self.server }
    }
}

/// Runs a profile between two links, with these clients and servers of its, until its time is up, a link is lost or `stop` is set.
/// `each_second` is shown every new snapshot with the one before.
///
/// # Errors
/// Where there is no memory for latencies.
pub fn run<A: Address>(
    profile: &Profile,
    ends: &Ends<A>,
    times: Times,
    links: (&mut Link, &mut Link),
    faces: (Face<A>, Face<A>),
    stop: &AtomicBool,
    each_second: &mut dyn FnMut(&Snapshot, &Snapshot),
) -> Result<Outcome, CreationError> {
    let places = profile.concurrent;
    match profile.protocol {
        Protocol::Tcp => {
            let asks = tcp::Rules { epoch: (nanoseconds() / Now::TIMER_NS) as u32, ..profile.tcp };
            let client = tcp::Client::new(ends.clients, ends.servers, asks, places);
            // A server waits for the next request for as long as a client holds the connection, and then some.
            let timeout = asks.timeout + asks.hold;
            let rules = tcp::Rules { role: tcp::Role::Server, timeout, ..asks };
            // Connections that the client is through with but the server isn't need room, too.
            let server = tcp::Server::new(rules, places + (places / 4).min(1 << 18) + 1024);
            drive(profile, times, links, (client, server), faces, stop, each_second)
        }
        Protocol::Udp => {
            let client = udp::Client::new(ends.clients, ends.servers, profile.udp, places);
            let server = udp::Server::new(profile.udp_response);
            drive(profile, times, links, (client, server), faces, stop, each_second)
        }
    }
}

fn drive<C: Opener, S: Endpoint<Packet = C::Packet>>(
    profile: &Profile,
    times: Times,
    (client_link, server_link): (&mut Link, &mut Link),
    (client, server): (C, S),
    faces: (FaceOf<C>, FaceOf<S>),
    stop: &AtomicBool,
    each_second: &mut dyn FnMut(&Snapshot, &Snapshot),
) -> Result<Outcome, CreationError> {
    let latency = Histogram::new_with_bounds(1, LONGEST_NS, 3)?;
    let (client, server) = (Side::new(client, faces.0), Side::new(server, faces.1));
    let seconds = vec![Snapshot::default()];
    let (rate, connections) = (profile.rate, profile.connections);
    let run = Run {
        client,
        server,
        client_link,
        server_link,
        rate,
        connections,
        times,
        most_active: 0,
        latency,
        longest_stall_ns: 0,
        seconds,
        opening: true,
        stopped: false,
        now: 0,
    };
    Ok(Tier::detect().dispatch(Task { run, stop, each_second }))
}

struct Task<'a, 'l, C: Opener, S: Endpoint<Packet = C::Packet>> {
    run: Run<'l, C, S>,
    stop: &'a AtomicBool,
    each_second: &'a mut dyn FnMut(&Snapshot, &Snapshot),
}

impl<C: Opener, S: Endpoint<Packet = C::Packet>> TierTask for Task<'_, '_, C, S> {
    type Output = Outcome;

    fn run<T: Simd>(mut self, simd: T) -> Self::Output {
        let before = (self.run.client_link.dropped(), self.run.server_link.dropped());
        let lost = simd
            .run(
                #[inline(always)]
                || self.run.go(self.stop, self.each_second),
            )
            .err();
        if self.run.opening {
            self.run.keep(self.run.now, self.each_second);
        }
        self.run.client.traffic.receive_drops = self.run.client_link.dropped_since(before.0);
        self.run.server.traffic.receive_drops = self.run.server_link.dropped_since(before.1);
        let last = self.run.snapshot(self.run.seconds.last().map_or(0, |last| last.ns));
        let Run { seconds, most_active, latency, longest_stall_ns, stopped, .. } = self.run;
        Outcome { seconds, last, most_active, latency, longest_stall_ns, stopped, lost }
    }
}

struct Run<'l, C: Opener, S: Endpoint<Packet = C::Packet>> {
    client: Side<C>,
    server: Side<S>,
    client_link: &'l mut Link,
    server_link: &'l mut Link,
    rate: f64,
    connections: u64,
    times: Times,
    most_active: u64,
    latency: Histogram<u64>,
    longest_stall_ns: u64,
    seconds: Vec<Snapshot>,
    /// Connections are still opened.
    opening: bool,
    stopped: bool,
    /// Nanoseconds since the beginning, at the last turn.
    now: u64,
}

impl<C: Opener, S: Endpoint<Packet = C::Packet>> Run<'_, C, S> {
    #[inline(always)]
    fn go(
        &mut self,
        stop: &AtomicBool,
        each_second: &mut dyn FnMut(&Snapshot, &Snapshot),
    ) -> Result<(), LinkError> {
        let (begin, times) = (nanoseconds(), self.times);
        let ns = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_nanos() as u64;
        let mut until = ns(times.seconds);
        let (mut look, mut second) = (LOOK_NS, SECOND_NS);
        loop {
            let now = nanoseconds() - begin;
            self.longest_stall_ns = self.longest_stall_ns.max(now - self.now);
            self.now = now;
            if now >= look {
                look = now + LOOK_NS;
                self.client_link.check()?;
                self.server_link.check()?;
                // What is under way still has its time to end, unless it is stopped in that: so this time is forgotten.
                let stopped = stop.swap(false, Ordering::Relaxed);
                self.stopped |= stopped;
                let counts =
                    if times.clients { self.client.endpoint.counts() } else { self.server.endpoint.counts() };
                let (active, all) = (counts.active(), counts.attempted >= self.connections);
                if self.opening && (now >= until || stopped || all && active == 0) {
                    self.opening = false;
                    self.keep(now, each_second);
                    second = u64::MAX;
                    until = now + ns(times.drain);
                } else if stopped {
                    return Ok(());
                }
                if !self.opening && (now >= until || active == 0) {
                    return Ok(());
                }
                if now >= second {
                    second += SECOND_NS;
                    self.keep(now, each_second);
                }
            }
            self.turn(begin, now, self.opening && times.clients)?;
        }
    }

    /// Each side receives, lets time go on and sends.
    #[inline(always)]
    fn turn(&mut self, begin: u64, now: u64, opening: bool) -> Result<(), LinkError> {
        let time = Now::at(now);
        let attempted = self.client.endpoint.counts().attempted;
        if opening && self.client.waiting() < BATCH {
            let due = if self.rate > 0.0 {
                // Whole connections that should have been begun by now.
                (now as f64 * 1e-9 * self.rate) as u64
            } else {
                u64::MAX
            };
            let n = due.min(self.connections).saturating_sub(attempted).min(BATCH as u64);
            if n > 0 {
                let (client, out) = self.client.parts();
                client.open(n as usize, time, out);
            }
        }
        if self.times.clients {
            self.most_active = self.most_active.max(self.client.endpoint.counts().active());
        }
        self.client.expire(time);
        self.client.send(self.client_link)?;
        let time = Now::at(nanoseconds() - begin);
        self.server.receive(self.server_link, time)?;
        if !self.times.clients {
            self.most_active = self.most_active.max(self.server.endpoint.counts().active());
        }
        self.server.expire(time);
        self.server.send(self.server_link)?;
        let time = Now::at(nanoseconds() - begin);
        self.client.receive(self.client_link, time)?;
        for latency in self.client.endpoint.latencies().drain(..) {
            self.latency.saturating_record(latency);
        }
        Ok(())
    }

    fn snapshot(&self, ns: u64) -> Snapshot {
        Snapshot {
            ns,
            clients: self.times.clients,
            client: *self.client.endpoint.counts(),
            server: *self.server.endpoint.counts(),
            client_traffic: self.client.traffic,
            server_traffic: self.server.traffic,
        }
    }

    #[cold]
    fn keep(&mut self, ns: u64, each_second: &mut dyn FnMut(&Snapshot, &Snapshot)) {
        let new = self.snapshot(ns);
        each_second(&self.seconds.last().copied().unwrap_or_default(), &new);
        self.seconds.push(new);
    }
}
