//! The server: one socket, any number of interfaces.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::channel::{Channel, Courier, Deliveries, Run};
use super::conversation::{Heard, answer, step};
use super::credentials::Origin;
use super::errands::Errands;
use super::foreign::{Closing, Share};
use super::held::Whose;
use super::interfaces::Interface;
use super::mapping::{Mapping, Outcome};
use super::outcomes::{Bell, Outcomes};
use super::server::{Handshake, ListenerSettings, ServerEvent};
use super::sessions::{Session, Sessions};
use super::socket::{self, Bound, listen_at};
use super::watch::Watch;
use super::{Address, descriptors, later, process, rights};
use crate::control::{Amount, Limits, Member, Quota, ServerMachine};
use crate::ring::{Costs, Overrun};
use crate::{Error, InterfaceError, Reason, ServerConfig};

/// Token of the listening socket; connections count from 1.
const LISTENING: u64 = 0;
/// Token of what other threads ring.
const BELL: u64 = u64::MAX;
/// Connections accepted, and messages read of one connection, in one call of `process`; the rest waits for
/// the next.
const BATCH: usize = 64;
/// How long not to accept after that failed: the waiting connection keeps the socket readable, and would keep us
/// busy.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket and the interfaces behind it.
#[derive(Debug)]
pub struct Listener {
    /// Where it listens: what its errors say.
    address: String,
    /// Whose pod it is in, if it can be reached from there alone.
    pod: Option<(u64, u64)>,
    settings: ListenerSettings,
    epoll: OwnedFd,
    /// Rung by other threads. All that there is to wait for, where threads serve the connections: see [`watch`](super::watch).
    bell: Bell,
    /// The thread that waits for connections there, and whether there are some.
    waiter: Option<(Watch, Arc<AtomicBool>)>,
    socket: Bound,
    interfaces: BTreeMap<u32, Interface>,
    /// What all clients may have.
    quota: Arc<Quota>,
    sessions: Sessions,
    /// What peers have sent, on its way out.
    closing: Closing,
    /// What peers have announced and isn't mapped yet.
    mapping: Mapping,
    /// Whose regions that are, by token: the interface, and, where the connection has ended meanwhile, what it counts in its origin's share.
    out: HashMap<u64, (u32, Option<Share>)>,
    /// Peers that cost too much, by token, as threads tell of them.
    overruns: Outcomes<(u64, Overrun)>,
    /// What connections are served by, where threads do: by origin; of those that nobody can tell from each other, each interface by itself.
    errands: Errands<(Origin, Option<u32>)>,
    /// What these have heard, by token.
    deliveries: Deliveries,
    /// What a new connection is told of the interfaces, until one comes or goes.
    limits: Option<Limits>,
    last_token: u64,
    /// Not accepting until then.
    paused: Option<Instant>,
    /// Whether connections begin as such to which no descriptors can be sent.
    keeps_out: bool,
    /// Whether it was told that accepting fails.
    told: bool,
    ended: BTreeMap<&'static str, u64>,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotASocket`], [`Error::NoDirectory`], [`Error::Netns`], [`Error::Socket`];
    /// [`Error::Address`] for one that no socket can have.
    pub fn bind(address: &Address, settings: ListenerSettings) -> Result<Self, InterfaceError> {
        Self::open(address, settings)
            .map_err(|cause| InterfaceError { interface: address.to_string(), cause })
    }

