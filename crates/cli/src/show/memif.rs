//! `show memif`.

use api::text::Words;
use api::v1::{
    MemifHandshake, MemifHeldRegion, MemifMode, MemifProcess, MemifQueue, MemifRefusals, MemifRefused,
    MemifRequest, MemifResponse, MemifRole, MemifSocket, MemifState,
};

use super::fields::Fields;
use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{memory, time_of_day};
use crate::render::{Column, Paint, Table, Tone};

/// memif connections.
#[derive(Debug)]
pub(super) struct Memifs {
    /// Of this interface; `None`: all.
    pub(super) interface: Option<String>,
}

impl View for Memifs {
    type Answer = MemifResponse;

    async fn fetch(&self, client: &mut Client) -> Result<MemifResponse, Error> {
        let request = MemifRequest { interface: self.interface.clone().unwrap_or_default() };
        client.memif(request).await.doing("show memif")
    }

    fn table(
        &self,
        answer: &MemifResponse,
        _before: Option<Before<'_, MemifResponse>>,
        paint: Paint,
    ) -> String {
        if answer.memifs.is_empty() {
            return "no memif interfaces\n".into();
        }
        let blocks = answer.memifs.iter().map(|memif| block(memif, paint));
        blocks.chain(answer.sockets.iter().flat_map(strangers)).collect::<Vec<_>>().join("\n")
    }
}

