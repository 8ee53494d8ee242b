"""Pods of two nodes in one network, between which quiverd carries packets by a port of its own beside the host's kernel."""

import re

import pytest
from lab import Pod
from lab.laboratory import iperf
from lab.process import eventually
from node import ask, network
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from two_nodes import RANGES, pair, two_nodes

# Of the first node, the second, and somebody who is none: addresses in the one network.
HOSTS = ("192.168.5.1", "fd00:5::1"), ("192.168.5.2", "fd00:5::2"), ("192.168.5.9", "fd00:5::9")
TABLE = "inet", "quiver-uplink"
MINE = '[[interface]]\nname = "mine"\naf_packet = { host_interface = "eth0" }\n'


class World:
    """Two hosts and an outsider at a switch. The outsider leads to pods by their hosts."""

    def __init__(self):
        self.switch = Pod("switch")
        self.hosts = [Pod("one"), Pod("two")]
        self.outside = Pod("outside")
        self.switch.ip("link", "add", "switch", "type", "bridge", "mcast_snooping", 0)
        self.switch.ip("link", "set", "switch", "up")
        for number, host in enumerate((*self.hosts, self.outside)):
            host.ip("link", "add", "eth0", "type", "veth", "peer", "name", f"to{number}", "netns", self.switch.name)
            self.switch.ip("link", "set", f"to{number}", "master", "switch", "up")
            host.ip("link", "set", "eth0", "up")
            for own in HOSTS[number]:
                length = 64 if ":" in own else 24
                host.ip("address", "add", f"{own}/{length}", "dev", "eth0", *(["nodad"] if ":" in own else []))
        for number, host in enumerate(self.hosts):
            host.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
            # As distributions have it, and as who wants nothing that nobody has asked for.
            host.run("sysctl", "-q", "-w", "net.ipv4.conf.all.rp_filter=1")
            host.run("nft", "add", "table", "inet", "firewall")
            host.run("nft", "add", "chain", "inet", "firewall", "passing", "{ type filter hook forward priority 0; }")
            host.run("nft", "add", "rule", "inet", "firewall", "passing", "ct", "state", "invalid", "counter", "drop")
            for prefix, via in zip(RANGES[number], HOSTS[number], strict=True):
                self.outside.ip("route", "add", prefix, "via", via)

    def close(self):
        """Takes it away."""
        for pod in (self.switch, *self.hosts, self.outside):
            pod.remove()


def nodes(world, *options, first=None):
    """Both nodes, with a port on the uplink unless options say otherwise; `first` is done with a node before its agent starts."""
    return two_nodes(world.hosts, HOSTS, *(options or ("--uplink", "af_packet")), first=first)


@pytest.fixture
def world():
    """The hosts, their network, and who else is there."""
    made = World()
    yield made
    made.close()


def hops(node):
    """To how many addresses of other nodes the port sends, as the agent tells."""
    return int(re.search(r"^quiver_agent_uplink_hops (\d+)", ask(node.host, "/metrics")[1], re.MULTILINE)[1])


def carrying(*both):
    """Waits until the ports have found all others of both families."""
    for node in both:
        # (The agent looks again every half minute.)
        eventually(lambda node=node: hops(node) == 2, node.log, timeout=60)


def once(pod, address, *options):
    """Pings: each request is answered, and none twice."""
    assert "DUP!" not in (text := pod.must_ping(address, *options).text), text


def by_port(node):
    """Packets sent and received by the port, and handed to the host's kernel."""
    count = node.daemon.counter
    return count("pod:uplink", "tx_packets"), count("pod:uplink", "rx_packets"), count("pod:host", "tx_packets")


def test_pods_of_other_nodes_are_reached_past_the_kernel_and_all_else_through_it(world):
    with nodes(world) as both:
        carrying(*both)
        # By itself it says nothing: what there is to say the host says.
        assert all(by_port(node)[0] == 0 for node in both)
        (a, b), (of_a, of_b) = pair(both)
        before = [by_port(node) for node in both]
        for address in of_b:
            once(a, address)
            # As long as they may be, and longer: those are cut by the pod.
            once(a, address, "-M", "do", "-s", 1500 - (48 if ":" in address else 28))
            once(a, address, "-s", 4000)
        for client, server, to in ((a, b, of_b), (b, a, of_a)):
            for address in to:
                assert iperf((client, server), "-n", "50M", to=address)["end"]["sum_received"]["bytes"] > 40_000_000
                sent = iperf((client, server), "-u", "-b", "20M", "-n", "1M", "-l", 1200, to=address)["end"]["sum"]
                assert sent["lost_packets"] == 0, sent
        for node, (sent, received, handed) in zip(both, before, strict=True):
            now = by_port(node)
            assert now[0] > sent + 1000 and now[1] > received + 1000 and now[2] == handed, (before, now)
            # Super-frames and unfinished checksums pass; nothing is answered twice, or refused by anybody.
            assert not {why: one for (_, why), one in node.daemon.drops().items() if why in ("checksum", "too-big", "wrong-mac")}
        # What isn't for another node's pods, or isn't from there, goes through the kernel, both ways.
        for host, own, pod, of_pod, other in ((0, HOSTS[0], b, of_b, HOSTS[1]), (1, HOSTS[1], a, of_a, HOSTS[0])):
            for address in of_pod:
                once(world.hosts[host], address)
                once(world.outside, address)
                assert iperf((world.hosts[host], pod), "-n", "20M", to=address)["end"]["sum_received"]["bytes"] > 10_000_000
            for address in (*own, *other, *HOSTS[2]):
                once(pod, address)
        for node in both:
            assert "packets 0" in node.host.run("nft", "list", "chain", "inet", "firewall", "passing").stdout


