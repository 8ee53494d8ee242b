"""Pods of two nodes between which a router stands that knows nothing of pods: tunnels lead there, or nothing does."""

import contextlib
import hashlib
import re
import tempfile

import pytest
from lab import Pod
from lab.laboratory import iperf
from lab.process import eventually, tool
from node import Node, addresses, echo, network
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from two_nodes import RANGES, pair, two_nodes

# Of the first node and the second: addresses of their own network each.
HOSTS = ("192.168.1.2", "fd00:1::2"), ("192.168.2.2", "fd00:2::2")
ROUTERS = ("192.168.1.1", "fd00:1::1"), ("192.168.2.1", "fd00:2::1")
HEADERS = {4: 50, 6: 70}


class World:
    """Two hosts, each in a network of its own, and the router between them."""

    def __init__(self, mtu=1500):
        self.router = Pod("router")
        self.hosts = [Pod("one"), Pod("two")]
        for number, host in enumerate(self.hosts):
            host.ip("link", "add", "eth0", "mtu", mtu, "type", "veth", "peer", "name", f"to{number}", "netns", self.router.name)
            self.router.ip("link", "set", f"to{number}", "mtu", mtu, "up")
            host.ip("link", "set", "eth0", "up")
            for own, router in zip(HOSTS[number], ROUTERS[number], strict=True):
                length = 64 if ":" in own else 24
                host.ip("address", "add", f"{own}/{length}", "dev", "eth0", *(["nodad"] if ":" in own else []))
                self.router.ip("address", "add", f"{router}/{length}", "dev", f"to{number}", *(["nodad"] if ":" in own else []))
                host.ip("route", "add", "default", "via", router)
        for pod in (self.router, *self.hosts):
            pod.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
            # As distributions have it: what comes in by another device than answers would leave by is dropped.
            pod.run("sysctl", "-q", "-w", "net.ipv4.conf.all.rp_filter=1")
        # Who sends with an address that isn't of its network is stopped, as in clouds.
        for number in (0, 1):
            self.router.run("sysctl", "-q", "-w", f"net.ipv4.conf.to{number}.rp_filter=1")

    def close(self):
        """Takes it away."""
        for pod in (self.router, *self.hosts):
            pod.remove()


def nodes(world, *options, families=(4, 6)):
    """Both nodes with these options of the agent; their own addresses of these families."""
    return two_nodes(world.hosts, [[a for a in of if (6 if ":" in a else 4) in families] for of in HOSTS], *options)


@pytest.fixture
def world():
    """The hosts and their router."""
    made = World()
    yield made
    made.close()


def device_mtu(pod, device="eth0"):
    """What the kernel says it is."""
    return int(re.search(r" mtu (\d+)", pod.ip("link", "show", device).stdout)[1])


@pytest.mark.parametrize("outer", [4, 6])
def test_pods_and_hosts_reach_pods_of_nodes_behind_a_router(world, outer):
    families = (4, 6) if outer == 4 else (6,)
    with nodes(world, "--overlay", "vxlan", families=families) as both:
        (a, b), (of_a, of_b) = pair(both)
        mtu = 1500 - HEADERS[outer]
        assert device_mtu(a) == device_mtu(b) == mtu
        wires = [world.router.wire(f"to{number}") for number in (0, 1)]
        for address in of_b:
            a.must_ping(address)
            # As long as they may be, and not one byte longer.
            length = mtu - (48 if ":" in address else 28)
            a.must_ping(address, "-M", "do", "-s", length)
            assert a.ping(address, "-M", "do", "-s", length + 1, count=1, wait=1).received == 0
            # What is longer is cut by the pod.
            a.must_ping(address, "-s", 4000)
            world.hosts[0].must_ping(address)
        for number, (wire, ways) in enumerate(zip(wires, ((of_a, of_b), (of_b, of_a)), strict=True)):
            with wire:
                world.hosts[number].must_ping(ROUTERS[number][0], "-s", 99)
                judge(
                    wire.collect(lambda frame: UDP in frame, lambda frame: ICMP in frame and len(frame) == 14 + 28 + 99),
                    outer,
                    number,
                    *ways,
                )
        for client, server, to in ((a, b, of_b), (b, a, of_a), (world.hosts[0], b, of_b)):
            for address in to:
                assert iperf((client, server), "-n", "20M", to=address)["end"]["sum_received"]["bytes"] > 10_000_000
                assert iperf((client, server), "-u", "-b", "50M", "-n", "1M", "-l", 1200, to=address)["end"]["sum"]["packets"] > 0
        # Hosts speak for themselves where pods aren't meant, and what isn't the tunnels' is the kernel's.
        world.hosts[0].must_ping(HOSTS[1][1])
        for node in both:
            assert node.daemon.dropped("checksum") == node.daemon.dropped("too-big") == 0, node.daemon.drops()
            (tunnel,) = [name for name in node.daemon.names("interface") if name.startswith("pod:to-")]
            assert node.daemon.interface(tunnel)["mtu"] == mtu


