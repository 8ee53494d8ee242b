//! Control of `/dev/net/tun` (Linux `include/uapi/linux/if_tun.h`).

use rustix::ioctl::{IntegerSetter, Setter, Updater, ioctl, opcode};
use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;

/// IP packets (`IFF_TUN`).
pub(crate) const TUN: u16 = 0x0001;
/// Ethernet frames (`IFF_TAP`).
pub(crate) const TAP: u16 = 0x0002;
/// Several files, each a queue pair (`IFF_MULTI_QUEUE`).
pub(crate) const MULTI_QUEUE: u16 = 0x0100;
/// The queue is to get no more packets (`IFF_DETACH_QUEUE`).
const DETACH_QUEUE: u16 = 0x0400;
/// No packet information header (`IFF_NO_PI`).
pub(crate) const NO_PI: u16 = 0x1000;
/// A `virtio_net_hdr` before each packet (`IFF_VNET_HDR`).
pub(crate) const VNET_HDR: u16 = 0x4000;

/// We take packets without checksum (`TUN_F_CSUM`).
pub(crate) const F_CSUM: u32 = 0x01;
/// We take TCP super-frames over IPv4 (`TUN_F_TSO4`).
pub(crate) const F_TSO4: u32 = 0x02;
/// We take TCP super-frames over IPv6 (`TUN_F_TSO6`).
pub(crate) const F_TSO6: u32 = 0x04;
/// We take UDP super-frames over IPv4 (`TUN_F_USO4`, Linux 6.2).
pub(crate) const F_USO4: u32 = 0x20;
/// We take UDP super-frames over IPv6 (`TUN_F_USO6`, Linux 6.2).
pub(crate) const F_USO6: u32 = 0x40;

const SET_IFF: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 202);
const SET_PERSIST: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 203);
const SET_OFFLOAD: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 208);
const SET_VNET_HDR_SIZE: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 216);
const SET_QUEUE: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 217);

/// Longest device name, in bytes (`IFNAMSIZ` less the final zero).
pub(crate) const NAME_MAX: usize = 15;

/// `struct ifreq` as `TUNSETIFF` and `TUNSETQUEUE` use it.
#[repr(C)]
struct Request {
    name: [u8; NAME_MAX + 1],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == 40);

/// Makes `file` (an open `/dev/net/tun`) a queue of device `name`, which is created where it isn't there, and returns
/// its name: `name` may be a pattern such as `tap%d`.
pub(crate) fn attach(file: BorrowedFd<'_>, name: &str, flags: u16) -> io::Result<String> {
    let mut request = Request { name: [0; NAME_MAX + 1], flags, rest: [0; 22] };
    let room = request.name.get_mut(..name.len()).filter(|room| room.len() <= NAME_MAX);
    room.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq` (40 bytes on 64-bit Linux), which `Request` is laid out as;
    // any bytes the kernel writes there are valid for its fields.
    unsafe { ioctl(file, Updater::<SET_IFF, Request>::new(&mut request))? };
    let name: Vec<u8> = request.name.iter().copied().take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Lets the queue get no more packets. While its file is open, the device doesn't lose its carrier.
pub(crate) fn detach(file: BorrowedFd<'_>) -> io::Result<()> {
    let request = Request { name: [0; NAME_MAX + 1], flags: DETACH_QUEUE, rest: [0; 22] };
    // SAFETY: TUNSETQUEUE reads one `struct ifreq`, which `Request` is laid out as.
    unsafe { ioctl(file, Setter::<SET_QUEUE, Request>::new(request))? };
    Ok(())
}

/// Says whether the device stays when its last queue is closed.
pub(crate) fn set_persist(file: BorrowedFd<'_>, persist: bool) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes its argument by value and touches no memory of ours.
    unsafe { ioctl(file, IntegerSetter::<SET_PERSIST>::new_usize(usize::from(persist)))? };
    Ok(())
}

/// Says which packets the kernel may hand us unfinished: a set of the `F_` constants.
pub(crate) fn set_offload(file: BorrowedFd<'_>, features: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of ours.
    unsafe { ioctl(file, IntegerSetter::<SET_OFFLOAD>::new_usize(features as usize))? };
    Ok(())
}

/// Sets the length of the header before each packet, 10 or 12 bytes.
pub(crate) fn set_vnet_header_size(file: BorrowedFd<'_>, size: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one `int` from the address it is given.
    unsafe { ioctl(file, Setter::<SET_VNET_HDR_SIZE, c_int>::new(size))? };
    Ok(())
}
