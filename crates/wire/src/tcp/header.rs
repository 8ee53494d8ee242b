//! The fixed part of the TCP header.

use core::fmt;

use bitflags::bitflags;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::TcpOptions;
use crate::Header;
use crate::reason::reasons;

/// The 20 bytes every TCP segment starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: U16,
    /// Destination port.
    pub dst_port: U16,
    /// Sequence number of the first byte.
    pub sequence: U32,
    /// Next sequence number the sender expects.
    pub acknowledgment: U32,
    /// Header length in 32-bit words (high 4 bits), reserved.
    pub data_offset: u8,
    /// Flags; see [`TcpHeader::flags`].
    pub flag_bits: u8,
    /// Bytes the sender will take, not yet scaled.
    pub window: U16,
    /// Checksum over pseudo header, header and data.
    pub checksum: U16,
    /// End of urgent data.
    pub urgent: U16,
}

impl Header for TcpHeader {
    const NAME: &'static str = "TCP";
}

bitflags! {
    /// TCP's flag bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TcpFlags: u8 {
        /// No more data from the sender.
        const FIN = 0x01;
        /// Synchronise sequence numbers.
        const SYN = 0x02;
        /// Reset the connection.
        const RST = 0x04;
        /// Push.
        const PSH = 0x08;
        /// The acknowledgment number counts.
        const ACK = 0x10;
        /// The urgent pointer counts.
        const URG = 0x20;
        /// Congestion experienced, echoed (RFC 3168).
        const ECE = 0x40;
        /// Congestion window reduced (RFC 3168).
        const CWR = 0x80;
    }
}

impl fmt::Display for TcpFlags {
    /// `SYN,ACK`; `-` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        for (index, (name, _)) in self.iter_names().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

reasons! {
    /// Why a TCP segment is refused.
    pub enum TcpReason {
        /// TCP segment is shorter than its header.
        TooShort = "tcp-too-short",
        /// TCP data offset is below 5 words.
        BadDataOffset = "tcp-bad-data-offset",
        /// TCP options go beyond the head that was looked at: pull more of the packet and look again.
        HeadTooShort = "tcp-head-too-short",
    }
}

impl TcpHeader {
    /// Length of the header with options in bytes, as it claims: 0..=60; in a checked header at least 20.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        (self.data_offset >> 4) as usize * 4
    }

    /// Flags.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits_retain(self.flag_bits)
    }

    /// The header at the start of `head` and its options. `ip_payload_len` is what IP carries, in bytes.
    ///
    /// # Errors
    /// The first [`TcpReason`] that applies.
    #[inline]
    pub fn check(head: &[u8], ip_payload_len: usize) -> Result<(&Self, TcpOptions<'_>), TcpReason> {
        let (header, rest) = Self::parse(head).map_err(|_| TcpReason::TooShort)?;
        let header_len = header.header_len();
        let Some(options_len) = header_len.checked_sub(Self::LEN) else {
            return Err(TcpReason::BadDataOffset);
        };
        if header_len > ip_payload_len {
            return Err(TcpReason::TooShort);
        }
        let options = rest.get(..options_len).ok_or(TcpReason::HeadTooShort)?;
        Ok((header, TcpOptions::new(options)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_reason_occurs() {
        let mut bytes = [0; 40];
        let reason = |bytes: &[u8], len| TcpHeader::check(bytes, len).err();
        bytes[12] = 0x50;
        assert_eq!(reason(&bytes[..20], 20), None);
        assert_eq!(reason(&bytes[..19], 20), Some(TcpReason::TooShort));
        bytes[12] = 0x40;
        assert_eq!(reason(&bytes, 40), Some(TcpReason::BadDataOffset));
        bytes[12] = 0xa0;
        assert_eq!(reason(&bytes, 40), None);
        assert_eq!(reason(&bytes, 39), Some(TcpReason::TooShort));
        assert_eq!(reason(&bytes[..39], 40), Some(TcpReason::HeadTooShort));
    }

    #[test]
    fn flags_have_names() {
        assert_eq!((TcpFlags::SYN | TcpFlags::ACK).to_string(), "SYN,ACK");
        assert_eq!(TcpFlags::empty().to_string(), "-");
    }
}
