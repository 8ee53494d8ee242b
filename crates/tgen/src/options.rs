//! The command line.

use clap::{Parser, ValueEnum};
use core::net::Ipv4Addr;
use wire::MacAddr;

/// Sends IPv4/UDP packets to one memif interface, receives on another (or the same), and tells what came through.
#[derive(Clone, Debug, Parser)]
#[command(name = "quiver-tgen", version)]
pub struct Options {
    /// Interface to send to: SOCKET or SOCKET#ID; an abstract socket begins with '@'.
    #[arg(long, value_name = "SOCKET[#ID]")]
    pub tx: String,
    /// Interface to receive from. Default: the one that is sent to.
    #[arg(long, value_name = "SOCKET[#ID]")]
    pub rx: Option<String>,
    /// Network namespace of the abstract socket that is sent to: a name under /run/netns or a path.
    #[arg(long)]
    pub tx_netns: Option<String>,
    /// Network namespace of the abstract socket that is received from.
    #[arg(long)]
    pub rx_netns: Option<String>,
    /// Frame length in bytes, without checksum (FCS).
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(42..=16000))]
    pub size: u16,
    /// Seconds to send.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Packets per second; 0: as many as can be.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Packets after which to stop; 0: when the time is up.
    #[arg(long, default_value_t = 0)]
    pub count: u64,
    /// Source address.
    #[arg(long, default_value = "10.0.0.2")]
    pub source: Ipv4Addr,
    /// First destination address.
    #[arg(long, default_value = "10.0.1.2")]
    pub destination: Ipv4Addr,
    /// Destinations: addresses counted up from the first, in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub destinations: u32,
    /// Ethernet source.
    #[arg(long, default_value = "02:00:00:00:00:02")]
    pub source_mac: MacAddr,
    /// Ethernet destination: the interface's own address where the device under test routes.
    #[arg(long, default_value = "02:00:00:00:00:01")]
    pub destination_mac: MacAddr,
    /// What the interfaces carry.
    #[arg(long, value_enum, default_value_t = LinkMode::Ethernet)]
    pub mode: LinkMode,
    /// Write and read every byte of every packet; otherwise the first line is written and a word is read.
    #[arg(long)]
    pub full: bool,
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
    /// Seconds to wait for the interfaces to come up.
    #[arg(long, default_value_t = 10.0)]
    pub wait: f64,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What a memif buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinkMode {
    /// An Ethernet frame.
    Ethernet,
    /// An IP packet.
    Ip,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A few lines.
    Text,
    /// One JSON object.
    Json,
}
