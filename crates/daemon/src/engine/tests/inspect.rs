//! What is said of packets and routes, beside what workers do with them.

use api::v1::{AclMatchRequest, AclVerdict, ExplainRequest, ExplainResponse, ExplainVerdict, FibPath};

use super::*;
use crate::dataplane::{FibQuery, FibSelection};
use crate::model::Name;

/// A host on `in`, a pod behind `tun` with a memif for some ports beside it, and all else by `tun`.
fn lab(without_peer: &str) -> (Lab, String) {
    let mut lab = Lab::new();
    let socket = lab.path("mem");
    let split = format!(
        "[[route]]\nprefix = \"10.1.0.2/32\"\nnext_hops = [{{ interface = \"tun\" }}]\n\
         [route.port_split]\nports = [\"tcp:80\"]\n{without_peer}\n\
         next_hop = {{ interface = \"mem\", address = \"10.1.0.2\" }}\n"
    );
    lab.apply(&format!(
        "[[interface]]\nname = \"in\"\nsink = {{}}\naddresses = [\"10.0.0.1/24\", \"2001:db8::1/64\"]\n\
         [[interface]]\nname = \"tun\"\nsink = {{}}\naddresses = [\"10.9.0.1/24\", \"2001:db8:9::1/64\"]\n\
         [[interface]]\nname = \"mem\"\nmemif = {{ socket = \"{socket}\" }}\n\
         [[route]]\nprefix = \"0.0.0.0/0\"\nnext_hops = [{{ address = \"10.9.0.2\" }}]\n\
         [[route]]\nprefix = \"::/0\"\nnext_hops = [{{ address = \"2001:db8:9::2\" }}]\n"
    ));
    lab.apply(&split);
    (lab, socket)
}

impl Lab {
    fn explain(&self, source: &str, destination: &str, port: u32) -> ExplainResponse {
        let request = ExplainRequest {
            source: source.into(),
            source_port: 1024,
            destination: destination.into(),
            destination_port: port,
            protocol: "tcp".into(),
            tcp_flags: vec!["syn".into()],
            interface: "in".into(),
            ..ExplainRequest::default()
        };
        self.look.explain(&request).unwrap()
    }

    fn paths(&self, prefix: &str) -> Vec<FibPath> {
        let selection = FibSelection::Exact(prefix.parse().unwrap());
        let query = FibQuery { vrf: Name::new("default").unwrap(), selection };
        let mut all = Vec::new();
        let each = &mut |entry: api::v1::FibEntry| {
            all.extend(entry.paths);
            true
        };
        self.look.fib(&query, each).unwrap();
        all
    }
}

fn verdict(answer: &ExplainResponse) -> (ExplainVerdict, &str) {
    let more =
        if answer.verdict() == ExplainVerdict::Dropped { &answer.reason } else { &answer.out_interface };
    (answer.verdict(), more)
}

fn found<'a>(answer: &'a ExplainResponse, node: &str) -> &'a str {
    let step = answer.steps.iter().find(|step| step.node == node);
    step.map_or("", |step| &step.found)
}

#[test]
fn a_port_split_is_explained_as_workers_decide_it() {
    let node = "ip4-port-split";
    let (lab, socket) = lab("");
    let answer = lab.explain("10.0.0.2", "10.1.0.2", 80);
    assert_eq!(verdict(&answer), (ExplainVerdict::Forwarded, "tun"));
    let said = "port 80 is the split's, but nobody is connected to mem: it goes where others go";
    assert_eq!(found(&answer, node), said);
    let _peer = connect(&socket);
    eventually(|| lab.attachment("mem"));
    let answer = lab.explain("10.0.0.2", "10.1.0.2", 80);
    assert_eq!(verdict(&answer), (ExplainVerdict::Forwarded, "mem"));
    assert_eq!(found(&answer, node), "port 80 is the split's: by mem");
    let answer = lab.explain("10.0.0.2", "10.1.0.2", 81);
    assert_eq!(verdict(&answer), (ExplainVerdict::Forwarded, "tun"));
    assert_eq!(found(&answer, node), "it has no port of the split's: it goes where others go");
}

#[test]
fn a_port_split_that_waits_for_its_peer_is_said_to_drop() {
    let (lab, _) = lab("without_peer = \"drop\"");
    let answer = lab.explain("10.0.0.2", "10.1.0.2", 80);
    assert_eq!((verdict(&answer), &*answer.node), ((ExplainVerdict::Dropped, "no-peer"), "ip4-port-split"));
    assert!(!answer.help.is_empty() && found(&answer, "ip4-port-split").ends_with("it goes nowhere else"));
}

