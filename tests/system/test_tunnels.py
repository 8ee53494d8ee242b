"""Tunnels: two quiverd whose uplinks are the ends of a veth, and scapy as the other end of one."""

import pytest
from lab import eventually
from lab.laboratory import iperf
from lab.process import run
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw
from scapy.utils import wrpcap

ENDS = {"ipv4": ("10.9.0.1", "10.9.0.2"), "ipv6": ("fd00:9::1", "fd00:9::2")}
STATION = "02:00:00:00:09:09"

FAMILIES = pytest.mark.parametrize("family", ENDS)


class Side:
    """A quiverd with an uplink, and a pod behind it."""

    def __init__(self, number, daemon, pod, uplink):
        self.number, self.daemon, self.pod = number, daemon, pod
        self.uplink = (
            f'[[interface]]\nname = "up{number}"\naddresses = ["10.9.0.{number}/24", "fd00:9::{number}/64"]\n'
            f'af_packet = {{ host_interface = "veth", netns = "{uplink.name}" }}\n'
        )

    def tunnel(self, kind, family, *lines, more=""):
        """The interface "t" to the other side."""
        local, remote = ENDS[family] if self.number == 1 else ENDS[family][::-1]
        port = f'{kind} = {{ local = "{local}", remote = "{remote}", vni = 4096{more} }}'
        return "\n".join(["[[interface]]", 'name = "t"', *lines, port, ""])


@pytest.fixture
def sides(lab, own_daemon):
    """Two of them, joined by a cable."""
    other = own_daemon().start()
    one, two = lab.pod("u"), lab.pod("w")
    one.ip("link", "add", "veth", "type", "veth", "peer", "name", "veth", "netns", two.name)
    for pod in (one, two):
        pod.ip("link", "set", "veth", "up")
    return Side(1, lab.daemon, lab.pod("a"), one), Side(2, other, lab.pod("b"), two)


def bridged(lab, sides, kind, family, *pod_lines, more=""):
    """The pods, 10.5.0.1 and .2, in one network over both sides."""
    member = 'bridge = { name = "lan" }'
    for side in sides:
        tap = lab.plain_tap("pod", side.pod, member, *pod_lines, address=f"10.5.0.{side.number}/24")
        side.daemon.apply('[[bridge]]\nname = "lan"\n' + side.uplink + side.tunnel(kind, family, member, more=more) + tap)
    left, _ = sides
    eventually(lambda: left.pod.ping("10.5.0.2", count=1, wait=1).received == 1, lambda: "the other pod answers")


@FAMILIES
@pytest.mark.parametrize("kind", ["vxlan", "geneve"])
def test_pods_of_two_hosts_are_in_one_network(lab, sides, kind, family):
    bridged(lab, sides, kind, family, "mtu = 1430")
    (left, right) = sides
    left.pod.must_ping("10.5.0.2")
    right.pod.must_ping("10.5.0.1", "-s", 1400 - 28, "-M", "do")
    assert left.daemon.dropped("checksum") == 0
    shown = left.daemon.interface("t")
    local, remote = ENDS[family]
    assert shown["tunnel"] == f"vni 4096, {local} to {remote} port {4789 if kind == 'vxlan' else 6081}"
    assert (shown["port"], shown["mtu"]) == (kind, 1450 if family == "ipv4" else 1430)
    assert left.daemon.counter("t", "rx_packets") >= 6 and left.daemon.counter("t", "tx_packets") >= 6
    assert "vni 4096" in left.daemon.cli("show", "interface", "t").stdout


@FAMILIES
def test_a_frame_too_big_for_the_tunnel_is_counted(lab, sides, family):
    bridged(lab, sides, "vxlan", family)
    left, _ = sides
    assert left.pod.ping("10.5.0.2", "-s", 1472, "-M", "do", count=2, wait=1).received == 0
    assert left.daemon.dropped("too-long") >= 2, left.daemon.drops()


