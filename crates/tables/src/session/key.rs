//! The normalised 6-tuple.

use core::net::{IpAddr, Ipv6Addr};

/// An address with a port (or what stands for one).
pub type Endpoint = (IpAddr, u16);

/// Context, two endpoints in ascending order, protocol. Both directions of a flow have the same key.
///
/// The order is that of (address, port): two hosts of the same address, or a host that speaks with itself, are told apart by
/// their ports. Where these are equal too, both directions look the same and count as forward.
///
/// Protocols without ports have something that is the same both ways in their place: the identifier of an ICMP echo (twice), or 0.
///
/// Where the caller has keys of its own ([`Key::parsed`]), these are in the place of the addresses, and the IP version is none.
///
/// Flows of ESP and AH are [one-way](Key::is_one_way): an SPI is its receiver's, and what comes back has another one, which nobody on the way can know
/// (RFC 4301 section 4.1). There, the source is the lower endpoint, whatever its address, and the halves of the SPI stand for the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Key {
    /// IPv6: lower address, higher address, most significant half first. IPv4: both in the first word.
    addresses: [u64; 4],
    /// Port of the lower endpoint (16 bits), of the higher one (16), context (16), protocol (8), IP version (8).
    rest: u64,
}

const _: () = assert!(size_of::<Key>() == 40);

/// Bytes that a key of the caller's own has.
pub const PARSED_BYTES: usize = 32;

/// In the place of the IP version: a key of the caller's own.
const PARSED: u8 = 0xff;
/// In the place of the protocol: its packets have both directions, or one. Neither is a protocol that has sessions otherwise; the second stands behind ESP and AH, so that asking for all three takes no more
/// than asking for these.
const BOTH_WAYS: u8 = 0;
const ONE_WAY: u8 = 52;

#[inline(always)]
const fn rest(low_port: u16, high_port: u16, context: u16, protocol: u8, version: u8) -> u64 {
    (low_port as u64) << 48
        | (high_port as u64) << 32
        | (context as u64) << 16
        | (protocol as u64) << 8
        | version as u64
}

impl Key {
    /// No flow's key.
    pub const NONE: Self = Self { addresses: [0; 4], rest: 0 };

    /// The key of an IPv4 packet, and whether its source is the higher endpoint. Addresses in host byte order.
    #[inline(always)]
    #[must_use]
    pub fn v4(context: u16, protocol: u8, source: (u32, u16), destination: (u32, u16)) -> (Self, bool) {
        let join = |(address, port): (u32, u16)| u64::from(address) << 16 | u64::from(port);
        let (source, destination) = (join(source), join(destination));
        let (low, high) = (source.min(destination), source.max(destination));
        let addresses = [low >> 16 << 32 | high >> 16, 0, 0, 0];
        let rest = rest(low as u16, high as u16, context, protocol, 4);
        (Self { addresses, rest }, source > destination)
    }

    /// The key of an IPv6 packet, likewise.
    #[inline(always)]
    #[must_use]
    pub fn v6(context: u16, protocol: u8, source: (u128, u16), destination: (u128, u16)) -> (Self, bool) {
        let reversed = source > destination;
        let (low, high) = if reversed { (destination, source) } else { (source, destination) };
        let addresses = [(low.0 >> 64) as u64, low.0 as u64, (high.0 >> 64) as u64, high.0 as u64];
        (Self { addresses, rest: rest(low.1, high.1, context, protocol, 6) }, reversed)
    }