def test_nodes_that_come_near_are_reached_without_tunnels(world):
    with nodes(world, "--overlay", "cross-subnet") as both:
        (a, b), (_, (to, _)) = pair(both)
        a.must_ping(to)
        # Both are in one network from now on.
        for number, host in enumerate(world.hosts):
            host.ip("link", "add", "near", "type", "veth", "peer", "name", f"near{number}", "netns", world.router.name)
            host.ip("link", "set", "near", "up")
        world.router.ip("link", "add", "switch", "type", "bridge")
        for name in ("near0", "near1", "switch"):
            world.router.ip("link", "set", name, *(["master", "switch"] if name != "switch" else []), "up")
        for number, host in enumerate(world.hosts):
            for own in HOSTS[number]:
                length = 64 if ":" in own else 24
                host.ip("address", "del", f"{own}/{length}", "dev", "eth0")
                wide = f"{own}/{30 if ':' in own else 22}"
                host.ip("address", "add", wide, "dev", "near", *(["nodad"] if ":" in own else []))
        for node in both:
            node.kill_agent()
            node.start_agent()
        before = both[0].daemon.counter("pod:underlay", "tx_packets")
        a.must_ping(to)
        assert "via 192.168.2.2 dev near" in world.hosts[0].ip("route", "get", to).stdout
        assert both[0].daemon.counter("pod:underlay", "tx_packets") == before
        # What comes by the tunnel is taken nevertheless: the other node may not have noticed yet.
        assert any(name.startswith("pod:to-") for name in both[0].daemon.names("interface"))
        assert device_mtu(b) == 1450
    with nodes(world) as both:
        (a, _), (_, (to, _)) = pair(both)
        assert device_mtu(a) == 1500
        assert not any("to-" in name or "underlay" in name for name in both[0].daemon.names())
        a.must_ping(to)


def test_the_mtu_follows_the_uplink_and_pods_keep_their_connections(world):
    with nodes(world, "--overlay", "vxlan") as both:
        (a, b), (_, (to, _)) = pair(both)
        behind = both[1].pod("memif")
        own = addresses(both[1].add(behind, {"quiver.io/extraMemifPorts": "udp:4444"}))
        (name,) = [name for name in both[1].attached() if name.endswith(":memif-eth0")]
        memif = lambda: both[1].daemon.memif(name)
        application = contextlib.ExitStack()
        application.enter_context(behind.start(tool("memif-echo"), "-client", "@vpp/memif-eth0"))
        eventually(lambda: memif().get("connected"), memif)
        with application, b.start("iperf3", "-s", "-1") as listener:
            eventually(lambda: ":5201" in b.run("ss", "-ltn").stdout, listener.output)
            client = a.start("iperf3", "-c", to, "-t", 600)
            for mtu in (1400, 1500):
                for number, host in enumerate(world.hosts):
                    host.ip("link", "set", "eth0", "mtu", mtu)
                    world.router.ip("link", "set", f"to{number}", "mtu", mtu)
                for pod in (a, b):
                    eventually(lambda pod=pod, mtu=mtu: device_mtu(pod) == mtu - 50, both[0].log)
                # Beside a stream that fills queues, one may be lost.
                whole = ("-M", "do", "-s", mtu - 50 - 28)
                eventually(lambda whole=whole: a.ping(to, *whole, count=1, wait=1).received == 1, both[0].log)
                # The application at the memif stays connected, and gets packets of that size.
                assert memif().get("connected") and int(memif()["connects"]) == 1, memif()
                for address, headers in zip(own, (28, 48), strict=True):
                    assert echo(a, address, 4444, bytes(mtu - 50 - headers)) == bytes(mtu - 50 - headers)
                # What was connected before goes on.
                before = both[1].daemon.counter("pod:underlay", "rx_packets")
                eventually(lambda before=before: both[1].daemon.counter("pod:underlay", "rx_packets") > before + 1000, both[1].log)
                assert client.alive(), client.output()
            client.stop()
        late = both[0].pod("late")
        both[0].add(late)
        assert device_mtu(late) == device_mtu(world.hosts[0], "quiver0") == 1450


