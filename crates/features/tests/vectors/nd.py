#!/usr/bin/python3
"""Tables for the tests of IPv6 neighbour discovery, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/nd.py > crates/features/tests/vectors/nd.txt

What goes in and what has to come out are built apart from each other. The topology is that of `src/ip/topology.rs`;
interface 1 stands in for 2001:db8:1001::/48 (which is behind interface 2) and 2001:db8:1::8000 to ffff (its own
network).
"""

import socket

from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_Redirect,
    ICMPv6ND_RS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptMTU,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6NDOptUnknown,
    IPv6,
    IPv6ExtHdrDestOpt,
    PadN,
)
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.pton_ntop import inet_ntop, inet_pton
from scapy.utils6 import in6_getnsma, in6_getnsmac

US = {i: f"02:fe:00:00:00:0{i}" for i in range(1, 7)}
HOST = "02:00:00:00:01:09"  # 2001:db8:1::9 and fe80::9 on interface 1, not known yet
KNOWN = "02:00:00:00:02:02"  # 2001:db8:2::2 on interface 2
ALL, ALL_MAC = "ff02::1", "33:33:00:00:00:01"


def row(name, rx_if, frame, *verdict):
    print(f"\nrow {name}\nin {rx_if} {bytes(frame).hex()}")
    for line in verdict:
        print(line if isinstance(line, str) else f"out {line[0]} {bytes(line[1]).hex()}")


def group(target):
    return inet_ntop(socket.AF_INET6, in6_getnsma(inet_pton(socket.AF_INET6, target)))


def group_mac(target):
    return in6_getnsmac(in6_getnsma(inet_pton(socket.AF_INET6, target)))


def ns(target, src="2001:db8:1::9", mac=HOST, dst=None, dst_mac=None, option=True, extra=b"", hlim=255, **fields):
    frame = Ether(src=mac, dst=dst_mac or group_mac(target)) / IPv6(src=src, dst=dst or group(target), hlim=hlim)
    frame /= ICMPv6ND_NS(tgt=target, **fields)
    if option and src != "::":
        frame /= ICMPv6NDOptSrcLLAddr(lladdr=mac)
    return frame / extra if extra else frame


def na(target, mac, dst, dst_mac, src=None, lladdr=None, **flags):
    frame = Ether(src=mac, dst=dst_mac) / IPv6(src=src or target, dst=dst, hlim=255)
    return frame / ICMPv6ND_NA(tgt=target, **flags) / ICMPv6NDOptDstLLAddr(lladdr=lladdr or mac)


def answer(rx_if, target, to="2001:db8:1::9", to_mac=HOST):
    return rx_if, na(target, US[rx_if], to, to_mac, R=1, S=1, O=1)


def proxied(target, src, to="2001:db8:1::9", to_mac=HOST):
    return 1, na(target, US[1], to, to_mac, src=src, R=1, S=1, O=0)


def broken(frame, at, value):
    """The frame with one byte changed and the checksum as it was."""
    octets = bytearray(bytes(frame))
    octets[at] = value
    return Raw(bytes(octets))


OURS = "2001:db8:1::1"
print("# Made by nd.py with scapy.")
row("an unknown neighbour asks for us", 1, ns(OURS), answer(1, OURS), "punt nd")
row("it asks us alone", 1, ns(OURS, dst=OURS, dst_mac=US[1]), answer(1, OURS), "punt nd")
row("it asks us alone and tells no address", 1, ns(OURS, dst=OURS, dst_mac=US[1], option=False), answer(1, OURS))
row("a known neighbour asks for us", 2, ns("2001:db8:2::1", "2001:db8:2::2", KNOWN),
    answer(2, "2001:db8:2::1", "2001:db8:2::2", KNOWN))
row("a neighbour that has moved asks for us", 2, ns("2001:db8:2::1", "2001:db8:2::2", HOST),
    answer(2, "2001:db8:2::1", "2001:db8:2::2", HOST), "punt nd")
row("a stranger asks for us", 1, ns(OURS, "2001:db8:2::9"), answer(1, OURS, "2001:db8:2::9"))
row("from link-local to link-local", 1, ns("fe80::1", "fe80::9"), answer(1, "fe80::1", "fe80::9"), "punt nd")
row("from link-local, known", 2, ns("fe80::2", "fe80::22", "02:00:00:00:02:22"),
    answer(2, "fe80::2", "fe80::22", "02:00:00:00:02:22"))
row("from link-local, moved", 2, ns("fe80::2", "fe80::22"), answer(2, "fe80::2", "fe80::22"), "punt nd")
BY_MAC = "fe80::fe:ff:fe00:4"  # of interface 4, which has no other link-local address
row("for our link-local address by the MAC", 4, ns(BY_MAC, "fe80::9"), answer(4, BY_MAC, "fe80::9"), "punt nd")
row("a claim of our link-local address by the MAC", 4, na(BY_MAC, HOST, ALL, ALL_MAC, R=0, S=0, O=1), "drop ip6-nd address-conflict")
row("is our address free?", 1, ns(OURS, "::"), (1, na(OURS, US[1], ALL, ALL_MAC, R=1, S=0, O=1)))
row("other options are skipped", 1, ns(OURS, extra=ICMPv6NDOptUnknown(type=14, len=1, data=b"nonce!")),
    answer(1, OURS), "punt nd")
