//! What a tenant has done with packets that aren't simply one of a session's.

use api::v1::{self, SlowPathAction};
use features::session::{CASES, Case, Midstream, SlowAction, SlowPath};

use super::tenant::On;
use crate::model::{Flaw, fields};

/// Services that a packet passes by where it has no session, and that are there so that none does.
const GUARDS: [&str; 4] = ["nat", ACL, "redirect", "policer"];
const ACL: &str = "acl";
/// Is one where it takes no connection midway: what passes by it would be part of one.
const TCP_CHECK: &str = "tcp-check";

/// Those that a tenant has, in either direction.
pub(super) fn guards(chain: [On; 2], midstream: Midstream) -> Vec<&'static str> {
    let has = |service: &&str| chain.iter().any(|services| services.has(service));
    let strict = (midstream != Midstream::Adopt).then_some(TCP_CHECK);
    GUARDS.into_iter().chain(strict).filter(has).collect()
}

/// Reads what a client sent, beside the default that follows from `untracked`.
///
/// # Errors
/// [`Flaw`] naming the case.
pub(super) fn parse(
    said: Option<&v1::SlowPath>,
    default: SlowPath,
    guards: &[&str],
    has_classes: bool,
) -> Result<SlowPath, Flaw> {
    let Some(said) = said else { return Ok(default) };
    let mut path = default;
    for (case, value) in Case::ALL.into_iter().zip(values(said)) {
        let field = format!("slow_path.{}", case.name());
        let Some(action) = action(fields::choice(&field, value, SlowPathAction::Unspecified)?) else {
            continue;
        };
        if !case.actions().contains(&action) {
            let known: Vec<_> = case.actions().iter().map(|action| action.name()).collect();
            let why = format!("nothing can {} them", action.name());
            return Err(Flaw::new(field, why).remedy(format!("take one of: {}", known.join(", "))));
        }
        if action == SlowAction::Pass && case == Case::TooShort && guards.contains(&ACL) {
            let why = "what hides its ports passes by the rules of the service acl";
            return Err(Flaw::new(field, why).remedy("take drop, or leave acl out"));
        }
        if action == SlowAction::Pass && case.passes_by_services() {
            if let Some(service) = guards.first() {
                let why = format!("what passes without a session passes by the service {service}");
                return Err(Flaw::new(field, why).remedy(format!("take drop, or leave {service} out")));
            }
            if case == Case::Fragments && has_classes {
                let why = "a fragment that passes by itself passes by the services of all classes";
                return Err(Flaw::new(field, why).remedy("take handle or drop, or leave classes out"));
            }
        }
        path = path.with(case, action);
    }
    Ok(path)
}

/// What differs from the default; `None`: nothing does.
pub(super) fn to_api(path: SlowPath, default: SlowPath) -> Option<v1::SlowPath> {
    let said = |case: Case| (path.action(case) != default.action(case)).then(|| path.action(case));
    (path != default).then(|| message(said))
}

/// All cases, as they are in force.
#[must_use]
pub fn in_force(path: SlowPath) -> v1::SlowPath {
    message(|case| Some(path.action(case)))
}

/// By [`Case`].
const fn values(said: &v1::SlowPath) -> [i32; CASES] {
    [
        said.unknown_protocol,
        said.too_short,
        said.unrelated_errors,
        said.related_errors,
        said.fragments,
        said.overflow,
    ]
}

fn message(of: impl Fn(Case) -> Option<SlowAction>) -> v1::SlowPath {
    let said = |case| i32::from(of(case).map_or(SlowPathAction::Unspecified, name));
    v1::SlowPath {
        unknown_protocol: said(Case::UnknownProtocol),
        too_short: said(Case::TooShort),
        unrelated_errors: said(Case::UnrelatedErrors),
        related_errors: said(Case::RelatedErrors),
        fragments: said(Case::Fragments),
        overflow: said(Case::Overflow),
    }
}

const fn action(said: SlowPathAction) -> Option<SlowAction> {
    match said {
        SlowPathAction::Unspecified => None,
        SlowPathAction::Handle => Some(SlowAction::Handle),
        SlowPathAction::Pass => Some(SlowAction::Pass),
        SlowPathAction::Drop => Some(SlowAction::Drop),
    }
}

const fn name(action: SlowAction) -> SlowPathAction {
    match action {
        SlowAction::Handle => SlowPathAction::Handle,
        SlowAction::Pass => SlowPathAction::Pass,
        SlowAction::Drop => SlowPathAction::Drop,
    }
}
