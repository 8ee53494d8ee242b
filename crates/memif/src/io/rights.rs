//! Sockets to which no descriptors can be sent.
//!
//! Who is turned away may have sent some before it was accepted: they are in the socket's queue, and its close can hang. Linux from 6.16 on
//! lets a socket have none sent to it (`SO_PASSRIGHTS`): their sender is told `EPERM`. A connection begins as the listening socket is set
//! when it connects.

use std::os::fd::BorrowedFd;

use nix::libc::{SOL_SOCKET, c_int};
use nix::sys::socket::{getsockopt, setsockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

/// The number of all architectures but parisc and sparc, of Linux 6.16: `include/uapi/asm-generic/socket.h`.
const SO_PASSRIGHTS: c_int = 83;

sockopt_impl!(
    /// Whether descriptors can be sent to it.
    PassRights,
    Both,
    SOL_SOCKET,
    SO_PASSRIGHTS,
    bool
);

/// Whether descriptors may have been sent to it.
pub(super) fn may_have(socket: BorrowedFd<'_>) -> bool {
    getsockopt(&socket, PassRights).unwrap_or(true)
}

/// From now on, and for connections that begin from now on. Without effect where the kernel doesn't know that.
pub(super) fn allow(socket: BorrowedFd<'_>, whether: bool) {
    let _ = setsockopt(&socket, PassRights, &whether);
}
