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
            Column::left("MEMBERS"),
        ]);
        for bridge in &answer.bridges {
            table.row([
                (&bridge.name).into(),
                (&bridge.bvi).into(),
                bridge.macs.len().to_string().into(),
                bridge.learn_limit.into(),
                bridge.moves.into(),
                bridge.members.join(" ").into(),
            ]);
        }
        let mut text = table.render(paint);
        if let (Some(_), [bridge]) = (&self.name, answer.bridges.as_slice()) {
            text.push('\n');
            text.push_str(&addresses(bridge, paint));
        }
        text
    }
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
    ]);
    for entry in &bridge.macs {
        table.row([
            (&entry.mac).into(),
            if entry.interface.is_empty() { "drop".into() } else { (&entry.interface).into() },
            if entry.r#static { "static".into() } else { "learned".into() },
            if entry.r#static { "-".into() } else { span(entry.age_seconds).into() },
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use api::v1::MacEntry;

    use super::*;

    #[test]
    fn a_bridge_and_its_addresses() {
        let learned = MacEntry {
            mac: "02:fe:00:00:00:02".into(),
            interface: "pod-a".into(),
            r#static: false,
            age_seconds: 61.0,
        };
        let fixed = MacEntry { mac: "02:fe:00:00:00:ff".into(), r#static: true, ..MacEntry::default() };
        let bridge = BridgeState {
            name: "br0".into(),
            members: vec!["pod-a".into(), "pod-b".into(), "bvi0".into()],
            bvi: "bvi0".into(),
            macs: vec![learned, fixed],
            learn_limit: 65_536,
            moves: 1,
        };
        let answer = BridgesResponse { bridges: vec![bridge] };
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
    }
}
