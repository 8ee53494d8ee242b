//! What became of a batch, as text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use api::v1::object_result::Outcome;
use api::v1::{
    ApplyRequest, ApplyResponse, Change, ChangeKind, Config, FieldChange, ObjectRef, ObjectResult, Wait,
};
use serde_json::Value;

use super::kind::describe;
use crate::render::{Paint, Tone};

/// What was asked for, as far as the report needs it.
#[derive(Debug)]
pub(super) struct Asked {
    /// Objects of the batch; others come into the answer because the batch moved them.
    batch: HashSet<ObjectRef>,
    dry_run: bool,
}

impl Asked {
    /// By this request.
    pub(super) fn new(request: &ApplyRequest) -> Self {
        let upserts = request.upserts.iter().flat_map(Config::object_refs);
        Self { batch: upserts.chain(request.deletes.iter().cloned()).collect(), dry_run: request.dry_run }
    }

    /// What the batch did to an object, in words behind its state.
    fn how(&self, object: Option<&ObjectRef>, change: Option<ChangeKind>, complete: bool) -> &'static str {
        match change {
            Some(ChangeKind::Added) => " (new)",
            Some(ChangeKind::Changed) => " (changed)",
            Some(ChangeKind::Removed) => " (deleted)",
            None if object.is_some_and(|object| !self.batch.contains(object)) => " (now)",
            None if complete => " (unchanged)",
            Some(ChangeKind::Unspecified) | None => "",
        }
    }
}

/// One line per object and a last one with numbers; refused objects take more lines.
pub(super) fn report(response: &ApplyResponse, asked: &Asked, paint: Paint) -> String {
    let changes = response
        .changes
        .iter()
        .filter_map(|change| Some((change.object.as_ref()?, change.kind())))
        .collect::<HashMap<_, _>>();
    let in_force = response.committed || asked.dry_run;
    let mut text = String::new();
    for result in &response.results {
        let change = result.object.as_ref().and_then(|object| changes.get(object)).copied();
        let how = asked.how(result.object.as_ref(), change, response.left_out == 0);
        let deleted = change == Some(ChangeKind::Removed);
        object(&mut text, result, if deleted { "" } else { how }, deleted, in_force, paint);
    }
    // With --replace objects go that nobody named.
    let told = response.results.iter().filter_map(|result| result.object.as_ref()).collect::<HashSet<_>>();
    let removed = response.changes.iter().filter(|change| change.kind() == ChangeKind::Removed);
    for object in removed.filter_map(|change| change.object.as_ref()).filter(|object| !told.contains(object))
    {
        let _ = writeln!(text, "{}: {}", describe(Some(object)), paint.tone(Tone::Good, "deleted"));
    }
    let _ = writeln!(text, "{}", summary(response, asked.dry_run));
    text
}

/// The lines of one object.
fn object(text: &mut String, result: &ObjectResult, how: &str, deleted: bool, in_force: bool, paint: Paint) {
    let name = describe(result.object.as_ref());
    let line = match &result.outcome {
        Some(Outcome::Refused(refused)) => {
            let mut lines = format!("{name}: {}", paint.tone(Tone::Bad, "refused"));
            for (heading, line) in
                [("field", &refused.field), ("reason", &refused.reason), ("remedy", &refused.remedy)]
            {
                if !line.is_empty() {
                    let _ = write!(lines, "\n    {heading:<7} {line}");
                }
            }
            lines
        }
        Some(Outcome::Pending(pending)) => {
            let word = paint.tone(Tone::Warn, "pending");
            format!("{name}: {word}{how}: {}", waits(&pending.waits_for))
        }
        Some(Outcome::Applied(_)) if in_force => {
            format!("{name}: {}{how}", paint.tone(Tone::Good, if deleted { "deleted" } else { "applied" }))
        }
        Some(Outcome::Applied(_)) => format!("{name}: valid, not applied"),
        // A newer quiverd has said something we don't know.
        None => format!("{name}: unknown; this quiver is older than quiverd"),
    };
    let _ = writeln!(text, "{line}");
    for warning in &result.warnings {
        let _ = writeln!(text, "    {} {warning}", paint.tone(Tone::Warn, "warning"));
    }
}

/// Why an object is pending: "there is no interface pod-c yet; waits for bridge br0".
pub(super) fn waits(waits: &[Wait]) -> String {
    let wait = |wait: &Wait| match (&wait.object, wait.reason.as_str()) {
        (Some(object), "") => format!("waits for {}", describe(Some(object))),
        // The reason is a sentence; mostly it names the object itself.
        (Some(object), reason) if !reason.contains(object.name.as_str()) => {
            format!("waits for {}: {reason}", describe(Some(object)))
        }
        (_, reason) => reason.to_owned(),
    };
    match waits {
        [] => "waits for something quiverd doesn't name".into(),
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
    if response.left_out > 0 {
        parts.push(format!("{} lines not shown", response.left_out));
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
            if let Some(elements) = elements(field, before, after) {
                text.push_str(&elements);
                continue;
            }
            let _ = match (before.as_str(), after.as_str()) {
                ("", after) => writeln!(text, "    {field} = {after}"),
                (before, "") => writeln!(text, "    {field} = {before} -> not set"),
                (before, after) => writeln!(text, "    {field} = {before} -> {after}"),
            };
        }
    }
    text
}

