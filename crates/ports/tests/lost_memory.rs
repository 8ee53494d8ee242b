//! A sender takes away the memory of packets that are on their way out by somebody else's device.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{LOST_LEN, Namespace, SCALAR, revocable, root};
use graph::port::{Stop, TxQueue};
use memory::packet::{OwnedPacket, Packets};
use quiver_ports::af_packet::{self, AfPacketOptions};
use quiver_ports::link;
use quiver_ports::tap::{self, TapOptions};
use rustix::fs::ftruncate;

fn lose_a_body_on(queue: &mut dyn TxQueue) {
    let mut packets = Packets::new();
    let (theirs, table, lost) = revocable(&mut packets);
    let whole = packets.adopt(&OwnedPacket::new(0, vec![0x55; LOST_LEN as usize])).unwrap();
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
