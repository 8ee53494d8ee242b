#!/usr/bin/python3
"""Writes sample.txt: a classic pcap file with microseconds as scapy writes it, in hexadecimal digits, 32 bytes a line."""

import io

from scapy.all import IP, UDP, Ether, Raw
from scapy.utils import PcapWriter

packets = []
for number in range(5):
    packet = Ether(src="02:fe:00:00:00:01", dst="02:fe:00:00:00:02") / IP(src="10.9.0.1", dst="10.9.0.2")
    packet = packet / UDP(sport=1000 + number, dport=9) / Raw(bytes([number]) * (1 << number * 2))
    packet.time = 1_700_000_000 + number * 0.001
    packets.append(packet)


class Bytes(io.BytesIO):
    def close(self):
        with open(__file__.replace(".py", ".txt"), "w") as out:
            data = self.getvalue()
            for at in range(0, len(data), 32):
                print(data[at : at + 32].hex(), file=out)


writer = PcapWriter(Bytes())
writer.write(packets)
writer.close()
