//! Following devices: the kernel tells when one goes up or down, and whoever asks reads what it has told.
//!
//! One thread of the process listens for all ports, with one netlink socket per network namespace that has some. Such a
//! socket keeps its namespace alive, as the queues of the ports do, and ends with the last port there.

use super::netlink::to_io;
use super::query;
use crate::PortError;
use crate::netns::Netns;
use crate::port::{Link, LinkState};
use core::fmt;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::AsyncSocket;
use rtnetlink::{Handle, MulticastGroup};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;
use tokio_stream::{Stream, StreamExt};

/// How often devices are looked up although nothing was told of them: the kernel drops what it has to tell when too much
/// happens at once.
const REFRESH: Duration = Duration::from_secs(30);

/// A network namespace, by device and number of its file.
type Identity = (u64, u64);

static NAMESPACES: Mutex<Option<HashMap<Identity, Weak<Namespace>>>> = Mutex::new(None);

/// A network namespace with devices that are followed, by their numbers.
#[derive(Debug, Default)]
struct Namespace {
    devices: Mutex<HashMap<u32, Weak<Device>>>,
    tasks: OnceLock<[AbortHandle; 2]>,
}

const UNKNOWN: u8 = 0;
const UP: u8 = 1;
const DOWN: u8 = 2;
const GONE: u8 = 3;

const fn number(state: LinkState) -> u8 {
    match state {
        LinkState::Up => UP,
        LinkState::Down => DOWN,
        LinkState::Gone => GONE,
    }
}

/// What was told last of a device.
struct Device {
    index: u32,
    state: AtomicU8,
    namespace: Arc<Namespace>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("index", &self.index).field("state", &self.state()).finish()
    }
}

impl Link for Device {
    fn state(&self) -> LinkState {
        match self.state.load(Ordering::Relaxed) {
            UP => LinkState::Up,
            GONE => LinkState::Gone,
            _ => LinkState::Down,
        }
    }
}

impl Device {
    /// It was told so.
    fn set(&self, state: LinkState) {
        self.state.store(number(state), Ordering::Relaxed);
    }

    /// It was found so, and nothing has been told yet, which would be newer.
    fn begin(&self, state: LinkState) {
        let _ = self.state.compare_exchange(UNKNOWN, number(state), Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut devices = self.namespace.devices();
        // Another port may follow it by now.
        if devices.get(&self.index).is_some_and(|device| device.strong_count() == 0) {
            devices.remove(&self.index);
        }
    }
}

impl Namespace {
    fn devices(&self) -> MutexGuard<'_, HashMap<u32, Weak<Device>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, index: u32, state: LinkState) {
        let device = self.devices().get(&index).and_then(Weak::upgrade);
        if let Some(device) = device {
            device.set(state);
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.tasks.get().into_iter().flatten().for_each(AbortHandle::abort);
    }
}

/// Follows the device `name`, whose number is `index`.
///
/// # Errors
/// [`PortError`] where the namespace can't be entered or the kernel can't be asked.
pub(crate) fn watch(netns: &Netns, name: &str, index: u32) -> Result<Arc<dyn Link>, PortError> {
    let namespace = namespace(netns)?;
    let mut devices = namespace.devices();
    if let Some(device) = devices.get(&index).and_then(Weak::upgrade) {
        return Ok(device);
    }
    let state = AtomicU8::new(UNKNOWN);
    let device = Arc::new(Device { index, state, namespace: Arc::clone(&namespace) });
    devices.insert(index, Arc::downgrade(&device));
    drop(devices);
    // From here on nothing is missed.
    let info = query::get(netns, name)?;
    device.begin(info.filter(|info| info.index == index).map_or(LinkState::Gone, |info| info.state()));
    Ok(device)
}

/// The namespace, listened to.
fn namespace(netns: &Netns) -> Result<Arc<Namespace>, PortError> {
    let system = |action| move |error| PortError::system(format!("network namespace {netns}"), action, error);
    let file = netns.open()?;
    let status = rustix::fs::fstat(&file).map_err(|errno| system("tell it from others")(errno.into()))?;
    let mut all = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    let identity = (status.st_dev, status.st_ino);
    if let Some(namespace) = all.get(&identity).and_then(Weak::upgrade) {
        return Ok(namespace);
    }
    let runtime = runtime().map_err(system("start a thread that listens to the kernel"))?;
    let namespace = Arc::new(Namespace::default());
    let theirs = Arc::downgrade(&namespace);
    let tasks = netns.run(|| {
        let _entered = runtime.enter();
        let (mut connection, handle, told) = rtnetlink::new_multicast_connection(&[MulticastGroup::Link])?;
        // What can't be told for want of room is looked up later; the socket goes on.
        connection.socket_mut().socket_mut().set_no_enobufs(true)?;
        let talk = runtime.spawn(connection).abort_handle();
        let follow = runtime.spawn(follow(theirs, handle, told.map(|(message, _)| message))).abort_handle();
        Ok([talk, follow])
    })?;
    // It is new: nobody has set them.
    let _ = namespace.tasks.set(tasks.map_err(system("listen to the kernel"))?);
    all.retain(|_, namespace| namespace.strong_count() > 0);
    all.insert(identity, Arc::downgrade(&namespace));
    Ok(namespace)
}

/// What runs the thread; there is one for the whole life of the process.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).thread_name("links").enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Passes on what the kernel tells, until nobody follows a device there any more.
async fn follow(
    namespace: Weak<Namespace>,
    handle: Handle,
    told: impl Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Send + 'static,
) {
    let mut told = std::pin::pin!(told);
    // A clock of its own: however much is told, what was lost is looked up.
    let mut due = tokio::time::interval(REFRESH);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = told.next() => match message {
                Some(message) => Some(message),
                None => return,
            },
            _ = due.tick() => None,
        };
        let Some(namespace) = namespace.upgrade() else { return };
        match message {
            Some(message) => hear(&namespace, message.payload),
            None => refresh(&namespace, &handle).await,
        }
    }
}

fn hear(namespace: &Namespace, payload: NetlinkPayload<RouteNetlinkMessage>) {
    let NetlinkPayload::InnerMessage(message) = payload else { return };
    // A bridge tells of its ports in the same way: that one leaves it is no end of the device.
    let of_device = |message: &LinkMessage| message.header.interface_family == AddressFamily::Unspec;
    match message {
        RouteNetlinkMessage::NewLink(link) if of_device(&link) => {
            namespace.set(link.header.index, query::read(&link).state());
        }
        RouteNetlinkMessage::DelLink(link) if of_device(&link) => {
            namespace.set(link.header.index, LinkState::Gone);
        }
        _ => {}
    }
}

/// Looks all devices up that are followed.
async fn refresh(namespace: &Namespace, handle: &Handle) {
    let followed: Vec<u32> = namespace.devices().keys().copied().collect();
    for index in followed {
        let mut links = std::pin::pin!(handle.link().get().match_index(index).execute());
        match links.next().await {
            Some(Ok(link)) => namespace.set(index, query::read(&link).state()),
            Some(Err(error)) if query::is_missing(&to_io(error.clone())) => {
                namespace.set(index, LinkState::Gone);
            }
            // Whatever else is wrong: what is known of it stays so until the kernel answers.
            Some(Err(_)) | None => {}
        }
    }
}