#[test]
fn addresses_that_are_not_routed_are_explained_as_such() {
    let (lab, _) = lab("");
    let local = (ExplainVerdict::Local, "in");
    let dropped = |reason| (ExplainVerdict::Dropped, reason);
    for (source, destination, expected) in [
        ("10.0.0.2", "198.51.100.7", (ExplainVerdict::Forwarded, "tun")),
        ("10.0.0.2", "224.1.1.1", dropped("multicast")),
        ("10.0.0.2", "127.0.0.1", dropped("martian-destination")),
        ("10.0.0.2", "0.1.2.3", dropped("martian-destination")),
        ("10.0.0.2", "240.0.0.1", dropped("martian-destination")),
        ("127.0.0.1", "198.51.100.7", dropped("martian-source")),
        ("224.0.0.1", "198.51.100.7", dropped("martian-source")),
        ("0.0.0.0", "198.51.100.7", dropped("martian-source")),
        ("0.0.0.0", "255.255.255.255", local),
        ("10.0.0.2", "255.255.255.255", local),
        ("10.0.0.2", "224.0.0.5", local),
        ("2001:db8::2", "2001:db8:7::7", (ExplainVerdict::Forwarded, "tun")),
        ("2001:db8::2", "ff05::2", dropped("multicast")),
        ("2001:db8::2", "ff01::1", dropped("martian-destination")),
        ("2001:db8::2", "::1", dropped("martian-destination")),
        ("::1", "2001:db8:7::7", dropped("martian-source")),
        ("::", "2001:db8:7::7", dropped("martian-source")),
        ("::", "ff02::1", local),
        ("2001:db8::2", "ff02::1", local),
    ] {
        let answer = lab.explain(source, destination, 80);
        assert_eq!(verdict(&answer), expected, "{source} > {destination}: {answer:?}");
        let node = if source.contains(':') { "ip6-input" } else { "ip4-input" };
        match answer.verdict() {
            ExplainVerdict::Dropped => assert_eq!((&*answer.node, answer.help.is_empty()), (node, false)),
            ExplainVerdict::Local => assert_eq!(
                found(&answer, node),
                format!("{destination} is for all on the link: it isn't routed")
            ),
            _ => assert_eq!(found(&answer, node), ""),
        }
    }
}

#[test]
fn each_next_hop_of_a_route_is_shown_as_it_is() {
    let (mut lab, _) = lab("");
    let down = |name: &str, net: u8, up: bool| {
        format!(
            "[[interface]]\nname = \"{name}\"\nsink = {{}}\nadmin_up = {up}\naddresses = [\"10.{net}.0.1/24\"]\n"
        )
    };
    let hops = "[[route]]\nprefix = \"10.5.0.0/16\"\nnext_hops = [{ address = \"10.0.0.2\", interface = \"in\" }, \
                { address = \"10.6.0.2\", interface = \"b\" }, { address = \"10.7.0.2\", interface = \"c\" }]\n";
    lab.apply(&(down("b", 6, true) + &down("c", 7, true) + hops));
    let states = |lab: &Lab, prefix| {
        let paths = lab.paths(prefix);
        paths.into_iter().map(|path| (path.interface, path.resolved, path.detail)).collect::<Vec<_>>()
    };
    let at = |name: &str, resolved, detail: &str| (name.to_owned(), resolved, detail.to_owned());
    eventually(|| states(&lab, "10.5.0.0/16").iter().all(|(_, resolved, _)| *resolved).then_some(()));
    let config = |toml: &str| ApplyRequest {
        upserts: Some(read_config(toml, Format::Toml).unwrap()),
        ..ApplyRequest::default()
    };
    lab.controller.apply(&config(&down("b", 6, false))).unwrap();
    let pending = |lab: &Lab, name| {
        let index = lab.look.shared.directory.get().registry.find(name).unwrap();
        format!("pending: interface {index} is down")
    };
    let b = pending(&lab, "b");
    eventually(|| states(&lab, "10.5.0.0/16").iter().any(|(_, resolved, _)| !resolved).then_some(()));
    let expected = [at("in", true, ""), at("b", false, &b), at("c", true, "")];
    let mut shown = states(&lab, "10.5.0.0/16");
    shown.sort();
    let sorted = |mut all: Vec<_>| {
        all.sort();
        all
    };
    assert_eq!(shown, sorted(expected.to_vec()));
    // A split's ways likewise.
    let split = "[[route]]\nprefix = \"10.8.0.0/16\"\nnext_hops = [{ interface = \"in\" }]\n\
                 [route.port_split]\nports = [\"tcp:80\"]\nnext_hop = { interface = \"b\", address = \"10.8.0.1\" }\n";
    let split = split.replace("10.8.0.0/16", "10.8.0.1/32");
    lab.controller.apply(&config(&split)).unwrap();
    let split = eventually(|| Some(states(&lab, "10.8.0.1/32")).filter(|paths| paths.len() == 2));
    let ports = format!("tcp:80, {b}");
    assert_eq!(split, [at("b", false, &ports), at("in", true, "other ports")]);
}

