//! `show interface`.

use std::fmt::Write;

use api::text::Words;
use api::v1::{InterfaceCounters, InterfaceState, InterfacesRequest, InterfacesResponse};

use super::fields::Fields;
use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{bit_rate, growth, packet_rate};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// All interfaces, or one.
#[derive(Debug)]
pub(super) struct Interfaces {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
}

impl View for Interfaces {
    type Answer = InterfacesResponse;

    async fn fetch(&self, client: &mut Client) -> Result<InterfacesResponse, Error> {
        let request = InterfacesRequest { name: self.name.clone().unwrap_or_default() };
        client.interfaces(request).await.doing("show interface")
    }

    fn table(
        &self,
        answer: &InterfacesResponse,
        before: Option<Before<'_, InterfacesResponse>>,
        paint: Paint,
    ) -> String {
        let rates = |interface: &InterfaceState| before.and_then(|before| Rates::new(interface, before));
        match (&self.name, answer.interfaces.as_slice()) {
            (Some(_), [interface]) => detail(interface, rates(interface), paint),
            (_, []) => "no interfaces; quiver apply -f FILE makes some\n".into(),
            (_, all) => list(all, rates, paint),
        }
    }
}

/// Per second, since the earlier answer.
#[derive(Debug, Clone, Copy)]
struct Rates {
    rx_packets: f64,
    rx_bytes: f64,
    tx_packets: f64,
    tx_bytes: f64,
}

impl Rates {
    /// `None` if the interface is new.
    fn new(interface: &InterfaceState, before: Before<'_, InterfacesResponse>) -> Option<Self> {
        let earlier = before.answer.interfaces.iter().find(|it| it.name == interface.name)?;
        let (now, then) = (counters(interface), counters(earlier));
        let rate = |field: fn(&InterfaceCounters) -> u64| growth(field(&now), field(&then), before.elapsed);
        Some(Self {
            rx_packets: rate(|it| it.rx_packets),
            rx_bytes: rate(|it| it.rx_bytes),
            tx_packets: rate(|it| it.tx_packets),
            tx_bytes: rate(|it| it.tx_bytes),
        })
    }
}

fn counters(interface: &InterfaceState) -> InterfaceCounters {
    interface.counters.unwrap_or_default()
}

/// "up", "down" or "admin-down".
fn state(interface: &InterfaceState) -> Cell {
    match (interface.admin_up, interface.link_up) {
        (false, _) => Cell::toned("admin-down", Tone::Faint),
        (true, false) => Cell::toned("down", Tone::Bad),
        (true, true) => Cell::toned("up", Tone::Good),
    }
}

/// A line per interface, then the reasons of those that are down.
fn list(
    interfaces: &[InterfaceState],
    rates: impl Fn(&InterfaceState) -> Option<Rates>,
    paint: Paint,
) -> String {
    let mut table = Table::new([
        Column::left("NAME"),
        Column::right("IDX"),
        Column::left("PORT"),
        Column::left("STATE"),
        Column::right("MTU"),
        Column::right("RX-PACKETS"),
        Column::right("RX-BYTES"),
        Column::right("TX-PACKETS"),
        Column::right("TX-BYTES"),
        Column::right("RX-DROPS"),
        Column::right("TX-DROPS"),
        Column::right("ERRORS"),
        Column::right("RX-RATE").optional(),
        Column::right("RX-BITS").optional(),
        Column::right("TX-RATE").optional(),
        Column::right("TX-BITS").optional(),
    ]);
    for interface in interfaces {
        let counters = counters(interface);
        let rates = rates(interface);
        let packets =
            |rate: fn(Rates) -> f64| rates.map(|it| packet_rate(rate(it))).unwrap_or_default().into();
        let bits = |rate: fn(Rates) -> f64| rates.map(|it| bit_rate(rate(it))).unwrap_or_default().into();
        table.row([
            (&interface.name).into(),
            interface.index.into(),
            (&interface.port).into(),
            state(interface),
            interface.mtu.into(),
            counters.rx_packets.into(),
            counters.rx_bytes.into(),
            counters.tx_packets.into(),
            counters.tx_bytes.into(),
            counters.rx_drops.into(),
            counters.tx_drops.into(),
            (counters.rx_errors + counters.tx_errors).into(),
            packets(|it| it.rx_packets),
            bits(|it| it.rx_bytes),
            packets(|it| it.tx_packets),
            bits(|it| it.tx_bytes),
        ]);
    }
    let mut text = table.render(paint);
    for interface in interfaces.iter().filter(|it| it.admin_up && !it.link_up && !it.link_reason.is_empty()) {
        let _ = writeln!(text, "{} is down: {}", interface.name, interface.link_reason);
    }
    text
}

