//! What flags ask for: interfaces and streams.

use super::{Options, Ports, Protocol, WAIT, seconds};
use crate::link::InterfaceSpec;
use crate::link::spec::LinkMode;
use crate::plan::{Arrival, Check, Content, Interfaces, Plan, Stream};
use crate::stateless::{Echo, Ethernet, Ipv4, Ipv6, Layer, Order, Rate, Setting, Size, Tcp, Udp, Vlan};
use core::net::{IpAddr, Ipv4Addr};
use wire::MacAddr;

/// Two ends of a stream.
struct Ends {
    macs: ((MacAddr, u32), (MacAddr, u32)),
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
        let mut streams = self.direction("forward", (0, usize::from(two)), &self.forward())?;
        if self.bidirectional {
            streams.extend(self.direction("reverse", (usize::from(two), 0), &self.reverse())?);
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

    const fn forward(&self) -> Ends {
        Ends {
            macs: ((self.source_mac, self.source_macs), (self.destination_mac, self.destination_macs)),
            addresses: ((self.source, self.sources), (self.destination, self.destinations)),
            ports: (self.source_port, self.destination_port),
        }
    }

    fn reverse(&self) -> Ends {
        let Ends { macs, addresses, ports } = self.forward();
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

    fn range<T: crate::stateless::Number + PartialEq>(&self, from: T, to: T) -> Result<Setting<T>, String> {
        if from == to {
            return Ok(Setting::fixed(from));
        }
        Setting::range(from, to, 1, if self.random { Order::Random } else { Order::Inc })
    }
}