def test_tunnels_outlive_the_agent_and_come_back_with_quiverd(world):
    with nodes(world, "--overlay", "vxlan") as both:
        (a, _), (_, (to, to6)) = pair(both)
        with a.pinging(to), world.hosts[0].pinging(to6):
            for node in both:
                node.kill_agent()
                node.start_agent()
        both[1].daemon.kill()
        # The host keeps its network.
        for address in HOSTS[0]:
            world.hosts[1].must_ping(address)
        both[1].daemon.start()
        a.must_ping(to)
        world.hosts[0].must_ping(to6)


def test_uninstalling_takes_tunnels_away(world):
    before = network(world.hosts[0])
    with nodes(world, "--overlay", "vxlan") as both:
        there = network(world.hosts[0])
        assert "quiver-vxlan" in there and "inet quiver-overlay" in there
        both[0].uninstall()
        assert network(world.hosts[0]) == before
        assert both[0].daemon.names() == []
        # Nothing is taken from the kernel any more: it says that nobody listens.
        with world.hosts[1].wire("eth0") as wire:
            wire.send(refused(world))
            wire.expect(lambda frame: ICMP in frame and (frame[ICMP].type, frame[ICMP].code) == (3, 3), "port unreachable")
        both[0].start_agent()


def refused(world):
    """What the first host would take for its tunnel's, by the router."""
    return (
        Ether(src=world.hosts[1].mac(), dst=world.router.mac("to1"))
        / IP(src=HOSTS[1][0], dst=HOSTS[0][0])
        / UDP(sport=50000, dport=4789)
        / VXLAN(vni=4096, flags=8)
        / Ether()
        / IP()
    )


@pytest.mark.parametrize("outer", [4, 6])
def test_the_kernel_is_the_other_end_and_keeps_its_own_tunnels_at_the_same_port(world, outer):
    """Linux speaks VXLAN by itself: what it makes of ours is what others will."""
    one, two = world.hosts
    (here, there), headers = (HOSTS[n][0 if outer == 4 else 1] for n in (0, 1)), HEADERS[outer]
    # A sum over packets whose own isn't reckoned yet, as they are between namespaces, is more than nftables can change.
    # IPv6 has no packets without one: there it is reckoned before they leave.
    sums = ("noudpcsum",) if outer == 4 else ()
    for host in world.hosts if outer == 6 else ():
        host.run("ethtool", "-K", "eth0", "tx", "off")
    for host, (local, remote), number in ((one, (here, there), 1), (two, (there, here), 2)):
        host.ip("link", "add", "own", "type", "vxlan", "id", 7, *sums, "local", local, "remote", remote, "dstport", 4789)
        host.ip("address", "add", f"172.31.0.{number}/24", "dev", "own")
        host.ip("link", "set", "own", "up")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp"))
        given = ["--overlay", "vxlan", "--address", here, "--peer", f"{there}={','.join(RANGES[1])}"]
        node = Node(directory, ranges=RANGES[0], host=one, options=given)
        stack.callback(node.close)
        node.start()
        pod = node.pod("a")
        (address, _) = addresses(node.add(pod))
        vxlan = "type", "vxlan", "id", 4096, *sums, "local", there, "remote", here, "dstport", 4789
        two.ip("link", "add", "vx", "address", station(there), *vxlan)
        two.ip("address", "add", "10.244.2.1/32", "dev", "vx")
        two.ip("link", "set", "vx", "up")
        two.ip("neighbor", "add", "10.244.1.1", "lladdr", station(here), "dev", "vx")
        two.ip("route", "add", RANGES[0][0], "via", "10.244.1.1", "dev", "vx", "onlink")
        room = 1500 - headers - 28
        two.must_ping(address, "-M", "do", "-s", room)
        pod.must_ping("10.244.2.1", "-M", "do", "-s", room)
        assert iperf((pod, two), "-n", "20M", to="10.244.2.1")["end"]["sum_received"]["bytes"] > 10_000_000
        # The kernel's own network is beside it, at the same port of the same hosts.
        one.must_ping("172.31.0.2", "-s", 1400)


