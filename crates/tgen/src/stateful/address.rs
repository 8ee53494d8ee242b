//! Addresses as numbers: all that differs between IPv4 and IPv6 for whoever keeps connections.

use super::packet::{
    Datagram, Frame, Framing, Head, Line, Refused, Segment, arp, datagram, datagram6, ndp, segment, segment6,
};
use core::fmt::{self, Debug};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::MacAddr;

/// An address: `u32` is one of IPv4, `u128` one of IPv6. In host byte order.
pub trait Address: Copy + Ord + Debug + Default {
    /// What of a frame is read and written as one: its headers, to the end of TCP's without options.
    type Line: Head;

    /// Ethertype, and the first two bytes of the header.
    const BEGIN: [u8; 4];

    /// Bytes of Ethernet and IP headers.
    const HEADERS: usize;

    /// The address `n` further on, in a ring.
    fn plus(self, n: u32) -> Self;

    /// How many addresses lie between the first of a range and this one; `None` where that isn't among the first 2^32.
    fn behind(self, first: Self) -> Option<u32>;

    /// 64 bits for a hash.
    fn bits(self) -> u64;

    /// Its sum of 16-bit words, not folded.
    fn sum(self) -> u64;

    /// From an address of whatever version.
    fn of(address: IpAddr) -> Option<Self>;

    /// As people write it.
    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Reads a TCP segment.
    ///
    /// # Errors
    /// [`Refused`] when it isn't one.
    fn read_segment(line: &Self::Line, len: usize) -> Result<Segment<Self>, Refused>;

    /// Writes a TCP segment.
    fn segment_frame(segment: &Segment<Self>, framing: &Framing) -> Frame<Self::Line>;

    /// Reads a UDP datagram.
    ///
    /// # Errors
    /// [`Refused`] when it isn't one.
    fn read_datagram(line: &Self::Line, len: usize) -> Result<Datagram<Self>, Refused>;

    /// Writes a UDP datagram.
    fn datagram_frame(datagram: &Datagram<Self>, framing: &Framing) -> Frame<Self::Line>;

    /// The answer to an ARP request or a neighbour solicitation, if `ours` knows the address that is asked for.
    fn answer(question: &[u8], mac: MacAddr, ours: impl Fn(Self) -> bool) -> Option<Vec<u8>>;
}

impl Address for u32 {
    type Line = Line<8>;
    const BEGIN: [u8; 4] = [0x08, 0x00, 0x45, 0x00];
    const HEADERS: usize = 34;

    #[inline(always)]
    fn plus(self, n: u32) -> Self {
        self.wrapping_add(n)
    }

    #[inline(always)]
    fn behind(self, first: Self) -> Option<u32> {
        Some(self.wrapping_sub(first))
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }

    #[inline(always)]
    fn sum(self) -> u64 {
        u64::from(self)
    }

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(_) => None,
        }
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&Ipv4Addr::from(self), f)
    }

    #[inline(always)]
    fn read_segment(line: &Self::Line, len: usize) -> Result<Segment<Self>, Refused> {
        segment::read(line, len)
    }

    #[inline(always)]
    fn segment_frame(segment: &Segment<Self>, framing: &Framing) -> Frame<Self::Line> {
        segment::frame(segment, framing)
    }

    #[inline(always)]
    fn read_datagram(line: &Self::Line, len: usize) -> Result<Datagram<Self>, Refused> {
        datagram::read(line, len)
    }

    #[inline(always)]
    fn datagram_frame(datagram: &Datagram<Self>, framing: &Framing) -> Frame<Self::Line> {
        datagram::frame(datagram, framing)
    }

    fn answer(question: &[u8], mac: MacAddr, ours: impl Fn(Self) -> bool) -> Option<Vec<u8>> {
        arp::answer(question, mac, |address| ours(address.into()))
    }
}

impl Address for u128 {
    type Line = Line<10>;
    const BEGIN: [u8; 4] = [0x86, 0xdd, 0x60, 0x00];
    const HEADERS: usize = 54;

    #[inline(always)]
    fn plus(self, n: u32) -> Self {
        self.wrapping_add(u128::from(n))
    }

    #[inline(always)]
    fn behind(self, first: Self) -> Option<u32> {
        u32::try_from(self.wrapping_sub(first)).ok()
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        // The halves in different places, or prefix and number of a host could cancel each other.
        (self as u64) ^ ((self >> 64) as u64).rotate_left(29)
    }

    #[inline(always)]
    fn sum(self) -> u64 {
        let part = |n: u32| u64::from((self >> (32 * n)) as u32);
        part(0) + part(1) + part(2) + part(3)
    }

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(address.into()),
        }
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&Ipv6Addr::from(self), f)
    }

    #[inline(always)]
    fn read_segment(line: &Self::Line, len: usize) -> Result<Segment<Self>, Refused> {
        segment6::read(line, len)
    }

    #[inline(always)]
    fn segment_frame(segment: &Segment<Self>, framing: &Framing) -> Frame<Self::Line> {
        segment6::frame(segment, framing)
    }

    #[inline(always)]
    fn read_datagram(line: &Self::Line, len: usize) -> Result<Datagram<Self>, Refused> {
        datagram6::read(line, len)
    }

    #[inline(always)]
    fn datagram_frame(datagram: &Datagram<Self>, framing: &Framing) -> Frame<Self::Line> {
        datagram6::frame(datagram, framing)
    }

    fn answer(question: &[u8], mac: MacAddr, ours: impl Fn(Self) -> bool) -> Option<Vec<u8>> {
        ndp::answer(question, mac, |address| ours(address.into()))
    }
}
