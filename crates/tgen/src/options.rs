//! The command line.

use crate::link::spec::LinkMode;
use crate::link::{InterfaceSpec, MemifSpec, Role};
use crate::plan::{Check, Content, Interfaces, Plan, Stream};
use crate::stateless::{Echo, Ethernet, Ipv4, Ipv6, Layer, Order, Rate, Setting, Size, Tcp, Udp, Vlan};
use clap::{Parser, ValueEnum};
use core::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use wire::MacAddr;

/// Sends packets to interfaces, receives on all of them, and tells what came through.
///
/// One stream by flags, or any number of them by --profile. Interfaces are memif (SOCKET or SOCKET#ID; an abstract socket
/// begins with '@'), Linux devices (packet:DEVICE) or taps (tap:DEVICE).
///
/// Exit status: 0 it ran, 1 it could not run or an interface was lost, 2 the arguments or the profile are wrong, 3 more was
/// lost than --max-loss.
#[derive(Clone, Debug, Parser)]
#[command(name = "quiver-tgen", version)]
pub struct Options {
    /// Interface to send to.
    #[arg(long, value_name = "INTERFACE", required_unless_present_any = ["profile", "loop"], conflicts_with_all = ["profile", "loop"])]
    pub tx: Option<String>,
    /// Interface to receive from. Default: the one that is sent to.
    #[arg(long, value_name = "INTERFACE", requires = "tx")]
    pub rx: Option<String>,
    /// Both ends of a memif within this process, on one core: what the generator itself can do.
    #[arg(long, conflicts_with = "profile")]
    pub r#loop: bool,
    /// Streams and interfaces from a TOML file. Other flags that say what is sent have no effect then.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Network namespace of the interface that is sent to: a name under /run/netns or a path.
    #[arg(long)]
    pub tx_netns: Option<String>,
    /// Network namespace of the interface that is received from.
    #[arg(long)]
    pub rx_netns: Option<String>,
    /// Send in both directions, the second with source and destination swapped.
    #[arg(long)]
    pub bidirectional: bool,
    /// Frame length in bytes, without FCS: 64, a list (64,512), a range (64-1518) or imix (28×64, 16×570, 4×1518).
    #[arg(long, default_value = "64")]
    pub size: Size,
    /// Frame lengths include the 4 bytes of FCS, which memif doesn't carry: CSIT's convention.
    #[arg(long)]
    pub fcs: bool,
    /// Seconds to send. Default: 5.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Packets per second (1000, 2.5Mpps), bits per second (10Gbps, 10Gbps-l1), or max; in each direction.
    #[arg(long, default_value = "max")]
    pub rate: Rate,
    /// Packets after which to stop, in each direction; 0: when the time is up.
    #[arg(long, default_value_t = 0)]
    pub count: u64,
    /// Source address, IPv4 or IPv6.
    #[arg(long, default_value = "10.0.0.2")]
    pub source: IpAddr,
    /// First destination address, IPv4 or IPv6.
    #[arg(long, default_value = "10.0.1.2")]
    pub destination: IpAddr,
    /// Destinations: addresses counted up from the first, in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub destinations: u32,
    /// Sources: addresses counted up from the first, in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub sources: u32,
    /// Draw addresses and ports of ranges at random instead of taking them in turn.
    #[arg(long)]
    pub random: bool,
    /// What IP carries.
    #[arg(long, value_enum, default_value_t = Protocol::Udp)]
    pub protocol: Protocol,
    /// Source port, or a range of them.
    #[arg(long, default_value = "1024", value_name = "PORT[-PORT]")]
    pub source_port: Ports,
    /// Destination port, or a range of them.
    #[arg(long, default_value = "9", value_name = "PORT[-PORT]")]
    pub destination_port: Ports,
    /// VLAN id; twice for QinQ, outer first.
    #[arg(long, value_name = "ID")]
    pub vlan: Vec<u16>,
    /// Ethernet source.
    #[arg(long, default_value = "02:00:00:00:00:02")]
    pub source_mac: MacAddr,
    /// Ethernet destination: the interface's own address where the device under test routes.
    #[arg(long, default_value = "02:00:00:00:00:01")]
    pub destination_mac: MacAddr,
    /// Ethernet source of the other direction. Default: the destination.
    #[arg(long)]
    pub reverse_source_mac: Option<MacAddr>,
    /// Ethernet destination of the other direction. Default: the source.
    #[arg(long)]
    pub reverse_destination_mac: Option<MacAddr>,
    /// Replay this capture (pcap, pcapng) instead.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Replay it at the times of the capture instead of --rate.
    #[arg(long, requires = "pcap")]
    pub original_timing: bool,
    /// How often to replay it; 0: until the time is up.
    #[arg(long, default_value_t = 1)]
    pub repeat: u64,
    /// Besides, this many packets per second with timestamps, to measure latency; in each direction.
    #[arg(long, value_name = "PPS")]
    pub latency: Option<f64>,
    /// What to look at in what comes back: frames, their sequence numbers, or also their payload. Default: count.
    #[arg(long, value_enum)]
    pub check: Option<Check>,
    /// Seed of all that is random. Default: 1.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write and read every byte of every packet. Otherwise bytes that stay the same are written once per buffer, and the
    /// first word is read.
    #[arg(long)]
    pub full: bool,
    /// What the interfaces carry.
    #[arg(long, value_enum, default_value_t = LinkMode::Ethernet)]
    pub mode: LinkMode,
    /// Which end of memifs we are.
    #[arg(long, value_enum, default_value_t = Role::Client)]
    pub role: Role,
    /// Queues in each direction.
    #[arg(long, default_value_t = 1)]
    pub queues: u16,
    /// Ring size, a power of two from 64 to 16384.
    #[arg(long, default_value_t = 1024)]
    pub ring_size: u32,
    /// Bytes per buffer; longer frames are chained.
    #[arg(long, default_value_t = 2048)]
    pub buffer_size: u32,
    /// Secret that the server asks for.
    #[arg(long)]
    pub secret: Option<String>,
    /// Core to run on. Default: any.
    #[arg(long)]
    pub core: Option<usize>,
    /// Core of the device under test, to measure the way to it before and after.
    #[arg(long)]
    pub peer_core: Option<usize>,
    /// Seconds to wait for the interfaces to come up. Default: 10.
    #[arg(long)]
    pub wait: Option<f64>,
    /// Seconds of silence after which no more packets are waited for. Default: 0.5.
    #[arg(long)]
    pub drain: Option<f64>,
    /// Exit with status 3 if a greater share of the packets is lost: 0.005 is half a percent.
    #[arg(long, value_name = "SHARE")]
    pub max_loss: Option<f64>,
    /// Print what is going on each second, also where standard error is no terminal.
    #[arg(long)]
    pub progress: bool,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What IP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP segments, without connections.
    Tcp,
    /// Echo requests.
    Icmp,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A few lines.
    Text,
    /// One JSON object.
    Json,
}

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(u16, u16);

