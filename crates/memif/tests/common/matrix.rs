//! The cells of the interoperation matrix: sizes × queues × ways to wait, every byte checked.

use std::fmt;
use std::time::Duration;

use memif::ring::Armed;
use memif::{RxQueue, TxQueue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::common::{PATIENCE, packet, receive, send};

/// Bytes of the packets: smallest, one buffer, a chain of five.
pub const SIZES: [usize; 3] = [64, 1518, 9000];

/// How our end learns of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    Polling,
    Interrupt,
}

pub const WAYS: [Waiting; 2] = [Waiting::Polling, Waiting::Interrupt];

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Polling => "polling",
            Self::Interrupt => "interrupt",
        })
    }
}

/// Sends packets of one size on all queues through a peer that forwards queue n to queue n, and expects them on the other
/// end, each queue's in order and every byte as it was. More rounds than a ring has slots. Prints the cell.
pub fn cell(
    name: &str,
    tx: &mut [TxQueue],
    rx: &mut [RxQueue],
    size: usize,
    waiting: Waiting,
    rounds: usize,
) {
    let queues = tx.len();
    assert_eq!(queues, rx.len());
    let before: u64 = rx.iter().map(|queue| queue.counters().signals).sum();
    for round in 0..rounds {
        for queue in 0..queues {
            // Few enough for the smallest ring, as chains too.
            let packets: Vec<_> = (0..8).map(|i| packet(round * 64 + queue * 8 + i, size)).collect();
            let (mut sent, mut got) = (0, Vec::new());
            // Before it sends: the peer must see that we sleep, however late we come to it.
            if waiting == Waiting::Interrupt {
                assert_eq!(rx[queue].arm(), Ok(Armed::Sleep));
            }
            let mut slept = Duration::ZERO;
            while got.len() < packets.len() {
                sent += send(&mut tx[queue], &packets[sent..]).unwrap();
                let some = receive(&mut rx[queue]).unwrap();
                let none = some.is_empty();
                got.extend(some);
                if none {
                    // Naps, not time: a machine that stands still for minutes is no fault of the peer.
                    slept += if sent == packets.len() { wait(&mut rx[queue], waiting) } else { nap() };
                    let what = (name, size, waiting, round, queue, sent, got.len());
                    assert!(slept < PATIENCE, "{what:?}");
                }
            }
            rx[queue].disarm();
            rx[queue].take_signal();
            assert!(got == packets, "{name}: {size} bytes, {waiting}, round {round}, queue {queue}");
        }
    }
    let signals = rx.iter().map(|queue| queue.counters().signals).sum::<u64>() - before;
    if waiting == Waiting::Interrupt {
        assert!(signals > 0, "{name}: {size} bytes: no interrupt came");
    }
    println!("{name:<40} {size:>5} B {queues} queues {waiting:<9} {:>5} packets ok", rounds * queues * 8);
}

/// Gives how long it may have taken.
fn wait(rx: &mut RxQueue, waiting: Waiting) -> Duration {
    if waiting == Waiting::Polling {
        return nap();
    }
    let longest = Duration::from_millis(100);
    if rx.arm() == Ok(Armed::Sleep) {
        // Some peers look at the flag without a fence.
        let limit = Timespec::try_from(longest).unwrap();
        let _ = poll(&mut [PollFd::from_borrowed_fd(rx.event().fd(), PollFlags::IN)], Some(&limit));
    }
    rx.disarm();
    rx.take_signal();
    longest
}

fn nap() -> Duration {
    let nap = Duration::from_micros(50);
    std::thread::sleep(nap);
    nap
}
