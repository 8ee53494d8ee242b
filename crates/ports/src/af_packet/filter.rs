//! The program of the kernel's packet filter (classic BPF, Linux `Documentation/networking/filter.rst`) by which a socket receives only
//! what is for some prefixes.

use ipnet::IpNet;
use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JA, BPF_JEQ, BPF_JMP, BPF_LD, BPF_RET, BPF_W, c_int,
    sock_filter,
};
use wire::EtherType;

/// Most prefixes of a filter: with them the program is far shorter than the 4096 instructions that the kernel takes.
pub const MAX_DESTINATIONS: usize = 64;

/// Where the EtherType stands in a frame, and where the destination in a packet's header behind it.
const ETHERTYPE: u32 = 12;
const DESTINATION4: u32 = 14 + 16;
const DESTINATION6: u32 = 14 + 24;
/// `BPF_RET`: the whole packet, or nothing of it.
const TAKE: u32 = u32::MAX;
const LEAVE: u32 = 0;

/// Takes untagged IP packets to the device's own station with a destination in one of these prefixes.
pub(super) fn program(destinations: &[IpNet]) -> Vec<sock_filter> {
    let (of4, of6): (Vec<_>, Vec<_>) = destinations.iter().partition(|prefix| matches!(prefix, IpNet::V4(_)));
    let four: Vec<_> = of4.into_iter().flat_map(within).collect();
    let mut program = vec![
        about(libc::SKF_AD_PKTTYPE),
        is(libc::PACKET_HOST.into(), 1, 0),
        returns(LEAVE),
        // A tag that the kernel has taken off: then the packet is for another device on top of this one.
        about(libc::SKF_AD_VLAN_TAG_PRESENT),
        is(0, 1, 0),
        returns(LEAVE),
        load(BPF_H, ETHERTYPE),
        is(EtherType::IPV4.get().into(), 0, 1),
        // A conditional jump gets 255 instructions far, this one anywhere.
        jump(3),
        is(EtherType::IPV6.get().into(), 1, 0),
        returns(LEAVE),
        jump(four.len() as u32 + 1),
    ];
    program.extend(four);
    program.push(returns(LEAVE));
    program.extend(of6.into_iter().flat_map(within));
    program.push(returns(LEAVE));
    program
}

/// Takes what is for a prefix, and goes on behind for all else.
fn within(prefix: &IpNet) -> Vec<sock_filter> {
    let (at, address, mask) = match prefix {
        IpNet::V4(prefix) => {
            (DESTINATION4, words(&prefix.network().octets()), words(&prefix.netmask().octets()))
        }
        IpNet::V6(prefix) => {
            (DESTINATION6, words(&prefix.network().octets()), words(&prefix.netmask().octets()))
        }
    };
    let mut steps = Vec::new();
    let asked: Vec<_> =
        (0..).zip(address.into_iter().zip(mask)).filter(|(_, (_, mask))| *mask != 0).collect();
    for (rest, (word, (address, mask))) in (0..asked.len() as u8).rev().zip(asked) {
        // Three instructions each, and the one that takes it.
        steps.extend([load(BPF_W, at + 4 * word), and(mask), is(address, 0, 3 * rest + 1)]);
    }
    steps.push(returns(TAKE));
    steps
}

/// Words of 32 bits, as they are on the wire.
fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u32::from_be_bytes(*word)).collect()
}

fn load(size: u32, at: u32) -> sock_filter {
    step(BPF_LD | size | BPF_ABS, at, 0, 0)
}

/// Loads what the kernel knows of the packet besides its bytes.
fn about(what: c_int) -> sock_filter {
    load(BPF_B, (libc::SKF_AD_OFF + what).cast_unsigned())
}

fn and(mask: u32) -> sock_filter {
    step(BPF_ALU | BPF_AND, mask, 0, 0)
}

/// Passes over so many instructions if what was loaded is `value`, and over so many otherwise.
fn is(value: u32, then: u8, otherwise: u8) -> sock_filter {
    step(BPF_JMP | BPF_JEQ, value, then, otherwise)
}

fn jump(over: u32) -> sock_filter {
    step(BPF_JMP | BPF_JA, over, 0, 0)
}

fn returns(bytes: u32) -> sock_filter {
    step(BPF_RET, bytes, 0, 0)
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}
