//! VIPs.

use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{
    Backend, BackendClients, BackendState, BalanceAlgorithm, SourceNat, Vip, VipProtocol, WithoutBackends,
};
use features::session::balance;
use features::session::balance::control::{self, BackendConfig, VipConfig};
use wire::IpProtocol;

use super::range::IpRange;
use crate::model::{Flaw, Name, fields};

/// What the table of a VIP can tell apart, with room for those that leave.
const MAX_BACKENDS: usize = 4096;
/// A hundredth of the largest table for each hundredth of a share.
const MAX_WEIGHT: u32 = 1000;
/// A day: what Kubernetes allows, and far less than clocks of clients tell apart.
const MAX_AFFINITY: u32 = 86_400;
/// Each is looked at for each new session.
const MAX_EXCEPT: usize = 64;
/// A few of them are looked at for each new session.
const MAX_SOURCES: usize = 4096;

/// A VIP; see [`Vip`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VipSpec {
    /// Unique name.
    pub name: Name,
    /// What it is; backends are ordered.
    pub config: VipConfig,
}

impl VipSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(vip: &Vip) -> Result<Self, Flaw> {
        let address = host("address", &vip.address)?;
        let port = port("port", vip.port, None)?;
        let context = u16::try_from(vip.context).map_err(|_| {
            Flaw::new("context", format!("{} is out of range", vip.context)).remedy("take 0 to 65535")
        })?;
        let protocol = match fields::choice("protocol", vip.protocol, VipProtocol::Tcp)? {
            VipProtocol::Udp => IpProtocol::UDP,
            VipProtocol::Sctp => IpProtocol::SCTP,
            VipProtocol::Tcp | VipProtocol::Unspecified => IpProtocol::TCP,
        };
        let algorithm = match fields::choice("algorithm", vip.algorithm, BalanceAlgorithm::Maglev)? {
            BalanceAlgorithm::LeastFlows => balance::Algorithm::LeastFlows,
            BalanceAlgorithm::Maglev | BalanceAlgorithm::Unspecified => balance::Algorithm::Maglev,
        };
        let source_nat = source_nat("source_nat", vip.source_nat, SourceNat::Hairpin)?;
        let without = fields::choice("without_backends", vip.without_backends, WithoutBackends::Drop)?;
        if vip.direct_server_return {
            as_they_are(vip, port)?;
        }
        Ok(Self {
            name: fields::name("name", &vip.name)?,
            config: VipConfig {
                context,
                protocol: protocol.0,
                endpoint: (address, port),
                backends: backends(&vip.backends, (address, port))?,
                algorithm,
                affinity: fields::number("affinity_seconds", vip.affinity_seconds, 1..=MAX_AFFINITY, 0)?,
                source_nat: source_nat.unwrap_or_default(),
                source_nat_address: source(&vip.source_nat_address, address)?,
                source_nat_except: ranges("source_nat_except", &vip.source_nat_except, address, MAX_EXCEPT)?,
                sources: ranges("sources", &vip.sources, address, MAX_SOURCES)?,
                inside: inside(vip, address)?,
                reject: without == WithoutBackends::Reject,
                direct: vip.direct_server_return,
                end_removed: vip.end_removed_sessions,
                keep_down: vip.keep_down_sessions,
            },
        })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Vip {
        let config = &self.config;
        let (address, port) = config.endpoint;
        let backend = |backend: &BackendConfig| Backend {
            address: backend.endpoint.0.to_string(),
            port: if backend.endpoint.1 == port { 0 } else { backend.endpoint.1.into() },
            weight: (backend.weight != 1).then_some(backend.weight),
            state: match backend.state {
                control::BackendState::Active => BackendState::Unspecified,
                state => api_state(state),
            }
            .into(),
            source_nat: backend.source_nat.map_or(SourceNat::Unspecified, api_source_nat).into(),
            clients: match backend.clients {
                control::BackendClients::All => BackendClients::Unspecified,
                clients => api_clients(clients),
            }
            .into(),
        };
        Vip {
            name: self.name.to_string(),
            context: config.context.into(),
            address: address.to_string(),
            protocol: match api_protocol(config.protocol) {
                VipProtocol::Tcp => VipProtocol::Unspecified,
                protocol => protocol,
            }
            .into(),
            port: port.into(),
            backends: config.backends.iter().map(backend).collect(),
            algorithm: match api_algorithm(config.algorithm) {
                BalanceAlgorithm::Maglev => BalanceAlgorithm::Unspecified,
                algorithm => algorithm,
            }
            .into(),
            affinity_seconds: config.affinity,
            source_nat: match api_source_nat(config.source_nat) {
                SourceNat::Hairpin => SourceNat::Unspecified,
                source_nat => source_nat,
            }
            .into(),
            keep_down_sessions: config.keep_down,
            source_nat_address: config
                .source_nat_address
                .map(|source| source.to_string())
                .unwrap_or_default(),
            source_nat_except: config.source_nat_except.iter().map(text).collect(),
            end_removed_sessions: config.end_removed,
            without_backends: if config.reject {
                WithoutBackends::Reject
            } else {
                WithoutBackends::Unspecified
            }
            .into(),
            sources: config.sources.iter().map(text).collect(),
            inside: config.inside.iter().map(text).collect(),
            direct_server_return: config.direct,
        }
    }
}

