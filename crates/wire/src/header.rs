//! The one idiom of this crate: a header is a struct laid over the first bytes of a slice.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A header of fixed size that can be laid over bytes at any address.
///
/// Implementors are `#[repr(C)]` with alignment 1 and no padding, multi-byte fields in network byte order, so
/// a view costs one length comparison. [`Header::parse`] says only that enough bytes are there; whether their
/// *contents* make sense is the business of each header's own `check`.
///
/// The rest that is handed back is what follows the fixed part **in this slice**. The packet may go on
/// elsewhere, so lengths on the wire are compared with a length the caller passes, never with the slice's.
pub trait Header: Sized + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned {
    /// Name as it stands in errors and traces, e.g. `IPv4`.
    const NAME: &'static str;

    /// Size of the fixed part in bytes.
    const LEN: usize = size_of::<Self>();

    /// The header at the start of `bytes`, and the bytes after it.
    ///
    /// # Errors
    /// [`Truncated`] when `bytes` is shorter than [`Header::LEN`].
    #[inline]
    fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Truncated> {
        Self::ref_from_prefix(bytes).map_err(|_| Truncated::new::<Self>(bytes.len()))
    }

    /// As [`Header::parse`], for changing the header in place.
    ///
    /// # Errors
    /// [`Truncated`] when `bytes` is shorter than [`Header::LEN`].
    #[inline]
    fn parse_mut(bytes: &mut [u8]) -> Result<(&mut Self, &mut [u8]), Truncated> {
        let have = bytes.len();
        Self::mut_from_prefix(bytes).map_err(|_| Truncated::new::<Self>(have))
    }

    /// Writes the header to the start of `bytes` and hands back the bytes after it.
    ///
    /// # Errors
    /// [`Truncated`] when `bytes` is shorter than [`Header::LEN`]; nothing is written then.
    #[inline]
    fn emit<'a>(&self, bytes: &'a mut [u8]) -> Result<&'a mut [u8], Truncated> {
        let have = bytes.len();
        match bytes.split_at_mut_checked(Self::LEN) {
            Some((head, rest)) => {
                head.copy_from_slice(self.as_bytes());
                Ok(rest)
            }
            None => Err(Truncated::new::<Self>(have)),
        }
    }
}

/// Too few bytes for a header: the slice ends before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Which header, see [`Header::NAME`].
    pub header: &'static str,
    /// Bytes it takes.
    pub need: usize,
    /// Bytes that were there.
    pub have: usize,
}

impl Truncated {
    fn new<H: Header>(have: usize) -> Self {
        Self { header: H::NAME, need: H::LEN, have }
    }
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} header takes {} bytes, {} are there", self.header, self.need, self.have)
    }
}

impl core::error::Error for Truncated {}
