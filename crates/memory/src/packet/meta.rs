//! What the graph knows of a packet: most of a cache line, in a dense array of its own.

use core::mem::offset_of;
use core::ptr;

/// Kind of segmentation the receiver of a super-frame has to do, or `None` for an ordinary packet
/// (virtio 1.2, 5.1.6: `gso_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Gso {
    /// An ordinary packet.
    #[default]
    None,
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP, each segment a datagram of its own (`UDP_SEGMENT`).
    Udp,
}

/// Work that the sender has left to the device, as a tap with `IFF_VNET_HDR` hands it over. `checksum_start` is a
/// position in the head area, as `l3` and `l4` are: taking headers off and putting others on leaves it right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Payload bytes of each segment, where `gso` isn't `None`.
    pub gso_size: u16,
    /// Position of the transport header, from which the checksum runs to the packet's end. It may lie behind the
    /// head, where IPv6 extension headers are long.
    pub checksum_start: u16,
    /// Bytes from `checksum_start` to the checksum field.
    pub checksum_offset: u16,
    /// Kind of super-frame; anything but `None` implies `checksum_needed`.
    pub gso: Gso,
    /// The transport checksum holds only the pseudo header's sum and must be completed.
    pub checksum_needed: bool,
}

/// Small facts about a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(u8);

impl Flags {
    /// Nothing is known.
    pub const NONE: Self = Self(0);
    /// The packet was made here (an ICMP error, an ARP answer), it didn't come in by an interface.
    pub const LOCAL: Self = Self(1);
    /// The frame was sent to a group address.
    pub const GROUP: Self = Self(2);
    /// The frame was sent to the interface's own MAC address.
    pub const OUR_MAC: Self = Self(4);
    /// The packet has been through a bridge's BVI.
    pub const FROM_BVI: Self = Self(8);
    /// The packet is a fragment, and which ports its datagram has is known.
    pub const FRAGMENT: Self = Self(16);
    /// The packet is on its way to the other end of a tunnel.
    pub const ENCAPSULATED: Self = Self(32);
    /// The packet was put together from fragments, and may be cut again, whatever its IP version.
    pub const MAY_BE_CUT: Self = Self(64);

    /// Whether all of `other`'s flags are set.
    #[must_use]
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits.
    #[inline(always)]
    pub(super) const fn bits(self) -> u8 {
        self.0
    }

    /// Sets `other`'s flags.
    #[inline(always)]
    pub const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Clears `other`'s flags.
    #[inline(always)]
    pub const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = [
            (Self::LOCAL, "local"),
            (Self::GROUP, "group"),
            (Self::OUR_MAC, "our-mac"),
            (Self::FROM_BVI, "from-bvi"),
            (Self::FRAGMENT, "fragment"),
            (Self::ENCAPSULATED, "encapsulated"),
            (Self::MAY_BE_CUT, "may-be-cut"),
        ];
        f.debug_set().entries(names.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| name)).finish()
    }
}

/// Metadata of one packet. All positions are byte offsets into its head area.
///
/// The first half is what nodes look at for every packet: plain numbers, so that a node can compare and change all of
/// it at once (see [`Shape`](super::Shape)).
///
/// Where its body lies stands behind it, out of reach: nothing that is done to metadata makes bytes be read or written
/// that are none of the packet's.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Meta {
    /// Where the header that the current node works on begins.
    pub data: u16,
    /// End of the bytes that lie in the head area; the body follows.
    pub end: u16,
    /// The link-layer header (for IP-mode interfaces: the IP header).
    pub l2: u16,
    /// The network header.
    pub l3: u16,
    /// The transport header, or 0 where none was found in the head.
    pub l4: u16,
    /// Interface (sub-interface) the packet came in by.
    pub rx_if: u16,
    /// Interface it is to leave by.
    pub tx_if: u16,
    /// Forwarding table (VRF) the packet is looked up in.
    pub table: u16,
    /// Next-hop id the lookup found.
    pub next_hop: u32,
    /// Bytes in all body segments, as far as metadata can be believed.
    pub(crate) body_len: u32,
    /// Position in the feature arc the packet is on.
    pub arc: u8,
    /// Small facts.
    pub flags: Flags,
    /// 1-based number of its record in the worker's trace, or 0.
    pub trace: u16,
    /// Flow hash, or 0 where none was computed.
    pub flow_hash: u32,
    /// Why it is dropped (graph-wide id), where it is.
    pub drop_reason: u16,
    /// What the sender left to do. Kept small: most packets have nothing here.
    pub offload: Offload,
    /// Tunnel headers that were taken off, one inside the other. Copies, fragments and the packets they are part of inherit it.
    pub decapsulated: u8,
}

/// 16-bit fields in the first half of [`Meta`].
pub(super) const FIELDS: usize = 16;

const _: () = assert!(offset_of!(Meta, drop_reason) == 2 * FIELDS && offset_of!(Meta, flow_hash) == 28);

impl Meta {
    /// A packet of no bytes that came in by interface `rx_if`.
    #[must_use]
    pub(crate) const fn new(rx_if: u16) -> Self {
        let at = super::HEADROOM as u16;
        Self {
            data: at,
            end: at,
            l2: at,
            l3: at,
            l4: 0,
            rx_if,
            tx_if: 0,
            table: 0,
            next_hop: 0,
            body_len: 0,
            arc: 0,
            flags: Flags::NONE,
            trace: 0,
            flow_hash: 0,
            drop_reason: 0,
            offload: Offload {
                gso_size: 0,
                checksum_start: 0,
                checksum_offset: 0,
                gso: Gso::None,
                checksum_needed: false,
            },
            decapsulated: 0,
        }
    }

    /// The first half, as 16-bit fields.
    #[inline(always)]
    pub(super) const fn fields(&self) -> &[u16; FIELDS] {
        // SAFETY: the first FIELDS * 2 bytes are numbers without padding between them (see the assertions), for which
        // every bit pattern is valid; alignment 4 is more than enough.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    /// [`fields`](Self::fields), to change.
    #[inline(always)]
    pub(super) const fn fields_mut(&mut self) -> &mut [u16; FIELDS] {
        // SAFETY: as in `fields`, and this is the only reference to them.
        unsafe { &mut *ptr::from_mut(self).cast() }
    }

    /// Bytes that lie behind the head, in the body.
    #[must_use]
    #[inline(always)]
    pub const fn body_len(&self) -> u32 {
        self.body_len
    }

    /// Length of the packet from the current header on, in bytes.
    #[must_use]
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        (self.end as u32).wrapping_sub(self.data as u32) + self.body_len
    }

    /// What [`end`](Self::end) is of a packet of `len` bytes from position `at` on with this body. Beyond 65535 there is none.
    #[inline(always)]
    #[must_use]
    pub const fn end_of(&self, at: u16, len: u32) -> u32 {
        (at as u32).wrapping_add(len).wrapping_sub(self.body_len)
    }

    /// Whether the packet lies in the head as a whole and goes on behind `end`: it can be cut to there.
    #[inline(always)]
    #[must_use]
    pub const fn exceeds(&self, end: u32) -> bool {
        (self.body_len == 0) & (end < self.end as u32)
    }

    /// Whether no byte is left from the current header on.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_name() {
        for bit in 0..7 {
            let shown = format!("{:?}", Flags(1 << bit));
            assert!(shown.len() > 4, "flag {bit} is shown as {shown}");
        }
    }
}
