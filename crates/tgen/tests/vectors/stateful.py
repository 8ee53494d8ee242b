#!/usr/bin/python3
"""Frames of conversations, built by scapy: lines of `name hexdigits`.

Run:  /usr/bin/python3 crates/tgen/tests/vectors/stateful.py > crates/tgen/tests/vectors/stateful.txt
"""

from struct import pack

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

LINE = 64
TEXT = bytes(32 + at % 95 for at in range(9000))


def show(name, frame, pad=True):
    data = bytes(frame)
    print(name, (data.ljust(LINE, b"\0") if pad else data).hex())


def ether():
    return Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")


def ip(**fields):
    return IP(src="10.0.0.1", dst="10.1.0.1", id=0, flags="DF", ttl=64, **fields)


def tcp(flags, **fields):
    numbers = {"seq": 0xFEDCBA98, "ack": 0x12345678, "window": 65535} | fields
    return TCP(sport=40000, dport=80, flags=flags, **numbers)


print("# Made by stateful.py with scapy.")
show("syn", ether() / ip() / tcp("S", ack=0, options=[("MSS", 1460)]))
show("syn-ack", ether() / ip() / tcp("SA", options=[("MSS", 8960)]))
show("ack", ether() / ip() / tcp("A"))
show("fin", ether() / ip() / tcp("FA"))
show("rst", ether() / ip() / tcp("R", ack=0, window=0))
for size in (1, 2, 3, 9, 10, 11, 64, 535, 1460, 8960):
    show(f"data-{size}", ether() / ip() / tcp("PA") / Raw(TEXT[:size]))
for size in (16, 17, 21, 22, 23, 58, 1472):
    tag = pack(">IIII", 0x51565201, 0x00ABCDEF, 0xFEEDF00D, 0x01020304)
    show(f"udp-{size}", ether() / ip() / UDP(sport=40000, dport=53) / Raw(tag + TEXT[: size - 16]))

LINUX = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
show("linux-syn", ether() / ip() / tcp("S", ack=0, window=64240, options=LINUX))
show("mss-second", ether() / ip() / tcp("S", ack=0, options=[("NOP", None), ("NOP", None), ("MSS", 1400)]))
show("unpadded-ack", ether() / ip() / tcp("A"), pad=False)
show("timestamps", ether() / ip() / tcp("PA", options=[("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]) / Raw(TEXT[:30]))
print("noisy-padding", (bytes(ether() / ip() / tcp("A")) + b"0123456789").hex())
show("arp", ether() / ARP(pdst="10.0.0.1"))
show("icmp", ether() / ip() / ICMP())
show("ip-options", ether() / ip(options=[IPOption_NOP()]) / tcp("A"))
show("fragment", ether() / IP(src="10.0.0.1", dst="10.1.0.1", flags="MF") / tcp("A"))
show("too-short", ether() / ip(len=200) / tcp("A"))
show("bad-offset", ether() / ip() / tcp("A", dataofs=4))
show("arp-to-us", ether() / ARP(op=1, hwsrc="02:00:00:00:00:09", psrc="10.0.0.9", pdst="10.0.0.1"))
show(
    "arp-answer",
    Ether(dst="02:00:00:00:00:09", src="02:00:00:00:00:02")
    / ARP(op=2, hwsrc="02:00:00:00:00:02", psrc="10.0.0.1", hwdst="02:00:00:00:00:09", pdst="10.0.0.9"),
)

CLIENT, SERVER, ROUTER = "2001:db8::ffff:ffff:ffff:fff8", "2001:db8:0:1::ffff", "2001:db8::9"


def ip6(**fields):
    return IPv6(**({"src": CLIENT, "dst": SERVER, "hlim": 64} | fields))


def show6(name, frame):
    show(f"6-{name}", frame, pad=False)


show6("syn", ether() / ip6() / tcp("S", ack=0, options=[("MSS", 1460)]))
show6("syn-ack", ether() / ip6() / tcp("SA", options=[("MSS", 8960)]))
show6("ack", ether() / ip6() / tcp("A"))
show6("fin", ether() / ip6() / tcp("FA"))
show6("rst", ether() / ip6() / tcp("R", ack=0, window=0))
for size in (1, 2, 3, 9, 10, 11, 64, 535, 1460, 8960):
    show6(f"data-{size}", ether() / ip6() / tcp("PA") / Raw(TEXT[:size]))
for size in (16, 17, 21, 22, 23, 58, 1472):
    tag = pack(">IIII", 0x51565201, 0x00ABCDEF, 0xFEEDF00D, 0x01020304)
    show6(f"udp-{size}", ether() / ip6() / UDP(sport=40000, dport=53) / Raw(tag + TEXT[: size - 16]))
LINUX6 = [("MSS", 1440), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
show6("linux-syn", ether() / ip6() / tcp("S", ack=0, window=64800, options=LINUX6))
show6("traffic-class", ether() / ip6(tc=0xB8, fl=0x12345, hlim=3) / tcp("A"))
show6("timestamps", ether() / ip6() / tcp("PA", options=[("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]) / Raw(TEXT[:30]))
print("6-noisy-padding", (bytes(ether() / ip6() / tcp("A")) + b"0123").hex())
question = ether() / ip6(src=ROUTER, dst="ff02::1:ffff:fff8", hlim=255) / ICMPv6ND_NS(tgt=CLIENT)
show6("solicitation", question / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:09"))
show6(
    "advertisement",
    Ether(dst="02:00:00:00:00:09", src="02:00:00:00:00:02")
    / ip6(src=CLIENT, dst=ROUTER, hlim=255)
    / ICMPv6ND_NA(tgt=CLIENT, R=0, S=1, O=1)
    / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:02"),
)
show6("duplicate-address", ether() / ip6(src="::", dst="ff02::1:ffff:fff8", hlim=255) / ICMPv6ND_NS(tgt=CLIENT))
show6("echo", ether() / ip6() / ICMPv6EchoRequest(data=b"0123456789abcdef"))
show6("hop-by-hop", ether() / ip6() / IPv6ExtHdrHopByHop() / tcp("A"))
show6("fragment", ether() / ip6() / IPv6ExtHdrFragment(m=1, id=7) / tcp("A"))
show6("too-short", ether() / ip6(plen=200) / tcp("A"))
show6("bad-offset", ether() / ip6() / tcp("A", dataofs=4))
show6("udp-without-checksum", ether() / ip6() / UDP(sport=40000, dport=53, chksum=0) / Raw(TEXT[:16]))
DNS = bytes.fromhex("123401000001000000000000076578616d706c6503636f6d0000010001")
BEGINNING = pack(">III", 0x51565201, 0x00ABCDEF, 0xFEEDF00D)
show("udp-dns", ether() / ip() / UDP(sport=40000, dport=53) / Raw(DNS))
show("udp-short", ether() / ip() / UDP(sport=40000, dport=53) / Raw(BEGINNING))
show6("udp-dns", ether() / ip6() / UDP(sport=40000, dport=53) / Raw(DNS))
show6("udp-short", ether() / ip6() / UDP(sport=40000, dport=53) / Raw(BEGINNING))
