//! On the control channel.

use std::os::fd::AsFd;

use memif::Secret;
use memif::region::SealPolicy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SealFlags;

use super::peer::{MEMORY, RX, RX_RING, TX_RING, init, memfd};
use crate::arena::Arena;
use crate::lingering::{close, lingering};
use crate::wire::{ACK, CONNECTED, PATIENCE, Ring, message, put, receive};

#[test]
fn version_of_another_protocol() {
    let arena = Arena::new("version", |_| ());
    for version in [0x0100, 0x0201, 0] {
        let words = format!("unsupported version {version:#06x}, this end speaks 0x0200");
        arena.turned_away("version", &words, |peer| peer.init_with(version, 0, 0, ""));
    }
    arena.finish();
}

#[test]
fn mode_of_another_interface() {
    let arena = Arena::new("mode", |_| ());
    for mode in [1, 2, 255] {
        let words = format!("mode mismatch: the interface is ethernet, the peer wants mode {mode}");
        arena.turned_away("mode", &words, |peer| peer.init_with(0x0200, 0, mode, ""));
    }
    arena.finish();
}

#[test]
fn interface_that_does_not_exist() {
    let arena = Arena::new("id", |_| ());
    arena.turned_away("unknown-interface", "unmatched interface id 4294967295", |peer| {
        peer.init_with(0x0200, u32::MAX, 0, "");
    });
    arena.finish();
}

#[test]
fn interface_of_somebody_else() {
    let arena = Arena::new("taken", |_| ());
    // The well-behaved peer's: it goes on, without a word.
    arena.turned_away("already-connected", "interface id 1 is already connected", |peer| {
        peer.init_with(0x0200, 1, 0, "");
    });
    arena.finish();
}

#[test]
fn secret_that_is_wrong() {
    let arena = Arena::new("secret", |setting| setting.hostile.secret = Secret::new("open sesame").ok());
    for guess in ["open sesam", "open sesame!", "Open sesame", "x"] {
        arena.turned_away("wrong-secret", "incorrect secret", |peer| peer.init_with(0x0200, 0, 0, guess));
    }
    arena.turned_away("secret-required", "secret required", |peer| peer.init());
    // Nobody is bound to the interface before its secret is known to be right.
    let guessing: Vec<_> = (0..8).map(|_| arena.peer()).collect();
    for peer in &guessing {
        peer.init_with(0x0200, 0, 0, "guess");
    }
    arena
        .shared
        .wait("all are sent away", |log| (log.counters.get("wrong-secret") == Some(&12)).then_some(()));
    let peer = arena.peer();
    peer.init_with(0x0200, 0, 0, "open sesame");
    peer.region();
    peer.ring(TX_RING);
    peer.say_connect();
    arena.shared.wait("who knows it is served", |log| (log.up == 1).then_some(()));
    arena.stop();
}

#[test]
fn message_of_a_wrong_size() {
    let arena = Arena::new("size", |_| ());
    for size in [1, 2, 127, 129, 4096] {
        let words = format!("message of {} bytes, all have 128", size.min(129));
        arena.turned_away("message-size", &words, |peer| peer.send(&vec![3; size], &[]));
        arena.disconnected("message-size", &words, |peer| peer.send(&vec![3; size], &[]));
    }
    arena.finish();
}

#[test]
fn message_of_an_unknown_type() {
    let arena = Arena::new("type", |_| ());
    for kind in [0, 9, 0x0300, 0xffff] {
        let words = format!("unknown message type {kind:#x}");
        arena.disconnected("unknown-message", &words, |peer| peer.send(&message(kind, &[]), &[]));
    }
    arena.finish();
}

#[test]
fn message_out_of_place() {
    let arena = Arena::new("order", |_| ());
    let unexpected = |name: &str, state: &str| format!("unexpected message {name} while {state}");
    let waiting = "waiting for INIT";
    arena.turned_away("unexpected-message", &unexpected("ADD_REGION", waiting), |peer| peer.region());
    arena.turned_away("unexpected-message", &unexpected("ADD_RING", waiting), |peer| peer.ring(TX_RING));
    arena.turned_away("unexpected-message", &unexpected("CONNECT", waiting), |peer| peer.say_connect());
    arena.turned_away("unexpected-message", &unexpected("ACK", waiting), |peer| {
        peer.send(&message(ACK, &[]), &[]);
    });
    arena.turned_away("unexpected-message", &unexpected("CONNECTED", waiting), |peer| {
        peer.send(&message(CONNECTED, &[]), &[]);
    });
    arena.turned_away(
        "unexpected-message",
        &unexpected("INIT", "waiting for regions, rings and CONNECT"),
        |peer| {
            peer.init();
            peer.init();
        },
    );
    arena.turned_away("unexpected-message", &unexpected("ADD_REGION", "rings are announced"), |peer| {
        peer.begin();
        peer.ring(TX_RING);
        peer.region();
    });
    arena.turned_away("no-rings", "no rings", |peer| {
        peer.begin();
        peer.say_connect();
    });
    arena.finish();
}

