//! Options inside hop-by-hop and destination options headers (RFC 8200 section 4.2).

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// Its type, e.g. 5 router alert.
    pub kind: u8,
    /// Where its type stands, counted from the start of the slice that was given to [`Ipv6Options::new`].
    pub offset: usize,
    /// Bytes after type and length.
    pub data: &'a [u8],
}

/// What to do with an option that isn't known: the two highest bits of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOption {
    /// Skip it.
    Skip,
    /// Drop the packet.
    Drop,
    /// Drop it and send an ICMPv6 parameter problem, code 2, pointing at the option.
    DropAndTell,
    /// The same, but only if the destination was no multicast address.
    DropAndTellUnicast,
}

impl Ipv6Option<'_> {
    /// Router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 0x05;
    /// Jumbo payload (RFC 2675).
    pub const JUMBO_PAYLOAD: u8 = 0xc2;

    /// What to do if the option isn't known.
    #[must_use]
    pub const fn when_unknown(&self) -> UnknownOption {
        match self.kind >> 6 {
            0 => UnknownOption::Skip,
            1 => UnknownOption::Drop,
            2 => UnknownOption::DropAndTell,
            _ => UnknownOption::DropAndTellUnicast,
        }
    }
}

/// Iterator over the options of one extension header; padding is skipped. Ends at the last byte, or with one
/// `Err` (the offset of the broken option) where a length is wrong.
#[derive(Clone, Debug)]
pub struct Ipv6Options<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Ipv6Options<'a> {
    const PAD1: u8 = 0;
    const PADN: u8 = 1;

    /// Over the options of `header`: the bytes of the extension header, its first two included.
    #[must_use]
    pub fn new(header: &'a [u8]) -> Self {
        Self { bytes: header.get(2..).unwrap_or_default(), offset: 2 }
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Result<Ipv6Option<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let offset = self.offset;
            match *self.bytes {
                [] => return None,
                [Self::PAD1, ref rest @ ..] => {
                    self.bytes = rest;
                    self.offset += 1;
                }
                [kind, len, ref rest @ ..] if rest.len() >= usize::from(len) => {
                    let (data, after) = rest.split_at(usize::from(len));
                    self.bytes = after;
                    self.offset += 2 + data.len();
                    if kind != Self::PADN {
                        return Some(Ok(Ipv6Option { kind, offset, data }));
                    }
                }
                _ => {
                    self.bytes = &[];
                    return Some(Err(offset));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn padding_is_skipped() {
        // next header, length, router alert, PadN of 2
        let found: Vec<_> = Ipv6Options::new(&[58, 0, 5, 2, 0, 0, 1, 0]).collect();
        assert_eq!(found, [Ok(Ipv6Option { kind: Ipv6Option::ROUTER_ALERT, offset: 2, data: &[0, 0] })]);
        assert_eq!(Ipv6Options::new(&[58, 0, 0, 0, 0, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn a_wrong_length_ends_it_once() {
        for header in [&[58, 0, 5, 3, 0, 0][..], &[58, 0, 5]] {
            let found: Vec<_> = Ipv6Options::new(header).collect();
            assert_eq!(found, [Err(2)], "{header:?}");
        }
    }

    #[test]
    fn what_to_do_with_the_unknown() {
        let action = |kind| Ipv6Option { kind, offset: 2, data: &[] }.when_unknown();
        assert_eq!(action(0x1e), UnknownOption::Skip);
        assert_eq!(action(0x5e), UnknownOption::Drop);
        assert_eq!(action(0x9e), UnknownOption::DropAndTell);
        assert_eq!(action(0xde), UnknownOption::DropAndTellUnicast);
    }
}
