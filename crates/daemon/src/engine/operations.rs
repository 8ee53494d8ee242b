//! What the control thread asks for, step by step.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::Core;
use super::directory::Bridge;
use super::port;
use super::start::Engine;
use crate::dataplane::{Change, Dataplane, KeptSession, Operation, Rejection, RouteChange};
use crate::model::spec::{BridgeSpec, VrfSpec};
use crate::model::{Flaw, Refusal};
use features::bridge::control::BridgeConfig;

/// How long a publication may stand still before the rest of it is left to the engine's thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// Routes changed before others may have the engine: some milliseconds' work.
const PORTION: usize = 4096;

impl Dataplane for Engine {
    fn check(&mut self, operation: &Operation) -> Result<(), Rejection> {
        match operation {
            Operation::CreateInterface(spec) | Operation::OpenPort(spec) => {
                port::check(spec, self.shared.pool.workers().len()).map_err(Rejection::from)
            }
            _ => Ok(()),
        }
    }

    fn session_room(&self) -> u64 {
        self.shared.session_room()
    }

    fn execute(&mut self, operation: &Operation) -> Result<(), Rejection> {
        let done = match operation {
            Operation::Vrf(change) => self.shared.core().vrf(change),
            Operation::Bridge(change) => self.shared.core().bridge(change),
            Operation::CreateInterface(spec) => self.create(spec),
            Operation::DestroyInterface(spec) => {
                self.destroy(&spec.name);
                Ok(())
            }
            Operation::ClosePort(spec) => {
                self.close_port(&spec.name);
                Ok(())
            }
            Operation::OpenPort(spec) => self.open_port(spec),
            Operation::Configure { after, .. } => self.configure(after),
            Operation::Routes(changes) => return self.routes(changes),
            Operation::Neighbor(change) => self.shared.core().static_neighbour(change),
            Operation::Tenant(change) => self.shared.core().of_batch(|core| core.tenant(change)),
            Operation::NatPool(change) => self.shared.core().of_batch(|core| core.nat_pool(change)),
            Operation::Policer(change) => self.shared.core().of_batch(|core| core.policer(change)),
            Operation::Vip(change) => self.shared.core().of_batch(|core| core.vip(change)),
            Operation::Acl(change) => self.shared.core().of_batch(|core| core.acl(change)),
            Operation::AddressSet(change) => self.shared.core().of_batch(|core| core.address_set(change)),
            Operation::Endpoint(change) => self.shared.core().of_batch(|core| core.endpoint(change)),
        };
        done.map_err(Rejection::from)
    }

    fn publish(&mut self) -> Result<(), Flaw> {
        self.shared.core().batch_ends();
        let (mut waiting, mut until) = (usize::MAX, Instant::now() + PATIENCE);
        let settled = loop {
            let left = {
                let mut core = self.shared.core();
                if core.settle() {
                    break true;
                }
                core.routing.forwarding.waiting()
            };
            if left != waiting {
                (waiting, until) = (left, Instant::now() + PATIENCE);
            } else if Instant::now() > until {
                break false;
            }
            std::thread::sleep(Duration::from_micros(50));
        };
        if !self.devices.is_empty() {
            let inventory = self.shared.directory.get();
            self.devices.sweep(inventory.registry.iter().map(|(_, entry)| &*entry.spec));
        }
        // Its deadlines may have changed.
        self.shared.bell.ring();
        let contradiction = self.shared.core().contradiction.clone();
        match contradiction {
            Some(reason) => Err(Flaw::new("", reason)),
            None if settled => Ok(()),
            None => {
                let reason = format!("a worker hasn't taken it: {waiting} changes of routes wait");
                Err(Flaw::new("", reason).remedy("it goes on by itself; see quiver show runtime"))
            }
        }
    }

    fn go_on(&mut self, sessions: Vec<KeptSession>) {
        self.shared.core().kept = sessions.into();
    }

    fn lost(&mut self) -> Vec<Refusal> {
        let lost = std::mem::take(&mut self.shared.core().lost);
        lost.into_iter().map(|(key, flaw)| Refusal { key, flaw }).collect()
    }
}

impl Engine {
    /// Routes come, change or go: all of them or none. In portions, so that neighbours, handshakes and whoever looks
    /// have their turn in between.
    fn routes(&self, changes: &[RouteChange]) -> Result<(), Rejection> {
        for (number, portion) in changes.chunks(PORTION).enumerate() {
            if number > 0 {
                // The lock isn't fair: who waits for it wouldn't get it if it were taken again at once.
                std::thread::sleep(Duration::from_micros(50));
            }
            let done = self.shared.core().routes(portion);
            done.inspect_err(|_| {
                // Nothing of an operation that is rejected may remain.
                for portion in changes.chunks(PORTION).take(number) {
                    self.shared.core().put_routes_back(portion);
                }
            })?;
        }
        Ok(())
    }
}

impl Core {
    fn vrf(&mut self, change: &Change<VrfSpec>) -> Result<(), Flaw> {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                let inventory = self.directory.get();
                let index = match inventory.vrfs.get(&after.name) {
                    Some(index) => *index,
                    None => free(inventory.vrfs.values().copied())
                        .ok_or_else(|| Flaw::new("name", "there are 65535 VRFs already"))?,
                };
                self.routing.set_vrf(index, &after.name.to_string(), after.symmetric_flow_hash)?;
                drop(inventory);
                self.directory.change(|inventory| inventory.vrfs.insert(after.name.clone(), index));
            }
            (Some(before), None) => {
                let index = self.directory.get().vrfs.get(&before.name).copied();
                // An interface that has left it in the same batch has to have left it in the tables, too.
                if self.interfaces_changed {
                    self.publish_interfaces();
                }
                if let Some(index) = index {
                    self.routing.remove_vrf(index)?;
                    self.directory.change(|inventory| inventory.vrfs.remove(&before.name));
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn bridge(&mut self, change: &Change<BridgeSpec>) -> Result<(), Flaw> {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                let inventory = self.directory.get();
                let before = inventory.bridges.get(&after.name);
                let index = match before {
                    Some(bridge) => bridge.index,
                    None => free(inventory.bridges.values().map(|bridge| bridge.index))
                        .ok_or_else(|| Flaw::new("name", "there are 65535 bridges already"))?,
                };
                if before.is_none() {
                    // Not by a worker that learns, a page at a time.
                    memory::heap::back(self.macs.memory());
                }
                let moves = before.map(|bridge| bridge.moves.clone()).unwrap_or_default();
                let bridge = Bridge { index, spec: Arc::clone(after), moves };
                drop(inventory);
                self.directory.change(|inventory| inventory.bridges.insert(after.name.clone(), bridge));
            }
            (Some(before), None) => {
                let gone = self.directory.change(|inventory| inventory.bridges.remove(&before.name));
                if let Some(bridge) = gone {
                    BridgeConfig::remove_addresses(&self.macs, bridge.index);
                }
            }
            (None, None) => {}
        }
        self.interfaces_changed = true;
        Ok(())
    }
}

/// The lowest number that none has yet.
fn free(used: impl Iterator<Item = u16>) -> Option<u16> {
    let used: BTreeSet<u16> = used.collect();
    (1..=u16::MAX).find(|index| !used.contains(index))
}

#[cfg(test)]
mod tests {
    use super::free;

    #[test]
    fn the_lowest_free_number_is_given_as_long_as_there_is_one() {
        assert_eq!(free([].into_iter()), Some(1));
        assert_eq!(free([1, 2, 4].into_iter()), Some(3));
        assert_eq!(free(1..=u16::MAX), None);
    }
}
