"""The attacks of tests/attacks on a world of pods, each a context manager: while it is entered, the attack goes on."""

import contextlib
import socket
import struct
import time

from .attack_programs import allowed, attacking
from .canary import ping_canary

PORT = 4000


def sending(world, address, *rate_and_count):
    """Datagrams from pod friend to an address of the attacker, which its own correspondent or any client may send."""
    return attacking(world.friend, "send_udp", address, PORT, *rate_and_count)


@contextlib.contextmanager
def eventfd_waiters(world, intensity=1000, where="tx", sets=1, polls=90_000, rate=2):
    """A: a memif peer hangs waiters on the eventfds of its rings (`where` tx or rx) or on its control socket (control, sigio)."""
    with (
        attacking(world.bad, "eventfd_waiters", world.evil_socket, where, intensity, sets, polls, rate) as process,
        sending(world, world.evil_address, rate),
    ):
        yield {"allowed": allowed(process)}


@contextlib.contextmanager
def packet_filters(world, intensity=200, rate=1000, filter="divide"):
    """B: packet sockets with long filters on the pod's device, to which another pod sends."""
    sockets = attacking(world.bad, "packet_filters", "eth0", intensity, filter, capabilities=["net_raw"])
    with sockets as process, sending(world, world.bad_address, rate):
        yield {"allowed": allowed(process)}


@contextlib.contextmanager
def socket_waiters(world, intensity=1000, polls=90_000, rate=2, count=5):
    """C: waiters on a UDP socket of the pod, which another pod sends a few datagrams to."""
    with attacking(world.bad, "socket_waiters", PORT, intensity, polls) as process, sending(world, world.bad_address, rate, count):
        yield {"allowed": allowed(process)}


@contextlib.contextmanager
def socket_crowd(world, kind, intensity, rate):
    """Variants of B and C: other ways to make the receipt of a datagram long (tests/attacks/socket_crowd.c)."""
    capabilities = ["net_raw"] if kind == "raw" else []
    with contextlib.ExitStack() as stack:
        address = world.bad_address
        if kind == "multicast":
            stack.enter_context(bridge(world))
            world.friend.ip("route", "add", "239.66.0.1", "dev", "eth1")
            address = "239.66.0.1"
        process = stack.enter_context(attacking(world.bad, "socket_crowd", kind, PORT, intensity, capabilities=capabilities))
        stack.enter_context(sending(world, address, rate))
        yield {"allowed": allowed(process)}


def variant(kind, intensity, rate):
    """A variant with its defaults."""
    return lambda world, intensity=intensity, rate=rate: socket_crowd(world, kind, intensity, rate)


@contextlib.contextmanager
def nested_tunnels(world, intensity=1290, rate=700):
    """D: frames of `intensity` VXLAN headers, one within the other, all for the end of a tunnel whose other end is the pod."""
    world.daemon.apply(
        '[[interface]]\nname = "tunnel"\naddresses = ["10.69.0.1/24"]\n'
        f'vxlan = {{ local = "{world.gateway(world.bad_address)}", remote = "{world.bad_address}", vni = 66 }}\n'
    )
    # Longer than Quiver would ever send: the device has no say in what its pod sends.
    world.bad.ip("link", "set", "eth0", "mtu", 65521)
    words = (world.router_mac("bad"), world.bad_address, world.gateway(world.bad_address), 66, world.router_mac("tunnel"), intensity)
    with attacking(world.bad, "flood", "eth0", rate, "nested", *words, capabilities=["net_raw"]):
        yield {}


@contextlib.contextmanager
def neighbor_flood(world, intensity=64, rate=0, fresh=1, where="memif"):
    """E: datagrams to `intensity` stations that aren't there and to `fresh` new ones of pod b, which pod a pings meanwhile."""
    told = {}
    for station in range(100, 100 + fresh):
        world.b.ip("address", "add", f"10.2.0.{station}/24", "dev", "eth0")
    port, name, own = (world.evil_socket, "evil", world.evil_address) if where == "memif" else ("eth0", "bad", world.bad_address)
    network = own.rsplit(".", 2)[0]
    configured = {"bad": world.lab.tap("bad", world.bad, "10.66.0"), "evil": world.evil()}[name]
    world.daemon.apply(configured.replace(f"{network}.0.1/24", f"{network}.0.1/16"))
    others = colliding(int(world.daemon.interface(name)["index"]), network, intensity)
    words = (port, rate, "strangers", world.router_mac(name), own, "10.2.0.100", fresh, *others)
    with attacking(world.bad, "flood", *words, capabilities=["net_raw"]), contextlib.ExitStack() as stack:
        canary = stack.enter_context(contextlib.closing(ping_canary(world.a, "10.2.0.100", name="fresh", count=fresh)))
        yield told
        told |= canary.finish()