#[test]
fn each_route_is_shown_once_and_in_order() {
    let mut lab = Lab::new();
    let routes = (0..1500).rev().map(|n| {
        let net = format!("10.{}.{}.0/24", n >> 8, n & 255);
        format!("[[route]]\nprefix = \"{net}\"\naction = \"blackhole\"\n")
    });
    lab.apply(&routes.collect::<String>());
    let query = FibQuery { vrf: Name::new("default").unwrap(), selection: FibSelection::All };
    let mut all = Vec::new();
    let each = &mut |entry: api::v1::FibEntry| {
        all.push(entry.prefix.parse::<ipnet::IpNet>().unwrap());
        true
    };
    lab.look.fib(&query, each).unwrap();
    assert!(all.is_sorted() && all.len() > 1500, "{all:?}");
    let unique: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len());
}

/// Whose sessions begin at others' interfaces has none to name.
#[test]
fn who_asks_for_a_class_is_told_whose_it_is() {
    let mut lab = Lab::new();
    let owner = |name: &str| {
        format!(
            "[[tenant]]\nname = \"{name}\"\ninterfaces = [\"{name}-in\"]\n\
             classes = [{{ acl = \"sip\", tenant = \"voice\" }}]\n\
             [[interface]]\nname = \"{name}-in\"\nsink = {{}}\n"
        )
    };
    let asked = |lab: &Lab, tenant: &str| {
        let request = ExplainRequest {
            source: "10.0.0.2".into(),
            destination: "10.0.0.3".into(),
            destination_port: 5060,
            protocol: "udp".into(),
            tenant: tenant.into(),
            ..ExplainRequest::default()
        };
        lab.look.explain(&request).unwrap_err().to_string()
    };
    lab.apply(
        &("[[acl]]\nname = \"sip\"\nrules = [{ action = \"permit\" }]\n\
           [[tenant]]\nname = \"voice\"\n[[tenant]]\nname = \"alone\"\n"
            .to_owned()
            + &owner("red")),
    );
    assert_eq!(
        asked(&lab, "voice"),
        "tenant voice has no interfaces of its own: its sessions begin at those of tenant red, whose class it is; ask for that one"
    );
    assert_eq!(asked(&lab, "alone"), "tenant alone has no interface in force");
    lab.apply(&owner("blue"));
    assert!(asked(&lab, "voice").contains("tenants blue, red, whose class it is"));
}

/// Rules are asked about sessions: of what has none, they say neither that it passes nor that it is dropped.
#[test]
fn rules_say_nothing_of_protocols_without_sessions() {
    let mut lab = Lab::new();
    lab.apply(
        "[[acl]]\nname = \"all\"\nrules = [{ action = \"reflect\" }]\n\
         [[tenant]]\nname = \"red\"\nforward_services = [\"acl\"]\nreverse_services = [\"acl\"]\nacls = [\"all\"]\n",
    );
    let asked = |protocol: &str| {
        let request = AclMatchRequest {
            source: "10.0.0.2".into(),
            destination: "10.0.0.3".into(),
            protocol: protocol.into(),
            ..AclMatchRequest::default()
        };
        lab.look.acl_match(&request)
    };
    for protocol in ["esp", "51", "icmp"] {
        assert_eq!(asked(protocol).unwrap().verdict(), AclVerdict::Passes, "{protocol}");
    }
    let refused = asked("47").unwrap_err().to_string();
    assert!(refused.contains("protocol 47 has no sessions"), "{refused}");
    assert!(refused.contains("slow_path.unknown_protocol"), "{refused}");
}
