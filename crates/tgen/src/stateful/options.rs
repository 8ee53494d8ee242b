//! The command line of `quiver-tgen stateful`.

use super::packet::Framing;
use super::profile::{Profile, Shape};
use super::report::{Report, Second};
use super::run::{Times, run};
use super::side::Face;
use crate::link::spec::LinkMode;
use crate::link::{InterfaceSpec, Link, LinkError, MemifLink, MemifSpec, Role};
use crate::options::Output;
use crate::placement::pin;
use clap::Args;
use core::net::Ipv4Addr;
use std::io::{IsTerminal, Write};
use std::sync::atomic::AtomicBool;
use wire::MacAddr;

/// Opens connections from clients to servers through a device under test, both ends of which it is, and tells what became
/// of them.
#[derive(Clone, Debug, Args)]
#[command(next_line_help = false)]
pub struct StatefulOptions {
    /// What to run: tcp-cps, udp-cps, tcp-tput, udp-tput, or a TOML file with the same names as the flags.
    #[arg(long, default_value = "tcp-cps", value_name = "NAME|FILE")]
    pub profile: String,
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
    /// Exit status 3 if a connection failed or didn't end.
    #[arg(long)]
    pub strict: bool,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What kept it from measuring.
#[derive(Debug, thiserror::Error)]
pub enum StatefulError {
    /// The profile isn't one.
    #[error(transparent)]
    Profile(#[from] super::profile::ProfileError),
    /// An option can't be.
    #[error("{0}")]
    Option(String),
    /// An interface can't be had.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The run came to no good end.
    #[error(transparent)]
    Run(#[from] super::run::RunError),
    /// There is no such core.
    #[error("can't run on core {0}: is there one of that number?")]
    Core(usize),
    /// The result could not be written, or signals not be caught.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The result has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
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
    pub fn run(&self, stop: &AtomicBool) -> Result<Verdict, StatefulError> {
        let profile = Profile::load(&self.profile, self.shape.clone())?;
        let Links { mut client, mut server, other: _other } = self.links()?;
        if let Some(core) = self.core {
            pin(core).ok_or(StatefulError::Core(core))?;
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

    fn links(&self) -> Result<Links, StatefulError> {
        let memif = MemifSpec {
            mode: self.mode,
            secret: self.secret.clone(),
            ..MemifSpec::buffers(1, self.ring_size, self.buffer_size)
        };
        let pair = |spec: &MemifSpec| -> Result<(Link, Link), LinkError> {
            let (client, server) = MemifLink::pair(spec)?;
            Ok((Link::Memif(Box::new(client)), Link::Memif(Box::new(server))))
        };
        if self.in_process {
            let (client, server) = pair(&memif)?;
            return Ok(Links { client, server, other: None });
        }
        let spec = |name: &Option<String>, netns: &Option<String>, role| {
            let memif = MemifSpec { role, ..memif.clone() };
            name.as_ref().map(|name| InterfaceSpec::parse(name, netns.as_deref(), &memif)).transpose()
        };
        let client = spec(&self.client_interface, &self.client_netns, self.client_role);
        let client = client.map_err(StatefulError::Option)?;
        let server = spec(&self.server_interface, &self.server_netns, self.server_role);
        let server = server.map_err(StatefulError::Option)?;
        // Both at once: a device may bring up one only after the other.
        let open =
            |spec: &Option<InterfaceSpec>| spec.as_ref().map(|spec| Link::open(spec, self.wait)).transpose();
        let (client, server) = std::thread::scope(|scope| {
            let client = scope.spawn(|| open(&client));
            let server = open(&server);
            (client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), server)
        });
        // A side that is somebody else's has a link on which nothing ever happens.
        let (end, other) = pair(&MemifSpec::buffers(1, 64, 64))?;
        Ok(match (client?, server?) {
            (Some(client), Some(server)) => Links { client, server, other: None },
            (Some(client), None) => Links { client, server: end, other: Some(other) },
            (None, Some(server)) => Links { client: end, server, other: Some(other) },
            (None, None) => return Err(StatefulError::Option("no interface is given".into())),
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