#[test]
fn add_ring_after_connected() {
    let arena = Arena::new("late-ring", |_| ());
    arena.disconnected("unexpected-message", "unexpected message ADD_RING while connected", |peer| {
        peer.ring(Ring { index: 1, ..TX_RING });
    });
    arena.finish();
}

#[test]
fn add_region_after_connected() {
    let arena = Arena::new("late-region", |_| ());
    arena.disconnected("unexpected-message", "unexpected message ADD_REGION while connected", |peer| {
        peer.region_with(1, MEMORY, &[peer.memory.as_fd()]);
    });
    arena.finish();
}

#[test]
fn init_and_connect_after_connected() {
    let arena = Arena::new("late-init", |_| ());
    arena.disconnected("unexpected-message", "unexpected message INIT while connected", |peer| peer.init());
    arena.disconnected("unexpected-message", "unexpected message CONNECT while connected", |peer| {
        peer.say_connect();
    });
    arena.finish();
}

#[test]
fn too_many_regions() {
    // One file, announced many times.
    let arena = Arena::new("regions", |setting| setting.hostile.seals = SealPolicy::Allow);
    arena.turned_away("too-many-regions", "too many regions, at most 2", |peer| {
        peer.init();
        for index in 0..3 {
            peer.region_with(index, 4096, &[peer.memory.as_fd()]);
        }
    });
    arena.turned_away("region-index", "unexpected region index 65535, expected 0", |peer| {
        peer.init();
        peer.region_with(u16::MAX, 4096, &[peer.memory.as_fd()]);
    });
    arena.finish();
}

/// The protocol's own limit, where a comparison that is off by one lets 257 in.
#[test]
fn regions_257() {
    let arena = Arena::new("regions-257", |setting| {
        (setting.hostile.max_regions, setting.hostile.seals) = (256, SealPolicy::Allow);
    });
    arena.turned_away("too-many-regions", "too many regions, at most 256", |peer| {
        peer.init();
        for index in 0..257 {
            peer.region_with(index, 4096, &[peer.memory.as_fd()]);
        }
    });
    arena.finish();
}

#[test]
fn too_many_rings() {
    let arena = Arena::new("rings", |_| ());
    arena.turned_away("too-many-rings", "too many rings, at most 2", |peer| {
        peer.begin();
        (0..3).for_each(|index| peer.ring(Ring { index, ..TX_RING }));
    });
    arena.turned_away("too-many-rings", "too many rings, at most 1", |peer| {
        peer.begin();
        (0..2).for_each(|index| peer.ring(Ring { index, ..RX_RING }));
    });
    arena.turned_away("ring-index", "unexpected ring index 65535, expected 0", |peer| {
        peer.begin();
        peer.ring(Ring { index: u16::MAX, ..TX_RING });
    });
    arena.finish();
}

#[test]
fn rings_257() {
    let arena = Arena::new("rings-257", |setting| setting.hostile.max_rx_queues = 256);
    arena.turned_away("too-many-rings", "too many rings, at most 256", |peer| {
        peer.begin();
        (0..257).for_each(|index| peer.ring(Ring { index, ..TX_RING }));
    });
    arena.finish();
}

#[test]
fn ring_at_an_odd_address() {
    let arena = Arena::new("odd-ring", |_| ());
    for offset in [1, 2, 8, 63, 8191] {
        let words = format!("ring at offset {offset} is not aligned to 64 bytes");
        arena.turned_away("ring-misaligned", &words, |peer| {
            peer.begin();
            peer.ring(Ring { offset, ..TX_RING });
            peer.say_connect();
        });
    }
    arena.finish();
}

