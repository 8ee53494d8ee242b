//! Tap and tun ports.

use std::net::IpAddr;

use api::v1::{HostRoute, Tap, TapMode};
use ipnet::IpNet;

use crate::model::{Flaw, Mac, Name, fields};

/// Characters of a device name in the kernel (`IFNAMSIZ` less the zero at the end).
pub(super) const MAX_DEVICE: usize = 15;

/// A tap or tun device; see [`Tap`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapSpec {
    /// Network namespace: a name under /run/netns or an absolute path; `None`: that of quiverd.
    pub netns: Option<String>,
    /// Name of the device.
    pub host_name: String,
    /// Frames or packets.
    pub mode: TapMode,
    /// Queue pairs, 1 to 256.
    pub queues: u32,
    /// Addresses of the kernel's side.
    pub host_addresses: Vec<IpNet>,
    /// MTU of the kernel's side in bytes; `None`: that of the interface.
    pub host_mtu: Option<u32>,
    /// Ethernet address of the kernel's side; `None`: the kernel's choice.
    pub host_mac: Option<Mac>,
    /// Pass segmentation and checksum offload through.
    pub gso: bool,
    /// Routes in the namespace through this device.
    pub host_routes: Vec<HostRouteSpec>,
    /// Next hops of default routes in the namespace, at most one per family.
    pub host_gateways: Vec<IpAddr>,
}

/// A route of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRouteSpec {
    /// Destination.
    pub prefix: IpNet,
    /// Next hop; `None`: directly connected.
    pub via: Option<IpAddr>,
}

impl TapSpec {
    /// Reads what a client sent for the interface `interface`.
    ///
    /// # Errors
    /// [`Flaw`] naming the field within the port.
    pub fn parse(tap: &Tap, interface: &Name) -> Result<Self, Flaw> {
        let mode = fields::choice("mode", tap.mode, TapMode::Tap)?;
        let host_mac = fields::optional_station("host_mac", &tap.host_mac)?;
        if mode == TapMode::Tun && host_mac.is_some() {
            return Err(Flaw::new("host_mac", "has no meaning for a tun device").remedy("leave it out"));
        }
        let host_mtu = match tap.host_mtu {
            0 => None,
            mtu => Some(fields::number("host_mtu", mtu, 68..=65_535, 0)?),
        };
        Ok(Self {
            netns: fields::netns("netns", &tap.netns)?,
            host_name: host_name(&tap.host_name, interface)?,
            mode,
            queues: fields::number("queues", tap.queues, 1..=256, 1)?,
            host_addresses: tap
                .host_addresses
                .iter()
                .map(|address| fields::prefix("host_addresses", address))
                .collect::<Result<_, _>>()?,
            host_mtu,
            host_mac,
            gso: tap.gso.unwrap_or(true),
            host_routes: tap
                .host_routes
                .iter()
                .map(|route| HostRouteSpec::parse(route).map_err(|flaw| flaw.inside("host_routes")))
                .collect::<Result<_, _>>()?,
            host_gateways: gateways(&tap.host_gateways)?,
        })
    }

    /// The canonical form of the port of the interface `interface`.
    pub fn to_api(&self, interface: &Name) -> Tap {
        Tap {
            netns: self.netns.clone().unwrap_or_default(),
            host_name: if *self.host_name == **interface { String::new() } else { self.host_name.clone() },
            mode: match self.mode {
                TapMode::Tap => TapMode::Unspecified.into(),
                mode => mode.into(),
            },
            queues: if self.queues == 1 { 0 } else { self.queues },
            host_addresses: self.host_addresses.iter().map(ToString::to_string).collect(),
            host_mtu: self.host_mtu.unwrap_or_default(),
            host_mac: self.host_mac.map(|mac| mac.to_string()).unwrap_or_default(),
            gso: if self.gso { None } else { Some(false) },
            host_routes: self.host_routes.iter().map(HostRouteSpec::to_api).collect(),
            host_gateways: self.host_gateways.iter().map(ToString::to_string).collect(),
        }
    }
}