    /// The key of a packet of either version, likewise. `None` where its addresses are of different ones.
    #[must_use]
    pub fn of(
        context: u16,
        protocol: u8,
        (source, source_port): Endpoint,
        (destination, destination_port): Endpoint,
    ) -> Option<(Self, bool)> {
        match (source, destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let ends = ((a.to_bits(), source_port), (b.to_bits(), destination_port));
                Some(Self::v4_by_protocol(context, protocol, ends.0, ends.1))
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let ends = ((a.to_bits(), source_port), (b.to_bits(), destination_port));
                Some(Self::v6_by_protocol(context, protocol, ends.0, ends.1))
            }
            _ => None,
        }
    }

    /// The key of an IPv4 packet by its protocol: as [`Key::v4`], or of one that is [one-way](Key::is_one_way).
    #[must_use]
    pub fn v4_by_protocol(
        context: u16,
        protocol: u8,
        source: (u32, u16),
        destination: (u32, u16),
    ) -> (Self, bool) {
        if !Self::is_one_way(protocol) {
            return Self::v4(context, protocol, source, destination);
        }
        let addresses = [u64::from(source.0) << 32 | u64::from(destination.0), 0, 0, 0];
        (Self { addresses, rest: rest(source.1, destination.1, context, protocol, 4) }, false)
    }

    /// The key of an IPv6 packet, likewise.
    #[must_use]
    pub fn v6_by_protocol(
        context: u16,
        protocol: u8,
        source: (u128, u16),
        destination: (u128, u16),
    ) -> (Self, bool) {
        if !Self::is_one_way(protocol) {
            return Self::v6(context, protocol, source, destination);
        }
        let addresses =
            [(source.0 >> 64) as u64, source.0 as u64, (destination.0 >> 64) as u64, destination.0 as u64];
        (Self { addresses, rest: rest(source.1, destination.1, context, protocol, 6) }, false)
    }

    /// A key of the caller's own: what its parser of that number has made of a packet. Keys of two parsers are never the same, nor are such a one and one of addresses.
    #[must_use]
    pub fn parsed(context: u16, parser: u8, one_way: bool, bytes: &[u8; PARSED_BYTES]) -> Self {
        let word = |at: usize| {
            bytes
                .get(8 * at..)
                .and_then(|bytes| bytes.first_chunk())
                .map_or(0, |word| u64::from_be_bytes(*word))
        };
        let protocol = if one_way { ONE_WAY } else { BOTH_WAYS };
        let rest = rest(parser.into(), 0, context, protocol, PARSED);
        Self { addresses: core::array::from_fn(word), rest }
    }

    /// Number of the parser that has given it, and what it has given; `None`: it is one of addresses and ports.
    #[must_use]
    pub fn parsed_by(&self) -> Option<(u8, [u8; PARSED_BYTES])> {
        let mut bytes = [0; PARSED_BYTES];
        for (part, word) in bytes.chunks_exact_mut(8).zip(self.addresses) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        self.is_parsed().then_some(((self.rest >> 48) as u8, bytes))
    }

    /// Whether it is one of the caller's own.
    #[inline(always)]
    #[must_use]
    pub const fn is_parsed(&self) -> bool {
        self.rest as u8 == PARSED
    }

    /// Whether packets of flows of a protocol, as keys have it, have one direction: of ESP and AH, and of the caller's own where it says so.
    #[inline(always)]
    #[must_use]
    pub const fn has_one_direction(protocol: u8) -> bool {
        matches!(protocol, 50 | 51 | ONE_WAY)
    }

    /// Whether flows of a protocol have one direction each, and an SPI: ESP (RFC 4303) and AH (RFC 4302).
    #[inline(always)]
    #[must_use]
    pub const fn is_one_way(protocol: u8) -> bool {
        matches!(protocol, 50 | 51)
    }

    /// The security parameters index of a flow of ESP or AH.
    #[must_use]
    pub const fn spi(&self) -> Option<u32> {
        if Self::is_one_way(self.protocol()) { Some((self.rest >> 32) as u32) } else { None }
    }

    /// A key that stands for one endpoint, whoever it speaks with.
    #[must_use]
    pub fn of_endpoint(context: u16, protocol: u8, endpoint: Endpoint) -> Self {
        Self::of(context, protocol, endpoint, endpoint).map_or(Self::NONE, |(key, _)| key)
    }

    /// What stands for the lower and for the higher endpoint, as [`Key::of_endpoint`] makes it.
    #[inline]
    #[must_use]
    pub const fn each_endpoint(&self) -> [Self; 2] {
        let [a, b, c, d] = self.addresses;
        let (low_port, high_port) = ((self.rest >> 48) as u16, (self.rest >> 32) as u16);
        let (context, protocol, version) = (self.context(), self.protocol(), self.rest as u8);
        let (low, high) = if self.is_v4() {
            let (low, high) = (a >> 32, a as u32 as u64);
            ([low << 32 | low, 0, 0, 0], [high << 32 | high, 0, 0, 0])
        } else {
            ([a, b, a, b], [c, d, c, d])
        };
        [
            Self { addresses: low, rest: rest(low_port, low_port, context, protocol, version) },
            Self { addresses: high, rest: rest(high_port, high_port, context, protocol, version) },
        ]
    }

    /// The lower and the higher endpoint; none (`::`, port 0) of a key of the caller's own.
    #[must_use]
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        if self.is_parsed() {
            let nobody = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
            return (nobody, nobody);
        }
        let [a, b, c, d] = self.addresses;
        let (low_port, high_port) = ((self.rest >> 48) as u16, (self.rest >> 32) as u16);
        if self.is_v4() {
            let v4 = |address: u32| IpAddr::V4(address.into());
            ((v4((a >> 32) as u32), low_port), (v4(a as u32), high_port))
        } else {
            let v6 = |high: u64, low: u64| {
                IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
            };
            ((v6(a, b), low_port), (v6(c, d), high_port))
        }
    }

    /// The lower and the higher endpoint of a key of IPv6, addresses in host byte order.
    #[inline(always)]
    #[must_use]
    pub const fn v6_endpoints(&self) -> ((u128, u16), (u128, u16)) {
        let [a, b, c, d] = self.addresses;
        let (low, high) = ((a as u128) << 64 | b as u128, (c as u128) << 64 | d as u128);
        ((low, (self.rest >> 48) as u16), (high, (self.rest >> 32) as u16))
    }

    /// The lower and the higher endpoint of a key of IPv4, addresses in host byte order.
    #[inline(always)]
    #[must_use]
    pub const fn v4_endpoints(&self) -> ((u32, u16), (u32, u16)) {
        let both = self.addresses[0];
        (((both >> 32) as u32, (self.rest >> 48) as u16), (both as u32, (self.rest >> 32) as u16))
    }

    /// Addresses of the lower and of the higher endpoint of a key of IPv4, the lower one's in the upper half, and their ports likewise.
    #[inline(always)]
    #[must_use]
    pub const fn v4_joined(&self) -> (u64, u32) {
        (self.addresses[0], (self.rest >> 32) as u32)
    }

    /// Ports of the lower and of the higher endpoint.
    #[inline(always)]
    #[must_use]
    pub const fn ports(&self) -> (u16, u16) {
        ((self.rest >> 48) as u16, (self.rest >> 32) as u16)
    }

    /// Context.
    #[must_use]
    pub const fn context(&self) -> u16 {
        (self.rest >> 16) as u16
    }

    /// IP protocol.
    #[inline(always)]
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        (self.rest >> 8) as u8
    }

    /// Whether it is of IPv4.
    #[inline(always)]
    #[must_use]
    pub const fn is_v4(&self) -> bool {
        self.rest as u8 == 4
    }

    /// What tells two keys of IPv4 apart, and the rest of the addresses of IPv6.
    #[inline(always)]
    pub(super) const fn parts(&self) -> ([u64; 2], [u64; 3]) {
        let [first, a, b, c] = self.addresses;
        ([first, self.rest], [a, b, c])
    }

    /// The key of these parts. The second is looked at where it is one of IPv6.
    #[inline(always)]
    pub(super) fn of_parts([first, rest]: [u64; 2], more: &[u64; 3]) -> Self {
        let key = Self { addresses: [first, 0, 0, 0], rest };
        if key.is_v4() {
            return key;
        }
        let [a, b, c] = *more;
        Self { addresses: [first, a, b, c], rest }
    }

    #[inline(always)]
    pub(super) const fn words(&self) -> (&[u64; 4], u64) {
        (&self.addresses, self.rest)
    }
}
