//! Engines that look into a tenant's sessions.

use api::v1::{FailureAction, Redirect};
use features::session::redirect::OnFailure;

use crate::model::{Flaw, Name, fields};

const DEFAULT_AWAY_AFTER: u32 = 1000;
/// Two heartbeats may be late, and nobody waits for a minute.
const AWAY_AFTER: std::ops::RangeInclusive<u32> = 300..=60_000;

/// An engine; see [`Redirect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectSpec {
    /// By which initiators' packets leave and answers come back, and the other one; the same where there is one.
    pub interfaces: [Name; 2],
    /// What becomes of packets while the engine is away.
    pub on_failure: OnFailure,
    /// After how many milliseconds without a heartbeat it is taken to be away.
    pub away_after: u32,
    /// Packets that it sees of each direction of a session; 0: all.
    pub inspect_packets: u32,
    /// Only sessions visit it of which a rule says so.
    pub only_by_rules: bool,
    /// Packets in fragments are put together for it.
    pub reassemble: bool,
}

impl RedirectSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(redirect: &Redirect) -> Result<Self, Flaw> {
        let name = |at: usize| fields::name(&format!("redirect.interfaces[{at}]"), &redirect.interfaces[at]);
        let interfaces = match redirect.interfaces.len() {
            1 => [name(0)?, name(0)?],
            2 if redirect.interfaces[0] == redirect.interfaces[1] => {
                let flaw =
                    Flaw::new("redirect.interfaces", format!("{} appears twice", redirect.interfaces[0]));
                return Err(flaw.remedy("name it once where everything comes back by it"));
            }
            2 => [name(0)?, name(1)?],
            other => {
                return Err(Flaw::new("redirect.interfaces", format!("there are {other}"))
                    .remedy("name the two interfaces that the engine copies between, or one"));
            }
        };
        let action = fields::choice("redirect.on_failure", redirect.on_failure, FailureAction::Drop)?;
        Ok(Self {
            interfaces,
            on_failure: if action == FailureAction::Pass { OnFailure::Pass } else { OnFailure::Drop },
            away_after: fields::number(
                "redirect.away_after_milliseconds",
                redirect.away_after_milliseconds,
                AWAY_AFTER,
                DEFAULT_AWAY_AFTER,
            )?,
            inspect_packets: redirect.inspect_packets,
            only_by_rules: redirect.only_by_rules,
            reassemble: redirect.reassemble,
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Redirect {
        Redirect {
            interfaces: self.names().map(ToString::to_string).collect(),
            on_failure: match self.on_failure {
                OnFailure::Drop => FailureAction::Unspecified,
                OnFailure::Pass => FailureAction::Pass,
            }
            .into(),
            away_after_milliseconds: if self.away_after == DEFAULT_AWAY_AFTER { 0 } else { self.away_after },
            inspect_packets: self.inspect_packets,
            only_by_rules: self.only_by_rules,
            reassemble: self.reassemble,
        }
    }

    /// Its interfaces, each once.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        let [one, other] = &self.interfaces;
        std::iter::once(one).chain((one != other).then_some(other))
    }
}
