//! `show policer`.

use api::text::Words as _;
use api::v1::{
    Policer, PolicerHits, PolicerState, PolicerType, PolicerUnit, PolicerUser, PolicersRequest,
    PolicersResponse,
};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::number::{event_rate, growth};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// All policers, or one.
#[derive(Debug)]
pub(super) struct Policers {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
}

impl View for Policers {
    type Answer = PolicersResponse;

    async fn fetch(&self, client: &mut Client) -> Result<PolicersResponse, Error> {
        let request = PolicersRequest { name: self.name.clone().unwrap_or_default() };
        client.policers(request).await.doing("show policer")
    }

    fn table(
        &self,
        answer: &PolicersResponse,
        before: Option<Before<'_, PolicersResponse>>,
        paint: Paint,
    ) -> String {
        if answer.policers.is_empty() {
            return "no policers\n".into();
        }
        let mut table = Table::new([
            Column::left("POLICER"),
            Column::left("RATES"),
            Column::left("METERS"),
            Column::right("GREEN"),
            Column::right("BYTES"),
            Column::right("YELLOW"),
            Column::right("BYTES"),
            Column::right("RED"),
            Column::right("BYTES"),
            Column::right("PASSED").optional(),
            Column::right("TOO MUCH").optional(),
        ]);
        for state in &answer.policers {
            let policer = state.policer.clone().unwrap_or_default();
            let row = |user: Option<&PolicerUser>, rates: [Cell; 2]| {
                let hits =
                    |hits: fn(&PolicerUser) -> Option<PolicerHits>| user.and_then(hits).unwrap_or_default();
                let [green, yellow, red] =
                    [hits(|user| user.green), hits(|user| user.yellow), hits(|user| user.red)];
                let bad = if red.packets > 0 { Tone::Bad } else { Tone::Plain };
                let [passed, too_much] = rates;
                [
                    (&policer.name).into(),
                    rates_of(&policer).into(),
                    user.map(meters).unwrap_or_default().into(),
                    green.packets.into(),
                    green.bytes.into(),
                    yellow.packets.into(),
                    yellow.bytes.into(),
                    Cell::toned(red.packets.to_string(), bad),
                    red.bytes.into(),
                    passed,
                    too_much,
                ]
            };
            if state.users.is_empty() {
                table.row(row(None, [Cell::default(), Cell::default()]));
            }
            for user in &state.users {
                let earlier = before.and_then(|before| {
                    let same = |then: &&PolicerState| {
                        then.policer.as_ref().is_some_and(|then| then.name == policer.name)
                    };
                    let then = before.answer.policers.iter().find(same)?;
                    let then = then.users.iter().find(|then| meters(then) == meters(user))?;
                    let rate = |hits: fn(&PolicerUser) -> Option<PolicerHits>| {
                        let packets = |user| hits(user).unwrap_or_default().packets;
                        growth(packets(user), packets(then), before.elapsed)
                    };
                    Some([rate(|user| user.green), rate(|user| user.red)].map(|rate| event_rate(rate).into()))
                });
                table.row(row(Some(user), earlier.unwrap_or_default()));
            }
        }
        table.render(paint)
    }
}

/// "tenant red, reverse".
fn meters(user: &PolicerUser) -> String {
    match (user.tenant.as_str(), user.reverse) {
        ("", _) => format!("interface {}", user.interface),
        (tenant, false) => format!("tenant {tenant}, forward"),
        (tenant, true) => format!("tenant {tenant}, reverse"),
    }
}

/// "srtcm 1000000 bit/s, 3000 bytes".
pub(crate) fn rates_of(policer: &Policer) -> String {
    let kind = match policer.r#type() {
        PolicerType::Unspecified => PolicerType::Srtcm,
        kind => kind,
    };
    let (rate, burst) = match policer.unit() {
        PolicerUnit::Unspecified | PolicerUnit::Bits => ("bit/s", "bytes"),
        PolicerUnit::Bytes => ("bytes/s", "bytes"),
        PolicerUnit::Packets => ("packets/s", "packets"),
    };
    let more = match kind {
        PolicerType::Trtcm => format!(" + {} {rate}, {} {burst}", policer.pir, policer.pbs),
        PolicerType::Rfc4115 => format!(" + {} {rate}, {} {burst}", policer.eir, policer.ebs),
        _ if policer.ebs > 0 => format!(" + {} {burst}", policer.ebs),
        _ => String::new(),
    };
    let each = if policer.per_session { " each session" } else { "" };
    format!("{} {} {rate}, {} {burst}{more}{each}", kind.word(), policer.cir, policer.cbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policers_and_whom_they_meter() {
        let hits = |packets, bytes| Some(PolicerHits { packets, bytes });
        let gold =
            Policer { name: "gold".into(), cir: 1_000_000, cbs: 3000, ebs: 1500, ..Policer::default() };
        let tin = Policer {
            name: "tin".into(),
            r#type: PolicerType::Trtcm.into(),
            unit: PolicerUnit::Packets.into(),
            cir: 5,
            cbs: 6,
            pir: 7,
            pbs: 8,
            per_session: true,
            ..Policer::default()
        };
        let red = PolicerUser {
            tenant: "red".into(),
            reverse: true,
            green: hits(10, 1000),
            yellow: hits(2, 200),
            red: hits(1, 100),
            ..PolicerUser::default()
        };
        let uplink = PolicerUser { interface: "uplink".into(), green: hits(7, 70), ..PolicerUser::default() };
        let answer = PolicersResponse {
            policers: vec![
                PolicerState { policer: Some(gold), users: vec![red, uplink] },
                PolicerState { policer: Some(tin), users: vec![] },
            ],
        };
        let view = Policers { name: None };
        assert_eq!(
            view.table(&answer, None, Paint::new(false)),
            "POLICER  RATES                                                               METERS               GREEN  BYTES  YELLOW  BYTES  RED  BYTES\n\
             gold     srtcm 1000000 bit/s, 3000 bytes + 1500 bytes                        tenant red, reverse     10   1000       2    200    1    100\n\
             gold     srtcm 1000000 bit/s, 3000 bytes + 1500 bytes                        interface uplink         7     70       0      0    0      0\n\
             tin      trtcm 5 packets/s, 6 packets + 7 packets/s, 8 packets each session                           0      0       0      0    0      0\n"
        );
        assert_eq!(view.table(&PolicersResponse::default(), None, Paint::new(false)), "no policers\n");
    }
}
