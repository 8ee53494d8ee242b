#!/usr/bin/env python3
"""Makes packets.txt and captures.txt: packets built by scapy and what scapy reads in them.

The Rust tests compare their own reading and building with these, so the expected bytes come from an
implementation that is not ours. Run it with Debian's python3-scapy after changing a packet:

    /usr/bin/python3 make_vectors.py

A line of packets.txt is: name, link type, bytes in hex, then key=value for each field scapy dissects, in the
order of the headers. A line of captures.txt is: name, bytes in hex.
"""

import io
import pathlib
import struct
import sys
import tempfile

from scapy.all import (
    AH, ARP, ESP, GRE, ICMP, IP, TCP, UDP, Dot1AD, Dot1Q, Ether, IPOption, IPOption_Router_Alert, IPv6,
    ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_RS,
    ICMPv6NDOptDstLLAddr, ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig,
    ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting, Raw, RouterAlert, wrpcap, wrpcapng,
)

HERE = pathlib.Path(__file__).parent
MAC_A, MAC_B = "02:fe:00:00:00:01", "02:fe:00:00:00:02"
ETH = Ether(src=MAC_A, dst=MAC_B)
IP4 = IP(src="10.0.0.1", dst="10.0.1.2")
IP6 = IPv6(src="2001:db8::1", dst="2001:db8:1::2")
LL_A, LL_B = "fe80::fe:ff:fe00:1", "fe80::fe:ff:fe00:2"
ETHERNET, RAW = 1, 101


def payload(size):
    return Raw(bytes((7 * i + 1) & 0xFF for i in range(size)))