/// All that is known about one interface.
fn detail(interface: &InterfaceState, rates: Option<Rates>, paint: Paint) -> String {
    let counters = counters(interface);
    let mut fields = Fields::default();
    fields.add("mac", &interface.mac);
    fields.add("mtu", interface.mtu.to_string());
    fields.add("addresses", interface.addresses.join(" "));
    match (interface.bridge.as_str(), interface.cross_connect.as_str()) {
        ("", "") => fields.add("vrf", &interface.vrf),
        ("", other) => fields.add("cross-connect", other),
        (bridge, _) => fields.add("bridge", bridge),
    };
    let device = match (interface.host_name.as_str(), interface.netns.as_str()) {
        (name, "") => name.to_owned(),
        (name, netns) => format!("{name} in network namespace {netns}"),
    };
    fields.add("device", device);
    fields.add("tunnel", &interface.tunnel);
    fields.add("rx mode", interface.rx_mode().word());
    for placement in &interface.placement {
        let how = if placement.polling { "polled" } else { "waits for interrupts" };
        fields.add("rx queue", format!("{} on worker {}, {how}", placement.queue, placement.worker));
    }
    fields.add("link ups", interface.link_ups.to_string());
    for (name, count, last) in [
        ("output suspended", interface.output_suspensions, &interface.last_output_suspension),
        ("port taken away", interface.removals, &interface.last_removal),
    ] {
        fields.add(name, if count > 0 { format!("{count} times, last {last}") } else { String::new() });
    }
    let traffic = |packets: u64, bytes: u64, rate: Option<(f64, f64)>| {
        let rate = rate.map(|(packets, bytes)| format!(", {}, {}", packet_rate(packets), bit_rate(bytes)));
        format!("{packets} packets, {bytes} bytes{}", rate.unwrap_or_default())
    };
    fields.add(
        "received",
        traffic(counters.rx_packets, counters.rx_bytes, rates.map(|it| (it.rx_packets, it.rx_bytes))),
    );
    fields.add(
        "of these",
        format!(
            "{} unicast, {} multicast, {} broadcast; {} dropped later",
            counters.rx_unicast, counters.rx_multicast, counters.rx_broadcast, counters.rx_drops
        ),
    );
    fields.add("rx errors", counters.rx_errors.to_string());
    fields.add(
        "sent",
        traffic(counters.tx_packets, counters.tx_bytes, rates.map(|it| (it.tx_packets, it.tx_bytes))),
    );
    fields.add(
        "of these",
        format!(
            "{} unicast, {} multicast, {} broadcast",
            counters.tx_unicast, counters.tx_multicast, counters.tx_broadcast
        ),
    );
    fields.add("tx drops", counters.tx_drops.to_string());
    fields.add("tx errors", counters.tx_errors.to_string());

    let (word, tone) = match (interface.admin_up, interface.link_up) {
        (false, _) => ("admin-down", Tone::Faint),
        (true, false) => ("down", Tone::Bad),
        (true, true) => ("up", Tone::Good),
    };
    let reason = if interface.link_up || interface.link_reason.is_empty() {
        String::new()
    } else {
        format!(": {}", interface.link_reason)
    };
    format!(
        "{} (index {}, {}) is {}{reason}\n{}",
        interface.name,
        interface.index,
        interface.port,
        paint.tone(tone, word),
        fields.render()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::v1::{QueuePlacement, RxMode};

    use super::*;

    fn pod(name: &str, index: u32, rx_packets: u64) -> InterfaceState {
        InterfaceState {
            name: name.into(),
            index,
            port: "memif".into(),
            admin_up: true,
            link_up: true,
            mac: "02:fe:00:00:00:01".into(),
            mtu: 1500,
            addresses: vec!["10.0.0.1/24".into()],
            vrf: "default".into(),
            rx_mode: RxMode::Adaptive.into(),
            placement: vec![QueuePlacement { queue: 0, worker: 1, polling: true }],
            counters: Some(InterfaceCounters {
                rx_packets,
                rx_bytes: rx_packets * 64,
                tx_packets: 7,
                tx_bytes: 448,
                rx_drops: 2,
                rx_unicast: rx_packets,
                tx_unicast: 5,
                tx_multicast: 2,
                ..InterfaceCounters::default()
            }),
            link_ups: 1,
            ..InterfaceState::default()
        }
    }

    fn down() -> InterfaceState {
        InterfaceState {
            link_up: false,
            link_reason: "no peer has connected to @pod-b yet".into(),
            ..pod("pod-b", 2, 0)
        }
    }

    #[test]
    fn a_list() {
        let answer = InterfacesResponse { interfaces: vec![pod("pod-a", 1, 1_000_000), down()] };
        assert_eq!(
            Interfaces { name: None }.table(&answer, None, Paint::new(false)),
            "NAME   IDX  PORT   STATE   MTU  RX-PACKETS  RX-BYTES  TX-PACKETS  TX-BYTES  RX-DROPS  TX-DROPS  ERRORS\n\
             pod-a    1  memif  up     1500     1000000  64000000           7       448         2         0       0\n\
             pod-b    2  memif  down   1500           0         0           7       448         2         0       0\n\
             pod-b is down: no peer has connected to @pod-b yet\n"
        );
    }

    #[test]
    fn rates_between_two_samples() {
        let earlier = InterfacesResponse { interfaces: vec![pod("pod-a", 1, 1_000_000)] };
        let answer = InterfacesResponse { interfaces: vec![pod("pod-a", 1, 25_600_000)] };
        let before = Before { answer: &earlier, elapsed: Duration::from_secs(2) };
        let text = Interfaces { name: None }.table(&answer, Some(before), Paint::new(false));
        let line = text.lines().nth(1).unwrap();
        assert!(line.ends_with("12.3 Mpps  6.30 Gbps    0 pps    0 bps"), "{line}");
    }

    #[test]
    fn one_in_detail() {
        let answer = InterfacesResponse { interfaces: vec![pod("pod-a", 1, 10)] };
        assert_eq!(
            Interfaces { name: Some("pod-a".into()) }.table(&answer, None, Paint::new(false)),
            "pod-a (index 1, memif) is up\n\
             \x20 mac        02:fe:00:00:00:01\n\
             \x20 mtu        1500\n\
             \x20 addresses  10.0.0.1/24\n\
             \x20 vrf        default\n\
             \x20 rx mode    adaptive\n\
             \x20 rx queue   0 on worker 1, polled\n\
             \x20 link ups   1\n\
             \x20 received   10 packets, 640 bytes\n\
             \x20 of these   10 unicast, 0 multicast, 0 broadcast; 2 dropped later\n\
             \x20 rx errors  0\n\
             \x20 sent       7 packets, 448 bytes\n\
             \x20 of these   5 unicast, 2 multicast, 0 broadcast\n\
             \x20 tx drops   0\n\
             \x20 tx errors  0\n"
        );
    }

    #[test]
    fn none() {
        let text = Interfaces { name: None }.table(&InterfacesResponse::default(), None, Paint::new(false));
        assert_eq!(text, "no interfaces; quiver apply -f FILE makes some\n");
    }
}
