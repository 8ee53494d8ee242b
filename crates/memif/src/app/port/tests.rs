//! What only a look inside shows.

use super::*;
use crate::control::DEFAULT_MAX_PACKET;
use crate::{QueueConfig, RingSize, region::HugePages};

fn pair(name: &str, rx_queues: u16) -> (Port, Port) {
    let address = Address::abstract_name(format!("quiver-{name}-{}", std::process::id()));
    let (server, settings) = (ServerConfig::default(), ListenerSettings::default());
    let server = Port::server(&address, 0, server, settings).unwrap();
    let queues =
        QueueConfig { ring_size: RingSize::MIN, huge_pages: HugePages::Never, ..QueueConfig::default() };
    let queues = QueueConfig { tx_queues: rx_queues, ..queues };
    let config = ClientConfig { queues, ..ClientConfig::default() };
    (server, Port::client(address, config, ClientTiming::default()).unwrap())
}

/// Three queues one way, one the other: each by its number.
#[test]
fn queues_are_used_one_by_one() {
    let (mut server, mut client) = pair("queues", 3);
    let mut batch = Batch::new(16);
    let wrong = |result: Result<usize, InterfaceError>, queue, what, count| {
        let error = result.unwrap_err();
        assert_eq!(error.cause, Error::NoQueue { queue, what, count });
        assert!(error.to_string().contains("quiver-queues-"), "{error}");
    };
    // While the link is down, too.
    wrong(client.send_on(3, &[[1; 60]]), 3, "send to", 3);
    wrong(client.receive_from(1, &mut batch), 1, "receive from", 1);
    assert_eq!((client.send_on(2, &[[1; 60]]), client.receive_from(0, &mut batch)), (Ok(0), Ok(0)));
    assert_eq!((client.send(&[[1; 60]]), client.receive(&mut batch)), (Ok(0), Ok(0)));
    until(|| {
        moment(&mut server).unwrap();
        moment(&mut client).unwrap();
        server.connection().is_some() && client.connection().is_some()
    });
    for queue in 0..3_u8 {
        assert_eq!(
            client.send_on(queue.into(), &vec![[queue; 60]; usize::from(queue) + 1]).unwrap(),
            usize::from(queue) + 1
        );
    }
    for queue in [2, 0, 1_u8] {
        assert_eq!(server.receive_from(queue.into(), &mut batch).unwrap(), usize::from(queue) + 1);
        assert!(batch.packets().all(|packet| packet == [queue; 60]));
    }
    assert_eq!(server.receive(&mut batch), Ok(0));
    wrong(server.receive_from(3, &mut batch), 3, "receive from", 3);
    wrong(server.send_on(1, &[[1; 60]]), 1, "send to", 1);
    assert_eq!((server.send_on(0, &[[9; 60]]), client.receive_from(0, &mut batch)), (Ok(1), Ok(1)));
}

/// What never fits is left out and counted, however full the ring is, and no packet goes out that a peer ends the link for.
#[test]
fn packets_that_never_fit_are_left_out_and_counted() {
    for length in [4 << 20, DEFAULT_MAX_PACKET as usize + 1] {
        let (mut server, mut client) = pair(&format!("never-{length}"), 1);
        until(|| {
            moment(&mut server).unwrap();
            moment(&mut client).unwrap();
            server.connection().is_some() && client.connection().is_some()
        });
        let (long, mut batch) = (vec![1; length], Batch::new(16));
        assert_eq!(client.send(&[&[7; 60][..]]), Ok(1));
        assert_eq!(client.send(&[&long[..], &[8; 60][..]]), Ok(2), "one is left out, one sent");
        let counters = client.connection().unwrap().tx[0].counters();
        assert_eq!((counters.packets, counters.full, counters.refused), (2, 0, 1));
        assert_eq!(server.receive(&mut batch), Ok(2));
        // The longest that there is goes through.
        let longest = vec![9; DEFAULT_MAX_PACKET as usize];
        assert_eq!((client.send(&[&longest[..]]), server.receive(&mut batch)), (Ok(1), Ok(1)));
        assert_eq!(batch.packets().next(), Some(&longest[..]));
        // Towards a client that has room for it.
        assert_eq!(server.send(&[&long[..], &[8; 60][..]]), Ok(2));
        assert_eq!(client.receive(&mut batch), Ok(1));
    }
}

