//! What is known of memif links, counted and told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime};

use ::memif::io::{Credentials, Handshake};
use ::memif::ring::RingGauge;
use ::memif::{Connection, Error, Peer, Reason, RxQueue, TxQueue};
use graph::port::{Attachment, IfIndex, PortFault};

use super::away::TurnedAway;
use super::handshakes::{Handshakes, UnderWay};
use super::process::Process;
use super::quiet::{Quiet, Subject, Summary, Telling};
use super::settings;
use crate::model::spec::SocketName;

/// Something happened to a link.
#[derive(Debug)]
pub(in super::super) enum LinkChange {
    /// It is up: its queues are to be attached.
    Up(IfIndex, Attachment, Box<Connection>),
    /// It is down.
    Down(IfIndex),
}

/// Attempts to connect that came to nothing, or links that ended by the peer's fault, by the kind of reason.
pub(in super::super) type Reasons = BTreeMap<&'static str, u64>;

/// Lines of one interface about links that came up from different processes, within one period of the log: a peer can have as many
/// processes as it likes.
const PROCESSES: usize = 8;

/// What is known of a link.
#[derive(Debug, Default)]
pub(in super::super) struct LinkState {
    /// The interface.
    name: String,
    /// What was agreed, while it is up.
    pub(in super::super) up: Option<Agreed>,
    /// Why it went down last, or why the last peer was refused, or why there is no server.
    pub(in super::super) last_reason: Option<String>,
    /// When that was.
    pub(in super::super) last_time: Option<SystemTime>,
    /// Times that it went down.
    pub(in super::super) disconnects: u64,
    /// Times that it came up.
    pub(in super::super) connects: u64,
    /// Peers turned away, or servers that turned us away.
    pub(in super::super) refusals: TurnedAway,
    /// Links ended because the peer broke the protocol.
    pub(in super::super) faults: Reasons,
}

/// What was agreed for a link.
#[derive(Debug)]
pub(in super::super) struct Agreed {
    /// The queues that belong to it.
    pub(in super::super) attachment: Attachment,
    /// The other end.
    pub(in super::super) peer: Peer,
    /// Its process.
    pub(in super::super) process: Process,
    /// Rings that we receive from.
    pub(in super::super) rx: Vec<RingGauge>,
    /// Rings that we send to.
    pub(in super::super) tx: Vec<RingGauge>,
    /// Bytes of the regions.
    pub(in super::super) mapped: u64,
}

/// All links.
#[derive(Debug, Default)]
pub(in super::super) struct Links {
    states: BTreeMap<IfIndex, LinkState>,
    /// Peers that were turned away before they could be told apart by interface.
    strangers: BTreeMap<SocketName, TurnedAway>,
    handshakes: Handshakes,
    quiet: Quiet,
}

impl Links {
    /// An interface begins to listen or to connect.
    pub(super) fn open(&mut self, index: IfIndex, name: &str) {
        self.states.insert(index, LinkState { name: name.into(), ..LinkState::default() });
    }

    /// An interface is gone.
    pub(super) fn close(&mut self, index: IfIndex) {
        if let Some(state) = self.states.remove(&index) {
            self.quiet.forget(&Subject::Interface(state.name));
        }
    }

    /// Nobody listens at a socket any more.
    pub(super) fn close_socket(&mut self, socket: &SocketName) {
        self.strangers.remove(socket);
        self.handshakes.forget(socket);
        self.quiet.forget(&Subject::Socket(socket.to_string()));
    }

    /// What is known of a link.
    pub(in super::super) fn get(&self, index: IfIndex) -> Option<&LinkState> {
        self.states.get(&index)
    }

    /// Sockets at which peers were turned away, or are in the middle of a handshake, that can't be told apart by interface.
    pub(in super::super) fn sockets(&self) -> BTreeSet<&SocketName> {
        self.strangers.keys().chain(self.handshakes.sockets()).collect()
    }

    /// Peers that were turned away at a socket before they could be told apart by interface.
    pub(in super::super) fn strangers(&self, socket: &SocketName) -> Option<&TurnedAway> {
        self.strangers.get(socket)
    }

    /// Who is in the middle of a handshake at a socket, and has claimed interface `id` there, or none yet.
    pub(in super::super) fn handshakes(&self, socket: &SocketName, id: Option<u32>) -> Vec<UnderWay> {
        self.handshakes.of(socket, id)
    }

    /// Who is in the middle of a handshake at a socket now.
    pub(super) fn shake(&mut self, socket: &SocketName, now: impl Iterator<Item = Handshake>) {
        self.handshakes.set(socket, now);
    }

    /// A link is up.
    pub(super) fn up(
        &mut self,
        index: IfIndex,
        attachment: Attachment,
        connection: Connection,
    ) -> Option<LinkChange> {
        let state = self.states.get_mut(&index)?;
        state.connects += 1;
        let process = Process::of(connection.peer.credentials);
        let pid = process.pid.unwrap_or_default();
        let agreed = Agreed {
            attachment,
            peer: connection.peer.clone(),
            process,
            rx: connection.rx.iter().map(RxQueue::gauge).collect(),
            tx: connection.tx.iter().map(TxQueue::gauge).collect(),
            mapped: mapped(&connection),
        };
        let (rx, tx) = (agreed.rx.len(), agreed.tx.len());
        let subject = state.subject();
        let many = self.quiet.kinds(&subject, Telling::LinkUp) >= PROCESSES;
        let kind = if many { "others".into() } else { format!("pid {pid}") };
        let line = format!("rx={rx} tx={tx} pid={pid}");
        if self.quiet.tell(Instant::now(), subject, Telling::LinkUp, &kind, &line) {
            tracing::info!(interface = %state.name, rx, tx, pid, "memif link up");
        }
        state.up = Some(agreed);
        Some(LinkChange::Up(index, attachment, Box::new(connection)))
    }

