//! TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018).

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment the sender takes, in bytes.
    MaximumSegmentSize(u16),
    /// Bits by which windows are shifted.
    WindowScale(u8),
    /// Selective acknowledgments may be sent.
    SackPermitted,
    /// Selective acknowledgments: pairs of 32-bit sequence numbers.
    Sack(&'a [u8]),
    /// Timestamps.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The last value it got from the other side.
        echo: u32,
    },
    /// Anything else, and known kinds with a length that isn't theirs.
    Other {
        /// Option kind.
        kind: u8,
        /// Bytes after kind and length.
        data: &'a [u8],
    },
}

/// Iterator over options; padding is skipped. Ends at end-of-list, at the last byte, or with one `Err` (the
/// offset of the broken option from the start of the TCP header) where a length is wrong. At most 40 steps.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> TcpOptions<'a> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;

    /// Over the bytes between fixed header and data; what exceeds the possible 40 is ignored.
    #[must_use]
    pub fn new(options: &'a [u8]) -> Self {
        Self { bytes: options.get(..40).unwrap_or(options), offset: 20 }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.bytes {
                [] | [Self::END, ..] => return None,
                [Self::NO_OPERATION, ref rest @ ..] => {
                    self.bytes = rest;
                    self.offset += 1;
                }
                [kind, ref rest @ ..] => {
                    let offset = self.offset;
                    // the length counts kind and itself
                    let len = rest.first().map_or(0, |len| usize::from(*len));
                    let Some(([_, _, data @ ..], after)) = self.bytes.split_at_checked(len) else {
                        self.bytes = &[];
                        return Some(Err(offset));
                    };
                    self.bytes = after;
                    self.offset += len;
                    return Some(Ok(option(kind, data)));
                }
            }
        }
    }
}

fn option(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data) {
        (2, &[a, b]) => TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b])),
        (3, &[shift]) => TcpOption::WindowScale(shift),
        (4, &[]) => TcpOption::SackPermitted,
        (5, data) if data.len() % 8 == 0 => TcpOption::Sack(data),
        (8, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        },
        (kind, data) => TcpOption::Other { kind, data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_known_kind_with_another_length_is_other() {
        let found: Vec<_> = TcpOptions::new(&[2, 3, 9]).collect();
        assert_eq!(found, [Ok(TcpOption::Other { kind: 2, data: &[9] })]);
    }

    #[test]
    fn a_wrong_length_ends_it_once() {
        for options in [&[2u8][..], &[2, 0, 5, 180], &[2, 1, 5, 180], &[2, 5, 5, 180]] {
            let found: Vec<_> = TcpOptions::new(options).collect();
            assert_eq!(found, [Err(20)], "{options:?}");
        }
    }
}
