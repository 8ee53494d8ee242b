"""Port split: a pod with one address and two interfaces, a tun and a memif, told apart by destination port.

The application behind the memif is a real one: a second quiverd joins the memif with a tap, and the kernel in that tap's
namespace has the pod's address as well.
"""

import contextlib
import select
import socket
import threading

import pytest
from lab.process import eventually
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, PadN
from scapy.layers.l2 import Ether
from scapy.packet import Raw

ADDRESSES = "10.50.0.1", "fd00:50::1"
PEERS = "10.1.0.2", "fd00:1::2"
PORTS = '"tcp:5000-5010", "udp:6081"'
# What sends to the pod, and what to, by family.
FAMILIES = [pytest.param(*pair, id=name) for *pair, name in zip(ADDRESSES, PEERS, ("ip4", "ip6"), strict=True)]


class World:
    """The peer, the pod, and the application behind the pod's memif."""

    def __init__(self, lab, application):
        self.daemon, self.application = lab.daemon, application
        self.peer, self.pod, self.app = lab.pod("peer"), lab.pod("pod"), lab.pod("app")
        hosts = ", ".join(f'"{host(address)}"' for address in ADDRESSES)
        everything = '{ prefix = "0.0.0.0/0" }, { prefix = "::/0" }'
        self.daemon.apply(
            lab.tap("peer", self.peer, "10.1.0").replace('/24"]', '/24", "fd00:1::1/64"]', 1)
            + f"""
[[interface]]
name = "tun"
rpf = "strict"
[interface.tap]
netns = "{self.pod.name}"
host_name = "eth0"
mode = "tun"
host_addresses = [{hosts}]
host_routes = [{everything}]
[[interface]]
name = "memif"
rpf = "strict"
proxy_arp = ["0.0.0.0/0", "::/0"]
memif = {{ socket = "@vpp/memif-eth0", netns = "{self.pod.name}" }}
"""
        )
        self.peer.ip("address", "add", f"{PEERS[1]}/64", "dev", "eth0", "nodad")
        self.peer.ip("route", "add", "fd00:50::/64", "via", "fd00:1::1")
        self.route("")

    def route(self, more):
        """Routes both addresses, and says more about their split."""
        for address in ADDRESSES:
            self.daemon.apply(f"""
[[neighbor]]
interface = "memif"
address = "{address}"
mac = "02:00:00:00:00:01"
[[route]]
prefix = "{host(address)}"
next_hops = [{{ interface = "tun" }}]
port_split = {{ ports = [{PORTS}], next_hop = {{ interface = "memif", address = "{address}" }}{more} }}
""")

    def connect(self):
        """Starts the application."""
        self.application.start().apply(f"""
[[interface]]
name = "memif"
cross_connect = "tap"
memif = {{ socket = "@vpp/memif-eth0", netns = "{self.pod.name}", role = "client" }}
[[interface]]
name = "tap"
cross_connect = "memif"
tap = {{ netns = "{self.app.name}", host_name = "eth0" }}
""")
        eventually(lambda: self.daemon.memif("memif").get("connected"), "the application connects")
        self.app.ip("link", "set", "eth0", "address", "02:00:00:00:00:01")
        for address in ADDRESSES:
            v6 = ":" in address
            self.app.ip("address", "replace", host(address), "dev", "eth0", *(["nodad"] if v6 else []))
            self.app.ip("route", "replace", "::/0" if v6 else "0.0.0.0/0", "dev", "eth0")
        return self

    def count(self, counter, address=ADDRESSES[0]):
        """A counter of the node that chooses."""
        node = f'node="ip{6 if ":" in address else 4}-port-split"'
        lines = [line for line in self.daemon.scrape()[1].splitlines() if line.startswith("quiver_node_events_total") and node in line]
        return sum(int(line.split()[-1]) for line in lines if f'"{counter}"' in line)


@pytest.fixture
def world(lab, own_daemon):
    """Everything, and the application is there."""
    return World(lab, own_daemon()).connect()


def host(address):
    """The prefix that holds one address."""
    return f"{address}/{128 if ':' in address else 32}"


