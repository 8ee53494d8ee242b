//! `show memif`.

use api::text::Words;
use api::v1::{MemifMode, MemifQueue, MemifRequest, MemifResponse, MemifRole, MemifState};

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
        answer.memifs.iter().map(|memif| block(memif, paint)).collect::<Vec<_>>().join("\n")
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
    if memif.connected {
        let process =
            if memif.peer_pid == 0 { String::new() } else { format!(", process {}", memif.peer_pid) };
        fields.add("peer", format!("{:?} interface {:?}{process}", memif.peer_name, memif.peer_interface));
        fields.add("memory", format!("{} of the peer mapped", memory(memif.mapped_bytes)));
    }
    fields.add("connections", format!("{} made, {} ended", memif.connects, memif.disconnects));
    if !memif.last_disconnect.is_empty() {
        let when = match memif.last_disconnect_ns {
            0 => String::new(),
            when => format!(" ({} UTC)", time_of_day(when).split('.').next().unwrap_or_default()),
        };
        fields.add("last end", format!("{}{when}", memif.last_disconnect));
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

/// The rings.
fn queues(queues: &[MemifQueue], paint: Paint) -> String {
    let mut table = Table::new([
        Column::left("RING"),
        Column::right("SIZE"),
        Column::right("FILLED"),
        Column::right("BUFFER"),
        Column::left("MODE"),
        Column::right("INTERRUPTS"),
        Column::right("WORKER"),
    ]);
    for queue in queues {
        table.row([
            format!("{} {}", if queue.rx { "rx" } else { "tx" }, queue.index).into(),
            queue.ring_size.into(),
            queue.filled.into(),
            queue.buffer_size.into(),
            if queue.polling { "polling".into() } else { "interrupt".into() },
            queue.interrupts.into(),
            queue.worker.into(),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_and_one_that_waits() {
        let ring = |rx, interrupts| MemifQueue {
            rx,
            index: 0,
            ring_size: 1024,
            buffer_size: 2048,
            filled: 12,
            interrupts,
            polling: rx,
            worker: 1,
        };
        let connected = MemifState {
            interface: "pod-a".into(),
            socket: "@pod-a".into(),
            id: 3,
            connected: true,
            peer_name: "testpmd".into(),
            peer_interface: "net_memif0".into(),
            peer_pid: 4711,
            mapped_bytes: 4 << 20,
            queues: vec![ring(true, 7), ring(false, 0)],
            connects: 2,
            disconnects: 1,
            last_disconnect: "peer closed: \"done\"".into(),
            last_disconnect_ns: 1_700_000_000_000_000_000,
            ..MemifState::default()
        };
        let waits = MemifState {
            interface: "pod-b".into(),
            socket: "/run/quiver/b.sock".into(),
            role: MemifRole::Client.into(),
            mode: MemifMode::Ip.into(),
            ..MemifState::default()
        };
        let answer = MemifResponse { memifs: vec![connected, waits] };
        assert_eq!(
            Memifs { interface: None }.table(&answer, None, Paint::new(false)),
            "pod-a: connected\n\
             \x20 socket       @pod-a id 3, server, ethernet\n\
             \x20 peer         \"testpmd\" interface \"net_memif0\", process 4711\n\
             \x20 memory       4 MiB of the peer mapped\n\
             \x20 connections  2 made, 1 ended\n\
             \x20 last end     peer closed: \"done\" (22:13:20 UTC)\n\
             \x20 RING  SIZE  FILLED  BUFFER  MODE       INTERRUPTS  WORKER\n\
             \x20 rx 0  1024      12    2048  polling             7       1\n\
             \x20 tx 0  1024      12    2048  interrupt           0       1\n\
             \n\
             pod-b: not connected\n\
             \x20 socket       /run/quiver/b.sock id 0, client, ip\n\
             \x20 connections  0 made, 0 ended\n"
        );
    }
}