/// What can't be where packets go to their backend as they are.
fn as_they_are(vip: &Vip, port: u16) -> Result<(), Flaw> {
    let translates = |field: String, what: &str| {
        let what = format!("{what}, and with direct_server_return packets go to backends as they are");
        Err(Flaw::new(field, what).remedy("leave one of them out"))
    };
    if vip.source_nat() == SourceNat::Always {
        return translates("source_nat".into(), "clients would be seen with another address");
    }
    if !vip.source_nat_address.is_empty() {
        return translates("source_nat_address".into(), "nobody is seen with it");
    }
    if !vip.source_nat_except.is_empty() {
        return translates("source_nat_except".into(), "all clients keep their address");
    }
    for (index, backend) in vip.backends.iter().enumerate() {
        if backend.port != 0 && backend.port != u32::from(port) {
            let what = format!("it is another port than the VIP's, {port}");
            return translates(format!("backends[{index}].port"), &what);
        }
        if backend.source_nat() == SourceNat::Always {
            let field = format!("backends[{index}].source_nat");
            return translates(field, "clients would be seen with another address");
        }
    }
    Ok(())
}

/// A protocol's word.
pub fn api_protocol(protocol: u8) -> VipProtocol {
    match IpProtocol(protocol) {
        IpProtocol::UDP => VipProtocol::Udp,
        IpProtocol::SCTP => VipProtocol::Sctp,
        _ => VipProtocol::Tcp,
    }
}

/// An algorithm's word.
pub fn api_algorithm(algorithm: balance::Algorithm) -> BalanceAlgorithm {
    match algorithm {
        balance::Algorithm::Maglev => BalanceAlgorithm::Maglev,
        balance::Algorithm::LeastFlows => BalanceAlgorithm::LeastFlows,
    }
}

/// Whose address backends see, as a word.
pub fn api_source_nat(source_nat: balance::SourceNat) -> SourceNat {
    match source_nat {
        balance::SourceNat::Hairpin => SourceNat::Hairpin,
        balance::SourceNat::Always => SourceNat::Always,
        balance::SourceNat::Never => SourceNat::Never,
    }
}

/// A backend's state as a word.
pub fn api_state(state: control::BackendState) -> BackendState {
    match state {
        control::BackendState::Active => BackendState::Active,
        control::BackendState::Draining => BackendState::Draining,
        control::BackendState::Down => BackendState::Down,
    }
}

/// Whose new sessions a backend is given, as a word.
pub fn api_clients(clients: control::BackendClients) -> BackendClients {
    match clients {
        control::BackendClients::All => BackendClients::All,
        control::BackendClients::Inside => BackendClients::Inside,
        control::BackendClients::Outside => BackendClients::Outside,
    }
}

fn source_nat(field: &str, said: i32, default: SourceNat) -> Result<Option<balance::SourceNat>, Flaw> {
    Ok(match fields::choice(field, said, default)? {
        SourceNat::Always => Some(balance::SourceNat::Always),
        SourceNat::Never => Some(balance::SourceNat::Never),
        SourceNat::Hairpin => Some(balance::SourceNat::Hairpin),
        SourceNat::Unspecified => None,
    })
}

