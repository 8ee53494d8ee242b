//! `show acl`.

use api::text::Words;
use api::v1::{
    AclMatchRequest, AclMatchResponse, AclPlace, AclRule, AclRuleState, AclState, AclStep, AclVerdict,
    AclsRequest, AclsResponse,
};

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::{Cell, Column, Paint, Table, Tone};

/// All lists, or one with its rules.
#[derive(Debug)]
pub(super) struct Acls {
    /// Name; `None`: all.
    pub(super) name: Option<String>,
    /// Rules without hits are left out.
    pub(super) only_hits: bool,
}

impl View for Acls {
    type Answer = AclsResponse;

    async fn fetch(&self, client: &mut Client) -> Result<AclsResponse, Error> {
        let request = AclsRequest { name: self.name.clone().unwrap_or_default(), only_hits: self.only_hits };
        let mut stream = client.acls(request).await.doing("show acl")?;
        let mut all = AclsResponse::default();
        while let Some(part) = stream.message().await.doing("show acl")? {
            for piece in part.acls {
                match all.acls.last_mut().filter(|last| last.name == piece.name) {
                    Some(last) => last.rules.extend(piece.rules),
                    None => all.acls.push(piece),
                }
            }
        }
        Ok(all)
    }

    fn table(&self, answer: &AclsResponse, _: Option<Before<'_, AclsResponse>>, paint: Paint) -> String {
        match (&answer.acls[..], &self.name) {
            ([], _) => "no acls\n".into(),
            ([one], Some(_)) => rules(one, paint),
            (all, _) => lists(all, paint),
        }
    }
}

fn lists(all: &[AclState], paint: Paint) -> String {
    let mut table = Table::new([
        Column::left("ACL"),
        Column::right("RULES"),
        Column::left("DEFAULT"),
        Column::right("PERMITTED"),
        Column::right("REFLECTED"),
        Column::right("REDIRECTED").optional(),
        Column::right("DENIED"),
        Column::right("UNMATCHED"),
        Column::left("TENANTS"),
    ]);
    for acl in all {
        table.row([
            (&acl.name).into(),
            acl.rule_count.into(),
            acl.default_action().word().into(),
            acl.permitted.into(),
            acl.reflected.into(),
            (if acl.redirected > 0 { acl.redirected.to_string() } else { String::new() }).into(),
            Cell::toned(acl.denied.to_string(), if acl.denied > 0 { Tone::Warn } else { Tone::Plain }),
            acl.unmatched.into(),
            acl.tenants.join(" ").into(),
        ]);
    }
    table.render(paint)
}

fn rules(acl: &AclState, paint: Paint) -> String {
    let mut table = Table::new([
        Column::right("RULE"),
        Column::left("NAME").optional(),
        Column::left("ACTION"),
        Column::left("PROTOCOL"),
        Column::left("SOURCE"),
        Column::left("DESTINATION"),
        Column::left("MORE").optional(),
        Column::right("HITS"),
        Column::left("REMARK").optional(),
    ]);
    for state in &acl.rules {
        let rule = state.rule.clone().unwrap_or_default();
        table.row([
            state.number.to_string().into(),
            (&rule.name).into(),
            rule.action().word().into(),
            (if rule.protocol.is_empty() { "any" } else { &rule.protocol }).into(),
            side(&rule.sources, &rule.source_except, &rule.source_sets, &rule.source_ports).into(),
            side(
                &rule.destinations,
                &rule.destination_except,
                &rule.destination_sets,
                &rule.destination_ports,
            )
            .into(),
            more(&rule).into(),
            state.hits.into(),
            (&rule.remark).into(),
        ]);
    }
    table.row([
        Cell::default(),
        "default".into(),
        acl.default_action().word().into(),
        "any".into(),
        "any".into(),
        "any".into(),
        Cell::default(),
        acl.unmatched.into(),
        Cell::default(),
    ]);
    table.render(paint)
}