def station(end):
    """Ethernet address of the end of tunnels at that address."""
    first, *rest = hashlib.sha256(b"quiver overlay " + end.encode()).digest()[:6]
    return ":".join(f"{byte:02x}" for byte in (first & 0xFE | 2, *rest))


def judge(packets, outer, number, froms, tos):
    """What scapy makes of what one node has sent to the other."""
    kind = {4: IP, 6: IPv6}[outer]
    ends = tuple(HOSTS[n][0 if outer == 4 else 1] for n in (number, 1 - number))
    inner, longest = set(), 0
    for packet in packets:
        header = packet.getlayer(kind)
        assert (header.src, header.dst, packet[UDP].dport) == (*ends, 4789), packet.show(dump=True)
        assert outer == 6 or header.flags == "DF"
        assert packet[UDP].sport >= 49152 and (packet[UDP].chksum == 0) == (outer == 4)
        # Sums that there are are those that scapy reckons.
        again = packet.copy()
        del again[IP if outer == 4 else UDP].chksum
        assert bytes(again) == bytes(packet), packet.show(dump=True)
        carried = packet[VXLAN]
        # (That there is an identifier, and nothing else.)
        assert (carried.vni, int(carried.flags)) == (4096, 8), packet.show(dump=True)
        inner.add((carried.payload.payload.src, carried.payload.payload.dst))
        longest = max(longest, len(header))
    assert set(zip(froms, tos, strict=True)) <= inner, inner
    assert longest == 1500


def forged(vni=4096, inner_from=HOSTS[1][0], inner_to="", payload=b"forged", ends=HOSTS[1][0]):
    """What the first node's tunnel would be taken to have sent: VXLAN and what is inside."""
    inner = Ether(src=station(HOSTS[0][0]), dst=station(ends)) / IP(src=inner_from, dst=inner_to) / UDP(sport=1, dport=7777) / payload
    return bytes(VXLAN(vni=vni, flags=8) / inner)


@contextlib.contextmanager
def hearing(pod):
    """What UDP brings to a pod at a port: lines, as they come."""
    program = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7777)); print('ready', flush=True)\n"
    program += "while True: print(*s.recvfrom(2000), flush=True)"
    with pod.start("/usr/bin/python3", "-u", "-c", program) as process:
        eventually(lambda: "ready" in process.output(), process.output)
        yield process


def tell(pod, to, port, payload, source=None):
    """Has a process send a datagram."""
    program = "import socket, sys; s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)\n"
    program += "sys.argv[4] and s.bind((sys.argv[4], 0)); s.sendto(bytes.fromhex(sys.argv[3]), (sys.argv[1], int(sys.argv[2])))"
    pod.run("/usr/bin/python3", "-c", program, to, port, payload.hex(), source or "")


