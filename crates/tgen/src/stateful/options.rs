//! The command line of `quiver-tgen stateful`.

use super::link::{Common, Link, Pending, Place, up};
use super::packet::Framing;
use super::profile::{Profile, Shape};
use super::report::{Report, Second};
use super::run::{Times, run};
use super::side::Face;
use crate::link::LinkError;
use crate::options::{LinkMode, Output};
use crate::placement::pin;
use clap::{Args, ValueEnum};
use core::net::Ipv4Addr;
use memif::{Mode, QueueConfig, RingSize, Secret};
use std::io::{IsTerminal, Write};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wire::MacAddr;

/// Which end of a memif.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum End {
    /// Connect to the socket.
    #[default]
    Client,
    /// Listen on the socket.
    Server,
}

/// Opens connections from clients to servers through a device under test, both ends of which it is, and tells what became
/// of them.
#[derive(Clone, Debug, Args)]
#[command(next_line_help = false)]
pub struct StatefulOptions {
    /// What to run: tcp-cps, udp-cps, tcp-tput, udp-tput, or a TOML file with the same names as the flags.
    #[arg(long, default_value = "tcp-cps", value_name = "NAME|FILE")]
    pub profile: String,
    /// The clients' interface: SOCKET or SOCKET#ID; an abstract socket begins with '@'. Without it there are only servers,
    /// and the clients are somebody else's.
    #[arg(
        long,
        value_name = "SOCKET[#ID]",
        required_unless_present_any = ["in_process", "server_interface"]
    )]
    pub client_interface: Option<String>,
    /// The servers' interface. Without it there are only clients.
    #[arg(long, value_name = "SOCKET[#ID]")]
    pub server_interface: Option<String>,
    /// No device: the two sides at the two ends of one memif in this process.
    #[arg(long = "loop", conflicts_with_all = ["client_interface", "server_interface"])]
    pub in_process: bool,
    /// Which end of the clients' memif to be.
    #[arg(long, value_enum, default_value_t)]
    pub client_role: End,
    /// Which end of the servers' memif to be.
    #[arg(long, value_enum, default_value_t)]
    pub server_role: End,
    /// Network namespace of the clients' abstract socket.
    #[arg(long)]
    pub client_netns: Option<String>,
    /// Network namespace of the servers' abstract socket.
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
    /// Address for which ARP is answered on the clients' side, besides their own: what a device's routes point to.
    #[arg(long)]
    pub client_gateway: Option<Ipv4Addr>,
    /// The same on the servers' side.
    #[arg(long)]
    pub server_gateway: Option<Ipv4Addr>,
    /// What connections to make.
    #[command(flatten)]
    pub shape: Shape,
    /// Seconds in which connections are opened.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Seconds to wait afterwards until all have ended.
    #[arg(long, default_value_t = 3.0)]
    pub drain: f64,
    /// Check whole packets against their checksums; otherwise those of up to 64 bytes.
    #[arg(long)]
    pub verify: bool,
    /// What the interfaces carry.
    #[arg(long, value_enum, default_value_t = LinkMode::Ethernet)]
    pub mode: LinkMode,
    /// Ring size, a power of two from 64 to 16384.
    #[arg(long, default_value_t = 1024)]
    pub ring_size: u32,
    /// Bytes per buffer; longer frames are chained.
    #[arg(long, default_value_t = 2048)]
    pub buffer_size: u32,
    /// Secret of the interfaces.
    #[arg(long)]
    pub secret: Option<String>,
    /// Core to run on. Default: any.
    #[arg(long)]
    pub core: Option<usize>,
    /// Seconds to wait for the interfaces to come up.
    #[arg(long, default_value_t = 10.0)]
    pub wait: f64,
    /// Show each second on standard error. Default: if that is a terminal.
    #[arg(long)]
    pub progress: bool,
    /// Exit status 2 if a connection failed or didn't end.
    #[arg(long)]
    pub strict: bool,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was measured.
    Measured,
    /// Not one connection was established.
    NothingEstablished,
    /// It was to be without a failure, and wasn't.
    Failures,
}

