//! Sessions to collectors, by IPFIX over UDP: a thread for each.
//!
//! It hears of sessions that end as everybody does who looks on ([`watching`](super::watching)), and sends by a socket of the kernel's. What is lost on its way here, or
//! can't be sent, is counted; workers never wait.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use features::session::nat::Binding;
use features::session::tenants::TICK_BITS;
use features::session::{End, Filter, Kinds, Seen, What};
use memory::clock::nanoseconds;
use tables::session::{Endpoint, Handle};

use super::inspect::sessions::{self, SPAN};
use super::start::Shared;
use super::watching::{Happened, PAUSE, Watch, since_1970};
use crate::dataplane::ExporterFigures;
use crate::ipfix::{DROPPED, EndReason, FORWARDED, Messages, NatEvent, Record, Template};
use crate::settings::Ipfix;

/// Events of a worker that are dealt with before messages are sent.
const BATCH: usize = 4096;
/// How often it is tried to have a socket, and how often it is said that nothing can be sent.
const RETRY: Duration = Duration::from_secs(5);
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// One collector, and what has been sent to it.
#[derive(Debug)]
pub(super) struct Exporter {
    settings: Ipfix,
    messages: AtomicU64,
    records: AtomicU64,
    unsent: AtomicU64,
    refused: AtomicU64,
}

impl Exporter {
    /// Nothing was sent yet.
    pub(super) fn new(settings: Ipfix) -> Self {
        let [messages, records, unsent, refused] = Default::default();
        Self { settings, messages, records, unsent, refused }
    }

