"""Routing tables of the shape that real ones have.

How many prefixes of each length there are follows the Internet's tables as routers without a default route have them (IPv4: about 960 000
prefixes in 2024, IPv6: about 210 000, here 250 000; potaroo.net, "BGP Routing Table Analysis Report"), rounded. Where they lie is drawn.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import IPv4Address, IPv6Address


class Table(ABC):
    """A table of prefixes."""

    @abstractmethod
    def prefixes(self) -> tuple[str, ...]:
        """All of them, the default route first; the same in every run."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many prefixes it has, without drawing them."""

    @property
    def next_hops(self) -> int:
        """How many next hops its prefixes lead to in turn."""
        return 1

    def addresses(self) -> tuple[str, ...]:
        """What is sent to, one by one; none where that is counted up."""
        return ()


@dataclass(frozen=True)
class Spread(Table):
    """IPv4 prefixes within one range, which all of its addresses are sent to. Each length is spread over it, so that longer prefixes lie
    in shorter ones, as they do in real tables.
    """

    #: First address of the range, and how many it has.
    first: str
    span: int
    #: How many prefixes there are of each length.
    lengths: tuple[tuple[int, int], ...]
    #: See :attr:`Table.next_hops`.
    hops: int = 1

    @property
    def next_hops(self) -> int:
        """See :attr:`Table.next_hops`."""
        return self.hops

    @property
    def size(self) -> int:
        """See :attr:`Table.size`."""
        return 1 + sum(count for _, count in self.lengths)

    @cache  # noqa: B019 - there are as many as there are tables
    def prefixes(self) -> tuple[str, ...]:
        """See :meth:`Table.prefixes`."""
        start = int(IPv4Address(self.first))
        found = ["0.0.0.0/0"]
        for length, count in self.lengths:
            size = 1 << (32 - length)
            places = random.Random(length).sample(range(self.span // size), count)
            found += [f"{IPv4Address(start + place * size)}/{length}" for place in sorted(places)]
        return tuple(found)


@dataclass(frozen=True)
class Allocated(Table):
    """IPv6 prefixes in what registries have given to networks, which are few and far between: sent to are addresses in prefixes of the
    table, drawn beforehand.
    """

    #: The /12s that registries give them from, as the first 32 bits of an address.
    registries: tuple[int, ...]
    #: How many prefixes there are of each length.
    lengths: tuple[tuple[int, int], ...]
    #: How many addresses are sent to.
    destinations: int

    @property
    def size(self) -> int:
        """See :attr:`Table.size`."""
        return 1 + sum(count for _, count in self.lengths)

    @cache  # noqa: B019 - there are as many as there are tables
    def networks(self) -> tuple[tuple[int, int], ...]:
        """Address and length of every prefix but the default route, by length."""
        draw = random.Random(6)
        places = sorted(draw.sample(range(len(self.registries) << 20), dict(self.lengths)[32]))
        allocations = [(self.registries[place >> 20] | place & 0xF_FFFF) << 96 for place in places]
        draw.shuffle(allocations)
        found = []
        for length, count in self.lengths:
            mask = (1 << 128) - (1 << (128 - length))
            of_length = set(allocations) if length == 32 else set()
            while len(of_length) < count:
                # An eighth of the networks announces half of what is announced.
                many = len(allocations) // 8 if draw.random() < 0.5 else len(allocations)
                of_length.add((allocations[draw.randrange(many)] | draw.getrandbits(96)) & mask)
            found += [(network, length) for network in sorted(of_length)]
        return tuple(found)

    @cache  # noqa: B019 - there are as many as there are tables
    def prefixes(self) -> tuple[str, ...]:
        """See :meth:`Table.prefixes`."""
        return ("::/0", *(f"{IPv6Address(network)}/{length}" for network, length in self.networks()))

    @cache  # noqa: B019 - there are as many as there are tables
    def addresses(self) -> tuple[str, ...]:
        """See :meth:`Table.addresses`: each lies anywhere in a prefix drawn at random."""
        draw = random.Random(128)
        drawn = draw.choices(self.networks(), k=self.destinations)
        return tuple(str(IPv6Address(network | draw.getrandbits(128 - length))) for network, length in drawn)


@dataclass(frozen=True)
class Scattered(Table):
    """IPv4 host routes anywhere within one range, of which hardly two can be put together: what no table spares memory for. Sent to are
    those hosts, drawn beforehand.
    """

    #: First address of the range, and how many it has.
    first: str
    span: int
    #: How many hosts there are.
    hosts: int
    #: How many addresses are sent to.
    destinations: int
    #: See :attr:`Table.next_hops`.
    hops: int

    @property
    def next_hops(self) -> int:
        """See :attr:`Table.next_hops`."""
        return self.hops

    @property
    def size(self) -> int:
        """See :attr:`Table.size`."""
        return 1 + self.hosts

    @cache  # noqa: B019 - there are as many as there are tables
    def places(self) -> tuple[int, ...]:
        """Every host's address, ascending."""
        start = int(IPv4Address(self.first))
        return tuple(start + place for place in sorted(random.Random(32).sample(range(self.span), self.hosts)))

    @cache  # noqa: B019 - there are as many as there are tables
    def prefixes(self) -> tuple[str, ...]:
        """See :meth:`Table.prefixes`."""
        return ("0.0.0.0/0", *(f"{IPv4Address(host)}/32" for host in self.places()))

    @cache  # noqa: B019 - there are as many as there are tables
    def addresses(self) -> tuple[str, ...]:
        """See :meth:`Table.addresses`."""
        return tuple(str(IPv4Address(host)) for host in random.Random(64).choices(self.places(), k=self.destinations))


#: The Internet's, within 11.0.0.0 to 126.255.255.255. What no other prefix holds goes by its default route.
INTERNET4 = Spread(
    "11.0.0.0",
    116 << 24,
    (
        (8, 16),
        (9, 13),
        (10, 40),
        (11, 100),
        (12, 300),
        (13, 590),
        (14, 1200),
        (15, 2100),
        (16, 13600),
        (17, 8300),
        (18, 14000),
        (19, 25500),
        (20, 45000),
        (21, 52000),
        (22, 112_000),
        (23, 98_000),
        (24, 590_000),
    ),
)

#: The same by way of a hundred routers.
INTERNET4_100 = replace(INTERNET4, hops=100)
#: Two million hosts by way of a hundred routers.
SCATTERED4 = Scattered("11.0.0.0", 116 << 24, 2_000_000, 500_000, 100)


#: The Internet's of IPv6.
INTERNET6 = Allocated(
    (0x2000_0000, 0x2400_0000, 0x2600_0000, 0x2800_0000, 0x2A00_0000, 0x2A10_0000, 0x2C00_0000),
    (
        (24, 250),
        (28, 1500),
        (29, 7500),
        (30, 1500),
        (31, 1000),
        (32, 31250),
        (33, 4500),
        (34, 4250),
        (35, 3000),
        (36, 12500),
        (38, 3750),
        (40, 26250),
        (42, 5000),
        (44, 27500),
        (45, 3000),
        (46, 6250),
        (47, 6250),
        (48, 104_749),
    ),
    500_000,
)
