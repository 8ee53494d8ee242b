//! With what all clients of the socket share.

use std::os::fd::AsFd;

use memif::layout::Layout;
use memif::{QueueConfig, RingSize};
use rustix::fs::SealFlags;

use super::peer::{MEMORY, RX_RING, TX_RING, memfd};
use crate::arena::Arena;
use crate::traffic::{BYSTANDER_RING, small_queues};

/// Within the limits of its interface, and more than there is for all: the other interface of the socket has three.
#[test]
fn quota_of_descriptors_of_all_interfaces() {
    let arena = Arena::new("quota-fds", |setting| {
        (setting.listener.max_descriptors, setting.hostile.max_regions) = (10, 256);
        setting.hostile.max_memory = 1 << 30;
    });
    let words = "regions and rings of all of the socket's clients: max_descriptors is 10";
    for _ in 0..3 {
        arena.turned_away("quota-of-descriptors", words, |peer| {
            peer.init();
            (0..256).for_each(|index| peer.region_with(index, 4096, &[peer.memory.as_fd()]));
        });
        arena.turned_away("quota-of-descriptors", words, |peer| {
            peer.init();
            (0..6).for_each(|index| peer.region_with(index, MEMORY, &[peer.memory.as_fd()]));
            [TX_RING, RX_RING].iter().for_each(|ring| peer.ring(*ring));
        });
    }
    // What they had is given back: as much as there was at first is there.
    arena.finish();
}

#[test]
fn quota_of_memory_of_all_interfaces() {
    let arena = Arena::new("quota-memory", |setting| {
        (setting.listener.max_memory, setting.hostile.max_memory) = (4 << 30, u64::MAX);
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
        arena.turned_away("quota-of-memory", &words, |peer| {
            peer.init();
            peer.region_with(0, 1 << 30, &[sparse.as_fd()]);
            peer.region_with(1, 3 << 30, &[sparse.as_fd()]);
        });
    }
    arena.finish();
}