    /// What has been sent.
    pub(super) fn figures(&self) -> ExporterFigures {
        ExporterFigures {
            collector: self.settings.collector.to_string(),
            domain: self.settings.domain,
            messages: self.messages.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            unsent: self.unsent.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

/// Exports until the engine is dropped.
pub(super) fn run(shared: &Arc<Shared>, exporter: &Exporter) {
    let settings = &exporter.settings;
    let kinds = if settings.nat_events { Kinds::ENDED.and(Kinds::TRANSLATED) } else { Kinds::ENDED };
    let mut watch = loop {
        // A worker may be busy for long; nothing of what it does then can be told.
        match Watch::start(shared, Filter::default(), kinds) {
            Ok(watch) => break watch,
            Err(error) if !stopped(shared) => {
                tracing::warn!(collector = %settings.collector, %error, "sessions aren't exported yet");
                let until = Instant::now() + RETRY;
                while Instant::now() < until && !stopped(shared) {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(_) => return,
        }
    };
    let mut export = Export::new(exporter);
    let active = settings.active_seconds.map(|seconds| Duration::from_secs(u32::from(seconds).into()));
    let mut walk = active.map(|period| Instant::now() + period);
    while !stopped(shared) {
        export.keep_known(watch.missed());
        let since_1970 = since_1970();
        let any = watch.take(BATCH, &mut |happened| export.event(happened, since_1970));
        if let (Some(due), Some(period)) = (walk, active)
            && Instant::now() >= due
        {
            export.walk(shared);
            walk = Some(Instant::now() + period);
        }
        if !any {
            export.flush();
            std::thread::sleep(PAUSE);
        }
    }
    export.flush();
}

fn stopped(shared: &Shared) -> bool {
    shared.stop.load(Ordering::Acquire)
}

/// What was reported of a session that goes on.
#[derive(Debug)]
struct Reported {
    packets: [u64; 2],
    bytes: [u64; 2],
    /// Milliseconds since 1970-01-01 UTC.
    at: u64,
    /// The last look through all sessions that has seen it.
    walk: u64,
}

struct Export<'a> {
    exporter: &'a Exporter,
    messages: Messages,
    wire: Wire<'a>,
    /// Sessions that were reported before their end, by [`Record::flow`].
    reported: HashMap<u64, Reported>,
    walk: u64,
    /// When the templates are told again.
    templates: Instant,
}

impl<'a> Export<'a> {
    /// Nothing was told yet.
    fn new(exporter: &'a Exporter) -> Self {
        let now = Instant::now();
        Self {
            exporter,
            messages: Messages::new(exporter.settings.domain),
            wire: Wire { exporter, socket: None, retry: now, said: None },
            reported: HashMap::new(),
            walk: 0,
            templates: now,
        }
    }

    /// Has a socket where there is none, and tells the templates by it, or where it is time to; with it how many sessions there are no records of, of which `missed` weren't
    /// heard of.
    fn keep_known(&mut self, missed: u64) {
        // To a collector, another socket is another exporter: it has to know the templates first.
        if !self.wire.begin() && Instant::now() < self.templates {
            return;
        }
        let lost = missed + self.exporter.unsent.load(Ordering::Relaxed);
        let message = self.messages.templates(lost, seconds());
        self.wire.send(message);
        let again = Duration::from_secs(u32::from(self.exporter.settings.template_seconds).into());
        self.templates = Instant::now() + again;
    }

    fn flush(&mut self) {
        let message = self.messages.finish(seconds());
        self.wire.send(message);
    }

    fn wants(&self, tenant: &str) -> bool {
        let tenants = &self.exporter.settings.tenants;
        tenants.is_empty() || tenants.iter().any(|one| one == tenant)
    }

    fn event(&mut self, happened: &Happened<'_>, since_1970: i128) {
        let Happened { worker, event, tenant } = happened;
        if !self.wants(tenant) {
            return;
        }
        let (reason, nat) = match event.what {
            What::Ended(end) => (reason(end), NatEvent::Nat44SessionDelete),
            What::Translated => (EndReason::ActiveTimeout, NatEvent::Nat44SessionCreate),
            What::Began | What::Blocked => return,
        };
        let mut record = record(*worker, &event.seen, tenant, (event.at, since_1970));
        (record.reason, record.nat) = (reason, nat);
        if matches!(event.what, What::Ended(_)) {
            if let Some(before) = self.reported.remove(&record.flow) {
                record.since(&before);
            }
            self.session(&event.seen, &record);
        }
        if self.exporter.settings.nat_events && beyond(&event.seen).is_some() && event.seen.key.is_v4() {
            match event.binding {
                Binding::Port => self.add(Template::of_nat_event(), &record),
                // Whose block it is has been told.
                Binding::Within => {}
                Binding::Block(first, last) => {
                    record.block = (first, last);
                    record.nat = match event.what {
                        What::Ended(_) => NatEvent::PortBlockDeallocation,
                        _ => NatEvent::PortBlockAllocation,
                    };
                    self.add(Template::of_port_block(), &record);
                }
            }
        }
    }

    /// Reports all sessions that go on and have sent something since they were reported last.
    fn walk(&mut self, shared: &Arc<Shared>) {
        self.walk += 1;
        let tenants = Arc::clone(&shared.directory.get().tenant_names);
        for worker in shared.pool.workers() {
            let mut from = Some(0);
            while let Some(at) = from {
                let part = sessions::ask(shared, worker, move |all| all.look(&Filter::default(), at, SPAN));
                // A worker that doesn't answer is looked at next time.
                let Ok((part, next)) = part else { break };
                let (now, since_1970) = (nanoseconds(), since_1970());
                for seen in part {
                    let tenant = tenants.get(&seen.session.tenant).map_or("", |name| &**name);
                    if self.wants(tenant) {
                        self.goes_on(worker.number(), &seen, tenant, (now, since_1970));
                    }
                }
                from = next;
            }
        }
        // What ends between two looks says so itself; its event may still be on its way.
        let walk = self.walk;
        self.reported.retain(|_, reported| reported.walk + 1 >= walk);
    }

    fn goes_on(&mut self, worker: usize, seen: &Seen, tenant: &str, time: (u64, i128)) {
        let mut record = record(worker, seen, tenant, time);
        let (packets, bytes) = (record.packets, record.bytes);
        if let Some(before) = self.reported.get_mut(&record.flow) {
            before.walk = self.walk;
            record.since(before);
        }
        if record.packets == [0; 2] {
            return;
        }
        let reported = Reported { packets, bytes, at: record.end, walk: self.walk };
        self.reported.insert(record.flow, reported);
        self.session(seen, &record);
    }

    fn session(&mut self, seen: &Seen, record: &Record<'_>) {
        // Of a session that a parser has found, its key doesn't say which version its packets are.
        let is_v4 = record.ends.iter().chain(&record.beyond).all(|(address, _)| address.is_ipv4());
        let template = Template::of_session(is_v4, beyond(seen).is_some());
        self.add(template, record);
    }

    fn add(&mut self, template: &Template, record: &Record<'_>) {
        let full = self.messages.add(template, record, seconds());
        self.wire.send(full);
    }
}

impl Record<'_> {
    /// What was reported before isn't again. A session that has begun anew where another was has less.
    fn since(&mut self, before: &Reported) {
        for way in [0, 1] {
            self.packets[way] = self.packets[way].saturating_sub(before.packets[way]);
            self.bytes[way] = self.bytes[way].saturating_sub(before.bytes[way]);
        }
        self.start = self.start.max(before.at);
        self.end = self.end.max(self.start);
    }
}

const fn reason(end: End) -> EndReason {
    match end {
        End::Timeout => EndReason::IdleTimeout,
        End::Finished => EndReason::EndOfFlow,
        End::EvictedForQuota | End::EvictedForTable => EndReason::LackOfResources,
        End::Blocked | End::Cleared | End::TenantDeleted | End::Reconfigured => EndReason::ForcedEnd,
    }
}

/// How both sides are seen on the far side, where anything of them is replaced.
fn beyond(seen: &Seen) -> Option<[Endpoint; 2]> {
    seen.translated.filter(|_| !seen.direct)
}

/// A session that goes on, seen at a time: monotonic nanoseconds, and what is added to those to have them since 1970.
fn record<'a>(worker: usize, seen: &Seen, tenant: &'a str, (at, since_1970): (u64, i128)) -> Record<'a> {
    let milliseconds = |at: u64| u64::try_from((i128::from(at) + since_1970) / 1_000_000).unwrap_or_default();
    let when = |tick: u32| {
        let ago = (((at >> TICK_BITS) as u32).wrapping_sub(tick) as i32).max(0) as u64;
        milliseconds(at.saturating_sub(ago << TICK_BITS))
    };
    let (session, (initiator, responder)) = (&seen.session, seen.endpoints());
    let Handle { index, generation } = seen.handle;
    let spi = seen.key.spi();
    let end = |(address, port): Endpoint| (address, if spi.is_some() { 0 } else { port });
    Record {
        flow: (worker as u64) << 56 | u64::from(generation & 0xff_ffff) << 32 | u64::from(index),
        start: when(session.created),
        end: when(session.last_seen).max(when(session.created)),
        observed: milliseconds(at),
        protocol: seen.protocol(),
        spi: spi.unwrap_or_default(),
        ends: [initiator, responder].map(end),
        beyond: beyond(seen).unwrap_or([initiator, responder]).map(end),
        packets: session.packets(),
        bytes: session.bytes(),
        seen: seen.stats.unwrap_or_default().map(|side| (side.flags, side.ttl_min, side.ttl_max)),
        reason: EndReason::ActiveTimeout,
        status: if session.is_blocked() { DROPPED } else { FORWARDED },
        nat: NatEvent::Nat44SessionCreate,
        block: (0, 0),
        context: seen.key.context(),
        tenant,
    }
}

/// Seconds since 1970-01-01 UTC: they wrap in 2106.
fn seconds() -> u32 {
    ((since_1970() + i128::from(nanoseconds())) / 1_000_000_000) as u32
}

/// The way to the collector.
struct Wire<'a> {
    exporter: &'a Exporter,
    socket: Option<UdpSocket>,
    /// When the next socket is tried.
    retry: Instant,
    /// When it was said last that nothing can be sent.
    said: Option<Instant>,
}