/// One connection.
fn block(memif: &MemifState, paint: Paint) -> String {
    let (state, tone) =
        if memif.connected { ("connected", Tone::Good) } else { ("not connected", Tone::Bad) };
    let role = match memif.role() {
        MemifRole::Unspecified => MemifRole::Server,
        role => role,
    };
    let mode = match memif.mode() {
        MemifMode::Unspecified => MemifMode::Ethernet,
        mode => mode,
    };
    let mut fields = Fields::default();
    fields.add("socket", format!("{} id {}, {}, {}", memif.socket, memif.id, role.word(), mode.word()));
    fields.add("ring size", ring_size(role, memif.max_ring_size));
    if memif.connected {
        fields.add("peer", format!("{:?} interface {:?}", memif.peer_name, memif.peer_interface));
        fields.add("process", process(&peer(memif)));
        fields.add("memory", format!("{} of the peer mapped", memory(memif.mapped_bytes)));
    }
    fields.add("connections", format!("{} made, {} ended", memif.connects, memif.disconnects));
    let faults = memif.fault_reasons.iter().map(|it| (it.count, it.reason.as_str()));
    fields.add("faults", by_reason(faults, memif.faults));
    fields.add("handshake", memif.handshake.as_ref().map(handshake).unwrap_or_default());
    fields.add("turned away", refusals(&memif.refusals, memif.last_refused.as_ref()));
    fields.add("held", memif.held_regions.iter().map(held).collect::<Vec<_>>().join(", "));
    if !memif.last_disconnect.is_empty() {
        let when = match memif.last_disconnect_ns {
            0 => String::new(),
            when => format!(" ({})", time(when)),
        };
        fields.add("last reason", format!("{}{when}", memif.last_disconnect));
    } else if !memif.connected && role == MemifRole::Server {
        fields.add("last reason", "no peer has connected yet");
    }
    let mut text = format!("{}: {}\n{}", memif.interface, paint.tone(tone, state), fields.render());
    if !memif.queues.is_empty() {
        // Indented like the fields.
        for line in queues(&memif.queues, paint).lines() {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// "at most 16384 offered"; empty where quiverd doesn't say.
fn ring_size(role: MemifRole, descriptors: u32) -> String {
    match (descriptors, role) {
        (0, _) => String::new(),
        (_, MemifRole::Client) => format!("{descriptors} asked for"),
        _ => format!("at most {descriptors} offered"),
    }
}

/// A region whose file is held.
fn held(region: &MemifHeldRegion) -> String {
    let of = match region.peer_pid {
        0 => "a process that isn't known".into(),
        pid => format!("process {pid}"),
    };
    format!("the file of a region of {of} since {}", time(region.since_ns))
}

fn time(ns: u64) -> String {
    format!("{} UTC", time_of_day(ns).split('.').next().unwrap_or_default())
}

/// The process of who is connected.
fn peer(memif: &MemifState) -> MemifProcess {
    MemifProcess {
        pid: memif.peer_pid,
        uid: memif.peer_uid,
        gid: memif.peer_gid,
        name: memif.peer_process.clone(),
    }
}

/// A process, as far as it is known; empty where it isn't at all.
fn process(process: &MemifProcess) -> String {
    let pid = match (process.pid, process.uid) {
        (0, None) => return String::new(),
        (0, _) => "in another process namespace".into(),
        (pid, _) => pid.to_string(),
    };
    // A process gives itself its name: quoted, so that it can't look like something else.
    let name = if process.name.is_empty() { String::new() } else { format!(" {:?}", process.name) };
    let owner = process.uid.zip(process.gid).map(|(uid, gid)| format!(", uid {uid}, gid {gid}"));
    format!("{pid}{name}{}", owner.unwrap_or_default())
}

/// "process 4711 "echo", uid 0, gid 0".
fn some_process(of: &MemifProcess) -> String {
    match process(of) {
        unknown if unknown.is_empty() => "a process that isn't known".into(),
        known if of.pid == 0 => format!("a process {known}"),
        known => format!("process {known}"),
    }
}

/// "5 (3 mode, 2 wrong-secret), last process 4711 "echo", uid 0, gid 0: mode (22:13:20 UTC)"; empty where there were none.
fn refusals(refusals: &[MemifRefusals], last: Option<&MemifRefused>) -> String {
    let all = refusals.iter().map(|it| it.count).sum();
    let last = last.map(|last| {
        let who = some_process(last.peer.as_ref().unwrap_or(&MemifProcess::default()));
        format!(", last {who}: {} ({})", last.reason, time(last.time_ns))
    });
    by_reason(refusals.iter().map(|it| (it.count, it.reason.as_str())), all) + &last.unwrap_or_default()
}

fn by_reason<'a>(counts: impl Iterator<Item = (u64, &'a str)>, all: u64) -> String {
    if all == 0 {
        return String::new();
    }
    let each: Vec<String> = counts.map(|(count, reason)| format!("{count} {reason}")).collect();
    format!("{all} ({})", each.join(", "))
}

/// "process 4711 "echo", uid 0, gid 0, since 22:13:20 UTC"; with how many, where they are several.
fn handshake(of: &MemifHandshake) -> String {
    let who = some_process(of.peer.as_ref().unwrap_or(&MemifProcess::default()));
    let count = if of.count > 1 { format!("{} of ", of.count) } else { String::new() };
    format!("{count}{who}, since {}", time(of.since_ns))
}

/// Those who asked for no interface that there is, or haven't yet: a line each.
fn strangers(socket: &MemifSocket) -> impl Iterator<Item = String> {
    let handshakes: Vec<String> = socket.handshakes.iter().map(handshake).collect();
    let all = [
        ("turned away, for none of its interfaces", refusals(&socket.refusals, socket.last_refused.as_ref())),
        ("in a handshake, without an interface yet", handshakes.join("; ")),
    ];
    let named = all.into_iter().filter(|(_, who)| !who.is_empty());
    named.map(|(what, who)| format!("{}: {what}: {who}\n", socket.socket))
}

/// The rings.
fn queues(queues: &[MemifQueue], paint: Paint) -> String {
    let mut table = Table::new([
        Column::left("RING"),
        Column::right("SIZE"),
        Column::right("FILLED"),
        Column::right("BUFFER"),
        Column::left("MODE"),
        Column::right("INTERRUPTS"),
        Column::right("PACKETS"),
        Column::right("BYTES"),
        Column::right("FULL"),
        Column::right("WORKER"),
    ]);
    for queue in queues {
        table.row([
            format!("{} {}", if queue.rx { "rx" } else { "tx" }, queue.index).into(),
            queue.ring_size.into(),
            queue.filled.into(),
            if queue.buffer_size == 0 { "-".into() } else { queue.buffer_size.into() },
            if queue.polling { "polling".into() } else { "interrupt".into() },
            queue.interrupts.into(),
            queue.packets.into(),
            queue.bytes.into(),
            if queue.rx { "-".into() } else { queue.full.into() },
            if queue.rx { queue.worker.into() } else { "any".into() },
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use api::v1::MemifFaults;

    use super::*;

    #[test]
    fn a_connection_and_one_that_waits() {
        let ring = |rx, interrupts| MemifQueue {
            rx,
            index: 0,
            ring_size: 1024,
            buffer_size: if rx { 0 } else { 2048 },
            filled: 12,
            interrupts,
            polling: rx,
            worker: 1,
            packets: 5_000_000_000,
            bytes: 320_000_000_000,
            full: if rx { 0 } else { 9 },
        };
        let refused = |reason: &str, count| MemifRefusals { reason: reason.into(), count };
        let fault = |reason: &str, count| MemifFaults { reason: reason.into(), count };
        let process = |pid, uid| MemifProcess { pid, uid, gid: uid.map(|_| 100), ..MemifProcess::default() };
        let away = |peer, reason: &str| {
            Some(MemifRefused { peer: Some(peer), reason: reason.into(), time_ns: 1_700_000_002_000_000_000 })
        };
        let connected = MemifState {
            interface: "pod-a".into(),
            socket: "@pod-a".into(),
            id: 3,
            connected: true,
            peer_name: "testpmd".into(),
            peer_interface: "net_memif0".into(),
            peer_pid: 4711,
            peer_uid: Some(1000),
            peer_gid: Some(100),
            peer_process: "dpdk-testpmd".into(),
            faults: 3,
            fault_reasons: vec![fault("fault-range", 1), fault("unexpected-message", 2)],
            refusals: vec![refused("mode", 3), refused("wrong-secret", 2)],
            last_refused: away(MemifProcess { name: "cat".into(), ..process(4713, Some(1000)) }, "mode"),
            mapped_bytes: 4 << 20,
            queues: vec![ring(true, 7), ring(false, 0)],
            max_ring_size: 16384,
            connects: 4,
            disconnects: 3,
            last_disconnect: "peer closed: \"done\"".into(),
            last_disconnect_ns: 1_700_000_000_000_000_000,
            ..MemifState::default()
        };
        let waits = MemifState {
            interface: "pod-b".into(),
            socket: "/run/quiver/b.sock".into(),
            role: MemifRole::Client.into(),
            mode: MemifMode::Ip.into(),
            max_ring_size: 512,
            handshake: Some(MemifHandshake {
                peer: Some(process(4714, Some(0))),
                count: 1,
                since_ns: 1_700_000_003_000_000_000,
            }),
            held_regions: [(4712, 1_700_000_000_000_000_000), (0, 1_700_000_001_000_000_000)]
                .map(|(peer_pid, since_ns)| MemifHeldRegion { peer_pid, since_ns })
                .into(),
            ..MemifState::default()
        };
        let stranger = |socket: &str, last_refused| MemifSocket {
            socket: socket.into(),
            refusals: vec![refused("timeout", 1)],
            last_refused,
            ..MemifSocket::default()
        };
        let shakes = [(4715, 3), (0, 1)].map(|(pid, count)| MemifHandshake {
            peer: Some(process(pid, Some(0))),
            count,
            since_ns: 1_700_000_004_000_000_000,
        });
        let busy =
            MemifSocket { socket: "@pod-d".into(), handshakes: shakes.into(), ..MemifSocket::default() };
        let strangers = vec![
            stranger("@pod-a", away(process(0, Some(1000)), "timeout")),
            stranger("@pod-c", away(process(0, None), "timeout")),
            busy,
        ];
        let answer = MemifResponse { memifs: vec![connected, waits], sockets: strangers };
        assert_eq!(
            Memifs { interface: None }.table(&answer, None, Paint::new(false)),
            "pod-a: connected\n\
             \x20 socket       @pod-a id 3, server, ethernet\n\
             \x20 ring size    at most 16384 offered\n\
             \x20 peer         \"testpmd\" interface \"net_memif0\"\n\
             \x20 process      4711 \"dpdk-testpmd\", uid 1000, gid 100\n\
             \x20 memory       4 MiB of the peer mapped\n\
             \x20 connections  4 made, 3 ended\n\
             \x20 faults       3 (1 fault-range, 2 unexpected-message)\n\
             \x20 turned away  5 (3 mode, 2 wrong-secret), last process 4713 \"cat\", uid 1000, gid 100: mode (22:13:22 UTC)\n\
             \x20 last reason  peer closed: \"done\" (22:13:20 UTC)\n\
             \x20 RING  SIZE  FILLED  BUFFER  MODE       INTERRUPTS     PACKETS         BYTES  FULL  WORKER\n\
             \x20 rx 0  1024      12       -  polling             7  5000000000  320000000000     -       1\n\
             \x20 tx 0  1024      12    2048  interrupt           0  5000000000  320000000000     9     any\n\
             \n\
             pod-b: not connected\n\
             \x20 socket       /run/quiver/b.sock id 0, client, ip\n\
             \x20 ring size    512 asked for\n\
             \x20 connections  0 made, 0 ended\n\
             \x20 handshake    process 4714, uid 0, gid 100, since 22:13:23 UTC\n\
             \x20 held         the file of a region of process 4712 since 22:13:20 UTC, the file of a region of a process that isn't known since 22:13:21 UTC\n\
             \n\
             @pod-a: turned away, for none of its interfaces: 1 (1 timeout), last a process in another process namespace, uid 1000, gid 100: timeout (22:13:22 UTC)\n\
             \n\
             @pod-c: turned away, for none of its interfaces: 1 (1 timeout), last a process that isn't known: timeout (22:13:22 UTC)\n\
             \n\
             @pod-d: in a handshake, without an interface yet: 3 of process 4715, uid 0, gid 100, since 22:13:24 UTC; a process in another process namespace, uid 0, gid 100, since 22:13:24 UTC\n"
        );
    }
}