def test_pods_cannot_speak_for_tunnels(world):
    """A pod's datagram to a node has its own node's address on the way, as a tunnel's packets have."""
    with nodes(world, "--overlay", "vxlan", "--nat-outgoing=both") as both:
        (a, b), ((of_a, _), (to, _)) = pair(both)
        with hearing(b) as heard:
            # As who never sends itself, as the node that is asked, and as the pod.
            for source in ("203.0.113.9", HOSTS[1][0], of_a):
                tell(a, HOSTS[1][0], 4789, forged(inner_from=source, inner_to=to))
            # By a pod that may send as the node where it goes believes others.
            tricky = both[1].pod("tricky")
            both[1].add(tricky, {"quiver.io/allowedSourcePrefixes": f'["{HOSTS[0][0]}"]'})
            tricky.ip("address", "add", f"{HOSTS[0][0]}/32", "dev", "lo")
            tell(tricky, HOSTS[1][0], 4789, forged(inner_from=of_a, inner_to=to), source=HOSTS[0][0])
            # What isn't the tunnels' goes there nevertheless, with the node's address.
            with hearing(world.hosts[1]) as at_host:
                tell(a, HOSTS[1][0], 7777, b"plain")
                eventually(lambda: f"b'plain' ('{HOSTS[0][0]}'" in at_host.output(), at_host.output)
            tell(a, to, 7777, b"honest")
            eventually(lambda: "honest" in heard.output(), heard.output)
            assert "forged" not in heard.output(), heard.output()


def test_pods_cannot_speak_to_the_end_of_their_own_nodes_tunnels(world):
    """By a pod that may send as another node, to where the host leads packets for its own quiverd's end."""
    with nodes(world, "--overlay", "vxlan", "--nat-outgoing=both", families=(6,)) as both:
        (a, b), ((of_a, _), (to, _)) = pair(both)
        tricky = both[1].pod("tricky")
        both[1].add(tricky, {"quiver.io/allowedSourcePrefixes": f'["{HOSTS[0][1]}"]'})
        tricky.ip("address", "add", f"{HOSTS[0][1]}/128", "dev", "lo", "nodad")
        with hearing(b) as heard:
            for end in ("fd51:7569:7665:72::2", HOSTS[1][1]):
                tell(tricky, end, 4789, forged(inner_from=of_a, inner_to=to, ends=HOSTS[1][1]), source=HOSTS[0][1])
            tell(a, to, 7777, b"honest")
            eventually(lambda: "honest" in heard.output(), heard.output)
            assert "forged" not in heard.output(), heard.output()


def test_what_comes_by_a_tunnel_is_from_its_node_or_nobody(world):
    with nodes(world, "--overlay", "vxlan") as both:
        (_, b), ((of_a, _), (to, _)) = pair(both)
        both[0].daemon.kill()
        # In place of the first node's quiverd, which may say what it likes.
        with hearing(b) as heard:
            for source in ("203.0.113.9", "10.244.3.7", "10.244.2.99", to, HOSTS[1][0], HOSTS[0][0]):
                tell(world.hosts[0], HOSTS[1][0], 4789, forged(inner_from=source, inner_to=to), source=HOSTS[0][0])
            tell(world.hosts[0], HOSTS[1][0], 4789, forged(inner_from=of_a, inner_to=to, payload=b"honest"), source=HOSTS[0][0])
            eventually(lambda: "honest" in heard.output(), heard.output)
            assert "forged" not in heard.output(), heard.output()
        assert sum(both[1].daemon.dropped(why) for why in ("wrong-interface", "own-address", "no-route-back")) == 6


def test_who_asks_for_nobody_behind_a_tunnel_is_told(world):
    with nodes(world, "--overlay", "vxlan") as both:
        (a, _), _ = pair(both)
        for nobody in ("10.244.2.99", "fd00:10:244:2::99"):
            assert "nreachable" in a.ping(nobody, count=3).text


def test_processes_of_a_host_that_choose_its_own_address_are_answered(world):
    with nodes(world, "--overlay", "vxlan", "--nat-outgoing=both") as both:
        (a, _), (of_a, _) = pair(both)
        for own, to in zip(HOSTS[1], of_a, strict=True):
            world.hosts[1].must_ping(to, "-I", own)
            assert iperf((world.hosts[1], a), "-B", own, "-n", "20M", to=to)["end"]["sum_received"]["bytes"] > 10_000_000
            assert iperf((world.hosts[1], a), "-B", own, "-u", "-b", "10M", "-n", "100K", "-l", 1000, to=to)["end"]["sum"]["packets"] > 0
