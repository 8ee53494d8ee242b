//! What flags ask for: interfaces and streams.

use super::addresses::{self, Addresses};
use super::{Options, Ports, Protocol, WAIT, seconds};
use crate::link::InterfaceSpec;
use crate::link::spec::LinkMode;
use crate::plan::{Arrival, Check, Content, Interfaces, Plan, Stream};
use crate::stateless::{Echo, Ethernet, Ipv4, Ipv6, Layer, Number, Rate, Setting, Size, Tcp, Udp, Vlan};
use wire::MacAddr;

/// Two ends of a stream.
struct Ends {
    macs: ((MacAddr, u32), (MacAddr, u32)),
    addresses: (Addresses, Addresses),
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
        for (flag, value, of) in [
            ("seconds", self.seconds, &mut plan.seconds),
            ("wait", self.link.wait, &mut plan.wait),
            ("drain", self.drain, &mut plan.drain),
        ] {
            if let Some(value) = value {
                *of = seconds(flag, value)?;
            }
        }
        if let Some(value) = self.max_late {
            plan.max_late = Some(seconds("max-late", value)?);
        }
        if let Some(share) = self.max_loss.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("--max-loss {share}: it must be 0 to 1, where 0.005 is half a percent"));
        }
        if self.seed.is_some() {
            (plan.seed, plan.run) = Plan::seed_and_run(self.seed);
        }
        plan.check = self.check.unwrap_or(plan.check);
        plan.full |= self.full;
        plan.checked()
    }

    fn flags(&self) -> Result<Plan, String> {
        let memif = self.link.memif(self.role, self.queues);
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
        let forward = self.forward()?;
        let mut streams = self.direction("forward", (0, usize::from(two)), &forward)?;
        if self.bidirectional {
            streams.extend(self.direction("reverse", (usize::from(two), 0), &self.reverse(forward))?);
        }
        let (seed, run) = Plan::seed_and_run(self.seed);
        Ok(Plan {
            interfaces,
            seconds: Plan::seconds(self.seconds, &streams),
            streams,
            check: Check::Count,
            seed,
            run,
            full: false,
            fcs: self.fcs,
            max_late: None,
            drain: 0.5,
            wait: WAIT,
        })
    }

    fn forward(&self) -> Result<Ends, String> {
        let destinations = match &self.destination_list {
            Some(path) => Addresses::read(path)?,
            None => Addresses::counted(self.destination, self.destinations, self.random)?,
        };
        Ok(Ends {
            macs: ((self.source_mac, self.source_macs), (self.destination_mac, self.destination_macs)),
            addresses: (Addresses::counted(self.source, self.sources, self.random)?, destinations),
            ports: (self.source_port, self.destination_port),
        })
    }

    fn reverse(&self, forward: Ends) -> Ends {
        let Ends { macs, addresses, ports } = forward;
        Ends {
            macs: (
                (self.reverse_source_mac.unwrap_or(macs.1.0), macs.1.1),
                (self.reverse_destination_mac.unwrap_or(macs.0.0), macs.0.1),
            ),
            addresses: (addresses.1, addresses.0),
            ports: (ports.1, ports.0),
        }
    }

    /// The streams of a direction: packets, and those that measure latency.
    fn direction(&self, name: &str, (tx, rx): (usize, usize), ends: &Ends) -> Result<Vec<Stream>, String> {
        let content = match &self.pcap {
            Some(path) => Content::Capture {
                path: path.clone(),
                original_timing: self.original_timing,
                repeat: self.repeat.unwrap_or(1),
            },
            None => Content::Made { stack: self.stack(ends)?, size: self.size.clone() },
        };
        let arrival = Arrival::At(rx);
        let main = Stream {
            name: name.into(),
            tx,
            arrival,
            queue: None,
            content,
            rate: self.rate,
            count: self.count,
            latency: false,
        };
        let mut streams = vec![main];
        if let Some(pps) = self.latency {
            let stack = self.stack(ends)?;
            // Where frames are too short for a timestamp, these are a little longer.
            let headers: usize = stack.iter().map(Layer::len).sum();
            let least = headers + crate::stateless::STAMPED_LEN + if self.fcs { 4 } else { 0 };
            let size = Size::Fixed(least.max(if let Size::Fixed(size) = self.size { size } else { 0 }));
            let content = Content::Made { stack, size };
            let (name, rate) = (format!("{name}-latency"), Rate::Packets(pps));
            streams.push(Stream {
                name,
                tx,
                arrival,
                queue: Some(0),
                content,
                rate,
                count: 0,
                latency: true,
            });
        }
        Ok(streams)
    }

    fn stack(&self, ends: &Ends) -> Result<Vec<Layer>, String> {
        let mut stack = Vec::new();
        if self.link.mode == LinkMode::Ethernet {
            let (src, dst) = ends.macs;
            stack.push(Layer::Ethernet(Ethernet { dst: self.stations(dst)?, src: self.stations(src)? }));
        } else if self.source_macs > 1 || self.destination_macs > 1 {
            return Err(
                "--source-macs and --destination-macs: with --mode ip there are no Ethernet addresses".into(),
            );
        }
        if self.vlan.len() > 2 {
            let given = self.vlan.len();
            return Err(format!(
                "--vlan is given {given} times: two tags at most (a profile's stack may have more)"
            ));
        }
        for (n, id) in self.vlan.iter().enumerate() {
            let service = n + 1 < self.vlan.len();
            stack.push(Layer::Vlan(Vlan { id: Setting::fixed(*id), priority: 0, service }));
        }
        let v4 = match &ends.addresses {
            (Addresses::V4(src), Addresses::V4(dst)) => {
                stack.push(Layer::Ipv4(Ipv4::new(src.clone(), dst.clone())));
                true
            }
            (Addresses::V6(src), Addresses::V6(dst)) => {
                stack.push(Layer::Ipv6(Ipv6::new(src.clone(), dst.clone())));
                false
            }
            (src, dst) => {
                return Err(format!(
                    "the source is {} and the destination {}: give two of IPv4 or two of IPv6",
                    src.first(),
                    dst.first()
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

    /// Ethernet addresses from the first on. Those that it counts are below the third octet, so that they stay one vendor's.
    fn stations(&self, (first, count): (MacAddr, u32)) -> Result<Setting<MacAddr>, String> {
        let greatest = first.to_u64() | 0xff_ffff;
        let last = first.to_u64() + u64::from(count - 1);
        if last > greatest {
            let greatest = MacAddr::from_u64(greatest);
            return Err(format!("{count} Ethernet addresses from {first} on go beyond {greatest}"));
        }
        self.range(first, MacAddr::from_u64(last))
    }

    fn range<T: Number + PartialEq>(&self, from: T, to: T) -> Result<Setting<T>, String> {
        addresses::range(from, to, self.random)
    }
}