impl StatefulOptions {
    /// Does it all and prints the result.
    ///
    /// # Errors
    /// What kept it from measuring.
    pub fn run(&self, stop: &AtomicBool) -> Result<Verdict, Box<dyn std::error::Error>> {
        let profile = Profile::load(&self.profile, self.shape.clone())?;
        let Links { mut client, mut server, other: _other } = self.links()?;
        if let Some(core) = self.core {
            pin(core).ok_or_else(|| format!("can't run on core {core}"))?;
        }
        let faces = (self.client_face(&profile), self.server_face(&profile));
        let clients = self.in_process || self.client_interface.is_some();
        let times = Times { seconds: self.seconds, drain: self.drain, clients };
        let shown = self.progress || std::io::stderr().is_terminal();
        let mut each_second = |before: &_, after: &_| {
            if shown {
                eprintln!("{}", Second::between(before, after).line());
            }
        };
        let outcome = run(&profile, times, (&mut client, &mut server), faces, stop, &mut each_second)?;
        let report = Report::new(&profile, &outcome);
        match self.output {
            Output::Json => writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?,
            Output::Text => writeln!(std::io::stdout(), "{}", report.text())?,
        }
        let counts = if clients { &report.client } else { &report.server };
        Ok(if counts.established == 0 {
            Verdict::NothingEstablished
        } else if self.strict && counts.closed != counts.attempted {
            Verdict::Failures
        } else {
            Verdict::Measured
        })
    }

    fn client_face(&self, profile: &Profile) -> Face {
        self.face(
            profile,
            self.client_mac,
            self.client_next_hop.unwrap_or(self.server_mac),
            self.client_gateway,
            true,
        )
    }

    fn server_face(&self, profile: &Profile) -> Face {
        self.face(
            profile,
            self.server_mac,
            self.server_next_hop.unwrap_or(self.client_mac),
            self.server_gateway,
            false,
        )
    }

    fn face(
        &self,
        profile: &Profile,
        mac: MacAddr,
        next: MacAddr,
        own: Option<Ipv4Addr>,
        clients: bool,
    ) -> Face {
        let range = if clients { profile.clients } else { profile.servers };
        Face {
            framing: match self.mode {
                LinkMode::Ethernet => Framing::ethernet(mac, next, profile.max_payload),
                LinkMode::Ip => Framing::ip(profile.max_payload),
            },
            mac,
            addresses: range.address_range(),
            own,
            verify: self.verify,
        }
    }

    fn links(&self) -> Result<Links, LinkError> {
        let bad = |what, value: String, reason: String| LinkError::Option { what, value, reason };
        let ring_size = RingSize::from_descriptors(self.ring_size).ok_or_else(|| {
            bad("ring size", self.ring_size.to_string(), "a power of two from 64 to 16384".into())
        })?;
        let queues = QueueConfig { ring_size, buffer_size: self.buffer_size, ..QueueConfig::default() };
        if self.in_process {
            let (client, server) = Link::pair(&queues)?;
            return Ok(Links { client, server, other: None });
        }
        let secret = self
            .secret
            .as_deref()
            .map(|text| Secret::new(text).map_err(|error| bad("secret", "***".into(), error.to_string())));
        let common = Common {
            mode: if self.mode == LinkMode::Ip { Mode::Ip } else { Mode::Ethernet },
            secret: secret.transpose()?,
            queues,
            wait: Duration::from_secs_f64(self.wait.clamp(0.0, 1e6)),
        };
        let place = |name: &String, netns: &Option<String>, role| Place {
            name: name.clone(),
            netns: netns.clone(),
            listen: role == End::Server,
        };
        let pending = |name: &Option<String>, netns, role| {
            name.as_ref().map(|name| Pending::new(&place(name, netns, role), &common)).transpose()
        };
        let client = pending(&self.client_interface, &self.client_netns, self.client_role)?;
        let server = pending(&self.server_interface, &self.server_netns, self.server_role)?;
        // A side that is somebody else's has a link on which nothing ever happens.
        let idle = || {
            Link::pair(&QueueConfig { ring_size: RingSize::MIN, buffer_size: 64, ..QueueConfig::default() })
        };
        Ok(match (client, server) {
            (Some(client), Some(server)) => {
                let (client, server) = up(client, server)?;
                Links { client, server, other: None }
            }
            (Some(client), None) => {
                let (server, other) = idle()?;
                Links { client: client.up()?, server, other: Some(other) }
            }
            (None, server) => {
                let (client, other) = idle()?;
                let server = server.map_or_else(|| idle().map(|(end, _)| end), Pending::up)?;
                Links { client, server, other: Some(other) }
            }
        })
    }
}

/// The two sides' links.
struct Links {
    client: Link,
    server: Link,
    /// The far end of a link that leads nowhere.
    other: Option<Link>,
}