/// "10.0.0.0/8 except 10.1.0.0/16, set:pods ports 80,443".
fn side(prefixes: &[String], except: &[String], sets: &[String], ports: &[String]) -> String {
    /// So many are named.
    const SOME: usize = 3;
    let mut words: Vec<String> = prefixes.iter().take(SOME).cloned().collect();
    if prefixes.len() > SOME {
        words.push(format!("and {} more", prefixes.len() - SOME));
    }
    let mut text = words.join(", ");
    match except {
        [] => {}
        [one] => text += &format!(" except {one}"),
        many => text += &format!(" except {} and {} more", many[0], many.len() - 1),
    }
    for set in sets {
        text += &format!("{}set:{set}", if text.is_empty() { "" } else { ", " });
    }
    if text.is_empty() {
        text = "any".into();
    }
    if ports.is_empty() { text } else { format!("{text} ports {}", ports.join(",")) }
}

fn more(rule: &AclRule) -> String {
    let mut words = Vec::new();
    if !rule.tcp_flags.is_empty() {
        words.push(format!("flags {}", rule.tcp_flags.join(",")));
    }
    match (rule.icmp_type, rule.icmp_code) {
        (Some(kind), Some(code)) => words.push(format!("type {kind} code {code}")),
        (Some(kind), None) => words.push(format!("type {kind}")),
        _ => {}
    }
    words.join(" ")
}

/// What would become of a session.
#[derive(Debug)]
pub(super) struct Match(AclMatchRequest);

impl Match {
    /// `session`: source, destination, protocol/port.
    ///
    /// # Errors
    /// [`Error`] if the port is none.
    pub(super) fn new(session: &[String], source_port: u16, tenant: Option<&str>) -> Result<Self, Error> {
        let [source, destination, service] = session else {
            return Err(Error::Usage("give source, destination and protocol/port".into()));
        };
        let (protocol, number) = match service.split_once('/') {
            Some((protocol, number)) => (protocol, Some(number)),
            None => (&service[..], None),
        };
        let number = number.map(str::parse::<u16>).transpose().map_err(|_| {
            Error::Usage(format!("{service:?} is no protocol with a port; write tcp/80, icmp or icmp/8"))
        })?;
        let number = number.map(u32::from);
        let protocol = protocol.to_ascii_lowercase();
        let is_icmp = ["icmp", "icmpv6", "1", "58"].contains(&&*protocol);
        Ok(Self(AclMatchRequest {
            tenant: tenant.unwrap_or_default().into(),
            source: source.clone(),
            source_port: source_port.into(),
            destination: destination.clone(),
            destination_port: number.filter(|_| !is_icmp).unwrap_or_default(),
            icmp_type: number.filter(|_| is_icmp),
            protocol,
            tcp_flags: Vec::new(),
        }))
    }
}

impl View for Match {
    type Answer = AclMatchResponse;

    async fn fetch(&self, client: &mut Client) -> Result<AclMatchResponse, Error> {
        client.acl_match(self.0.clone()).await.doing("show acl")
    }

    fn table(
        &self,
        answer: &AclMatchResponse,
        _: Option<Before<'_, AclMatchResponse>>,
        paint: Paint,
    ) -> String {
        let verdict = match answer.verdict() {
            AclVerdict::Denied => "denied",
            AclVerdict::AnswersDenied => "passes, but answers are denied",
            AclVerdict::Passes | AclVerdict::Unspecified => "passes",
        };
        let first = format!("tenant {}: {verdict}\n", answer.tenant);
        if answer.steps.is_empty() {
            return format!("{first}no list is asked\n");
        }
        let mut table = Table::new([
            Column::left("ASKED"),
            Column::left("ACL"),
            Column::left("RULE"),
            Column::left("NAME").optional(),
            Column::left("ACTION"),
        ]);
        for step in &answer.steps {
            table.row([asked(step).into(), (&step.acl).into(), met(step).into(), name(step), action(step)]);
        }
        first + &table.render(paint)
    }
}

fn asked(step: &AclStep) -> String {
    let place = match step.place() {
        AclPlace::Egress => "egress of the sender",
        AclPlace::Ingress => "ingress of the receiver",
        AclPlace::Tenant | AclPlace::Unspecified => "tenant",
    };
    if step.answers { format!("{place}, for answers") } else { place.into() }
}

fn met(step: &AclStep) -> String {
    step.rule.as_ref().map_or("none".into(), |rule| rule.number.to_string())
}

fn name(step: &AclStep) -> Cell {
    let named = |state: &AclRuleState| state.rule.as_ref().map(|rule| rule.name.clone());
    step.rule.as_ref().and_then(named).unwrap_or_default().into()
}