row("options that reach into the body", 1, ns(OURS, extra=Raw((b"\x0e\x01" + bytes(6)) * 12)), answer(1, OURS), "punt nd")
row("behind destination options", 1,
    Ether(src=HOST, dst=group_mac(OURS)) / IPv6(src="2001:db8:1::9", dst=group(OURS), hlim=255)
    / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))]) / ICMPv6ND_NS(tgt=OURS) / ICMPv6NDOptSrcLLAddr(lladdr=HOST),
    answer(1, OURS), "punt nd")
row("somebody else's address", 1, ns("2001:db8:1::17"), "drop ip6-nd nothing-new")
row("an address of another interface isn't ours here", 1, ns("2001:db8:2::1"), "drop ip6-nd nothing-new")

row("proxy", 1, ns("2001:db8:1001::5"), proxied("2001:db8:1001::5", OURS), "punt nd")
row("proxy for a link-local asker", 1, ns("2001:db8:1001::5", "fe80::9"),
    proxied("2001:db8:1001::5", "fe80::1", "fe80::9"), "punt nd")
row("proxy, asked alone whether it is still there", 1, ns("2001:db8:1001::5", dst="2001:db8:1001::5", dst_mac=US[1]),
    proxied("2001:db8:1001::5", OURS), "punt nd")
other = Ether(src=HOST, dst=US[1]) / IPv6(src="2001:db8:1::9", dst="2001:db8:1001::5", hlim=254)
row("what isn't from this link is forwarded", 1, other / ICMPv6ND_NS(tgt="2001:db8:1001::5"),
    (2, Ether(src=US[2], dst=KNOWN) / IPv6(src="2001:db8:1::9", dst="2001:db8:1001::5", hlim=253)
     / ICMPv6ND_NS(tgt="2001:db8:1001::5")))
row("no proxy for who looks whether it is free", 1, ns("2001:db8:1001::5", "::"), "drop ip6-nd nothing-new")
row("no proxy for the interface's own network", 1, ns("2001:db8:1::8001"), "drop ip6-nd nothing-new")
row("no proxy on other interfaces", 2, ns("2001:db8:1001::5", "2001:db8:2::2", KNOWN), "drop ip6-nd nothing-new")

row("an answer to us", 1, na("2001:db8:1::9", HOST, OURS, US[1], R=0, S=1, O=1), "punt nd")
row("an answer of a known neighbour is a sign of life", 2,
    na("2001:db8:2::2", KNOWN, "2001:db8:2::1", US[2], R=0, S=1, O=1), "punt nd")
row("an announcement", 1, na("2001:db8:1::9", HOST, ALL, ALL_MAC, R=0, S=0, O=1), "punt nd")
row("an announcement of a stranger", 1, na("2001:db8:2::9", HOST, ALL, ALL_MAC, R=0, S=0, O=1), "drop ip6-nd not-on-link")
row("a loop", 1, ns(OURS, mac=US[1]), "drop ip6-nd looped")

frame = ns(OURS)
row("hop limit 254", 1, ns(OURS, hlim=254), "drop ip6-nd bad-hop-limit")
row("checksum", 1, broken(frame, 70, 0xFF), "drop ip6-nd bad-checksum")
row("code", 1, ns(OURS, code=1), "drop ip6-nd bad-code")
row("option of length 0", 1, ns(OURS, extra=Raw(bytes(8))), "drop ip6-nd bad-option")
row("option beyond the end", 1, ns(OURS, extra=Raw(b"\x0e\x02" + bytes(6))), "drop ip6-nd bad-option")
row("target is a group", 1, ns("ff02::5", dst=OURS, dst_mac=US[1]), "drop ip6-nd bad-target")
row("free? but asked of us alone", 1, ns(OURS, "::", dst=ALL, dst_mac=ALL_MAC), "drop ip6-nd bad-destination")
row("free? and a link-layer address", 1, ns(OURS, "::", extra=ICMPv6NDOptSrcLLAddr(lladdr=HOST)),
    "drop ip6-nd unexpected-source-option")
row("an answer to all that claims to answer a question", 1, na("2001:db8:1::9", HOST, ALL, ALL_MAC, S=1), "drop ip6-nd bad-destination")
row("cut off", 1, Ether(src=HOST, dst=US[1]) / IPv6(src="fe80::9", dst=OURS, hlim=255, nh=58)
    / Raw(bytes([135, 0, 0, 0]) + bytes(19)), "drop ip6-nd bad-checksum")
row("without a link layer", 3, ns("2001:db8:3::1", "2001:db8:3::9", dst="2001:db8:3::1")[IPv6], "drop ip6-nd not-ethernet")

router = Ether(src=HOST, dst="33:33:00:00:00:02") / IPv6(src="fe80::9", dst="ff02::2", hlim=255)
row("router solicitation", 1, router / ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(lladdr=HOST), "drop ip6-nd router-discovery")
nodes = Ether(src=HOST, dst=ALL_MAC) / IPv6(src="fe80::9", dst=ALL, hlim=255)
row("router advertisement", 1, nodes / ICMPv6ND_RA() / ICMPv6NDOptMTU(), "drop ip6-nd router-discovery")
row("redirect", 1, Ether(src=HOST, dst=US[1]) / IPv6(src="fe80::9", dst=OURS, hlim=255)
    / ICMPv6ND_Redirect(tgt="fe80::9", dst="2001:db8:99::1"), "drop ip6-nd router-discovery")
