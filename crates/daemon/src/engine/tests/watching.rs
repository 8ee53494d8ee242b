//! What is told of sessions: as they are, and when their tenant is gone.

use std::net::UdpSocket;
use std::num::NonZeroU32;

use api::v1::{Kind, ObjectRef, SessionEventsRequest, SessionFilter};

use super::*;
use crate::dataplane::{InspectError, SessionEvents};
use crate::settings::Ipfix;

/// The address of [`FRAME`]'s Ethernet header.
const MAC: &str = "02:00:00:00:00:01";
/// UDP from 10.1.0.2 to port 53 of 10.2.0.2 with one byte, as scapy writes it: `Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") / IP(...) / UDP(sport=1024, dport=53) / b"?"`.
const FRAME: &[u8] = b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00\
    \x45\x00\x00\x1d\x00\x01\x00\x00\x40\x11\x66\xc9\x0a\x01\x00\x02\x0a\x02\x00\x02\
    \x04\x00\x00\x35\x00\x09\xa8\xa0\x3f";

/// A tenant whose pod is reached by memif.
fn lab(ipfix: Vec<Ipfix>) -> (Lab, Port) {
    let mut lab = Lab::of(Engine::start(&EngineOptions { ipfix, ..options() }).unwrap());
    let socket = lab.path("pod");
    let pod = memif("pod", &socket, "server");
    lab.apply(&format!("{pod}mac = \"{MAC}\"\naddresses = [\"10.1.0.1/24\"]\n"));
    let port = connect(&socket);
    eventually(|| lab.attachment("pod"));
    (lab, port)
}

impl Lab {
    fn tenant_comes(&mut self, name: &str) {
        self.apply(&format!("[[tenant]]\nname = \"{name}\"\ninterfaces = [\"pod\"]\n"));
    }

    fn tenant_goes(&mut self, name: &str) {
        let deletes = vec![ObjectRef::new(Kind::Tenant, name)];
        let request = ApplyRequest { deletes, ..ApplyRequest::default() };
        assert!(self.controller.apply(&request).unwrap().committed);
    }

    /// A session begins, of the tenant that there is.
    fn session_begins(&self, port: &mut Port) {
        assert_eq!(port.send(&[FRAME]).unwrap(), 1);
        eventually(|| (self.look.tenants()[0].sessions == 1).then_some(()));
    }
}

/// The next one that ended: its tenant.
fn ended(events: &mut SessionEvents) -> String {
    eventually(|| events.try_recv().ok().and_then(|mut answer| answer.events.pop())).session.unwrap().tenant
}

#[test]
fn a_tenant_that_is_gone_is_named_though_nothing_was_told_of_it_before() {
    let (mut lab, mut port) = lab(Vec::new());
    let request = SessionEventsRequest { ended: true, ..SessionEventsRequest::default() };
    let mut events = lab.look.session_events(&request).unwrap();
    // Also one that takes another's place, of whose sessions something was told.
    for name in ["red", "blue"] {
        lab.tenant_comes(name);
        lab.session_begins(&mut port);
        lab.tenant_goes(name);
        assert_eq!(ended(&mut events), name);
    }
}

/// What ends of the tenant "amber".
fn of_amber() -> SessionEventsRequest {
    let filter = SessionFilter { tenant: "amber".into(), ..SessionFilter::default() };
    SessionEventsRequest { ended: true, filter: Some(filter), ..SessionEventsRequest::default() }
}

/// The tenant "amber" is gone and comes again; the number that it had is that of "blue" by then.
fn amber_is_made_anew(lab: &mut Lab, port: &mut Port) {
    lab.tenant_goes("amber");
    lab.tenant_comes("blue");
    lab.session_begins(port);
    assert_eq!(lab.look.clear_sessions(&SessionFilter::default()).unwrap(), 1);
    // It keeps that number, without an interface.
    lab.apply("[[tenant]]\nname = \"blue\"\n");
    lab.tenant_comes("amber");
}

/// Sessions end until this is told of one.
fn is_told(lab: &Lab, port: &mut Port, events: &mut SessionEvents) {
    let told = eventually(|| {
        assert_eq!(port.send(&[FRAME]).unwrap(), 1);
        lab.look.clear_sessions(&SessionFilter::default()).unwrap();
        events.try_recv().ok().filter(|told| !told.events.is_empty())
    });
    assert!(told.events.iter().all(|event| event.session.as_ref().unwrap().tenant == "amber"), "{told:?}");
}

#[test]
fn a_tenant_that_is_made_anew_is_looked_at_by_its_name() {
    let (mut lab, mut port) = lab(Vec::new());
    lab.tenant_comes("amber");
    let mut events = lab.look.session_events(&of_amber()).unwrap();
    lab.session_begins(&mut port);
    lab.tenant_goes("amber");
    assert_eq!(ended(&mut events), "amber");
    lab.tenant_comes("amber");
    amber_is_made_anew(&mut lab, &mut port);
    is_told(&lab, &mut port, &mut events);
}

/// Each of them looks on twice for a while: at the number before, too.
#[test]
fn as_many_as_may_look_on_do_so_when_their_tenant_is_made_anew() {
    let (mut lab, mut port) = lab(Vec::new());
    lab.tenant_comes("amber");
    let mut all: Vec<_> = (0..16).map(|_| lab.look.session_events(&of_amber()).unwrap()).collect();
    assert!(matches!(lab.look.session_events(&of_amber()), Err(InspectError::Busy(_))));
    amber_is_made_anew(&mut lab, &mut port);
    for events in &mut all {
        is_told(&lab, &mut port, events);
    }
}

#[test]
fn flow_records_of_a_tenant_that_is_gone_are_sent_to_whom_asked_for_it() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut lab, mut port) = lab(vec![Ipfix {
        collector: collector.local_addr().unwrap(),
        source: None,
        domain: 0,
        template_seconds: NonZeroU32::MAX,
        active_seconds: None,
        tenants: vec!["red".into()],
        nat_events: false,
    }]);
    // Templates come once the collector hears of what ends.
    let mut message = [0; 1500];
    collector.recv(&mut message).unwrap();
    for name in ["blue", "red"] {
        lab.tenant_comes(name);
        lab.session_begins(&mut port);
        lab.tenant_goes(name);
    }
    let length = collector.recv(&mut message).unwrap();
    let has = |text: &[u8]| message[..length].windows(text.len()).any(|part| part == text);
    assert!(has(b"red") && !has(b"blue"), "{:?}", &message[..length]);
}

/// The worker says both of itself, also while no packet comes.
#[test]
fn what_sessions_have_sent_and_how_full_their_table_is_can_be_seen() {
    let (mut lab, mut port) = lab(Vec::new());
    lab.tenant_comes("red");
    lab.session_begins(&mut port);
    assert_eq!(port.send(&[FRAME]).unwrap(), 1);
    eventually(|| {
        let (tenant, worker) = (lab.look.tenants().remove(0), lab.look.runtime().workers.remove(0));
        let sent = (tenant.forward_packets, tenant.forward_bytes, tenant.reverse_packets);
        let full = (worker.sessions, worker.max_sessions, worker.session_bytes > 0);
        (sent == (2, 2 * (FRAME.len() as u64 - 14), 0) && full == (1, 1 << 24, true)).then_some(())
    });
}
