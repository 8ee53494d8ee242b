//! What became of a batch, as text.

use std::collections::HashMap;
use std::fmt::Write;

use api::v1::object_result::Outcome;
use api::v1::{ApplyResponse, Change, ChangeKind, FieldChange, ObjectResult, Wait};

use super::kind::describe;
use crate::render::{Paint, Tone};

/// One line per object and a last one with numbers; refused objects take more lines.
pub(super) fn report(response: &ApplyResponse, dry_run: bool, paint: Paint) -> String {
    let changes = response
        .changes
        .iter()
        .filter_map(|change| {
            Some(((change.object.as_ref()?.kind, change.object.as_ref()?.name.as_str()), change.kind()))
        })
        .collect::<HashMap<_, _>>();
    let in_force = response.committed || dry_run;
    let mut text = String::new();
    for result in &response.results {
        let change =
            result.object.as_ref().and_then(|object| changes.get(&(object.kind, object.name.as_str())));
        object(&mut text, result, change.copied(), in_force, paint);
    }
    let _ = writeln!(text, "{}", summary(response, dry_run));
    text
}

/// The lines of one object.
fn object(
    text: &mut String,
    result: &ObjectResult,
    change: Option<ChangeKind>,
    in_force: bool,
    paint: Paint,
) {
    let name = describe(result.object.as_ref());
    let _ = match &result.outcome {
        Some(Outcome::Refused(refused)) => {
            let _ = writeln!(text, "{name}: {}", paint.tone(Tone::Bad, "refused"));
            for (heading, line) in
                [("field", &refused.field), ("reason", &refused.reason), ("remedy", &refused.remedy)]
            {
                if !line.is_empty() {
                    let _ = writeln!(text, "    {heading:<7} {line}");
                }
            }
            Ok(())
        }
        Some(Outcome::Pending(pending)) => {
            let word = paint.tone(Tone::Warn, "pending");
            writeln!(text, "{name}: {word}{}, waits for {}", how(change), waits(&pending.waits_for))
        }
        // Without one of the known outcomes a newer quiverd has said something we don't know.
        Some(Outcome::Applied(_)) if in_force && change == Some(ChangeKind::Removed) => {
            writeln!(text, "{name}: {}", paint.tone(Tone::Good, "deleted"))
        }
        Some(Outcome::Applied(_)) if in_force => {
            writeln!(text, "{name}: {}{}", paint.tone(Tone::Good, "applied"), how(change))
        }
        Some(Outcome::Applied(_)) => writeln!(text, "{name}: valid, not applied"),
        None => writeln!(text, "{name}: unknown; this quiver is older than quiverd"),
    };
}

/// What apply did to an object that isn't in the way of its state.
fn how(change: Option<ChangeKind>) -> &'static str {
    match change {
        Some(ChangeKind::Added) => " (new)",
        Some(ChangeKind::Changed) => " (changed)",
        Some(ChangeKind::Removed) => " (deleted)",
        Some(ChangeKind::Unspecified) => "",
        None => " (unchanged)",
    }
}

/// What an object waits for: "interface pod-c: not there; bridge br0: …".
pub(super) fn waits(waits: &[Wait]) -> String {
    let wait = |wait: &Wait| match (&wait.object, wait.reason.as_str()) {
        (Some(object), "") => describe(Some(object)),
        (Some(object), reason) if reason.contains(object.name.as_str()) => reason.to_owned(),
        (Some(object), reason) => format!("{}: {reason}", describe(Some(object))),
        (None, reason) => reason.to_owned(),
    };
    match waits {
        [] => "something quiverd doesn't name".into(),
        all => all.iter().map(wait).collect::<Vec<_>>().join("; "),
    }
}

