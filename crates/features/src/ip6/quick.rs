//! What forwarding does with an ordinary header, in as few instructions as it takes.

use core::mem::offset_of;
use wire::{Header, IpProtocol, Ipv6Header};

/// The fixed header.
type Bytes = [u8; Ipv6Header::LEN];

const HOP_LIMIT: usize = offset_of!(Ipv6Header, hop_limit);
const SRC: usize = offset_of!(Ipv6Header, src);
const DST: usize = offset_of!(Ipv6Header, dst);

/// Length of the packet in bytes, as its header says.
#[inline(always)]
pub(super) const fn length(header: &Bytes) -> u32 {
    u16::from_be_bytes([header[4], header[5]]) as u32 + Ipv6Header::LEN as u32
}

/// Whether the header is followed by no extension header, and goes from and to unicast addresses.
#[inline(always)]
pub(super) fn passes(header: &Bytes) -> bool {
    header[0] >> 4 == 6
        && !IpProtocol(header[6]).is_extension()
        && unicast(header[SRC], header[SRC + 1])
        && unicast(header[DST], header[DST + 1])
}

/// Neither in `ff00::/8` nor in `::/16`, where everything lies that must not be on a wire.
#[inline(always)]
const fn unicast(first: u8, second: u8) -> bool {
    first != 0xff && first | second != 0
}

/// Takes one from the hop limit. False, and nothing changed, where it is used up or the source is link-local, which needs
/// a look at where the packet leaves.
#[inline(always)]
pub(super) fn take_hop(header: &mut Bytes) -> bool {
    let link_local = header[SRC] == 0xfe && header[SRC + 1] & 0xc0 == 0x80;
    let passes = header[HOP_LIMIT] > 1 && !link_local;
    if passes {
        header[HOP_LIMIT] -= 1;
    }
    passes
}