def colliding(interface, network, count):
    """Addresses that an unkeyed table of waiting neighbors takes for each other (neighbour/hold.rs at dbe5de9d)."""
    all64 = (1 << 64) - 1
    high, low = (int(octet) for octet in network.split("."))
    # As IPv4-mapped IPv6 address.
    first = 0xFFFF << 32 | high << 24 | low << 16 | 1 << 8

    def place(address):
        mixed = interface * 0x9E3779B97F4A7C15 & all64
        mixed = (mixed << 32 | mixed >> 32) & all64
        return ((mixed + address) * 0xBF58476D1CE4E5B9 & all64) >> 32 & 1023

    same = [number for number in range(60_000) if place(first + number) == place(first)]
    return [f"{network}.{1 + number // 256}.{number % 256}" for number in same[:count]]


@contextlib.contextmanager
def mac_flood(world, intensity=1 << 20, rate=0):
    """F: frames from `intensity` Ethernet addresses in a bridge whose other members begin to talk to each other."""
    told = {}
    with bridge(world), attacking(world.bad, "flood", "eth1", rate, "macs", intensity, capabilities=["net_raw"]):
        time.sleep(3)  # for as many as any table holds
        # A station that comes when the table is full.
        world.b.ip("link", "set", "eth1", "address", "02:00:00:00:70:02")
        world.a.ip("neighbor", "flush", "dev", "eth1")
        with watched(world, told):
            yield told


@contextlib.contextmanager
def mac_theft(world, intensity=1000):
    """F: `intensity` frames a second from the Ethernet address of another member of the bridge."""
    told = {}
    with bridge(world), watched(world, told):
        words = ("eth1", intensity, "thief", world.b.mac("eth1"))
        with attacking(world.bad, "flood", *words, capabilities=["net_raw"]):
            yield told


@contextlib.contextmanager
def bridge(world):
    """A bridge of pods a, b, bad and friend."""
    members = {"a": world.a, "b": world.b, "bad": world.bad, "friend": world.friend}
    world.daemon.apply('[[bridge]]\nname = "lan"\n' + "".join(
        world.lab.plain_tap(f"lan-{name}", pod, 'bridge = { name = "lan" }', address=f"10.70.0.{number}/24", device="eth1")
        for number, (name, pod) in enumerate(members.items(), 1)
    ))  # fmt: skip
    world.a.must_ping("10.70.0.2")
    yield


@contextlib.contextmanager
def watched(world, told):
    """Pod a pings pod b in the bridge; IP packets that come to pod friend are not for it."""
    with contextlib.closing(ping_canary(world.a, "10.70.0.2", name="lan")) as canary, world.friend.entered():
        spy = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        spy.bind(("eth1", 0x0800))
        with spy:
            yield
            told |= canary.finish()
            # PACKET_STATISTICS: frames, those included that nobody has read.
            told["lan_overheard"] = struct.unpack("II", spy.getsockopt(263, 6, 8))[0]


@contextlib.contextmanager
def super_frames(world, intensity=60_000, rate=0, kind="super", where="tap"):
    """G: super-frames (or "long" packets, to be fragmented) of `intensity` bytes as fast as the pod can, to another pod."""
    # Nobody in that pod has the address: its kernel drops them without a word.
    sink = world.friend_address.rsplit(".", 1)[0] + ".99"
    world.daemon.apply(f'[[neighbor]]\ninterface = "friend"\naddress = "{sink}"\nmac = "{world.friend.mac()}"\n')
    world.bad.ip("link", "set", "eth0", "mtu", 65521)
    name, own, port = ("bad", world.bad_address, "eth0") if where == "tap" else ("evil", world.evil_address, world.evil_socket)
    with attacking(world.bad, "flood", port, rate, kind, world.router_mac(name), own, sink, intensity, capabilities=["net_raw"]):
        yield {}


@contextlib.contextmanager
def nothing(world, intensity=0):
    """No attack at all: what the canaries show on this machine."""
    yield {}


ATTACKS = {
    "none": nothing,
    "A": eventfd_waiters,
    "B": packet_filters,
    "B-raw": variant("raw", 200, 1000),
    "C": socket_waiters,
    "C-filter": variant("filter", 1, 5000),
    "C-sigio": variant("sigio", 2000, 1000),
    "C-multicast": variant("multicast", 19_000, 100),
    "D": nested_tunnels,
    "E": neighbor_flood,
    "F": mac_flood,
    "F2": mac_theft,
    "G": super_frames,
}
