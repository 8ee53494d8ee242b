//! Lists of rules, sets of addresses and endpoints, and what workers see of them.

use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{
    AclMatchRequest, AclMatchResponse, AclPlace, AclRuleState, AclState, AclStep, AclVerdict, AclsRequest,
};
use features::session::acl::control::Placed;
use features::session::acl::{Action, Explained, Place, Question};
use features::session::order;
use wire::IpProtocol;

use super::core::Core;
use super::directory::{Inventory, Tenant};
use super::start::Shared;
use crate::dataplane::{Change, InspectError};
use crate::model::spec::{
    AclSpec, AddressSetSpec, EndpointSpec, TenantSpec, api_action, api_default, api_rule, protocol,
    protocol_of_sessions, tcp_flags,
};
use crate::model::{Flaw, fields};

/// The service that asks them.
const ACL: &str = "acl";
/// Rules in a piece of a list that is shown.
const PIECE: usize = 64;
/// The port that a question comes from where nothing is said: one that nobody listens at.
const SOURCE_PORT: u32 = 1024;

impl Core {
    /// A list of rules comes, changes or goes.
    pub(super) fn acl(&mut self, change: &Change<AclSpec>) -> Result<(), Flaw> {
        let after = change.after.as_ref().map(|spec| Arc::clone(&spec.config));
        if let Some(spec) = change.either() {
            self.filters.set_acl(&spec.name.to_string().into(), after);
        }
        Ok(())
    }

    /// A set of addresses, likewise.
    pub(super) fn address_set(&mut self, change: &Change<AddressSetSpec>) -> Result<(), Flaw> {
        let after = change.after.as_ref().map(|spec| Arc::clone(&spec.members));
        if let Some(spec) = change.either() {
            self.filters.set_address_set(&spec.name.to_string().into(), after);
        }
        Ok(())
    }

    /// An endpoint, likewise.
    pub(super) fn endpoint(&mut self, change: &Change<EndpointSpec>) -> Result<(), Flaw> {
        let after = change.after.as_ref().map(|spec| Arc::clone(&spec.config));
        if let Some(spec) = change.either() {
            self.filters.set_endpoint(&spec.name.to_string().into(), after);
        }
        Ok(())
    }

    /// Whoever looks sees the lists that workers are about to see; sessions are asked about again. Tenants are by another policy from now on that name one which has
    /// changed, or whose sets have.
    pub(super) fn take_filters(&mut self) {
        if !self.filters.is_changed() {
            return;
        }
        let changed = self.filters.publish();
        self.tenant_changes += 1;
        let (now, filters) = (self.tenant_changes, &self.filters);
        let touched = |name: &str| changed.touches(name, filters.placed(name).as_ref());
        self.directory.change(|inventory| {
            for tenant in inventory.tenants.values_mut() {
                if tenant.spec.acls.iter().any(|name| touched(name))
                    && let Some((_, since)) = &mut tenant.seen
                {
                    *since = now;
                }
            }
        });
        self.directory.change(|inventory| {
            for (name, list) in changed.lists {
                match list {
                    Some(list) => inventory.acls.insert(name, list),
                    None => inventory.acls.remove(&name),
                };
            }
        });
    }
}

/// A list without its rules.
fn totals(inventory: &Inventory, name: &Arc<str>, list: &Placed) -> AclState {
    let asks =
        |spec: &TenantSpec| spec.acls.contains(name) || spec.classes.iter().any(|class| *class.acl == **name);
    let users = inventory.tenants.values().filter(|tenant| asks(&tenant.spec));
    let mut tenants: Vec<String> = users.map(|tenant| tenant.spec.name.to_string()).collect();
    tenants.sort();
    AclState {
        name: name.to_string(),
        default_action: api_default(list.config.otherwise).into(),
        rule_count: list.config.rules.len() as u64,
        unmatched: list.acl.unmatched(),
        passed_on: list.acl.passed_on(),
        permitted: list.acl.met(Action::Permit),
        reflected: list.acl.met(Action::Reflect),
        denied: list.acl.met(Action::Deny),
        redirected: list.acl.met(Action::Redirect),
        tenants,
        ..AclState::default()
    }
}