impl core::str::FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| {
            text.parse().map_err(|_| {
                format!("{text:?} is no port: give a number from 0 to 65535, or two with a - between")
            })
        };
        let (from, to) = (port(from)?, port(to)?);
        if from > to {
            Err(format!("{from}-{to}: the first port is greater; swap them"))
        } else {
            Ok(Self(from, to))
        }
    }
}

/// Two ends of a stream.
struct Ends {
    macs: (MacAddr, MacAddr),
    addresses: ((IpAddr, u32), (IpAddr, u32)),
    ports: (Ports, Ports),
}

impl Options {
    /// What to do.
    ///
    /// # Errors
    /// What is wrong with the options or the profile.
    pub fn plan(&self) -> Result<Plan, String> {
        let mut plan = match &self.profile {
            Some(path) => crate::profile::read(path).map_err(|error| error.to_string())?,
            None => self.flags()?,
        };
        for (field, value) in [("seconds", self.seconds), ("wait", self.wait), ("drain", self.drain)] {
            if value.is_some_and(|value| !(0.0..1e9).contains(&value)) {
                return Err(format!("--{field}: it must be 0 to 1000000000"));
            }
        }
        plan.seconds = self.seconds.unwrap_or(plan.seconds);
        plan.wait = self.wait.unwrap_or(plan.wait);
        plan.drain = self.drain.unwrap_or(plan.drain);
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.check = self.check.unwrap_or(plan.check);
        plan.full |= self.full;
        plan.checked()
    }

    fn flags(&self) -> Result<Plan, String> {
        let memif = MemifSpec {
            role: self.role,
            mode: self.mode,
            secret: self.secret.clone(),
            ..MemifSpec::buffers(self.queues, self.ring_size, self.buffer_size)
        };
        let interfaces = match &self.tx {
            None => Interfaces::Loop(memif),
            Some(tx) => {
                let mut all = vec![InterfaceSpec::parse(tx, self.tx_netns.as_deref(), &memif)?];
                if let Some(rx) = &self.rx {
                    all.push(InterfaceSpec::parse(rx, self.rx_netns.as_deref(), &memif)?);
                }
                Interfaces::Named(all)
            }
        };
        let two = self.r#loop || self.rx.is_some();
        let mut streams = self.direction("forward", 0, &self.forward())?;
        if self.bidirectional {
            streams.extend(self.direction("reverse", usize::from(two), &self.reverse())?);
        }
        Ok(Plan {
            interfaces,
            streams,
            seconds: 5.0,
            check: Check::Count,
            seed: 1,
            full: false,
            fcs: self.fcs,
            drain: 0.5,
            wait: 10.0,
        })
    }