def kind(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bound(pod, address, port, type_=socket.SOCK_DGRAM):
    """A socket of a pod, bound to an address of its own."""
    with pod.entered():
        made = socket.socket(kind(address), type_)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.settimeout(20)
    made.bind((address, port))
    if type_ == socket.SOCK_STREAM:
        made.listen()
    return made


def takers(world, address, port, peer, *payloads):
    """Who gets datagrams from the peer: "app" or "pod", and what."""
    with contextlib.ExitStack() as stack:
        sockets = {stack.enter_context(bound(pod, address, port)): who for pod, who in ((world.app, "app"), (world.pod, "pod"))}
        asker = stack.enter_context(bound(world.peer, peer, 0))
        got = []
        for payload in payloads:
            asker.sendto(payload, (address, port))
            ready, _, _ = select.select(list(sockets), [], [], 20)
            assert ready, f"nobody gets a datagram to port {port}: {world.daemon.drops()}"
            got += [(sockets[one], one.recvfrom(65536)[0]) for one in ready]
        return got


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_datagrams_go_by_their_port(world, address, peer):
    assert takers(world, address, 6081, peer, b"one", b"two") == [("app", b"one"), ("app", b"two")]
    assert takers(world, address, 5000, peer, b"one") == [("pod", b"one")]
    assert takers(world, address, 53, peer, b"one") == [("pod", b"one")]


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_fragments_follow_the_first(world, address, peer):
    long = bytes(range(256)) * 20
    assert takers(world, address, 6081, peer, long, long) == [("app", long)] * 2
    assert takers(world, address, 53, peer, long) == [("pod", long)]
    assert world.count("fragments", address) == 6


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_options_do_not_hide_the_port(world, address, peer):
    mac = world.daemon.interface("peer")["mac"]
    if ":" in address:
        header = IPv6(src=peer, dst=address) / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])
    else:
        header = IP(src=peer, dst=address, options=[IPOption_NOP()] * 8)
    for port, taker in ((6081, world.app), (6082, world.pod)):
        with bound(taker, address, port) as listener, world.peer.wire() as wire:
            wire.send(Ether(src=world.peer.mac(), dst=mac) / header / UDP(sport=7, dport=port) / Raw(b"behind options"))
            assert listener.recv(100) == b"behind options"


def exchange(client, server, size=300_000):
    """Sends so much each way over one connection."""
    data = bytes(range(256)) * (size // 256)

    def send(end):
        end.sendall(data)
        end.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=send, args=(end,)) for end in (client, server)]
    for thread in threads:
        thread.start()
    for end in (client, server):
        got = bytearray()
        while len(got) < len(data):
            part = end.recv(1 << 16)
            assert part, f"{len(got)} of {len(data)} bytes"
            got += part
        assert got == data
    for thread in threads:
        thread.join()


def connection(client, source, server, address, port):
    """Both ends of a TCP connection."""
    with bound(server, address, port, socket.SOCK_STREAM) as listener, client.entered():
        end = socket.create_connection((address, port), 20, (source, 0))
        other, _ = listener.accept()
        other.settimeout(20)
        return end, other


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_connections_to_the_pod_go_by_their_port(world, address, peer):
    for port, server in ((5000, world.app), (5010, world.app), (80, world.pod)):
        ends = connection(world.peer, peer, server, address, port)
        with ends[0], ends[1]:
            exchange(*ends)


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_connections_that_the_pod_opens_return_to_whom_has_opened_them(world, address, peer):
    from_app = connection(world.app, address, world.peer, peer, 9000)
    from_pod = connection(world.pod, address, world.peer, peer, 9001)
    with from_app[0], from_app[1], from_pod[0], from_pod[1]:
        exchange(*from_app)
        exchange(*from_pod)
    # Super-frames count as one.
    assert world.count("by-flow", address) > 10


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_pings_go_to_the_tun_and_answers_to_whom_has_asked(world, address, peer):
    before = int(world.daemon.counter("tun", "tx_packets"))
    world.peer.must_ping(address)
    assert int(world.daemon.counter("tun", "tx_packets")) >= before + 3
    world.app.must_ping(peer)
    world.pod.must_ping(peer)
    world.app.must_ping(peer)


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_errors_come_to_whom_they_are_about(world, address, peer):
    for sender, port in ((world.app, 6081), (world.app, 0), (world.pod, 53)):
        with bound(sender, address, port) as asker:
            asker.connect((peer, 9))
            asker.send(b"nobody is there")
            with pytest.raises(ConnectionRefusedError):
                asker.recv(100)