#[test]
fn ring_outside_of_its_region() {
    let arena = Arena::new("ring-outside", |_| ());
    let last = MEMORY as u32 - 128 - 64 * 16;
    for (region, offset) in [(0, last + 64), (0, u32::MAX), (0, u32::MAX - 1151), (1, 0), (u16::MAX, 0)] {
        let words = format!("ring of 64 descriptors at offset {offset} is not inside region {region}");
        arena.turned_away("ring-outside", &words, |peer| {
            peer.begin();
            peer.ring(Ring { region, offset, ..TX_RING });
        });
    }
    arena.finish();
}

#[test]
fn ring_size_log2_15() {
    let arena = Arena::new("ring-size", |_| ());
    for log2 in [15, 16, 31, 255, 5, 0] {
        let words = format!("ring size 2^{log2}, allowed are 2^6..=2^14");
        arena.turned_away("ring-size", &words, |peer| {
            peer.begin();
            peer.ring(Ring { log2, ..TX_RING });
        });
    }
    arena.finish();
}

#[test]
fn ring_with_flags_or_headers_that_nobody_knows() {
    let arena = Arena::new("ring-flags", |_| ());
    arena.turned_away("ring-flags", "unknown ring flags 0xffff", |peer| {
        peer.begin();
        peer.ring(Ring { flags: u16::MAX, ..TX_RING });
    });
    arena.turned_away("private-header", "private headers not supported", |peer| {
        peer.begin();
        peer.ring(Ring { private: 1, ..TX_RING });
    });
    arena.finish();
}

#[test]
fn ring_with_a_wrong_cookie() {
    let arena = Arena::new("cookie", |_| ());
    for (cookie, ring) in [(0_u32, 0), (0x03E3_1F21, 0), (u32::MAX, RX)] {
        let words = format!("wrong cookie {cookie:#x} on ring");
        arena.turned_away("ring-cookie", &words, |peer| {
            put(&peer.memory, ring, &cookie.to_le_bytes());
            peer.begin();
            peer.ring(TX_RING);
            peer.ring(RX_RING);
            peer.say_connect();
        });
    }
    arena.finish();
}

#[test]
fn fd_missing() {
    let arena = Arena::new("no-fd", |_| ());
    arena.turned_away("file-descriptors", "0 file descriptors with ADD_REGION, expected 1", |peer| {
        peer.init();
        peer.region_with(0, MEMORY, &[]);
    });
    arena.turned_away("file-descriptors", "0 file descriptors with ADD_RING, expected 1", |peer| {
        peer.begin();
        peer.send(&TX_RING.message(), &[]);
    });
    arena.finish();
}

#[test]
fn fd_too_many() {
    let arena = Arena::new("fds", |_| ());
    let memory = memfd(MEMORY, SealFlags::SHRINK);
    arena.turned_away("file-descriptors", "2 file descriptors with ADD_REGION, expected 1", |peer| {
        peer.init();
        peer.region_with(0, MEMORY, &[memory.as_fd(); 2]);
    });
    let words = "40 file descriptors with ADD_REGION, expected 1";
    arena.turned_away("file-descriptors", words, |peer| {
        peer.init();
        peer.region_with(0, MEMORY, &[memory.as_fd(); 40]);
    });
    arena.disconnected("file-descriptors", "file descriptors with ACK, which has none", |peer| {
        peer.send(&message(ACK, &[]), &[memory.as_fd()]);
    });
    arena.finish();
}

#[test]
fn fd_of_a_wrong_kind_for_a_region() {
    let arena = Arena::new("region-kind", |_| ());
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    let words = "the region's file descriptor is not a memfd: Invalid argument (os error 22)";
    let device = std::fs::File::open("/dev/zero").unwrap();
    let directory = std::fs::File::open("/").unwrap();
    let file = std::fs::File::open("/proc/self/mem").unwrap();
    for fd in [pipe.as_fd(), device.as_fd(), directory.as_fd(), file.as_fd()] {
        arena.turned_away("region-not-memory", words, |peer| {
            peer.init();
            peer.region_with(0, MEMORY, &[fd]);
        });
    }
    arena.turned_away("region-not-memory", words, |peer| {
        peer.init();
        peer.region_with(0, MEMORY, &[peer.event.as_fd()]);
    });
    // Not the peer's own socket: that is shut down, whether it has heard why by then or not.
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    arena.turned_away("region-not-memory", words, |peer| {
        peer.init();
        peer.region_with(0, MEMORY, &[socket.as_fd()]);
    });
    arena.finish();
}

