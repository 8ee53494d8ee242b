//! The interfaces of the two sides, on the command line.

use super::address::Address;
use super::options::StatefulError;
use super::packet::Framing;
use super::profile::Ends;
use super::side::Face;
use crate::link::spec::LinkMode;
use crate::link::{InterfaceSpec, Link, MemifSpec, Role};
use crate::options::{LinkOptions, WAIT, seconds};
use crate::placement::pin;
use clap::Args;
use core::net::IpAddr;
use std::sync::atomic::AtomicBool;
use wire::MacAddr;

/// Where clients and servers are, and how they show themselves.
#[derive(Clone, Debug, Args)]
pub struct Interfaces {
    /// The clients' interface: SOCKET or SOCKET#ID (a memif; an abstract socket begins with '@'), packet:DEVICE or
    /// tap:DEVICE. Without it there are only servers,
    /// and the clients are somebody else's.
    #[arg(
        long,
        value_name = "INTERFACE",
        required_unless_present_any = ["in_process", "server_interface"]
    )]
    pub client_interface: Option<String>,
    /// The servers' interface. Without it there are only clients.
    #[arg(long, value_name = "INTERFACE")]
    pub server_interface: Option<String>,
    /// No device: the two sides at the two ends of one memif in this process.
    #[arg(long = "loop", conflicts_with_all = ["client_interface", "server_interface"])]
    pub in_process: bool,
    /// Which end of the clients' memif to be.
    #[arg(long, value_enum, default_value_t)]
    pub client_role: Role,
    /// Which end of the servers' memif to be.
    #[arg(long, value_enum, default_value_t)]
    pub server_role: Role,
    /// Network namespace of the clients' interface: a name under /run/netns or a path.
    #[arg(long)]
    pub client_netns: Option<String>,
    /// Network namespace of the servers' interface.
    #[arg(long)]
    pub server_netns: Option<String>,
    /// Ethernet address of the clients.
    #[arg(long, default_value = "02:00:00:00:00:02")]
    pub client_mac: MacAddr,
    /// Ethernet address of the servers.
    #[arg(long, default_value = "02:00:00:00:00:03")]
    pub server_mac: MacAddr,
    /// Where clients send to: the device's address where it routes. Default: the servers.
    #[arg(long)]
    pub client_next_hop: Option<MacAddr>,
    /// Where servers send to. Default: the clients.
    #[arg(long)]
    pub server_next_hop: Option<MacAddr>,
    /// Address for which ARP or neighbour discovery is answered on the clients' side, besides their own: what a device's
    /// routes point to.
    #[arg(long)]
    pub client_gateway: Option<IpAddr>,
    /// The same on the servers' side.
    #[arg(long)]
    pub server_gateway: Option<IpAddr>,
    /// What they have in common.
    #[command(flatten)]
    pub link: LinkOptions,
}

impl Interfaces {
    /// Whether the clients are ours.
    #[must_use]
    pub const fn has_clients(&self) -> bool {
        self.in_process || self.client_interface.is_some()
    }

    /// Whether one side is somebody else's.
    #[must_use]
    pub const fn is_one_sided(&self) -> bool {
        !self.in_process && (self.client_interface.is_none() || self.server_interface.is_none())
    }

    /// What to try where nothing came through: flags that a device that routes needs, and that weren't given. Else nothing.
    #[must_use]
    pub fn next_hops_missing(&self) -> String {
        let sides = [
            ("--client-next-hop", &self.client_interface, self.client_next_hop),
            ("--server-next-hop", &self.server_interface, self.server_next_hop),
        ];
        let missing = sides.iter().filter(|(_, interface, given)| interface.is_some() && given.is_none());
        let flags: Vec<_> = missing.map(|(flag, ..)| *flag).collect();
        if flags.is_empty() || self.link.mode == LinkMode::Ip {
            return String::new();
        }
        format!(": a device that routes takes frames for its own addresses only ({})", flags.join(", "))
    }