def test_the_hosts_own_addresses_are_answered_by_the_host_alone(world):
    with nodes(world) as both:
        carrying(*both)
        own, station = HOSTS[0][0], world.hosts[0].mac()
        here, mac = HOSTS[2][0], world.outside.mac()
        asked = [Ether(src=mac, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=mac, psrc=here, pdst=own)] * 3
        with world.outside.wire() as wire:
            wire.send(*asked, Ether(src=mac, dst=station) / IP(src=here, dst=own) / ICMP(id=7))
            answers = wire.collect(lambda frame: ARP in frame and frame[ARP].op == 2, lambda frame: ICMP in frame and frame[ICMP].type == 0)
        assert [answer[ARP].hwsrc for answer in answers] == [station] * 3
        for address in HOSTS[0]:
            once(world.outside, address)
        assert by_port(both[0])[:2] == (0, 0)


def test_another_ethernet_address_of_a_node_is_followed(world):
    with nodes(world) as both:
        carrying(*both)
        (a, _), (_, of_b) = pair(both)
        for address in of_b:
            once(a, address)
        world.hosts[1].ip("link", "set", "eth0", "address", "02:00:00:00:05:02")
        # The other host's kernel finds out, sooner or later.
        world.hosts[0].ip("neighbor", "flush", "dev", "eth0")
        sees = lambda: [n["mac"] for n in both[0].daemon.json("show", "neighbor")["neighbors"] if n["interface"] == "pod:uplink"]
        eventually(lambda: sees() == ["02:00:00:00:05:02"] * 2, lambda: (sees(), both[0].log()))
        eventually(lambda: both[1].daemon.interface("pod:uplink")["mac"] == "02:00:00:00:05:02", both[1].log)
        before = by_port(both[1])
        for address in of_b:
            once(a, address)
        assert by_port(both[1])[0] >= before[0] + 6 and hops(both[1]) == 2


def test_the_kernel_carries_what_the_port_cannot(world):
    # Somebody has the device already.
    with nodes(world, first=lambda node: node.daemon.apply(MINE)) as both:
        (a, b), (of_a, of_b) = pair(both)
        for address in of_b:
            once(a, address)
        for node in both:
            assert "mine" in node.log() and "the host's kernel carries packets of other nodes' pods" in node.log(), node.log()
            assert hops(node) == 0 and "drop" not in node.host.run("nft", "list", "table", *TABLE).stdout
            assert ask(node.host, "/readyz")[0] == 200
        both[0].daemon.delete("interface", "mine")
        carrying(both[0])
        # One of them has a port, the other one hasn't: what is on the wire is the same.
        for client, to in ((a, of_b), (b, of_a)):
            for address in to:
                once(client, address)
        both[1].daemon.delete("interface", "mine")
        carrying(*both)
        for address in of_b:
            once(a, address)
        # A device that is down for a while. (IPv6 addresses go by that.)
        for node in both:
            node.host.ip("link", "set", "eth0", "down")
        for node in both:
            eventually(lambda node=node: hops(node) == 0, node.log)
            node.host.ip("link", "set", "eth0", "up")
        for node in both:
            eventually(lambda node=node: hops(node) >= 1, node.log, timeout=60)
        once(a, of_b[0])


def test_ports_outlive_the_agent_and_come_back_with_quiverd(world):
    with nodes(world) as both:
        carrying(*both)
        (a, b), ((of_a, _), (to, to6)) = pair(both)
        with a.pinging(to), b.pinging(of_a):
            for node in both:
                node.kill_agent()
                node.start_agent()
        both[1].daemon.kill()
        # The host keeps its network.
        for address in HOSTS[0]:
            world.hosts[1].must_ping(address)
        both[1].daemon.start()
        once(a, to)
        once(a, to6)
        carrying(*both)
        # Rules that somebody takes away come again: without them packets would arrive twice.
        world.hosts[1].run("nft", "flush", "ruleset")
        eventually(lambda: world.hosts[1].run("nft", "list", "table", *TABLE).stdout.count("drop") == 2, both[1].log)
        once(a, to)


def test_a_port_goes_without_a_trace(world):
    before = network(world.hosts[0])
    with nodes(world) as both:
        carrying(*both)
        (a, _), (_, of_b) = pair(both)
        assert "inet quiver-uplink" in network(world.hosts[0])
        # Another setting: pods keep what they have.
        both[0].kill_agent()
        both[0].options = both[0].options[:-2]
        both[0].start_agent()
        assert "quiver-uplink" not in network(world.hosts[0]) and "pod:uplink" not in both[0].daemon.names("interface")
        for address in of_b:
            once(a, address)
        both[0].options = [*both[0].options, "--uplink", "af_packet"]
        both[0].kill_agent()
        both[0].start_agent()
        carrying(*both)
        both[0].uninstall()
        assert network(world.hosts[0]) == before
        assert both[0].daemon.names() == []
        both[0].start_agent()


def test_devices_that_cannot_have_a_port_are_named(world):
    world.hosts[1].ip("link", "add", "spare", "type", "veth", "peer", "name", "spare1")
    with nodes(world, "--uplink", "af_packet", "--uplink-interface", "spare") as both:
        (a, _), (_, of_b) = pair(both)
        for node, why in zip(both, ("--uplink-interface spare: the host has no such device", "device spare is down"), strict=True):
            assert why in node.log() and hops(node) == 0, node.log()
        for end in ("spare", "spare1"):
            world.hosts[1].ip("link", "set", end, "up")
        eventually(lambda: "192.168.5.1 is no direct neighbour by spare" in both[1].log(), both[1].log)
        for address in of_b:
            once(a, address)
