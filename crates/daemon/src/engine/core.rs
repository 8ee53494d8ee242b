//! Everything that the engine owns.

use std::collections::HashMap;
use std::sync::Arc;

use features::interface::Interfaces;
use features::interface::control::{Ends, stack};
use graph::arc::Arcs;
use graph::plan::Plan;
use graph::port::{IfIndex, RxMode};
use graph::publish::{Draft, Key, Publisher};

use super::compile;
use super::memif::{LinkChange, Memifs};
use super::port::Kind;
use super::registry::Registry;
use super::workers::Pool;
use crate::model::Name;
use crate::model::spec::InterfaceSpec;

/// The engine's state. Workers see only what is published.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) plan: Arc<Plan>,
    pub(super) publisher: Publisher,
    pub(super) pool: Pool,
    pub(super) registry: Registry,
    pub(super) memifs: Memifs,
    /// Index of each VRF.
    pub(super) vrfs: HashMap<Name, u16>,
    /// Index of each bridge.
    pub(super) bridges: HashMap<Name, u16>,
    /// Interfaces have changed since they were published.
    pub(super) interfaces_changed: bool,
    /// Interfaces that existed when they were published last.
    pub(super) published: Vec<IfIndex>,
}

impl Core {
    /// Key of a part of the tables.
    ///
    /// # Panics
    /// If the features don't declare it: found when the first daemon is started.
    pub(super) fn key<T: 'static>(&self) -> Key<T> {
        match self.plan.schema.key() {
            Some(key) => key,
            None => panic!("{} is no part of the tables", std::any::type_name::<T>()),
        }
    }

    /// Index of a VRF; the default one's for a name that isn't there.
    pub(super) fn vrf_index(&self, name: &Name) -> u16 {
        self.vrfs.get(name).copied().unwrap_or(0)
    }

    /// Index of a bridge; 0, which none has, for a name that isn't there.
    pub(super) fn bridge_index(&self, name: &Name) -> u16 {
        self.bridges.get(name).copied().unwrap_or(0)
    }

    /// Puts the table of interfaces and their ways along the arcs into `draft`.
    pub(super) fn compile_interfaces(&mut self, draft: &mut Draft) {
        let mut table = Interfaces::default();
        for (index, entry) in self.registry.iter() {
            table.set(index, Some(compile::interface(self, entry)));
        }
        if let Err(error) = stack(&mut table) {
            // The control plane has checked this: what it hands down is consistent.
            tracing::error!(%error, "interfaces contradict each other; the last consistent state stays in force");
            return;
        }
        let (arcs, interfaces) = (self.key::<Arcs>(), self.key::<Interfaces>());
        let plan = Arc::clone(&self.plan);
        draft.change(arcs, |arcs| {
            for gone in self.published.iter().filter(|index| self.registry.get(**index).is_none()) {
                for arc in 0..plan.arcs.len() as u16 {
                    // An empty chain is never too long.
                    let _ = arcs.set(arc, *gone, &[]);
                }
            }
            for (index, entry) in self.registry.iter() {
                let interface = table.get(index);
                let kind = Kind::of(&entry.spec.port);
                let offload = entry.port.as_ref().is_some_and(|port| port.offload);
                let output: &[&str] = if offload || kind.output.is_none() { &[] } else { &["offload"] };
                let ends = Ends::of(interface, kind.output);
                if let Err(error) = ends.set(&plan, arcs, index, &[], output) {
                    tracing::error!(interface = %entry.spec.name, %error, "its way through the graph can't be set");
                }
            }
        });
        draft.set(interfaces, table);
        self.published = self.registry.iter().map(|(index, _)| index).collect();
        self.interfaces_changed = false;
    }

    /// A memif link came up or went down.
    pub(super) fn link_changed(&mut self, change: LinkChange) {
        match change {
            LinkChange::Down(index) => {
                tracing::info!(interface = self.registry.name(index), "memif link down");
                self.pool.detach(index);
            }
            LinkChange::Up(index, connection) => {
                let Some(entry) = self.registry.get_mut(index) else { return };
                entry.link_ups += 1;
                let queues = (connection.rx.len(), connection.tx.len());
                tracing::info!(interface = %entry.spec.name, rx = queues.0, tx = queues.1, "memif link up");
                let mode = rx_mode(&entry.spec);
                let rx = connection.rx.into_iter().map(|queue| Box::new(ports::memif::MemifRx::new(queue)) as _);
                let tx = connection.tx.into_iter().map(|queue| Box::new(ports::memif::MemifTx::new(queue)) as _);
                self.pool.detach(index);
                self.pool.attach_tx(index, tx.collect());
                self.pool.attach_rx("memif-input", index, mode, rx.collect());
            }
        }
    }
}

/// How workers wait for an interface.
pub(super) fn rx_mode(spec: &InterfaceSpec) -> RxMode {
    match spec.rx_mode {
        api::v1::RxMode::Polling => RxMode::Polling,
        api::v1::RxMode::Interrupt => RxMode::Interrupt,
        _ => RxMode::Adaptive,
    }
}
