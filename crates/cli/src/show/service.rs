//! `show service`.

use api::escape::{self, Texts};
use api::v1::{GraphRequest, GraphResponse, TenantState, TenantsRequest};
use serde::Serialize;

use super::{Before, View};
use crate::context::Client;
use crate::error::{Doing, Error};
use crate::render::{Column, Paint, Table};

/// The arc whose features the services are.
const ARC: &str = "session-services";

/// All services.
#[derive(Debug)]
pub(super) struct Services;

/// All of them, in their order.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    services: Vec<Service>,
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Service {
    name: String,
    /// What it does, one line.
    help: String,
    /// Scopes that it is of.
    scopes: Vec<String>,
    /// Tenants that have it on the chain of packets from the initiator.
    forward: Vec<String>,
    /// Those that have it on that of packets to the initiator.
    reverse: Vec<String>,
}

impl Texts for Answer {
    fn escape(&mut self) {
        for Service { name, help, scopes, forward, reverse } in &mut self.services {
            let lists = [scopes, forward, reverse].into_iter().flatten();
            [name, help].into_iter().chain(lists).for_each(escape::in_place);
        }
    }
}

impl View for Services {
    type Answer = Answer;

    async fn fetch(&self, client: &mut Client) -> Result<Answer, Error> {
        let graph = client.graph(GraphRequest {}).await.doing("show service")?;
        let tenants = client.tenants(TenantsRequest::default()).await.doing("show service")?;
        Ok(answer(&graph, &tenants.tenants))
    }

    fn table(&self, answer: &Answer, _before: Option<Before<'_, Answer>>, paint: Paint) -> String {
        let mut table = Table::new([
            Column::left("SERVICE"),
            Column::left("SCOPE"),
            Column::left("FORWARD").optional(),
            Column::left("REVERSE").optional(),
            Column::left("WHAT IT DOES"),
        ]);
        for Service { name, help, scopes, forward, reverse } in &answer.services {
            table.row([
                name.into(),
                scopes.join(" ").into(),
                forward.join(" ").into(),
                reverse.join(" ").into(),
                help.into(),
            ]);
        }
        table.render(paint)
    }
}

fn answer(graph: &GraphResponse, tenants: &[TenantState]) -> Answer {
    let named = |name: &str, chain: fn(&TenantState) -> &Vec<String>| {
        let with = tenants.iter().filter(|tenant| chain(tenant).iter().any(|service| service == name));
        with.map(|tenant| tenant.name.clone()).collect()
    };
    let names = graph.arcs.iter().filter(|arc| arc.name == ARC).flat_map(|arc| &arc.features);
    let node = |name: &str| graph.nodes.iter().find(|node| node.name == name);
    let services = names.map(|name| Service {
        name: name.clone(),
        help: node(name).map(|node| node.help.clone()).unwrap_or_default(),
        scopes: node(name).map(|node| node.scopes.clone()).unwrap_or_default(),
        forward: named(name, |tenant| &tenant.forward_services),
        reverse: named(name, |tenant| &tenant.reverse_services),
    });
    Answer { services: services.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1::{GraphArc, GraphNode};

    #[test]
    fn services_name_the_tenants_that_have_them() {
        let node = |name: &str| GraphNode {
            name: name.into(),
            help: format!("Is {name}."),
            scopes: vec!["default".into()],
            ..GraphNode::default()
        };
        let arc = |name: &str, features: &[&str]| GraphArc {
            name: name.into(),
            features: features.iter().map(|name| (*name).into()).collect(),
        };
        let graph = GraphResponse {
            nodes: vec![node("acl"), node("tcp-check"), node("ip4-input")],
            arcs: vec![arc("ip4-unicast", &["ip4-input"]), arc(ARC, &["tcp-check", "acl"])],
        };
        let tenant = |name: &str, forward: &[&str], reverse: &[&str]| TenantState {
            name: name.into(),
            forward_services: forward.iter().map(|name| (*name).into()).collect(),
            reverse_services: reverse.iter().map(|name| (*name).into()).collect(),
            ..TenantState::default()
        };
        let tenants = [tenant("red", &["tcp-check", "acl"], &["tcp-check"]), tenant("blue", &["acl"], &[])];
        let text = Services.table(&answer(&graph, &tenants), None, Paint::new(false));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["SERVICE", "SCOPE", "FORWARD", "REVERSE", "WHAT", "IT", "DOES"]);
        assert_eq!(rows[1], ["tcp-check", "default", "red", "red", "Is", "tcp-check."]);
        assert_eq!(rows[2], ["acl", "default", "red", "blue", "Is", "acl."]);
        assert_eq!(rows.len(), 3);
    }
}
