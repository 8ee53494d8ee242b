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
    assert!(
        matches!(told[..], [ServerEvent::Refused { id: None, reason: Reason::HangingDescriptors }]),
        "{told:?}"
    );
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
