//! What differs between IP versions where addresses are replaced.

use super::edit::Edit;
use super::{Translation, ordinary};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use graph::packet::{HEAD_AREA, Meta};
use tables::session::Key;
use wire::checksum::{Delta, Partial};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, walk};
use wire::{Header, IpProtocol};

/// An address and a port, in host byte order.
pub(in super::super) type End<A> = (A, u16);

/// Source, destination, and where the transport header begins.
pub(super) type Quoted<A> = (A, A, usize);

/// An address of an IP version, in host byte order.
pub(in super::super) trait Address: Copy + Default + PartialEq + Send + 'static {
    /// Whether it is the sixth.
    const IS_V6: bool;
    /// The ICMP of that version.
    const ICMP: IpProtocol;
    /// Whether that has a checksum over the addresses, too.
    const ICMP_COVERS_ADDRESSES: bool;
    /// Where source and destination are in a header.
    const SRC: usize;
    const DST: usize;
    /// Where its checksum is, if it has one.
    const CHECKSUM: Option<usize>;

    /// That address, if it is of the version.
    fn of(address: IpAddr) -> Option<Self>;

    /// The same for everybody.
    fn ip(self) -> IpAddr;

    /// The lower and the higher endpoint of a key of the version.
    fn ends(key: &Key) -> (End<Self>, End<Self>);

    /// Its part of a checksum.
    fn sum(self) -> Partial;

    /// Source and destination of the header that these bytes begin with.
    fn addresses(header: &[u8]) -> Option<[Self; 2]>;

    /// Replaces them; `delta` is what that does to checksums.
    fn replace(header: &mut [u8], addresses: [Self; 2], delta: Delta);

    /// Translates an [ordinary](super::ordinary) packet, if it is one of the session; gives whether it was.
    #[inline(always)]
    fn replace_ordinary(
        _: (&Meta, &mut [u8; HEAD_AREA]),
        _: &Key,
        _: &Translation<Self>,
        _leaves: bool,
    ) -> bool {
        false
    }

    /// What the packet says that these bytes begin with.
    fn quoted(bytes: &[u8]) -> Option<Quoted<Self>>;

    /// The address at a position.
    fn get(edit: &Edit<'_>, at: usize) -> Option<Self>;

    /// Replaces the one there.
    fn put(self, edit: &mut Edit<'_>, at: usize) -> Option<()>;
}

impl Address for u32 {
    const IS_V6: bool = false;
    const ICMP: IpProtocol = IpProtocol::ICMP;
    const ICMP_COVERS_ADDRESSES: bool = false;
    const SRC: usize = 12;
    const DST: usize = 16;
    const CHECKSUM: Option<usize> = Some(10);

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address.to_bits()),
            IpAddr::V6(_) => None,
        }
    }

    fn ip(self) -> IpAddr {
        Ipv4Addr::from_bits(self).into()
    }

    #[inline(always)]
    fn ends(key: &Key) -> (End<Self>, End<Self>) {
        key.v4_endpoints()
    }

    #[inline(always)]
    fn sum(self) -> Partial {
        Partial::of_u32(self)
    }

    #[inline(always)]
    fn addresses(header: &[u8]) -> Option<[Self; 2]> {
        let header = header.first_chunk::<{ Ipv4Header::LEN }>()?;
        let word =
            |at: usize| Self::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Some([word(Self::SRC), word(Self::DST)])
    }

    #[inline(always)]
    fn replace(header: &mut [u8], addresses: [Self; 2], delta: Delta) {
        let Some(header) = header.first_chunk_mut::<{ Ipv4Header::LEN }>() else { return };
        header[Self::SRC..Self::SRC + 4].copy_from_slice(&addresses[0].to_be_bytes());
        header[Self::DST..Self::DST + 4].copy_from_slice(&addresses[1].to_be_bytes());
        let checksum = delta.apply(u16::from_be_bytes([header[10], header[11]]));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    #[inline(always)]
    fn replace_ordinary(
        packet: (&Meta, &mut [u8; HEAD_AREA]),
        key: &Key,
        translation: &Translation<Self>,
        leaves: bool,
    ) -> bool {
        ordinary::replace(packet, key, translation, leaves)
    }

    fn quoted(bytes: &[u8]) -> Option<Quoted<Self>> {
        let (header, _) = Ipv4Header::parse(bytes).ok()?;
        let [src, dst] = [header.src, header.dst].map(Self::from_be_bytes);
        Some((src, dst, header.header_len().max(Ipv4Header::LEN)))
    }

    fn get(edit: &Edit<'_>, at: usize) -> Option<Self> {
        Some(Self::from(edit.get(at)?) << 16 | Self::from(edit.get(at + 2)?))
    }

    fn put(self, edit: &mut Edit<'_>, at: usize) -> Option<()> {
        edit.put(at, (self >> 16) as u16)?;
        edit.put(at + 2, self as u16)
    }
}

