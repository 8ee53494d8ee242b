#!/usr/bin/python3
"""Tables for the tests of ICMPv6 and local delivery, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/icmp6.py > crates/features/tests/vectors/icmp6.txt

What goes in and what has to come out are built apart from each other. The topology is that of `src/ip/topology.rs`;
packets come from 2001:db8:2::2, whose link-layer address is known.
"""

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import (
    HBHOptUnknown,
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6MLReport2,
    ICMPv6ND_Redirect,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    RouterAlert,
)
from scapy.layers.l2 import Ether
from scapy.packet import Raw

US = "02:fe:00:00:00:02"
PEER = "02:00:00:00:02:02"
LINK = "02:00:00:00:02:22"  # fe80::22
OURS, THEIRS = "2001:db8:2::1", "2001:db8:2::2"


def row(name, frame, *verdict):
    print(f"\nrow {name}\nin 2 {bytes(frame).hex()}")
    for line in verdict:
        print(line if isinstance(line, str) else f"out 2 {bytes(line).hex()}")


def rx(packet, dst=US, src=PEER):
    return Ether(dst=dst, src=src, type=0x86DD) / packet


def tx(packet, dst=PEER):
    return Ether(dst=dst, src=US, type=0x86DD) / packet


def ip(dst=OURS, src=THEIRS, hlim=61, **fields):
    return IPv6(src=src, dst=dst, hlim=hlim, **fields)


def back(src=OURS, dst=THEIRS, **fields):
    return IPv6(src=src, dst=dst, hlim=64, **fields)


def data(size):
    return Raw(bytes((7 * i + 1) & 0xFF for i in range(size)))


def report(about, message, src=OURS, dst=THEIRS, mac=PEER):
    """The error message about a packet: 1280 bytes, quoting what fits."""
    return tx(back(src, dst) / message / Raw(bytes(about)[: 1280 - 48]), mac)


print("# Made by icmp6.py with scapy.")

# echo
for size in (0, 1, 18, 56, 66, 67, 200, 1452):
    row(f"ping with {size} bytes", rx(ip() / ICMPv6EchoRequest(id=0x77, seq=3) / data(size)),
        tx(back() / ICMPv6EchoReply(id=0x77, seq=3) / data(size)))
ping, pong = ICMPv6EchoRequest(id=1, seq=2) / data(56), ICMPv6EchoReply(id=1, seq=2) / data(56)
row("ping of another interface's address", rx(ip("2001:db8:1::1") / ping), tx(back("2001:db8:1::1") / pong))
row("ping that can't be forwarded any further", rx(ip(hlim=1) / ping), tx(back() / pong))
row("ping with traffic class and flow label", rx(ip(tc=0xB9, fl=0x12345) / ping), tx(back(tc=0xB9, fl=0x12345) / pong))
for sequence in range(0, 65536, 9973):
    row(f"ping {sequence}", rx(ip() / ICMPv6EchoRequest(id=0x7F00, seq=sequence) / data(8)),
        tx(back() / ICMPv6EchoReply(id=0x7F00, seq=sequence) / data(8)))
row("ping between link-local addresses", rx(ip("fe80::2", "fe80::22") / ping, src=LINK),
    tx(back("fe80::2", "fe80::22") / pong, LINK))
row("ping from a link-local address", rx(ip(OURS, "fe80::22") / ping, src=LINK), tx(back(OURS, "fe80::22") / pong, LINK))
row("ping of all nodes", rx(ip("ff02::1") / ping, "33:33:00:00:00:01"), tx(back() / pong))
row("ping of all nodes, link-local", rx(ip("ff02::1", "fe80::22") / ping, "33:33:00:00:00:01", LINK),
    tx(back("fe80::2", "fe80::22") / pong, LINK))
row("ping of all routers", rx(ip("ff02::2") / ping, "33:33:00:00:00:02"), tx(back() / pong))
row("ping of our own group", rx(ip("ff02::1:ff00:1") / ping, "33:33:ff:00:00:01"), tx(back() / pong))
row("ping of the group of our link-local address", rx(ip("ff02::1:ff00:2") / ping, "33:33:ff:00:00:02"), tx(back() / pong))
row("ping of the group of another's address", rx(ip("ff02::1:ff00:99") / ping, "33:33:ff:00:00:99"), "drop icmp6-echo not-a-member")
row("ping of mDNS", rx(ip("ff02::fb") / ping, "33:33:00:00:00:fb"), "drop icmp6-echo not-a-member")
row("ping of our link-local address by the MAC", rx(ip("fe80::fe:ff:fe00:2", "fe80::22") / ping, src=LINK),
    tx(back("fe80::fe:ff:fe00:2", "fe80::22") / pong, LINK))