/// What backends see in the place of the client's address: of the VIP's family.
fn source(said: &str, vip: IpAddr) -> Result<Option<IpAddr>, Flaw> {
    const FIELD: &str = "source_nat_address";
    if said.is_empty() {
        return Ok(None);
    }
    let address = host(FIELD, said)?;
    if address.is_ipv4() != vip.is_ipv4() {
        let what = format!("{address} is of another family than the VIP's address, {vip}");
        return Err(Flaw::new(FIELD, what).remedy("take one of the same family"));
    }
    Ok((address != vip).then_some(address))
}

/// Clients that are inside. Without any, nobody would be given a backend that is for these alone.
fn inside(vip: &Vip, address: IpAddr) -> Result<Arc<[(IpAddr, IpAddr)]>, Flaw> {
    let alone = vip.backends.iter().position(|backend| backend.clients() == BackendClients::Inside);
    match alone {
        Some(index) if vip.inside.is_empty() => {
            let what = "it is for clients that are inside, and no client is";
            Err(Flaw::new(format!("backends[{index}].clients"), what).remedy("say who is: inside"))
        }
        _ => ranges("inside", &vip.inside, address, MAX_SOURCES),
    }
}

/// Clients: ranges of the VIP's family.
fn ranges(name: &str, said: &[String], vip: IpAddr, most: usize) -> Result<Arc<[(IpAddr, IpAddr)]>, Flaw> {
    if said.len() > most {
        let flaw = Flaw::new(name, format!("{} are too many", said.len()));
        return Err(flaw.remedy(format!("take {most} at most")));
    }
    let each = said.iter().enumerate().map(|(index, range)| {
        let field = format!("{name}[{index}]");
        let range = IpRange::parse(&field, range)?;
        if range.first.is_ipv4() == vip.is_ipv4() {
            return Ok((range.first, range.last));
        }
        let what = format!("{range} is of another family than the VIP's address, {vip}");
        Err(Flaw::new(field, what).remedy("take one of the same family"))
    });
    let mut all = each.collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(all.into())
}

fn text(&(first, last): &(IpAddr, IpAddr)) -> String {
    IpRange { first, last }.to_string()
}

/// An address that somebody can have.
fn host(field: &str, text: &str) -> Result<IpAddr, Flaw> {
    let address = fields::address(field, text)?;
    let nobody = match address {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_broadcast() || v4.octets()[0] >= 240,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some() || v6.is_unicast_link_local(),
    };
    if nobody || address.is_loopback() || address.is_multicast() || address.is_unspecified() {
        return Err(Flaw::new(field, format!("{address} is no address that is routed to a host"))
            .remedy("take a unicast address"));
    }
    Ok(address)
}

fn port(field: &str, said: u32, default: Option<u16>) -> Result<u16, Flaw> {
    match (said, default) {
        (0, Some(default)) => Ok(default),
        (1..=65535, _) => Ok(said as u16),
        _ => Err(Flaw::new(field, format!("{said} is no port")).remedy("take 1 to 65535")),
    }
}

