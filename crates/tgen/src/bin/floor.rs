//! `quiver-floor`: the least that the memif library here can do for a packet, to hold a dataplane on it against.
//!
//! A memif server on two sockets and a bare loop between their rings: heads into private slots, one field changed
//! (IPv4 TTL and checksum, or IPv6 hop limit; in other frames nothing), head and body out into the other ring: one copy. No graph, no
//! tables, no counters but one.

#![forbid(unsafe_code)]

use clap::Parser;
use memif::io::{Address, Listener, ListenerSettings, ServerEvent};
use memif::{Connection, InterfaceError, QueueError, RxQueue, ServerConfig, TxQueue};
use memory::packet::{Packets, SlotId};
use memory::simd::{Simd, Tier, TierTask};
use quiver_tgen::placement;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::{EtherType, EthernetHeader, Header};

/// Forwards every packet from one memif interface to another with one copy, in a bare loop.
#[derive(Debug, Parser)]
#[command(name = "quiver-floor", version)]
struct Options {
    /// Socket to listen on for the side that is received from (interface id 0).
    #[arg(long)]
    rx: String,
    /// Socket to listen on for the side that is sent to (interface id 0).
    #[arg(long)]
    tx: String,
    /// Forward from the second to the first, too.
    #[arg(long)]
    bidirectional: bool,
    /// Core to run on.
    #[arg(long)]
    core: Option<usize>,
}

/// Positions of the Ethernet header and of what is behind it, in the head area.
const ETHERNET: u16 = memory::packet::HEADROOM as u16;
const IP: u16 = ETHERNET + EthernetHeader::LEN as u16;

fn main() -> ExitCode {
    match forward(&Options::parse()) {
        Ok(packets) => {
            println!("{packets} packets forwarded");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quiver-floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn forward(options: &Options) -> Result<u64, Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut rx = Side::listen(&options.rx)?;
    let mut tx = Side::listen(&options.tx)?;
    if let Some(core) = options.core {
        placement::pin(core).ok_or_else(|| format!("can't run on core {core}"))?;
    }
    let mut packets = 0;
    while !stop.load(Ordering::Relaxed) {
        rx.process()?;
        tx.process()?;
        match (&mut rx.connection, &mut tx.connection) {
            (Some(from), Some(to)) => {
                let back = options.bidirectional.then_some((to.rx.as_mut_slice(), from.tx.as_mut_slice()));
                let work = Loop { there: (&mut from.rx, &mut to.tx), back, stop: &stop };
                match Tier::detect().dispatch(work) {
                    Ok(n) => packets += n,
                    Err(error) => eprintln!("quiver-floor: a peer broke the protocol: {error}"),
                }
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(packets)
}

/// One listening socket and its connection.
struct Side {
    listener: Listener,
    connection: Option<Connection>,
}

impl Side {
    fn listen(socket: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let Ok(address) = socket.parse::<Address>();
        let mut listener = Listener::bind(&address, ListenerSettings::default())?;
        listener.register(0, ServerConfig { name: "floor".into(), ..ServerConfig::default() })?;
        Ok(Self { listener, connection: None })
    }

    fn process(&mut self) -> Result<(), InterfaceError> {
        for event in self.listener.process(Instant::now())? {
            match event {
                ServerEvent::Connected(connection) => self.connection = Some(connection),
                ServerEvent::Disconnected { .. } => self.connection = None,
                ServerEvent::Refused { reason, .. } => {
                    eprintln!("quiver-floor: a peer was refused: {reason}")
                }
                ServerEvent::NotAccepting { error } => {
                    eprintln!("quiver-floor: no peer can be accepted: {error}")
                }
            }
        }
        Ok(())
    }
}

/// The loop, for a slice of time: then the control channels are looked at.
struct Loop<'a> {
    there: Way<'a>,
    back: Option<Way<'a>>,
    stop: &'a AtomicBool,
}

/// The queues of a direction: received from, sent to.
type Way<'a> = (&'a mut [RxQueue], &'a mut [TxQueue]);

impl TierTask for Loop<'_> {
    type Output = Result<u64, QueueError>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let (Some(from), Some(to)) = (self.there.0.first_mut(), self.there.1.first_mut()) else {
            return Ok(0);
        };
        let mut back = self.back.and_then(|(from, to)| Some((from.first_mut()?, to.first_mut()?)));
        let mut packets = Packets::new();
        let mut slots: Vec<SlotId> = Vec::with_capacity(256);
        let mut forwarded = 0;
        let end = Instant::now() + Duration::from_millis(100);
        while !self.stop.load(Ordering::Relaxed) && Instant::now() < end {
            for _ in 0..64 {
                forwarded += burst(simd, from, to, &mut packets, &mut slots)?;
                if let Some((from, to)) = &mut back {
                    forwarded += burst(simd, from, to, &mut packets, &mut slots)?;
                }
            }
        }
        Ok(forwarded)
    }
}

/// Receives up to 256 packets, changes a field of each, and sends them.
#[inline(always)]
fn burst<S: Simd>(
    simd: S,
    from: &mut RxQueue,
    to: &mut TxQueue,
    packets: &mut Packets,
    slots: &mut Vec<SlotId>,
) -> Result<u64, QueueError> {
    let (range, _) = from.receive_packets(simd, packets, 1, 256)?;
    slots.clear();
    slots.extend(range.map(|slot| slot as SlotId));
    simd.run(
        #[inline(always)]
        || {
            for slot in &*slots {
                let ethertype =
                    packets.header::<EthernetHeader>(*slot, ETHERNET).map(|header| header.ethertype);
                if ethertype == Some(EtherType::IPV4) {
                    if let Some(ip) = packets.header_mut::<Ipv4Header>(*slot, IP) {
                        ip.decrement_ttl();
                    }
                } else if ethertype == Some(EtherType::IPV6)
                    && let Some(ip) = packets.header_mut::<Ipv6Header>(*slot, IP)
                {
                    ip.decrement_hop_limit();
                }
            }
        },
    );
    let sent = to.transmit_packets(simd, packets, slots)?;
    to.notify();
    from.release();
    packets.end_round();
    Ok(sent.packets as u64)
}
