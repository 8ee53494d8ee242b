//! The command line.

mod addresses;
mod link;
mod streams;

pub use link::{LinkOptions, WAIT, seconds};

use crate::link::Role;
use crate::plan::Check;
use crate::stateless::{Rate, Size};
use clap::{Parser, ValueEnum};
use core::net::IpAddr;
use std::path::PathBuf;
use wire::MacAddr;

/// Flags that say what packets are made of.
const MADE: [&str; 19] = [
    "size",
    "fcs",
    "source",
    "destination",
    "destinations",
    "destination_list",
    "sources",
    "random",
    "protocol",
    "source_port",
    "destination_port",
    "vlan",
    "source_mac",
    "destination_mac",
    "reverse_source_mac",
    "reverse_destination_mac",
    "source_macs",
    "destination_macs",
    "latency",
];

/// Other flags whose place a profile takes.
const IN_PROFILE: [&str; 14] = [
    "tx_netns",
    "rx_netns",
    "bidirectional",
    "rate",
    "count",
    "pcap",
    "original_timing",
    "repeat",
    "role",
    "queues",
    "mode",
    "ring_size",
    "buffer_size",
    "secret",
];

/// What to send and where, from the command line.
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
    /// Streams and interfaces from a TOML file, instead of the flags that say what is sent.
    #[arg(long, value_name = "FILE", conflicts_with_all = IN_PROFILE, conflicts_with_all = MADE)]
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
    /// Seconds to send. Default: 5, or until all packets are sent where --count, or a capture, says how many.
    #[arg(long, allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// Packets per second (1000, 2.5Mpps), bits per second (10Gbps, 10Gbps-l1), or max (also 0); in each direction.
    #[arg(long, default_value = "max", allow_hyphen_values = true)]
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
    /// Send to the addresses in this file in turn, one a line, instead: all of them IPv4 or all IPv6. What follows a `#` is left out.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["destination", "destinations"])]
    pub destination_list: Option<PathBuf>,
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
    /// Put a VLAN tag with this id, 0 to 4095, in front of IP. Given twice (--vlan 10 --vlan 20): 802.1ad with the first outside,
    /// 802.1Q with the second inside.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(..=4095))]
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
    /// Stations that send: Ethernet sources counted up from the first, in turn. In the other direction they are those that are sent to.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub source_macs: u32,
    /// Stations that are sent to: Ethernet destinations counted up from the first, in turn.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub destination_macs: u32,
    /// Replay this capture (pcap, pcapng) instead, as it is: no flag that says what packets are made of goes with it.
    #[arg(long, value_name = "FILE", conflicts_with_all = MADE)]
    pub pcap: Option<PathBuf>,
    /// Replay it at the times of the capture instead of --rate.
    #[arg(long, requires = "pcap", conflicts_with = "rate")]
    pub original_timing: bool,
    /// How often to replay it; 0: until the time is up. Default: 1.
    #[arg(long, requires = "pcap")]
    pub repeat: Option<u64>,
    /// Besides, this many packets per second with timestamps, to measure latency; in each direction.
    #[arg(long, value_name = "PPS", value_parser = packets_per_second)]
    pub latency: Option<f64>,
    /// What to look at in what comes back: frames, their sequence numbers, or also their payload. Default: count.
    #[arg(long, value_enum)]
    pub check: Option<Check>,
    /// Seed of all that is random, and of the number of the run in signatures: the same seed, the same bytes. Default: 1, and a
    /// number for each run, which tells its packets from those of an earlier one.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write and read every byte of every packet. Otherwise bytes that stay the same are written once per buffer, and the
    /// first word is read.
    #[arg(long)]
    pub full: bool,
    /// Which end of memifs we are.
    #[arg(long, value_enum, default_value_t = Role::Client)]
    pub role: Role,
    /// Queues in each direction.
    #[arg(long, default_value_t = 1)]
    pub queues: u16,
    /// Interfaces.
    #[command(flatten)]
    pub link: LinkOptions,
    /// Core of the device under test, to measure the way to it before and after.
    #[arg(long)]
    pub peer_core: Option<usize>,
    /// Never catch up: a packet more than so many seconds behind its time isn't sent, but counted as missed. Default: all are
    /// sent, however late.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub max_late: Option<f64>,
    /// Seconds of silence after which no more packets are waited for. Default: 0.5.
    #[arg(long, allow_negative_numbers = true)]
    pub drain: Option<f64>,
    /// Exit with status 3 if a greater share of the packets is lost, or not sent though --rate asked for them: 0.005 is half a
    /// percent. Status 1 if nothing was sent.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub max_loss: Option<f64>,
    /// Print what is going on each second, also where standard error is no terminal.
    #[arg(long)]
    pub progress: bool,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Packets per second, more than 0.
fn packets_per_second(text: &str) -> Result<f64, String> {
    match text.parse()? {
        Rate::Packets(pps) => Ok(pps),
        _ => Err(format!("{text:?}: give packets per second, more than 0 (9000, 10kpps)")),
    }
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
