#!/usr/bin/python3
"""Packets that the generator has to make, built by scapy: profiles and the first packets of their only stream.

Run:  /usr/bin/python3 crates/tgen/tests/vectors/stacks.py > crates/tgen/tests/vectors/stacks.txt

Each row is "row NAME", lines of TOML up to "packets", and then some packets, one a line: its number and its bytes. Packets
are built anew by scapy, each from its own values, lengths and checksums included; the generator changes a template.
Payloads are 0, 1, 2, …, with a signature at the end in rows that are "signed".
"""

import ipaddress
import struct

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

# Of those that change: the ends of bursts of 128, and where ranges begin anew.
SHOWN = [0, 1, 2, 3, 18, 19, 64, 127, 128, 129, 253, 254, 255, 256, 257, 299]
DST, SRC = "02:00:00:00:00:01", "02:00:00:00:00:02"
ETHERNET = f'{{ ethernet = {{ dst = "{DST}", src = "{SRC}" }} }}'
IPV4 = '{ ipv4 = { src = "10.0.0.2", dst = "10.0.1.2" } }'
IPV6 = '{ ipv6 = { src = "2001:db8::2", dst = "2001:db8:1::2" } }'
UDP_ = "{ udp = { src = 1024, dst = 9 } }"


def ether(**fields):
    return Ether(**{"dst": DST, "src": SRC, **fields})


def ip(**fields):
    return IP(**{"src": "10.0.0.2", "dst": "10.0.1.2", "id": 0, "ttl": 64, **fields})


def ip6(**fields):
    return IPv6(**{"src": "2001:db8::2", "dst": "2001:db8:1::2", "hlim": 64, **fields})


def udp(**fields):
    return UDP(**{"sport": 1024, "dport": 9, **fields})


def signature(payload, n, lane=0x1234, run=0x5678):
    """The payload with the signature of packet `n` of a run: its 16-bit words then add up to 0xffff."""
    payload = bytearray(payload)
    at = len(payload) - 16
    payload[at:] = struct.pack(">HHHHQ", 0x5147, lane, len(payload), 0, run << 48 | n)
    padded = payload + b"\0" * (len(payload) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded)) % 0xFFFF
    check = (0xFFFF - total) or 0xFFFF
    payload[at + 6 : at + 8] = struct.pack("<H" if at % 2 else ">H", check % 0xFFFF)
    return bytes(payload)


def whole(headers, size, signed=None):
    """The headers with a payload that makes a frame of `size`."""
    payload = bytes(at & 0xFF for at in range(size - len(headers)))
    return headers / Raw(payload if signed is None else signature(payload, signed))


def row(name, stack, frames, size, signed=False):
    """`size` is what the profile says; `frames` are pairs of headers and the size of their frame."""
    print(f"\nrow {name}")
    if signed:
        print("signed")
    print(f"size = {size}\nstack = [\n  " + ",\n  ".join(stack) + "\n]")
    print("packets")
    for n in SHOWN if len(frames) > 1 else [0]:
        headers, length = frames[n]
        print(n, bytes(whole(headers, length, n if signed else None)).hex())


def address(first, n):
    return str(ipaddress.ip_address(first) + n)


print("# Made by stacks.py with scapy.")

# every header alone
row("ipv4 udp", [ETHERNET, IPV4, UDP_], [(ether() / ip() / udp(), 64)], 64)
row("ipv4 udp without payload", [ETHERNET, IPV4, UDP_], [(ether() / ip() / udp(), 42)], 42)
row("odd length", [ETHERNET, IPV4, UDP_], [(ether() / ip() / udp(), 65)], 65)
row("beyond one line", [ETHERNET, IPV4, UDP_], [(ether() / ip() / udp(), 1514)], 1514)
row("jumbo", [ETHERNET, IPV4, UDP_], [(ether() / ip() / udp(), 9014)], 9014)
row("ipv6 udp", [ETHERNET, IPV6, UDP_], [(ether() / ip6() / udp(), 78)], 78)
row("tcp", [ETHERNET, IPV4, '{ tcp = { src = 1, dst = 80, seq = 7, ack = 9, flags = 24, window = 1000 } }'],
    [(ether() / ip() / TCP(sport=1, dport=80, seq=7, ack=9, flags="PA", window=1000), 100)], 100)  # fmt: skip
