#!/usr/bin/python3
"""TCP conversations for the tests of `tcp-check`, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/tcp.py 4 > crates/features/tests/vectors/tcp4.txt   (likewise 6)

The topology is that of `src/ip/topology.rs`: A (interface 2) begins, B is behind interface 3. A row's name is "conversation,
number: where A stands, where B stands" after the packet, by RFC 9293 section 3.3.2 as seen between the two.
"""

import sys

import two_sides
from scapy.layers.inet import TCP
from scapy.layers.inet6 import IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.packet import Raw
from two_sides import V6, A, B


def ip(src, dst, ttl, options=False):
    """The network header; with options, the transport header lies four or eight bytes further behind."""
    if V6:
        header = two_sides.ip(src, dst, ttl)
        return header / IPv6ExtHdrDestOpt() if options else header
    return two_sides.ip(src, dst, ttl, options=[b"\x01\x01\x01\x00"] if options else [])


def first_fragment(src, dst, ttl, segment, size):
    """The first fragment of a segment's packet, with so many bytes of the segment."""
    whole = ip(src, dst, ttl) / segment
    part = Raw(bytes(whole)[-len(segment) :][:size])
    if V6:
        return two_sides.ip(src, dst, ttl) / IPv6ExtHdrFragment(nh=6, m=1, id=7) / part
    return two_sides.ip(src, dst, ttl, flags="MF", proto=6) / part


def row(name, there, segment, verdict, cut=0, options=False, src=None):
    src, dst = (src or A, B) if there else (B, A)
    reason = None if verdict == "pass" else f"tcp-check {verdict}"

    def packet(hops):
        return first_fragment(src, dst, hops, segment, cut) if cut else ip(src, dst, hops, options) / segment

    two_sides.row(name, there, packet, reason)


def conversation(name, *packets):
    """Each packet: from whom, flags, sequence and acknowledgment number, where A and B stand then; data, window, options, verdict;
    bytes of the segment in the first fragment of its packet; whether there are options of IP before it; who seems to send it."""
    for number, (who, flags, seq, ack, states, *more) in enumerate(packets, 1):
        given = more[0] if more else {}
        data, verdict, cut = given.pop("data", 0), given.pop("verdict", "pass"), given.pop("cut", 0)
        options, src = given.pop("ip_options", False), given.pop("src", None)
        ports = {"sport": 40000, "dport": 80} if who == "A" else {"sport": 80, "dport": 40000}
        ports.update(given.pop("ports", {}))
        segment = TCP(**ports, flags=flags, seq=seq % 2**32, ack=ack % 2**32, **{"window": 1000, **given}) / Raw(b"x" * data)
        row(f"{name}, {number}: {states}", who == "A", segment, verdict, cut, options, src)


def opened(a=100, b=500, **more):
    """The three packets with which A opens a connection to B; then A has sent up to `a` + 1, B up to `b` + 1."""
    return (
        ("A", "S", a, 0, "SynSent Listen", dict(more)),
        ("B", "SA", b, a + 1, "Established SynReceived", dict(more)),
        ("A", "A", a + 1, b + 1, "Established Established"),
    )


