//! The queue and its thread, with a device that does as it is told.

use super::queue::{FRAMES, outputs};
use super::state::OutputThreads;
use crate::vnet::VnetHeader;
use crate::vnet_queue::Device;
use graph::port::{Completed, Stop, TxQueue};
use memory::packet::{OwnedPacket, Packets, SlotId};
use memory::simd::Tier;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Takes what is written: a pipe, or a file of the kernel.
struct Sink(OwnedFd);

impl Device for Sink {
    const DOWN: Errno = Errno::NETDOWN;
    const GONE: &'static [Errno] = &[Errno::PIPE];
    const SHORTEST: usize = 2;

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn prefix(&self) -> usize {
        crate::vnet::LEN
    }

    fn receive(&self, _buffer: &mut [u8]) -> io::Result<(VnetHeader, usize, usize)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct Harness {
    queue: Box<dyn TxQueue>,
    threads: OutputThreads,
    packets: Packets,
}

impl Harness {
    fn new(device: OwnedFd) -> Self {
        let (mut queues, threads) = outputs(vec![Sink(device)], 1, &"test".into(), "tx-test").unwrap();
        Self { queue: queues.pop().unwrap(), threads, packets: Packets::new() }
    }

    fn send(&mut self, frame: &[u8]) -> (usize, Stop) {
        let slot: SlotId = self.packets.adopt(&OwnedPacket::new(0, frame.to_vec())).unwrap();
        let sent = self.queue.send(Tier::detect(), &mut self.packets, &[slot]).unwrap();
        self.queue.flush();
        self.packets.end_round();
        (sent.packets, sent.stop)
    }

    fn landed(&mut self) -> Completed {
        let (mut all, end) = (Completed::default(), Instant::now() + PATIENCE);
        while self.queue.outstanding() {
            let completed = self.queue.completed().unwrap();
            all.packets += completed.packets;
            all.bytes += completed.bytes;
            all.full += completed.full;
            assert!(Instant::now() < end, "frames are still on their way");
            std::thread::yield_now();
        }
        all
    }
}

#[test]
fn frames_arrive_whole_and_in_order_behind_their_header() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut test = Harness::new(write);
    for n in 1..=100_u8 {
        assert_eq!(test.send(&[n, n, n]).0, 1);
    }
    let completed = test.landed();
    assert_eq!((completed.packets, completed.bytes), (100, 300));
    for n in 1..=100_u8 {
        let mut bytes = [0; crate::vnet::LEN + 3];
        assert_eq!(rustix::io::read(&read, &mut bytes).unwrap(), bytes.len());
        assert_eq!(bytes[crate::vnet::LEN..], [n, n, n]);
    }
}

/// A worker that sleeps doesn't look again.
#[test]
fn nothing_waits_for_a_worker_that_sleeps() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut test = Harness::new(write);
    for _ in 0..1000 {
        assert_eq!((test.send(&[1; 10]).0, test.send(&[2; 10]).0), (1, 1));
        test.queue.rest();
        for n in [1, 2] {
            let mut bytes = [0; crate::vnet::LEN + 10];
            assert_eq!(rustix::io::read(&read, &mut bytes).unwrap(), bytes.len());
            assert_eq!(bytes[crate::vnet::LEN..], [n; 10]);
        }
        test.landed();
    }
}

/// The write doesn't return: the worker goes on, and loses what doesn't fit.
#[test]
fn a_device_that_holds_up_its_thread_costs_its_own_frames_only() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut test = Harness::new(write);
    let taken = (0..4 * FRAMES).filter(|_| test.send(&[7; 1000]).0 == 1).count();
    // Eight ninths of the ring, and a pipe holds 64 KiB.
    assert!((900..FRAMES).contains(&taken), "{taken}");
    assert_eq!(test.send(&[7; 1000]), (0, Stop::Full));
    drop(read);
    let end = Instant::now() + PATIENCE;
    let fault = loop {
        match test.queue.completed() {
            Err(fault) => break fault,
            Ok(_) => assert!(Instant::now() < end),
        }
    };
    assert!(fault.reason.contains("test was deleted"), "{fault}");
}

#[test]
fn a_frame_that_is_too_short_or_too_long_is_refused_at_once() {
    let null = open("/dev/null", OFlags::WRONLY, Mode::empty()).unwrap();
    let mut test = Harness::new(null);
    assert_eq!(test.send(&[1]), (0, Stop::Refused));
    assert_eq!(test.send(&[1; 67 * 1024]), (0, Stop::Refused));
    assert_eq!(test.send(&[1; 65_000]).0, 1);
    assert_eq!(test.landed().packets, 1);
}

#[test]
fn what_is_on_its_way_is_written_before_the_thread_ends() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut test = Harness::new(write);
    for n in 0..10 {
        test.send(&[n; 50]);
    }
    let Harness { queue, threads, .. } = test;
    drop(queue);
    assert!(threads.wait());
    let mut bytes = [0; 1000];
    assert_eq!(rustix::io::read(&read, &mut bytes).unwrap(), 10 * (50 + crate::vnet::LEN));
    assert_eq!(rustix::io::read(&read, &mut bytes).unwrap(), 0, "and has closed its device");
}

#[test]
fn several_workers_share_the_thread_of_a_device() {
    let null = || Sink(open("/dev/null", OFlags::WRONLY, Mode::empty()).unwrap());
    let (queues, threads) = outputs(vec![null(), null()], 5, &Arc::from("test"), "tx-test").unwrap();
    assert_eq!(queues.len(), 5);
    let mut packets = Packets::new();
    let slot = packets.adopt(&OwnedPacket::new(0, vec![1; 60])).unwrap();
    for mut queue in queues {
        assert_eq!(queue.send(Tier::detect(), &mut packets, &[slot]).unwrap().packets, 1);
        queue.flush();
        let end = Instant::now() + PATIENCE;
        let mut done = 0;
        while done == 0 {
            done += queue.completed().unwrap().packets;
            assert!(Instant::now() < end);
        }
    }
    assert!(threads.wait());
}
