"""Tunnels within tunnels, as a pod that is the other end of one may send them: four headers come off, and no more."""

import pathlib
import re

import pytest
from lab import eventually
from lab.flood import Flood, bystanders
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

OWN = "02:00:00:00:66:02"
PORTS = {"vxlan": 4789, "geneve": 6081}
#: Tunnels between the router and the pod: name, format, IP version, and network identifier.
TUNNELS = [("v4", "vxlan", 4, 44), ("v6", "vxlan", 6, 46), ("g4", "geneve", 4, 64), ("g6", "geneve", 6, 66)]
#: The bridged one, whose routed leg is behind it.
BRIDGED = ("br", "vxlan", 4, 99)


@pytest.fixture
def world(lab):
    """A pod behind the tap "bad", the other end of all tunnels, while others must lose nothing."""
    with bystanders(lab) as (_, b):
        pod = lab.pod("bad")
        ends = {4: ("10.66.0.1", "10.66.0.2"), 6: ("fd00:66::1", "fd00:66::2")}
        text = (
            '[[interface]]\nname = "bad"\naddresses = ["10.66.0.1/24", "fd00:66::1/64"]\nmtu = 9000\n'
            f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_mac = "{OWN}", host_addresses = ["10.66.0.2/24", '
            '"fd00:66::2/64"], host_mtu = 65521 }\n'
            '[[bridge]]\nname = "lan"\n'
            '[[interface]]\nname = "leg"\naddresses = ["10.79.0.1/24"]\nloopback = {}\nbridge = { name = "lan", bvi = true }\n'
        )
        for number, (name, kind, version, vni) in enumerate([*TUNNELS, BRIDGED]):
            local, remote = ends[version]
            how = 'bridge = { name = "lan" }' if name == "br" else f'addresses = ["10.80.{number}.1/24"]'
            text += (
                f'[[interface]]\nname = "{name}"\n{how}\n'
                f'{kind} = {{ local = "{local}", remote = "{remote}", vni = {vni}, udp_checksum = false }}\n'
            )
        lab.daemon.apply(text)
        pod.must_ping("10.66.0.1", count=1)
        yield pod, b


def nested(daemon, tunnels, payload):
    """A frame whose packet is for pod b, within tunnels, the first one outermost."""
    macs = {name: daemon.interface("leg" if name == "br" else name)["mac"] for name, *_ in tunnels}
    packet = bytes(IP(src="10.66.0.2", dst="10.2.0.2") / UDP(sport=7, dport=7777) / Raw(payload))
    ethertype = 0x0800
    for name, kind, version, vni in reversed(tunnels):
        frame = bytes(Ether(src=OWN, dst=macs[name], type=ethertype)) + packet
        header = VXLAN(vni=vni, flags="Instance") if kind == "vxlan" else GENEVE(vni=vni, proto=0x6558)
        udp = bytes(UDP(sport=50000, dport=PORTS[kind], chksum=0, len=16 + len(frame))) + bytes(header) + frame
        if version == 4:
            packet = bytes(IP(src="10.66.0.2", dst="10.66.0.1", proto=17) / Raw(udp))
        else:
            packet = bytes(IPv6(src="fd00:66::2", dst="fd00:66::1", nh=17) / Raw(udp))
        ethertype = 0x0800 if version == 4 else 0x86DD
    return bytes(Ether(src=OWN, dst=daemon.interface("bad")["mac"], type=ethertype)) + packet


def recursions(daemon):
    return sum(int(drop["packets"]) for (node, reason), drop in daemon.drops().items() if reason == "recursion" and node.endswith("-input"))


def resident(daemon):
    """Memory of the process, in MiB."""
    status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) >> 10


@pytest.mark.parametrize("first", range(5))
def test_four_headers_come_off_whatever_they_are(daemon, world, first):
    pod, b = world
    order = [*TUNNELS, BRIDGED]
    mix = [order[(first + step) % 5] for step in range(5)]
    with pod.wire() as bad, b.wire() as at_b:
        bad.send(nested(daemon, mix, b"five deep"), nested(daemon, mix[:4], b"four deep"))
        ours = lambda frame: frame.haslayer(UDP) and frame[UDP].dport == 7777
        # Packets of several kinds overtake each other within a vector: the next one is sent when this one has come.
        assert at_b.collect(ours, lambda frame: b"four deep" in bytes(frame)) == []
        bad.send(nested(daemon, [order[first]] * 4, b"of one kind"))
        assert at_b.collect(ours, lambda frame: b"of one kind" in bytes(frame)) == []
    eventually(lambda: recursions(daemon) == 1, daemon.drops)


@pytest.mark.alone
def test_a_flood_of_packets_1290_deep(daemon, world):
    pod, _ = world
    deep = nested(daemon, [TUNNELS[0]] * 1280, b"")
    assert len(deep) > 60_000
    before = resident(daemon)
    received = daemon.counter("bad", "rx_packets")
    with Flood(pod, [deep]):
        eventually(lambda: daemon.counter("bad", "rx_packets") - received > 3000, daemon.drops)
    # Each goes through four of its headers. Besides them there is neighbor discovery.
    eventually(lambda: recursions(daemon) > 2900, daemon.drops)
    eventually(lambda: daemon.counter("v4", "rx_packets") == 4 * recursions(daemon), daemon.drops)
    # Memory that bodies needed is returned but for a few MiB.
    eventually(lambda: resident(daemon) < before + 24, lambda: f"{before} MiB before, {resident(daemon)} after")


def test_a_flood_through_a_bridge_and_its_leg(daemon, world):
    """Each header leads through the bridge and its routed leg to the next."""
    pod, _ = world
    deep = nested(daemon, [BRIDGED] * 1280, b"")
    received = daemon.counter("bad", "rx_packets")
    before = resident(daemon)
    with Flood(pod, [deep]):
        eventually(lambda: daemon.counter("bad", "rx_packets") - received > 1000, daemon.drops)
    eventually(lambda: recursions(daemon) > 1000, daemon.drops)
    eventually(lambda: resident(daemon) < before + 24, lambda: f"{before} MiB before, {resident(daemon)} after")
