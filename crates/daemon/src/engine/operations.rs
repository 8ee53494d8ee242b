//! What the control thread asks for, step by step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::{Core, rx_mode};
use super::passage::Arrival;
use super::port::{self, Kind};
use super::registry::{Entry, stable_mac};
use super::start::{Engine, Shared};
use crate::dataplane::{Change, Dataplane, Operation, Rejection};
use crate::model::spec::{BridgeSpec, InterfaceSpec, VrfSpec};
use crate::model::{Flaw, Name};
use features::bridge::control::BridgeConfig;
use wire::MacAddr;

/// How long a publication may wait for workers before the rest of it is left to the engine's thread.
const PATIENCE: Duration = Duration::from_millis(500);

impl Dataplane for Engine {
    fn check(&mut self, operation: &Operation) -> Result<(), Rejection> {
        match operation {
            Operation::CreateInterface(spec) | Operation::OpenPort(spec) => {
                port::check(spec).map_err(Rejection::from)
            }
            _ => Ok(()),
        }
    }

    fn execute(&mut self, operation: &Operation) -> Result<(), Rejection> {
        let mut core = self.shared.core();
        let done = match operation {
            Operation::Vrf(change) => core.vrf(change),
            Operation::Bridge(change) => {
                core.bridge(change);
                Ok(())
            }
            Operation::CreateInterface(spec) => core.create(&self.shared, spec),
            Operation::DestroyInterface(spec) => {
                core.destroy(&spec.name);
                Ok(())
            }
            Operation::ClosePort(spec) => {
                core.close_port(&spec.name, false);
                Ok(())
            }
            Operation::OpenPort(spec) => core.open_port(spec),
            Operation::Configure { after, .. } => core.configure(after),
            Operation::Routes(changes) => return core.routes(changes),
            Operation::Neighbor(change) => core.static_neighbour(change),
        };
        done.map_err(Rejection::from)
    }

    fn publish(&mut self) {
        let until = Instant::now() + PATIENCE;
        self.shared.core().batch_ends();
        loop {
            let settled = self.shared.core().settle();
            if settled || Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        // Its deadlines may have changed.
        self.shared.bell.ring();
    }
}

impl Core {
    fn create(&mut self, shared: &Shared, spec: &Arc<InterfaceSpec>) -> Result<(), Flaw> {
        let mac = spec.mac.map_or_else(|| stable_mac(&spec.name.to_string()), |mac| MacAddr(mac.0));
        let entry = Entry { spec: Arc::clone(spec), mac, port: None, link_ups: 0 };
        let index = self.registry.add(entry).ok_or_else(|| {
            Flaw::new("name", "there are 65000 interfaces already").remedy("delete one first")
        })?;
        shared.baseline().interface_added(&self.pool, index);
        if let Err(flaw) = self.open_port(spec) {
            self.registry.remove(index);
            return Err(flaw);
        }
        self.interfaces_changed = true;
        Ok(())
    }

    fn destroy(&mut self, name: &Name) {
        let Some(index) = self.registry.index(name) else { return };
        self.close_port(name, true);
        self.unroute_interface(index);
        self.registry.remove(index);
        self.interfaces_changed = true;
    }

    fn open_port(&mut self, spec: &Arc<InterfaceSpec>) -> Result<(), Flaw> {
        let Some(index) = self.registry.index(&spec.name) else { return Ok(()) };
        let mac = self.registry.get(index).map_or(MacAddr::ZERO, |entry| entry.mac);
        let opened = port::open(index, spec, mac, &mut self.memifs)?;
        if let Some(entry) = self.registry.get_mut(index) {
            entry.spec = Arc::clone(spec);
            entry.port = Some(opened.port);
        }
        self.pool.attach_tx(index, opened.tx);
        if let Some(input) = Kind::of(&spec.port).input {
            let (mode, queues) = (rx_mode(spec), opened.rx);
            self.arriving(Arrival { input, interface: index, mode, queues });
        }
        self.fresh.insert(index);
        self.interfaces_changed = true;
        Ok(())
    }

    /// Closes the port of an interface; `for_good`: what Quiver made for it in the system is removed.
    fn close_port(&mut self, name: &Name, for_good: bool) {
        let Some(index) = self.registry.index(name) else { return };
        self.detach(index);
        self.memifs.close(index);
        let port = self.registry.get_mut(index).and_then(|entry| entry.port.take());
        if let Some(control) = port.and_then(|port| port.control)
            && for_good
            && let Err(error) = control.remove()
        {
            tracing::warn!(interface = %name, %error, "its device could not be removed");
        }
        self.interfaces_changed = true;
    }

    fn configure(&mut self, after: &Arc<InterfaceSpec>) -> Result<(), Flaw> {
        let Some(index) = self.registry.index(&after.name) else { return Ok(()) };
        let mac = after.mac.map_or_else(|| stable_mac(&after.name.to_string()), |mac| MacAddr(mac.0));
        let mut damage_changed = false;
        if let Some(entry) = self.registry.get_mut(index) {
            damage_changed = entry.spec.fault != after.fault;
            entry.spec = Arc::clone(after);
            entry.mac = mac;
        }
        if damage_changed {
            // Damage is done by queues that wrap the port's: it is opened again.
            self.close_port(&after.name, false);
            self.open_port(after)?;
        }
        let mode = rx_mode(after);
        self.pool.set_rx_mode(index, mode);
        self.arrivals.iter_mut().filter(|one| one.interface == index).for_each(|one| one.mode = mode);
        self.interfaces_changed = true;
        Ok(())
    }

    fn vrf(&mut self, change: &Change<VrfSpec>) -> Result<(), Flaw> {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                let index = match self.vrfs.get(&after.name) {
                    Some(index) => *index,
                    None => {
                        free(&self.vrfs).ok_or_else(|| Flaw::new("name", "there are 65535 VRFs already"))?
                    }
                };
                self.routing.set_vrf(index, &after.name.to_string(), after.symmetric_flow_hash)?;
                self.vrfs.insert(after.name.clone(), index);
            }
            (Some(before), None) => {
                if let Some(index) = self.vrfs.get(&before.name).copied() {
                    self.routing.remove_vrf(index)?;
                    self.vrfs.remove(&before.name);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn bridge(&mut self, change: &Change<BridgeSpec>) {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                let before = self.bridges.get(&after.name);
                let index = before.map_or_else(|| free_bridge(&self.bridges), |bridge| bridge.index);
                let moves = before.map(|bridge| bridge.moves.clone()).unwrap_or_default();
                let bridge = super::core::Bridge { index, spec: Arc::clone(after), moves };
                self.bridges.insert(after.name.clone(), bridge);
            }
            (Some(before), None) => {
                if let Some(bridge) = self.bridges.remove(&before.name) {
                    BridgeConfig::remove_addresses(&self.macs, bridge.index);
                }
            }
            (None, None) => {}
        }
        self.interfaces_changed = true;
    }
}

/// The lowest number that none has yet.
fn free(used: &std::collections::HashMap<Name, u16>) -> Option<u16> {
    (1..=u16::MAX).find(|index| !used.values().any(|other| other == index))
}

fn free_bridge(used: &std::collections::HashMap<Name, super::core::Bridge>) -> u16 {
    (1..=u16::MAX).find(|index| !used.values().any(|other| other.index == *index)).unwrap_or(u16::MAX)
}