#[test]
fn fd_of_a_wrong_kind_for_an_eventfd() {
    let arena = Arena::new("event-kind", |_| ());
    // A pipe that nobody reads would block whoever writes to it.
    let (_end, pipe) = rustix::pipe::pipe().unwrap();
    let memory = memfd(MEMORY, SealFlags::SHRINK);
    for fd in [pipe.as_fd(), memory.as_fd()] {
        arena.turned_away(
            "not-an-eventfd",
            "ring interrupt is not an eventfd: Invalid argument (os error 22)",
            |peer| {
                peer.begin();
                peer.send(&TX_RING.message(), &[fd]);
            },
        );
    }
    arena.finish();
}

#[test]
fn fd_that_cannot_be_closed() {
    let arena = Arena::new("linger", |_| ());
    for _ in 0..4 {
        let (socket, _unread) = lingering();
        let words = "the region's file descriptor is not a memfd: Invalid argument (os error 22)";
        arena.turned_away("region-not-memory", words, |peer| {
            peer.init();
            peer.region_with(0, MEMORY, &[socket.as_fd()]);
            close(socket);
        });
        arena.shared.traffic_flows(100);
    }
    arena.finish();
}

/// It goes with the socket in whose queue it waits.
#[test]
fn fd_in_a_message_that_nobody_reads() {
    let arena = Arena::new("unread", |_| ());
    let (one, _unread) = lingering();
    arena.turned_away("file-descriptors", "file descriptors with INIT, which has none", |peer| {
        peer.send(&init(0x0200, 0, 0, ""), &[one.as_fd()]);
        close(one);
    });
    arena.shared.traffic_flows(100);
    // Behind a message that ends the connection, empty ones between.
    let (one, _unread) = lingering();
    arena.turned_away("message-size", "message of 1 bytes, all have 128", |peer| {
        peer.send(&[1], &[]);
        for _ in 0..20 {
            peer.send(&[], &[]);
        }
        peer.send(&[], &[one.as_fd()]);
        close(one);
    });
    arena.shared.traffic_flows(100);
    // Far more of them than any message has.
    let many: Vec<_> = (0..20).map(|_| lingering()).collect();
    arena.turned_away("file-descriptors", "20 file descriptors with ADD_REGION, expected 1", |peer| {
        peer.init();
        peer.region_with(0, MEMORY, &many.iter().map(|(one, _)| one.as_fd()).collect::<Vec<_>>());
        close(many);
    });
    arena.shared.traffic_flows(100);
    arena.finish();
}

/// Whoever goes on with that, in messages that nobody reads, costs others nothing and keeps nothing: they are closed without lingering.
#[test]
fn fds_that_would_linger_again_and_again() {
    let arena = Arena::new("hanging", |_| ());
    let mut ends = Vec::new();
    for _ in 0..100 {
        let (socket, unread) = lingering();
        ends.push(unread);
        let before = arena.shared.log().count();
        let peer = arena.peer();
        peer.send(&init(0x0200, 0, 0, ""), &[socket.as_fd()]);
        close(socket);
        arena.shared.wait("ended", |log| (log.count() > before).then_some(()));
    }
    arena.shared.traffic_flows(100);
    assert!(arena.shared.log().failed.is_empty(), "{:?}", arena.shared.log());
    // The other ends are still there. Were closes hanging, nobody of this process would be let in any more.
    arena.finish();
    drop(ends);
}

/// None of them stays open, however many come at once.
#[test]
fn fds_of_pipes_by_the_hundred() {
    let arena = Arena::new("pipes", |_| ());
    let (pipe, end) = rustix::pipe::pipe().unwrap();
    for _ in 0..30 {
        // It may be turned away at once, while those of the last one are being closed.
        let before = arena.shared.log().count();
        let peer = arena.peer();
        // Nothing can be sent to who hasn't accepted it yet while another is turned away.
        receive(&peer.socket);
        peer.init();
        peer.region_with(0, MEMORY, &[end.as_fd(); 100]);
        arena.shared.wait("ended", |log| (log.count() > before).then_some(()));
    }
    drop(end);
    // The other end is closed once none of three thousand is open any more.
    let wait = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let mut hung_up = [PollFd::new(&pipe, PollFlags::empty())];
    assert_eq!(poll(&mut hung_up, Some(&wait)), Ok(1), "some are open");
    assert!(hung_up[0].revents().contains(PollFlags::HUP));
    arena.finish();
}
