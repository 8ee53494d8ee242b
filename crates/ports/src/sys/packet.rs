//! Packet sockets (`packet(7)`, Linux `include/uapi/linux/if_packet.h`).

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Options with an `int` for a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flag {
    /// Say what VLAN tag the kernel has taken off (`PACKET_AUXDATA`).
    AuxData,
    /// A `virtio_net_hdr` before each packet (`PACKET_VNET_HDR`).
    VnetHeader,
    /// Don't show us what leaves by the device (`PACKET_IGNORE_OUTGOING`, Linux 4.20).
    IgnoreOutgoing,
    /// Bytes that may wait to be received, beyond the system's limit (`SO_RCVBUFFORCE`).
    ReceiveBuffer,
}

/// A raw packet socket that receives nothing before it is bound.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes three integers.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: a descriptor that was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives every packet of device `index` from now on.
pub(crate) fn bind(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let address: *const libc::sockaddr_ll = &raw const address;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_ll` of `len` bytes, alive during the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), address.cast(), len) }).map(drop)
}

/// Has the socket receive only what a program of the kernel's classic packet filter returns something for. At most 4096 instructions.
pub(crate) fn filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = program.len().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // The kernel only reads it.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// The device the socket is bound to, or `None` where that is gone.
pub(crate) fn bound_to(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    // SAFETY: all bytes zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `address`.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) })?;
    Ok(u32::try_from(address.sll_ifindex).ok())
}

/// Sets an option.
pub(crate) fn set(socket: BorrowedFd<'_>, flag: Flag, value: c_int) -> io::Result<()> {
    let (level, name) = match flag {
        Flag::AuxData => (libc::SOL_PACKET, libc::PACKET_AUXDATA),
        Flag::VnetHeader => (libc::SOL_PACKET, libc::PACKET_VNET_HDR),
        Flag::IgnoreOutgoing => (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING),
        Flag::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
    };
    set_option(socket, level, name, &value)
}

/// Has the device receive packets for all stations, as long as the socket is open.
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Shares the packets that the device receives among the sockets of a group, by flow. `None` makes a group with a number of its own,
/// which is returned.
pub(crate) fn fan_out(socket: BorrowedFd<'_>, group: Option<u16>) -> io::Result<u16> {
    let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING | unique;
    let value: c_uint = u32::from(group.unwrap_or(0)) | kind << 16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
    let mut made: c_uint = 0;
    get_option(socket, libc::PACKET_FANOUT, &mut made)?;
    Ok(made as u16)
}

/// Packets that were lost since the last call because the socket's buffer was full.
pub(crate) fn lost(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    get_option(socket, libc::PACKET_STATISTICS, &mut statistics)?;
    Ok(statistics.tp_drops)
}

/// A VLAN tag that the kernel has taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenTag {
    /// EtherType it was announced by.
    pub(crate) tpid: u16,
    /// Tag control information.
    pub(crate) tci: u16,
}

/// Receives one packet into `parts`, in order, and the tag that was taken off it. Returns its bytes in `parts`.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    parts: &mut [io::IoSliceMut<'_>],
) -> io::Result<(usize, Option<TakenTag>)> {
    // Room for one message of auxiliary data, aligned as `cmsghdr` has to be.
    let mut control = [0u64; 8];
    // SAFETY: all bytes zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    // `IoSliceMut` is laid out as `iovec` (guaranteed by the standard library).
    message.msg_iov = parts.as_mut_ptr().cast();
    message.msg_iovlen = parts.len() as _;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` points to `parts` and `control`, both exclusively borrowed and alive during the call, with
    // their true lengths.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    Ok((n, taken_tag(&message)))
}

fn taken_tag(message: &libc::msghdr) -> Option<TakenTag> {
    // SAFETY: the kernel has filled `message` in; its control buffer is still alive.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a header that CMSG_FIRSTHDR or CMSG_NXTHDR found lies in the control buffer whole.
        let found = unsafe { *header };
        let need = size_of::<libc::tpacket_auxdata>();
        // SAFETY: CMSG_LEN only computes.
        let whole = found.cmsg_len as usize >= unsafe { libc::CMSG_LEN(need as c_uint) } as usize;
        if found.cmsg_level == libc::SOL_PACKET && found.cmsg_type == libc::PACKET_AUXDATA && whole {
            // SAFETY: `need` bytes of data follow the header, as its length says; the read doesn't ask for alignment.
            let data: libc::tpacket_auxdata =
                unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { data.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            return Some(TakenTag { tpid, tci: data.tp_vlan_tci });
        }
        // SAFETY: as CMSG_FIRSTHDR.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

fn set_option<T>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let value: *const T = value;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `value`, which is a live `T` of plain integers, or a `sock_fprog`, whose pointer
    // leads to `len` instructions that its caller has borrowed.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast::<c_void>(), len) }).map(drop)
}

/// `T` is made of integers, for which all bytes are valid.
fn get_option<T: Copy>(socket: BorrowedFd<'_>, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let value: *mut T = value;
    // SAFETY: the kernel writes at most `len` bytes at `value`, a live `T` for which all bytes are valid.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, name, value.cast::<c_void>(), &raw mut len)
    })
    .map(drop)
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
