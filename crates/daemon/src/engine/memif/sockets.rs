//! Listeners and clients, each with a token of its own: a wake-up costs what is ready, however many others there are.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::memif::Reason;
use ::memif::control::Text;
use ::memif::io::{Client, ClientTiming, Listener};
use api::v1::MemifRole;
use graph::port::{Attachment, IfIndex, PortFault};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::super::passage::Attachments;
use super::deadlines::Deadlines;
use super::links::{LinkChange, Links};
use super::news;
use super::pools::Pools;
use super::settings::{self, Made};
use crate::model::Flaw;
use crate::model::spec::{MemifSpec, SocketName};

/// Token of what wakes the thread; sockets count from 1.
const BELL: u64 = 0;
/// Sockets told to be ready at a time.
const BATCH: usize = 64;

/// What a token stands for.
#[derive(Debug)]
enum Socket {
    Listener { name: SocketName, listener: Box<Listener>, ids: HashMap<u32, IfIndex> },
    Client { index: IfIndex, client: Box<Client> },
}

/// Where an interface's control channel is.
#[derive(Debug)]
enum Place {
    Server { token: u64, id: u32 },
    Client { token: u64 },
}

/// All of them.
#[derive(Debug)]
pub(super) struct Sockets {
    epoll: OwnedFd,
    list: HashMap<u64, Socket>,
    last_token: u64,
    deadlines: Deadlines,
    listeners: HashMap<SocketName, u64>,
    places: BTreeMap<IfIndex, Place>,
    links: Arc<Mutex<Links>>,
    attachments: Arc<Attachments>,
    made: Made,
    pools: Pools,
}

impl Sockets {
    /// None yet.
    ///
    /// # Errors
    /// [`Errno`] when the process is out of descriptors.
    pub(super) fn new(
        links: Arc<Mutex<Links>>,
        attachments: Arc<Attachments>,
        made: Made,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (list, deadlines, listeners, places) = Default::default();
        let last_token = BELL;
        Ok(Self {
            epoll,
            list,
            last_token,
            deadlines,
            listeners,
            places,
            links,
            attachments,
            pools: Pools::new(made.huge_pages),
            made,
        })
    }

    /// How memory and signals of links are made.
    pub(super) fn made(&self) -> &Made {
        &self.made
    }

    /// Waits for `bell`, too.
    ///
    /// # Errors
    /// [`Errno`] when the system is out of memory for it.
    pub(super) fn hear(&self, bell: &OwnedFd) -> Result<(), Errno> {
        epoll::add(&self.epoll, bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
    }

    /// Waits until something is ready, for `limit` at most, and tells the tokens of what is.
    ///
    /// # Errors
    /// [`Errno`] where the system can't tell.
    pub(super) fn wait(&self, limit: Duration) -> Result<Vec<u64>, Errno> {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut ready = Vec::with_capacity(BATCH);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(ready.iter().map(|event| event.data.u64()).filter(|token| *token != BELL).collect())
    }

    /// When something is due at the latest.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// The tokens of what is due.
    pub(super) fn due(&self, now: Instant) -> Vec<u64> {
        self.deadlines.due(now)
    }

    /// What is known of the links. Held for short.
    pub(super) fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen or to connect for interface `index`.
    ///
    /// # Errors
    /// [`Flaw`] where the socket can't be had.
    pub(super) fn open(&mut self, index: IfIndex, name: &str, spec: &MemifSpec) -> Result<(), Flaw> {
        let place = if spec.role == MemifRole::Client {
            let config = settings::client(name, spec, &self.made, self.pools.of(spec)?)?;
            let client = Client::new(settings::address(&spec.socket), config, ClientTiming::default())
                .map_err(|error| settings::socket_flaw(&spec.socket, &error))?;
            let token = self.watch(client.fd(), &spec.socket)?;
            self.deadlines.set(token, client.next_deadline());
            self.list.insert(token, Socket::Client { index, client: Box::new(client) });
            Place::Client { token }
        } else {
            let config = settings::server(name, spec, &self.made)?;
            let token = self.listener(spec)?;
            let Some(Socket::Listener { listener, ids, .. }) = self.list.get_mut(&token) else {
                return Err(Flaw::new("memif.socket", format!("{} is no listening socket", spec.socket)));
            };
            let registered = listener.register(spec.id, config);
            registered.map_err(|error| settings::socket_flaw(&spec.socket, &error))?;
            ids.insert(spec.id, index);
            Place::Server { token, id: spec.id }
        };
        self.places.insert(index, place);
        self.links().open(index, name);
        Ok(())
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, socket: &SocketName) -> Result<u64, Flaw> {
        self.last_token += 1;
        let data = epoll::EventData::new_u64(self.last_token);
        epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN).map_err(|errno| {
            Flaw::new("memif.socket", format!("{socket}: can't be watched: {errno}"))
                .remedy("raise the limit on open files")
        })?;
        Ok(self.last_token)
    }