@pytest.mark.parametrize(
    "kind,family,mtu,more",
    [
        ("vxlan", "ipv4", 1450, ""),
        ("vxlan", "ipv6", 1430, ""),
        ("vxlan", "ipv4", 1450, ", udp_checksum = true"),
        ("geneve", "ipv4", 1450, ""),
        ("geneve", "ipv4", 1464, ', mode = "ip"'),
        ("geneve", "ipv6", 1444, ', mode = "ip"'),
    ],
)
def test_packets_are_routed_through_tunnels(lab, sides, kind, family, mtu, more):
    for side in sides:
        other = 3 - side.number
        side.daemon.apply(
            side.uplink
            + side.tunnel(kind, family, f'addresses = ["10.99.0.{side.number}/24"]', more=more)
            + lab.tap("pod", side.pod, f"10.{side.number}.0")
            + f'[[route]]\nprefix = "10.{other}.0.0/24"\nnext_hops = [{{ address = "10.99.0.{other}" }}]\n'
        )
    left, right = sides
    eventually(lambda: left.pod.ping("10.2.0.2", count=1, wait=1).received == 1, lambda: "the other pod answers")
    left.pod.must_ping("10.2.0.2", "-s", mtu - 28, "-M", "do")
    # Larger ones that may be cut are, before they go in; others learn why not.
    right.pod.must_ping("10.1.0.2", "-s", 4000)
    assert f"mtu = {mtu}" in left.pod.ping("10.2.0.2", "-s", mtu - 27, "-M", "do", count=1, wait=1).text
    local, remote = ENDS[family]
    explained = left.daemon.cli("explain", "10.1.0.2:1000", "10.2.0.2", "udp/2000").stdout
    assert f"goes into a tunnel: vni 4096, {local} to {remote} port" in explained and f"to {remote} by up1" in explained, explained
    # Super-frames are cut to size before they go in.
    iperf((left.pod, right.pod), "-n", "4M")
    assert left.daemon.dropped("too-big") == 1, left.daemon.drops()


@pytest.mark.parametrize("tags,mtu", [("outer_id = 7", 1446), ("outer_id = 7, inner_id = 8", 1442)])
def test_a_vlan_of_a_tunnel_has_room_for_its_tags(lab, sides, tags, mtu):
    for side in sides:
        other = 3 - side.number
        side.daemon.apply(
            side.uplink
            + side.tunnel("vxlan", "ipv4")
            + f'[[interface]]\nname = "v{side.number}"\naddresses = ["10.99.0.{side.number}/24"]\nvlan = {{ parent = "t", {tags} }}\n'
            + lab.tap("pod", side.pod, f"10.{side.number}.0")
            + f'[[route]]\nprefix = "10.{other}.0.0/24"\nnext_hops = [{{ address = "10.99.0.{other}" }}]\n'
        )
    left, right = sides
    assert left.daemon.interface("v1")["mtu"] == mtu
    eventually(lambda: left.pod.ping("10.2.0.2", count=1, wait=1).received == 1, lambda: "the other pod answers")
    left.pod.must_ping("10.2.0.2", "-s", mtu - 28, "-M", "do")
    right.pod.must_ping("10.1.0.2", "-s", 4000)
    assert f"mtu = {mtu}" in left.pod.ping("10.2.0.2", "-s", mtu - 27, "-M", "do", count=1, wait=1).text
    iperf((left.pod, right.pod), "-n", "4M")
    assert left.daemon.dropped("too-big") == 1, left.daemon.drops()
    # The tunnel changes, and its VLAN with it; one that is given an MTU keeps that, as long as there is room.
    left.daemon.apply(left.tunnel("vxlan", "ipv4", "mtu = 1400"))
    assert left.daemon.interface("v1")["mtu"] == 1400 - (1450 - mtu)
    assert f"mtu = {1400 - (1450 - mtu)}" in left.pod.ping("10.2.0.2", "-s", 1380, "-M", "do", count=1, wait=1).text


@pytest.fixture
def far(lab):
    """A pod whose wire is the other end: 10.9.0.2, by a tap."""
    pod = lab.pod("far")
    lab.daemon.apply(lab.tap("up", pod, "10.9.0"))
    return pod