impl HostRouteSpec {
    fn parse(route: &HostRoute) -> Result<Self, Flaw> {
        let prefix = fields::network("prefix", &route.prefix)?;
        let via = if route.via.is_empty() { None } else { Some(fields::address("via", &route.via)?) };
        if via.is_some_and(|via| via.is_ipv4() != prefix.addr().is_ipv4()) {
            return Err(Flaw::new("via", format!("{} is of another family than {prefix}", route.via)));
        }
        Ok(Self { prefix, via })
    }

    fn to_api(&self) -> HostRoute {
        HostRoute {
            prefix: self.prefix.to_string(),
            via: self.via.map(|via| via.to_string()).unwrap_or_default(),
        }
    }
}

/// The name of a device in the kernel, that of the interface if nothing was said.
fn host_name(text: &str, interface: &Name) -> Result<String, Flaw> {
    if text.is_empty() && interface.len() > MAX_DEVICE {
        return Err(Flaw::new(
            "host_name",
            format!("is missing, and {interface:?} is too long for the kernel ({MAX_DEVICE} characters)"),
        )
        .remedy("give the device a shorter name"));
    }
    let name = if text.is_empty() { interface } else { text };
    device("host_name", name)
}

/// A name the kernel takes for a device.
pub(super) fn device(field: &str, name: &str) -> Result<String, Flaw> {
    let fits = (1..=MAX_DEVICE).contains(&name.len()) && name != "." && name != "..";
    // '%' makes the kernel choose a number, ':' belongs to its aliases
    let clean = name.chars().all(|character| character.is_ascii_graphic() && !"/%:".contains(character));
    if fits && clean {
        Ok(name.to_owned())
    } else {
        Err(Flaw::new(field, format!("{name:?} is no name for a device of the kernel"))
            .remedy(format!("take 1 to {MAX_DEVICE} characters without spaces, '/', '%' and ':'")))
    }
}

fn gateways(texts: &[String]) -> Result<Vec<IpAddr>, Flaw> {
    let mut gateways = Vec::<IpAddr>::new();
    for text in texts {
        let gateway = fields::address("host_gateways", text)?;
        if gateways.iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            return Err(Flaw::new("host_gateways", "has two addresses of one family")
                .remedy("keep one per family, or use host_routes"));
        }
        gateways.push(gateway);
    }
    Ok(gateways)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn the_device_is_called_like_the_interface() {
        let spec = TapSpec::parse(&Tap::default(), &name("pod-a")).unwrap();
        assert_eq!(spec.host_name, "pod-a");
        assert!(spec.gso);
        assert_eq!(spec.to_api(&name("pod-a")), Tap::default());
        let flaw = TapSpec::parse(&Tap::default(), &name("a-very-long-interface")).unwrap_err();
        assert_eq!(flaw.field, "host_name");
    }

    #[test]
    fn each_bad_field_is_named() {
        let route = |prefix: &str, via: &str| HostRoute { prefix: prefix.into(), via: via.into() };
        for (tap, field) in [
            (Tap { host_name: "with space".into(), ..Tap::default() }, "host_name"),
            (Tap { host_name: "eth%d".into(), ..Tap::default() }, "host_name"),
            (Tap { queues: 1000, ..Tap::default() }, "queues"),
            (Tap { host_mtu: 20, ..Tap::default() }, "host_mtu"),
            (Tap { host_addresses: vec!["10.0.0.1".into()], ..Tap::default() }, "host_addresses"),
            (
                Tap { mode: TapMode::Tun.into(), host_mac: "02:00:00:00:00:01".into(), ..Tap::default() },
                "host_mac",
            ),
            (Tap { host_routes: vec![route("10.0.0.0/8", "fd00::1")], ..Tap::default() }, "host_routes.via"),
            (
                Tap { host_gateways: vec!["10.0.0.1".into(), "10.0.0.2".into()], ..Tap::default() },
                "host_gateways",
            ),
            (Tap { netns: "a/b".into(), ..Tap::default() }, "netns"),
        ] {
            assert_eq!(TapSpec::parse(&tap, &name("t")).unwrap_err().field, field, "{tap:?}");
        }
    }
}