    /// The listening socket of an interface, with such a file and quota as it wants: also where others had it open already.
    fn listener(&mut self, spec: &MemifSpec) -> Result<u64, Flaw> {
        let name = &spec.socket;
        let wanted = settings::listener(&spec.access)?;
        let flaw = |error| settings::socket_flaw(name, &error);
        if let Some(token) = self.listeners.get(name) {
            if let Some(Socket::Listener { listener, .. }) = self.list.get_mut(token) {
                listener.set_file(wanted.mode, wanted.owner, wanted.group).map_err(flaw)?;
                listener.set_quota(wanted.max_descriptors, wanted.max_memory);
            }
            return Ok(*token);
        }
        let listener = Listener::bind(&settings::address(name), wanted).map_err(flaw)?;
        let token = self.watch(listener.fd().as_fd(), name)?;
        self.listeners.insert(name.clone(), token);
        self.list.insert(
            token,
            Socket::Listener { name: name.clone(), listener: Box::new(listener), ids: HashMap::new() },
        );
        Ok(token)
    }

    /// Ends the interface's link and stops to listen or to connect for it.
    pub(super) fn close(&mut self, index: IfIndex) {
        self.links().close(index);
        self.disconnect(index, &settings::deleted());
        match self.places.remove(&index) {
            Some(Place::Server { token, id }) => {
                let Some(Socket::Listener { name, listener, ids }) = self.list.get_mut(&token) else {
                    return;
                };
                listener.unregister(id);
                ids.remove(&id);
                if ids.is_empty() {
                    let name = name.clone();
                    self.forget(token);
                    self.listeners.remove(&name);
                    self.links().close_socket(&name);
                } else {
                    self.schedule(token);
                }
            }
            Some(Place::Client { token }) => self.forget(token),
            None => {}
        }
    }

    /// Closes a socket, which takes it out of what is waited for.
    fn forget(&mut self, token: u64) {
        self.list.remove(&token);
        self.deadlines.set(token, None);
    }

    /// Ends the link of an interface whose peer broke the rules of the rings, if it is that attachment's.
    pub(super) fn fault(&mut self, index: IfIndex, attachment: Attachment, fault: &PortFault) {
        if self.links().fault(index, attachment, fault) {
            self.disconnect(index, &Reason::Local(Text::new(&fault.reason)));
        }
    }

    fn disconnect(&mut self, index: IfIndex, reason: &Reason) {
        let token = match self.places.get(&index) {
            Some(Place::Server { token, .. } | Place::Client { token }) => *token,
            None => return,
        };
        match (self.list.get_mut(&token), self.places.get(&index)) {
            (Some(Socket::Listener { listener, .. }), Some(Place::Server { id, .. })) => {
                listener.disconnect(*id, reason);
            }
            (Some(Socket::Client { client, .. }), _) => client.disconnect(Instant::now(), reason),
            _ => {}
        }
        self.schedule(token);
    }

