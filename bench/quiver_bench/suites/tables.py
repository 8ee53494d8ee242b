"""Routing tables of the shape that real ones have.

How many prefixes of each length there are follows the Internet's IPv4 table as routers without a default route have it (about 960 000
prefixes in 2024; potaroo.net, "BGP Routing Table Analysis Report"), rounded. Where they lie is drawn: each length is spread over one
range of addresses, so that longer prefixes lie in shorter ones, as they do there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address


@dataclass(frozen=True)
class Table:
    """A table of prefixes within one range, which all of its addresses are sent to."""

    #: First address of the range, and how many it has.
    first: str
    span: int
    #: How many prefixes there are of each length.
    lengths: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """How many prefixes it has."""
        return len(prefixes(self))


#: The Internet's, within 11.0.0.0 to 126.255.255.255. What no other prefix holds goes by its default route.
INTERNET4 = Table(
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


@cache
def prefixes(table: Table) -> tuple[str, ...]:
    """All of its prefixes, the default route first; the same in every run."""
    start = int(IPv4Address(table.first))
    found = ["0.0.0.0/0"]
    for length, count in table.lengths:
        size = 1 << (32 - length)
        places = random.Random(length).sample(range(table.span // size), count)
        found += [f"{IPv4Address(start + place * size)}/{length}" for place in sorted(places)]
    return tuple(found)
