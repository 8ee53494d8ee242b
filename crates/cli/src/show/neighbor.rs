//! `show neighbor`.

use api::text::Words;
use api::v1::{NeighborPhase, NeighborsRequest, NeighborsResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::span;
use crate::render::{Cell, Column, Paint, Table, Tone};

/// The ARP and IPv6 neighbour tables.
#[derive(Debug)]
pub(super) struct Neighbors {
    /// Of this interface; `None`: of all.
    pub(super) interface: Option<String>,
}

impl View for Neighbors {
    type Answer = NeighborsResponse;

    async fn fetch(&self, client: &mut Client) -> Result<NeighborsResponse, Error> {
        let request = NeighborsRequest { interface: self.interface.clone().unwrap_or_default() };
        client.neighbors(request).await.doing("show neighbor")
    }

    fn table(
        &self,
        answer: &NeighborsResponse,
        _before: Option<Before<'_, NeighborsResponse>>,
        paint: Paint,
    ) -> String {
        if answer.neighbors.is_empty() {
            return "no neighbours\n".into();
        }
        let mut table = Table::new([
            Column::left("INTERFACE"),
            Column::left("ADDRESS"),
            Column::left("MAC"),
            Column::left("STATE"),
            Column::right("AGE"),
            Column::right("WAITING"),
        ]);
        for neighbor in &answer.neighbors {
            let phase = neighbor.phase();
            let tone = match phase {
                NeighborPhase::Reachable | NeighborPhase::Static => Tone::Good,
                NeighborPhase::Incomplete | NeighborPhase::Failed => Tone::Bad,
                NeighborPhase::Stale | NeighborPhase::Probe | NeighborPhase::Unspecified => Tone::Plain,
            };
            let never = neighbor.mac.is_empty() || phase == NeighborPhase::Static;
            table.row([
                (&neighbor.interface).into(),
                (&neighbor.address).into(),
                if neighbor.mac.is_empty() { "-".into() } else { (&neighbor.mac).into() },
                Cell::toned(phase.word(), tone),
                if never { "-".into() } else { span(neighbor.age_seconds).into() },
                neighbor.waiting.into(),
            ]);
        }
        table.render(paint)
    }
}

#[cfg(test)]
mod tests {
    use api::v1::NeighborState;

    use super::*;

    #[test]
    fn known_and_unknown() {
        let known = NeighborState {
            interface: "pod-a".into(),
            address: "10.0.0.2".into(),
            mac: "02:fe:00:00:00:02".into(),
            phase: NeighborPhase::Reachable.into(),
            age_seconds: 12.34,
            waiting: 0,
        };
        let asked = NeighborState {
            address: "10.0.0.9".into(),
            mac: String::new(),
            phase: NeighborPhase::Incomplete.into(),
            waiting: 3,
            ..known.clone()
        };
        let fixed =
            NeighborState { address: "fd00::2".into(), phase: NeighborPhase::Static.into(), ..known.clone() };
        let answer = NeighborsResponse { neighbors: vec![known, asked, fixed] };
        assert_eq!(
            Neighbors { interface: None }.table(&answer, None, Paint::new(false)),
            "INTERFACE  ADDRESS   MAC                STATE          AGE  WAITING\n\
             pod-a      10.0.0.2  02:fe:00:00:00:02  reachable   12.3 s        0\n\
             pod-a      10.0.0.9  -                  incomplete       -        3\n\
             pod-a      fd00::2   02:fe:00:00:00:02  static           -        0\n"
        );
    }
}
