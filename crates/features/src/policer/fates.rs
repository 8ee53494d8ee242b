//! A policer's actions in words.

use super::{Action, Profile};

/// What becomes of packets by their colour: "green pass, yellow are marked with DSCP 12, red are dropped".
#[must_use]
pub fn fates(profile: &Profile) -> String {
    let fate = |(colour, action): (&str, Action)| match action {
        Action::Transmit => format!("{colour} pass"),
        Action::Mark(dscp) => format!("{colour} are marked with DSCP {dscp}"),
        Action::Drop => format!("{colour} are dropped"),
    };
    ["green", "yellow", "red"].into_iter().zip(profile.actions).map(fate).collect::<Vec<_>>().join(", ")
}
