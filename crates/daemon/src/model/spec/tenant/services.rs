//! What a tenant's sessions pass: its scope, its parser, its chains, and what the services on these need.

use std::sync::Arc;

use api::v1::Tenant;
use features::session::parser::{self, Parser};
use features::session::services::{Chain, DEFAULT_SCOPE, ServiceError};
use features::session::{Case, SlowAction, SlowPath, order};

use super::super::{RedirectSpec, endpoint};
use crate::model::{Flaw, Name, fields};

pub(super) const DEFAULT_SERVICES: &str = "l4-lifecycle";
/// The service that needs a pool.
const NAT: &str = "nat";
/// The service that asks lists of rules.
const ACL: &str = "acl";
/// The service that meters.
const POLICER: &str = "policer";
/// The service that sends to an engine.
const REDIRECT: &str = "redirect";
/// Stands for no service at all, where nothing would stand for the default.
const NO_SERVICE: &str = "none";

/// A chain, and the scope that its bits are of.
#[derive(Clone, Copy)]
pub(in super::super) struct On(pub(super) u8, pub(super) Chain);

impl On {
    /// Whether a service is on it.
    pub(in super::super) fn has(self, service: &str) -> bool {
        order().is_on(self.0, self.1, service)
    }
}

/// The number of a tenant's scope.
pub(super) fn scope(said: &str) -> Result<u8, Flaw> {
    let name = if said.is_empty() { DEFAULT_SCOPE } else { said };
    order().scope(name).map_err(|error| {
        Flaw::new("scope", error.to_string()).remedy(format!("take one of: {}", order().scopes().join(", ")))
    })
}

/// The name of a scope.
pub fn scope_name(scope: u8) -> &'static str {
    order().scopes().get(usize::from(scope)).copied().unwrap_or_default()
}

/// The parser of that name, if one is said.
pub(super) fn parser(said: &str) -> Result<Option<&'static Parser>, Flaw> {
    if said.is_empty() {
        return Ok(None);
    }
    let found = parser::number(said).and_then(parser::by_number);
    found.map(Some).ok_or_else(|| {
        let known: Vec<_> = parser::parsers().iter().map(|parser| parser.name).collect();
        Flaw::new("parser", format!("there is no parser {said:?}"))
            .remedy(format!("take one of: {}, or none", known.join(", ")))
    })
}

/// Whether everything that a tenant has can do its work where sessions have the keys of a parser.
pub(super) fn fits(parser: &Parser, scope: u8, chain: [Chain; 2], tenant: &Tenant) -> Result<(), Flaw> {
    for (field, chain) in [("forward_services", chain[0]), ("reverse_services", chain[1])] {
        let mut its = order().of(scope).filter(|(number, _)| chain.has(*number));
        if let Some((_, service)) = its.find(|(_, service)| !service.any_key) {
            let what = format!(
                "service {} needs addresses and ports, and sessions that the parser {} finds have none",
                service.node.name, parser.name
            );
            return Err(
                Flaw::new(field, what).remedy(format!("leave {} out, or the parser", service.node.name))
            );
        }
    }
    if !tenant.classes.is_empty() {
        let what = format!(
            "ask about addresses and ports, and sessions that the parser {} finds have none",
            parser.name
        );
        return Err(Flaw::new("classes", what).remedy("leave them out, or the parser"));
    }
    if tenant.max_sessions_per_source > 0 {
        let what = format!("needs addresses, and sessions that the parser {} finds have none", parser.name);
        return Err(Flaw::new("max_sessions_per_source", what).remedy("leave it out, or the parser"));
    }
    Ok(())
}

pub(super) fn chain(field: &str, scope: u8, names: &[String]) -> Result<Chain, Flaw> {
    let chosen: Vec<&str> = match names {
        [] => vec![DEFAULT_SERVICES],
        [one] if one == NO_SERVICE => Vec::new(),
        names => names.iter().map(String::as_str).collect(),
    };
    order().chain_in(scope, chosen).map_err(|error| {
        let flaw = Flaw::new(field, error.to_string());
        match error {
            ServiceError::Unknown { known, .. } | ServiceError::OtherScope { known, .. } => {
                flaw.remedy(format!("take some of: {known}; or {NO_SERVICE} alone"))
            }
            _ => flaw.remedy("leave one out"),
        }
    })
}

