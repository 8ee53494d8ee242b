//! `show drops`.

use std::fmt::Write;

use api::text::Words;
use api::v1::{DropCounter, DropSeverity, DropsRequest, DropsResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{growth, packet_rate};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// Dropped packets by node and reason.
#[derive(Debug)]
pub(super) struct Drops {
    /// Whether to say what each reason means.
    pub(super) explain: bool,
}

impl View for Drops {
    type Answer = DropsResponse;

    async fn fetch(&self, client: &mut Client) -> Result<DropsResponse, Error> {
        client.drops(DropsRequest {}).await.doing("show drops")
    }

    fn table(
        &self,
        answer: &DropsResponse,
        before: Option<Before<'_, DropsResponse>>,
        paint: Paint,
    ) -> String {
        if answer.drops.is_empty() {
            return "no packet was dropped\n".into();
        }
        let mut table = Table::new([
            Column::left("NODE"),
            Column::left("REASON"),
            Column::left("INTERFACE").optional(),
            Column::right("PACKETS"),
            Column::right("RATE").optional(),
            Column::left("SEVERITY"),
        ]);
        for drop in &answer.drops {
            let rate =
                before.map(|before| packet_rate(growth(drop.packets, earlier(drop, before), before.elapsed)));
            table.row([
                (&drop.node).into(),
                (&drop.reason).into(),
                (&drop.interface).into(),
                drop.packets.into(),
                rate.unwrap_or_default().into(),
                Cell::toned(drop.severity().word(), tone(drop.severity())),
            ]);
        }
        let mut text = table.render(paint);
        if self.explain {
            text.push_str(&explanations(&answer.drops));
        }
        text
    }
}

/// The count in the earlier answer; 0 if it wasn't there.
fn earlier(drop: &DropCounter, before: Before<'_, DropsResponse>) -> u64 {
    let same = |it: &&DropCounter| {
        it.node == drop.node && it.reason == drop.reason && it.interface == drop.interface
    };
    before.answer.drops.iter().find(same).map_or(0, |it| it.packets)
}

/// How alarming a severity is.
pub(crate) fn tone(severity: DropSeverity) -> Tone {
    match severity {
        DropSeverity::Unspecified | DropSeverity::Info => Tone::Plain,
        DropSeverity::Loss | DropSeverity::Invalid => Tone::Warn,
        DropSeverity::Bug => Tone::Bad,
    }
}

/// Each reason once, with its help text.
fn explanations(drops: &[DropCounter]) -> String {
    let mut told = Vec::new();
    let mut text = String::new();
    for drop in drops {
        let reason = (&drop.node, &drop.reason);
        if drop.help.is_empty() || told.contains(&reason) {
            continue;
        }
        let _ = write!(text, "\n{} {}\n    {}\n", drop.node, drop.reason, drop.help);
        told.push(reason);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn drops(packets: u64) -> DropsResponse {
        let ttl = DropCounter {
            node: "ip4-input".into(),
            reason: "ttl-expired".into(),
            help: "Time to live ran out. Look for a routing loop.".into(),
            severity: DropSeverity::Loss.into(),
            packets,
            interface: "pod-a".into(),
        };
        let bug = DropCounter {
            node: "drop".into(),
            reason: "no-edge".into(),
            severity: DropSeverity::Bug.into(),
            packets: 1,
            ..DropCounter::default()
        };
        DropsResponse { drops: vec![ttl, bug] }
    }

    #[test]
    fn with_rates_and_explanations() {
        let (then, now) = (drops(10), drops(3010));
        let before = Before { answer: &then, elapsed: Duration::from_secs(3) };
        assert_eq!(
            Drops { explain: true }.table(&now, Some(before), Paint::new(false)),
            "NODE       REASON       INTERFACE  PACKETS    RATE  SEVERITY\n\
             ip4-input  ttl-expired  pod-a         3010  1 kpps  loss\n\
             drop       no-edge                       1   0 pps  bug\n\
             \n\
             ip4-input ttl-expired\n\
             \x20   Time to live ran out. Look for a routing loop.\n"
        );
    }

    #[test]
    fn none() {
        let text = Drops { explain: false }.table(&DropsResponse::default(), None, Paint::new(false));
        assert_eq!(text, "no packet was dropped\n");
    }
}
