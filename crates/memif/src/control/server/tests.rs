use memory::region::{HugePages, RegionOptions};
use rustix::event::{EventfdFlags, eventfd};

use super::*;

struct One(Arc<ServerConfig>);

impl Interfaces for One {
    fn config(&self, _: u32) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.0))
    }

    fn claim(&mut self, _: u32) -> Result<(), Reason> {
        Ok(())
    }
}

const SIZE: u64 = 65_536;

fn memory() -> OwnedFd {
    let options = RegionOptions { name: "test".into(), size: SIZE, huge_pages: HugePages::Never };
    Region::create(&options).unwrap().fd().try_clone_to_owned().unwrap()
}

fn add_region(index: u16) -> Message {
    Message::AddRegion(AddRegion { index, size: SIZE })
}

fn add_ring() -> Message {
    let (log2_ring_size, private_hdr_size) = (6, 0);
    Message::AddRing(AddRing {
        flags: RING_S2M,
        index: 0,
        region: 0,
        offset: 0,
        log2_ring_size,
        private_hdr_size,
    })
}

fn said(machine: &mut ServerMachine, message: &Message) -> Result<ServerNext, Reason> {
    let fds = match message {
        Message::AddRegion(_) => vec![memory()],
        Message::AddRing(_) => vec![eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()],
        _ => vec![],
    };
    machine.begin(&message.encode(), fds, &mut One(Arc::default()))
}

/// Up to where its first region is to be mapped.
fn with_a_region_out() -> (ServerMachine, Unmapped) {
    let (mut machine, _) = ServerMachine::new(Limits::of("test", [&ServerConfig::default()]));
    let init = Init { version: VERSION, id: 0, mode: 0, secret: None, name: "test".into() };
    assert!(matches!(said(&mut machine, &Message::Init(init)), Ok(ServerNext::Step(_))));
    let Ok(ServerNext::Map(unmapped)) = said(&mut machine, &add_region(0)) else {
        panic!("not to be mapped")
    };
    (machine, unmapped)
}

/// Were one taken, a ring could be announced, or the link be up, in a region that may yet be refused.
#[test]
fn hostile_message_while_a_region_is_being_mapped() {
    let init = Init { version: VERSION, id: 0, mode: 0, secret: None, name: "test".into() };
    for message in [
        Message::Init(init),
        add_region(0),
        add_region(1),
        add_ring(),
        Message::Connect { interface: "test".into() },
        Message::Ack,
    ] {
        let (mut machine, unmapped) = with_a_region_out();
        let expected = Reason::Unexpected { message: message.name(), state: "a region is being mapped" };
        assert_eq!(said(&mut machine, &message).unwrap_err(), expected);
        assert_eq!(machine.regions(), 0);
        drop(unmapped);
    }
    let (mut machine, _unmapped) = with_a_region_out();
    let farewell = Message::Disconnect { code: 7, reason: "bye".into() };
    assert_eq!(said(&mut machine, &farewell).unwrap_err(), Reason::Peer { code: 7, text: "bye".into() });
}

#[test]
fn once_a_region_is_mapped_the_next_message_is_taken() {
    let (mut machine, unmapped) = with_a_region_out();
    machine.mapped(unmapped.map()).unwrap();
    assert_eq!(machine.regions(), 1);
    assert!(matches!(said(&mut machine, &add_ring()), Ok(ServerNext::Step(_))));
    // There is none any more that is to be mapped.
    let another = Region::map(memory(), SIZE, SealPolicy::Require).unwrap();
    assert!(matches!(machine.mapped(Ok(another)), Err(Reason::Unexpected { .. })));
    assert_eq!(machine.regions(), 1);
}