def tunnel(name, vni, *lines, kind="vxlan", more=""):
    port = f'{kind} = {{ local = "10.9.0.1", remote = "10.9.0.2", vni = {vni}{more} }}'
    return "\n".join(["[[interface]]", f'name = "{name}"', *lines, port, ""])


class Other:
    """The other end, by scapy."""

    def __init__(self, far, daemon):
        self.far, self.router = far, daemon.interface("up")["mac"]

    def outer(self, port=4789):
        return Ether(src=self.far.mac(), dst=self.router) / IP(src="10.9.0.2", dst="10.9.0.1") / UDP(sport=50000, dport=port, chksum=0)

    def vxlan(self, vni, frame):
        return self.outer() / VXLAN(vni=vni, flags="Instance") / frame

    def geneve(self, vni, frame, **more):
        return self.outer(6081) / GENEVE(vni=vni, proto=0x6558, **more) / frame


def test_geneve_over_ipv6_wants_checksums_unless_it_is_told_otherwise(lab):
    far = lab.pod("far")
    lab.daemon.apply(
        '[[interface]]\nname = "up"\naddresses = ["fd00:9::1/64"]\n'
        f'tap = {{ netns = "{far.name}", host_name = "eth0", host_addresses = ["fd00:9::2/64"] }}\n'
    )

    def ours(more=""):
        ends = f'local = "fd00:9::1", remote = "fd00:9::2", vni = 7{more}'
        lab.daemon.apply(f'[[interface]]\nname = "t"\naddresses = ["10.99.0.1/24"]\ngeneve = {{ {ends} }}\n')

    asks = Ether(src=STATION, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=STATION, psrc="10.99.0.2", pdst="10.99.0.1")
    outer = Ether(src=far.mac(), dst=lab.daemon.interface("up")["mac"]) / IPv6(src="fd00:9::2", dst="fd00:9::1")
    inside = GENEVE(vni=7, proto=0x6558) / asks
    summed, bare = (outer / UDP(sport=50000, dport=6081, **more) / inside for more in ({}, {"chksum": 0}))
    with far.wire() as wire:

        def is_answered():
            wire.expect(lambda f: ARP in f and f[ARP].op == 2 and f[ARP].psrc == "10.99.0.1", "ARP reply in the tunnel")

        ours()
        wire.send(bare)
        eventually(lambda: lab.daemon.dropped("no-checksum") == 1, lambda: str(lab.daemon.drops()))
        wire.send(summed)
        is_answered()
        ours(", udp_checksum = false")
        wire.send(bare)
        is_answered()
    assert lab.daemon.drops()["ip6-geneve-input", "no-checksum"]["packets"] == 1


def test_checksums_of_a_kernel_s_tunnel_are_good(lab):
    """A kernel leaves checksums of segments inside to the tap, and reckons with them in the outer one."""
    far, pod = lab.pod("far"), lab.pod("pod")
    lab.daemon.apply(
        '[[interface]]\nname = "up"\naddresses = ["fd00:9::1/64"]\n'
        f'tap = {{ netns = "{far.name}", host_name = "eth0", host_addresses = ["fd00:9::2/64"] }}\n'
        '[[interface]]\nname = "t"\naddresses = ["10.99.0.1/24"]\n'
        'vxlan = { local = "fd00:9::1", remote = "fd00:9::2", vni = 7 }\n' + lab.tap("pod", pod, "10.1.0")
    )
    far.ip("link", "add", "vx", "type", "vxlan", "id", "7", "local", "fd00:9::2", "remote", "fd00:9::1", "dstport", "4789")
    far.ip("addr", "add", "10.99.0.2/24", "dev", "vx")
    far.ip("link", "set", "vx", "up")
    far.ip("route", "add", "10.1.0.0/24", "via", "10.99.0.1")
    eventually(lambda: far.ping("10.1.0.2", count=1, wait=1).received == 1, lambda: str(lab.daemon.drops()))
    # Both ways by who receives: who sends has done with what it has given to its kernel.
    iperf((pod, far), "-n", "4M", "-R", to="10.99.0.2")
    iperf((far, pod), "-n", "4M", "-R", to="10.1.0.2")
    assert lab.daemon.counter("t", "rx_bytes") > 4 << 20
    assert lab.daemon.dropped("bad-checksum") == 0, lab.daemon.drops()