/// All lists without their rules, ordered by name.
pub(super) fn all(shared: &Shared) -> Vec<AclState> {
    let inventory = shared.directory.get();
    inventory.acls.iter().map(|(name, list)| totals(&inventory, name, list)).collect()
}

/// Calls `each` with pieces of lists, ordered by name, until it returns false.
pub(super) fn each(
    shared: &Shared,
    request: &AclsRequest,
    each: &mut dyn FnMut(AclState) -> bool,
) -> Result<(), InspectError> {
    let inventory = shared.directory.get();
    let name = request.name.as_str();
    if !name.is_empty() && !inventory.acls.contains_key(name) {
        return Err(InspectError::NotFound(format!("there is no acl {name}")));
    }
    for (name, list) in inventory.acls.iter().filter(|(one, _)| name.is_empty() || ***one == *name) {
        let mut piece = totals(&inventory, name, list);
        let mut shown = false;
        for at in 0..list.config.rules.len() {
            let state = rule(list, at);
            if request.only_hits && state.hits == 0 {
                continue;
            }
            piece.rules.push(state);
            if piece.rules.len() == PIECE {
                let next = AclState { rules: Vec::new(), ..piece.clone() };
                if !each(std::mem::replace(&mut piece, next)) {
                    return Ok(());
                }
                shown = true;
            }
        }
        if (!shown || !piece.rules.is_empty()) && !each(piece) {
            break;
        }
    }
    Ok(())
}

fn rule(list: &Placed, at: usize) -> AclRuleState {
    AclRuleState {
        number: at as u32 + 1,
        rule: list.config.rules.get(at).map(api_rule),
        hits: list.acl.hits(at),
    }
}

/// What would become of a session, and who says so.
pub(super) fn matching(shared: &Shared, request: &AclMatchRequest) -> Result<AclMatchResponse, InspectError> {
    let inventory = shared.directory.get();
    let tenant = tenant(&inventory, &request.tenant)?;
    let question = protocol_of_sessions("protocol", &request.protocol)
        .and_then(|_| question(tenant.spec.context, request))
        .map_err(|flaw| InspectError::Invalid(flaw.to_string()))?;
    // All of it as workers see it, also while a batch is under way.
    let seen = {
        let core = shared.core();
        core.publisher.current().share(core.keys.tenants)
    };
    let lists = seen.get(tenant.index).map_or(&[][..], |tenant| &tenant.acls);
    let mut steps = Vec::new();
    let explained = seen.acls.explain(lists, &question, |place, met, answers| {
        let list = inventory.acls.get(&met.acl.name);
        steps.push(AclStep {
            place: match place {
                Place::Tenant => AclPlace::Tenant,
                Place::Egress => AclPlace::Egress,
                Place::Ingress => AclPlace::Ingress,
            }
            .into(),
            acl: met.acl.name.to_string(),
            rule: list.zip(met.rule).map(|(list, at)| rule(list, at as usize)),
            action: met.action.map(|action| api_action(Some(action))).unwrap_or_default().into(),
            answers,
        });
    });
    let verdict = match explained {
        Explained::Passes => AclVerdict::Passes,
        Explained::Denied(_) => AclVerdict::Denied,
        Explained::AnswersDenied(_) => AclVerdict::AnswersDenied,
    };
    Ok(AclMatchResponse { tenant: tenant.spec.name.to_string(), verdict: verdict.into(), steps })
}

/// The tenant of that name, or the only one that asks.
fn tenant<'i>(inventory: &'i Inventory, name: &str) -> Result<&'i Tenant, InspectError> {
    let asks = |tenant: &&Tenant| order().is_on(tenant.spec.scope, tenant.spec.chain[0], ACL);
    if !name.is_empty() {
        let tenant = inventory.tenants.get(name);
        let tenant = tenant.ok_or_else(|| InspectError::NotFound(format!("there is no tenant {name}")))?;
        return Some(tenant).filter(asks).ok_or_else(|| {
            InspectError::Invalid(format!("tenant {name} doesn't have the service {ACL}: nobody asks rules"))
        });
    }
    let mut all = inventory.tenants.values().filter(asks);
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(InspectError::NotFound(format!("no tenant has the service {ACL}"))),
        _ => Err(InspectError::Invalid(format!("several tenants have the service {ACL}; name one"))),
    }
}

