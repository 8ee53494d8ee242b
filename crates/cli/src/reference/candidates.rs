//! Names that a shell may complete, asked of quiverd while the user waits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use api::client::DEFAULT_SOCKET;
use api::text::Words;
use api::v1::{GraphRequest, Kind, ObjectRef};
use clap_complete::CompletionCandidate;

use crate::config::{objects, parse_kind};
use crate::context::Client;

/// Longest time to wait for quiverd: nobody waits longer for a Tab.
const PATIENCE: Duration = Duration::from_millis(300);

/// Kinds of objects.
pub(crate) fn kinds() -> Vec<CompletionCandidate> {
    Kind::WORDS.iter().copied().chain(["all"]).map(CompletionCandidate::new).collect()
}

/// Names of the kind that stands somewhere in the command line.
pub(crate) fn names_of_kind() -> Vec<CompletionCandidate> {
    let mut words = std::env::args().skip_while(|word| word != "--").skip(1);
    words.find_map(|word| parse_kind(&word)).map(names).unwrap_or_default()
}

/// Interfaces.
pub(crate) fn interfaces() -> Vec<CompletionCandidate> {
    names(Kind::Interface)
}

/// Bridges.
pub(crate) fn bridges() -> Vec<CompletionCandidate> {
    names(Kind::Bridge)
}

/// Tenants.
pub(crate) fn tenants() -> Vec<CompletionCandidate> {
    names(Kind::Tenant)
}

/// NAT pools.
pub(crate) fn nat_pools() -> Vec<CompletionCandidate> {
    names(Kind::NatPool)
}

/// Policers.
pub(crate) fn policers() -> Vec<CompletionCandidate> {
    names(Kind::Policer)
}

/// Lists of rules.
pub(crate) fn acls() -> Vec<CompletionCandidate> {
    names(Kind::Acl)
}

/// VIPs.
pub(crate) fn vips() -> Vec<CompletionCandidate> {
    names(Kind::Vip)
}

/// VRFs.
pub(crate) fn vrfs() -> Vec<CompletionCandidate> {
    names(Kind::Vrf)
}

/// What a trace can begin at: interfaces and input nodes.
pub(crate) fn trace_sources() -> Vec<CompletionCandidate> {
    let mut all = interfaces();
    let nodes = ask(async |mut client| {
        let graph = client.graph(GraphRequest {}).await.ok()?.into_inner();
        Some(graph.nodes)
    });
    let inputs =
        nodes.unwrap_or_default().into_iter().filter(|node| node.kind() == api::v1::GraphNodeKind::Input);
    all.extend(inputs.map(|node| CompletionCandidate::new(node.name).help(Some(node.help.into()))));
    all
}

/// Names of all objects of a kind.
fn names(kind: Kind) -> Vec<CompletionCandidate> {
    let response = ask(async |mut client| objects(&mut client, Some(kind), "").await.ok());
    let objects = response.map(|response| response.objects).unwrap_or_default();
    let names = objects.iter().filter_map(api::v1::Object::object_ref);
    names.map(|ObjectRef { name, .. }| CompletionCandidate::new(name)).collect()
}

/// Asks quiverd, briefly. Without an answer there is nothing to complete, which is no error.
fn ask<T>(question: impl AsyncFnOnce(Client) -> Option<T>) -> Option<T> {
    let socket = said_socket(std::env::args_os()).or_else(|| std::env::var_os("QUIVER_SOCKET"));
    let socket = socket.map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async { question(api::client::connect(socket).await.ok()?).await })
            .await
            .ok()
            .flatten()
    })
}

/// The socket that the line to be completed names: its words come behind `--`.
fn said_socket(words: impl Iterator<Item = OsString>) -> Option<OsString> {
    let mut words = words.skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        if word == "--socket" {
            return words.next();
        }
        let text = word.to_str().and_then(|word| word.strip_prefix("--socket="));
        if let Some(socket) = text {
            return Some(socket.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_that_of_the_line() {
        let said = |line: &str| said_socket(line.split(' ').map(OsString::from));
        assert_eq!(said("quiver -- quiver --socket /a show interface"), Some("/a".into()));
        assert_eq!(said("quiver -- quiver show --socket=/a"), Some("/a".into()));
        assert_eq!(said("quiver -- quiver show interface"), None);
        assert_eq!(said("quiver --socket /a"), None, "that isn't completed");
    }
}
