//! Interfaces and their ports come, change and go.
//!
//! What takes the system's time (opening and closing devices, waiting for workers to hand queues back) is done on the
//! control thread without the engine's lock, so that nobody else waits for it. Whatever can be refused is done first:
//! a change that fails leaves in force what was.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use graph::port::IfIndex;
use graph::worker::Worker;
use ports::{Held, PortControl};
use wire::MacAddr;

use super::core::{Core, rx_mode};
use super::port::{self, Kind, Opened};
use super::ports_of;
use super::registry::Entry;
use super::start::Engine;
use super::workers::Returned;
use crate::model::spec::{InterfaceSpec, PortSpec};
use crate::model::{Flaw, Name};

/// How long workers may take to hand queues back: many thousand times of what a round takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same while a worker is known to stand still: its queues come back when it goes on.
const PATIENCE_STUCK: Duration = Duration::from_millis(50);

/// A port on its way out: what has to be gone before another one can be opened in its place.
struct Closing {
    queues: Returned,
    control: Option<Box<dyn PortControl>>,
}

impl Closing {
    /// Waits until no worker has a queue of it any more, and closes it. A tap's device stays: whether it is needed any more
    /// shows at the end of the batch, and until then its link stays up.
    fn finish(self, name: &Name, is_tap: bool, patience: Duration) -> Option<Held> {
        let until = Instant::now() + patience;
        loop {
            match self.queues.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(queues) => drop(queues),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    tracing::error!(interface = %name, "a worker doesn't hand its queues back");
                    break;
                }
            }
        }
        let control = self.control?;
        if is_tap {
            return control.hold();
        }
        if let Err(error) = control.remove() {
            tracing::warn!(interface = %name, %error, "its port could not be closed properly");
        }
        None
    }
}

impl Engine {
    /// An interface comes. Nobody sees it before its port is open: what is sent by it at once, to say who we are, would be
    /// lost.
    pub(super) fn create(&mut self, spec: &Arc<InterfaceSpec>) -> Result<(), Flaw> {
        let shared = Arc::clone(&self.shared);
        let (index, mac) = (shared.directory.get().registry.vacant(Instant::now()), mac(spec));
        let index = index.ok_or_else(|| {
            Flaw::new("name", "there are 65000 interfaces already").remedy("delete one first")
        })?;
        let opened = self.open(spec, mac)?;
        let (port, attachment, damage) = Default::default();
        let entry = Entry { spec: Arc::clone(spec), mac, port, attachment, damage, link_ups: 0 };
        let mut core = shared.core();
        shared.directory.change(|inventory| inventory.registry.insert(index, entry));
        shared.baseline().interface_added(&shared.pool, index);
        self.install(&mut core, index, spec, opened);
        drop(core);
        self.listen(index, spec).inspect_err(|_| {
            let mut core = shared.core();
            if core.published.contains(&index) {
                core.unroute_interface(index);
            }
            shared.directory.change(|inventory| inventory.registry.remove(index, Instant::now()));
            shared.baseline().interface_removed(index);
            core.interfaces_changed = true;
        })
    }

    /// An interface goes.
    pub(super) fn destroy(&mut self, name: &Name) {
        self.close_port(name);
        self.shared.penalties.forget(name);
        let mut core = self.shared.core();
        let Some(index) = self.shared.directory.get().registry.index(name) else { return };
        core.unroute_interface(index);
        self.shared.directory.change(|inventory| inventory.registry.remove(index, Instant::now()));
        self.shared.baseline().interface_removed(index);
        core.interfaces_changed = true;
    }

    /// Opens the port of an interface that is there.
    pub(super) fn open_port(&mut self, spec: &Arc<InterfaceSpec>) -> Result<(), Flaw> {
        let shared = Arc::clone(&self.shared);
        let Some((index, before)) = shared.directory.get().registry.named(&spec.name) else { return Ok(()) };
        let mac = shared.directory.get().registry.get(index).map_or(MacAddr::ZERO, |entry| entry.mac);
        let opened = self.open(spec, mac)?;
        self.install(&mut shared.core(), index, spec, opened);
        self.listen(index, spec).inspect_err(|_| {
            let mut core = shared.core();
            shared.directory.change(|inventory| {
                if let Some(entry) = inventory.registry.get_mut(index) {
                    (entry.spec, entry.port) = (before, None);
                }
            });
            // Workers may have been told of it meanwhile.
            core.interfaces_changed = true;
        })?;
        if !matches!(spec.port, PortSpec::Memif(_)) {
            // Of a memif, a peer tells.
            shared.core().link_up(index);
        }
        Ok(())
    }

    /// What the system has to open for a port.
    fn open(&mut self, spec: &InterfaceSpec, mac: MacAddr) -> Result<Opened, Flaw> {
        self.shared.penalties.check(spec, Instant::now())?;
        match &spec.port {
            PortSpec::Tap(tap) => {
                Ok(Opened::of(self.devices.open(spec, tap, self.shared.pool.workers().len())?))
            }
            _ => port::open(spec, mac, self.shared.pool.workers().len()),
        }
    }

