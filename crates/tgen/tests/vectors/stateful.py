#!/usr/bin/python3
"""Frames of conversations, built by scapy: lines of `name hexdigits`.

Run:  /usr/bin/python3 crates/tgen/tests/vectors/stateful.py > crates/tgen/tests/vectors/stateful.txt
"""

from struct import pack

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
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
show("ipv6", ether() / IPv6(dst="2001:db8::1") / tcp("A"))
show("too-short", ether() / ip(len=200) / tcp("A"))
show("bad-offset", ether() / ip() / tcp("A", dataofs=4))
