//! Setting a device up.

use super::netlink::{self, to_io};
use super::query::{self, LinkInfo};
use crate::PortError;
use crate::netns::Netns;
use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use std::io;
use std::net::IpAddr;
use wire::MacAddr;

/// How the kernel's side of a device is to be. What isn't said stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Ethernet address.
    pub mac: Option<MacAddr>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Addresses, each with the length of its network's prefix. Those that are there already stay.
    pub addresses: Vec<IpNet>,
    /// Routes through the device. Those to the same prefix are replaced.
    pub routes: Vec<HostRoute>,
}

/// A route of the kernel through a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// Destination; `0.0.0.0/0` and `::/0` are the default routes.
    pub prefix: IpNet,
    /// Next router, taken to be on this link whatever the addresses say; `None`: destinations are on the link.
    pub via: Option<IpAddr>,
}

impl HostRoute {
    /// The default route of `via`'s family.
    #[must_use]
    pub fn default_via(via: IpAddr) -> Self {
        let prefix = match via {
            IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
            IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
        };
        Self { prefix, via: Some(via) }
    }
}

/// Sets device `name` up as `options` say and returns what it is then. Doing it again changes nothing.
///
/// # Errors
/// [`PortError`] names the device and the setting that the kernel refused.
pub fn configure(netns: &Netns, name: &str, options: &LinkOptions) -> Result<LinkInfo, PortError> {
    netlink::with(netns, async |handle| {
        let port = format!("device {name} in network namespace {netns}");
        let system = |action: String| |error| PortError::system(port.clone(), action, error);
        let info = require(&handle, name).await.map_err(system("look it up".into()))?;
        let mut message = LinkUnspec::new_with_index(info.index);
        if let Some(mac) = options.mac {
            message = message.address(mac.0.to_vec());
        }
        if let Some(mtu) = options.mtu {
            message = message.mtu(mtu);
        }
        let action = match (options.mac, options.mtu) {
            (None, None) => "set it up".into(),
            (None, Some(mtu)) => format!("set it up with MTU {mtu}"),
            (Some(mac), None) => format!("set it up with address {mac}"),
            (Some(mac), Some(mtu)) => format!("set it up with address {mac} and MTU {mtu}"),
        };
        let request = handle.link().set(message.up().build());
        request.execute().await.map_err(to_io).map_err(system(action))?;
        for address in &options.addresses {
            let added = add_address(&handle, info.index, *address).await;
            added.map_err(system(format!("add address {address}")))?;
        }
        for route in &options.routes {
            let added = add_route(&handle, info.index, *route).await;
            added.map_err(system(format!("add the route to {}", route.prefix)))?;
        }
        require(&handle, name).await.map_err(system("look it up".into()))
    })
}

/// Removes device `name`; that it isn't there is no error.
///
/// # Errors
/// [`PortError`] where the kernel refuses.
pub fn delete(netns: &Netns, name: &str) -> Result<(), PortError> {
    netlink::with(netns, async |handle| {
        let system = |error| {
            PortError::system(format!("device {name} in network namespace {netns}"), "delete it", error)
        };
        let Some(info) = query::find(&handle, name).await.map_err(system)? else { return Ok(()) };
        handle.link().del(info.index).execute().await.map_err(to_io).map_err(system)
    })
}

async fn require(handle: &Handle, name: &str) -> io::Result<LinkInfo> {
    query::find(handle, name).await?.ok_or_else(|| rustix::io::Errno::NODEV.into())
}

async fn add_address(handle: &Handle, index: u32, address: IpNet) -> io::Result<()> {
    let mut request = handle.address().add(index, address.addr(), address.prefix_len());
    if matches!(address, IpNet::V6(_)) {
        // The address was given to this device by whoever manages addresses: looking for a duplicate would only keep
        // it from being used for a second.
        let flags = AddressAttribute::Flags(AddressFlags::Nodad);
        request.message_mut().attributes.push(flags);
    }
    request.replace().execute().await.map_err(to_io)
}

async fn add_route(handle: &Handle, index: u32, route: HostRoute) -> io::Result<()> {
    let prefix = route.prefix.trunc();
    let message = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(prefix.addr(), prefix.prefix_len())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?
        .output_interface(index);
    let message = match route.via {
        None => message.scope(rtnetlink::packet_route::route::RouteScope::Link),
        Some(via) => {
            let message = message.gateway(via);
            message.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?.onlink()
        }
    };
    handle.route().add(message.build()).replace().execute().await.map_err(to_io)
}
