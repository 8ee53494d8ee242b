//! `show copy`.

use std::fmt::Write;

use api::v1::{CopyQueue, CopyRequest, CopyResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{growth, packet_rate};
use crate::render::{Column, Paint, Table};

/// Who copies bodies.
#[derive(Debug)]
pub(super) struct Copying;

impl View for Copying {
    type Answer = CopyResponse;

    async fn fetch(&self, client: &mut Client) -> Result<CopyResponse, Error> {
        client.copy(CopyRequest {}).await.doing("show copy")
    }

    fn table(&self, answer: &CopyResponse, before: Option<Before<'_, CopyResponse>>, paint: Paint) -> String {
        let mut text = match (answer.engine.as_str(), answer.threshold) {
            ("cpu", _) => return "bodies are copied by the workers\n".into(),
            (engine, 0) => format!("{engine}, but no body goes there: it was measured not to pay\n"),
            (engine, bytes) => format!("{engine}, for pieces of bodies of {bytes} bytes and more\n"),
        };
        if answer.engine == "dsa-model" {
            text.push_str("a model of the device, for tests: it says nothing about speed\n");
        }
        answer
            .queues
            .iter()
            .filter(|queue| queue.times_given_up > 0)
            .for_each(|queue| standing(queue, &mut text));
        text.push_str(&queues(answer, before).render(paint));
        if !answer.timings.is_empty() {
            text.push_str("\nmeasured at start, 64 pieces at a time:\n");
            let mut table =
                Table::new([Column::right("BYTES"), Column::right("CPU NS"), Column::right("ENGINE NS")]);
            for timing in &answer.timings {
                let times = (timing.cpu_nanoseconds, timing.engine_nanoseconds);
                table.row([timing.size.into(), times.0.into(), times.1.into()]);
            }
            text.push_str(&table.render(paint));
        }
        text
    }
}

/// Of a queue that was given up: whether it still is, and what comes of it.
fn standing(queue: &CopyQueue, text: &mut String) {
    let name = &queue.name;
    // Writing to a string doesn't fail.
    let _ = match (queue.given_up.as_str(), queue.times_given_up) {
        ("", 1) => writeln!(text, "{name} was given up once, and is in use again"),
        ("", times) => writeln!(text, "{name} was given up {times} times, and is in use again"),
        (reason, _) => {
            let again = match queue.again_in_seconds {
                Some(0) => "; it is being tried again".into(),
                Some(seconds) => format!("; it is tried again in {seconds} s"),
                None => String::new(),
            };
            let tried = if queue.tried.is_empty() {
                String::new()
            } else {
                format!(" (the last time: {})", queue.tried)
            };
            writeln!(text, "{name} is given up, the CPU copies: {reason}{again}{tried}")
        }
    };
}

fn queues(answer: &CopyResponse, before: Option<Before<'_, CopyResponse>>) -> Table<12> {
    let mut table = Table::new([
        Column::left("QUEUE"),
        Column::left("MODE"),
        Column::right("SIZE"),
        Column::right("TRANSFERS"),
        Column::right("RATE").optional(),
        Column::right("SUBMITTED"),
        Column::right("COMPLETED"),
        Column::right("FALLBACKS"),
        Column::right("FAULTS"),
        Column::right("ERRORS"),
        Column::right("RETRIES"),
        Column::right("FULL"),
    ]);
    for queue in &answer.queues {
        let rate = before.and_then(|before| {
            let same = |other: &&CopyQueue| other.name == queue.name;
            let then = before.answer.queues.iter().find(same)?;
            Some(packet_rate(growth(queue.transfers, then.transfers, before.elapsed)))
        });
        table.row([
            (&queue.name).into(),
            (&queue.mode).into(),
            queue.size.into(),
            queue.transfers.into(),
            rate.unwrap_or_default().into(),
            queue.submitted.into(),
            queue.completed.into(),
            queue.fallbacks.into(),
            queue.faults.into(),
            queue.errors.into(),
            queue.retries.into(),
            queue.full.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> CopyResponse {
        let queue = CopyQueue {
            name: "wq0.0".into(),
            mode: "dedicated".into(),
            size: 16,
            transfers: 90,
            submitted: 3,
            completed: 80,
            fallbacks: 10,
            faults: 4,
            full: 6,
            ..CopyQueue::default()
        };
        CopyResponse { engine: "dsa".into(), threshold: 1024, queues: vec![queue], timings: Vec::new() }
    }

    fn render(answer: &CopyResponse) -> String {
        Copying.table(answer, None, Paint::new(false))
    }

    #[test]
    fn queues_and_what_went_wrong_there() {
        assert_eq!(
            render(&answer()),
            "dsa, for pieces of bodies of 1024 bytes and more\n\
             QUEUE  MODE       SIZE  TRANSFERS  SUBMITTED  COMPLETED  FALLBACKS  FAULTS  ERRORS  RETRIES  FULL\n\
             wq0.0  dedicated    16         90          3         80         10       4       0        0     6\n"
        );
        let mut given_up = answer();
        let queue = &mut given_up.queues[0];
        (queue.given_up, queue.times_given_up) = ("no answer within 100ms".into(), 2);
        let line = "wq0.0 is given up, the CPU copies: no answer within 100ms";
        assert!(render(&given_up).contains(&format!("{line}\n")));
        given_up.queues[0].again_in_seconds = Some(4);
        assert!(render(&given_up).contains(&format!("{line}; it is tried again in 4 s\n")));
        given_up.queues[0].tried = "it is full".into();
        assert!(render(&given_up).contains("again in 4 s (the last time: it is full)\n"));
        given_up.queues[0].given_up.clear();
        assert!(render(&given_up).contains("wq0.0 was given up 2 times, and is in use again\n"));
    }

    #[test]
    fn who_copies_is_said_in_words() {
        assert_eq!(
            render(&CopyResponse { engine: "cpu".into(), ..CopyResponse::default() }),
            "bodies are copied by the workers\n"
        );
        assert!(render(&CopyResponse { threshold: 0, ..answer() }).contains("measured not to pay"));
        let model = CopyResponse { engine: "dsa-model".into(), ..answer() };
        assert!(render(&model).contains("nothing about speed"));
    }
}
