//! What only a look inside shows.

use super::*;
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
    let wrong = |result: Result<usize, PortError>, queue, what, count| {
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

fn moment(port: &mut Port) -> Result<Vec<LinkEvent>, PortError> {
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
    until(|| client.poll().is_ok() && client.connection().is_none());
    assert!(matches!(client.poll(), Ok(Progress::Sleep(Some(_)))));
    let never = ClientTiming { min_backoff: Duration::MAX, ..timing };
    let mut client = Port::client(address, ClientConfig::default(), never).unwrap();
    assert!(matches!(client.poll(), Ok(Progress::Ready(_))));
    assert!(matches!(client.poll(), Ok(Progress::Sleep(Some(_)))));
}