row("ping with extension headers", rx(ip() / IPv6ExtHdrHopByHop(options=[RouterAlert()])
    / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1E, optdata=b"abcd")]) / ping), tx(back() / pong))
row("ping in an atomic fragment", rx(ip() / IPv6ExtHdrFragment(id=9) / ping), tx(back() / pong))
row("ping whose route is at its end", rx(ip() / IPv6ExtHdrRouting(type=0, segleft=0, addresses=["2001:db8::5"]) / ping), tx(back() / pong))
row("ping cut off", rx(ip(nh=58) / Raw(bytes([128, 0, 0, 0, 0, 0, 0]))), "drop icmp6-input too-short")

# other messages to us
row("a reply", rx(ip() / pong), "drop icmp6-input unknown-type")
row("an error", rx(ip() / ICMPv6DestUnreach() / ip(THEIRS, OURS) / UDP()), "drop icmp6-input error-report")
row("listener report", rx(ip("ff02::16", "fe80::22", hlim=1) / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6MLReport2(),
    "33:33:00:00:00:16"), "drop icmp6-input unknown-type")

# nobody listens
for size in (0, 60, 100, 1184, 1185, 1300):
    packet = ip() / UDP(sport=40000, dport=33434) / data(size)
    row(f"traceroute with {size} bytes", rx(packet), report(packet, ICMPv6DestUnreach(code=4)), "drop ip6-local port-unreachable")
packet = ip() / TCP(sport=40000, dport=80, flags="S")
row("TCP", rx(packet), report(packet, ICMPv6DestUnreach(code=4)), "drop ip6-local port-unreachable")
packet = ip("2001:db8:1::1") / UDP(sport=1, dport=2)
row("UDP to another interface's address", rx(packet), report(packet, ICMPv6DestUnreach(code=4), "2001:db8:1::1"), "drop ip6-local port-unreachable")
packet = ip("fe80::2", "fe80::22") / UDP(sport=1, dport=2)
row("UDP between link-local addresses", rx(packet, src=LINK), report(packet, ICMPv6DestUnreach(code=4), "fe80::2", "fe80::22", LINK), "drop ip6-local port-unreachable")
packet = ip(nh=89) / data(40)
row("another protocol", rx(packet), report(packet, ICMPv6ParamProblem(code=1, ptr=6)), "drop ip6-local unknown-protocol")
packet = ip() / IPv6ExtHdrDestOpt(nh=89, options=[HBHOptUnknown(otype=0x1E, optdata=b"abcd")]) / data(40)
row("another protocol behind options", rx(packet), report(packet, ICMPv6ParamProblem(code=1, ptr=40)), "drop ip6-local unknown-protocol")
row("nothing follows", rx(ip(nh=59) / data(3)), "drop ip6-local no-next-header")
row("UDP to all nodes", rx(ip("ff02::1") / UDP(sport=1, dport=2), "33:33:00:00:00:01"), "drop ip6-local no-listener")

# options and routes
for otype, verdict in ((0x5E, None), (0x9E, 42), (0xDE, 42)):
    packet = ip() / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=otype, optdata=b"abcd")]) / ping
    row(f"option {otype:#x}", rx(packet),
        *((report(packet, ICMPv6ParamProblem(code=2, ptr=verdict)), "drop ip6-local parameter-problem") if verdict
          else ["drop ip6-local unknown-option"]))