    /// Behind whatever may have changed at a socket: when it wants to be looked at again, and who is in the middle of a handshake there.
    fn schedule(&mut self, token: u64) {
        let deadline = match self.list.get(&token) {
            Some(Socket::Listener { name, listener, .. }) => {
                self.links().shake(name, listener.handshakes());
                listener.next_deadline()
            }
            Some(Socket::Client { client, .. }) => client.next_deadline(),
            None => None,
        };
        self.deadlines.set(token, deadline);
    }

    /// Does what there is to do at a socket and tells which links changed.
    pub(super) fn serve(&mut self, token: u64, now: Instant) -> Vec<LinkChange> {
        let attachments = Arc::clone(&self.attachments);
        let links = Arc::clone(&self.links);
        let lock = || links.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        match self.list.get_mut(&token) {
            Some(Socket::Listener { name, listener, ids }) => match listener.process(now) {
                Ok(events) => {
                    let change = |event| news::of_server(event, name, ids, &mut lock(), &attachments);
                    changes.extend(events.into_iter().filter_map(change));
                }
                Err(error) => tracing::error!(socket = %name, %error, "the memif socket can't be served"),
            },
            Some(Socket::Client { index, client }) => {
                // Without a lock: this is where the memory of a link is made.
                let events = client.process(now);
                let change = |event| news::of_client(event, *index, &mut lock(), &attachments);
                changes.extend(events.into_iter().filter_map(change));
            }
            // It was closed after it had become ready.
            None => {}
        }
        self.schedule(token);
        changes
    }
}

#[cfg(test)]
mod tests {
    use ::memif::ClientConfig;
    use ::memif::io::{Address, ListenerSettings};
    use ::memif::region::HugePages;
    use ::memif::ring::Signals;

    use super::*;
    use crate::model::spec::Access;

    #[test]
    fn a_wake_up_names_the_sockets_that_are_ready_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let made = Made { huge_pages: HugePages::Never, signals: Signals::Direct };
        let mut sockets = Sockets::new(Arc::default(), Arc::default(), made).unwrap();
        let path = |n: u16| directory.path().join(format!("socket-{n}"));
        for n in 1..=200 {
            let spec = MemifSpec {
                socket: SocketName::Path(path(n).to_str().unwrap().into()),
                id: 0,
                role: MemifRole::Server,
                mode: api::v1::MemifMode::Ethernet,
                secret: String::new(),
                trust_group: String::new(),
                rx_workers: Vec::new(),
                rx_queues: 1,
                tx_queues: 1,
                ring_size: None,
                buffer_size: 2048,
                access: Access::default(),
            };
            sockets.open(n, &format!("pod-{n}"), &spec).unwrap();
        }
        let now = Instant::now();
        assert_eq!((sockets.wait(Duration::ZERO).unwrap(), sockets.next_deadline()), (vec![], None));
        let address = Address::path(path(77));
        let mut client = Client::new(address, ClientConfig::default(), ClientTiming::default()).unwrap();
        client.process(now);
        let ready = sockets.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(ready.len(), 1, "{ready:?}");
        assert!(sockets.serve(ready[0], now).is_empty());
        let due = now + ListenerSettings::default().handshake_timeout;
        assert_eq!(sockets.next_deadline(), Some(due), "its handshake has a deadline");
        assert_eq!(sockets.due(due), ready);
        // It goes on with that socket, and with no other.
        let end = now + Duration::from_secs(60);
        let up = loop {
            client.process(Instant::now());
            let ready = sockets.wait(Duration::from_millis(50)).unwrap();
            assert!(ready.iter().all(|token| *token == 77) && Instant::now() < end, "{ready:?}");
            let changes = ready.into_iter().flat_map(|token| sockets.serve(token, Instant::now()));
            if let Some(LinkChange::Up(index, ..)) = changes.collect::<Vec<_>>().pop() {
                break index;
            }
        };
        assert_eq!((up, sockets.next_deadline()), (77, None), "a link that is up has none");
        sockets.close(77);
        assert_eq!((sockets.list.len(), sockets.wait(Duration::ZERO).unwrap()), (199, vec![]));
    }
}