@pytest.mark.parametrize("kind", ["vxlan", "geneve"])
def test_what_was_damaged_on_its_way_is_dropped(lab, far, kind):
    lab.daemon.apply(tunnel("t", 7, 'addresses = ["10.99.0.1/24"]', kind=kind))
    other = Other(far, lab.daemon)
    asks = Ether(src=STATION, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=STATION, psrc="10.99.0.2", pdst="10.99.0.1")
    frame = getattr(other, kind)(7, asks)
    with far.wire() as wire:
        frame[UDP].chksum = 0x1234
        wire.send(frame)
        eventually(lambda: lab.daemon.dropped("bad-checksum") == 1, lambda: str(lab.daemon.drops()))
        # Scapy's own.
        del frame[UDP].chksum
        wire.send(frame)
        wire.expect(lambda f: ARP in f and f[ARP].op == 2 and f[ARP].psrc == "10.99.0.1", "ARP reply in the tunnel")
    assert lab.daemon.drops()[f"ip4-{kind}-input", "bad-checksum"]["packets"] == 1


@pytest.mark.parametrize("kind,layer", [("vxlan", VXLAN), ("geneve", GENEVE)])
def test_scapy_speaks_with_a_tunnel_s_own_address(lab, far, kind, layer):
    lab.daemon.apply(tunnel("t", 7, 'addresses = ["10.99.0.1/24"]', kind=kind))
    other = Other(far, lab.daemon)
    put_in = getattr(other, kind)
    with far.wire() as wire:
        asks = Ether(src=STATION, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=STATION, psrc="10.99.0.2", pdst="10.99.0.1")
        wire.send(put_in(7, asks))
        reply = wire.expect(lambda f: layer in f and ARP in f and f[ARP].op == 2, "ARP reply in the tunnel")
        assert reply[ARP].psrc == "10.99.0.1" and reply[layer].vni == 7
        ours = reply[ARP].hwsrc
        echo = Ether(src=STATION, dst=ours) / IP(src="10.99.0.2", dst="10.99.0.1", tos=1) / ICMP(id=5) / Raw(b"x" * 40)
        wire.send(put_in(7, echo))
        answer = wire.expect(lambda f: layer in f and ICMP in f[layer] and f[ICMP].type == 0, "echo reply in the tunnel")
    capture = lab.directory / f"{kind}.pcap"
    wrpcap(str(capture), [reply, answer])
    fields = ("-e", f"{kind}.vni", "-e", "ip.checksum.status", "-e", "_ws.expert.severity")
    shown = run("tshark", "-r", capture, "-o", "ip.check_checksum:TRUE", "-T", "fields", *fields).stdout.splitlines()
    # The network identifier, good checksums (outer; outer and inner), and nothing that it finds odd.
    assert [(int(line.split("\t")[0], 0), *line.split("\t")[1:]) for line in shown] == [(7, "1", ""), (7, "1,1", "")], shown
    outer = answer[IP]
    assert (outer.src, outer.dst, outer.ttl, str(outer.flags)) == ("10.9.0.1", "10.9.0.2", 64, "DF")
    assert outer[UDP].sport >= 49152 and outer[UDP].dport == (4789 if kind == "vxlan" else 6081)


def test_what_is_no_tunnel_s_is_counted_by_name(lab, far):
    lab.daemon.apply(tunnel("t", 7) + tunnel("g", 7, kind="geneve"))
    other = Other(far, lab.daemon)
    frame = Ether(src=STATION, dst="ff:ff:ff:ff:ff:ff") / ARP()
    critical = GeneveOptions(classid=1, type=0x80, length=0)
    stranger = other.vxlan(7, frame)
    stranger[IP].src = "10.9.0.3"
    with far.wire() as wire:
        wire.send(other.vxlan(8, frame), stranger, other.geneve(7, frame, critical=1, options=[critical]), other.geneve(7, frame, oam=1))
    wanted = {
        ("ip4-vxlan-input", "unknown-vni"), ("ip4-vxlan-input", "unknown-peer"),
        ("ip4-geneve-input", "critical-option"), ("ip4-geneve-input", "control"),
    }  # fmt: skip
    eventually(lambda: wanted <= set(lab.daemon.drops()), lambda: f"all are named: {lab.daemon.drops()}")
    # Nothing of the tunnels is in the way of others' ports.
    assert "UNREACHABLE" not in str(lab.daemon.drops())


