//! What only a look inside shows.

use std::process::{Command, Stdio};

use super::*;
use crate::ClientConfig;
use crate::io::{Client, ClientEvent, ClientTiming};

/// A process whose descriptors can't be closed is turned away, and told why; nobody else is.
#[test]
fn hostile_process_whose_closes_hang_keeps_nobody_else_out() {
    let name = format!("quiver-hanging-{}", std::process::id());
    let address = Address::abstract_name(&name);
    let mut listener = Listener::bind(&address, ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    let client = || Client::new(address.clone(), ClientConfig::default(), ClientTiming::default()).unwrap();
    let now = Instant::now();
    let mut first = client();
    assert!(first.process(now).is_empty() && listener.process(now).unwrap().is_empty());
    let token = listener.sessions.tokens()[0];
    let us = listener.sessions.get(token).unwrap().origin;
    let ends: Vec<_> = (0..64).map(|_| listener.closing.of(us).hang()).collect();
    assert!(!listener.keeps_out);
    listener.process(now).unwrap();
    assert!(listener.keeps_out, "before the next of them connects");
    let mut second = client();
    second.process(now);
    let told = listener.process(now).unwrap();
    let [ServerEvent::Refused { id: None, peer: Some(peer), reason: Reason::HangingDescriptors }] = told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(peer.pid, Some(std::process::id()));
    let told = second.process(now);
    let [ClientEvent::Refused { reason }] = &told[..] else { panic!("{told:?}") };
    assert!(reason.to_string().contains("descriptors sent before are not closed yet"), "{reason}");
    assert_eq!(listener.ended().get("hanging-descriptors"), Some(&1));
    assert_eq!(listener.sessions.tokens(), [token], "who is there already stays");

    let other = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('\\0' + sys.argv[1])\n\
        sys.exit(s.recv(128)[0] != 2)";
    let mut other = Command::new("python3").args(["-c", other, &name]).stdin(Stdio::null()).spawn().unwrap();
    let status = loop {
        listener.process(now).unwrap();
        if let Some(status) = other.try_wait().unwrap() {
            break status;
        }
        assert!(now.elapsed() < Duration::from_secs(60), "another process hears nothing");
    };
    assert!(status.success(), "another process is told HELLO");

    drop(ends);
    let mut third = client();
    while !third.is_connected() {
        assert!(now.elapsed() < Duration::from_secs(60), "not even now");
        third.process(Instant::now() + Duration::from_secs(60));
        listener.process(Instant::now()).unwrap();
    }
}

/// While the socket is open: what is beyond is refused from then on, and who is connected stays.
#[test]
fn a_quota_can_be_changed() {
    let address = Address::abstract_name(format!("quiver-quota-changed-{}", std::process::id()));
    let mut listener = Listener::bind(&address, ListenerSettings::default()).unwrap();
    let client = |id| {
        let config = ClientConfig { id, ..ClientConfig::default() };
        Client::new(address.clone(), config, ClientTiming::default()).unwrap()
    };
    let mut clients: Vec<_> = (0..2).map(client).collect();
    // What is connected has its part as long as its queues are there.
    let (begin, mut kept) = (Instant::now(), Vec::new());
    let mut until = |listener: &mut Listener, client: &mut Client, up: bool| {
        loop {
            assert!(begin.elapsed() < Duration::from_secs(60), "{up}: {:?}", listener.ended());
            let refused = client.process(Instant::now()).into_iter().find_map(|event| match event {
                ClientEvent::Refused { reason } => Some(reason.to_string()),
                _ => None,
            });
            kept.extend(listener.process(Instant::now()).unwrap());
            if refused.is_some() || client.is_connected() {
                assert_eq!(client.is_connected(), up);
                return refused.unwrap_or_default();
            }
        }
    };
    listener.register(0, ServerConfig::default()).unwrap();
    until(&mut listener, &mut clients[0], true);
    listener.register(1, ServerConfig::default()).unwrap();
    listener.set_quota(5, u64::MAX);
    let refused = until(&mut listener, &mut clients[1], false);
    assert!(refused.contains("max_descriptors is 5"), "{refused}");
    assert!(clients[0].is_connected() && listener.is_connected(0));
    // Another thread closes what the refused one has sent: a region and two rings are left.
    while listener.in_use().descriptors > 3 {
        assert!(begin.elapsed() < Duration::from_secs(60), "what was refused isn't given back");
        listener.process(Instant::now()).unwrap();
    }
    listener.set_quota(6, u64::MAX);
    clients.truncate(1);
    let mut again = client(1);
    until(&mut listener, &mut again, true);
}

/// It is connected and gone in one moment: what it has sent waits behind what hangs, instead of being closed by who serves everybody.
#[test]
fn hostile_client_that_is_gone_as_it_is_connected_is_closed_elsewhere() {
    let address = Address::abstract_name(format!("quiver-gone-{}", std::process::id()));
    let mut listener = Listener::bind(&address, ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    let mut client = Client::new(address, ClientConfig::default(), ClientTiming::default()).unwrap();
    let (now, all) = (Instant::now(), 3);
    // A region and two rings; then it has only to say CONNECT.
    while listener.in_use().descriptors < all {
        assert!(now.elapsed() < Duration::from_secs(60), "it isn't let in");
        assert!(client.process(now).is_empty() && listener.process(now).unwrap().is_empty());
    }
    assert!(client.process(now).is_empty());
    drop(client);
    let us = listener.sessions.get(listener.sessions.tokens()[0]).unwrap().origin;
    let hangs = listener.closing.of(us).hang();
    let told = listener.process(now).unwrap();
    assert!(
        matches!(told[..], [ServerEvent::Refused { id: Some(0), reason: Reason::Closed, .. }]),
        "CONNECTED can't be said: {told:?}"
    );
    assert_eq!(listener.in_use().descriptors, all, "it is closed by who serves everybody");
    drop(hangs);
    while listener.in_use().descriptors > 0 {
        assert!(now.elapsed() < Duration::from_secs(60), "it is never closed");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// It has died while its region is mapped, which is noticed at once; its successor is told why it has to wait.
#[test]
fn a_client_that_is_gone_while_its_region_is_mapped_is_noticed() {
    let address = Address::abstract_name(format!("quiver-gone-mapping-{}", std::process::id()));
    let mut listener = Listener::bind(&address, ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    let client = || Client::new(address.clone(), ClientConfig::default(), ClientTiming::default()).unwrap();
    let (mut first, started) = (client(), Instant::now());
    while listener.sessions.tokens().is_empty() {
        assert!(first.process(started).is_empty() && listener.process(started).unwrap().is_empty());
    }
    let us = listener.sessions.get(listener.sessions.tokens()[0]).unwrap().origin;
    let (end, hangs) = std::sync::mpsc::channel::<()>();
    listener.mapping.begin(u64::MAX - 1, 9, us, listener.whose(9, None), move || {
        let _ = hangs.recv();
        Err(Reason::Closed)
    });
    while listener.out.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60), "no region is announced");
        assert!(first.process(started).is_empty() && listener.process(started).unwrap().is_empty());
    }
    drop(first);
    let told = listener.process(started).unwrap();
    assert!(
        matches!(told[..], [ServerEvent::Refused { id: Some(0), reason: Reason::Closed, .. }]),
        "{told:?}"
    );
    let (mut next, mut refused) = (client(), Vec::new());
    while refused.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60), "nobody turns it away");
        refused = next.process(started);
        listener.process(started).unwrap();
    }
    let [ClientEvent::Refused { reason }] = &refused[..] else { panic!("{refused:?}") };
    assert!(reason.to_string().contains("its file is held"), "{reason}");
    drop(end);
    while !next.is_connected() {
        assert!(started.elapsed() < Duration::from_secs(60), "not even now");
        next.process(Instant::now());
        listener.process(Instant::now()).unwrap();
    }
}
