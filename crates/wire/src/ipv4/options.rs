//! IPv4 options (RFC 791 section 3.1).

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Copied flag, class and number in one byte, e.g. 7 record route, 148 router alert.
    pub kind: u8,
    /// Where its first byte stands, counted from the start of the IP header (what ICMP's pointer wants).
    pub offset: usize,
    /// Bytes after kind and length.
    pub data: &'a [u8],
}

impl Ipv4Option<'_> {
    /// Record route (RFC 791).
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp (RFC 791).
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route (RFC 791).
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route (RFC 791).
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;

    /// Whether the option goes into every fragment, not only the first.
    #[must_use]
    pub const fn is_copied(&self) -> bool {
        self.kind & 0x80 != 0
    }

    /// Loose or strict source route.
    #[must_use]
    pub const fn is_source_route(&self) -> bool {
        matches!(self.kind, Self::LOOSE_SOURCE_ROUTE | Self::STRICT_SOURCE_ROUTE)
    }
}

/// Iterator over options; padding is skipped. Ends at end-of-list, at the last byte, or with one `Err` (the
/// offset of the broken option from the start of the IP header) where a length is wrong. At most 40 steps.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Ipv4Options<'a> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;

    /// Over the bytes between fixed header and payload; what exceeds the possible 40 is ignored.
    #[must_use]
    pub fn new(options: &'a [u8]) -> Self {
        Self { bytes: options.get(..40).unwrap_or(options), offset: 20 }
    }
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, usize>;

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
                    let Some((option, after)) = self.bytes.split_at_checked(len) else {
                        self.bytes = &[];
                        return Some(Err(offset));
                    };
                    let [_, _, data @ ..] = option else {
                        self.bytes = &[];
                        return Some(Err(offset));
                    };
                    self.bytes = after;
                    self.offset += len;
                    return Some(Ok(Ipv4Option { kind, offset, data }));
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
    fn padding_and_end() {
        let options = [1, 148, 4, 0, 0, 1, 7, 3, 4, 0, 99, 99];
        let found: Vec<_> = Ipv4Options::new(&options).collect();
        assert_eq!(
            found,
            [
                Ok(Ipv4Option { kind: Ipv4Option::ROUTER_ALERT, offset: 21, data: &[0, 0] }),
                Ok(Ipv4Option { kind: Ipv4Option::RECORD_ROUTE, offset: 26, data: &[4] }),
            ]
        );
    }

    #[test]
    fn a_wrong_length_ends_it_once() {
        for options in [&[7u8][..], &[7, 0, 0, 0], &[7, 1, 0, 0], &[7, 5, 0, 0]] {
            let found: Vec<_> = Ipv4Options::new(options).collect();
            assert_eq!(found, [Err(20)], "{options:?}");
        }
    }
}
