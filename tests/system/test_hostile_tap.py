"""A pod that floods or lies through its tap loses its own packets, each for a reason with a name; nobody else loses any."""

import collections
import itertools
import random
import re
import socket
import struct

import pytest
from lab import eventually
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_RS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrFragment,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

SOL_PACKET, PACKET_VNET_HDR = 263, 15
EVERYBODY = "ff:ff:ff:ff:ff:ff"
OWN = "02:00:00:00:66:02"
FLOOD = 20_000


class Flooder:
    """The pod behind the tap "bad", which sends what it likes."""

    def __init__(self, lab, pod):
        self.daemon, self.pod = lab.daemon, pod
        self.router = lab.daemon.interface("bad")["mac"]
        with pod.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.bind(("eth0", 0))

    def vnet(self):
        """From now on each frame begins with a `virtio_net_hdr`."""
        self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)

    def send(self, frames, count=FLOOD):
        """Sends frames, over and over until there were `count`; returns how many the pod's kernel took."""
        frames = [bytes(frame) for frame in frames]
        taken = 0
        for frame in itertools.islice(itertools.cycle(frames), count):
            try:
                self.socket.send(frame)
                taken += 1
            except OSError:
                # It is longer than the device takes, contradicts itself, or the queue is full.
                continue
        return taken

    def to_router(self):
        """An Ethernet header to the router."""
        return Ether(src=OWN, dst=self.router)

    def received(self, kind="rx_packets"):
        """Frames that Quiver has received from here."""
        return int(self.daemon.counter("bad", kind))

    def settled(self):
        """Waits until all that was sent has been received; returns the drops, by reason."""
        before = -1

        def still():
            nonlocal before
            last, before = before, self.received()
            return last == before

        eventually(still, "the flood is over", interval=0.2)
        drops = collections.Counter()
        for (_, reason), count in self.daemon.drops_of("bad").items():
            drops[reason] += count
        return drops


@pytest.fixture
def bystanders(lab):
    """Pod a pings pod b and a memif sends to another all through the test: nothing of it may be lost."""
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0") + lab.memif("m12", 12) + lab.memif("m13", 13))
    with a.pinging("10.2.0.2", 0.005), lab.generator("m12", "m13", 12, 13, "--rate", 2000, "--count", 8000) as generator:
        eventually(lambda: lab.daemon.counter("m13", "tx_packets") > 100, lambda: f"packets flow\n{generator.output()}")
        yield a, b
        assert lab.lossless_end(generator)["sent"] == 8000


@pytest.fixture
def bad(lab, bystanders):
    """A pod behind the routed tap "bad" (10.66.0.0/24, fd00:66::/64), whose kernel keeps quiet."""
    pod = lab.pod("bad")
    lab.daemon.apply(
        '[[interface]]\nname = "bad"\naddresses = ["10.66.0.1/24", "fd00:66::1/64"]\nmtu = 9000\n'
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_mac = "{OWN}", host_addresses = ["10.66.0.2/24"], host_mtu = 65521 }}\n'
    )
    # A station that needn't be asked for.
    lab.daemon.apply('[[neighbor]]\ninterface = "bad"\naddress = "fd00:66::99"\nmac = "02:00:00:00:00:99"\n')
    pod.must_ping("10.66.0.1", count=1)
    return Flooder(lab, pod)


def events(daemon, node):
    """What a node has counted besides drops."""
    found = re.findall(rf'quiver_node_events_total{{node="{node}",event="([^"]*)"}} (\d+)', daemon.scrape()[1])
    return collections.Counter({event: int(count) for event, count in found})


# -- unfinished packets ------------------------------------------------------------------------------------------------


def vnet_header(flags=0, gso=0, header=0, size=0, start=0, offset=0):
    """A `virtio_net_hdr` of 10 bytes (virtio 1.2, section 5.1.6)."""
    return struct.pack("<BBHHHH", flags, gso, header, size, start, offset)