def packets():
    """Name, link type, packet."""
    udp = UDP(sport=1234, dport=80)
    tcp = TCP(sport=40000, dport=443, seq=0x01020304, ack=0x05060708, window=501, flags="A")

    # ARP
    request = ARP(op=1, hwsrc=MAC_A, psrc="10.0.0.1", hwdst="00:00:00:00:00:00", pdst="10.0.0.2")
    reply = ARP(op=2, hwsrc=MAC_B, psrc="10.0.0.2", hwdst=MAC_A, pdst="10.0.0.1")
    yield "arp-request", ETHERNET, Ether(src=MAC_A, dst="ff:ff:ff:ff:ff:ff") / request
    yield "arp-reply", ETHERNET, Ether(src=MAC_B, dst=MAC_A) / reply

    # VLAN
    yield "vlan", ETHERNET, ETH / Dot1Q(vlan=100, prio=5) / IP4 / udp / payload(20)
    yield "vlan-drop-eligible", ETHERNET, ETH / Dot1Q(vlan=4094, id=1) / IP6 / udp / payload(20)
    yield "qinq", ETHERNET, ETH / Dot1AD(vlan=7, type=0x8100) / Dot1Q(vlan=100) / IP4 / udp / payload(20)
    yield "vlan-arp", ETHERNET, ETH / Dot1Q(vlan=1) / reply

    # IPv4
    yield "ip4-udp", ETHERNET, ETH / IP4 / udp / payload(18)
    yield "ip4-udp-odd", RAW, IP4 / udp / payload(33)
    yield "ip4-udp-no-checksum", RAW, IP4 / UDP(sport=1234, dport=4789, chksum=0) / payload(8)
    yield "ip4-udp-checksum-ffff", RAW, IP4 / UDP(sport=1, dport=2) / Raw(struct.pack("!H", zero_sum_udp()))
    yield "ip4-dscp-ecn", RAW, IP(src="10.0.0.1", dst="10.0.1.2", tos=(46 << 2) | 1) / udp / payload(3)
    yield "ip4-dont-fragment", RAW, IP(src="10.0.0.1", dst="10.0.1.2", flags="DF", id=0x1234) / udp
    alert = IP(src="10.0.0.1", dst="224.0.0.22", ttl=1, options=[IPOption_Router_Alert()])
    yield "ip4-router-alert", RAW, alert / udp
    options = [IPOption(b"\x01"), IPOption(b"\x83\x07\x04\x0a\x00\x00\x09"), IPOption(b"\x00")]
    yield "ip4-source-route", RAW, IP(src="10.0.0.1", dst="10.0.1.2", options=options) / udp / payload(7)
    options = [IPOption(b"\x07\x27\x04" + bytes(36)), IPOption(b"\x00")]
    yield "ip4-all-options", RAW, IP(src="10.0.0.1", dst="10.0.1.2", options=options) / tcp
    whole = bytes(IP4 / udp / payload(32))
    fragment = IP(src="10.0.0.1", dst="10.0.1.2", proto=17, id=77, flags="MF")
    yield "ip4-fragment-first", RAW, fragment / Raw(whole[20:44])
    fragment = IP(src="10.0.0.1", dst="10.0.1.2", proto=17, id=77, frag=3)
    yield "ip4-fragment-later", RAW, fragment / Raw(whole[44:])
    yield "ip4-in-ip4", RAW, IP4 / IP(src="192.0.2.1", dst="192.0.2.2") / udp / payload(4)
    yield "ip6-in-ip4", RAW, IP4 / IP6 / udp / payload(4)
    yield "ip4-gre", RAW, IP4 / GRE() / IP4 / udp

    # TCP
    yield "ip4-tcp-syn", ETHERNET, ETH / IP4 / TCP(
        sport=40000, dport=80, seq=1, flags="S", window=64240,
        options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp", (123456, 0)), ("NOP", None), ("WScale", 7)])
    yield "ip4-tcp-data", RAW, IP4 / TCP(
        sport=40000, dport=80, seq=2, ack=9, flags="PA", window=502,
        options=[("NOP", None), ("NOP", None), ("Timestamp", (123460, 99))]) / payload(101)
    yield "ip4-tcp-sack", RAW, IP4 / TCP(
        sport=40000, dport=80, seq=2, ack=9, flags="A",
        options=[("NOP", None), ("NOP", None), ("SAck", (20, 30, 50, 60))])
    yield "ip4-tcp-all-flags", RAW, IP4 / TCP(sport=1, dport=65535, flags="FSRPAUEC", urgptr=5)
    yield "ip4-tcp-no-flags", RAW, IP4 / TCP(sport=1, dport=2, flags=0)
    yield "ip6-tcp-syn", ETHERNET, ETH / IP6 / TCP(sport=40000, dport=80, flags="S", options=[("MSS", 1440)])
    yield "ip6-tcp-odd", RAW, IP6 / tcp / payload(57)

    # ICMP
    yield "icmp-echo-request", ETHERNET, ETH / IP4 / ICMP(type=8, id=0x1234, seq=7) / payload(56)
    yield "icmp-echo-reply", ETHERNET, ETH / IP4 / ICMP(type=0, id=0x1234, seq=7) / payload(56)
    quote = IP(src="10.0.1.2", dst="192.0.2.9", id=5) / udp / payload(8)
    yield "icmp-ttl-exceeded", RAW, IP4 / ICMP(type=11, code=0) / quote
    yield "icmp-fragmentation-needed", RAW, IP4 / ICMP(type=3, code=4, nexthopmtu=1400) / quote
    yield "icmp-port-unreachable", RAW, IP4 / ICMP(type=3, code=3) / quote
    yield "icmp-prohibited", RAW, IP4 / ICMP(type=3, code=13) / quote
    yield "icmp-parameter-problem", RAW, IP4 / ICMP(type=12, code=0, ptr=21) / quote

    # IPv6
    yield "ip6-udp", ETHERNET, ETH / IP6 / udp / payload(5)
    yield "ip6-class-flow", RAW, IPv6(src="2001:db8::1", dst="2001:db8::2", tc=0xB9, fl=0xABCDE, hlim=3) / udp
    hop = IPv6ExtHdrHopByHop(options=[RouterAlert()])
    yield "ip6-hop-by-hop", RAW, IP6 / hop / udp / payload(4)
    yield "ip6-destination-options", RAW, IP6 / IPv6ExtHdrDestOpt() / tcp
    routing = IPv6ExtHdrRouting(type=0, segleft=1, addresses=["2001:db8::7"])
    fragment = IPv6ExtHdrFragment(m=1, id=0xDEADBEEF)
    chain = hop / IPv6ExtHdrDestOpt() / routing / fragment / IPv6ExtHdrDestOpt()
    yield "ip6-chain", RAW, IP6 / chain / udp / payload(4)
    yield "ip6-fragment-first", RAW, IP6 / IPv6ExtHdrFragment(m=1, offset=0, id=9) / udp / payload(16)
    yield "ip6-fragment-later", RAW, IP6 / IPv6ExtHdrFragment(nh=17, m=0, offset=3, id=9) / payload(16)
    yield "ip6-fragment-atomic", RAW, IP6 / IPv6ExtHdrFragment(m=0, offset=0, id=9) / udp
    # scapy knows no upper layer behind AH: neither for the checksum nor for dissection
    datagram = Raw(bytes(IP6 / udp / payload(4))[40:])
    yield "ip6-ah", RAW, IP6 / AH(nh=17, payloadlen=4, spi=1, seq=2, icv=b"0123456789ab") / datagram
    yield "ip6-esp", RAW, IP6 / ESP(spi=1, seq=2, data=b"secret")
    yield "ip6-nothing", RAW, IPv6(src="2001:db8::1", dst="2001:db8::2", nh=59)
    yield "ip6-in-ip6", RAW, IP6 / IPv6(src="2001:db8::5", dst="2001:db8::6") / udp / payload(4)

    # ICMPv6
    yield "icmp6-echo-request", RAW, IP6 / ICMPv6EchoRequest(id=0x1234, seq=7, data=payload(31).load)
    yield "icmp6-echo-reply", RAW, IP6 / ICMPv6EchoReply(id=0x1234, seq=7, data=payload(31).load)
    quote = IPv6(src="2001:db8:1::2", dst="2001:db8:9::9", hlim=1) / udp / payload(8)
    yield "icmp6-packet-too-big", RAW, IP6 / ICMPv6PacketTooBig(mtu=1300) / quote
    yield "icmp6-hop-limit-exceeded", RAW, IP6 / ICMPv6TimeExceeded() / quote
    yield "icmp6-no-route", RAW, IP6 / ICMPv6DestUnreach(code=0) / quote
    yield "icmp6-unknown-next-header", RAW, IP6 / ICMPv6ParamProblem(code=1, ptr=40) / quote

    # neighbour discovery
    yield "ndp-solicitation", ETHERNET, (
        Ether(src=MAC_A, dst="33:33:ff:00:00:02") / IPv6(src=LL_A, dst="ff02::1:ff00:2", hlim=255)
        / ICMPv6ND_NS(tgt=LL_B) / ICMPv6NDOptSrcLLAddr(lladdr=MAC_A))
    yield "ndp-duplicate-detection", ETHERNET, (
        Ether(src=MAC_A, dst="33:33:ff:00:00:02") / IPv6(src="::", dst="ff02::1:ff00:2", hlim=255)
        / ICMPv6ND_NS(tgt=LL_B))
    yield "ndp-advertisement", ETHERNET, (
        Ether(src=MAC_B, dst=MAC_A) / IPv6(src=LL_B, dst=LL_A, hlim=255)
        / ICMPv6ND_NA(tgt=LL_B, R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=MAC_B))
    yield "ndp-router-solicitation", RAW, (
        IPv6(src=LL_A, dst="ff02::2", hlim=255) / ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(lladdr=MAC_A))
    yield "ndp-router-advertisement", RAW, (
        IPv6(src=LL_B, dst="ff02::1", hlim=255)
        / ICMPv6ND_RA(chlim=64, M=0, O=1, prf=0, routerlifetime=1800, reachabletime=30000)
        / ICMPv6NDOptSrcLLAddr(lladdr=MAC_B) / ICMPv6NDOptMTU(mtu=1500)
        / ICMPv6NDOptPrefixInfo(prefix="2001:db8:7::", prefixlen=64, L=1, A=1, validlifetime=86400,
                                preferredlifetime=14400))

    # one hop further: the same packet before and after forwarding
    for name, identification in (("", 1), ("-wrap", wrapping_id())):
        for ttl, when in ((64, "before"), (63, "after")):
            header = IP(src="10.0.0.1", dst="10.0.1.2", ttl=ttl, id=identification)
            yield f"hop{name}-{when}", RAW, header / udp

    # rewritten source address and port
    yield "nat-before", RAW, IP4 / udp / payload(9)
    yield "nat-after", RAW, IP(src="198.51.100.77", dst="10.0.1.2") / UDP(sport=61234, dport=80) / payload(9)


def wrapping_id():
    """Identification for which the header checksum is 0xfeff: one hop later it is 0x0000, not 0xffff."""
    for identification in range(65536):
        header = IP(src="10.0.0.1", dst="10.0.1.2", ttl=64, id=identification) / UDP(sport=1234, dport=80)
        if IP(bytes(header)).chksum == 0xFEFF:
            return identification
    raise AssertionError


def zero_sum_udp():
    """Two bytes of data for which the UDP checksum computes to 0, which goes onto the wire as 0xffff."""
    for word in range(65536):
        packet = IP4 / UDP(sport=1, dport=2) / Raw(struct.pack("!H", word))
        if IP(bytes(packet))[UDP].chksum == 0xFFFF:
            return word
    raise AssertionError


def fields(link, data):
    """Key and value for each field, as far as headers go that the Rust side knows."""
    layer = Ether(data) if link == ETHERNET else (IP(data) if data[0] >> 4 == 4 else IPv6(data))
    while layer:
        done = yield from layer_fields(layer)
        if done:
            return
        layer = behind_extensions(layer.payload) if isinstance(layer, IPv6) else layer.payload


EXTENSIONS = {IPv6ExtHdrHopByHop: "HOP_BY_HOP", IPv6ExtHdrDestOpt: "DESTINATION_OPTIONS",
              IPv6ExtHdrRouting: "ROUTING", IPv6ExtHdrFragment: "FRAGMENT", AH: "AH"}


def behind_extensions(layer):
    while type(layer) in EXTENSIONS:
        if isinstance(layer, IPv6ExtHdrFragment) and layer.offset:
            return None
        layer = UDP(bytes(layer.payload)) if isinstance(layer, AH) else layer.payload
    return layer


def layer_fields(layer):
    """Yields the fields of one header; returns whether to stop."""
    if isinstance(layer, Ether):
        yield "eth.dst", layer.dst
        yield "eth.src", layer.src
        yield "eth.type", layer.type
    elif isinstance(layer, (Dot1Q, Dot1AD)):
        yield "vlan.id", layer.vlan
        yield "vlan.priority", layer.prio
        yield "vlan.dei", layer.id
        yield "vlan.type", layer.type
    elif isinstance(layer, ARP):
        yield "arp.op", layer.op
        yield "arp.sender", f"{layer.hwsrc}/{layer.psrc}"
        yield "arp.target", f"{layer.hwdst}/{layer.pdst}"
        return True
    elif isinstance(layer, IP):
        yield "ip4.src", layer.src
        yield "ip4.dst", layer.dst
        yield "ip4.protocol", layer.proto
        yield "ip4.ttl", layer.ttl
        yield "ip4.len", layer.len
        yield "ip4.header-len", layer.ihl * 4
        yield "ip4.id", layer.id
        yield "ip4.flags", int(layer.flags)
        yield "ip4.offset", layer.frag * 8
        yield "ip4.tos", layer.tos
        yield "ip4.checksum", layer.chksum
        return layer.frag != 0
    elif isinstance(layer, IPv6):
        yield "ip6.src", layer.src
        yield "ip6.dst", layer.dst
        yield "ip6.next-header", layer.nh
        yield "ip6.hop-limit", layer.hlim
        yield "ip6.payload-len", layer.plen
        yield "ip6.class", layer.tc
        yield "ip6.flow", layer.fl
        yield from extension_fields(layer)
    elif isinstance(layer, TCP):
        yield "tcp.ports", f"{layer.sport}>{layer.dport}"
        yield "tcp.seq", layer.seq
        yield "tcp.ack", layer.ack
        yield "tcp.flags", int(layer.flags)
        yield "tcp.header-len", layer.dataofs * 4
        yield "tcp.window", layer.window
        yield "tcp.checksum", layer.chksum
        for name, value in layer.options:
            if name not in ("NOP", "EOL"):
                text = value if isinstance(value, int) else ",".join(str(part) for part in value or ())
                yield f"tcp.option.{name}", text
        return True
    elif isinstance(layer, UDP):
        yield "udp.ports", f"{layer.sport}>{layer.dport}"
        yield "udp.len", layer.len
        yield "udp.checksum", layer.chksum
        return True
    elif isinstance(layer, ICMP):
        head = bytes(layer)
        yield "icmp.type", layer.type
        yield "icmp.code", layer.code
        yield "icmp.checksum", layer.chksum
        yield "icmp.rest", int.from_bytes(head[4:8], "big")
        # the quoted packet is dissected as a layer of its own class; the Rust side reads it as a packet
        if layer.type in (3, 11, 12):
            yield from fields(RAW, head[8:])
        return True
    elif type(layer).__name__.startswith("ICMPv6"):
        head = bytes(layer)
        yield "icmp6.type", layer.type
        yield "icmp6.code", layer.code
        yield "icmp6.checksum", layer.cksum
        yield "icmp6.rest", int.from_bytes(head[4:8], "big")
        if layer.type < 128:
            yield from fields(RAW, head[8:])
        return True
    else:
        return True
    return False


def extension_fields(ip):
    """What a walk over the extension headers must find."""
    layer, offset, last, names, fragment, unfragmentable = ip.payload, 40, ip.nh, [], None, 40
    while type(layer) in EXTENSIONS:
        size = len(layer) - len(layer.payload)
        names.append(EXTENSIONS[type(layer)])
        offset, last = offset + size, layer.nh
        if names[-1] in ("HOP_BY_HOP", "ROUTING"):
            unfragmentable = offset
        if isinstance(layer, IPv6ExtHdrFragment):
            fragment = layer
            if layer.offset:
                break
        layer = layer.payload
    if names:
        yield "ext.set", "+".join(sorted(set(names)))
        yield "ext.protocol", last
        yield "ext.offset", offset
        yield "ext.unfragmentable", unfragmentable
        if fragment is not None:
            yield "ext.fragment", f"{fragment.id},{fragment.offset * 8},{fragment.m}"


def captures():
    """Name, bytes of a capture file."""
    frames = [bytes(ETH / IP4 / UDP(sport=1234, dport=80) / payload(size)) for size in (18, 33)]
    timed = []
    for index, frame in enumerate(frames):
        packet = Ether(frame)
        packet.time = 1_700_000_000 + index + 0.25
        timed.append(packet)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/file"
        for order, endianness in (("little", "<"), ("big", ">")):
            for unit, nano in (("micro", False), ("nano", True)):
                wrpcap(path, timed, endianness=endianness, nano=nano)
                yield f"pcap-{order}-{unit}", pathlib.Path(path).read_bytes()
        timed[0].comment = b"a comment"
        wrpcapng(path, timed)
        yield "pcapng-scapy", pathlib.Path(path).read_bytes()
    yield "pcapng-expected", pcapng_by_hand("<")
    yield "pcapng-big", pcapng_by_hand(">")


def pcapng_by_hand(order):
    """What our writer must write (little endian), put together from the specification, block by block."""
    def option(code, value):
        return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)

    def block(kind, body):
        length = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + length + body + length

    end = bytes(4)
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + option(4, b"quiver") + end
    ethernet = struct.pack(order + "HHI", 1, 0, 0) + option(2, b"memif0") + option(9, b"\x09") + end
    raw = struct.pack(order + "HHI", 101, 0, 128) + option(2, b"tun") + option(9, b"\x09") + end

    def packet(interface, nanoseconds, original, data, options):
        high, low = divmod(nanoseconds, 1 << 32)
        head = struct.pack(order + "IIIII", interface, high, low, len(data), original)
        return head + data + bytes(-len(data) % 4) + options

    first = packet(0, 1_700_000_000_123_456_789, 1518, bytes(range(61)),
                   option(2, struct.pack(order + "I", 1)) + option(1, b"dropped: ip4-bad-checksum") + end)
    second = packet(1, 1_700_000_001_000_000_000, 20, bytes(range(20)),
                    option(2, struct.pack(order + "I", 2)) + end)
    third = packet(0, 1_700_000_002_000_000_001, 3, b"abc", b"")
    blocks = ((0x0A0D0D0A, section), (1, ethernet), (1, raw), (6, first), (6, second), (6, third))
    return b"".join(block(kind, body) for kind, body in blocks)


def main():
    lines = io.StringIO()
    for name, link, packet in packets():
        data = bytes(packet)
        values = " ".join(f"{key}={value}" for key, value in fields(link, data))
        print(name, link, data.hex(), values, file=lines)
    (HERE / "packets.txt").write_text(lines.getvalue())
    text = "".join(f"{name} {data.hex()}\n" for name, data in captures())
    (HERE / "captures.txt").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
