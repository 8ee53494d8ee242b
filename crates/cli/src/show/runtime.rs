//! `show runtime`.

use std::fmt::Write;

use api::v1::{NodeRuntime, RuntimeRequest, RuntimeResponse, WorkerRuntime};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{event_rate, memory, packet_rate, percent, ratio, short_span, span};
use crate::render::{Column, Paint, Table, Tone};

/// Load of workers, and what nodes did.
#[derive(Debug)]
pub(super) struct Runtime;

impl View for Runtime {
    type Answer = RuntimeResponse;

    async fn fetch(&self, client: &mut Client) -> Result<RuntimeResponse, Error> {
        client.runtime(RuntimeRequest {}).await.doing("show runtime")
    }

    fn table(
        &self,
        answer: &RuntimeResponse,
        before: Option<Before<'_, RuntimeResponse>>,
        paint: Paint,
    ) -> String {
        if answer.workers.is_empty() {
            return "no workers\n".into();
        }
        let blocks = answer.workers.iter().map(|worker| {
            let earlier = before.and_then(|before| {
                let earlier = before.answer.workers.iter().find(|it| it.index == worker.index)?;
                Some(since(worker, earlier, before.elapsed.as_secs_f64()))
            });
            block(earlier.as_ref().unwrap_or(worker), paint)
        });
        let mut text = blocks.collect::<Vec<_>>().join("\n");
        if answer.untraced > 0 {
            let note = format!(
                "a trace is on, {} packets are still to come: until then, and until `quiver trace clear`, all go node by node",
                answer.untraced
            );
            text += &format!("{}\n", paint.tone(Tone::Warn, &note));
        }
        text
    }
}

/// What a worker did since an earlier answer. Counters that were cleared in between count from zero.
fn since(now: &WorkerRuntime, then: &WorkerRuntime, seconds: f64) -> WorkerRuntime {
    let grown = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
    let node = |now: &NodeRuntime| {
        let none = NodeRuntime::default();
        let then = then.nodes.iter().find(|it| it.name == now.name).unwrap_or(&none);
        NodeRuntime {
            name: now.name.clone(),
            calls: grown(now.calls, then.calls),
            vectors: grown(now.vectors, then.vectors),
            packets: grown(now.packets, then.packets),
            clocks: grown(now.clocks, then.clocks),
        }
    };
    WorkerRuntime {
        rounds: grown(now.rounds, then.rounds),
        busy_rounds: grown(now.busy_rounds, then.busy_rounds),
        sleeps: grown(now.sleeps, then.sleeps),
        packets: grown(now.packets, then.packets),
        seconds,
        busy: ((now.busy * now.seconds - then.busy * then.seconds) / seconds).clamp(0.0, 1.0),
        nodes: now.nodes.iter().map(node).filter(|node| node.calls > 0).collect(),
        ..now.clone()
    }
}

/// Packets per second over the time the figures cover.
fn rate(worker: &WorkerRuntime) -> f64 {
    if worker.seconds > 0.0 { worker.packets as f64 / worker.seconds } else { 0.0 }
}

/// "worker 0 (core 1): 37 % busy, 12.3 Mpps", both over the time the figures cover; or that it stands still.
fn plainly(worker: &WorkerRuntime, packets_per_second: f64) -> String {
    if worker.stuck_seconds > 0.0 {
        return format!("worker {} (core {}): STUCK", worker.index, worker.core);
    }
    format!(
        "worker {} (core {}): {} busy, {}",
        worker.index,
        worker.core,
        percent(worker.busy),
        packet_rate(packets_per_second)
    )
}