/// The session that is asked about.
pub(super) fn question(context: u16, request: &AclMatchRequest) -> Result<Question, Flaw> {
    let port = |field: &str, said: u32| {
        u16::try_from(said)
            .map_err(|_| Flaw::new(field, format!("{said} is no port")).remedy("take 1 to 65535"))
    };
    let source = fields::address("source", &request.source)?;
    let destination = fields::address("destination", &request.destination)?;
    if source.is_ipv4() != destination.is_ipv4() {
        return Err(Flaw::new(
            "destination",
            format!("{destination} and {source} are of different families"),
        ));
    }
    let protocol = protocol("protocol", &request.protocol)?;
    let of_family = if source.is_ipv4() { IpProtocol::ICMP } else { IpProtocol::ICMPV6 };
    let is_icmp = matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
    if is_icmp && protocol != of_family {
        return Err(Flaw::new("protocol", format!("{source} has another ICMP")));
    }
    let echo = if matches!(source, IpAddr::V4(_)) { 8 } else { 128 };
    if is_icmp && request.destination_port > 0 {
        return Err(Flaw::new("destination_port", "ICMP has no ports").remedy("set icmp_type"));
    }
    if !is_icmp && request.icmp_type.is_some() {
        return Err(Flaw::new("icmp_type", "a type without ICMP").remedy("set protocol to icmp or icmpv6"));
    }
    let kind = u8::try_from(request.icmp_type.unwrap_or(echo))
        .map_err(|_| Flaw::new("icmp_type", "an ICMP type is 0 to 255"))?;
    let flags = match &request.tcp_flags[..] {
        [] => wire::TcpFlags::SYN.bits(),
        said => {
            let flags = tcp_flags("tcp_flags", said)?;
            if flags.mask != flags.value {
                let what = "a segment has flags, or it hasn't: those that are not said it hasn't";
                return Err(Flaw::new("tcp_flags", what).remedy("leave out those with a \"!\""));
            }
            flags.value
        }
    };
    let source_port = if request.source_port == 0 { SOURCE_PORT } else { request.source_port };
    let destination_port = if is_icmp { 0 } else { port("destination_port", request.destination_port)? };
    Ok(Question {
        context,
        protocol: protocol.0,
        source: (source, port("source_port", source_port)?),
        destination: (destination, destination_port),
        flags: if protocol == IpProtocol::TCP { flags } else { 0 },
        icmp: if is_icmp { (kind, 0) } else { (0, 0) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(protocol: &str) -> AclMatchRequest {
        AclMatchRequest {
            source: "10.0.0.1".into(),
            destination: "10.0.0.2".into(),
            protocol: protocol.into(),
            ..AclMatchRequest::default()
        }
    }

    #[test]
    fn any_first_message_can_be_asked_about() {
        for (said, expected) in [(None, 8), (Some(0), 0), (Some(255), 255)] {
            let request = AclMatchRequest { icmp_type: said, ..asked("icmp") };
            assert_eq!(question(0, &request).unwrap().icmp, (expected, 0));
        }
        let flags = |said: &[&str]| AclMatchRequest {
            tcp_flags: said.iter().map(ToString::to_string).collect(),
            destination_port: 80,
            ..asked("tcp")
        };
        assert_eq!(question(0, &flags(&[])).unwrap().flags, 2);
        assert_eq!(question(0, &flags(&["syn", "ack"])).unwrap().flags, 0x12);
        for (wrong, field) in [
            (AclMatchRequest { icmp_type: Some(256), ..asked("icmp") }, "icmp_type"),
            (AclMatchRequest { destination_port: 8, ..asked("icmp") }, "destination_port"),
            (AclMatchRequest { icmp_type: Some(8), ..flags(&[]) }, "icmp_type"),
            (flags(&["syn", "!ack"]), "tcp_flags"),
        ] {
            assert_eq!(question(0, &wrong).unwrap_err().field, field);
        }
    }
}