/// An IPv6 address, upper half first: with no more alignment than a session's other facts have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Address6([u64; 2]);

impl From<u128> for Address6 {
    #[inline(always)]
    fn from(address: u128) -> Self {
        Self([(address >> 64) as u64, address as u64])
    }
}

impl Address6 {
    #[inline(always)]
    fn bits(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }

    #[inline(always)]
    fn at(header: &[u8; Ipv6Header::LEN], at: usize) -> Self {
        Self::from(u128::from_be_bytes(core::array::from_fn(|byte| header[at + byte])))
    }
}

impl Address for Address6 {
    const IS_V6: bool = true;
    const ICMP: IpProtocol = IpProtocol::ICMPV6;
    const ICMP_COVERS_ADDRESSES: bool = true;
    const SRC: usize = 8;
    const DST: usize = 24;
    const CHECKSUM: Option<usize> = None;

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V6(address) => Some(address.to_bits().into()),
            IpAddr::V4(_) => None,
        }
    }

    fn ip(self) -> IpAddr {
        Ipv6Addr::from_bits(self.bits()).into()
    }

    #[inline(always)]
    fn ends(key: &Key) -> (End<Self>, End<Self>) {
        let (low, high) = key.v6_endpoints();
        ((low.0.into(), low.1), (high.0.into(), high.1))
    }

    #[inline(always)]
    fn sum(self) -> Partial {
        Partial::of_header(&self.bits().to_be_bytes())
    }

    #[inline(always)]
    fn addresses(header: &[u8]) -> Option<[Self; 2]> {
        let header = header.first_chunk::<{ Ipv6Header::LEN }>()?;
        Some([Self::at(header, Self::SRC), Self::at(header, Self::DST)])
    }

    #[inline(always)]
    fn replace(header: &mut [u8], addresses: [Self; 2], _: Delta) {
        let Some(header) = header.first_chunk_mut::<{ Ipv6Header::LEN }>() else { return };
        header[Self::SRC..Self::DST].copy_from_slice(&addresses[0].bits().to_be_bytes());
        header[Self::DST..].copy_from_slice(&addresses[1].bits().to_be_bytes());
    }

    fn quoted(bytes: &[u8]) -> Option<Quoted<Self>> {
        let (header, _) = Ipv6Header::parse(bytes).ok()?;
        let [src, dst] = [header.src, header.dst].map(|bytes| Self::from(u128::from_be_bytes(bytes)));
        let behind = match header.next_header.is_extension() {
            true => walk(bytes).ok()?.offset,
            false => Ipv6Header::LEN,
        };
        Some((src, dst, behind))
    }

    fn get(edit: &Edit<'_>, at: usize) -> Option<Self> {
        let mut bits = 0;
        for word in 0..8 {
            bits = bits << 16 | u128::from(edit.get(at + 2 * word)?);
        }
        Some(bits.into())
    }

    fn put(self, edit: &mut Edit<'_>, at: usize) -> Option<()> {
        (0..8).try_for_each(|word| edit.put(at + 2 * word, (self.bits() >> (112 - 16 * word)) as u16))
    }
}