    fn open(address: &Address, settings: ListenerSettings) -> Result<Self, Error> {
        address.check()?;
        let socket = listen_at(address, &settings)?;
        let system = |call| move |errno| Error::System { call, errno };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        epoll::add(&epoll, &socket.fd, epoll::EventData::new_u64(LISTENING), epoll::EventFlags::IN)
            .map_err(system("epoll_ctl"))?;
        let bell = Bell::new().map_err(system("eventfd"))?;
        epoll::add(&epoll, bell.fd(), epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
            .map_err(system("epoll_ctl"))?;
        let (overruns, deliveries) = (Outcomes::new(&bell), Deliveries::new(&bell));
        let mapping = Mapping::new("memif-map", &bell);
        let wait = || {
            let (ready, bell) = (Arc::<AtomicBool>::default(), bell.clone());
            let tell = Arc::clone(&ready);
            let watch = Watch::new(socket.fd.as_fd(), move || {
                tell.store(true, Ordering::Release);
                bell.ring();
            })?;
            watch.arm(socket.fd.as_fd(), epoll::EventFlags::IN);
            Ok((watch, ready))
        };
        let waiter = settings.threaded.then(wait).transpose().map_err(system("epoll_ctl"))?;
        let quota = process::quota_of_socket(&settings);
        descriptors::make_room(epoll.as_fd(), process::of_all_sockets());
        let (interfaces, sessions, closing, limits) = Default::default();
        let out = HashMap::new();
        let (last_token, paused, told, ended) = (LISTENING, None, false, BTreeMap::new());
        Ok(Self {
            address: address.to_string(),
            pod: socket::pod(address),
            settings,
            epoll,
            bell,
            waiter,
            socket,
            interfaces,
            quota,
            sessions,
            closing,
            mapping,
            out,
            overruns,
            errands: Errands::new("memif-control"),
            deliveries,
            limits,
            last_token,
            paused,
            keeps_out: false,
            told,
            ended,
        })
    }

    /// Gives the socket's file, if it has one, another mode and owner; see [`ListenerSettings`].
    ///
    /// # Errors
    /// [`Error::Socket`] if that isn't allowed, or if the file isn't there any more: what is in its place isn't touched.
    pub fn set_file(
        &mut self,
        mode: u32,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Result<(), InterfaceError> {
        let set = self.socket.check_file().and_then(|()| self.socket.set_file(mode, owner, group));
        set.map_err(|cause| self.error(cause))?;
        self.settings = ListenerSettings { mode, owner, group, ..std::mem::take(&mut self.settings) };
        Ok(())
    }

    /// Changes what all clients may have: [`ListenerSettings::max_descriptors`] and [`ListenerSettings::max_memory`]. Who has more
    /// keeps it.
    pub fn set_quota(&mut self, max_descriptors: usize, max_memory: u64) {
        (self.settings.max_descriptors, self.settings.max_memory) = (max_descriptors, max_memory);
        self.quota.set_max(Amount { descriptors: max_descriptors, memory: max_memory });
        descriptors::make_room(self.epoll.as_fd(), process::of_all_sockets());
    }

    /// Lets a client connect to interface `id`, with nothing on the account of its [memory](ServerConfig::max_holes).
    ///
    /// # Errors
    /// [`Error::Registered`] if there is one of that number, [`Error::Setting`] for what can't be.
    pub fn register(&mut self, id: u32, config: ServerConfig) -> Result<(), InterfaceError> {
        let taken = self.interfaces.contains_key(&id).then_some(Error::Registered { id });
        if let Some(cause) = config.check().err().or(taken) {
            return Err(InterfaceError { interface: self.name(id), cause });
        }
        let quota = Arc::new(Member::new(&self.quota, config.most()));
        let (config, account, costs) = (Arc::new(config), Arc::default(), Costs::default());
        let (owner, mapping, closed) = (None, None, None);
        self.interfaces.insert(id, Interface { config, account, quota, owner, mapping, closed, costs });
        self.limits = None;
        Ok(())
    }

    /// Takes an interface away, disconnecting its client; `false` if there was none.
    pub fn unregister(&mut self, id: u32) -> bool {
        let existed = self.interfaces.contains_key(&id);
        self.disconnect(id, &Reason::Local("interface deleted".into()));
        if let Some(interface) = self.interfaces.remove(&id) {
            // Others have its part at once, however long its memory takes to be closed.
            interface.quota.leave();
        }
        self.limits = None;
        existed
    }

    /// Disconnects the client of an interface, which may connect again; `false` if there was none. Makes no
    /// event.
    pub fn disconnect(&mut self, id: u32, reason: &Reason) -> bool {
        match self.interfaces.get(&id).and_then(|interface| interface.owner) {
            Some(token) => self.close(token, reason),
            None => false,
        }
    }

    /// Takes an interface down: its client is disconnected, and others are turned away, with these words; `false` if
    /// there is no such interface. Makes no event.
    pub fn admin_down(&mut self, id: u32, why: &str) -> bool {
        let reason = Reason::admin_down(why);
        self.disconnect(id, &reason);
        self.interfaces.get_mut(&id).map(|interface| interface.closed = Some(reason)).is_some()
    }

    /// Lets clients connect again after [`admin_down`](Self::admin_down); `false` if there is no such interface.
    pub fn admin_up(&mut self, id: u32) -> bool {
        self.interfaces.get_mut(&id).map(|interface| interface.closed = None).is_some()
    }

    /// Whether a client is connected to the interface.
    #[must_use]
    pub fn is_connected(&self, id: u32) -> bool {
        let owner = self.interfaces.get(&id).and_then(|interface| interface.owner);
        owner.and_then(|token| self.sessions.get(token)).is_some_and(|s| s.machine.is_connected())
    }

    /// The registered interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = (u32, &ServerConfig)> {
        self.interfaces.iter().map(|(id, interface)| (*id, &*interface.config))
    }

    /// Readable when there is something to [`process`](Self::process).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        if self.waiter.is_some() { self.bell.fd() } else { self.epoll.as_fd() }
    }

