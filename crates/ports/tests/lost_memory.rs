//! A sender takes away the memory of packets that are on their way out by somebody else's device.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Namespace, SCALAR, root};
use graph::port::{Stop, TxQueue};
use memory::packet::{OwnedPacket, Packets, SlotId};
use memory::region::{Region, RegionTable, SealPolicy};
use memory::simd::Scalar;
use quiver_ports::af_packet::{self, AfPacketOptions};
use quiver_ports::link;
use quiver_ports::tap::{self, TapOptions};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of a packet, most of which stay where the sender put them.
const LEN: u32 = 1200;

/// A packet in memory that its sender can still take away, as nothing keeps them from with huge pages.
fn revocable(packets: &mut Packets) -> (OwnedFd, Arc<RegionTable>, SlotId) {
    let theirs = memfd_create("sender", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&theirs, 1 << 16).unwrap();
    let region = Region::map(theirs.try_clone().unwrap(), 1 << 16, SealPolicy::Allow).unwrap();
    let table = Arc::new(RegionTable::new(vec![Arc::new(region)]).unwrap());
    let range = table.check(0, 8192, LEN).unwrap();
    range.write(&[0x55; LEN as usize]);
    let mut burst = packets.burst(Scalar, Arc::clone(&table), 0);
    // SAFETY: the range is of the table that the burst was begun with.
    unsafe { burst.packet(range) }.unwrap();
    let slot = burst.finish().0.start as SlotId;
    (theirs, table, slot)
}

fn lose_a_body_on(queue: &mut dyn TxQueue) {
    let mut packets = Packets::new();
    let (theirs, table, lost) = revocable(&mut packets);
    let whole = packets.adopt(&OwnedPacket::new(0, vec![0x55; LEN as usize])).unwrap();
    assert_eq!(queue.send(SCALAR, &mut packets, &[lost]).unwrap().packets, 1, "it can be read as yet");
    ftruncate(&theirs, 0).unwrap();
    let sent = queue.send(SCALAR, &mut packets, &[whole, lost, whole]).unwrap();
    assert_eq!((sent.packets, sent.stop), (1, Stop::Unreadable));
    assert!(table.lost(), "whose memory it was is to be told, and is disconnected");
    assert_eq!(queue.send(SCALAR, &mut packets, &[whole]).unwrap().packets, 1, "the device goes on");
}

#[test]
fn a_tap_goes_on() {
    if !root("a tap and memory that is gone") {
        return;
    }
    let namespace = Namespace::new("efault");
    let mut port = tap::open(&TapOptions::new(namespace.netns(), "eth0")).unwrap();
    lose_a_body_on(&mut *port.tx[0]);
}

#[test]
fn a_shared_device_goes_on() {
    if !root("a packet socket and memory that is gone") {
        return;
    }
    let namespace = Namespace::new("efault");
    namespace.run(&["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"]);
    for name in ["eth0", "eth1"] {
        link::configure(&namespace.netns(), name, &link::LinkOptions::default()).unwrap();
    }
    let mut port = af_packet::open(&AfPacketOptions::new(namespace.netns(), "eth0")).unwrap();
    lose_a_body_on(&mut *port.tx[0]);
}
