//! Policers.

use api::text::Words as _;
use api::v1::{self, PolicerAction, PolicerType, PolicerUnit};
use features::policer::{Action, MAX_DSCP};
use tables::policer::{Kind, MAX_BURST, MAX_RATE, Rates, Unit};

use crate::model::{Flaw, Name, fields};

/// Code points that have names: RFC 2474, 2597, 3246.
const DSCPS: [(&str, u8); 21] = [
    ("default", 0),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// What becomes of green, yellow and red packets where nothing is said.
const DEFAULTS: [Action; 3] = [Action::Transmit, Action::Transmit, Action::Drop];
/// The fields that say so.
const ACTIONS: [(&str, &str); 3] = [
    ("conform_action", "conform_dscp"),
    ("exceed_action", "exceed_dscp"),
    ("violate_action", "violate_dscp"),
];

/// A policer; see [`v1::Policer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicerSpec {
    /// Unique name.
    pub name: Name,
    /// What was agreed.
    pub rates: Rates,
    /// Packets come coloured.
    pub is_aware: bool,
    /// What becomes of green, yellow and red packets.
    pub actions: [Action; 3],
    /// Each session has tokens of its own.
    pub per_session: bool,
}

impl PolicerSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(policer: &v1::Policer) -> Result<Self, Flaw> {
        let name = fields::name("name", &policer.name)?;
        let rates = rates(policer)?;
        let said = [
            (policer.conform_action, &policer.conform_dscp),
            (policer.exceed_action, &policer.exceed_dscp),
            (policer.violate_action, &policer.violate_dscp),
        ];
        let mut actions = DEFAULTS;
        for ((action, names), (its, dscp)) in actions.iter_mut().zip(ACTIONS).zip(said) {
            *action = self::action(names, (its, dscp), *action)?;
        }
        Ok(Self { name, rates, is_aware: policer.color_aware, actions, per_session: policer.per_session })
    }

    /// The canonical form.
    pub fn to_api(&self) -> v1::Policer {
        let Rates { kind, unit, committed, committed_burst, other, other_burst } = self.rates;
        let (kind, [pir, pbs, eir, ebs]) = match kind {
            Kind::SingleRate => (PolicerType::Unspecified, [0, 0, 0, other_burst]),
            Kind::TwoRates => (PolicerType::Trtcm, [other, other_burst, 0, 0]),
            Kind::TwoRatesExcess => (PolicerType::Rfc4115, [0, 0, other, other_burst]),
        };
        let unit = match unit {
            Unit::Bits => PolicerUnit::Unspecified,
            Unit::Bytes => PolicerUnit::Bytes,
            Unit::Packets => PolicerUnit::Packets,
        };
        let action = |at: usize| {
            let (action, dscp) = match self.actions[at] {
                action if action == DEFAULTS[at] => (PolicerAction::Unspecified, String::new()),
                Action::Transmit => (PolicerAction::Transmit, String::new()),
                Action::Mark(dscp) => (PolicerAction::Mark, dscp_name(dscp)),
                Action::Drop => (PolicerAction::Drop, String::new()),
            };
            (action.into(), dscp)
        };
        let [(conform_action, conform_dscp), (exceed_action, exceed_dscp), (violate_action, violate_dscp)] =
            [action(0), action(1), action(2)];
        v1::Policer {
            name: self.name.to_string(),
            r#type: kind.into(),
            unit: unit.into(),
            cir: committed,
            cbs: committed_burst,
            pir,
            pbs,
            eir,
            ebs,
            color_aware: self.is_aware,
            conform_action,
            exceed_action,
            violate_action,
            conform_dscp,
            exceed_dscp,
            violate_dscp,
            per_session: self.per_session,
        }
    }
}