    /// When to call [`process`](Self::process) at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let again = self.mapping.due().into_iter().chain(self.closing.due()).chain(self.errands.due());
        self.sessions.next_deadline().into_iter().chain(self.paused).chain(again).min()
    }

    /// How many connections ended, or didn't come to be, by [kind of reason](Reason::kind), since the beginning.
    #[must_use]
    pub const fn ended(&self) -> &BTreeMap<&'static str, u64> {
        &self.ended
    }

    /// The connections whose handshake isn't done, the oldest first.
    pub fn handshakes(&self) -> impl Iterator<Item = Handshake> {
        self.sessions.handshakes()
    }

    /// Whether regions that clients have announced are being mapped at this moment, which other threads do; [`fd`](Self::fd) becomes
    /// readable as each is done.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        self.mapping.is_busy()
    }

    /// Regions and rings of all clients, and bytes of the regions, connections that have ended included until nothing of them is left.
    #[must_use]
    pub fn in_use(&self) -> Amount {
        self.quota.in_use()
    }

    /// Does what there is to do, without waiting, and tells what happened. What a peer does wrong concerns
    /// that peer only.
    ///
    /// # Errors
    /// [`Error::System`] if the system can't tell what happened.
    pub fn process(&mut self, now: Instant) -> Result<Vec<ServerEvent>, InterfaceError> {
        let mut events = Vec::new();
        let (mut accepting, mut tokens) = self.ready()?;
        self.bell.hear();
        for outcome in self.mapping.finished() {
            self.go_on(outcome, &mut events);
        }
        for (token, delivered) in self.deliveries.take() {
            if let Some(session) = self.sessions.get_mut(token) {
                session.channel.deliver(delivered);
                tokens.push(token);
            }
        }
        self.errands.go_on();
        for (token, overrun) in self.overruns.take() {
            self.end(token, overrun.into(), &mut events);
        }
        // First the old ones: a client that ended and came back must not be told that it is connected.
        for token in tokens {
            self.converse(token, &mut events);
        }
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            self.listen(true);
            accepting = true;
        }
        // Told, whether or not somebody comes.
        accepting |= self.paused.is_none() && self.no_thread().is_some();
        if accepting && let Err(error) = self.accept(now, &mut events) {
            self.paused = Some(now + PAUSE);
            self.listen(false);
            if !std::mem::replace(&mut self.told, true) {
                events.push(ServerEvent::NotAccepting { error });
            }
        } else if accepting && self.waiter.is_some() {
            // Told once, each time that it is asked for.
            self.listen(true);
        }
        for token in self.sessions.late(now) {
            let reason = if self.out.contains_key(&token) { Reason::TimeoutHeld } else { Reason::Timeout };
            self.end(token, reason, &mut events);
        }
        // Before anybody connects again, and not only when the first of them has come.
        self.keep_out();
        Ok(events)
    }

    /// Whether somebody waits to be accepted, and which connections have something.
    fn ready(&self) -> Result<(bool, Vec<u64>), InterfaceError> {
        if let Some((_, ready)) = &self.waiter {
            // Before the bell is heard: who comes then rings it again.
            return Ok((self.paused.is_none() && ready.swap(false, Ordering::Acquire), Vec::new()));
        }
        let mut ready = Vec::with_capacity(BATCH);
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(self.error(Error::System { call: "epoll_wait", errno })),
        }
        let tokens: Vec<_> = ready.iter().map(|event| event.data.u64()).collect();
        let accepting = tokens.contains(&LISTENING);
        Ok((accepting, tokens.into_iter().filter(|token| !matches!(*token, LISTENING | BELL)).collect()))
    }

    /// Why there is no thread for what may take as long as a peer likes.
    fn no_thread(&self) -> Option<Error> {
        self.mapping
            .failed()
            .or(self.closing.failed())
            .or(self.errands.failed())
            .map(|errno| Error::NoThread { errno })
    }

    /// Socket and id: what errors name an interface by.
    fn name(&self, id: u32) -> String {
        format!("{} id {id}", self.address)
    }

    /// A region of that interface's client, for who asks what is held.
    fn whose(&self, id: u32, peer: Option<u32>) -> Whose {
        let name = self.interfaces.get(&id).map(|interface| interface.config.name.clone());
        Whose { interface: self.name(id), name: name.unwrap_or_default(), peer }
    }

    fn error(&self, cause: Error) -> InterfaceError {
        InterfaceError { interface: self.address.clone(), cause }
    }

    fn accept(&mut self, now: Instant, events: &mut Vec<ServerEvent>) -> Result<(), Error> {
        self.no_thread().map_or(Ok(()), Err)?;
        let (name, interfaces) = (&self.settings.name, &self.interfaces);
        let all = || Limits::of(name, interfaces.values().map(|interface| &*interface.config));
        let limits = self.limits.get_or_insert_with(all).clone();
        let system = |call| move |errno| Error::System { call, errno };
        for _ in 0..BATCH {
            if self.closing.is_full() {
                return Err(Error::HangingDescriptors);
            }
            let fd = match accept_with(&self.socket.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => fd,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
                Err(errno) => return Err(system("accept")(errno)),
            };
            let (machine, hello) = ServerMachine::new(limits.clone());
            let origin = Origin::of(fd.as_fd(), self.pod);
            self.last_token += 1;
            let channel = self.channel(fd, origin).map_err(system("epoll_ctl"))?;
            if channel.is_beyond_share() {
                self.refuse(&channel, Reason::HangingDescriptors, events);
                continue;
            }
            // Before it is told anything: descriptors are due only to who has heard HELLO.
            channel.fd().into_iter().for_each(|fd| rights::allow(fd, true));
            if channel.send(&hello, None).is_err() {
                continue;
            }
            if let Some(token) = self.sessions.in_the_way(self.settings.max_handshakes) {
                self.end(token, Reason::TooManyConnections, events);
            }
            channel.watch(&self.epoll, self.last_token).map_err(system("epoll_ctl"))?;
            let peer = channel.credentials();
            let deadline = later(now, self.settings.handshake_timeout);
            let (doorbell, since, told) = (None, now, false);
            let session = Session { channel, peer, origin, machine, doorbell, since, deadline, told };
            self.sessions.insert(self.last_token, session);
            if self.settings.threaded {
                // A thread waits for its first message.
                self.converse(self.last_token, events);
            }
            self.told = false;
        }
        Ok(())
    }

    /// A connection that was accepted.
    fn channel(&self, fd: OwnedFd, origin: Origin) -> Result<Channel, Errno> {
        let closing = self.closing.of(origin);
        if !self.settings.threaded {
            return Ok(Channel::inline(fd, &closing));
        }
        let (deliveries, token) = (self.deliveries.clone(), self.last_token);
        let courier = Courier { run: run(&self.errands, (origin, None)), costs: None, deliveries, token };
        Channel::threaded(fd, &closing, courier)
    }

    /// Lets connections begin without descriptors as long as somebody is turned away for those sent before: none can be left in what is
    /// refused then.
    fn keep_out(&mut self) {
        let beyond = self.closing.is_anybody_beyond_share();
        if beyond != self.keeps_out {
            rights::allow(self.socket.fd.as_fd(), !beyond);
            self.keeps_out = beyond;
        }
    }

    /// Turns a peer away that has said nothing yet.
    fn refuse(&mut self, channel: &Channel, reason: Reason, events: &mut Vec<ServerEvent>) {
        channel.farewell(&reason);
        *self.ended.entry(reason.kind()).or_default() += 1;
        events.push(ServerEvent::Refused { id: None, peer: channel.credentials(), reason });
    }

    /// Whether to hear of connections that wait to be accepted.
    fn listen(&self, whether: bool) {
        if let Some((watch, _)) = &self.waiter {
            if whether {
                watch.arm(self.socket.fd.as_fd(), epoll::EventFlags::IN);
            }
            return;
        }
        let flags = if whether { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        // Can't fail: the socket is in the set, and nothing is allocated.
        let _ = epoll::modify(&self.epoll, &self.socket.fd, epoll::EventData::new_u64(LISTENING), flags);
    }

    /// Reads and answers what a connection has sent.
    fn converse(&mut self, token: u64, events: &mut Vec<ServerEvent>) {
        if self.out.contains_key(&token) {
            // All that is heard of it then.
            return self.end(token, Reason::Closed, events);
        }
        for _ in 0..BATCH {
            let Some(session) = self.sessions.get_mut(token) else { return };
            let (origin, claimed) = (session.origin, session.machine.id());
            let stepped = step(session, &mut self.interfaces, &self.closing, &self.overruns, token);
            if let Some(id) = session.machine.id().filter(|id| claimed != Some(*id))
                && let Some(interface) = self.interfaces.get(&id)
            {
                session.channel.charge_to(&interface.costs, &run(&self.errands, origin.line(id)));
            }
            match stepped {
                Ok(Heard::Nothing) => return,
                Ok(Heard::Answered(None)) => {}
                Ok(Heard::Answered(Some(mut connection))) => {
                    connection.peer.credentials = session.peer;
                    session.told = true;
                    self.sessions.settled(token);
                    let interface = self.name(connection.id);
                    events.push(ServerEvent::Connected(connection.of(&interface)));
                }
                Ok(Heard::Region(unmapped)) => {
                    // Nothing is heard of it meanwhile but that it is gone.
                    let _ = session.channel.hear_only_the_end(true, &self.epoll, token);
                    let id = session.machine.id().unwrap_or_default();
                    self.out.insert(token, (id, None));
                    if let Some(interface) = self.interfaces.get_mut(&id) {
                        interface.mapping = Some(token);
                    }
                    let peer = session.peer.and_then(|peer| peer.pid);
                    let whose = self.whose(id, peer);
                    return self.mapping.begin(token, id, origin, whose, move || unmapped.map());
                }
                Err(reason) => return self.end(token, reason, events),
            }
        }
    }

    /// Goes on with a connection whose region was mapped, or wasn't.
    fn go_on(&mut self, (token, origin, region): Outcome, events: &mut Vec<ServerEvent>) {
        if let Some((id, _)) = self.out.remove(&token)
            && let Some(interface) = self.interfaces.get_mut(&id).filter(|one| one.mapping == Some(token))
        {
            interface.mapping = None;
        }
        let Some(session) = self.sessions.get_mut(token) else {
            // It has ended meanwhile; to unmap may take as long.
            return self.closing.of(origin).close(region, 1);
        };
        let watched = session.channel.hear_only_the_end(false, &self.epoll, token).map_err(Reason::Socket);
        let step = session.machine.mapped(region);
        match step.and_then(|step| watched.and_then(|()| answer(&session.channel, &step))) {
            Ok(()) => self.converse(token, events),
            Err(reason) => self.end(token, reason, events),
        }
    }

    /// Closes a session and tells about it.
    fn end(&mut self, token: u64, reason: Reason, events: &mut Vec<ServerEvent>) {
        let Some(session) = self.sessions.get(token) else { return };
        let id = session.machine.id();
        events.push(match id {
            Some(id) if session.told => ServerEvent::Disconnected { id, reason: reason.clone() },
            _ => ServerEvent::Refused {
                id: session.machine.asked(),
                peer: session.peer,
                reason: reason.clone(),
            },
        });
        self.close(token, &reason);
    }

    fn close(&mut self, token: u64, reason: &Reason) -> bool {
        let Some(mut session) = self.sessions.remove(token) else { return false };
        if !self.settings.threaded {
            session.machine.close_rings();
        }
        session.channel.farewell(reason);
        session.channel.unwatch(&self.epoll);
        *self.ended.entry(reason.kind()).or_default() += 1;
        let claimed = session.machine.id().and_then(|id| self.interfaces.get_mut(&id));
        if let Some(interface) = claimed.filter(|interface| interface.owner == Some(token)) {
            interface.owner = None;
        }
        if let Some((_, share)) = self.out.get_mut(&token) {
            *share = Some(self.closing.of(session.origin).hold(1));
        }
        let left = session.machine.descriptors();
        if left > 0 {
            self.closing.of(session.origin).close(session.machine, left);
        }
        true
    }
}

/// Does what a connection wants done, after what else there is on this line.
fn run(errands: &Errands<(Origin, Option<u32>)>, line: (Origin, Option<u32>)) -> Run {
    let errands = errands.clone();
    Arc::new(move |work| errands.run(line, work))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((watch, _)) = &self.waiter {
            watch.end(self.socket.fd.as_fd());
        }
        for token in self.sessions.tokens() {
            self.close(token, &Reason::Local("server closed".into()));
        }
        // What is mapped by now is unmapped elsewhere, too.
        for outcome in self.mapping.finished() {
            self.go_on(outcome, &mut Vec::new());
        }
    }
}

#[cfg(test)]
mod tests;
