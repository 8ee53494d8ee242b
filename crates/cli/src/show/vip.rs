//! `show vip`.

use api::text::Words;
use api::v1::{BackendClients, BackendState, VipBackendState, VipState, VipsRequest, VipsResponse};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{event_rate, growth};
use crate::render::{Cell, Column, Paint, Table, Tone, endpoint};

/// All VIPs, or one.
#[derive(Debug)]
pub(super) struct Vips {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
}

impl View for Vips {
    type Answer = VipsResponse;

    async fn fetch(&self, client: &mut Client) -> Result<VipsResponse, Error> {
        let request = VipsRequest { name: self.name.clone().unwrap_or_default() };
        let mut stream = client.vips(request).await.doing("show vip")?;
        let mut all = VipsResponse::default();
        while let Some(part) = stream.message().await.doing("show vip")? {
            all.vips.extend(part.vips);
        }
        Ok(all)
    }

    fn table(&self, answer: &VipsResponse, before: Option<Before<'_, VipsResponse>>, paint: Paint) -> String {
        if answer.vips.is_empty() {
            return "no VIPs\n".into();
        }
        let mut table = Table::new([
            Column::left("VIP"),
            Column::left("ASKED AT"),
            Column::left("BACKEND"),
            Column::left("STATE"),
            Column::right("WEIGHT"),
            Column::right("SESSIONS"),
            Column::right("CREATED"),
            Column::right("RATE").optional(),
            Column::right("PACKETS"),
            Column::right("ANSWERS"),
            Column::right("REFUSED"),
        ]);
        for vip in &answer.vips {
            let earlier = before.and_then(|before| {
                let then = before.answer.vips.iter().find(|other| other.name == vip.name)?;
                Some(growth(vip.created, then.created, before.elapsed))
            });
            table.row([
                (&vip.name).into(),
                asked_at(vip).into(),
                how(vip).into(),
                Cell::default(),
                Cell::default(),
                vip.sessions.into(),
                vip.created.into(),
                earlier.map(event_rate).unwrap_or_default().into(),
                vip.packets.into(),
                vip.answer_packets.into(),
                Cell::toned(vip.refused.to_string(), if vip.refused > 0 { Tone::Bad } else { Tone::Plain }),
            ]);
            for backend in &vip.backends {
                table.row([
                    Cell::default(),
                    Cell::default(),
                    endpoint(&backend.address, backend.port).into(),
                    state(backend),
                    backend.weight.into(),
                    backend.sessions.into(),
                    backend.created.into(),
                    Cell::default(),
                    backend.packets.into(),
                    backend.answer_packets.into(),
                    Cell::default(),
                ]);
            }
        }
        table.render(paint)
    }
}

/// "10.96.0.1:80/tcp".
fn asked_at(vip: &VipState) -> String {
    format!("{}/{}", endpoint(&vip.address, vip.port), vip.protocol().word())
}

/// "maglev, 60 s, direct": how one is chosen, and how packets get there.
fn how(vip: &VipState) -> String {
    let algorithm = vip.algorithm().word().replace('_', "-");
    let affinity = match vip.affinity_seconds {
        0 => String::new(),
        seconds => format!(", {seconds} s"),
    };
    let direct = if vip.direct_server_return { ", direct" } else { "" };
    format!("{algorithm}{affinity}{direct}")
}

fn state(backend: &VipBackendState) -> Cell {
    match (backend.leaving, backend.state()) {
        (true, _) => Cell::toned("leaving", Tone::Warn),
        (_, BackendState::Active) => Cell::toned(active(backend.clients()), Tone::Good),
        (_, BackendState::Down) => Cell::toned("down", Tone::Bad),
        (_, state) => Cell::toned(state.word(), Tone::Warn),
    }
}

/// For whom it is, where that isn't everybody.
const fn active(clients: BackendClients) -> &'static str {
    match clients {
        BackendClients::Inside => "active inside",
        BackendClients::Outside => "active outside",
        BackendClients::All | BackendClients::Unspecified => "active",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::{BalanceAlgorithm, VipProtocol};

    #[test]
    fn vips_and_their_backends() {
        let one = VipBackendState {
            address: "10.1.0.2".into(),
            port: 8080,
            weight: 1,
            state: BackendState::Active.into(),
            sessions: 3,
            created: 40,
            packets: 500,
            answer_packets: 400,
            ..VipBackendState::default()
        };
        let other = VipBackendState { address: "10.2.0.2".into(), leaving: true, created: 7, ..one.clone() };
        let web = VipState {
            name: "web".into(),
            address: "10.96.0.1".into(),
            port: 80,
            protocol: VipProtocol::Tcp.into(),
            algorithm: BalanceAlgorithm::LeastFlows.into(),
            affinity_seconds: 60,
            backends: vec![one, other],
            sessions: 6,
            created: 47,
            packets: 1000,
            answer_packets: 800,
            refused: 2,
            ..VipState::default()
        };
        for (clients, words) in [
            (BackendClients::All, "active"),
            (BackendClients::Inside, "active inside"),
            (BackendClients::Outside, "active outside"),
        ] {
            assert_eq!(active(clients), words);
        }
        let direct = VipState { direct_server_return: true, ..web.clone() };
        assert_eq!(how(&direct), "least-flows, 60 s, direct");
        let view = Vips { name: None };
        assert_eq!(
            view.table(&VipsResponse { vips: vec![web] }, None, Paint::new(false)),
            [
                "VIP  ASKED AT          BACKEND            STATE    WEIGHT  SESSIONS  CREATED  PACKETS  ANSWERS  REFUSED\n",
                "web  10.96.0.1:80/tcp  least-flows, 60 s                          6       47     1000      800        2\n",
                "                       10.1.0.2:8080      active        1         3       40      500      400\n",
                "                       10.2.0.2:8080      leaving       1         3        7      500      400\n",
            ]
            .concat()
        );
        assert_eq!(view.table(&VipsResponse::default(), None, Paint::new(false)), "no VIPs\n");
    }
}
