//! Devices that Quiver has made in network namespaces, and what it has given them.
//!
//! A tap outlives its queues: while a port is opened again with other parameters, the pod keeps its device with its
//! connections. So a device is removed only when a batch is through and no interface has it any more, and what it was
//! given is remembered, to be taken away when it is no longer wanted. What others have given it stays.

use std::collections::BTreeMap;

use ports::link::{self, LinkOptions};
use ports::netns::Netns;
use ports::tap::{self, TapMode};
use ports::{Held, Port};

use super::ports_of;
use crate::model::Flaw;
use crate::model::spec::{InterfaceSpec, PortSpec, TapSpec};

/// Network namespace and name.
type Place = (Option<String>, String);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<Place, Device>);

#[derive(Debug)]
struct Device {
    netns: Netns,
    mode: TapMode,
    given: LinkOptions,
    /// Keeps its link up between two ports.
    held: Option<Held>,
}

impl Devices {
    /// Opens a tap, with a transmit queue for each of `workers`: makes its device, or takes over the one that is there.
    ///
    /// # Errors
    /// [`Flaw`] where the system refuses.
    pub(super) fn open(&mut self, spec: &InterfaceSpec, tap: &TapSpec, workers: usize) -> Result<Port, Flaw> {
        let mut options = ports_of::tap(spec, tap);
        options.tx_queues = ports_of::queues(workers);
        let place = place(tap);
        if self.0.get(&place).is_some_and(|device| device.mode != options.mode) {
            // Of the other kind: nobody has it open, for it is to be opened.
            link::delete(&options.netns, &options.name).map_err(|error| flaw(&error))?;
            self.0.remove(&place);
        }
        let known = self.0.get_mut(&place);
        options.former = known.as_ref().map(|device| device.given.clone()).unwrap_or_default();
        match tap::open(&options) {
            Ok(port) => {
                let device =
                    Device { netns: options.netns, mode: options.mode, given: options.host, held: None };
                self.0.insert(place, device);
                Ok(port)
            }
            Err(error) => {
                if let Some(device) = known {
                    // It may have got a part.
                    device.given = both(&device.given, &options.host);
                }
                Err(flaw(&error))
            }
        }
    }

    /// Gives the device of an open tap what the interface says now.
    ///
    /// # Errors
    /// [`Flaw`] where the system refuses; the device is what it was before.
    pub(super) fn change(&mut self, spec: &InterfaceSpec, tap: &TapSpec) -> Result<(), Flaw> {
        let wanted = ports_of::tap(spec, tap).host;
        let Some(device) = self.0.get_mut(&place(tap)) else { return Ok(()) };
        if device.given == wanted {
            return Ok(());
        }
        let name = &tap.host_name;
        if let Err(error) = link::change(&device.netns, name, &device.given, &wanted) {
            let former = both(&device.given, &wanted);
            if let Err(error) = link::change(&device.netns, name, &former, &device.given) {
                tracing::warn!(interface = %spec.name, %error, "a refused change of its device could not be taken back");
            }
            return Err(flaw(&error));
        }
        device.given = wanted;
        Ok(())
    }

    /// Keeps the link of a device up until its port is opened again or the batch is through.
    pub(super) fn hold(&mut self, tap: &TapSpec, held: Held) {
        if let Some(device) = self.0.get_mut(&place(tap)) {
            device.held = Some(held);
        }
    }

    /// Removes the devices that none of these interfaces has. None is held any more.
    pub(super) fn sweep<'a>(&mut self, interfaces: impl Iterator<Item = &'a InterfaceSpec>) {
        let taps = interfaces.filter_map(|spec| match &spec.port {
            PortSpec::Tap(tap) => Some(place(tap)),
            _ => None,
        });
        let used: std::collections::BTreeSet<Place> = taps.collect();
        self.0.retain(|place, device| {
            device.held = None;
            let keep = used.contains(place);
            if !keep {
                match link::delete(&device.netns, &place.1) {
                    // A namespace that is gone has taken the device with it.
                    Ok(()) | Err(ports::PortError::Netns(ports::NetnsError::Missing { .. })) => {}
                    Err(error) => {
                        tracing::warn!(%error, "a device that is not used any more could not be removed")
                    }
                }
            }
            keep
        });
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn place(tap: &TapSpec) -> Place {
    (tap.netns.clone(), tap.host_name.clone())
}

/// The addresses and routes of both.
fn both(one: &LinkOptions, other: &LinkOptions) -> LinkOptions {
    let mut all = one.clone();
    all.addresses.extend(&other.addresses);
    all.routes.extend(&other.routes);
    all
}

fn flaw(error: &ports::PortError) -> Flaw {
    Flaw::new("tap", error.to_string())
}
