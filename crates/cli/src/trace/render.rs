//! Traces as text: a heading per packet, then node by node with what it saw, indented.

use std::fmt::Write;

use api::v1::{TraceShowResponse, TracedPacket};

use crate::render::number::time_of_day;
use crate::render::{Paint, Tone};

/// All packets, a blank line between them.
pub(super) fn traces(answer: &TraceShowResponse, paint: Paint) -> String {
    let mut text = answer.packets.iter().map(|it| packet(it, paint)).collect::<Vec<_>>().join("\n");
    match (answer.packets.is_empty(), answer.remaining) {
        (true, 0) => text.push_str("no traces; ask for some with: quiver trace add NODE|INTERFACE COUNT\n"),
        (true, remaining) => {
            let _ = writeln!(text, "no packet came yet; {remaining} are still to be traced");
        }
        (false, 0) => {}
        (false, remaining) => {
            let _ = writeln!(text, "\n{remaining} packets are still to be traced");
        }
    }
    text
}

/// One packet.
fn packet(packet: &TracedPacket, paint: Paint) -> String {
    let heading = format!("Packet {}: from {}, worker {}", packet.id, packet.interface, packet.worker);
    let mut text = format!("{}\n", paint.tone(Tone::Strong, &heading));
    let offsets = packet.steps.iter().map(|step| format!("+{} ns", step.offset_ns)).collect::<Vec<_>>();
    let width = offsets.iter().map(String::len).max().unwrap_or(0);
    for (step, offset) in packet.steps.iter().zip(&offsets) {
        let time = time_of_day(packet.timestamp_ns.saturating_add(step.offset_ns));
        let offset = paint.tone(Tone::Faint, &format!("{time} {offset:>width$}"));
        let _ = writeln!(text, "{offset}  {}", paint.tone(Tone::Good, &step.node));
        for line in step.text.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use api::v1::TraceStep;

    use super::*;

    #[test]
    fn node_by_node() {
        let step =
            |node: &str, offset_ns, text: &str| TraceStep { node: node.into(), offset_ns, text: text.into() };
        let answer = TraceShowResponse {
            packets: vec![TracedPacket {
                id: 3,
                worker: 0,
                interface: "pod-a".into(),
                timestamp_ns: 1_700_000_000_000_000_000,
                steps: vec![
                    step("memif-input", 0, "queue 0, 98 bytes"),
                    step("ip4-input", 350, "10.0.0.2 -> 10.0.1.2 ICMP\n  ttl 64, length 84"),
                    step("drop", 500, ""),
                ],
            }],
            remaining: 9,
        };
        assert_eq!(
            traces(&answer, Paint::new(false)),
            "Packet 3: from pod-a, worker 0\n\
             22:13:20.000000000   +0 ns  memif-input\n\
             \x20 queue 0, 98 bytes\n\
             22:13:20.000000350 +350 ns  ip4-input\n\
             \x20 10.0.0.2 -> 10.0.1.2 ICMP\n\
             \x20   ttl 64, length 84\n\
             22:13:20.000000500 +500 ns  drop\n\
             \n\
             9 packets are still to be traced\n"
        );
    }

    #[test]
    fn nothing_yet() {
        let text = |remaining| traces(&TraceShowResponse { packets: vec![], remaining }, Paint::new(false));
        assert!(text(0).contains("quiver trace add"));
        assert_eq!(text(4), "no packet came yet; 4 are still to be traced\n");
    }
}
