//! With memory that it never touched, lets the server fill, and keeps; or gives back.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Instant;

use memif::region::SealPolicy;
use memif::{Address, Connection, Listener, ListenerSettings, Reason, ServerConfig, ServerEvent};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fstat};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
};

use super::peer::{MEMORY, Peer, RX, RX_RING, TX_RING, memfd};
use crate::arena::Arena;
use crate::wire::{HEAD, Memory, last_words};

/// What the peer and the operator are told of it, in the words that there is room for in DISCONNECT.
const WORDS: &str =
    "region with holes: fallocate it before connecting, raise the limit or re-create the interface: ";

fn config(max_holes: u64) -> ServerConfig {
    ServerConfig { max_holes, ..ServerConfig::default() }
}

fn serve(test: &str, max_holes: u64) -> (String, Listener) {
    let name = format!("quiver-kept-{test}-{}", std::process::id());
    let mut listener = Listener::bind(&Address::abstract_name(&name), ListenerSettings::default()).unwrap();
    listener.register(0, config(max_holes)).unwrap();
    (name, listener)
}

/// What becomes of a peer.
fn meet(listener: &mut Listener, peer: &Peer) -> Result<Connection, Reason> {
    peer.begin();
    peer.ring(TX_RING);
    peer.ring(RX_RING);
    peer.say_connect();
    loop {
        match listener.process(Instant::now()).unwrap().pop() {
            None => {}
            Some(ServerEvent::Connected(connection)) => return Ok(connection),
            Some(ServerEvent::Refused { reason, .. }) => return Err(reason),
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// The server writes into all of its buffers; then it has gone, and its memory is what it keeps.
fn fill(listener: &mut Listener, peer: Peer, mut connection: Connection) -> Memory {
    assert_eq!(connection.tx[0].send_batch(&[[7; 100]; 64]).unwrap(), 64);
    let Peer { socket, memory, .. } = peer;
    drop(socket);
    while !matches!(listener.process(Instant::now()).unwrap()[..], [ServerEvent::Disconnected { .. }]) {}
    drop(connection);
    memory
}

fn bytes(memory: &Memory) -> u64 {
    fstat(memory).unwrap().st_blocks as u64 * 512
}

#[test]
fn memory_with_holes_is_filled_and_kept_again_and_again() {
    let most = 2 * MEMORY;
    let (name, mut listener) = serve("again", most);
    for _ in 0..2 {
        let mut kept = Vec::new();
        let reason = loop {
            let peer = Peer::connect(&name);
            match meet(&mut listener, &peer) {
                Ok(connection) => kept.push(fill(&mut listener, peer, connection)),
                Err(reason) => {
                    assert_eq!(last_words(&peer.socket), WORDS);
                    break reason;
                }
            }
        };
        assert_eq!((reason.kind(), reason.to_string().starts_with(WORDS)), ("region-holes", true));
        assert!(kept.len() > 1, "one alone is within the bound");
        let paid: u64 = kept.iter().map(bytes).sum();
        assert!(paid > most / 4 && paid <= most, "{paid} bytes in {} regions, at most {most}", kept.len());
        // Whoever had allocated its memory before it came is served all the same, and as often as it likes.
        for _ in 0..50 {
            let memory = memfd(MEMORY, SealFlags::SHRINK);
            fallocate(&memory, FallocateFlags::empty(), 0, MEMORY).unwrap();
            let peer = Peer::with_memory(&name, memory);
            let connection = meet(&mut listener, &peer).unwrap();
            fill(&mut listener, peer, connection);
        }
        let peer = Peer::connect(&name);
        assert_eq!(
            meet(&mut listener, &peer).unwrap_err().kind(),
            "region-holes",
            "the account is as it was"
        );
        // An interface that is made anew has an account of its own.
        assert!(listener.unregister(0));
        listener.register(0, config(most)).unwrap();
    }
}

/// Half of it is there: that half is what could be given back while the other one is filled.
#[test]
fn memory_that_is_given_back_only_where_it_was_its_own() {
    let most = 2 * MEMORY;
    let (name, mut listener) = serve("half", most);
    // Else it can give nothing back.
    assert!(listener.unregister(0));
    listener.register(0, ServerConfig { seals: SealPolicy::Allow, ..config(most) }).unwrap();
    let mut kept = Vec::new();
    while kept.len() < 100 {
        let memory = memfd(2 * MEMORY, SealFlags::SHRINK);
        fallocate(&memory, FallocateFlags::empty(), MEMORY, MEMORY).unwrap();
        let peer = Peer::with_memory(&name, memory);
        match meet(&mut listener, &peer) {
            Ok(connection) => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&peer.memory, punch, MEMORY, MEMORY).unwrap();
                kept.push(fill(&mut listener, peer, connection));
            }
            Err(reason) => {
                assert_eq!(reason.kind(), "region-holes");
                let paid: u64 = kept.iter().map(bytes).sum();
                assert!(paid > 0 && paid <= most, "{paid} bytes, at most {most}");
                return;
            }
        }
    }
    panic!("nobody stopped it");
}

/// What is never filled costs nothing; a small client that never allocates anything beforehand comes back for long.
#[test]
fn memory_that_is_small_may_have_holes_for_long() {
    let (name, mut listener) = serve("small", ServerConfig::default().max_holes);
    for _ in 0..1000 {
        let peer = Peer::connect(&name);
        let connection = meet(&mut listener, &peer).unwrap();
        fill(&mut listener, peer, connection);
    }
}

/// A client that never allocates anything beforehand, as DPDK's, may come back for ever: what is gone is on no account.
#[test]
fn memory_that_is_given_back_is_paid_for_by_nobody() {
    let (name, mut listener) = serve("back", 2 * MEMORY);
    for _ in 0..200 {
        let peer = Peer::connect(&name);
        let connection = meet(&mut listener, &peer).unwrap();
        drop(fill(&mut listener, peer, connection));
    }
}

/// However it is kept: mapped, or in a socket that nobody reads.
#[test]
fn memory_that_is_kept_without_a_descriptor() {
    for mapped in [true, false] {
        let most = 2 * MEMORY;
        let (name, mut listener) = serve("hidden", most);
        let (near, _far) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        let mut mappings = Vec::new();
        let reason = loop {
            let peer = Peer::connect(&name);
            let memory = match meet(&mut listener, &peer) {
                Ok(connection) => fill(&mut listener, peer, connection),
                Err(reason) => break reason,
            };
            if mapped {
                mappings.push(memory);
            } else {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let fds = [memory.as_fd()];
                assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
                sendmsg(&near, &[IoSlice::new(b"kept")], &mut control, SendFlags::empty()).unwrap();
            }
        };
        assert_eq!(reason.kind(), "region-holes");
    }
}

/// Nobody else sees anything of it.
#[test]
fn memory_that_is_kept_under_traffic() {
    let arena = Arena::new("kept", |setting| setting.hostile.max_holes = 2 * MEMORY);
    let mut kept = Vec::new();
    loop {
        let peer = arena.peer();
        peer.begin();
        let (ended, up) = arena.shared.wait("how it is", |log| Some((log.count(), log.up)));
        peer.ring(TX_RING);
        peer.ring(RX_RING);
        peer.say_connect();
        let refused = arena.shared.wait("an answer", |log| {
            (log.up > up).then_some(false).or((log.counters.get("region-holes") == Some(&1)).then_some(true))
        });
        if refused {
            assert_eq!(last_words(&peer.socket), WORDS);
            break;
        }
        let started = Instant::now();
        while peer.tail(RX) < 64 {
            assert!(started.elapsed() < crate::wire::PATIENCE, "its buffers aren't filled");
            std::thread::yield_now();
        }
        peer.set(RX, HEAD, 64);
        let Peer { socket, memory, .. } = peer;
        drop(socket);
        arena.shared.wait("it has gone", |log| (log.count() > ended).then_some(()));
        kept.push(memory);
    }
    assert!(kept.len() > 1 && kept.iter().map(bytes).sum::<u64>() <= 2 * MEMORY);
    arena.stop();
}