fn backends(said: &[Backend], (vip, vip_port): (IpAddr, u16)) -> Result<Vec<BackendConfig>, Flaw> {
    if said.len() > MAX_BACKENDS {
        let flaw = Flaw::new("backends", format!("{} are too many", said.len()));
        return Err(flaw.remedy(format!("take {MAX_BACKENDS} at most")));
    }
    let mut all: Vec<BackendConfig> = Vec::with_capacity(said.len());
    for (index, backend) in said.iter().enumerate() {
        let field = |name: &str| format!("backends[{index}].{name}");
        let address = host(&field("address"), &backend.address)?;
        if address.is_ipv4() != vip.is_ipv4() {
            let what = format!("{address} is of another family than the VIP's address, {vip}");
            return Err(Flaw::new(field("address"), what).remedy("take one of the same family"));
        }
        let endpoint = (address, port(&field("port"), backend.port, Some(vip_port))?);
        if endpoint == (vip, vip_port) {
            let what = "the backend is the VIP itself: its packets would go round for ever";
            return Err(Flaw::new(field("address"), what).remedy("name a host that answers"));
        }
        let weight = backend.weight.unwrap_or(1);
        if weight > MAX_WEIGHT {
            return Err(Flaw::new(field("weight"), format!("{weight} is out of range"))
                .remedy(format!("take 0 to {MAX_WEIGHT}")));
        }
        let state = match fields::choice(&field("state"), backend.state, BackendState::Active)? {
            BackendState::Draining => control::BackendState::Draining,
            BackendState::Down => control::BackendState::Down,
            BackendState::Active | BackendState::Unspecified => control::BackendState::Active,
        };
        let source_nat = source_nat(&field("source_nat"), backend.source_nat, SourceNat::Unspecified)?;
        let clients = match fields::choice(&field("clients"), backend.clients, BackendClients::All)? {
            BackendClients::Inside => control::BackendClients::Inside,
            BackendClients::Outside => control::BackendClients::Outside,
            BackendClients::All | BackendClients::Unspecified => control::BackendClients::All,
        };
        all.push(BackendConfig { endpoint, weight, state, source_nat, clients });
    }
    if !all.is_empty() && all.iter().all(|backend| backend.weight == 0) {
        return Err(Flaw::new("backends", "none has a weight: no session could begin")
            .remedy("give one a weight, or take all of them away"));
    }
    all.sort_by_key(|backend| backend.endpoint);
    if let Some([one, _]) = all.array_windows().find(|[one, other]| one.endpoint == other.endpoint) {
        let (address, port) = one.endpoint;
        let flaw = Flaw::new("backends", format!("{address} port {port} appears twice"));
        return Err(flaw.remedy("leave one out, and give the other the weight of both"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(address: &str) -> Backend {
        Backend { address: address.into(), ..Backend::default() }
    }

    fn vip() -> Vip {
        Vip {
            name: "web".into(),
            address: "10.96.0.1".into(),
            port: 80,
            backends: vec![backend("10.1.0.2"), backend("10.1.0.3")],
            ..Vip::default()
        }
    }

    #[test]
    fn the_canonical_form_is_what_differs_from_the_defaults() {
        for api in [
            vip(),
            Vip { backends: vec![], ..vip() },
            Vip {
                context: 7,
                address: "fd00::80".into(),
                protocol: VipProtocol::Sctp.into(),
                backends: vec![
                    Backend { port: 8080, weight: Some(0), ..backend("fd01::1") },
                    Backend { state: BackendState::Draining.into(), weight: Some(5), ..backend("fd01::2") },
                    Backend { source_nat: SourceNat::Hairpin.into(), ..backend("fd01::3") },
                    Backend { clients: BackendClients::Inside.into(), ..backend("fd01::4") },
                    Backend { clients: BackendClients::Outside.into(), ..backend("fd01::5") },
                ],
                algorithm: BalanceAlgorithm::LeastFlows.into(),
                affinity_seconds: 10_800,
                source_nat: SourceNat::Always.into(),
                keep_down_sessions: true,
                source_nat_address: "fd02::ffff".into(),
                source_nat_except: vec!["fd01::/64".into(), "fd03::1-fd03::9".into()],
                end_removed_sessions: true,
                without_backends: WithoutBackends::Reject.into(),
                sources: vec!["fd07::/48".into(), "fd08::1/128".into()],
                inside: vec!["fd01::/64".into(), "fd09::1/128".into()],
                ..vip()
            },
            Vip { direct_server_return: true, source_nat: SourceNat::Never.into(), ..vip() },
        ] {
            assert_eq!(VipSpec::parse(&api).unwrap().to_api(), api);
        }
        let said = Vip {
            protocol: VipProtocol::Tcp.into(),
            algorithm: BalanceAlgorithm::Maglev.into(),
            source_nat: SourceNat::Hairpin.into(),
            source_nat_address: "10.96.0.1".into(),
            without_backends: WithoutBackends::Drop.into(),
            backends: vec![
                Backend {
                    port: 80,
                    weight: Some(1),
                    clients: BackendClients::All.into(),
                    ..backend("10.1.0.3")
                },
                Backend { state: BackendState::Active.into(), ..backend("10.1.0.2") },
            ],
            ..vip()
        };
        assert_eq!(VipSpec::parse(&said).unwrap().to_api(), vip());
    }

    #[test]
    fn flaws_name_their_field() {
        let with = |backends: Vec<Backend>| Vip { backends, ..vip() };
        let direct = |vip: Vip| Vip { direct_server_return: true, ..vip };
        let light = |address: &str| Backend { weight: Some(0), ..backend(address) };
        for (api, field) in [
            (Vip { name: "a b".into(), ..vip() }, "name"),
            (Vip { address: "10.96.0.0/24".into(), ..vip() }, "address"),
            (Vip { address: "224.0.0.1".into(), ..vip() }, "address"),
            (Vip { address: "fe80::1".into(), backends: vec![], ..vip() }, "address"),
            (Vip { port: 0, ..vip() }, "port"),
            (Vip { port: 65_536, ..vip() }, "port"),
            (Vip { context: 65_536, ..vip() }, "context"),
            (Vip { protocol: 9, ..vip() }, "protocol"),
            (Vip { affinity_seconds: 86_401, ..vip() }, "affinity_seconds"),
            (Vip { source_nat_address: "fd00::1".into(), ..vip() }, "source_nat_address"),
            (Vip { source_nat_address: "127.0.0.1".into(), ..vip() }, "source_nat_address"),
            (
                Vip { source_nat_except: vec!["10.0.0.0/8".into(), "::/0".into()], ..vip() },
                "source_nat_except[1]",
            ),
            (Vip { source_nat_except: vec!["10.0.0.1/8".into()], ..vip() }, "source_nat_except[0]"),
            (Vip { source_nat_except: vec!["10.0.0.0/8".into(); 65], ..vip() }, "source_nat_except"),
            (Vip { without_backends: 3, ..vip() }, "without_backends"),
            (Vip { sources: vec!["10.0.0.0/8".into(), "::/0".into()], ..vip() }, "sources[1]"),
            (Vip { sources: vec!["10.0.0.0/8".into(); 4097], ..vip() }, "sources"),
            (Vip { inside: vec!["10.0.0.0/8".into(), "::/0".into()], ..vip() }, "inside[1]"),
            (Vip { inside: vec!["10.0.0.0/8".into(); 4097], ..vip() }, "inside"),
            (with(vec![Backend { clients: 9, ..backend("10.1.0.2") }]), "backends[0].clients"),
            (
                with(vec![
                    backend("10.1.0.2"),
                    Backend { clients: BackendClients::Inside.into(), ..backend("10.1.0.3") },
                ]),
                "backends[1].clients",
            ),
            (with(vec![Backend { source_nat: 9, ..backend("10.1.0.2") }]), "backends[0].source_nat"),
            (with(vec![backend("10.1.0.2"), backend("x")]), "backends[1].address"),
            (with(vec![backend("fd00::1")]), "backends[0].address"),
            (with(vec![backend("10.96.0.1")]), "backends[0].address"),
            (with(vec![Backend { port: 70_000, ..backend("10.1.0.2") }]), "backends[0].port"),
            (with(vec![Backend { weight: Some(1001), ..backend("10.1.0.2") }]), "backends[0].weight"),
            (with(vec![Backend { state: 9, ..backend("10.1.0.2") }]), "backends[0].state"),
            (with(vec![light("10.1.0.2"), light("10.1.0.3")]), "backends"),
            (direct(Vip { source_nat: SourceNat::Always.into(), ..vip() }), "source_nat"),
            (direct(Vip { source_nat_address: "10.1.0.254".into(), ..vip() }), "source_nat_address"),
            (direct(Vip { source_nat_except: vec!["10.0.0.0/8".into()], ..vip() }), "source_nat_except"),
            (direct(with(vec![Backend { port: 8080, ..backend("10.1.0.2") }])), "backends[0].port"),
            (direct(with(vec![backend("10.1.0.2"), backend("fd00::1")])), "backends[1].address"),
            (
                direct(with(vec![Backend { source_nat: SourceNat::Always.into(), ..backend("10.1.0.2") }])),
                "backends[0].source_nat",
            ),
            (with(vec![backend("10.1.0.2"), Backend { port: 80, ..backend("10.1.0.2") }]), "backends"),
        ] {
            assert_eq!(VipSpec::parse(&api).unwrap_err().field, field, "{api:?}");
        }
        // The VIP's own address is a backend's where the port is another one.
        assert!(VipSpec::parse(&with(vec![Backend { port: 81, ..backend("10.96.0.1") }])).is_ok());
    }
}