    /// Goes to the core that is asked for, if one is.
    ///
    /// # Errors
    /// [`StatefulError::Core`] where it can't be had.
    pub fn pin(&self) -> Result<(), StatefulError> {
        match self.link.core {
            Some(core) => pin(core).ok_or(StatefulError::Core(core)),
            None => Ok(()),
        }
    }

    /// How the clients and the servers show themselves, with these addresses and payloads of up to `max_payload` bytes.
    ///
    /// # Errors
    /// [`StatefulError::Option`] where a gateway has another version of IP.
    pub fn faces<A: Address>(
        &self,
        ends: &Ends<A>,
        max_payload: usize,
        verify: bool,
    ) -> Result<(Face<A>, Face<A>), StatefulError> {
        let face = |mac, next, addresses, gateway: Option<IpAddr>| {
            let own = match gateway.map(|gateway| A::of(gateway).ok_or(gateway)).transpose() {
                Ok(own) => own,
                Err(gateway) => {
                    let what =
                        format!("gateway {gateway} has another version of IP than clients and servers");
                    return Err(StatefulError::Option(what));
                }
            };
            let framing = match self.link.mode {
                LinkMode::Ethernet => Framing::ethernet::<A>(mac, next, max_payload),
                LinkMode::Ip => Framing::ip::<A>(max_payload),
            };
            Ok(Face { framing, mac, addresses, own, verify })
        };
        let (client, server) = (self.client_mac, self.server_mac);
        let (clients, servers) = (ends.clients.address_range(), ends.servers.address_range());
        Ok((
            face(client, self.client_next_hop.unwrap_or(server), clients, self.client_gateway)?,
            face(server, self.server_next_hop.unwrap_or(client), servers, self.server_gateway)?,
        ))
    }

    /// Brings up the links, or gives up once `stop` is set.
    ///
    /// # Errors
    /// [`StatefulError::Option`], [`StatefulError::Link`].
    pub fn open(&self, stop: &AtomicBool) -> Result<Links, StatefulError> {
        let wait = seconds("wait", self.link.wait.unwrap_or(WAIT)).map_err(StatefulError::Option)?;
        if self.in_process {
            let (client, server) = Link::pair(&self.link.memif(Role::Client, 1))?;
            return Ok(Links { client, server, other: None });
        }
        let spec = |name: &Option<String>, netns: &Option<String>, role| {
            let memif = self.link.memif(role, 1);
            name.as_ref().map(|name| InterfaceSpec::parse(name, netns.as_deref(), &memif)).transpose()
        };
        let client = spec(&self.client_interface, &self.client_netns, self.client_role);
        let client = client.map_err(StatefulError::Option)?;
        let server = spec(&self.server_interface, &self.server_netns, self.server_role);
        let server = server.map_err(StatefulError::Option)?;
        // Both at once: a device may bring up one only after the other.
        let open =
            |spec: &Option<InterfaceSpec>| spec.as_ref().map(|spec| Link::open(spec, wait, stop)).transpose();
        let (client, server) = std::thread::scope(|scope| {
            let client = scope.spawn(|| open(&client));
            let server = open(&server);
            (client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), server)
        });
        // A side that is somebody else's has a link on which nothing ever happens.
        let (end, other) = Link::pair(&MemifSpec::buffers(1, 64, 64))?;
        Ok(match (client?, server?) {
            (Some(client), Some(server)) => Links { client, server, other: None },
            (Some(client), None) => Links { client, server: end, other: Some(other) },
            (None, Some(server)) => Links { client: end, server, other: Some(other) },
            (None, None) => return Err(StatefulError::Option("no interface is given".into())),
        })
    }
}

/// The two sides' links.
#[derive(Debug)]
pub struct Links {
    /// The clients' side.
    pub client: Link,
    /// The servers' side.
    pub server: Link,
    /// The far end of a link that leads nowhere.
    pub other: Option<Link>,
}