fn action(step: &AclStep) -> Cell {
    match step.action() {
        api::v1::AclAction::Unspecified => "next".into(),
        api::v1::AclAction::Deny => Cell::toned("deny", Tone::Bad),
        action => Cell::toned(action.word(), Tone::Good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::{AclAction, AclDefault};

    fn list() -> AclState {
        let rule = AclRule {
            name: "web".into(),
            remark: "for all".into(),
            action: AclAction::Reflect.into(),
            sources: vec!["10.0.0.0/8".into()],
            source_except: vec!["10.1.0.0/16".into()],
            source_sets: vec!["pods".into()],
            protocol: "tcp".into(),
            destination_ports: vec!["80".into(), "443".into()],
            tcp_flags: vec!["syn".into(), "!ack".into()],
            ..AclRule::default()
        };
        let deny = AclRule { action: AclAction::Deny.into(), ..AclRule::default() };
        AclState {
            name: "in".into(),
            default_action: AclDefault::Next.into(),
            rules: vec![
                AclRuleState { number: 1, rule: Some(rule), hits: 12 },
                AclRuleState { number: 2, rule: Some(deny), hits: 3 },
            ],
            rule_count: 2,
            reflected: 12,
            denied: 3,
            unmatched: 1,
            tenants: vec!["red".into()],
            ..AclState::default()
        }
    }

    #[test]
    fn lists_and_their_rules() {
        let answer = AclsResponse { acls: vec![list()] };
        let all = Acls { name: None, only_hits: false };
        assert_eq!(
            all.table(&answer, None, Paint::new(false)),
            [
                "ACL  RULES  DEFAULT  PERMITTED  REFLECTED  DENIED  UNMATCHED  TENANTS\n",
                "in       2  next             0         12       3          1  red\n",
            ]
            .concat()
        );
        let one = Acls { name: Some("in".into()), only_hits: false };
        assert_eq!(
            one.table(&answer, None, Paint::new(false)),
            [
                "RULE  NAME     ACTION   PROTOCOL  SOURCE                                   DESTINATION       MORE            HITS  REMARK\n",
                "   1  web      reflect  tcp       10.0.0.0/8 except 10.1.0.0/16, set:pods  any ports 80,443  flags syn,!ack    12  for all\n",
                "   2           deny     any       any                                      any                                  3\n",
                "      default  next     any       any                                      any                                  1\n",
            ]
            .concat()
        );
        assert_eq!(all.table(&AclsResponse::default(), None, Paint::new(false)), "no acls\n");
    }

    #[test]
    fn what_would_become_of_a_session() {
        let step = |place: AclPlace, rule, action: AclAction, answers| AclStep {
            place: place.into(),
            acl: "in".into(),
            rule,
            action: action.into(),
            answers,
        };
        let rule = AclRuleState { number: 7, rule: Some(AclRule::default()), hits: 0 };
        let answer = AclMatchResponse {
            tenant: "red".into(),
            verdict: AclVerdict::AnswersDenied.into(),
            steps: vec![
                step(AclPlace::Tenant, None, AclAction::Unspecified, false),
                step(AclPlace::Ingress, Some(rule), AclAction::Permit, false),
                step(AclPlace::Egress, None, AclAction::Deny, true),
            ],
        };
        let session = ["10.0.0.1", "10.0.0.2", "tcp/80"].map(String::from);
        let view = Match::new(&session, 1024, None).unwrap();
        assert_eq!((view.0.protocol.as_str(), view.0.destination_port), ("tcp", 80));
        assert_eq!(
            view.table(&answer, None, Paint::new(false)),
            [
                "tenant red: passes, but answers are denied\n",
                "ASKED                              ACL  RULE  ACTION\n",
                "tenant                             in   none  next\n",
                "ingress of the receiver            in   7     permit\n",
                "egress of the sender, for answers  in   none  deny\n",
            ]
            .concat()
        );
        for (said, kind) in [("icmp", None), ("ICMP/0", Some(0)), ("icmpv6/129", Some(129))] {
            let session = ["10.0.0.1", "10.0.0.2", said].map(String::from);
            let view = Match::new(&session, 1024, None).unwrap();
            assert_eq!((view.0.icmp_type, view.0.destination_port), (kind, 0), "{said}");
        }
        let wrong = ["10.0.0.1", "10.0.0.2", "tcp/http"].map(String::from);
        assert!(Match::new(&wrong, 1024, None).is_err());
    }
}