packet = ip() / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x9E, optdata=b"abcd")]) / ping
row("option in the second header", rx(packet), report(packet, ICMPv6ParamProblem(code=2, ptr=50)), "drop ip6-local parameter-problem")
packet = ip("ff02::1") / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x9E, optdata=b"abcd")]) / ping
row("option 0x9e to a group", rx(packet, "33:33:00:00:00:01"), report(packet, ICMPv6ParamProblem(code=2, ptr=42)), "drop ip6-local parameter-problem")
packet = ip("ff02::1") / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0xDE, optdata=b"abcd")]) / ping
row("option 0xde to a group", rx(packet, "33:33:00:00:00:01"), "drop ip6-local unknown-option")
packet = ip() / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1E, optlen=40, optdata=b"abcd")]) / ping
row("option beyond its header", rx(packet), report(packet, ICMPv6ParamProblem(code=0, ptr=42)), "drop ip6-local parameter-problem")
signed = bytes([58, 4, 0, 0]) + bytes(20)
packet = ip(nh=51) / Raw(signed + bytes(ping))
row("a signature that nobody can check", rx(packet), report(packet, ICMPv6ParamProblem(code=1, ptr=6)), "drop ip6-local parameter-problem")
hop = bytes(IPv6ExtHdrHopByHop(nh=51, options=[RouterAlert()]))
packet = ip(nh=0) / Raw(hop + signed + bytes(ping))
row("a signature behind options", rx(packet), report(packet, ICMPv6ParamProblem(code=1, ptr=40)), "drop ip6-local parameter-problem")
packet = ip() / IPv6ExtHdrRouting(type=0, segleft=1, addresses=["2001:db8::5"]) / ping
row("a route that goes on", rx(packet), report(packet, ICMPv6ParamProblem(code=0, ptr=42)), "drop ip6-local parameter-problem")

# errors of forwarding
udp = UDP(sport=1, dport=2) / data(30)
packet = ip("2001:db8:1002::1", hlim=1) / udp
row("hop limit exceeded", rx(packet), report(packet, ICMPv6TimeExceeded()), "drop ip6-rewrite hop-limit-expired")
packet = ip("2001:db8:99::1") / udp
row("no route", rx(packet), report(packet, ICMPv6DestUnreach(code=0)), "drop ip6-lookup no-route")
packet = ip("2001:db8:1004::1") / udp
row("unreachable", rx(packet), report(packet, ICMPv6DestUnreach(code=3)), "drop ip6-lookup unreachable")
packet = ip("2001:db8:1005::1") / udp
row("prohibited", rx(packet), report(packet, ICMPv6DestUnreach(code=1)), "drop ip6-lookup prohibited")
packet = ip("2001:db8:1008::1") / UDP(sport=1, dport=2) / data(1400)
row("too big", rx(packet), report(packet, ICMPv6PacketTooBig(mtu=1280)), "drop ip6-rewrite too-big")
packet = ip("2001:db8:99::1", src="2001:db8:1001::77") / udp
row("the sender is behind a router", rx(packet), report(packet, ICMPv6DestUnreach(code=0), OURS, "2001:db8:1001::77"), "drop ip6-lookup no-route")
packet = ip("2001:db8:99::1", src="fe80::22") / udp
row("the sender is link-local", rx(packet, src=LINK), report(packet, ICMPv6DestUnreach(code=0), "fe80::2", "fe80::22", LINK), "drop ip6-lookup no-route")

packet = ip("2001:db8:1007::1", hlim=1) / udp
row("hop limit exceeded, before anybody is asked for the next router", rx(packet), report(packet, ICMPv6TimeExceeded()), "drop ip6-resolve hops-used-up")

# errors that must not be reported
for name, message in (("unreachable", ICMPv6DestUnreach()), ("too big", ICMPv6PacketTooBig()), ("time", ICMPv6TimeExceeded()),
                      ("parameter", ICMPv6ParamProblem()), ("redirect", ICMPv6ND_Redirect())):
    row(f"no error about an error ({name})", rx(ip("2001:db8:99::1") / message / data(48)), "drop ip6-lookup no-route")
packet = ip("2001:db8:99::1") / ping
row("but about a ping", rx(packet), report(packet, ICMPv6DestUnreach(code=0)), "drop ip6-lookup no-route")
row("no error about what may be an error", rx(ip("2001:db8:99::1", nh=58)), "drop ip6-lookup no-route")
packet = ip("2001:db8:99::1") / IPv6ExtHdrFragment(nh=17, offset=10, id=3) / data(40)
row("about a later fragment", rx(packet), report(packet, ICMPv6DestUnreach(code=0)), "drop ip6-lookup no-route")
packet = ip("2001:db8:1008::1") / IPv6ExtHdrFragment(nh=17, offset=10, id=3) / data(1400)
row("about a later fragment that is too big", rx(packet), report(packet, ICMPv6PacketTooBig(mtu=1280)), "drop ip6-rewrite too-big")
packet = ip("2001:db8:99::1") / IPv6ExtHdrFragment(nh=17, offset=0, m=1, id=3) / data(40)
row("about the first fragment", rx(packet), report(packet, ICMPv6DestUnreach(code=0)), "drop ip6-lookup no-route")
