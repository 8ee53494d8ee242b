//! The signature at the end of a payload, by which a receiver knows a packet whatever was put before it.
//!
//! ```text
//!              0        2        4                6       8     10       16     bytes
//!  [timestamp] │ magic  │ stream │ payload length │ check │ run │ sequence │
//!  8 bytes, in latency streams only
//! ```
//! Big endian. It ends with the frame: tags, tunnels and rewritten headers don't hide it. *Run* tells packets of this run
//! from those of an earlier one that are still under way. *Payload length* counts from the
//! first byte after the innermost header to the end. *Check* is chosen so that the payload's 16-bit words, counted from its
//! first byte, sum up to 0xffff (ones' complement, RFC 1071). So one number says that the payload is whole, and all
//! payloads of a stream weigh the same in the checksums of UDP, TCP and ICMP, which need no change from packet to packet.

use wire::checksum::Partial;

/// Bytes of a signature without a timestamp.
pub const LEN: usize = 16;
/// Bytes of a signature with a timestamp in front.
pub const STAMPED_LEN: usize = 24;

const MAGIC: u16 = 0x5147;
const MAGIC_STAMPED: u16 = 0x514c;

/// Bits of a sequence number: a month at 100 million packets per second.
const SEQUENCE: u32 = 48;

/// What all signatures of a lane say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the run.
    pub run: u16,
    /// Number that the packet's lane has in this run.
    pub lane: u16,
    /// A timestamp stands before it.
    pub stamped: bool,
}

/// What a signature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Whose it is.
    pub mark: Mark,
    /// Bytes from the first one of the payload to the end of the frame.
    pub payload_len: u16,
    /// Number of the packet in its lane, from 0.
    pub sequence: u64,
}

impl Signature {
    /// The bytes, with 0 for the check.
    #[inline(always)]
    #[must_use]
    pub const fn unchecked(self) -> [u8; LEN] {
        let magic = if self.mark.stamped { MAGIC_STAMPED } else { MAGIC };
        let front = (magic as u64) << 48 | (self.mark.lane as u64) << 32 | (self.payload_len as u64) << 16;
        ((front as u128) << 64 | self.number() as u128).to_be_bytes()
    }

    /// Run and sequence as one number; the next packet's is greater by one.
    #[inline(always)]
    #[must_use]
    pub const fn number(self) -> u64 {
        (self.mark.run as u64) << SEQUENCE | self.sequence
    }

    /// What the last bytes of a frame say, if they are a signature. The check isn't looked at.
    #[inline(always)]
    #[must_use]
    pub const fn read(bytes: &[u8; LEN]) -> Option<Self> {
        let all = u128::from_be_bytes(*bytes);
        let magic = (all >> 112) as u16;
        if magic != MAGIC && magic != MAGIC_STAMPED {
            return None;
        }
        let number = all as u64;
        let (run, lane, stamped) = ((number >> SEQUENCE) as u16, (all >> 96) as u16, magic == MAGIC_STAMPED);
        Some(Self {
            mark: Mark { run, lane, stamped },
            payload_len: (all >> 80) as u16,
            sequence: number & ((1 << SEQUENCE) - 1),
        })
    }
}

/// The check for a payload whose other bytes sum up to `sum`, in the order of the wire. `odd`: the signature begins at an
/// odd distance from the payload's first byte.
#[inline(always)]
#[must_use]
pub const fn check(sum: Partial, odd: bool) -> [u8; 2] {
    let check = sum.checksum().to_be_bytes();
    if odd { [check[1], check[0]] } else { check }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_whole(payload: &[u8]) -> bool {
        Partial::of(payload).is_valid()
    }

    fn payload(len: usize, signature: Signature) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|at| (at * 31) as u8).collect();
        let at = len - LEN;
        bytes[at..].copy_from_slice(&signature.unchecked());
        let check = check(Partial::of(&bytes), at % 2 == 1);
        bytes[at + 6..at + 8].copy_from_slice(&check);
        bytes
    }

    #[test]
    fn comes_back_as_it_was_written_at_any_parity() {
        for len in 16..80 {
            let mark = Mark { run: 0xabcd, lane: 7, stamped: len % 3 == 0 };
            let written = Signature { mark, payload_len: len as u16, sequence: (1 << SEQUENCE) - 5 };
            let bytes = payload(len, written);
            assert_eq!(Signature::read(bytes.last_chunk().unwrap()), Some(written));
            assert!(is_whole(&bytes), "{len} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let written =
            Signature { mark: Mark { run: 2, lane: 1, stamped: false }, payload_len: 45, sequence: 99 };
        let whole = payload(45, written);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&bytes), "bit {bit}");
        }
    }

    #[test]
    fn other_bytes_are_no_signature() {
        assert_eq!(Signature::read(&[0; LEN]), None);
        assert_eq!(Signature::read(b"GET / HTTP/1.1\r\n"), None);
    }
}
