//! Tenants.

mod services;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::v1::{MidstreamAction, SessionTimeouts, Tenant, TenantClass, UntrackedAction};
use features::session::parser::{self, Parser};
use features::session::services::Chain;
use features::session::tenants::TIMERS;
use features::session::{Case, MOST_PER_SOURCE, Midstream, SlowPath, SourceLimit, order};

use super::{RedirectSpec, slow_path};
use crate::model::{Flaw, Name, fields};
pub(super) use services::On;
pub use services::scope_name;
use services::{
    acls, chain, default_slow_path, drops_untracked, fits, nat_pool, parser, policer, redirect, scope,
};

const DEFAULT_MAX_SESSIONS: u32 = 1_000_000;
/// What a worker's table can count.
const MAX_SESSIONS: u32 = 1 << 28;
/// An IPv6 host takes whichever addresses of its link's prefix it likes, and that has 64 bits (RFC 4291 section 2.5.1); no site gets less than such a prefix (RFC 6177).
const DEFAULT_SOURCE_PREFIX: u32 = 64;
/// A week: nobody means more, and ticks stay far from overflow.
const MAX_SECONDS: u32 = 7 * 86_400;

/// Default timeouts in seconds, in the order of [`features::session::tenants::Timer`]: RFC 4787 and 5382 ask for two minutes and
/// for two hours and four minutes at least, RFC 5508 for one minute.
const DEFAULT_TIMEOUTS: [u32; TIMERS] = [5, 120, 7440, 60, 240, 60, 30];

/// A tenant; see [`Tenant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantSpec {
    /// Unique name.
    pub name: Name,
    /// Address space of its sessions.
    pub context: u16,
    /// Interfaces whose packets begin sessions, ordered.
    pub interfaces: Vec<Name>,
    /// Interfaces that answers come in by, ordered.
    pub outside_interfaces: Vec<Name>,
    /// What its sessions are found by where it recognises their packets.
    pub parser: Option<&'static Parser>,
    /// Scope of its services, by number ([`order`]).
    pub scope: u8,
    /// Services of packets from the initiator and to it, by their bits in that scope.
    pub chain: [Chain; 2],
    /// Timeouts in seconds, in the order of [`features::session::tenants::Timer`].
    pub timeouts: [u32; TIMERS],
    /// Sessions at most.
    pub max_sessions: u32,
    /// New sessions per second at most; 0: as many as come.
    pub max_new_per_second: u32,
    /// Sessions of one source at most; 0: as many as the tenant's.
    pub max_per_source: u32,
    /// Bits of an IPv6 address by which sources differ.
    pub source_prefix: u8,
    /// Those of its interfaces where sessions begin that count at no source, ordered.
    pub uncounted: Vec<Name>,
    /// Whether SYNs are dropped when they are seen first, while there is no place for a session.
    pub early_syn_drop: bool,
    /// Whether packets that can have no session are dropped where `slow_path` doesn't say otherwise.
    pub drop_untracked: bool,
    /// What is done with packets that aren't simply one of a session's.
    pub slow_path: SlowPath,
    /// What becomes of TCP connections whose beginning was never seen.
    pub midstream: Midstream,
    /// What the service `nat` gives sessions addresses and ports of.
    pub nat_pool: Option<Name>,
    /// Lists that the service `acl` asks about all of its sessions, in order.
    pub acls: Vec<Arc<str>>,
    /// Whether sessions that were let pass go on when rules change.
    pub keep_sessions: bool,
    /// What the service `policer` meters packets from initiators and to them by.
    pub policers: [Option<Name>; 2],
    /// Where the service `redirect` sends its sessions.
    pub redirect: Option<RedirectSpec>,
    /// Sessions that begin at its interfaces, and are others', in the order in which lists are asked.
    pub classes: Vec<ClassSpec>,
}

/// A class of a tenant; see [`TenantClass`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSpec {
    /// The list that lets its sessions pass.
    pub acl: Name,
    /// Whose they are.
    pub tenant: Name,
}