row("tcp over ipv6", [ETHERNET, IPV6, "{ tcp = { src = 1, dst = 80 } }"],
    [(ether() / ip6() / TCP(sport=1, dport=80, seq=0, ack=0, flags="A", window=65535), 100)], 100)  # fmt: skip
row("icmp", [ETHERNET, IPV4, "{ icmp = { id = 5, sequence = 6 } }"], [(ether() / ip() / ICMP(id=5, seq=6), 98)], 98)
row("icmpv6", [ETHERNET, IPV6, "{ icmpv6 = { id = 5, sequence = 6 } }"],
    [(ether() / ip6() / ICMPv6EchoRequest(id=5, seq=6), 118)], 118)  # fmt: skip
row("vlan", [ETHERNET, "{ vlan = { id = 100, priority = 5 } }", IPV4, UDP_],
    [(ether() / Dot1Q(vlan=100, prio=5) / ip() / udp(), 68)], 68)  # fmt: skip
row("qinq", [ETHERNET, "{ vlan = { id = 7, service = true } }", "{ vlan = { id = 100 } }", IPV6, UDP_],
    [(ether() / Dot1AD(vlan=7) / Dot1Q(vlan=100) / ip6() / udp(), 100)], 100)  # fmt: skip
row("ip options of the header", [ETHERNET,
    '{ ipv4 = { src = "10.0.0.2", dst = "10.0.1.2", ttl = 3, tos = 184, id = 4660, dont_fragment = true } }', UDP_],
    [(ether() / ip(ttl=3, tos=184, id=4660, flags="DF") / udp(), 64)], 64)  # fmt: skip
row("ipv6 class and label", [ETHERNET,
    '{ ipv6 = { src = "2001:db8::2", dst = "2001:db8:1::2", hop_limit = 3, traffic_class = 184, flow_label = 74565 } }', UDP_],
    [(ether() / ip6(hlim=3, tc=184, fl=74565) / udp(), 78)], 78)  # fmt: skip
row("ip in ip", [ETHERNET, IPV6, IPV4, UDP_], [(ether() / ip6() / ip() / udp(), 120)], 120)

# tunnels: the outer UDP checksum is 0 over IPv4 and needed over IPv6
INNER = '{ ethernet = { dst = "02:00:00:00:aa:01", src = "02:00:00:00:aa:02" } }'
VX = "{ udp = { src = 50000, dst = 4789 } }"


def inner(dst="02:00:00:00:aa:01"):
    return Ether(dst=dst, src="02:00:00:00:aa:02")


def vxlan(vni=42):
    return VXLAN(vni=vni, flags=8)


row("vxlan", [ETHERNET, IPV4, VX, "{ vxlan = { vni = 42 } }", INNER, IPV4, UDP_],
    [(ether() / ip() / UDP(sport=50000, dport=4789, chksum=0) / vxlan() / inner() / ip() / udp(), 130)], 130)  # fmt: skip
row("vxlan over ipv6", [ETHERNET, IPV6, VX, "{ vxlan = { vni = 42 } }", INNER, IPV6, "{ tcp = { src = 1, dst = 2 } }"],
    [(ether() / ip6() / UDP(sport=50000, dport=4789) / vxlan() / inner() / ip6()
      / TCP(sport=1, dport=2, seq=0, ack=0, flags="A", window=65535), 180)], 180)  # fmt: skip

# fields that change: 300 packets are more than two bursts


def changed(name, stack, build, size, lengths=None, signed=False):
    frames = [(build(n), (lengths[n % len(lengths)] if lengths else size)) for n in range(300)]
    row(name, stack, frames, size, signed)


def span(first, last, step=1, order="inc"):
    return f'{{ from = {first}, to = {last}, step = {step}, order = "{order}" }}'


def text(value):
    return f'"{value}"'


def v4(src='"10.0.0.2"', dst='"10.0.1.2"', **more):
    rest = "".join(f", {key} = {value}" for key, value in more.items())
    return f"{{ ipv4 = {{ src = {src}, dst = {dst}{rest} }} }}"