def hole(lab):
    """A memif that no peer comes to: packets are finished for it, and then dropped."""
    return (
        '[[interface]]\nname = "hole"\naddresses = ["10.8.0.1/24", "fd00:8::1/64"]\nmtu = 9000\n'
        f'memif = {{ socket = "{lab.directory}/hole" }}\n'
        '[[neighbor]]\ninterface = "hole"\naddress = "10.8.0.2"\nmac = "02:00:00:00:00:99"\n'
        '[[neighbor]]\ninterface = "hole"\naddress = "fd00:8::2"\nmac = "02:00:00:00:00:99"\n'
    )


def test_offloads_that_cannot_be_are_survived(lab, daemon, bad):
    """Sizes and places that no sender means, in front of packets to the router, to a tap, and to a port that wants them finished."""
    daemon.apply(hole(lab))
    dice = random.Random(4711)
    frames = []
    for length in (0, 1, 100, 1400, 9000, 60000):
        payload = Raw(bytes(length))
        for target in ("10.66.0.1", "10.2.0.2", "10.8.0.2"):
            for transport in (TCP(sport=1, dport=2), UDP(sport=1, dport=2), ICMP()):
                frames.append(bytes(bad.to_router() / IP(src="10.66.0.2", dst=target) / transport / payload))
        frames.append(bytes(bad.to_router() / IPv6(src="fd00:66::2", dst="fd00:8::2") / TCP(sport=1, dport=2) / payload))
        frames.append(bytes(bad.to_router() / Dot1Q(vlan=7) / IP(src="10.66.0.2", dst="10.8.0.2") / TCP() / payload))
    bad.vnet()
    likely = {
        "gso": (0, 1, 4, 5, 0x81, 0x84), "size": (1, 7, 48, 1460, 8000, 0xFFFF), "header": (0, 14, 34, 54, 66),
        "start": (14, 34, 38, 54), "offset": (6, 16),
    }  # fmt: skip
    lies = {
        "gso": (3, 0x80, 0xFF), "size": (0, 3, 1 << 15), "header": (1, 13, 500, 0xFFFF), "start": (0, 1, 13, 1000, 0xFFFF),
        "offset": (0, 1, 5, 1000, 0xFFFF),
    }  # fmt: skip
    taken = 0
    for _ in range(6000):
        fields = {name: dice.choice(values + (lies[name] if dice.random() < 0.2 else ())) for name, values in likely.items()}
        header = vnet_header(flags=dice.choice((1, 1, 1, 0, 0xFF)), **fields)
        taken += bad.send([header + dice.choice(frames)], 1)
    drops = bad.settled()
    assert taken > 500, "the pod's kernel lets some of it through"
    # Some were good, and cut; others can't be what they say.
    assert drops["link-down"] > 0 and int(events(daemon, "offload")["segments"]) > 0, drops
    assert drops["malformed"] + drops["too-many-segments"] + drops["refused"] > 0, drops


def test_a_super_frame_asks_for_a_segment_per_byte(lab, daemon, bad):
    daemon.apply(hole(lab))
    bad.vnet()
    frame = bytes(bad.to_router() / IP(src="10.66.0.2", dst="10.8.0.2") / TCP(sport=1, dport=2) / Raw(bytes(60000)))
    header = vnet_header(flags=1, gso=1, header=54, size=1, start=34, offset=16)
    taken = bad.send([header + frame], 2000)
    drops = bad.settled()
    assert taken > 0
    # As many as it takes of each that comes to us as it is.
    assert drops["too-many-segments"] == bad.received("rx_unicast") - 1, (drops, bad.received("rx_unicast"))


# -- neighbours ----------------------------------------------------------------------------------------------------------


def arp(**fields):
    source = fields.get("hwsrc", OWN)
    return Ether(src=source, dst=EVERYBODY) / ARP(**{"hwsrc": OWN, "psrc": "10.66.0.2", "pdst": "10.66.0.1", **fields})


def some_mac(number):
    return f"02:66:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


