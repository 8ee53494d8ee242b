//! How a packet is cut: ranges and headers, without packets (RFC 791 section 3.2, "An Example Fragmentation Procedure").

use wire::ipv4::{Ipv4Flags, Ipv4Header, Ipv4Options};
use wire::{FromBytes, Header, U16};

/// An IPv4 header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderBytes {
    bytes: [u8; Ipv4Header::MAX_LEN],
    len: usize,
}

impl HeaderBytes {
    /// The header at the start of `head`, with all its options. `None` where it isn't there whole.
    pub(super) fn first(head: &[u8]) -> Option<Self> {
        let (header, _) = Ipv4Header::parse(head).ok()?;
        let len = header.header_len();
        let mut bytes = [0; Ipv4Header::MAX_LEN];
        bytes.get_mut(..len)?.copy_from_slice(head.get(..len)?);
        (len >= Ipv4Header::LEN).then_some(Self { bytes, len })
    }

    /// The header of the fragments behind the first: only options with the copy bit, padded to a word.
    pub(super) fn later(&self) -> Self {
        let mut later = Self { len: Ipv4Header::LEN, bytes: [0; Ipv4Header::MAX_LEN] };
        later.bytes[..Ipv4Header::LEN].copy_from_slice(&self.bytes[..Ipv4Header::LEN]);
        for option in Ipv4Options::new(&self.bytes[Ipv4Header::LEN..self.len]).flatten() {
            let option_len = 2 + option.data.len();
            let source = self.bytes.get(option.offset..option.offset + option_len);
            let room = later.bytes.get_mut(later.len..later.len + option_len);
            if let (true, Some(source), Some(room)) = (option.is_copied(), source, room) {
                room.copy_from_slice(source);
                later.len += option_len;
            }
        }
        later.len = later.len.next_multiple_of(4);
        later.bytes[0] = 4 << 4 | (later.len / 4) as u8;
        later
    }

    /// Bytes of header and options.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes of the header of a fragment with `payload` bytes from `offset` on (both in bytes; `offset` a
    /// multiple of 8), more of which follow or not.
    pub(super) fn of_fragment(&mut self, offset: usize, payload: usize, more: bool) -> &[u8] {
        let (fixed, options) = self.bytes[..self.len].split_at_mut(Ipv4Header::LEN);
        if let Ok((header, _)) = Ipv4Header::mut_from_prefix(fixed) {
            header.set_fragment(if more { Ipv4Flags::MORE_FRAGMENTS } else { Ipv4Flags::empty() }, offset);
            header.total_len = U16::new((Ipv4Header::LEN + options.len() + payload) as u16);
            header.checksum = U16::new(header.compute_checksum(options));
        }
        &self.bytes[..self.len]
    }
}

/// The pieces of a payload of `payload` bytes: range of each, in order. `first` and `later` are the bytes of payload that
/// fit a fragment; all but the last piece are multiples of 8. `None` where not even 8 bytes fit.
pub(super) fn pieces(
    payload: usize,
    first: usize,
    later: usize,
) -> Option<impl Iterator<Item = (usize, usize)>> {
    let (first, later) = (first & !7, later & !7);
    let mut at = 0;
    (first > 0 && later > 0).then(|| {
        core::iter::from_fn(move || {
            let from = at;
            at = payload.min(from + if from == 0 { first } else { later });
            (from < at).then_some((from, at))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_and_all_but_the_last_are_words_of_eight() {
        let cut = |payload, first, later| pieces(payload, first, later).map(|p| p.collect::<Vec<_>>());
        assert_eq!(cut(4000, 1480, 1480), Some(vec![(0, 1480), (1480, 2960), (2960, 4000)]));
        assert_eq!(cut(100, 47, 49), Some(vec![(0, 40), (40, 88), (88, 100)]));
        assert_eq!(cut(16, 8, 8), Some(vec![(0, 8), (8, 16)]));
        assert_eq!(cut(100, 7, 8), None);
    }

    #[test]
    fn only_options_with_the_copy_bit_are_in_later_fragments() {
        // record route (7, not copied), router alert (148, copied), end
        let mut head = [0; 32];
        head[0] = 0x48;
        head[20..32].copy_from_slice(&[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0]);
        let first = HeaderBytes::first(&head).unwrap();
        let later = first.later();
        assert_eq!((first.len(), later.len()), (32, 24));
        assert_eq!(later.bytes[20..24], [148, 4, 0, 0]);
        assert_eq!(later.bytes[0], 0x46);
        assert_eq!(HeaderBytes::first(&head[..31]), None, "options beyond the head");
    }
}