def test_networks_with_the_same_addresses_are_tenants_apart(lab, far):
    text = ""
    for vni, name in ((1, "red"), (2, "blue")):
        text += (
            f'[[vrf]]\nname = "{name}"\n'
            + tunnel(f"t-{name}", vni, 'addresses = ["10.50.0.1/24"]', f'vrf = "{name}"')
            + f'[[interface]]\nname = "s-{name}"\nvrf = "{name}"\naddresses = ["10.60.0.1/24"]\nsink = {{}}\n'
            + f'[[neighbor]]\ninterface = "s-{name}"\naddress = "10.60.0.2"\nmac = "{STATION}"\n'
            + f'[[tenant]]\nname = "{name}"\ninterfaces = ["t-{name}"]\noutside_interfaces = ["s-{name}"]\n'
            + f"context = {vni}\ntimeouts = {{ embryonic_seconds = 600 }}\n"
        )
    lab.daemon.apply(text)
    other = Other(far, lab.daemon)
    with far.wire() as wire:
        for vni, name, packets in ((1, "red", 1), (2, "blue", 2)):
            inner = Ether(src=STATION, dst=lab.daemon.interface(f"t-{name}")["mac"])
            inner /= IP(src="10.50.0.2", dst="10.60.0.2") / UDP(sport=1000, dport=2000) / Raw(b"the same")
            wire.send(*[other.vxlan(vni, inner)] * packets)
    found = lambda: lab.daemon.json("show", "session").get("sessions", [])
    seen = lambda: {session["tenant"]: int(session.get("forward_packets", 0)) for session in found()}
    eventually(lambda: seen() == {"red": 1, "blue": 2}, lambda: f"one session each: {found()}")


def test_a_tunnel_changes_its_network_and_survives_a_restart(lab, sides):
    bridged(lab, sides, "vxlan", "ipv4", "mtu = 1430")
    left, right = sides
    for side in sides:
        side.daemon.apply(side.tunnel("vxlan", "ipv4", 'bridge = { name = "lan" }').replace("4096", "77"))
    left.pod.must_ping("10.5.0.2")
    assert left.daemon.interface("t")["tunnel"].startswith("vni 77, ")
    right.daemon.stop()
    right.daemon.start()
    left.pod.must_ping("10.5.0.2")
    for side in sides:
        side.daemon.delete("interface", "t")
    assert left.pod.ping("10.5.0.2", count=1, wait=1).received == 0


def test_a_tunnel_waits_for_its_address(lab, far):
    text = tunnel("t", 7).replace("10.9.0.1", "10.9.9.9")
    _, outcomes, _ = lab.daemon.offer(text)
    assert "pending" in outcomes["t"], outcomes
    waits = str(lab.daemon.json("get", "interface", "--status"))
    assert "no interface of VRF default has the address 10.9.9.9 yet" in waits
    lab.daemon.apply('[[interface]]\nname = "lo"\naddresses = ["10.9.9.9/32"]\nloopback = {}\n')
    assert lab.daemon.states()["t"] == "applied"


def test_traces_show_both_ends(lab, far):
    lab.daemon.apply(tunnel("t", 7, 'addresses = ["10.99.0.1/24"]'))
    other = Other(far, lab.daemon)
    lab.daemon.cli("trace", "add", "up", 4)
    asks = Ether(src=STATION, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=STATION, psrc="10.99.0.2", pdst="10.99.0.1")
    with far.wire() as wire:
        wire.send(other.vxlan(7, asks))
        wire.expect(lambda f: VXLAN in f and ARP in f, "ARP reply in the tunnel")
    shown = lambda: lab.daemon.cli("show", "trace").stdout
    eventually(lambda: "from 10.9.0.2" in shown() and "to 10.9.0.2 port 4789 from port" in shown(), shown)