/// The last line.
fn summary(response: &ApplyResponse, dry_run: bool) -> String {
    let counts = response.counts.unwrap_or_default();
    let mut parts = Vec::new();
    for (count, word) in [
        (counts.applied, "applied"),
        (counts.pending, "pending"),
        (counts.refused, "refused"),
        (counts.deleted, "deleted"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    if counts.unchanged > 0 {
        parts.push(format!("{} of them unchanged", counts.unchanged));
    }
    let numbers = if parts.is_empty() { "nothing to do".into() } else { parts.join(", ") };
    let generation = response.generation;
    if dry_run {
        format!("dry run on generation {generation}: {numbers}; nothing was changed")
    } else if response.committed {
        format!("generation {generation}: {numbers}")
    } else {
        format!("nothing was changed, generation stays {generation}: {numbers}")
    }
}

/// What a batch would change, field by field.
pub(super) fn changes(changes: &[Change], paint: Paint) -> String {
    let mut text = String::new();
    for change in changes {
        let name = describe(change.object.as_ref());
        let (sign, tone) = match change.kind() {
            ChangeKind::Added => ('+', Tone::Good),
            ChangeKind::Removed => ('-', Tone::Bad),
            ChangeKind::Changed | ChangeKind::Unspecified => ('~', Tone::Warn),
        };
        let _ = writeln!(text, "{}", paint.tone(tone, &format!("{sign} {name}")));
        for FieldChange { field, before, after } in &change.fields {
            let _ = match (before.as_str(), after.as_str()) {
                ("", after) => writeln!(text, "    {field} = {after}"),
                (before, "") => writeln!(text, "    {field} = {before} -> not set"),
                (before, after) => writeln!(text, "    {field} = {before} -> {after}"),
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use api::v1::{Applied, ApplyCounts, Kind, ObjectRef, Pending, Refused};

    use super::*;

    fn result(kind: Kind, name: &str, outcome: Outcome) -> ObjectResult {
        ObjectResult { object: Some(ObjectRef::new(kind, name)), outcome: Some(outcome) }
    }

    fn change(kind: Kind, name: &str, how: ChangeKind, fields: &[(&str, &str, &str)]) -> Change {
        let field = |(field, before, after): &(&str, &str, &str)| FieldChange {
            field: (*field).into(),
            before: (*before).into(),
            after: (*after).into(),
        };
        Change {
            object: Some(ObjectRef::new(kind, name)),
            kind: how.into(),
            fields: fields.iter().map(field).collect(),
        }
    }

    #[test]
    fn a_batch_that_is_in_force() {
        let wait = Wait {
            object: Some(ObjectRef::new(Kind::Interface, "pod-c")),
            reason: "there is no interface pod-c".into(),
        };
        let response = ApplyResponse {
            generation: 5,
            committed: true,
            results: vec![
                result(Kind::Interface, "pod-a", Outcome::Applied(Applied {})),
                result(Kind::Interface, "pod-b", Outcome::Applied(Applied {})),
                result(
                    Kind::Route,
                    "default/10.9.0.0/16",
                    Outcome::Pending(Pending { waits_for: vec![wait] }),
                ),
                result(Kind::Vrf, "old", Outcome::Applied(Applied {})),
            ],
            counts: Some(ApplyCounts { applied: 2, pending: 1, deleted: 1, unchanged: 1, refused: 0 }),
            changes: vec![
                change(Kind::Interface, "pod-a", ChangeKind::Added, &[]),
                change(Kind::Route, "default/10.9.0.0/16", ChangeKind::Added, &[]),
                change(Kind::Vrf, "old", ChangeKind::Removed, &[]),
            ],
        };
        assert_eq!(
            report(&response, false, Paint::new(false)),
            "interface pod-a: applied (new)\n\
             interface pod-b: applied (unchanged)\n\
             route default/10.9.0.0/16: pending (new), waits for there is no interface pod-c\n\
             vrf old: deleted\n\
             generation 5: 2 applied, 1 pending, 1 deleted, 1 of them unchanged\n"
        );
    }

    #[test]
    fn a_batch_that_was_refused() {
        let refused = Refused {
            field: "memif.ring_size".into(),
            reason: "1000 is no power of two".into(),
            remedy: "take 512 or 1024".into(),
        };
        let response = ApplyResponse {
            generation: 4,
            committed: false,
            results: vec![
                result(Kind::Interface, "pod-a", Outcome::Applied(Applied {})),
                result(Kind::Interface, "pod-b", Outcome::Refused(refused)),
            ],
            counts: Some(ApplyCounts { applied: 1, refused: 1, ..ApplyCounts::default() }),
            changes: vec![],
        };
        assert_eq!(
            report(&response, false, Paint::new(false)),
            "interface pod-a: valid, not applied\n\
             interface pod-b: refused\n\
             \x20   field   memif.ring_size\n\
             \x20   reason  1000 is no power of two\n\
             \x20   remedy  take 512 or 1024\n\
             nothing was changed, generation stays 4: 1 applied, 1 refused\n"
        );
    }

    #[test]
    fn differences() {
        let all = [
            change(Kind::Bridge, "br0", ChangeKind::Added, &[("mac_age_seconds", "", "60")]),
            change(
                Kind::Interface,
                "pod-a",
                ChangeKind::Changed,
                &[("mtu", "1500", "9000"), ("vrf", "\"red\"", "")],
            ),
            change(Kind::Vrf, "old", ChangeKind::Removed, &[]),
        ];
        assert_eq!(
            changes(&all, Paint::new(false)),
            "+ bridge br0\n\
             \x20   mac_age_seconds = 60\n\
             ~ interface pod-a\n\
             \x20   mtu = 1500 -> 9000\n\
             \x20   vrf = \"red\" -> not set\n\
             - vrf old\n"
        );
    }
}
