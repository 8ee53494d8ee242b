//! Sockets in other network namespaces. Needs root and iproute2; left out, aloud, without.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::process::{Command, Stdio};
use std::time::Instant;

use common::{connect, exchange, small_queues};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Error, Listener, ListenerSettings, ServerConfig,
};

/// A network namespace with a name, for the time of a test.
struct Netns(String);

impl Netns {
    fn new(name: &str) -> Option<Self> {
        let name = format!("memif-{name}-{}", std::process::id());
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: not root, so no network namespace can be made");
            return None;
        }
        let made = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::inherit()).status();
        match made {
            Ok(status) if status.success() => Some(Self(name)),
            other => {
                eprintln!("SKIPPED: `ip netns add {name}`: {other:?}");
                None
            }
        }
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

#[test]
fn an_abstract_socket_in_a_pods_namespace() {
    let Some(pod) = Netns::new("pod") else { return };
    let ours = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let here = Address::abstract_name("vpp/memif-eth0-test");
    let there = here.clone().in_netns(&pod.0);
    let mut listener = Listener::bind(&there, ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), ours, "this thread stayed");

    // The same name in our namespace is another socket.
    let config = || ClientConfig { queues: small_queues(), ..ClientConfig::default() };
    let mut outside = Client::new(here, config(), ClientTiming::default()).unwrap();
    let events = outside.process(Instant::now());
    assert!(matches!(&events[..], [ClientEvent::Unreachable { error: Error::Socket { .. } }]), "{events:?}");

    // By name, and by path, as a container runtime gives it.
    for address in
        [there, Address::abstract_name("vpp/memif-eth0-test").in_netns(&format!("/run/netns/{}", pod.0))]
    {
        let mut inside = Client::new(address, config(), ClientTiming::default()).unwrap();
        let (mut a, mut b) = connect(&mut listener, &mut [&mut inside]).remove(0);
        exchange(&mut a, &mut b);
        drop(inside);
        common::drive(Some(&mut listener), &mut [], |s, _| !s.is_empty());
    }
}

#[test]
fn many_namespaces_have_the_same_name_each() {
    let (Some(one), Some(two)) = (Netns::new("one"), Netns::new("two")) else { return };
    let address = |pod: &Netns| Address::abstract_name("vpp/memif-eth0-test").in_netns(&pod.0);
    let mut ends: Vec<_> = [&one, &two]
        .map(|pod| {
            let mut listener = Listener::bind(&address(pod), ListenerSettings::default()).unwrap();
            let config = ServerConfig { name: pod.0.clone(), ..ServerConfig::default() };
            listener.register(0, config).unwrap();
            let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
            let mut client = Client::new(address(pod), config, ClientTiming::default()).unwrap();
            let ends = connect(&mut listener, &mut [&mut client]).remove(0);
            (ends, listener, client)
        })
        .into();
    for ((client, server), _, _) in &mut ends {
        exchange(client, server);
    }
    assert_eq!(ends[0].0.0.peer.interface.as_str(), &one.0[..one.0.len().min(31)]);
    assert_eq!(ends[1].0.0.peer.interface.as_str(), &two.0[..two.0.len().min(31)]);
}
