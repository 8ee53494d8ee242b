"""The packets of a suite, and the addresses around a device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address

from quiver_bench.suites import tables

#: MAC addresses: the device's left and right interface, and who the generator plays behind them.
DEVICE_LEFT_MAC, DEVICE_RIGHT_MAC = "02:00:00:00:00:01", "02:00:00:00:00:03"
PEER_LEFT_MAC, PEER_RIGHT_MAC = "02:00:00:00:00:02", "02:00:00:00:00:04"
#: The first of many stations behind either.
STATIONS_LEFT, STATIONS_RIGHT = "02:00:01:00:00:00", "02:00:02:00:00:00"


@dataclass(frozen=True)
class Addresses:
    """One side of the device: its own address, the peer's, and the first of those behind the peer."""

    device: str
    peer: str
    first: str
    prefix: int

    def routers(self, count: int) -> list[str]:
        """The peer, and others behind it whose addresses follow its own."""
        peer = ip_address(self.peer)
        return [str(peer + n) for n in range(count)]


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
class Conversations:
    """Connections that clients on the left open to a server on the right."""

    #: ``tcp`` or ``udp``.
    protocol: str
    #: ``cps``: as short as can be; ``tput``: five packets of data each way.
    kind: str
    #: Addresses of clients, and ports of each.
    hosts: int
    ports: int = 63
    #: Packets are sent without keeping state.
    replay: bool = False

    @property
    def sessions(self) -> int:
        """Pairs of a client's address and port."""
        return self.hosts * self.ports

    @property
    def clients(self) -> str:
        """Addresses and ports of clients, as CSIT counts them: from 16.0.0.0, port 1024."""
        first = IPv4Address(CLIENTS.split("/")[0])
        return f"{first}-{first + self.hosts - 1}:1024-{1023 + self.ports}"

    @property
    def servers(self) -> str:
        """Address and port of the server."""
        return f"{SERVERS.split('/')[0]}:80"


#: Networks of clients and servers, behind the left and the right peer.
CLIENTS, SERVERS = "16.0.0.0/8", "48.0.0.1/32"


#: Bytes at a packet's end by which the generator knows it: whose it is, and its number.
SIGNATURE = 16


@dataclass(frozen=True)
class Traffic:
    """What the generator sends: from left to right, and perhaps the same the other way, too."""

    #: Bytes in the buffer (no checksum), each with its weight.
    sizes: tuple[tuple[int, int], ...]
    ipv6: bool = False
    destinations: int = 1
    #: A table that the device routes by, all over which destinations lie, instead of those.
    table: tables.Table | None = None
    #: Stations behind either side, as Ethernet addresses.
    stations: int = 1
    random: bool = False
    #: Source addresses of what goes from left to right.
    flows: int = 1
    vlan: int | None = None
    #: Sent in both directions, each at the load that is asked for.
    both_ways: bool = False
    #: The device hands frames on as they are, so they are addressed to the peer on the other side.
    bridged: bool = False
    #: Connections instead of single packets.
    conversations: Conversations | None = None
    #: Packets are numbered, so that a loss is one though another packet came twice. Frames have room for that.
    sequenced: bool = False
    #: Places in the rings of memif; None: as many as usual.
    ring_size: int | None = None

    @property
    def in_turn(self) -> Traffic | None:
        """The same with each flow, station and destination in turn, where there are many that a device may have to learn."""
        return replace(self, random=False) if self.members > 1 else None

    @property
    def members(self) -> int:
        """How many those are."""
        return max(self.flows, self.stations, self.destinations)

    @property
    def ways(self) -> int:
        """Directions."""
        return 2 if self.both_ways else 1

    @property
    def macs(self) -> tuple[str, str]:
        """Ethernet address of the peer on the left and on the right, or of the first of many."""
        return (STATIONS_LEFT, STATIONS_RIGHT) if self.stations > 1 else (PEER_LEFT_MAC, PEER_RIGHT_MAC)

    @property
    def prefixes(self) -> tuple[list[str], list[str]]:
        """Networks behind the left and the right peer, that a device needs routes to."""
        if self.conversations:
            return [CLIENTS], [SERVERS]
        if self.table:
            return [], list(self.table.prefixes())
        left, right = (routes(side, self.destinations) for side in sides(self.ipv6))
        return left, right

    @property
    def next_hops(self) -> int:
        """Routers that the prefixes behind the right peer are reached by in turn; that peer is the first."""
        return self.table.next_hops if self.table else 1

    @property
    def mean_size(self) -> float:
        """Mean frame length in bytes, without checksum."""
        return sum(size * weight for size, weight in self.lengths) / sum(weight for _, weight in self.lengths)

    @property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """The sizes as they are sent: with room for a signature where packets are numbered."""
        least = self.headers + SIGNATURE if self.sequenced else 0
        return tuple((max(size, least), weight) for size, weight in self.sizes)

    @property
    def full(self) -> bool:
        """Whether the generator writes and reads every byte: always where a frame is more than a cache line or two."""
        return self.mean_size > 128

    @property
    def headers(self) -> int:
        """Bytes of headers in each frame: Ethernet, VLAN, IP, UDP."""
        return 14 + (4 if self.vlan else 0) + (40 if self.ipv6 else 20) + 8

    @property
    def pattern(self) -> tuple[int, ...]:
        """Frame lengths in the order of sending: each evenly spread, whoever is furthest behind its share comes next."""
        common = math.gcd(*(weight for _, weight in self.lengths))
        sizes = [(size, weight // common) for size, weight in self.lengths]
        total = sum(weight for _, weight in sizes)
        sent = [0] * len(sizes)
        order = []
        for step in range(1, total + 1):
            at = max(range(len(sizes)), key=lambda n: sizes[n][1] * step / total - sent[n])
            sent[at] += 1
            order.append(sizes[at][0])
        return tuple(order)

    @property
    def source(self) -> str:
        """First source address. Where packets go both ways it is what the others are sent to."""
        left = sides(self.ipv6)[0]
        return left.first if self.flows > 1 or (self.both_ways and self.destinations > 1) else left.peer

    @property
    def sources(self) -> int:
        """How many source addresses there are."""
        return self.destinations if self.both_ways else self.flows

    @property
    def destination(self) -> str:
        """First destination: behind the right peer, or that peer itself."""
        if isinstance(self.table, tables.Spread):
            return self.table.first
        right = sides(self.ipv6)[1]
        return right.first if self.destinations > 1 else right.peer

    @property
    def addressed(self) -> int:
        """How many destinations there are, counted up from the first."""
        return self.table.span if isinstance(self.table, tables.Spread) else self.destinations

    @property
    def listed(self) -> tuple[str, ...]:
        """Destinations one by one, instead; none where they are counted up."""
        return self.table.addresses() if self.table else ()