impl TenantSpec {
    /// Whether it does the same with its sessions as another one: these may begin at other interfaces, be more, and last longer.
    #[must_use]
    pub fn is_same_policy(&self, other: &Self) -> bool {
        let here = Self {
            interfaces: other.interfaces.clone(),
            outside_interfaces: other.outside_interfaces.clone(),
            timeouts: other.timeouts,
            max_sessions: other.max_sessions,
            max_new_per_second: other.max_new_per_second,
            max_per_source: other.max_per_source,
            source_prefix: other.source_prefix,
            uncounted: other.uncounted.clone(),
            early_syn_drop: other.early_syn_drop,
            classes: other.classes.clone(),
            ..self.clone()
        };
        here == *other
    }

    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(tenant: &Tenant) -> Result<Self, Flaw> {
        let interfaces = names("interfaces", &tenant.interfaces)?;
        let outside_interfaces = names("outside_interfaces", &tenant.outside_interfaces)?;
        if let Some(both) = outside_interfaces.iter().find(|name| interfaces.contains(name)) {
            let flaw = Flaw::new("outside_interfaces", format!("{both} is one of its interfaces already"));
            return Err(flaw.remedy("leave it out: answers are found there too"));
        }
        let context = u16::try_from(tenant.context).map_err(|_| {
            Flaw::new("context", format!("{} is out of range", tenant.context)).remedy("take 0 to 65535")
        })?;
        let midstream = match fields::choice("midstream", tenant.midstream, MidstreamAction::Adopt)? {
            MidstreamAction::Remove => Midstream::Remove,
            MidstreamAction::Security => Midstream::Security,
            MidstreamAction::Adopt | MidstreamAction::Unspecified => Midstream::Adopt,
        };
        let scope = scope(&tenant.scope)?;
        let parser = parser(&tenant.parser)?;
        let chain = [
            chain("forward_services", scope, &tenant.forward_services)?,
            chain("reverse_services", scope, &tenant.reverse_services)?,
        ];
        order().check(scope, chain).map_err(|error| {
            Flaw::new("reverse_services", error.to_string())
                .remedy("name it for both directions, or for none")
        })?;
        if let Some(parser) = parser {
            fits(parser, scope, chain, tenant)?;
        }
        let on = [On(scope, chain[0]), On(scope, chain[1])];
        let nat_pool = nat_pool(&tenant.nat_pool, on[0])?;
        let acls = acls(tenant, on[0])?;
        let policers = [
            policer("forward", &tenant.forward_policer, on[0])?,
            policer("reverse", &tenant.reverse_policer, on[1])?,
        ];
        let redirect = redirect(tenant, on[0])?;
        let default = if drops_untracked(on[0]) { UntrackedAction::Drop } else { UntrackedAction::Pass };
        let untracked = fields::choice("untracked", tenant.untracked, default)?;
        let drop_untracked = untracked == UntrackedAction::Drop;
        let default = default_slow_path(drop_untracked, on[0]);
        let guards = slow_path::guards(on, midstream);
        let slow_path =
            slow_path::parse(tenant.slow_path.as_ref(), default, &guards, !tenant.classes.is_empty())?;
        Ok(Self {
            name: fields::name("name", &tenant.name)?,
            context,
            interfaces,
            outside_interfaces,
            parser,
            scope,
            chain,
            timeouts: timeouts(tenant.timeouts.as_ref())?,
            max_sessions: fields::number(
                "max_sessions",
                tenant.max_sessions,
                1..=MAX_SESSIONS,
                DEFAULT_MAX_SESSIONS,
            )?,
            max_new_per_second: tenant.max_new_sessions_per_second,
            max_per_source: fields::number(
                "max_sessions_per_source",
                tenant.max_sessions_per_source,
                1..=MOST_PER_SOURCE,
                0,
            )?,
            source_prefix: source_prefix(tenant)?,
            uncounted: uncounted(tenant)?,
            early_syn_drop: early_syn_drop(tenant.early_syn_drop, slow_path)?,
            drop_untracked,
            slow_path,
            midstream,
            nat_pool,
            acls,
            keep_sessions: tenant.keep_sessions,
            policers,
            redirect,
            classes: classes(tenant)?,
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Tenant {
        let text = |names: &[Name]| names.iter().map(ToString::to_string).collect();
        let on = On(self.scope, self.chain[0]);
        let untracked = match (self.drop_untracked, drops_untracked(on)) {
            (false, false) | (true, true) => UntrackedAction::Unspecified,
            (true, false) => UntrackedAction::Drop,
            (false, true) => UntrackedAction::Pass,
        };
        let policers =
            self.policers.each_ref().map(|name| name.as_ref().map(ToString::to_string).unwrap_or_default());
        Tenant {
            name: self.name.to_string(),
            context: self.context.into(),
            interfaces: text(&self.interfaces),
            outside_interfaces: text(&self.outside_interfaces),
            parser: self.parser.map(|parser| parser.name.into()).unwrap_or_default(),
            scope: if self.scope == 0 { String::new() } else { scope_name(self.scope).into() },
            forward_services: services::names(self.scope, self.chain[0]),
            reverse_services: services::names(self.scope, self.chain[1]),
            timeouts: self.api_timeouts(),
            max_sessions: if self.max_sessions == DEFAULT_MAX_SESSIONS { 0 } else { self.max_sessions },
            max_new_sessions_per_second: self.max_new_per_second,
            max_sessions_per_source: self.max_per_source,
            source_ipv6_prefix_length: match u32::from(self.source_prefix) {
                DEFAULT_SOURCE_PREFIX => 0,
                length => length,
            },
            source_exempt_interfaces: text(&self.uncounted),
            early_syn_drop: self.early_syn_drop,
            untracked: untracked.into(),
            slow_path: slow_path::to_api(self.slow_path, default_slow_path(self.drop_untracked, on)),
            midstream: match self.midstream {
                Midstream::Adopt => MidstreamAction::Unspecified,
                Midstream::Remove => MidstreamAction::Remove,
                Midstream::Security => MidstreamAction::Security,
            }
            .into(),
            nat_pool: self.nat_pool.as_ref().map(ToString::to_string).unwrap_or_default(),
            acls: self.acls.iter().map(ToString::to_string).collect(),
            keep_sessions: self.keep_sessions,
            forward_policer: policers[0].clone(),
            reverse_policer: policers[1].clone(),
            redirect: self.redirect.as_ref().map(RedirectSpec::to_api),
            classes: self.classes.iter().map(ClassSpec::to_api).collect(),
        }
    }

    /// The number of its parser; 0: it has none.
    pub fn parser_number(&self) -> u8 {
        self.parser.and_then(|parser| parser::number(parser.name)).unwrap_or_default()
    }

    /// What one source may have of its sessions, if that is said.
    pub fn source_limit(&self) -> Option<SourceLimit> {
        let limit = SourceLimit { sessions: self.max_per_source, ipv6_prefix_length: self.source_prefix };
        (limit.sessions > 0).then_some(limit)
    }

    /// Interfaces of both kinds.
    pub fn all_interfaces(&self) -> impl Iterator<Item = &Name> {
        self.interfaces.iter().chain(&self.outside_interfaces)
    }

    /// Interfaces that its engine is behind.
    pub fn engine_interfaces(&self) -> impl Iterator<Item = &Name> {
        self.redirect.iter().flat_map(RedirectSpec::names)
    }

    /// The tenant with those of its interfaces that are `kept`.
    #[must_use]
    pub fn with_interfaces(&self, kept: impl Fn(&Name) -> bool) -> Self {
        let mut tenant = self.clone();
        tenant.interfaces.retain(&kept);
        tenant.outside_interfaces.retain(&kept);
        tenant.uncounted.retain(&kept);
        tenant
    }

    fn api_timeouts(&self) -> Option<SessionTimeouts> {
        if self.timeouts == DEFAULT_TIMEOUTS {
            return None;
        }
        let said = |at: usize| if self.timeouts[at] == DEFAULT_TIMEOUTS[at] { 0 } else { self.timeouts[at] };
        Some(SessionTimeouts {
            embryonic_seconds: said(0),
            established_seconds: said(1),
            tcp_established_seconds: said(2),
            icmp_seconds: said(3),
            tcp_closing_seconds: said(4),
            time_wait_seconds: said(5),
            blocked_seconds: said(6),
        })
    }
}

impl ClassSpec {
    /// The canonical form.
    pub fn to_api(&self) -> TenantClass {
        TenantClass { acl: self.acl.to_string(), tenant: self.tenant.to_string() }
    }
}

/// Classes as they are asked about; a list has one tenant.
fn classes(tenant: &Tenant) -> Result<Vec<ClassSpec>, Flaw> {
    let mut lists = BTreeSet::new();
    let mut classes = Vec::with_capacity(tenant.classes.len());
    for (index, said) in tenant.classes.iter().enumerate() {
        let at = |field: &str| format!("classes[{index}].{field}");
        let class = ClassSpec {
            acl: fields::name(&at("acl"), &said.acl)?,
            tenant: fields::name(&at("tenant"), &said.tenant)?,
        };
        if said.tenant == tenant.name {
            return Err(Flaw::new(at("tenant"), "is the tenant itself")
                .remedy("leave the class out: what no class has is the tenant's own"));
        }
        if !lists.insert(class.acl.clone()) {
            return Err(Flaw::new(
                at("acl"),
                format!("{} appears twice, and only the first counts", said.acl),
            )
            .remedy("leave one out"));
        }
        classes.push(class);
    }
    Ok(classes)
}

fn timeouts(said: Option<&SessionTimeouts>) -> Result<[u32; TIMERS], Flaw> {
    let Some(said) = said else { return Ok(DEFAULT_TIMEOUTS) };
    let fields = [
        ("timeouts.embryonic_seconds", said.embryonic_seconds),
        ("timeouts.established_seconds", said.established_seconds),
        ("timeouts.tcp_established_seconds", said.tcp_established_seconds),
        ("timeouts.icmp_seconds", said.icmp_seconds),
        ("timeouts.tcp_closing_seconds", said.tcp_closing_seconds),
        ("timeouts.time_wait_seconds", said.time_wait_seconds),
        ("timeouts.blocked_seconds", said.blocked_seconds),
    ];
    let mut timeouts = DEFAULT_TIMEOUTS;
    for (timeout, (field, seconds)) in timeouts.iter_mut().zip(fields) {
        *timeout = fields::number(field, seconds, 1..=MAX_SECONDS, *timeout)?;
    }
    Ok(timeouts)
}

/// Names in order, none twice.
fn names(field: &str, texts: &[String]) -> Result<Vec<Name>, Flaw> {
    let mut names = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        let name = fields::name(&format!("{field}[{index}]"), text)?;
        if !names.insert(name) {
            return Err(Flaw::new(field, format!("{text} appears twice")).remedy("leave one out"));
        }
    }
    Ok(names.into_iter().collect())
}

/// What one source is with IPv6: only where their sessions are counted.
fn source_prefix(tenant: &Tenant) -> Result<u8, Flaw> {
    let (field, said) = ("source_ipv6_prefix_length", tenant.source_ipv6_prefix_length);
    if said > 0 && tenant.max_sessions_per_source == 0 {
        return Err(Flaw::new(field, "says what max_sessions_per_source counts, which isn't there")
            .remedy("add max_sessions_per_source, or leave it out"));
    }
    Ok(fields::number(field, said, 1..=128, DEFAULT_SOURCE_PREFIX)? as u8)
}

/// Interfaces whose sessions count at no source: some of its own, where it or a class of its counts any.
fn uncounted(tenant: &Tenant) -> Result<Vec<Name>, Flaw> {
    let (field, said) = ("source_exempt_interfaces", &tenant.source_exempt_interfaces);
    if !said.is_empty() && tenant.max_sessions_per_source == 0 && tenant.classes.is_empty() {
        return Err(Flaw::new(field, "says what max_sessions_per_source doesn't count, which isn't there")
            .remedy("add max_sessions_per_source, or leave it out"));
    }
    let is_its =
        |name: &String| [&tenant.interfaces, &tenant.outside_interfaces].iter().any(|its| its.contains(name));
    match said.iter().find(|name| !is_its(name)) {
        Some(other) => Err(Flaw::new(field, format!("{other} is none of its interfaces"))
            .remedy("name one of interfaces or outside_interfaces, or leave it out")),
        None => names(field, said),
    }
}

/// Whether SYNs are dropped when they are seen first: not where what has no room passes.
fn early_syn_drop(said: bool, path: SlowPath) -> Result<bool, Flaw> {
    if said && !path.drops(Case::Overflow) {
        return Err(Flaw::new("early_syn_drop", "slow_path.overflow lets pass what has no room")
            .remedy("have slow_path.overflow drop, or leave early_syn_drop out"));
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
