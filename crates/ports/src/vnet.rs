//! `virtio_net_hdr`: what one side leaves to the other to do (virtio 1.2, section 5.1.6).

use memory::packet::{Gso, HEADROOM, Meta, Offload};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The header in front of each packet, in the byte order of the machine, as the kernel has it by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

/// Its length in bytes.
pub(crate) const LEN: usize = size_of::<VnetHeader>();

const _: () = assert!(LEN == 10);

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_*`
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// `VIRTIO_NET_HDR_GSO_ECN`: the first segment has CWR set; the rule for the flag is the same everywhere.
const GSO_ECN: u8 = 0x80;

impl VnetHeader {
    /// The work that the kernel has left to do on a packet of `len` bytes, as the graph notes it. A header that
    /// contradicts itself, which the kernel doesn't write, asks for nothing.
    pub(crate) fn to_offload(self, len: usize) -> Offload {
        let mut offload = Offload::default();
        let checksum_end = self.csum_start as usize + self.csum_offset as usize + 2;
        if self.flags & NEEDS_CSUM != 0
            && checksum_end <= len
            && let Some(start) = self.csum_start.checked_add(HEADROOM as u16)
        {
            offload.checksum_needed = true;
            offload.checksum_start = start;
            offload.checksum_offset = self.csum_offset;
        }
        let gso = match self.gso_type & !GSO_ECN {
            GSO_TCPV4 => Gso::Tcp4,
            GSO_TCPV6 => Gso::Tcp6,
            GSO_UDP_L4 => Gso::Udp,
            _ => Gso::None,
        };
        if gso != Gso::None && self.gso_size > 0 && offload.checksum_needed {
            offload.gso = gso;
            offload.gso_size = self.gso_size;
        }
        offload
    }

    /// The same header for the packet with `bytes` more before its network header.
    pub(crate) fn behind(self, bytes: u16) -> Self {
        Self {
            csum_start: self.csum_start.saturating_add(bytes),
            hdr_len: self.hdr_len.saturating_add(bytes),
            ..self
        }
    }

    /// What the kernel has to do on a packet that leaves with this metadata. `None` where the packet no longer begins
    /// before its transport header.
    pub(crate) fn of(meta: &Meta) -> Option<Self> {
        let offload = meta.offload;
        if !offload.checksum_needed {
            return Some(Self::default());
        }
        let csum_start = offload.checksum_start.checked_sub(meta.data)?;
        let mut header =
            Self { flags: NEEDS_CSUM, csum_start, csum_offset: offload.checksum_offset, ..Self::default() };
        header.gso_type = match offload.gso {
            Gso::None => return Some(header),
            Gso::Tcp4 => GSO_TCPV4,
            Gso::Tcp6 => GSO_TCPV6,
            Gso::Udp => GSO_UDP_L4,
        };
        header.gso_size = offload.gso_size;
        // Only a hint, how much to copy into the first page; the checksum field is the last that has to be there.
        header.hdr_len = csum_start.saturating_add(offload.checksum_offset).saturating_add(2);
        Some(header)
    }
}
