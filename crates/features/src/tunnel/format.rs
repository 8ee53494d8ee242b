//! What stands between UDP and the packet inside, as it is read.

use super::decapsulate::Drop;
use crate::interface::LinkMode;
use wire::{EtherType, GeneveHeader, GeneveReason, Header, VxlanHeader};

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Network identifier.
    pub(super) vni: u32,
    /// What is carried.
    pub(super) protocol: EtherType,
}

/// A format.
pub(super) trait Format: Send + 'static {
    /// Bytes from which [`Format::header_len`] can be told.
    const FIXED: usize;

    /// Length of the header that begins with these bytes, of which there are [`Format::FIXED`].
    fn header_len(fixed: &[u8]) -> usize;

    /// Reads a whole header.
    ///
    /// # Errors
    /// The reason why its packet is dropped.
    fn read(header: &[u8]) -> Result<Read, Drop>;
}

/// RFC 7348.
#[derive(Debug)]
pub(super) struct Vxlan;

/// RFC 8926.
#[derive(Debug)]
pub(super) struct Geneve;

impl Format for Vxlan {
    const FIXED: usize = VxlanHeader::LEN;

    fn header_len(_: &[u8]) -> usize {
        VxlanHeader::LEN
    }

    fn read(header: &[u8]) -> Result<Read, Drop> {
        let (header, _) = VxlanHeader::parse(header).map_err(|_| Drop::Truncated)?;
        if !header.is_valid() {
            return Err(Drop::BadHeader);
        }
        Ok(Read { vni: header.vni(), protocol: EtherType::TRANSPARENT_ETHERNET })
    }
}

impl Format for Geneve {
    const FIXED: usize = GeneveHeader::LEN;

    fn header_len(fixed: &[u8]) -> usize {
        GeneveHeader::parse(fixed).map_or(GeneveHeader::LEN, |(header, _)| header.header_len())
    }

    fn read(header: &[u8]) -> Result<Read, Drop> {
        let (header, options) = GeneveHeader::parse(header).map_err(|_| Drop::Truncated)?;
        if header.version() != 0 {
            return Err(Drop::BadHeader);
        }
        // Section 3.4: not to be passed on, whatever it carries.
        if header.is_control() {
            return Err(Drop::Control);
        }
        GeneveHeader::check_options(options).map_err(|reason| match reason {
            GeneveReason::BadOptions => Drop::BadHeader,
            GeneveReason::CriticalOption => Drop::CriticalOption,
        })?;
        Ok(Read { vni: header.vni(), protocol: header.protocol })
    }
}

/// Whether packets of `protocol` are what an interface of `mode` takes.
pub(super) fn suits(protocol: EtherType, mode: LinkMode) -> bool {
    match mode {
        LinkMode::Ethernet => protocol == EtherType::TRANSPARENT_ETHERNET,
        LinkMode::Ip => protocol == EtherType::IPV4 || protocol == EtherType::IPV6,
    }
}