    /// A link is down.
    pub(super) fn down(&mut self, index: IfIndex, reason: &Reason) -> Option<LinkChange> {
        let state = self.states.get_mut(&index)?;
        let (was_up, text) = (state.up.take().is_some(), reason.to_string());
        if was_up && reason.is_breach() {
            state.broken(&mut self.quiet, reason.kind(), &text);
            return Some(LinkChange::Down(index));
        }
        if self.quiet.tell(Instant::now(), state.subject(), Telling::LinkDown, reason.kind(), &text) {
            tracing::info!(interface = %state.name, reason = text, "memif link down");
        }
        // After a fault the link has ended already, for a better reason than what the socket says now.
        if was_up || state.last_reason.is_none() {
            state.say(text);
        }
        state.disconnects += 1;
        Some(LinkChange::Down(index))
    }

    /// The peer broke the rules of the rings. False where that link has ended already, whether there is another one or not.
    pub(super) fn fault(&mut self, index: IfIndex, attachment: Attachment, fault: &PortFault) -> bool {
        let Some(state) = self.states.get_mut(&index) else { return false };
        let ends = state.up.take_if(|up| up.attachment == attachment).is_some();
        if ends {
            state.broken(&mut self.quiet, fault.kind, &fault.reason);
        }
        ends
    }

    /// This peer was turned away. `index`: it asked for that interface.
    pub(super) fn turned_away(
        &mut self,
        socket: &SocketName,
        index: Option<IfIndex>,
        id: Option<u32>,
        peer: Option<Credentials>,
        reason: &Reason,
    ) {
        let (kind, peer, remedy) = (reason.kind(), Process::of(peer), settings::remedy(reason));
        let state = index.and_then(|index| self.states.get_mut(&index));
        let refusals = match state {
            Some(state) => {
                // While another peer is connected, what is told of the link is its business.
                if state.up.is_none() {
                    state.say(
                        remedy.map_or_else(|| reason.to_string(), |remedy| format!("{reason}: {remedy}")),
                    );
                }
                &mut state.refusals
            }
            None => self.strangers.entry(socket.clone()).or_default(),
        };
        let line = format!("{reason} ({peer})");
        let (pid, process, (uid, gid)) = (peer.pid, peer.name.clone(), peer.owner.unzip());
        refusals.add(kind, Some(peer));
        let state = index.and_then(|index| self.states.get(&index));
        let subject = state.map_or_else(|| Subject::Socket(socket.to_string()), LinkState::subject);
        if self.quiet.tell(Instant::now(), subject, Telling::Refused, kind, &line) {
            let name = state.map(|state| state.name.as_str());
            tracing::warn!(%socket, interface = name, id, %reason, remedy, pid, process, uid, gid, "a memif peer was turned away");
        }
    }

    /// The server turned us away.
    pub(super) fn refused(&mut self, index: IfIndex, reason: &Reason) {
        let Some(state) = self.states.get_mut(&index) else { return };
        state.refusals.add(reason.kind(), None);
        state.say(reason.to_string());
        let line = reason.to_string();
        if self.quiet.tell(Instant::now(), state.subject(), Telling::Refused, reason.kind(), &line) {
            tracing::warn!(interface = %state.name, %reason, "a memif server turned us away; it is tried again");
        }
    }

    /// There is no server.
    pub(super) fn unreachable(&mut self, index: IfIndex, error: &Error) {
        if let Some(state) = self.states.get_mut(&index) {
            state.say(error.to_string());
        }
    }

    /// Writes to the log what was kept back, where that is due.
    pub(super) fn report(&mut self, now: Instant) {
        for Summary { subject, telling, kind, count, last } in self.quiet.summaries(now) {
            // As in the line that came first.
            let (interface, socket) = match &subject {
                Subject::Interface(name) => (Some(tracing::field::display(name)), None),
                Subject::Socket(name) => (None, Some(tracing::field::display(name))),
            };
            let what = telling.word();
            match telling {
                Telling::LinkUp | Telling::LinkDown => {
                    tracing::info!(interface, socket, what, kind, count, last, "memif: the same again");
                }
                Telling::Fault | Telling::Refused => {
                    tracing::warn!(interface, socket, what, kind, count, last, "memif: the same again");
                }
            }
        }
    }
}

impl LinkState {
    fn subject(&self) -> Subject {
        Subject::Interface(self.name.clone())
    }

    /// The link has ended by the peer's fault.
    fn broken(&mut self, quiet: &mut Quiet, kind: &'static str, what: &str) {
        *self.faults.entry(kind).or_default() += 1;
        self.say(what.to_string());
        self.disconnects += 1;
        if quiet.tell(Instant::now(), self.subject(), Telling::Fault, kind, what) {
            tracing::warn!(interface = %self.name, kind, reason = what, "memif peer broke the protocol: disconnected");
        }
    }

    /// Why there is no link, as of now.
    fn say(&mut self, reason: String) {
        (self.last_reason, self.last_time) = (Some(reason), Some(SystemTime::now()));
    }
}

fn mapped(connection: &Connection) -> u64 {
    let tables = connection.rx.first().map(RxQueue::regions);
    let tables = tables.or_else(|| connection.tx.first().map(TxQueue::regions));
    tables.map_or(0, |table| table.regions().iter().map(|region| region.len()).sum())
}
