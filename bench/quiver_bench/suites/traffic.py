"""The packets of a suite, and the addresses around a device."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

#: MAC addresses: the device's left and right interface, and who the generator plays behind them.
DEVICE_LEFT_MAC, DEVICE_RIGHT_MAC = "02:00:00:00:00:01", "02:00:00:00:00:03"
PEER_LEFT_MAC, PEER_RIGHT_MAC = "02:00:00:00:00:02", "02:00:00:00:00:04"


@dataclass(frozen=True)
class Addresses:
    """One side of the device: its own address, the peer's, and the first of those behind the peer."""

    device: str
    peer: str
    first: str
    prefix: int


LEFT4 = Addresses("10.0.0.1", "10.0.0.2", "16.0.0.1", 24)
RIGHT4 = Addresses("10.0.1.1", "10.0.1.2", "20.0.0.1", 24)
LEFT6 = Addresses("fd00:a::1", "fd00:a::2", "2001:1::1", 64)
RIGHT6 = Addresses("fd00:b::1", "fd00:b::2", "2001:2::1", 64)


def sides(ipv6: bool) -> tuple[Addresses, Addresses]:
    """Left and right."""
    return (LEFT6, RIGHT6) if ipv6 else (LEFT4, RIGHT4)


def routes(side: Addresses, count: int) -> list[str]:
    """Host routes to ``count`` addresses behind a peer, counted up; none where only the peer itself is addressed."""
    if count <= 1:
        return []
    if ":" in side.first:
        start6 = int(IPv6Address(side.first))
        return [f"{IPv6Address(start6 + n)}/128" for n in range(count)]
    start4 = int(IPv4Address(side.first))
    return [f"{IPv4Address(start4 + n)}/32" for n in range(count)]


@dataclass(frozen=True)
class Traffic:
    """What the generator sends, from left to right."""

    #: Bytes in the buffer (no checksum), each with its weight.
    sizes: tuple[tuple[int, int], ...]
    ipv6: bool = False
    destinations: int = 1
    random: bool = False
    vlan: int | None = None

    @property
    def mean_size(self) -> float:
        """Mean frame length in bytes, without checksum."""
        return sum(size * weight for size, weight in self.sizes) / sum(weight for _, weight in self.sizes)

    @property
    def full(self) -> bool:
        """Whether the generator writes and reads every byte: always where a frame is more than a cache line or two."""
        return self.mean_size > 128

    @property
    def source(self) -> str:
        """Source address."""
        return sides(self.ipv6)[0].peer

    @property
    def destination(self) -> str:
        """First destination: behind the right peer, or that peer itself."""
        right = sides(self.ipv6)[1]
        return right.first if self.destinations > 1 else right.peer
