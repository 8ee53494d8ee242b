//! With what all clients of the socket share.

use std::os::fd::AsFd;

use memif::layout::Layout;
use memif::region::SealPolicy;
use memif::{QueueConfig, RingSize};
use rustix::fs::SealFlags;

use super::peer::{MEMORY, RX_RING, TX_RING, memfd};
use crate::arena::{Arena, FREE};
use crate::traffic::{BYSTANDER_RING, small_queues};

/// Within the limits of its interface, and more than there is for all: the other interface of the socket has three.
#[test]
fn quota_of_descriptors_of_all_interfaces() {
    let arena = Arena::new("quota-fds", |setting| {
        // One file, announced many times.
        setting.hostile.seals = SealPolicy::Allow;
        (setting.listener.max_descriptors, setting.hostile.max_regions) = (10, 256);
        setting.hostile.max_memory = 1 << 30;
    });
    let words = "regions and rings of all of the socket's clients: max_descriptors is 10";
    for _ in 0..3 {
        arena.settles();
        arena.turned_away("quota-of-descriptors", words, |peer| {
            peer.init();
            (0..256).for_each(|index| peer.region_with(index, 4096, &[peer.memory.as_fd()]));
        });
        arena.settles();
        arena.turned_away("quota-of-descriptors", words, |peer| {
            peer.init();
            (0..6).for_each(|index| peer.region_with(index, MEMORY, &[peer.memory.as_fd()]));
            [TX_RING, RX_RING].iter().for_each(|ring| peer.ring(*ring));
        });
    }
    // What they had is given back: as much as there was at first is there.
    arena.settles();
    arena.finish();
}

#[test]
fn quota_of_memory_of_all_interfaces() {
    let arena = Arena::new("quota-memory", |setting| {
        // One file, announced many times.
        setting.hostile.seals = SealPolicy::Allow;
        (setting.listener.max_memory, setting.hostile.max_memory) = (4 << 30, u64::MAX);
        setting.hostile.max_holes = u64::MAX;
    });
    let sparse = memfd(1 << 40, SealFlags::SHRINK);
    let QueueConfig { tx_queues: tx_rings, rx_queues: rx_rings, buffer_size, .. } = small_queues();
    let ring_size = RingSize::from_descriptors(BYSTANDER_RING).unwrap();
    let layout = Layout { tx_rings, rx_rings, ring_size, buffer_size };
    let others = layout.size().next_multiple_of(4096);
    let words = format!(
        "regions of all of the socket's clients: {} bytes, max_memory is {}",
        others + (4 << 30),
        4_u64 << 30
    );
    for _ in 0..3 {
        arena.settles();
        arena.turned_away("quota-of-memory", &words, |peer| {
            peer.init();
            peer.region_with(0, 1 << 30, &[sparse.as_fd()]);
            peer.region_with(1, 3 << 30, &[sparse.as_fd()]);
        });
    }
    arena.finish();
}

/// Half of the quota is the interfaces' in equal parts: who takes all it can get, and keeps it, keeps nobody out.
#[test]
fn quota_of_descriptors_keeps_a_part_for_others() {
    let arena = Arena::new("quota-part", |setting| {
        // One file, announced many times.
        setting.hostile.seals = SealPolicy::Allow;
        (setting.listener.max_descriptors, setting.free) = (24, 2);
        (setting.hostile.max_regions, setting.hostile.max_memory) = (256, 1 << 30);
    });
    // Four interfaces with 24 / 2 / 4 = 3 each, which the well-behaved one has: 24 - 3 - 2 × 3 are left.
    let words = "regions and rings of the interface: 16, the rest of the socket's 24 is others'";
    for _ in 0..3 {
        arena.settles();
        let greedy = arena.peer();
        greedy.init();
        (0..15).for_each(|index| greedy.region_with(index, 4096, &[greedy.memory.as_fd()]));
        arena.comes_and_goes(FREE);
        arena.comes_and_goes(FREE + 1);
        let one_more = |peer: &super::peer::Peer| peer.region_with(15, 4096, &[peer.memory.as_fd()]);
        arena.ends(&greedy, "share-of-descriptors", words, one_more);
    }
    arena.finish();
}

#[test]
fn quota_of_memory_keeps_a_part_for_others() {
    let arena = Arena::new("quota-memory-part", |setting| {
        // One file, announced many times.
        setting.hostile.seals = SealPolicy::Allow;
        (setting.listener.max_memory, setting.free) = (8 << 30, 2);
        (setting.hostile.max_memory, setting.hostile.max_holes) = (u64::MAX, u64::MAX);
    });
    let sparse = memfd(1 << 40, SealFlags::SHRINK);
    // Each of the four is promised an eighth, 1 GiB, which is what the others may have by their own settings.
    let words = format!(
        "regions of the interface: {} bytes, the rest of the socket's {} is others'",
        6_u64 << 30,
        8_u64 << 30
    );
    for _ in 0..3 {
        arena.settles();
        let greedy = arena.peer();
        greedy.init();
        greedy.region_with(0, 3 << 30, &[sparse.as_fd()]);
        arena.comes_and_goes(FREE);
        let more = |peer: &super::peer::Peer| peer.region_with(1, 3 << 30, &[sparse.as_fd()]);
        arena.ends(&greedy, "share-of-memory", &words, more);
    }
    arena.finish();
}

/// As much as there is, by connections that were up: each has it again only if the one before gave it back.
#[test]
fn quota_is_given_back_by_connections_that_end() {
    let arena = Arena::new("quota-back", |setting| setting.listener.max_descriptors = 6);
    for _ in 0..20 {
        arena.settles();
        arena.disconnected("unexpected-message", "unexpected message ADD_RING while connected", |peer| {
            peer.ring(TX_RING)
        });
    }
    arena.finish();
}