ARP_FLOODS = {
    "questions": lambda: [arp()],
    "questions-of-strangers": lambda: [arp(hwsrc=some_mac(n), psrc=f"10.66.{n >> 8}.{n & 255}") for n in range(3, 3000)],
    "questions-for-others": lambda: [arp(pdst=f"10.66.0.{n}") for n in range(3, 255)],
    "claims-of-our-address": lambda: [arp(op=2, psrc="10.66.0.1", hwsrc=some_mac(n)) for n in range(500)],
    "claims-of-foreign-addresses": lambda: [arp(op=2, psrc="10.2.0.2", pdst="10.2.0.2", hwsrc=some_mac(n)) for n in range(500)],
    "answers-nobody-asked-for": lambda: [arp(op=2, psrc=f"10.66.0.{n}", hwsrc=some_mac(n)) for n in range(3, 255)],
    "moves": lambda: [arp(op=2, hwsrc=some_mac(n)) for n in range(500)],
    "nonsense": lambda: [
        arp(op=op, hwlen=hwlen, plen=plen, ptype=ptype)
        for op in (0, 1, 9, 65535) for hwlen in (0, 5, 255) for plen in (0, 3, 255) for ptype in (0x0800, 0x86DD)
    ],
}  # fmt: skip


@pytest.mark.parametrize("flood", ARP_FLOODS)
def test_a_flood_of_arp(daemon, bad, bystanders, flood):
    known = {entry["address"]: entry["mac"] for entry in daemon.show("neighbor")["neighbors"] if entry["interface"] != "bad"}
    bad.send(ARP_FLOODS[flood]())
    drops = bad.settled()
    received = bad.received("rx_broadcast")
    assert received > 1000
    # Each ARP packet ends here, by name, or becomes an answer, or is news to the control thread.
    known_of = events(daemon, "arp-input")
    assert sum(drops.values()) + known_of["answered"] + known_of["told"] >= received, (drops, known_of, received)
    after = {entry["address"]: entry.get("mac") for entry in daemon.show("neighbor")["neighbors"] if entry["interface"] != "bad"}
    assert known.items() <= after.items(), "nobody else's neighbours have changed"
    assert len([n for n in daemon.show("neighbor")["neighbors"] if n["interface"] == "bad"]) <= 8192
    assert len(daemon.log()[daemon.mark :].splitlines()) < 30, daemon.log()[daemon.mark :][-3000:]
    bad.pod.ip("link", "set", "eth0", "address", OWN)
    bystanders[0].must_ping("10.66.0.1")


def nd(source, destination, message, mac=OWN, to="33:33:ff:00:00:01"):
    return Ether(src=mac, dst=to) / IPv6(src=source, dst=destination, hlim=255) / message


