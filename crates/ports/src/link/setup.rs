//! Setting a device up.

use super::netlink::{self, to_io};
use super::query::{self, LinkInfo};
use crate::PortError;
use crate::netns::Netns;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use rustix::io::Errno;
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

impl LinkOptions {
    /// What `former` gave a device and these don't: addresses and routes.
    fn withdrawn(&self, former: &Self) -> (Vec<IpNet>, Vec<HostRoute>) {
        let addresses = former.addresses.iter().filter(|address| !self.addresses.contains(address));
        // A route to the same prefix replaces the former one.
        let kept = |route: &HostRoute| self.routes.iter().any(|other| other.prefix == route.prefix);
        let routes = former.routes.iter().filter(|route| !kept(route));
        (addresses.copied().collect(), routes.copied().collect())
    }
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
    change(netns, name, &LinkOptions::default(), options)
}

/// As [`configure`], and takes away the addresses and routes that were given to it by `former` and that `options` don't
/// give. What somebody else has given it stays.
///
/// # Errors
/// As for [`configure`]; then a part may have been changed.
pub fn change(
    netns: &Netns,
    name: &str,
    former: &LinkOptions,
    options: &LinkOptions,
) -> Result<LinkInfo, PortError> {
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
        // First of all: with an address the kernel removes those behind it in the same network, and with the last one all
        // routes.
        let (addresses, routes) = options.withdrawn(former);
        for route in routes {
            let gone = remove_route(&handle, info.index, route).await;
            gone.map_err(system(format!("remove the route to {}", route.prefix)))?;
        }
        for address in addresses {
            let gone = remove_address(&handle, info.index, address).await;
            gone.map_err(system(format!("remove address {address}")))?;
        }
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
    query::find(handle, name).await?.ok_or_else(|| Errno::NODEV.into())
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

/// Removes an address; that it isn't there any more is no error.
async fn remove_address(handle: &Handle, index: u32, address: IpNet) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = address.prefix_len();
    message.header.family = match address {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    };
    message.attributes =
        vec![AddressAttribute::Local(address.addr()), AddressAttribute::Address(address.addr())];
    unless_gone(handle.address().del(message).execute().await)
}

/// Removes a route; that it isn't there any more is no error.
async fn remove_route(handle: &Handle, index: u32, route: HostRoute) -> io::Result<()> {
    unless_gone(handle.route().del(route_message(index, route)?).execute().await)
}

fn unless_gone(result: Result<(), rtnetlink::Error>) -> io::Result<()> {
    const GONE: [Errno; 2] = [Errno::ADDRNOTAVAIL, Errno::SRCH];
    match result.map_err(to_io) {
        Err(error) if GONE.iter().any(|gone| error.raw_os_error() == Some(gone.raw_os_error())) => Ok(()),
        result => result,
    }
}

async fn add_route(handle: &Handle, index: u32, route: HostRoute) -> io::Result<()> {
    handle.route().add(route_message(index, route)?).replace().execute().await.map_err(to_io)
}

fn route_message(index: u32, route: HostRoute) -> io::Result<RouteMessage> {
    let invalid =
        |error: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
    let prefix = route.prefix.trunc();
    let message = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(prefix.addr(), prefix.prefix_len())
        .map_err(|error| invalid(&error))?
        .output_interface(index);
    let message = match route.via {
        None => message.scope(RouteScope::Link),
        Some(via) => message.gateway(via).map_err(|error| invalid(&error))?.onlink(),
    };
    Ok(message.build())
}