/// Lists that are shown whole, in bytes of both: what is longer nobody compares by eye.
const WHOLE: usize = 400;
/// Of longer ones, elements that are shown of each side.
const SHOWN: usize = 50;

/// Elements of long lists in which they differ: between those at the beginning and at the end that are the same. `None` where they aren't long lists.
fn elements(field: &str, before: &str, after: &str) -> Option<String> {
    let list = |text: &str| match text {
        "" => Some(Vec::new()),
        text => serde_json::from_str::<Vec<Value>>(text).ok(),
    };
    if before.len() + after.len() <= WHOLE {
        return None;
    }
    let (before, after) = (list(before)?, list(after)?);
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let behind =
        before[same..].iter().rev().zip(after[same..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    for (sign, all) in [('-', &before), ('+', &after)] {
        let differ = all.len() - behind - same;
        for (at, element) in all.iter().enumerate().skip(same).take(differ.min(SHOWN)) {
            let _ = writeln!(text, "    {sign} {field}[{at}] = {element}");
        }
        if differ > SHOWN {
            let _ = writeln!(text, "    {sign} and {} more; --output json has all", differ - SHOWN);
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use api::v1::{Applied, ApplyCounts, Kind, ObjectRef, Pending, Refused};

    use super::*;

    fn result(kind: Kind, name: &str, outcome: Outcome) -> ObjectResult {
        let object = Some(ObjectRef::new(kind, name));
        ObjectResult { object, outcome: Some(outcome), warnings: Vec::new() }
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

    fn asked(interfaces: &[&str]) -> Asked {
        let batch = interfaces.iter().map(|name| ObjectRef::new(Kind::Interface, *name)).collect();
        Asked { batch, dry_run: false }
    }

    #[test]
    fn of_long_lists_what_differs_is_shown() {
        let list = |all: &[u32]| serde_json::to_string(all).unwrap();
        let all: Vec<u32> = (100..300).collect();
        let shown = |after: &[u32]| {
            let fields = [("rules", &*list(&all), &*list(after))];
            changes(&[change(Kind::Acl, "web", ChangeKind::Changed, &fields)], Paint::new(false))
        };
        let mut other = all.clone();
        other[7] = 9;
        assert_eq!(shown(&other), "~ acl web\n    - rules[7] = 107\n    + rules[7] = 9\n");
        other.remove(7);
        assert_eq!(shown(&other), "~ acl web\n    - rules[7] = 107\n");
        other = all.clone();
        other.extend([1, 2]);
        assert_eq!(shown(&other), "~ acl web\n    + rules[200] = 1\n    + rules[201] = 2\n");
        let fields = [("rules", "", &*list(&all))];
        let text = changes(&[change(Kind::Acl, "web", ChangeKind::Added, &fields)], Paint::new(false));
        assert!(text.ends_with("rules[49] = 149\n    + and 150 more; --output json has all\n"), "{text}");
        let short = [("rules", "[1]", "[2]")];
        let text = changes(&[change(Kind::Acl, "web", ChangeKind::Changed, &short)], Paint::new(false));
        assert_eq!(text, "~ acl web\n    rules = [1] -> [2]\n");
    }

    #[test]
    fn a_batch_that_is_in_force() {
        let wait = Wait {
            object: Some(ObjectRef::new(Kind::Interface, "pod-c")),
            reason: "there is no interface pod-c yet".into(),
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
                result(Kind::Interface, "waited", Outcome::Applied(Applied {})),
            ],
            counts: Some(ApplyCounts { applied: 2, pending: 1, deleted: 2, unchanged: 1, refused: 0 }),
            changes: vec![
                change(Kind::Interface, "pod-a", ChangeKind::Added, &[]),
                change(Kind::Route, "default/10.9.0.0/16", ChangeKind::Added, &[]),
                change(Kind::Vrf, "old", ChangeKind::Removed, &[]),
                change(Kind::Vrf, "replaced", ChangeKind::Removed, &[]),
            ],
            left_out: 0,
        };
        assert_eq!(
            report(&response, &asked(&["pod-a", "pod-b"]), Paint::new(false)),
            "interface pod-a: applied (new)\n\
             interface pod-b: applied (unchanged)\n\
             route default/10.9.0.0/16: pending (new): there is no interface pod-c yet\n\
             vrf old: deleted\n\
             interface waited: applied (now)\n\
             vrf replaced: deleted\n\
             generation 5: 2 applied, 1 pending, 2 deleted, 1 of them unchanged\n"
        );
    }

    #[test]
    fn warnings_stand_below_their_object() {
        let mut warned = result(Kind::Tenant, "red", Outcome::Applied(Applied {}));
        warned.warnings.push("its quota is large".into());
        let response =
            ApplyResponse { generation: 5, committed: true, results: vec![warned], ..Default::default() };
        let text = report(&response, &asked(&["red"]), Paint::new(false));
        assert!(text.starts_with("tenant red: applied (now)\n    warning its quota is large\n"), "{text}");
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
            left_out: 3,
        };
        assert_eq!(
            report(&response, &asked(&[]), Paint::new(false)),
            "interface pod-a: valid, not applied\n\
             interface pod-b: refused\n\
             \x20   field   memif.ring_size\n\
             \x20   reason  1000 is no power of two\n\
             \x20   remedy  take 512 or 1024\n\
             nothing was changed, generation stays 4: 1 applied, 1 refused, 3 lines not shown\n"
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