print(f"# Made by tcp.py {sys.argv[1]} with scapy.")
OPEN = "Established Established"
conversation(
    "whole life",
    *opened(),
    ("A", "PA", 101, 501, OPEN, {"data": 100}),
    ("B", "PA", 501, 201, OPEN, {"data": 50}),
    ("A", "FA", 201, 551, "FinWait1 CloseWait"),
    ("B", "A", 551, 202, "FinWait2 CloseWait"),
    ("B", "FA", 551, 202, "FinWait2 LastAck"),
    ("A", "A", 202, 552, "TimeWait TimeWait"),
    ("B", "FA", 551, 202, "TimeWait TimeWait"),
    ("A", "A", 202, 552, "TimeWait TimeWait"),
)
conversation(
    "half-close",
    *opened(),
    ("A", "FA", 101, 501, "FinWait1 CloseWait", {"data": 10}),
    ("B", "A", 501, 112, "FinWait2 CloseWait", {"data": 400}),
    ("A", "A", 112, 901, "FinWait2 CloseWait"),
    ("B", "A", 901, 112, "FinWait2 CloseWait", {"data": 400}),
    # Who has closed sends no more.
    ("A", "PA", 112, 1301, "FinWait2 CloseWait", {"data": 1, "verdict": "out-of-window"}),
    ("A", "A", 112, 1301, "FinWait2 CloseWait"),
    ("B", "FA", 1301, 112, "FinWait2 LastAck"),
    ("A", "A", 112, 1302, "TimeWait TimeWait"),
)
conversation(
    "fin with data",
    *opened(),
    ("A", "FA", 101, 501, "FinWait1 CloseWait", {"data": 20}),
    # Acknowledges the data and not the FIN.
    ("B", "A", 501, 121, "FinWait1 CloseWait"),
    ("A", "FA", 101, 501, "FinWait1 CloseWait", {"data": 20}),
    ("B", "FA", 501, 122, "FinWait2 LastAck", {"data": 30}),
    ("A", "A", 122, 531, "FinWait2 LastAck"),
    ("A", "A", 122, 532, "TimeWait TimeWait"),
)
conversation(
    "both close at once",
    *opened(),
    ("A", "FA", 101, 501, "FinWait1 CloseWait"),
    ("B", "FA", 501, 101, "Closing Closing"),
    ("A", "A", 102, 502, "LastAck FinWait2"),
    ("B", "A", 502, 102, "TimeWait TimeWait"),
)
conversation(
    "simultaneous open",
    ("A", "S", 100, 0, "SynSent Listen"),
    ("B", "S", 500, 0, "SynReceived SynReceived"),
    ("A", "SA", 100, 501, "SynReceived Established"),
    ("B", "SA", 500, 101, OPEN),
    ("A", "PA", 101, 501, OPEN, {"data": 10}),
)
conversation(
    "syn again",
    ("A", "S", 100, 0, "SynSent Listen"),
    ("A", "S", 100, 0, "SynSent Listen"),
    # The same host asks anew, with other numbers.
    ("A", "S", 7000, 0, "SynSent Listen"),
    ("B", "SA", 500, 101, "SynSent Listen", {"verdict": "bad-acknowledgment"}),
    ("B", "SA", 500, 7001, "Established SynReceived"),
    ("B", "SA", 500, 7001, "Established SynReceived"),
    ("A", "A", 7001, 501, OPEN),
    ("A", "S", 7000, 0, OPEN),
    ("B", "SA", 500, 7001, OPEN),
    # RFC 5961 section 4.2: the receiver asks whether it is meant, whatever its number is.
    ("A", "S", 7100, 0, OPEN),
    ("B", "A", 501, 7001, OPEN),
    ("A", "S", 2**31, 0, OPEN),
)
conversation(
    "refused",
    ("A", "S", 100, 0, "SynSent Listen"),
    ("B", "R", 0, 0, "SynSent Listen", {"verdict": "rst-out-of-window"}),
    ("B", "RA", 0, 777, "SynSent Listen", {"verdict": "rst-out-of-window"}),
    ("B", "RA", 0, 101, "Closed Closed"),
    ("A", "S", 50, 0, "SynSent Listen"),
)
conversation(
    "rst out of window",
    *opened(),
    ("A", "A", 101, 501, OPEN, {"data": 100}),
    ("B", "A", 501, 201, OPEN),
    # Beyond the window, behind it, and in it without the number that is expected.
    ("A", "R", 201 + 1001, 0, OPEN, {"verdict": "rst-out-of-window"}),
    ("A", "R", 201 - 1001, 0, OPEN, {"verdict": "rst-out-of-window"}),
    ("A", "R", 2**31, 0, OPEN, {"verdict": "rst-out-of-window"}),
    ("A", "R", 202, 0, OPEN),
    ("B", "A", 501, 201, OPEN),
    ("A", "R", 201, 0, "Closed Closed"),
    # What was under way then, and what never was.
    ("B", "A", 501, 201, "Closed Closed", {"data": 10}),
    ("B", "A", 501 + 2**31, 201, "Closed Closed", {"data": 10, "verdict": "out-of-window"}),
)
conversation(
    "an earlier connection is still known",
    ("A", "S", 100, 0, "SynSent Listen"),
    # RFC 9293 figure 9: B answers by what it knows, A resets that, B is ready.
    ("B", "A", 30000, 40000, "SynSent Listen"),
    ("A", "R", 40000, 0, "SynSent Listen"),
    ("A", "S", 100, 0, "SynSent Listen"),
    ("B", "SA", 500, 101, "Established SynReceived"),
)
conversation(
    "data out of window",
    *opened(),
    ("A", "A", 101, 501, OPEN, {"data": 1000}),
    ("A", "A", 1101, 501, OPEN, {"data": 1, "verdict": "out-of-window"}),
    ("B", "A", 501, 1101, OPEN),
    ("A", "A", 1101, 501, OPEN, {"data": 1}),
    ("A", "A", 101 - 10, 501, OPEN, {"data": 1, "verdict": "out-of-window"}),
    ("A", "A", 1102, 502, OPEN, {"verdict": "bad-acknowledgment"}),
    ("A", "A", 1102, 501 - 70000, OPEN, {"verdict": "bad-acknowledgment"}),
    # A keep-alive (RFC 9293 section 3.8.4), and a probe of a window that is shut.
    ("A", "A", 1101, 501, OPEN),
    ("B", "A", 501, 1102, OPEN, {"window": 0}),
)
conversation(
    "zero window",
    ("A", "S", 100, 0, "SynSent Listen"),
    ("B", "SA", 500, 101, "Established SynReceived", {"window": 0}),
    ("A", "A", 101, 501, OPEN),
    ("A", "A", 101, 501, OPEN, {"data": 1}),
    ("A", "A", 101, 501, OPEN, {"data": 2, "verdict": "out-of-window"}),
)
WRAP = 2**32 - 51
conversation(
    "sequence wrap",
    *opened(a=WRAP, b=2**32 - 1),
    ("A", "A", WRAP + 1, 0, OPEN, {"data": 100}),
    ("B", "A", 0, WRAP + 101, OPEN, {"data": 10}),
    ("A", "A", WRAP + 101, 10, OPEN, {"data": 100}),
    ("A", "R", WRAP + 101 - 1001, 0, OPEN, {"verdict": "rst-out-of-window"}),
    ("A", "FA", WRAP + 201, 10, "FinWait1 CloseWait"),
    ("B", "A", 10, WRAP + 202, "FinWait2 CloseWait"),
)
SCALED = {"options": [("WScale", 7)]}
conversation(
    "scaled windows",
    *opened(**SCALED),
    # The window of a SYN isn't scaled, all others are: 1000 × 128.
    ("B", "A", 501, 101, OPEN),
    ("A", "A", 101, 501, OPEN, {"data": 1400}),
    ("A", "A", 101 + 127_000, 501, OPEN, {"data": 1000}),
    ("A", "A", 101 + 127_000, 501, OPEN, {"data": 1001, "verdict": "out-of-window"}),
)
conversation(
    "scaled by one side only",
    ("A", "S", 100, 0, "SynSent Listen", dict(SCALED)),
    ("B", "SA", 500, 101, "Established SynReceived"),
    ("A", "A", 101, 501, OPEN),
    ("A", "A", 101, 501, OPEN, {"data": 1001, "verdict": "out-of-window"}),
)
CLOSED = (
    *opened(),
    ("A", "FA", 101, 501, "FinWait1 CloseWait"),
    ("B", "FA", 501, 102, "FinWait2 LastAck"),
    ("A", "A", 102, 502, "TimeWait TimeWait"),
)
conversation(
    "time-wait reuse",
    *CLOSED,
    # RFC 9293 section 3.6.1: only with a number that is larger than any of before.
    ("A", "S", 90, 0, "TimeWait TimeWait"),
    ("A", "S", 102, 0, "SynSent Listen"),
    ("B", "SA", 9000, 103, "Established SynReceived"),
    ("A", "A", 103, 9001, OPEN),
)
conversation(
    "time-wait, begun by the other side",
    *CLOSED,
    # The session's initiator is B from here on.
    ("B", "S", 9000, 0, "SynSent Listen"),
    ("A", "SA", 200, 9001, "Established SynReceived"),
    ("B", "A", 9001, 201, OPEN),
)
STAMPED = {"options": [("Timestamp", (1, 0))]}
conversation(
    "time-wait reuse by timestamps",
    *opened(**STAMPED),
    ("A", "FA", 101, 501, "FinWait1 CloseWait"),
    ("B", "FA", 501, 102, "FinWait2 LastAck"),
    ("A", "A", 102, 502, "TimeWait TimeWait"),
    # RFC 6191 section 2: the clock tells, whatever the number is.
    ("A", "S", 50, 0, "SynSent Listen", dict(STAMPED)),
)
conversation(
    "flags",
    *opened(),
    *(("A", flags, 101, 501, OPEN, {"verdict": "bad-flags"}) for flags in ("SF", "SR", "SFR", "F", "RF", "", "PU", "SAF", "FPU")),
    ("A", "PA", 101, 501, OPEN, {"data": 4}),
)
conversation(
    "header",
    *opened(),
    ("A", "A", 101, 501, OPEN, {"dataofs": 4, "verdict": "bad-header"}),
    ("A", "A", 101, 501, OPEN, {"dataofs": 15, "verdict": "bad-header"}),
)
conversation(
    "midstream",
    ("A", "A", 5000, 6000, OPEN, {"data": 10}),
    ("B", "A", 6000, 5010, OPEN, {"data": 10}),
    ("A", "A", 5010, 6010, OPEN, {"data": 10}),
    ("A", "R", 4000, 0, OPEN),
    ("A", "R", 5010 + 2**31, 0, OPEN, {"verdict": "rst-out-of-window"}),
    ("A", "R", 5020, 0, "Closed Closed"),
)
conversation(
    "midstream by a retransmission",
    # B has all of what A had under way, and its acknowledgments were lost.
    ("A", "A", 1000, 6000, OPEN, {"data": 100}),
    ("B", "A", 6000, 2000, OPEN),
    ("A", "A", 2000, 6000, OPEN, {"data": 100}),
    ("B", "A", 6000, 2100, OPEN, {"data": 10}),
)
conversation(
    "much in flight",
    *opened(),
    ("A", "A", 101, 501, OPEN, {"data": 900}),
    ("B", "A", 501, 301, OPEN),
    ("B", "A", 501, 801, OPEN),
    ("A", "A", 101, 501, OPEN, {"data": 100}),
    ("B", "A", 501, 1001, OPEN, {"data": 10}),
    ("A", "A", 1001, 511, OPEN, {"data": 100}),
)
# Ten megabytes that nobody has followed lie before the last three.
conversation(
    "later",
    *opened(),
    ("A", "A", 10_000_101, 501, OPEN, {"data": 100}),
    ("B", "A", 501, 10_000_201, OPEN, {"data": 10}),
    ("A", "A", 10_000_201, 511, OPEN, {"data": 100}),
)
conversation(
    "one direction only",
    ("A", "S", 100, 0, "SynSent Listen"),
    # Not with a number that A hasn't come to.
    ("A", "A", 5000, 501, "SynSent Listen", {"verdict": "out-of-window"}),
    ("A", "A", 101, 501, OPEN),
    ("A", "A", 101, 501, OPEN, {"data": 1400}),
    ("A", "A", 1501, 200_501, OPEN, {"data": 1400}),
    ("A", "A", 2901 + 2**31, 200_501, OPEN, {"data": 1, "verdict": "out-of-window"}),
    ("A", "FA", 2901, 400_501, "FinWait1 CloseWait"),
    ("A", "A", 2902, 400_502, "FinWait1 CloseWait"),
    ("A", "S", 2**31, 0, "SynSent Listen"),
    ("A", "A", 2**31 + 1, 9001, OPEN),
    ("A", "R", 2**31 + 1, 0, "Closed Closed"),
)
conversation(
    "an answer that comes another way at first",
    ("A", "S", 100, 0, "SynSent Listen"),
    ("A", "A", 101, 501, OPEN),
    ("B", "SA", 500, 101, "Established SynReceived"),
    ("A", "A", 101, 501, OPEN),
    ("B", "A", 501, 101, OPEN, {"data": 1001, "verdict": "out-of-window"}),
)
conversation(
    "in fragments",
    *opened(window=5000),
    ("A", "A", 101, 501, OPEN, {"data": 1400, "cut": 576}),
    ("B", "A", 501, 1501, OPEN, {"window": 5000}),
    ("B", "A", 501, 1501 + 5001, OPEN, {"verdict": "bad-acknowledgment"}),
    # What number its FIN has isn't seen.
    ("A", "FA", 1501, 501, OPEN, {"data": 1400, "cut": 576}),
    ("B", "A", 501, 2902, OPEN, {"window": 5000}),
    ("B", "FA", 501, 2902, "CloseWait FinWait1"),
    ("A", "A", 2902, 502, "CloseWait FinWait2"),
)
conversation(
    "rst in flight",
    *opened(),
    ("A", "A", 101, 501, OPEN, {"data": 1000}),
    # RFC 5961 section 3.2: neither what B expects nor the end of what A has sent.
    ("A", "R", 600, 0, OPEN),
    ("A", "R", 1101, 0, "Closed Closed"),
    # B expects something else still, asks, and A goes on: it wasn't A.
    ("B", "A", 501, 101, "Closed Closed", {"data": 1000}),
    ("A", "A", 101, 1501, "Closed Closed", {"data": 1000}),
    ("B", "A", 1501, 1101, "Closed Closed", {"data": 1000}),
    ("B", "A", 2501, 1101, "Closed Closed", {"data": 1, "verdict": "out-of-window"}),
)
conversation(
    "a fin of long ago",
    *opened(),
    ("A", "A", 101, 501, OPEN, {"data": 1000}),
    ("B", "A", 501, 1101, OPEN),
    ("A", "A", 1101, 501, OPEN, {"data": 500}),
    ("A", "FA", 700, 501, OPEN),
    ("A", "A", 1601, 501, OPEN, {"data": 100}),
    ("A", "FA", 1701, 501, "FinWait1 CloseWait"),
)
OPTIONS = {"ip_options": True}
conversation(
    "behind options of ip",
    # SFDP's weakness 14: flags and numbers of what lies where the header would be without options. Some packets have them, some don't.
    ("A", "S", 100, 0, "SynSent Listen", dict(OPTIONS)),
    ("B", "SA", 500, 101, "Established SynReceived", dict(OPTIONS)),
    ("A", "A", 101, 501, OPEN),
    ("A", "PA", 101, 501, OPEN, {"data": 100, **OPTIONS}),
    ("B", "A", 501, 201, OPEN, dict(OPTIONS)),
    ("A", "A", 201 + 1001, 501, OPEN, {"data": 1, "verdict": "out-of-window", **OPTIONS}),
    ("A", "SF", 201, 501, OPEN, {"verdict": "bad-flags", **OPTIONS}),
    ("A", "R", 201 + 1001, 0, OPEN, {"verdict": "rst-out-of-window", **OPTIONS}),
    ("A", "FA", 201, 501, "FinWait1 CloseWait", {"data": 10, **OPTIONS}),
    ("B", "FA", 501, 212, "FinWait2 LastAck"),
    ("A", "A", 212, 502, "TimeWait TimeWait", dict(OPTIONS)),
)
LAND = {"src": B, "ports": {"sport": 80, "dport": 80}}
conversation(
    "land",
    # Whoever answers would answer itself: all is the initiator's, so that no answer ever opens the connection.
    ("A", "S", 100, 0, "SynSent Listen", dict(LAND)),
    ("A", "S", 100, 0, "SynSent Listen", dict(LAND)),
    # It refuses itself. Nobody has answered, so the reset might be of what another one has sent (RFC 9293 figure 9): it ends nothing.
    ("A", "RA", 0, 101, "SynSent Listen", dict(LAND)),
)
conversation(
    "ports 0",
    ("A", "S", 100, 0, "SynSent Listen", {"ports": {"sport": 0, "dport": 0}}),
    ("B", "SA", 500, 101, "Established SynReceived", {"ports": {"sport": 0, "dport": 0}}),
    ("A", "A", 101, 501, OPEN, {"ports": {"sport": 0, "dport": 0}}),
    ("A", "R", 101 + 1001, 0, OPEN, {"ports": {"sport": 0, "dport": 0}, "verdict": "rst-out-of-window"}),
)
