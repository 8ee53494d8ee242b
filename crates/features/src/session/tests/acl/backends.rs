//! Sessions that `balance` has given a backend.

use super::*;
use crate::session::balance::control::{BackendClients, BackendConfig, BackendState, Balancer, VipConfig};
use crate::session::balance::{Algorithm, SourceNat};
use tables::session::Endpoint;

/// A VIP with these backends.
fn web(vip: Endpoint, backends: &[(Endpoint, BackendState)]) -> VipConfig {
    let backend = |(endpoint, state): &(Endpoint, BackendState)| BackendConfig {
        endpoint: *endpoint,
        weight: 1,
        state: *state,
        source_nat: None,
        clients: BackendClients::All,
    };
    VipConfig {
        context: 0,
        protocol: IpProtocol::UDP.0,
        endpoint: vip,
        backends: backends.iter().map(backend).collect(),
        algorithm: Algorithm::Maglev,
        affinity: 0,
        source_nat: SourceNat::Hairpin,
        source_nat_address: None,
        source_nat_except: [].into(),
        sources: [].into(),
        inside: [].into(),
        reject: false,
        direct: false,
        keep_down: false,
        end_removed: false,
    }
}

fn show(bench: &mut Bench, balancer: &mut Balancer, config: VipConfig) {
    balancer.set("web", Some(config));
    let changed = balancer.publish();
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += u64::from(changed.revisit);
            all.vips = balancer.vips().clone();
        });
    });
}

/// An endpoint whose ingress is asked of one list.
fn guard(filters: &mut Filters, name: &str, address: IpAddr, list: &str) {
    let config =
        EndpointConfig { addresses: vec![address], ingress: vec![list.into()], ..EndpointConfig::default() };
    filters.set_endpoint(&name.into(), Some(config.into()));
}

fn balancing() -> Tenant {
    Tenant { chain: [order().chain(["l4-lifecycle", "balance", "acl"]).unwrap(); 2], ..tenant() }
}

/// Backends are meant where a VIP is asked, by address and port.
#[test]
fn of_a_balanced_session_the_backend_is_asked_about() {
    for tier in Tier::available() {
        for text in [balance::BALANCE4, balance::BALANCE6] {
            let (vip, backend) = balance::places(text == balance::BALANCE6);
            let (mut bench, mut balancer) = (bench(tier, &[balancing()]), Balancer::new(1));
            show(&mut bench, &mut balancer, web(vip, &[(backend, BackendState::Active)]));
            let mut filters = Filters::default();
            set_acl(&mut filters, "in", vec![to_port(Action::Reflect, IpProtocol::UDP, backend.1)]);
            guard(&mut filters, "backend", backend.0, "in");
            publish(&mut bench, &mut filters, &[]);
            for name in ["udp", "udp answer", "udp"] {
                pass(&mut bench, text, name);
            }
            assert_eq!(filters.placed("in").unwrap().acl.hits(0), 1);
            set_acl(&mut filters, "in", vec![to_port(Action::Reflect, IpProtocol::UDP, vip.1)]);
            publish(&mut bench, &mut filters, &[]);
            dropped(&mut bench, text, "udp answer", "acl ingress-denied");
            dropped(&mut bench, text, "udp", "acl ingress-denied");
        }
    }
}

/// The last byte of the address of who gets a packet of the client's; nobody: why it is dropped.
fn asked(bench: &mut Bench, text: &'static str) -> Result<u8, String> {
    let outcome = bench.run(2, &[packet(text, "udp").frame], 1);
    // What leaves there is without Ethernet.
    let last = if text == balance::BALANCE4 { 19 } else { 39 };
    match outcome.sent.get(&3).map(Vec::as_slice) {
        Some([frame]) => Ok(frame[last]),
        _ => Err(outcome.drops.keys().next().cloned().unwrap_or_default()),
    }
}

/// Two backends of the conversations' VIP, the first of which is 9, with lists of their own.
fn two(tier: Tier, text: &'static str, lists: [&str; 2]) -> (Bench, Balancer, Filters, [VipConfig; 2]) {
    use BackendState::{Active, Draining};
    let (vip, first) = balance::places(text == balance::BALANCE6);
    let second = match first.0 {
        IpAddr::V4(one) => IpAddr::V4((one.to_bits() + 1).into()),
        IpAddr::V6(one) => IpAddr::V6((one.to_bits() + 1).into()),
    };
    let second = (second, first.1);
    let (mut bench, mut balancer) = (bench(tier, &[balancing()]), Balancer::new(1));
    let configs = [web(vip, &[(first, Active)]), web(vip, &[(first, Draining), (second, Active)])];
    show(&mut bench, &mut balancer, configs[0].clone());
    let mut filters = Filters::default();
    set_acl(&mut filters, "nobody", Vec::new());
    set_acl(&mut filters, "all", vec![rule(Action::Reflect)]);
    guard(&mut filters, "first", first.0, lists[0]);
    guard(&mut filters, "second", second.0, lists[1]);
    publish(&mut bench, &mut filters, &[]);
    (bench, balancer, filters, configs)
}

/// What was decided about one backend isn't what is decided about another.
#[test]
fn a_session_that_is_moved_to_another_backend_is_asked_about_again() {
    for tier in Tier::available() {
        for text in [balance::BALANCE4, balance::BALANCE6] {
            let (mut bench, mut balancer, filters, [_, moved]) = two(tier, text, ["all", "nobody"]);
            assert_eq!(asked(&mut bench, text), Ok(9));
            show(&mut bench, &mut balancer, moved);
            assert_eq!(asked(&mut bench, text), Err("acl ingress-denied".into()));
            assert_eq!(count(&bench, "balance", "rebalanced"), 1);
            assert_eq!(asked(&mut bench, text), Err("acl ingress-denied".into()));
            assert_eq!(filters.placed("nobody").unwrap().acl.unmatched(), 1);

            let (mut bench, mut balancer, filters, [_, moved]) = two(tier, text, ["all", "all"]);
            assert_eq!(asked(&mut bench, text), Ok(9));
            show(&mut bench, &mut balancer, moved);
            assert_eq!((asked(&mut bench, text), asked(&mut bench, text)), (Ok(10), Ok(10)));
            assert_eq!(filters.placed("all").unwrap().acl.hits(0), 2);
        }
    }
}

/// Who is denied at a backend that takes no more may be let pass at another.
#[test]
fn a_session_that_is_denied_isn_t_kept_from_another_backend() {
    for tier in Tier::available() {
        for text in [balance::BALANCE4, balance::BALANCE6] {
            let (mut bench, mut balancer, _filters, [_, moved]) = two(tier, text, ["nobody", "all"]);
            for _ in 0..10 {
                assert_eq!(asked(&mut bench, text), Err("acl ingress-denied".into()));
            }
            assert_eq!(count(&bench, "acl", "denied"), 1);
            show(&mut bench, &mut balancer, moved);
            assert_eq!((asked(&mut bench, text), asked(&mut bench, text)), (Ok(10), Ok(10)));
        }
    }
}