impl Wire<'_> {
    /// Sends a message with its number of records. Doesn't wait: what can't be sent now is lost, and counted.
    fn send(&mut self, message: Option<(Vec<u8>, u32)>) {
        let Some((message, records)) = message else { return };
        let exporter = self.exporter;
        let sent = match &self.socket {
            None => Err(io::ErrorKind::NotConnected.into()),
            Some(socket) => match socket.send(&message) {
                // Said by an ICMP error about an earlier message: this one has not been sent yet.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    exporter.refused.fetch_add(1, Ordering::Relaxed);
                    socket.send(&message).map(|_| Some(error))
                }
                sent => sent.map(|_| None),
            },
        };
        match sent {
            Ok(refused) => {
                exporter.messages.fetch_add(1, Ordering::Relaxed);
                exporter.records.fetch_add(records.into(), Ordering::Relaxed);
                if let Some(error) = refused {
                    self.say("nobody listens for flow records", &error);
                }
            }
            Err(error) => {
                exporter.unsent.fetch_add(records.into(), Ordering::Relaxed);
                // A socket that is connected keeps its source address, and can send nothing any more once the host has that no longer: another one takes what the host has then. What
                // these say passes by itself.
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) {
                    self.socket = None;
                }
                self.say("flow records can't be sent", &error);
            }
        }
    }

    /// Logs what goes wrong, once in a while.
    fn say(&mut self, what: &str, error: &io::Error) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            tracing::warn!(collector = %self.exporter.settings.collector, %error, "{what}");
            self.said = Some(Instant::now());
        }
    }

    /// Takes a socket where there is none, once in a while; true if there is one now.
    fn begin(&mut self) -> bool {
        if self.socket.is_some() || Instant::now() < self.retry {
            return false;
        }
        self.retry = Instant::now() + RETRY;
        match open(&self.exporter.settings) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => self.say("flow records can't be sent", &error),
        }
        self.socket.is_some()
    }
}