    /// Opens the socket of a memif, whose queues come with its links. The interface is there: a link may come up at once.
    fn listen(&self, index: IfIndex, spec: &InterfaceSpec) -> Result<(), Flaw> {
        match &spec.port {
            PortSpec::Memif(memif) => self.shared.memifs.open(index, spec, memif),
            _ => Ok(()),
        }
    }

    /// Keeps the device of a port that is open, and gives workers its queues.
    fn install(&mut self, core: &mut Core, index: IfIndex, spec: &Arc<InterfaceSpec>, mut opened: Opened) {
        if let Some(control) = opened.control.take() {
            self.controls.insert(index, control);
        }
        core.install(index, spec, opened);
    }

    /// Closes the port of an interface; when this returns, all of it is closed.
    pub(super) fn close_port(&mut self, name: &Name) {
        let Some((index, spec)) = self.shared.directory.get().registry.named(name) else { return };
        if matches!(spec.port, PortSpec::Memif(_)) {
            // First, so that no link comes up while its queues are taken away.
            self.shared.memifs.close(index);
        }
        let queues = self.shared.core().take_port(index);
        let closing = Closing { queues, control: self.controls.remove(&index) };
        let tap = match &spec.port {
            PortSpec::Tap(tap) => Some(tap),
            _ => None,
        };
        let stuck = |worker: &Worker| self.shared.pool.post(worker.number()).still().is_some();
        let patience = match self.shared.pool.workers().iter().any(stuck) {
            true => PATIENCE_STUCK,
            false => PATIENCE,
        };
        let held = closing.finish(name, tap.is_some(), patience);
        if let (Some(tap), Some(held)) = (tap, held) {
            self.devices.hold(tap, held);
        }
        // Queues that were taken away before, by a fault, may still wait to be dropped.
        self.shared.pool.bury();
    }

    /// Everything but the port of an interface changes, and what of the port follows from the rest.
    pub(super) fn configure(&mut self, after: &Arc<InterfaceSpec>) -> Result<(), Flaw> {
        let mac = mac(after);
        let (index, readdressed, open) = {
            let inventory = self.shared.directory.get();
            let Some(index) = inventory.registry.index(&after.name) else { return Ok(()) };
            let entry = inventory.registry.get(index);
            (
                index,
                entry.is_some_and(|entry| entry.mac != mac),
                entry.is_some_and(|entry| entry.port.is_some()),
            )
        };
        match &after.port {
            PortSpec::Tap(tap) if open => self.devices.change(after, tap)?,
            PortSpec::Generator(_) if open && readdressed => {
                // Its frames are built with the address; a second generator is in nobody's way.
                let opened = self.open(after, mac)?;
                self.close_port(&after.name);
                let shared = Arc::clone(&self.shared);
                self.install(&mut shared.core(), index, after, opened);
            }
            _ => {}
        }
        let mut core = self.shared.core();
        self.shared.directory.change(|inventory| {
            if let Some(entry) = inventory.registry.get_mut(index) {
                entry.spec = Arc::clone(after);
                entry.mac = mac;
                entry.damage.set(damage(after));
            }
        });
        let mode = rx_mode(after);
        core.pool.set_rx_mode(index, mode);
        core.arrivals.iter_mut().filter(|one| one.interface == index).for_each(|one| one.mode = mode);
        core.interfaces_changed = true;
        Ok(())
    }
}

impl Core {
    /// Gives workers the queues of a port that is open.
    fn install(&mut self, index: IfIndex, spec: &Arc<InterfaceSpec>, opened: Opened) {
        let wanted = self.directory.change(|inventory| {
            let entry = inventory.registry.get_mut(index)?;
            entry.spec = Arc::clone(spec);
            entry.port = Some(opened.port);
            entry.damage.set(damage(spec));
            Some(entry.damage.clone())
        });
        let Some(wanted) = wanted else { return };
        let rx = port::damaged(&wanted, opened.rx);
        if !(rx.is_empty() && opened.tx.is_empty()) {
            let input = Kind::of(&spec.port).input;
            self.attach(index, self.attachments.next(), input, rx_mode(spec), rx, opened.tx);
        }
        self.fresh.insert(index);
        self.interfaces_changed = true;
    }

    /// Takes the port of an interface away from workers.
    fn take_port(&mut self, index: IfIndex) -> Returned {
        self.arrivals.retain(|arrival| arrival.interface != index);
        let queues = self.pool.take_back(index);
        self.directory.change(|inventory| {
            if let Some(entry) = inventory.registry.get_mut(index) {
                (entry.attachment, entry.port) = (None, None);
            }
        });
        self.interfaces_changed = true;
        queues
    }
}

/// The Ethernet address that an interface is to have.
fn mac(spec: &InterfaceSpec) -> MacAddr {
    MacAddr(spec.own_mac().0)
}

/// The damage that an interface is to do.
fn damage(spec: &InterfaceSpec) -> ports::wrap::FaultOptions {
    spec.fault.as_ref().map(ports_of::fault).unwrap_or_default()
}