def test_neither_interface_may_lie_about_its_source(world):
    for pod, interface in ((world.app, "memif"), (world.pod, "tun")):
        pod.ip("address", "add", "10.99.0.1/32", "dev", "eth0")
        assert pod.ping(PEERS[0], "-I", "10.99.0.1", count=5, wait=1).received == 0
        assert world.daemon.drops_of(interface)["ip4-rpf", "no-route-back"] >= 5


@pytest.mark.parametrize("address, peer", FAMILIES)
def test_while_the_application_is_away_the_tun_takes_its_ports(world, address, peer):
    assert takers(world, address, 6081, peer, b"one") == [("app", b"one")]
    world.application.stop()
    eventually(lambda: not world.daemon.memif("memif").get("connected"), "the application is gone")
    with bound(world.pod, address, 6081) as listener, bound(world.peer, peer, 0) as asker:
        for payload in (b"two", b"three"):
            asker.sendto(payload, (address, 6081))
            assert listener.recv(100) == payload
    assert world.count("fell-back", address) == 2
    world.connect()
    assert takers(world, address, 6081, peer, b"four") == [("app", b"four")]
    assert world.count("fell-back", address) == 2


def test_or_its_packets_are_dropped_and_counted(lab, own_daemon):
    world = World(lab, own_daemon())
    world.route(', without_peer = "drop"')
    with bound(world.pod, ADDRESSES[0], 6081), bound(world.peer, PEERS[0], 0) as asker:
        for _ in range(3):
            asker.sendto(b"nobody", (ADDRESSES[0], 6081))
        eventually(lambda: world.daemon.drops_of("peer").get(("ip4-port-split", "no-peer")) == 3, world.daemon.drops)
    world.peer.must_ping(ADDRESSES[0])


def test_show_fib_and_get_route_say_where_ports_go(world):
    entry = world.daemon.show("fib", ADDRESSES[0])["entries"][0]
    assert [(path["interface"], path["detail"]) for path in entry["paths"]] == [
        ("memif", "tcp:5000-5010 udp:6081"),
        ("tun", "other ports"),
    ]
    assert "tcp:5000-5010 udp:6081 10.50.0.1 via memif" in world.daemon.cli("get", "route").stdout
    assert "port_split" in world.daemon.cli("get", "route", "-o", "toml").stdout


def test_a_route_without_a_split_is_one_again(world):
    world.daemon.apply(f'[[route]]\nprefix = "{ADDRESSES[0]}/32"\nnext_hops = [{{ interface = "tun" }}]\n')
    assert takers(world, ADDRESSES[0], 6081, PEERS[0], b"one") == [("pod", b"one")]
    assert takers(world, ADDRESSES[1], 6081, PEERS[1], b"one") == [("app", b"one")]
    world.route("")
    assert takers(world, ADDRESSES[0], 6081, PEERS[0], b"one") == [("app", b"one")]


@pytest.mark.parametrize(
    "split, field",
    [
        ('ports = ["tcp:80-70"], next_hop = { interface = "memif" }', "port_split.ports[0]"),
        ('ports = ["tcp:1-5", "tcp:5"], next_hop = { interface = "memif" }', "port_split.ports"),
        ('ports = ["tcp:1"], next_hop = { interface = "tun" }', "port_split.next_hop"),
        ('ports = ["tcp:1"], next_hop = { vrf = "red" }', "port_split.next_hop.interface"),
    ],
    ids=["range", "overlap", "same", "vrf"],
)
def test_a_split_that_can_not_be_is_refused_by_field(daemon, split, field):
    status, answers, _ = daemon.offer(
        f'[[route]]\nprefix = "10.50.0.1/32"\nnext_hops = [{{ interface = "tun" }}]\nport_split = {{ {split} }}\n'
    )
    assert status != 0 and answers["default/10.50.0.1/32"]["refused"]["field"] == field, answers
