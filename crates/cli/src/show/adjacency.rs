//! `show adjacency`.

use api::v1::{AdjacenciesRequest, AdjacenciesResponse, AdjacencyState};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{bit_rate, growth, packet_rate};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// Whom next hops lead to.
#[derive(Debug)]
pub(super) struct Adjacencies {
    /// By this interface; `None`: by all.
    pub(super) interface: Option<String>,
}

impl View for Adjacencies {
    type Answer = AdjacenciesResponse;

    async fn fetch(&self, client: &mut Client) -> Result<AdjacenciesResponse, Error> {
        let request = AdjacenciesRequest { interface: self.interface.clone().unwrap_or_default() };
        client.adjacencies(request).await.doing("show adjacency")
    }

    fn table(
        &self,
        answer: &AdjacenciesResponse,
        before: Option<Before<'_, AdjacenciesResponse>>,
        paint: Paint,
    ) -> String {
        if answer.adjacencies.is_empty() {
            return "no adjacencies\n".into();
        }
        let mut table = Table::new([
            Column::right("IDX"),
            Column::left("INTERFACE"),
            Column::left("NEXT HOP"),
            Column::left("REWRITE"),
            Column::right("MTU"),
            Column::right("PACKETS"),
            Column::right("BYTES"),
            Column::right("RATE").optional(),
            Column::right("BITS").optional(),
        ]);
        for adjacency in &answer.adjacencies {
            let [packets, bits] = rates(adjacency, before);
            table.row([
                adjacency.index.into(),
                (&adjacency.interface).into(),
                if adjacency.address.is_empty() { "direct".into() } else { (&adjacency.address).into() },
                rewrite(adjacency),
                adjacency.mtu.into(),
                adjacency.packets.into(),
                adjacency.bytes.into(),
                packets,
                bits,
            ]);
        }
        table.render(paint)
    }
}

fn rewrite(adjacency: &AdjacencyState) -> Cell {
    match (adjacency.resolved, adjacency.rewrite.as_str()) {
        (false, _) => Cell::toned("unresolved", Tone::Warn),
        (true, "") => "-".into(),
        (true, rewrite) => rewrite.into(),
    }
}

/// Packets and bits per second since the earlier answer; empty if the adjacency is new.
fn rates(adjacency: &AdjacencyState, before: Option<Before<'_, AdjacenciesResponse>>) -> [Cell; 2] {
    let same = |it: &&AdjacencyState| {
        (it.index, &it.interface, &it.address) == (adjacency.index, &adjacency.interface, &adjacency.address)
    };
    let earlier =
        before.and_then(|before| Some((before.answer.adjacencies.iter().find(same)?, before.elapsed)));
    let Some((earlier, elapsed)) = earlier else { return Default::default() };
    [
        packet_rate(growth(adjacency.packets, earlier.packets, elapsed)).into(),
        bit_rate(growth(adjacency.bytes, earlier.bytes, elapsed)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(packets: u64) -> AdjacenciesResponse {
        let known = AdjacencyState {
            index: 1,
            interface: "pod-a".into(),
            address: "10.0.0.2".into(),
            resolved: true,
            rewrite: "02fe0000000202fe000000010800".into(),
            mtu: 1500,
            packets,
            bytes: packets * 98,
        };
        let asked = AdjacencyState {
            index: 2,
            address: "10.0.0.9".into(),
            resolved: false,
            rewrite: String::new(),
            packets: 0,
            bytes: 0,
            ..known.clone()
        };
        let direct = AdjacencyState {
            index: 3,
            interface: "tun-b".into(),
            address: String::new(),
            resolved: true,
            mtu: 9000,
            ..asked.clone()
        };
        AdjacenciesResponse { adjacencies: vec![known, asked, direct] }
    }

    #[test]
    fn known_unknown_and_direct() {
        assert_eq!(
            Adjacencies { interface: None }.table(&answer(7), None, Paint::new(false)),
            "IDX  INTERFACE  NEXT HOP  REWRITE                        MTU  PACKETS  BYTES\n\
             \x20 1  pod-a      10.0.0.2  02fe0000000202fe000000010800  1500        7    686\n\
             \x20 2  pod-a      10.0.0.9  unresolved                    1500        0      0\n\
             \x20 3  tun-b      direct    -                             9000        0      0\n"
        );
    }

    #[test]
    fn rates_between_two_answers() {
        let (earlier, later) = (answer(7), answer(1007));
        let before = Before { answer: &earlier, elapsed: Duration::from_secs(2) };
        let text = Adjacencies { interface: None }.table(&later, Some(before), Paint::new(false));
        let row = text.lines().nth(1).unwrap();
        assert!(row.ends_with("1007  98686  500 pps  392 kbps"), "{text}");
    }
}