ND_FLOODS = {
    "solicitations": lambda: [
        nd("fd00:66::2", "ff02::1:ff00:1", ICMPv6ND_NS(tgt="fd00:66::1") / ICMPv6NDOptSrcLLAddr(lladdr=OWN)),
    ],
    "solicitations-of-strangers": lambda: [
        nd(f"fd00:66::{n:x}", "ff02::1:ff00:1", ICMPv6ND_NS(tgt="fd00:66::1") / ICMPv6NDOptSrcLLAddr(lladdr=some_mac(n)), some_mac(n))
        for n in range(3, 3000)
    ],
    "claims-of-our-address": lambda: [
        nd("fd00:66::1", "ff02::1", ICMPv6ND_NA(tgt="fd00:66::1", O=1) / ICMPv6NDOptDstLLAddr(lladdr=some_mac(n)), to="33:33:00:00:00:01")
        for n in range(500)
    ],
    "duplicate-address-detection": lambda: [nd("::", "ff02::1:ff00:1", ICMPv6ND_NS(tgt="fd00:66::1"))],
    "routers": lambda: [
        nd("fe80::2", "ff02::2", ICMPv6ND_RS(), to="33:33:00:00:00:02"), nd("fe80::2", "ff02::1", ICMPv6ND_RA(), to="33:33:00:00:00:01"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("flood", ND_FLOODS)
def test_a_flood_of_neighbour_discovery(daemon, bad, flood):
    bad.send(ND_FLOODS[flood]())
    drops = bad.settled()
    received = bad.received("rx_multicast")
    assert received > 1000
    known_of = events(daemon, "ip6-nd")
    assert sum(drops.values()) + known_of["answered"] + known_of["told"] >= received, (drops, known_of, received)
    assert len([n for n in daemon.show("neighbor")["neighbors"] if n["interface"] == "bad"]) <= 8192
    assert len(daemon.log()[daemon.mark :].splitlines()) < 30, daemon.log()[daemon.mark :][-3000:]


@pytest.mark.parametrize("version", [4, 6])
def test_a_scan_of_silent_neighbours(daemon, bad, version):
    """Packets for stations that aren't there, in a network of somebody else."""
    if version == 4:
        packets = [bad.to_router() / IP(src="10.66.0.2", dst=f"10.2.0.{n}") / UDP() / Raw(b"x" * 20) for n in range(3, 250)]
    else:
        packets = [bad.to_router() / IPv6(src="fd00:66::2", dst=f"fd00:66::1:{n:x}") / UDP() / Raw(b"x" * 20) for n in range(3, 2000)]
    bad.send(packets)
    drops = bad.settled()
    assert drops["resolve-limited"] + drops["neighbour-unresolved"] > 1000, drops
    unicast = bad.received("rx_unicast")
    # What waits is dropped in the end, too.
    eventually(lambda: sum(daemon.drops_of("bad").values()) >= unicast - 1, lambda: (unicast, daemon.drops_of("bad")))


# -- errors and fragments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason, packet",
    [
        ("ttl-expired", lambda: IP(src="10.66.0.2", dst="10.2.0.2", ttl=1) / UDP(sport=1, dport=2) / Raw(b"x" * 20)),
        ("no-route", lambda: IP(src="10.66.0.2", dst="192.0.2.1") / UDP(sport=1, dport=2) / Raw(b"x" * 20)),
        ("hop-limit-expired", lambda: IPv6(src="fd00:66::2", dst="fd00:66::99", hlim=1) / UDP(sport=1, dport=2) / Raw(b"x" * 20)),
        ("too-big", lambda: IP(src="10.66.0.2", dst="10.2.0.2", flags="DF") / UDP(sport=1, dport=2) / Raw(b"x" * 3000)),
        ("port-unreachable", lambda: IP(src="10.66.0.2", dst="10.66.0.1") / UDP(sport=1, dport=2) / Raw(b"x" * 20)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flood_that_asks_for_icmp_errors(daemon, bad, bystanders, reason, packet):
    before = bad.received("rx_unicast"), daemon.counter("bad", "tx_unicast")
    bad.send([bad.to_router() / packet()])
    drops = bad.settled()
    received, sent = bad.received("rx_unicast") - before[0], daemon.counter("bad", "tx_unicast") - before[1]
    assert received > 1000
    assert drops[reason] == received, (drops, received)
    version = "6" if "hop" in reason else "4"
    counted = events(daemon, f"icmp{version}-error")
    assert counted["icmp-limited"] > 0 and sum(counted.values()) >= received, (counted, received)
    assert sent < received
    # The limit is this interface's own: others are still told.
    assert "Destination Net Unreachable" in bystanders[0].ping("192.0.2.1", count=1).text


def fragments_without_end(bad):
    return [
        bad.to_router() / IP(src="10.66.0.2", dst="10.66.0.1", id=n, flags="MF", frag=place, proto=1) / Raw(bytes(64))
        for n in range(2000) for place in (0, 8190 - 9)
    ]  # fmt: skip


def fragments_that_overlap(bad):
    return [
        bad.to_router() / IP(src="10.66.0.2", dst="10.66.0.1", id=n, flags="MF", frag=place, proto=1) / Raw(bytes(64))
        for n in range(500) for place in (0, 4, 2)
    ]  # fmt: skip


def fragments_of_eight_bytes(bad):
    whole = IP(src="10.66.0.2", dst="10.66.0.1", id=1) / ICMP() / Raw(bytes(2000))
    return [bad.to_router() / piece for piece in fragment(whole, 8)]


def fragments_beyond_the_end(bad):
    return [bad.to_router() / IP(src="10.66.0.2", dst="10.66.0.1", id=n, frag=8191, proto=1) / Raw(bytes(64)) for n in range(500)]


def fragments_of_ipv6(bad):
    return [
        bad.to_router() / IPv6(src="fd00:66::2", dst="fd00:66::1") / IPv6ExtHdrFragment(id=n, m=1, offset=place, nh=58) / Raw(bytes(64))
        for n in range(2000) for place in (0, 100)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "flood", [fragments_without_end, fragments_that_overlap, fragments_of_eight_bytes, fragments_beyond_the_end, fragments_of_ipv6]
)
def test_a_flood_of_fragments(daemon, bad, bystanders, flood):
    a, _ = bystanders
    before = bad.received("rx_unicast")
    # Somebody else's fragments find room all the while.
    with a.pinging("10.1.0.1", 0.02, "-s", 4000):
        bad.send(flood(bad))
    drops = bad.settled()
    # Which interface they were of isn't told.
    drops.update({reason: count for reason in ("evicted", "timed-out") if (count := daemon.dropped(reason))})
    received = bad.received("rx_unicast") - before
    assert received > 1000
    # At most 64 packets of at most 128 pieces wait.
    assert received - 64 * 128 <= sum(drops.values()), (drops, received)
    assert set(drops) & {"evicted", "overlap", "bad-fragment", "duplicate", "too-many-fragments"}, drops


def test_fragments_pass_as_they_are(daemon, bad, bystanders):
    """Those to others aren't put together: nothing is kept, however many there are."""
    before = bad.received("rx_unicast"), daemon.counter("b", "tx_unicast")
    fragment = lambda n: IP(src="10.66.0.2", dst="10.2.0.2", id=n, flags="MF", frag=n % 100, proto=17)
    bad.send([bad.to_router() / fragment(n) / Raw(bytes(64)) for n in range(500)])
    drops = bad.settled()
    received = bad.received("rx_unicast") - before[0]
    assert daemon.counter("b", "tx_unicast") - before[1] + sum(drops.values()) >= received > 1000, (drops, received)


# -- sizes and tags --------------------------------------------------------------------------------------------------------


def test_the_longest_packets(daemon, bad, bystanders):
    """65521 bytes is the most that a tap of Linux carries."""
    # Fragments of up to the MTU reach the router, which puts them together and answers.
    bad.pod.must_ping("10.66.0.1", "-s", 65000, "-M", "dont")
    longest = bad.to_router() / IP(src="10.66.0.2", dst="10.2.0.2") / UDP(sport=1, dport=2) / Raw(bytes(65521 - 28))
    denied = bad.to_router() / IP(src="10.66.0.2", dst="10.2.0.2", flags="DF") / UDP(sport=1, dport=2) / Raw(bytes(65521 - 28))
    claims = bad.to_router() / IP(src="10.66.0.2", dst="10.2.0.2", len=65535) / UDP(sport=1, dport=2) / Raw(bytes(1000))
    local = bad.to_router() / IP(src="10.66.0.2", dst="10.66.0.1") / UDP(sport=1, dport=2) / Raw(bytes(65521 - 28))
    assert bad.send([longest, denied, claims, local], 2000) > 1000
    drops = bad.settled()
    assert drops["too-big"] > 0 and drops["port-unreachable"] > 0, drops
    assert any("len" in reason or "truncated" in reason or "short" in reason for reason in drops), drops


def test_runts(daemon, bad):
    """Whole headers without anything behind them, and cut in their middle."""
    head = bytes(bad.to_router())[:12]
    whole = {
        0x0800: bytes(IP(src="10.66.0.2", dst="10.2.0.2") / UDP()),
        0x86DD: bytes(IPv6(src="fd00:66::2", dst="fd00:66::1") / ICMPv6EchoRequest()),
        0x0806: bytes(ARP()), 0x8100: struct.pack("!HH", 5, 0x0800) + bytes(IP()), 0x88A8: struct.pack("!HHHH", 5, 0x8100, 6, 0x0800),
        0x0026: b"\x42\x42\x03" + bytes(35), 0x0000: b"", 0xFFFF: b"x",
    }  # fmt: skip
    frames = [head + struct.pack("!H", kind) + body[:length] for kind, body in whole.items() for length in range(len(body) + 1)]
    before = bad.received()
    taken = bad.send(frames, len(frames) * 20)
    drops = bad.settled()
    assert taken > len(frames) * 10
    received = bad.received() - before
    # All but the few that are whole.
    assert sum(drops.values()) >= received * 0.8, (drops, received)


def test_stacks_of_tags(daemon, bad):
    inside = bytes(IP(src="10.66.0.2", dst="10.2.0.2") / UDP() / Raw(b"x" * 20))
    frames = []
    for depth in (1, 2, 3, 8, 100, 300):
        for tag, vlan in itertools.product((0x8100, 0x88A8, 0x9100), (0, 1, 4095)):
            tags = b"".join(struct.pack("!HH", vlan, tag) for _ in range(depth - 1)) + struct.pack("!HH", vlan, 0x0800)
            frames.append(bytes(bad.to_router())[:12] + struct.pack("!H", tag) + tags + inside)
    frames.append(bad.to_router() / Dot1AD(vlan=1) / Dot1AD(vlan=2) / Dot1Q(vlan=3) / ARP())
    before = bad.received()
    bad.send(frames, 5000)
    drops = bad.settled()
    received = bad.received() - before
    assert received > len(frames)  # each of them, and how many more is the machine's business
    assert any("vlan" in reason for reason in drops), drops


# -- bridges ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bridged(lab, bystanders):
    """Pods c and d in a bridge with the pod that floods; the bridge learns 100 addresses at most."""
    c, d, pod = (lab.pod(role) for role in ("c", "d", "bad"))
    member = 'bridge = { name = "lan" }'
    lab.daemon.apply(
        '[[bridge]]\nname = "lan"\nlearn_limit = 100\n'
        + lab.plain_tap("c", c, member, address="10.5.0.3/24") + lab.plain_tap("d", d, member, address="10.5.0.4/24")
        + lab.plain_tap("bad", pod, member, address="10.5.0.66/24")
    )  # fmt: skip
    c.must_ping("10.5.0.4")
    return c, d, Flooder(lab, pod)


def bridge(daemon):
    return next(entry for entry in daemon.show("bridge", "lan")["bridges"] if entry["name"] == "lan")


def test_a_flood_of_addresses_fills_only_the_bridges_limit(daemon, bridged):
    c, d, bad = bridged
    # Known ones aren't flooded.
    with c.pinging("10.5.0.4"):
        bad.send([Ether(src=some_mac(n), dst="02:00:00:00:05:99", type=0x88B5) / Raw(b"x" * 46) for n in range(3000)])
        bad.settled()
        shown = bridge(daemon)
        assert len(shown["macs"]) <= 100, len(shown["macs"])
        table = {entry["mac"]: entry.get("interface") for entry in shown["macs"]}
        assert (table[c.mac()], table[d.mac()]) == ("c", "d"), "who was known stays known"
        assert bad.received() > 1000


def test_a_flood_of_stolen_addresses(daemon, bridged):
    """Addresses of others are learned where they are seen; once it is over, their owners have them again."""
    c, d, bad = bridged
    bad.send([Ether(src=mac, dst="02:00:00:00:05:99", type=0x88B5) / Raw(b"x" * 46) for mac in (c.mac(), d.mac())], 5000)
    bad.settled()
    assert int(bridge(daemon)["moves"]) > 0
    eventually(lambda: c.ping("10.5.0.4", count=1).received, "c reaches d again")
    eventually(lambda: d.ping("10.5.0.3", count=1).received, "d reaches c again")
    c.must_ping("10.5.0.4")
    assert len(daemon.log()[daemon.mark :].splitlines()) < 30, daemon.log()[daemon.mark :][-3000:]


@pytest.mark.parametrize("length", [46, 1486])
def test_a_storm_of_broadcasts(daemon, bridged, length):
    c, _, bad = bridged
    before = bad.received("rx_broadcast"), daemon.counter("c", "tx_broadcast")
    bad.send([Ether(src=OWN, dst=EVERYBODY, type=0x88B5) / Raw(bytes(length))])
    drops = bad.settled()
    stormed, copies = bad.received("rx_broadcast") - before[0], daemon.counter("c", "tx_broadcast") - before[1]
    assert stormed > 1000
    # Each reaches c, or is dropped by name.
    assert copies + sum(drops.values()) >= stormed, (drops, copies, stormed)
    c.must_ping("10.5.0.4")