fn open(settings: &Ipfix) -> io::Result<UdpSocket> {
    let any = match settings.collector {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((settings.source.unwrap_or(any), 0))?;
    socket.connect(settings.collector)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipfix::tests::{record, sets};

    fn nowhere() -> Ipfix {
        Ipfix {
            collector: (Ipv4Addr::LOCALHOST, 9).into(),
            source: None,
            domain: 0,
            template_seconds: std::num::NonZeroU32::MIN,
            active_seconds: None,
            tenants: Vec::new(),
            nat_events: false,
        }
    }

    /// As after the host's address has changed: each message fails until there is another socket.
    #[test]
    fn a_socket_that_can_send_nothing_is_given_up() {
        let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        collector.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let settings = Ipfix { collector: collector.local_addr().unwrap(), ..nowhere() };
        let exporter = Exporter::new(settings);
        let mut wire = Wire { exporter: &exporter, socket: None, retry: Instant::now(), said: None };
        let sends = |wire: &mut Wire<'_>, message: &[u8]| {
            wire.retry = Instant::now();
            wire.begin();
            wire.send(Some((message.to_vec(), 1)));
            let mut buffer = [0; 100];
            if wire.socket.is_some() { collector.recv_from(&mut buffer).ok() } else { None }
        };
        let (length, first) = sends(&mut wire, b"one").unwrap();
        assert_eq!(length, 3);
        // More than any datagram carries: no socket sends it.
        assert_eq!(sends(&mut wire, &[0; 70_000]), None);
        assert_eq!(exporter.figures().unsent, 1);
        let (length, second) = sends(&mut wire, b"three").unwrap();
        assert_eq!((length, exporter.figures().messages), (5, 2));
        assert_ne!(first, second, "by another socket");
    }

    /// Of a socket, the first message has the templates, whatever waits to be sent; and no other has, until it is time to.
    #[test]
    fn another_socket_begins_with_templates() {
        let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        collector.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let hour = std::num::NonZeroU32::new(3600).unwrap();
        let settings =
            Ipfix { collector: collector.local_addr().unwrap(), template_seconds: hour, ..nowhere() };
        let exporter = Exporter::new(settings);
        let mut export = Export::new(&exporter);
        let (mut buffer, template) = ([0; 2000], Template::of_session(true, false));
        let mut came = || {
            let (length, from) = collector.recv_from(&mut buffer).unwrap();
            (sets(&buffer[..length]), from)
        };
        let mut before = None;
        for _ in 0..2 {
            export.wire.retry = Instant::now();
            for _ in 0..2 {
                export.keep_known(0);
                export.add(template, &record("red"));
            }
            let (first, socket) = came();
            assert_eq!(first, [2, 3, 261], "templates, those of options, and what these say");
            export.flush();
            assert_eq!(came(), (vec![256], socket), "records");
            assert_ne!(before.replace(socket), Some(socket));
            export.add(template, &record("red"));
            // More than any datagram carries: no socket sends it.
            export.wire.send(Some((vec![0; 70_000], 1)));
        }
        assert_eq!((exporter.figures().messages, exporter.figures().unsent), (4, 2));
    }

    /// That nobody listens passes, and what has said so is no reason to begin anew.
    #[test]
    fn a_socket_is_kept_while_nobody_listens() {
        let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let settings = Ipfix { collector: collector.local_addr().unwrap(), ..nowhere() };
        drop(collector);
        let exporter = Exporter::new(settings);
        let mut wire = Wire { exporter: &exporter, socket: None, retry: Instant::now(), said: None };
        let port = |wire: &mut Wire<'_>| {
            wire.begin();
            wire.send(Some((b"one".to_vec(), 1)));
            wire.socket.as_ref().map(|socket| socket.local_addr().unwrap())
        };
        let first = port(&mut wire);
        assert!(first.is_some());
        (0..10).for_each(|_| assert_eq!(port(&mut wire), first));
        assert!(exporter.figures().refused > 0);
    }
}
