#!/usr/bin/python3
"""Capture files to replay, written by scapy, and the packets in them.

Run:  /usr/bin/python3 crates/tgen/tests/vectors/replay.py > crates/tgen/tests/vectors/replay.txt

Lines: "file NAME HEX" and "packet HEX", in order.
"""

import tempfile
from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import PcapNgWriter, PcapWriter

A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"
PACKETS = [
    Ether(dst="ff:ff:ff:ff:ff:ff", src=A) / ARP(psrc="10.0.0.1", pdst="10.0.0.2", hwsrc=A),
    Ether(dst=B, src=A) / IP(src="10.0.0.1", dst="10.0.0.2") / ICMP() / Raw(bytes(56)),
    Ether(dst=B, src=A) / Dot1Q(vlan=7) / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(flags="S"),
    Ether(dst=B, src=A) / IPv6(src="fd00::1", dst="fd00::2") / UDP() / Raw(bytes(at & 0xFF for at in range(1400))),
    Ether(dst=B, src=A) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / Raw(bytes(at & 0xFF for at in range(5000))),
    Ether(dst=B, src=A) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / Raw(b"last"),
]

print("# Made by replay.py with scapy.")
for name, writer in (("pcap", PcapWriter), ("pcapng", PcapNgWriter)):
    with tempfile.NamedTemporaryFile() as file:
        out = writer(file.name)
        for n, packet in enumerate(PACKETS):
            packet.time = 1_700_000_000 + n / 100
            out.write(packet)
        out.close()
        print("file", name, Path(file.name).read_bytes().hex())
for packet in PACKETS:
    print("packet", bytes(packet).hex())