/// One worker: a plain line, how it spends its rounds, its nodes.
fn block(worker: &WorkerRuntime, paint: Paint) -> String {
    let tone = if worker.stuck_seconds > 0.0 { Tone::Bad } else { Tone::Strong };
    let mut text = paint.tone(tone, &plainly(worker, rate(worker)));
    text.push('\n');
    let each = |count: u64| if worker.seconds > 0.0 { count as f64 / worker.seconds } else { 0.0 };
    if !worker.summary.is_empty() {
        let _ = writeln!(text, "  {}", worker.summary);
    }
    let _ = writeln!(
        text,
        "  over {}: {} packets, {} rounds ({} of them busy), {} sleeps ({})",
        span(worker.seconds),
        worker.packets,
        worker.rounds,
        if worker.rounds > 0 {
            percent(worker.busy_rounds as f64 / worker.rounds as f64)
        } else {
            "none".into()
        },
        worker.sleeps,
        event_rate(each(worker.sleeps)),
    );
    if worker.longest_round_microseconds > 0.0 {
        let longest = short_span(worker.longest_round_microseconds);
        let _ = writeln!(text, "  longest round {longest}, since counters were cleared");
    }
    if worker.sessions > 0 {
        let size = memory(worker.session_bytes);
        let _ = writeln!(
            text,
            "  {} sessions of {} that it may have, {size}",
            worker.sessions, worker.max_sessions
        );
    }
    let mut table = Table::new([
        Column::left("NODE"),
        Column::right("CALLS"),
        Column::right("VECTORS"),
        Column::right("PACKETS"),
        Column::right("VECTORS/CALL"),
        Column::right("PACKETS/VECTOR"),
        Column::right("CLOCKS/PACKET"),
    ]);
    for node in &worker.nodes {
        table.row([
            (&node.name).into(),
            node.calls.into(),
            node.vectors.into(),
            node.packets.into(),
            ratio(node.vectors, node.calls).into(),
            ratio(node.packets, node.vectors).into(),
            if node.clocks == 0 { "-".into() } else { ratio(node.clocks, node.packets).into() },
        ]);
    }
    if !table.is_empty() {
        text.push_str(&table.render(paint));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn node(name: &str, calls: u64, vectors: u64, packets: u64, clocks: u64) -> NodeRuntime {
        NodeRuntime { name: name.into(), calls, vectors, packets, clocks }
    }

    fn worker(packets: u64, seconds: f64, nodes: Vec<NodeRuntime>) -> RuntimeResponse {
        let worker = WorkerRuntime {
            index: 0,
            core: 1,
            load: 0.2,
            summary: "polling 2 queues".into(),
            rounds: 1000,
            busy_rounds: 250,
            sleeps: 20,
            packets,
            seconds,
            nodes,
            busy: 0.374,
            longest_round_microseconds: 1234.5,
            sessions: 40_000,
            max_sessions: 1 << 24,
            session_bytes: 8 << 20,
            ..WorkerRuntime::default()
        };
        RuntimeResponse { workers: vec![worker], clock_hz: 2_600_000_000, untraced: 0 }
    }

    #[test]
    fn a_worker_and_its_nodes() {
        let answer = worker(
            24_600_000,
            2.0,
            vec![node("memif-input", 1000, 250, 64_000, 640_000), node("ip4-lookup", 250, 250, 64_000, 0)],
        );
        assert_eq!(
            Runtime.table(&answer, None, Paint::new(false)),
            "worker 0 (core 1): 37 % busy, 12.3 Mpps\n\
             \x20 polling 2 queues\n\
             \x20 over 2 s: 24600000 packets, 1000 rounds (25 % of them busy), 20 sleeps (10 /s)\n\
             \x20 longest round 1.23 ms, since counters were cleared\n\
             \x20 40000 sessions of 16777216 that it may have, 8 MiB\n\
             NODE         CALLS  VECTORS  PACKETS  VECTORS/CALL  PACKETS/VECTOR  CLOCKS/PACKET\n\
             memif-input   1000      250    64000          0.25             256             10\n\
             ip4-lookup     250      250    64000             1             256              -\n"
        );
    }

    #[test]
    fn a_trace_that_waits_is_said() {
        let answer = RuntimeResponse { untraced: 3, ..worker(1, 2.0, Vec::new()) };
        let text = Runtime.table(&answer, None, Paint::new(false));
        assert!(text.contains("\na trace is on, 3 packets are still to come"), "{text}");
    }

    #[test]
    fn one_that_stands_still_is_seen_at_once() {
        let mut answer = worker(1, 2.0, Vec::new());
        let said = "stands still for 3.1 s, in acl: it runs, and its round has no end";
        (answer.workers[0].stuck_seconds, answer.workers[0].summary) = (3.1, said.into());
        let text = Runtime.table(&answer, None, Paint::new(false));
        assert!(text.starts_with(&format!("worker 0 (core 1): STUCK\n  {said}\n")), "{text}");
    }

    #[test]
    fn two_samples_show_what_happened_in_between() {
        let earlier = worker(24_000_000, 100.0, vec![node("memif-input", 900, 200, 60_000, 600_000)]);
        let answer = worker(
            24_600_000,
            102.0,
            vec![node("memif-input", 1000, 250, 64_000, 680_000), node("idle", 0, 0, 0, 0)],
        );
        let before = Before { answer: &earlier, elapsed: Duration::from_secs(2) };
        let text = Runtime.table(&answer, Some(before), Paint::new(false));
        assert!(text.starts_with("worker 0 (core 1): 37 % busy, 300 kpps\n"), "{text}");
        let line = text.lines().nth(6).unwrap();
        let cells = line.split_whitespace().collect::<Vec<_>>();
        assert_eq!(cells, ["memif-input", "100", "50", "4000", "0.50", "80", "20"]);
        assert!(!text.contains("idle"));
    }
}
