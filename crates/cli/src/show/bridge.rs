//! `show bridge`.

use api::v1::{BridgeState, BridgesRequest, BridgesResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::span;
use crate::render::{Column, Paint, Table};

/// All bridges, or one with its addresses.
#[derive(Debug)]
pub(super) struct Bridges {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
}

impl View for Bridges {
    type Answer = BridgesResponse;

    async fn fetch(&self, client: &mut Client) -> Result<BridgesResponse, Error> {
        let request = BridgesRequest { name: self.name.clone().unwrap_or_default() };
        client.bridges(request).await.doing("show bridge")
    }

    fn table(
        &self,
        answer: &BridgesResponse,
        _before: Option<Before<'_, BridgesResponse>>,
        paint: Paint,
    ) -> String {
        if answer.bridges.is_empty() {
            return "no bridges\n".into();
        }
        let mut table = Table::new([
            Column::left("NAME"),
            Column::left("BVI").optional(),
            Column::right("ADDRESSES"),
            Column::right("LIMIT"),
            Column::right("MOVES"),
            Column::right("HELD").optional(),
            Column::left("MEMBERS"),
        ]);
        for bridge in &answer.bridges {
            table.row([
                (&bridge.name).into(),
                (&bridge.bvi).into(),
                bridge.macs.len().to_string().into(),
                bridge.learn_limit.into(),
                bridge.moves.into(),
                unless_zero(held(bridge)).into(),
                bridge.members.join(" ").into(),
            ]);
        }
        let mut text = table.render(paint);
        if let (Some(_), [bridge]) = (&self.name, answer.bridges.as_slice()) {
            text.push('\n');
            if !bridge.learning.is_empty() {
                text.push_str(&members(bridge, paint));
                text.push('\n');
            }
            text.push_str(&addresses(bridge, paint));
        }
        text
    }
}

/// Number of addresses that are held.
fn held(bridge: &BridgeState) -> usize {
    bridge.macs.iter().filter(|entry| !entry.contender.is_empty()).count()
}

/// An empty cell for 0: columns without anything aren't shown.
fn unless_zero(number: usize) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

/// Members that learn.
fn members(bridge: &BridgeState, paint: Paint) -> String {
    let mut table = Table::new([
        Column::left("MEMBER"),
        Column::right("LEARNED"),
        Column::right("MAX"),
        Column::right("REFUSED MOVES"),
    ]);
    for member in &bridge.learning {
        table.row([
            (&member.name).into(),
            member.macs.into(),
            member.max_macs.into(),
            member.refused_moves.into(),
        ]);
    }
    table.render(paint)
}

/// The address table.
fn addresses(bridge: &BridgeState, paint: Paint) -> String {
    if bridge.macs.is_empty() {
        return "no addresses\n".into();
    }
    let mut table = Table::new([
        Column::left("MAC"),
        Column::left("INTERFACE"),
        Column::left("KIND"),
        Column::right("AGE"),
        Column::left("HELD AGAINST").optional(),
    ]);
    for entry in &bridge.macs {
        table.row([
            (&entry.mac).into(),
            if entry.interface.is_empty() { "drop".into() } else { (&entry.interface).into() },
            if entry.r#static { "static".into() } else { "learned".into() },
            if entry.r#static { "-".into() } else { span(entry.age_seconds).into() },
            (&entry.contender).into(),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use api::v1::{BridgeMemberState, MacEntry};

    use super::*;

    #[test]
    fn a_bridge_and_its_addresses() {
        let learned = MacEntry {
            mac: "02:fe:00:00:00:02".into(),
            interface: "pod-a".into(),
            r#static: false,
            age_seconds: 61.0,
            contender: String::new(),
        };
        let fixed = MacEntry { mac: "02:fe:00:00:00:ff".into(), r#static: true, ..MacEntry::default() };
        let bridge = BridgeState {
            name: "br0".into(),
            members: vec!["pod-a".into(), "pod-b".into(), "bvi0".into()],
            bvi: "bvi0".into(),
            macs: vec![learned, fixed],
            learn_limit: 65_536,
            moves: 1,
            learning: Vec::new(),
        };
        let mut answer = BridgesResponse { bridges: vec![bridge] };
        let list = "NAME  BVI   ADDRESSES  LIMIT  MOVES  MEMBERS\n\
                    br0   bvi0          2  65536      1  pod-a pod-b bvi0\n";
        assert_eq!(Bridges { name: None }.table(&answer, None, Paint::new(false)), list);
        assert_eq!(
            Bridges { name: Some("br0".into()) }.table(&answer, None, Paint::new(false)),
            format!(
                "{list}\nMAC                INTERFACE  KIND       AGE\n\
                 02:fe:00:00:00:02  pod-a      learned  1m01s\n\
                 02:fe:00:00:00:ff  drop       static       -\n"
            )
        );
        let bridge = &mut answer.bridges[0];
        bridge.macs.truncate(1);
        bridge.macs[0].contender = "pod-b".into();
        bridge.learning = vec![
            BridgeMemberState { name: "pod-a".into(), macs: 1, max_macs: 8192, refused_moves: 0 },
            BridgeMemberState { name: "pod-b".into(), macs: 0, max_macs: 8192, refused_moves: 977 },
        ];
        assert_eq!(
            Bridges { name: Some("br0".into()) }.table(&answer, None, Paint::new(false)),
            "NAME  BVI   ADDRESSES  LIMIT  MOVES  HELD  MEMBERS\n\
             br0   bvi0          1  65536      1     1  pod-a pod-b bvi0\n\n\
             MEMBER  LEARNED   MAX  REFUSED MOVES\n\
             pod-a         1  8192              0\n\
             pod-b         0  8192            977\n\n\
             MAC                INTERFACE  KIND       AGE  HELD AGAINST\n\
             02:fe:00:00:00:02  pod-a      learned  1m01s  pod-b\n"
        );
    }
}