def v6(src='"2001:db8::2"', dst='"2001:db8:1::2"', **more):
    rest = "".join(f", {key} = {value}" for key, value in more.items())
    return f"{{ ipv6 = {{ src = {src}, dst = {dst}{rest} }} }}"


changed("ipv4 destinations", [ETHERNET, v4(dst=span('"10.0.1.2"', '"10.0.1.255"')), UDP_],
        lambda n: ether() / ip(dst=address("10.0.1.2", n % 254)) / udp(), 64)  # fmt: skip
changed("ipv4 sources down by three", [ETHERNET, v4(src=span('"10.255.255.0"', '"11.0.0.200"', 3, "dec")), UDP_],
        lambda n: ether() / ip(src=address("11.0.0.200", -3 * (n % 153))) / udp(), 64)  # fmt: skip
changed("ttl, tos and id", [ETHERNET, v4(ttl=span(2, 255), tos="{ list = [0, 184, 40] }", id=span(0, 65535, 999)), UDP_],
        lambda n: ether() / ip(ttl=2 + n % 254, tos=[0, 184, 40][n % 3], id=999 * (n % 66)) / udp(), 64)  # fmt: skip
changed("udp ports", [ETHERNET, IPV4, f"{{ udp = {{ src = {span(1024, 65535, 1000)}, dst = {{ list = [53, 80, 443, 65535, 0] }} }} }}"],
        lambda n: ether() / ip() / udp(sport=1024 + 1000 * (n % 65), dport=[53, 80, 443, 65535, 0][n % 5]), 65)  # fmt: skip
changed("tcp fields", [ETHERNET, IPV4,
        f"{{ tcp = {{ src = 1, dst = 2, seq = {span(4294900000, 4294967295, 1000)}, ack = {span(0, 4294967295, 16777259)}, "
        f"flags = {{ list = [2, 16, 17] }}, window = {span(0, 65535, 321)} }} }}"],
        lambda n: ether() / ip() / TCP(sport=1, dport=2, seq=4294900000 + 1000 * (n % 68), ack=(16777259 * (n % 256)),
                                       flags=[2, 16, 17][n % 3], window=321 * (n % 205)), 70)  # fmt: skip
changed("icmp", [ETHERNET, IPV4, f"{{ icmp = {{ id = {span(0, 7)}, sequence = {span(0, 65535)} }} }}"],
        lambda n: ether() / ip() / ICMP(id=n % 8, seq=n), 64)  # fmt: skip
changed("icmpv6 and addresses", [ETHERNET, v6(dst=span('"2001:db8:1::ffff:fffe"', '"2001:db8:1::1:0:10"')),
        f"{{ icmpv6 = {{ id = 1, sequence = {span(0, 65535)} }} }}"],
        lambda n: ether() / ip6(dst=address("2001:db8:1::ffff:fffe", n % 19)) / ICMPv6EchoRequest(id=1, seq=n), 79)  # fmt: skip
changed("ipv6 label, hops and source", [ETHERNET,
        v6(src='{ list = ["2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"] }', flow_label=span(0, 1048575, 9999),
           hop_limit=span(1, 255), traffic_class=255), UDP_],
        lambda n: ether() / ip6(src=["2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"][n % 2], fl=9999 * (n % 105),
                                hlim=1 + n % 255, tc=255) / udp(), 80)  # fmt: skip
WIDE = ["2001:db8:aa:1::1", "2a00:1:2:3:ffff:ffff:ffff:fffe", "ffff:fffe::", "::1", "2001:db8:aa:1::2"]
changed("ipv6 destinations all over", [ETHERNET, v6(dst="{ list = [" + ", ".join(text(address) for address in WIDE) + "] }"), UDP_],
        lambda n: ether() / ip6(dst=WIDE[n % 5]) / udp(), 78)  # fmt: skip
changed("ipv6 networks", [ETHERNET, v6(src=span('"2001:db8:0:fff0::7"', '"2001:db8:1:10::7"', 7, "dec")), "{ tcp = { src = 1, dst = 80 } }"],
        lambda n: ether() / ip6(src=f"2001:db8:{(0x1_0010 - 7 * (n % 5)) >> 16:x}:{(0x1_0010 - 7 * (n % 5)) & 0xFFFF:x}::7")
        / TCP(sport=1, dport=80, seq=0, ack=0, flags="A", window=65535), 78)  # fmt: skip
