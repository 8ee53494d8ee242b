#!/usr/bin/python3
"""Writes offload.txt: super-frames and unfinished packets, and what has to become of them, as scapy builds it.

Each case: a line `case NAME GSO SIZE START OFFSET` (what virtio_net_hdr says), a line `in HEX`, then `out HEX` lines.
GSO is none, tcp4, tcp6 or udp; START and OFFSET say where the checksum is, from the frame's first byte.
"""

from scapy.all import IP, TCP, UDP, Dot1Q, Ether, IPv6, IPv6ExtHdrDestOpt, PadN, Raw, raw

PAYLOAD = bytes((7 * n + n // 256) % 256 for n in range(5000))
ETHER = Ether(src="02:fe:00:00:00:01", dst="02:fe:00:00:00:02")


def unfinished(packet, layer, offset):
    """The frame with only the pseudo header's sum in its checksum field, as a sender leaves it to the device."""
    from scapy.layers.inet import in4_pseudoheader
    from scapy.layers.inet6 import PseudoIPv6
    from scapy.utils import checksum

    frame = bytearray(raw(packet))
    start = len(frame) - len(raw(Ether(bytes(frame))[layer]))
    ip = Ether(bytes(frame)).getlayer(IP) or Ether(bytes(frame)).getlayer(IPv6)
    if ip is None or layer not in Ether(bytes(frame)):
        raise SystemExit("no such layer")
    length = len(frame) - start
    number = 6 if layer is TCP else 17
    if isinstance(ip, IP):
        pseudo = in4_pseudoheader(number, ip, length)
    else:
        pseudo = raw(PseudoIPv6(src=ip.src, dst=ip.dst, uplen=length, nh=number))
    total = 0xFFFF - checksum(pseudo)
    frame[start + offset : start + offset + 2] = total.to_bytes(2, "big")
    return bytes(frame), start


def case(out, name, gso, size, build, payload, layer):
    """build(number, offset, last, payload) makes one packet; the super-frame is the one that has all the payload."""
    offset = 16 if layer is TCP else 6
    frame, start = unfinished(build(None, 0, True, payload), layer, offset)
    print(f"case {name} {gso} {size} {start} {offset}", file=out)
    print("in", frame.hex(), file=out)
    if gso == "none":
        print("out", raw(build(None, 0, True, payload)).hex(), file=out)
        return
    pieces = [payload[at : at + size] for at in range(0, len(payload), size)]
    for number, piece in enumerate(pieces):
        packet = build(number, number * size, number == len(pieces) - 1, piece)
        print("out", raw(packet).hex(), file=out)


def tcp(head, flags="PA", options=(), first="", seq=0xFFFFFC00):
    """A TCP builder; `first` flags stay with the first segment, P and F with the last."""

    def build(number, offset, last, payload):
        kept = flags if last else flags.replace("P", "").replace("F", "")
        kept += first if number in (None, 0) else ""
        segment = TCP(sport=40000, dport=80, seq=(seq + offset) % 2**32, ack=77, window=502, flags=kept, options=list(options))
        return head(number or 0) / segment / Raw(payload)

    return build


def udp(head):
    def build(number, offset, last, payload):
        return head(number or 0) / UDP(sport=40000, dport=53) / Raw(payload)

    return build


def v4(number):
    return ETHER / IP(src="10.9.0.1", dst="10.9.0.2", id=(65534 + number) % 65536, flags="DF", ttl=63)


def v4_options(number):
    return ETHER / IP(src="10.9.0.1", dst="10.9.0.2", id=5 + number, options=[b"\x94\x04\x00\x00"])


def v4_vlan(number):
    return ETHER / Dot1Q(vlan=100, prio=3) / Dot1Q(vlan=7) / IP(src="10.9.0.1", dst="10.9.0.2", id=5 + number)


def v6(_):
    return ETHER / IPv6(src="fd09::1", dst="fd09::2", hlim=63, fl=0x12345)


def v6_options(_):
    return ETHER / IPv6(src="fd09::1", dst="fd09::2") / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(44))])


TIMESTAMP = (("NOP", None), ("NOP", None), ("Timestamp", (1, 2)))

with open(__file__.replace(".py", ".txt"), "w") as out:
    case(out, "tcp4", "tcp4", 1448, tcp(v4, options=TIMESTAMP), PAYLOAD, TCP)
    case(out, "tcp4-fin-cwr", "tcp4", 1460, tcp(v4, flags="FPA", first="C"), PAYLOAD[:3000], TCP)
    case(out, "tcp4-exact", "tcp4", 1000, tcp(v4), PAYLOAD[:4000], TCP)
    case(out, "tcp4-tiny-odd", "tcp4", 11, tcp(v4), PAYLOAD[:300], TCP)
    case(out, "tcp4-options", "tcp4", 1400, tcp(v4_options), PAYLOAD[:2801], TCP)
    case(out, "tcp4-qinq", "tcp4", 1400, tcp(v4_vlan), PAYLOAD[:2801], TCP)
    case(out, "tcp6", "tcp6", 1428, tcp(v6, options=TIMESTAMP), PAYLOAD, TCP)
    case(out, "tcp6-long-headers", "tcp6", 1333, tcp(v6_options, options=TIMESTAMP), PAYLOAD[:3999], TCP)
    case(out, "udp4", "udp", 1200, udp(v4), PAYLOAD[:3500], UDP)
    case(out, "udp6", "udp", 1201, udp(v6), PAYLOAD[:3603], UDP)
    case(out, "checksum-tcp4", "none", 0, tcp(v4), PAYLOAD[:1401], TCP)
    case(out, "checksum-tcp6-empty", "none", 0, tcp(v6, flags="A"), b"", TCP)
    case(out, "checksum-udp4-short", "none", 0, udp(v4), PAYLOAD[:1], UDP)
    case(out, "checksum-udp6-long", "none", 0, udp(v6), PAYLOAD, UDP)
    # Payload chosen so that the sum is 0xffff: the field must be 0xffff, not 0, which would mean "none".
    zero = raw(udp(v4)(None, 0, True, b"\0\0"))[40:42]
    case(out, "checksum-udp4-zero", "none", 0, udp(v4), zero, UDP)