/// What is done where only `untracked` is said. No rule is asked about a first fragment that hides its ports, and who puts the packet together would find them: where
/// rules are asked, it never passes.
pub(super) fn default_slow_path(drop_untracked: bool, chain: On) -> SlowPath {
    let path = SlowPath::untracked(if drop_untracked { SlowAction::Drop } else { SlowAction::Pass });
    if chain.has(ACL) { path.with(Case::TooShort, SlowAction::Drop) } else { path }
}

/// Whether packets without a session are dropped where nothing else is said: what can't be translated would show inside addresses outside, and about
/// what has no session no rule is asked, and no engine.
pub(super) fn drops_untracked(chain: On) -> bool {
    [NAT, ACL, REDIRECT].into_iter().any(|service| chain.has(service))
}

/// The lists of a chain that asks some.
pub(super) fn acls(tenant: &Tenant, chain: On) -> Result<Vec<Arc<str>>, Flaw> {
    let unused = |field: &str| {
        Err(Flaw::new(field, format!("is used by the service {ACL} only"))
            .remedy(format!("add {ACL} to forward_services and reverse_services")))
    };
    match (chain.has(ACL), tenant.acls.is_empty(), tenant.keep_sessions) {
        (false, false, _) => unused("acls"),
        (false, true, true) => unused("keep_sessions"),
        _ => endpoint::lists("acls", &tenant.acls),
    }
}

/// The pool of a chain that translates; a chain that doesn't has none.
pub(super) fn nat_pool(text: &str, chain: On) -> Result<Option<Name>, Flaw> {
    match (text, chain.has(NAT)) {
        ("", false) => Ok(None),
        ("", true) => Err(Flaw::new("nat_pool", format!("the service {NAT} needs one"))
            .remedy(format!("name a nat_pool, or leave {NAT} out"))),
        (_, false) => Err(Flaw::new("nat_pool", format!("is used by the service {NAT} only"))
            .remedy(format!("add {NAT} to forward_services and reverse_services"))),
        (text, true) => fields::name("nat_pool", text).map(Some),
    }
}

/// The policer of a direction whose chain meters; one that doesn't has none.
pub(super) fn policer(way: &str, text: &str, chain: On) -> Result<Option<Name>, Flaw> {
    let (field, services) = (format!("{way}_policer"), format!("{way}_services"));
    match (text, chain.has(POLICER)) {
        ("", false) => Ok(None),
        ("", true) => Err(Flaw::new(field, format!("the service {POLICER} needs one"))
            .remedy(format!("name a policer, or leave {POLICER} out of {services}"))),
        (_, false) => {
            Err(Flaw::new(field, format!("is used by the service {POLICER} only, which isn't on that chain"))
                .remedy(format!("add {POLICER} to {services}")))
        }
        (text, true) => fields::name(&field, text).map(Some),
    }
}

/// The engine of a chain that has its sessions looked into; one that hasn't has none.
pub(super) fn redirect(tenant: &Tenant, chain: On) -> Result<Option<RedirectSpec>, Flaw> {
    match (&tenant.redirect, chain.has(REDIRECT)) {
        (None, false) => Ok(None),
        (None, true) => Err(Flaw::new("redirect", format!("the service {REDIRECT} needs one"))
            .remedy(format!("name its interfaces, or leave {REDIRECT} out"))),
        (Some(_), false) => Err(Flaw::new("redirect", format!("is used by the service {REDIRECT} only"))
            .remedy(format!("add {REDIRECT} to forward_services and reverse_services"))),
        (Some(said), true) if said.only_by_rules && !chain.has(ACL) => {
            let what = format!("only rules say who visits the engine, and {ACL} isn't on the chains");
            Err(Flaw::new("redirect.only_by_rules", what)
                .remedy(format!("add {ACL} to forward_services and reverse_services")))
        }
        (Some(said), true) => RedirectSpec::parse(said).map(Some),
    }
}

pub(super) fn names(scope: u8, chain: Chain) -> Vec<String> {
    let names: Vec<&str> = order().names(scope, chain).collect();
    match names[..] {
        [DEFAULT_SERVICES] => Vec::new(),
        [] => vec![NO_SERVICE.into()],
        _ => names.into_iter().map(Into::into).collect(),
    }
}