fn rates(policer: &v1::Policer) -> Result<Rates, Flaw> {
    let kind = fields::choice("type", policer.r#type, PolicerType::Srtcm)?;
    let unit = match fields::choice("unit", policer.unit, PolicerUnit::Bits)? {
        PolicerUnit::Unspecified | PolicerUnit::Bits => Unit::Bits,
        PolicerUnit::Bytes => Unit::Bytes,
        PolicerUnit::Packets => Unit::Packets,
    };
    let rate = |field: &str, said: u64| within(field, said, MAX_RATE);
    let burst = |field: &str, said: u64| within(field, said, MAX_BURST);
    let committed = not_zero("cir", rate("cir", policer.cir)?, "nothing would conform in the long run")?;
    let committed_burst = not_zero("cbs", burst("cbs", policer.cbs)?, "no packet would conform")?;
    let unused = |fields: &[(&str, u64)]| match fields.iter().find(|(_, said)| *said != 0) {
        Some((field, _)) => {
            Err(Flaw::new(*field, format!("has no meaning for a policer of type {}", kind.word()))
                .remedy("leave it out, or take another type"))
        }
        None => Ok(()),
    };
    let (pir, pbs) = (("pir", policer.pir), ("pbs", policer.pbs));
    let (eir, ebs) = (("eir", policer.eir), ("ebs", policer.ebs));
    let (kind, other, other_burst) = match kind {
        PolicerType::Unspecified | PolicerType::Srtcm => {
            unused(&[pir, pbs, eir])?;
            (Kind::SingleRate, 0, burst(ebs.0, ebs.1)?)
        }
        PolicerType::Trtcm => {
            unused(&[eir, ebs])?;
            let not_below =
                |(field, said): (&str, u64), (least, committed): (&str, u64)| match said < committed {
                    true => {
                        let what = format!("{said} is below {least}, {committed}");
                        Err(Flaw::new(field, what)
                            .remedy(format!("take at least {least}; RFC 2698 asks for that")))
                    }
                    false => Ok(said),
                };
            let peak = not_below((pir.0, rate(pir.0, pir.1)?), ("cir", committed))?;
            (Kind::TwoRates, peak, not_below((pbs.0, burst(pbs.0, pbs.1)?), ("cbs", committed_burst))?)
        }
        PolicerType::Rfc4115 => {
            unused(&[pir, pbs])?;
            (Kind::TwoRatesExcess, rate(eir.0, eir.1)?, burst(ebs.0, ebs.1)?)
        }
    };
    Ok(Rates { kind, unit, committed, committed_burst, other, other_burst })
}

fn within(field: &str, said: u64, most: u64) -> Result<u64, Flaw> {
    if said > most {
        return Err(Flaw::new(field, format!("{said} is too high")).remedy(format!("take at most {most}")));
    }
    Ok(said)
}

fn not_zero(field: &str, said: u64, reason: &str) -> Result<u64, Flaw> {
    match said {
        0 => Err(Flaw::new(field, format!("is 0, or left out: {reason}")).remedy("say how much may come")),
        said => Ok(said),
    }
}

fn action(
    (field, dscp_field): (&str, &str),
    (said, dscp): (i32, &str),
    default: Action,
) -> Result<Action, Flaw> {
    let said = fields::choice(field, said, PolicerAction::Unspecified)?;
    match (said, dscp) {
        (PolicerAction::Mark, "") => {
            Err(Flaw::new(dscp_field, "isn't said, but packets are to be marked with it")
                .remedy("name one: \"af12\", or a number up to 63"))
        }
        (PolicerAction::Mark, text) => dscp_of(dscp_field, text).map(Action::Mark),
        (_, text) if !text.is_empty() => {
            Err(Flaw::new(dscp_field, format!("is for {field} = \"mark\" only"))
                .remedy("leave one of the two out"))
        }
        (PolicerAction::Transmit, _) => Ok(Action::Transmit),
        (PolicerAction::Drop, _) => Ok(Action::Drop),
        (PolicerAction::Unspecified, _) => Ok(default),
    }
}

fn dscp_of(field: &str, text: &str) -> Result<u8, Flaw> {
    let named = DSCPS.iter().find(|(name, _)| *name == text).map(|(_, dscp)| *dscp);
    let number = || text.parse().ok().filter(|dscp| *dscp <= MAX_DSCP);
    named.or_else(number).ok_or_else(|| {
        Flaw::new(field, format!("there is no DSCP {text:?}")).remedy(
            "take \"ef\", \"af11\" to \"af43\", \"cs1\" to \"cs7\", \"default\", or a number up to 63",
        )
    })
}

fn dscp_name(dscp: u8) -> String {
    let named = DSCPS.iter().find(|(_, code)| *code == dscp);
    named.map_or_else(|| dscp.to_string(), |(name, _)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn srtcm() -> v1::Policer {
        v1::Policer { name: "gold".into(), cir: 1_000_000, cbs: 3000, ..v1::Policer::default() }
    }

    fn trtcm() -> v1::Policer {
        v1::Policer { r#type: PolicerType::Trtcm.into(), pir: 2_000_000, pbs: 3000, ..srtcm() }
    }

    #[test]
    fn the_canonical_form_is_what_differs_from_the_defaults() {
        let marks = v1::Policer {
            conform_action: PolicerAction::Mark.into(),
            conform_dscp: "af11".into(),
            exceed_action: PolicerAction::Drop.into(),
            violate_action: PolicerAction::Mark.into(),
            violate_dscp: "63".into(),
            color_aware: true,
            per_session: true,
            ..trtcm()
        };
        let excess = v1::Policer {
            r#type: PolicerType::Rfc4115.into(),
            unit: PolicerUnit::Packets.into(),
            eir: 5,
            ebs: 7,
            ..srtcm()
        };
        for api in [srtcm(), v1::Policer { ebs: 9, ..srtcm() }, trtcm(), marks, excess] {
            assert_eq!(PolicerSpec::parse(&api).unwrap().to_api(), api);
        }
        let said = v1::Policer {
            r#type: PolicerType::Srtcm.into(),
            unit: PolicerUnit::Bits.into(),
            conform_action: PolicerAction::Transmit.into(),
            exceed_action: PolicerAction::Mark.into(),
            exceed_dscp: "46".into(),
            violate_action: PolicerAction::Drop.into(),
            ..srtcm()
        };
        let canonical =
            v1::Policer { exceed_action: PolicerAction::Mark.into(), exceed_dscp: "ef".into(), ..srtcm() };
        assert_eq!(PolicerSpec::parse(&said).unwrap().to_api(), canonical);
    }

    /// Figure 2 of RFC 2474, table 1 of RFC 2597 (class × 8 + precedence × 2), and section 2.7 of RFC 3246.
    #[test]
    fn code_points_have_the_names_of_their_rfcs() {
        for class in 1..=7 {
            assert_eq!(dscp_of("dscp", &format!("cs{class}")), Ok(class * 8));
        }
        for (class, precedence) in
            (1..=4).flat_map(|class| (1..=3).map(move |precedence| (class, precedence)))
        {
            assert_eq!(dscp_of("dscp", &format!("af{class}{precedence}")), Ok(class * 8 + precedence * 2));
        }
        assert_eq!((dscp_of("dscp", "ef"), dscp_of("dscp", "default")), (Ok(0b10_1110), Ok(0)));
        for dscp in 0..=MAX_DSCP {
            assert_eq!(dscp_of("dscp", &dscp_name(dscp)), Ok(dscp));
        }
    }

    #[test]
    fn flaws_name_their_field() {
        let marked = |dscp: &str| v1::Policer {
            exceed_action: PolicerAction::Mark.into(),
            exceed_dscp: dscp.into(),
            ..srtcm()
        };
        for (api, field) in [
            (v1::Policer { name: "a b".into(), ..srtcm() }, "name"),
            (v1::Policer { cir: 0, ..srtcm() }, "cir"),
            (v1::Policer { cir: MAX_RATE + 1, ..srtcm() }, "cir"),
            (v1::Policer { cbs: 0, ..srtcm() }, "cbs"),
            (v1::Policer { cbs: MAX_BURST + 1, ..srtcm() }, "cbs"),
            (v1::Policer { ebs: MAX_BURST + 1, ..srtcm() }, "ebs"),
            (v1::Policer { pir: 1, ..srtcm() }, "pir"),
            (v1::Policer { eir: 1, ..srtcm() }, "eir"),
            (v1::Policer { pir: 999_999, ..trtcm() }, "pir"),
            (v1::Policer { pir: 0, ..trtcm() }, "pir"),
            (v1::Policer { pbs: 2999, ..trtcm() }, "pbs"),
            (v1::Policer { ebs: 1, ..trtcm() }, "ebs"),
            (v1::Policer { r#type: PolicerType::Rfc4115.into(), pbs: 1, ..srtcm() }, "pbs"),
            (v1::Policer { r#type: 9, ..srtcm() }, "type"),
            (v1::Policer { unit: 9, ..srtcm() }, "unit"),
            (v1::Policer { violate_action: 9, ..srtcm() }, "violate_action"),
            (marked(""), "exceed_dscp"),
            (marked("64"), "exceed_dscp"),
            (marked("af44"), "exceed_dscp"),
            (v1::Policer { conform_dscp: "ef".into(), ..srtcm() }, "conform_dscp"),
        ] {
            assert_eq!(PolicerSpec::parse(&api).unwrap_err().field, field, "{api:?}");
        }
    }
}
