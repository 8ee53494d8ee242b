#!/usr/bin/python3
"""Tables for the tests of ARP, built by scapy (format: `testing::rows`).

Run:  /usr/bin/python3 crates/features/tests/vectors/neighbour.py > crates/features/tests/vectors/neighbour.txt

What goes in and what has to come out are built apart from each other. The topology is that of `src/ip/topology.rs`;
interface 1 stands in for 10.1.0.0/16 (which is behind interface 2), 10.0.1.128 to .255 (its own network) and
192.0.2.1 (no route).
"""

from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

US = {i: f"02:fe:00:00:00:0{i}" for i in range(1, 7)}
ALL = "ff:ff:ff:ff:ff:ff"
NONE = "00:00:00:00:00:00"
HOST = "02:00:00:00:01:09"  # 10.0.1.9, not known yet
KNOWN = "02:00:00:00:02:02"  # 10.0.2.2 on interface 2


def row(name, rx_if, frame, *verdict):
    print(f"\nrow {name}\nin {rx_if} {bytes(frame).hex()}")
    for line in verdict:
        print(line if isinstance(line, str) else f"out {line[0]} {bytes(line[1]).hex()}")


def who_has(target, sender="10.0.1.9", mac=HOST, dst=ALL, **fields):
    fields = {"op": "who-has", "hwsrc": mac, "psrc": sender, "hwdst": NONE, "pdst": target, **fields}
    return Ether(dst=dst, src=mac, type=0x0806) / ARP(**fields)


def is_at(target, sender, mac, dst, to=None, **fields):
    fields = {"op": "is-at", "hwsrc": mac, "psrc": sender, "hwdst": to or dst, "pdst": target, **fields}
    return Ether(dst=dst, src=mac, type=0x0806) / ARP(**fields)


def answer(rx_if, address, to="10.0.1.9", mac=HOST):
    return rx_if, is_at(to, address, US[rx_if], mac)


print("# Made by neighbour.py with scapy.")
row("a known neighbour asks for us", 2, who_has("10.0.2.1", "10.0.2.2", KNOWN), answer(2, "10.0.2.1", "10.0.2.2", KNOWN))
row("an unknown neighbour asks for us", 1, who_has("10.0.1.1"), answer(1, "10.0.1.1"), "punt arp")
row("it asks us alone", 1, who_has("10.0.1.1", dst=US[1]), answer(1, "10.0.1.1"), "punt arp")
row("padding goes", 1, who_has("10.0.1.1") / Raw(bytes(18)), answer(1, "10.0.1.1"), "punt arp")
row("a neighbour that has moved asks for us", 2, who_has("10.0.2.1", "10.0.2.2", HOST),
    answer(2, "10.0.2.1", "10.0.2.2"), "punt arp")
row("a stranger asks for us", 1, who_has("10.0.1.1", "172.16.0.1"), answer(1, "10.0.1.1", "172.16.0.1"))
row("a probe for our address is answered", 1, who_has("10.0.1.1", "0.0.0.0"), answer(1, "10.0.1.1", "0.0.0.0"))
row("somebody who says that an address of another interface's is there", 1, who_has("10.0.1.1", "10.0.2.9"),
    answer(1, "10.0.1.1", "10.0.2.9"))
row("an address of another interface isn't ours here", 1, who_has("10.0.2.1"), "drop arp-input nothing-new")

row("proxy", 1, who_has("10.1.2.3"), answer(1, "10.1.2.3"), "punt arp")
row("proxy without a route", 1, who_has("192.0.2.1"), answer(1, "192.0.2.1"), "punt arp")
row("proxy, out of range", 1, who_has("192.0.2.2"), "drop arp-input nothing-new")
row("no proxy for a probe", 1, who_has("10.1.2.3", "0.0.0.0"), "drop arp-input not-on-link")
row("no proxy for the asker itself", 1, who_has("10.0.1.130", "10.0.1.130"), "drop arp-input nothing-new")
row("no proxy for the interface's own network", 1, who_has("10.0.1.200"), "drop arp-input nothing-new")
row("no proxy on other interfaces", 2, who_has("10.1.2.3", "10.0.2.2", KNOWN), "drop arp-input nothing-new")

row("an answer to us", 1, is_at("10.0.1.1", "10.0.1.9", HOST, US[1]), "punt arp")
row("an answer of a known neighbour is a sign of life", 2, is_at("10.0.2.1", "10.0.2.2", KNOWN, US[2]), "punt arp")
row("an answer of a stranger", 1, is_at("10.0.1.1", "10.0.2.2", HOST, US[1]), "drop arp-input not-on-link")
row("an answer from behind a router", 2, is_at("10.0.2.1", "10.1.0.9", HOST, US[2]), "drop arp-input not-on-link")
row("an announcement of somebody unknown", 1, who_has("10.0.1.9", "10.0.1.9"), "drop arp-input nothing-new")
row("an announcement of a known neighbour", 2, who_has("10.0.2.2", "10.0.2.2", KNOWN), "drop arp-input nothing-new")
row("an announcement of a neighbour that has moved", 2, who_has("10.0.2.2", "10.0.2.2", HOST), "punt arp")
row("the same as an answer to all", 2, is_at("10.0.2.2", "10.0.2.2", HOST, ALL), "punt arp")
row("a question between others", 1, who_has("10.0.1.10"), "drop arp-input nothing-new")

row("a loop", 1, who_has("10.0.1.1", "10.0.1.7", US[1]), "drop arp-input looped")
row("cut off", 1, Raw(bytes(who_has("10.0.1.1"))[:41]), "drop arp-input too-short")
row("IEEE 802 hardware", 1, who_has("10.0.1.1", hwtype=6), "drop arp-input not-ethernet")
row("another length of hardware address", 1, who_has("10.0.1.1", hwlen=8), "drop arp-input not-ethernet")
row("another protocol", 1, who_has("10.0.1.1", ptype=0x86DD), "drop arp-input not-ip4")
row("another length of protocol address", 1, who_has("10.0.1.1", plen=5), "drop arp-input not-ip4")
row("RARP", 1, who_has("10.0.1.1", op=3), "drop arp-input unknown-operation")
row("sender is a group", 1, who_has("10.0.1.1", hwsrc="01:00:5e:00:00:01"), "drop arp-input bad-sender-mac")
row("sender has no address", 1, who_has("10.0.1.1", hwsrc=NONE), "drop arp-input bad-sender-mac")
row("sender is loopback", 1, who_has("10.0.1.1", "127.0.0.1"), "drop arp-input bad-sender-ip")