#[test]
fn settings_that_cannot_be_are_told_at_once() {
    let usual = QueueConfig::default;
    for queues in [
        QueueConfig { buffer_size: 0, ..usual() },
        QueueConfig { buffer_size: 1 << 20, ..usual() },
        QueueConfig { rx_queues: 0, tx_queues: 0, ..usual() },
        QueueConfig { rx_queues: 300, ..usual() },
        QueueConfig { max_packet: 0, ..usual() },
    ] {
        let config = ClientConfig { queues, ..ClientConfig::default() };
        let port = Port::client(Address::abstract_name("nobody"), config, ClientTiming::default());
        assert!(matches!(port.unwrap_err().cause, Error::Setting { .. }));
    }
    let usual = ServerConfig::default;
    for config in [
        ServerConfig { max_rx_queues: 0, max_tx_queues: 0, ..usual() },
        ServerConfig { max_tx_queues: 257, ..usual() },
        ServerConfig { max_packet: 0, ..usual() },
        ServerConfig { max_regions: 0, ..usual() },
    ] {
        let address = Address::abstract_name(format!("quiver-settings-{}", std::process::id()));
        let port = Port::server(&address, 0, config, ListenerSettings::default());
        assert!(matches!(port.unwrap_err().cause, Error::Setting { .. }));
    }
}

fn moment(port: &mut Port) -> Result<Vec<LinkEvent>, InterfaceError> {
    port.wait(Some(Duration::from_millis(2)))
}

fn until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn a_link_that_cannot_be_taken_up_is_ended_for_the_peer_as_well() {
    let (mut server, mut client) = pair("notup", 2);
    // One that watches nothing.
    let nothing = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let epoll = std::mem::replace(&mut server.epoll, nothing);
    let (mut told, mut failed) = (Vec::new(), None);
    until(|| {
        failed = server.process().err().or(failed.take());
        told.extend(moment(&mut client).unwrap());
        told.iter().any(|event| matches!(event, LinkEvent::Down(_)))
    });
    assert!(matches!(failed, Some(Error::System { call: "epoll_ctl", .. })), "{failed:?}");
    assert!(server.connection().is_none() && !server.happened.contains(&LinkEvent::Up));
    let why = |event: &LinkEvent| event.to_string().contains("epoll_ctl");
    assert!(told.iter().any(why), "{told:?}");
    server.epoll = epoll;
    until(|| moment(&mut server).unwrap().contains(&LinkEvent::Up) | moment(&mut client).is_err());
}

#[test]
fn no_queue_waits_for_the_others() {
    let (mut server, mut client) = pair("fair", 3);
    until(|| {
        moment(&mut server).unwrap();
        moment(&mut client).unwrap();
        server.connection().is_some() && client.connection().is_some()
    });
    let mut batch = Batch::new(4);
    let mut seen = [0; 3];
    for _ in 0..6 {
        // Always more in each than a batch takes.
        for (queue, tx) in (0_u8..).zip(&mut client.connection.as_mut().unwrap().tx) {
            tx.send_batch(&[[queue; 60]; 8]).unwrap();
        }
        assert_eq!(server.receive(&mut batch).unwrap(), 4);
        for packet in batch.packets() {
            seen[usize::from(packet[0])] += 1;
        }
    }
    assert_eq!(seen, [8; 3]);
}

#[test]
fn the_longest_times_are_as_good_as_none() {
    let address = Address::abstract_name(format!("quiver-long-{}", std::process::id()));
    let settings = ListenerSettings { handshake_timeout: Duration::MAX, ..ListenerSettings::default() };
    let mut server = Port::server(&address, 0, ServerConfig::default(), settings).unwrap();
    let timing = ClientTiming {
        handshake_timeout: Duration::MAX,
        min_backoff: Duration::ZERO,
        max_backoff: Duration::MAX,
    };
    let mut client = Port::client(address.clone(), ClientConfig::default(), timing).unwrap();
    until(|| {
        let _ = (client.poll().unwrap(), server.poll().unwrap());
        server.connection().is_some() && client.connection().is_some()
    });
    client.send(&[[1; 60]]).unwrap();
    server.wait(Some(Duration::MAX)).unwrap();
    // Nobody there, and no wait asked for: not at once again, all the same.
    drop(server);
    until(|| {
        let told = client.poll();
        client.connection().is_none() && matches!(told, Ok(Progress::Sleep(Some(_))))
    });
    let never = ClientTiming { min_backoff: Duration::MAX, ..timing };
    let mut client = Port::client(address, ClientConfig::default(), never).unwrap();
    assert!(matches!(client.poll(), Ok(Progress::Ready(_))));
    assert!(matches!(client.poll(), Ok(Progress::Sleep(Some(_)))));
}