    const fn forward(&self) -> Ends {
        Ends {
            macs: (self.source_mac, self.destination_mac),
            addresses: ((self.source, self.sources), (self.destination, self.destinations)),
            ports: (self.source_port, self.destination_port),
        }
    }

    fn reverse(&self) -> Ends {
        let Ends { macs, addresses, ports } = self.forward();
        Ends {
            macs: (self.reverse_source_mac.unwrap_or(macs.1), self.reverse_destination_mac.unwrap_or(macs.0)),
            addresses: (addresses.1, addresses.0),
            ports: (ports.1, ports.0),
        }
    }

    /// The streams of a direction: packets, and those that measure latency.
    fn direction(&self, name: &str, tx: usize, ends: &Ends) -> Result<Vec<Stream>, String> {
        let content = match &self.pcap {
            Some(path) => Content::Capture {
                path: path.clone(),
                original_timing: self.original_timing,
                repeat: self.repeat,
            },
            None => Content::Made { stack: self.stack(ends)?, size: self.size.clone() },
        };
        let main = Stream {
            name: name.into(),
            tx,
            queue: None,
            content,
            rate: self.rate,
            count: self.count,
            latency: false,
        };
        let mut streams = vec![main];
        if let Some(pps) = self.latency {
            if !(pps > 0.0 && pps.is_finite()) {
                return Err(format!("--latency {pps}: it must be more than 0 packets per second"));
            }
            let stack = self.stack(ends)?;
            // Where frames are too short for a timestamp, these are a little longer.
            let headers: usize = stack.iter().map(Layer::len).sum();
            let least = headers + crate::stateless::STAMPED_LEN + if self.fcs { 4 } else { 0 };
            let size = Size::Fixed(least.max(if let Size::Fixed(size) = self.size { size } else { 0 }));
            let content = Content::Made { stack, size };
            let (name, rate) = (format!("{name}-latency"), Rate::Packets(pps));
            streams.push(Stream { name, tx, queue: Some(0), content, rate, count: 0, latency: true });
        }
        Ok(streams)
    }

    fn stack(&self, ends: &Ends) -> Result<Vec<Layer>, String> {
        let mut stack = Vec::new();
        if self.mode == LinkMode::Ethernet {
            let (src, dst) = (Setting::fixed(ends.macs.0), Setting::fixed(ends.macs.1));
            stack.push(Layer::Ethernet(Ethernet { dst, src }));
        }
        for (n, id) in self.vlan.iter().enumerate() {
            let service = n + 1 < self.vlan.len();
            stack.push(Layer::Vlan(Vlan { id: Setting::fixed(*id), priority: 0, service }));
        }
        let ((src, sources), (dst, destinations)) = ends.addresses;
        let v4 = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let range = |first: Ipv4Addr, count: u32| {
                    let last = u32::from(first).checked_add(count - 1);
                    let last = last.ok_or_else(|| {
                        format!("{count} addresses from {first} on go beyond 255.255.255.255")
                    })?;
                    self.range(first, Ipv4Addr::from(last))
                };
                stack.push(Layer::Ipv4(Ipv4::new(range(src, sources)?, range(dst, destinations)?)));
                true
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let range = |first: core::net::Ipv6Addr, count: u32| {
                    self.range(first, u128::from(first).saturating_add(u128::from(count - 1)).into())
                };
                stack.push(Layer::Ipv6(Ipv6::new(range(src, sources)?, range(dst, destinations)?)));
                false
            }
            _ => {
                return Err(format!(
                    "--source {src} and --destination {dst}: give two of IPv4 or two of IPv6"
                ));
            }
        };
        let (src, dst) = ends.ports;
        let ports = |ports: Ports| self.range(ports.0, ports.1);
        stack.push(match (self.protocol, v4) {
            (Protocol::Udp, _) => Layer::Udp(Udp { src: ports(src)?, dst: ports(dst)? }),
            (Protocol::Tcp, _) => Layer::Tcp(Tcp::new(ports(src)?, ports(dst)?)),
            (Protocol::Icmp, true) => Layer::Icmp(Echo::default()),
            (Protocol::Icmp, false) => Layer::Icmpv6(Echo::default()),
        });
        Ok(stack)
    }

    fn range<T: crate::stateless::Number + PartialEq>(&self, from: T, to: T) -> Result<Setting<T>, String> {
        if from == to {
            return Ok(Setting::fixed(from));
        }
        Setting::range(from, to, 1, if self.random { Order::Random } else { Order::Inc })
    }
}