changed("macs and vlan ids", [
        f'{{ ethernet = {{ dst = {span(text("02:00:00:00:00:fe"), text("02:00:00:00:01:10"))}, src = "{SRC}" }} }}',
        f"{{ vlan = {{ id = {span(1, 4094, 100)}, priority = 3 }} }}", IPV4, UDP_],
        lambda n: ether(dst=["02:00:00:00:00:fe", "02:00:00:00:00:ff"][n % 19] if n % 19 < 2 else f"02:00:00:00:01:{n % 19 - 2:02x}")
        / Dot1Q(vlan=1 + 100 * (n % 41), prio=3) / ip() / udp(), 68)  # fmt: skip
changed("lengths in turn", [ETHERNET, v4(dst=span('"10.0.1.2"', '"10.0.1.255"')), UDP_],
        lambda n: ether() / ip(dst=address("10.0.1.2", n % 254)) / udp(), "[64, 570, 1518, 63]", [64, 570, 1518, 63])  # fmt: skip
changed("inside and outside of vxlan", [ETHERNET, v4(src=span('"10.0.0.2"', '"10.0.0.9"')), VX,
        f"{{ vxlan = {{ vni = {span(0, 16777215, 70000)} }} }}", INNER, v4(dst=span('"10.0.1.2"', '"10.0.1.255"')), UDP_],
        lambda n: ether() / ip(src=address("10.0.0.2", n % 8)) / UDP(sport=50000, dport=4789, chksum=0)
        / vxlan(70000 * (n % 240)) / inner() / ip(dst=address("10.0.1.2", n % 254)) / udp(), 131)  # fmt: skip
changed("inside and outside of vxlan over ipv6", [ETHERNET, v6(src=span('"2001:db8::2"', '"2001:db8::9"')),
        f"{{ udp = {{ src = {span(49152, 65535, 77)}, dst = 4789 }} }}", f"{{ vxlan = {{ vni = {span(0, 16777215, 70000)} }} }}",
        f'{{ ethernet = {{ dst = {span(text("02:00:00:00:aa:01"), text("02:00:00:00:aa:07"))}, src = "02:00:00:00:aa:02" }} }}',
        v4(dst=span('"10.0.1.2"', '"10.0.1.255"'), ttl=span(1, 255)), f"{{ udp = {{ src = {span(1, 65535, 501)}, dst = 9 }} }}"],
        lambda n: ether() / ip6(src=address("2001:db8::2", n % 8)) / UDP(sport=49152 + 77 * (n % 213), dport=4789)
        / vxlan(70000 * (n % 240)) / inner(f"02:00:00:00:aa:{n % 7 + 1:02x}")
        / ip(dst=address("10.0.1.2", n % 254), ttl=1 + n % 255) / udp(sport=1 + 501 * (n % 131)), 150)  # fmt: skip

# signatures: in the first line, across its end, behind it, at odd places, and in tunnels
for size in (58, 64, 65, 71, 79, 80, 81, 143, 144, 200, 201, 1514):
    changed(f"signed, {size} bytes", [ETHERNET, v4(dst=span('"10.0.1.2"', '"10.0.1.255"')), UDP_],
            lambda n: ether() / ip(dst=address("10.0.1.2", n % 254)) / udp(), size, signed=True)  # fmt: skip
changed("signed, lengths in turn", [ETHERNET, IPV4, UDP_], lambda n: ether() / ip() / udp(), "[64, 570, 1518, 63]",
        [64, 570, 1518, 63], signed=True)  # fmt: skip
changed("signed, in vxlan over ipv6", [ETHERNET, IPV6, VX, "{ vxlan = { vni = 42 } }", INNER, v4(dst=span('"10.0.1.2"', '"10.0.1.255"')), UDP_],
        lambda n: ether() / ip6() / UDP(sport=50000, dport=4789) / vxlan() / inner() / ip(dst=address("10.0.1.2", n % 254)) / udp(),
        200, signed=True)  # fmt: skip
