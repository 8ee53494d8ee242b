"""The attacks of tests/attacks on a world of pods, each a context manager: while it is entered, the attack goes on."""

import contextlib

from .attack_programs import allowed, attacking

PORT = 4000


@contextlib.contextmanager
def eventfd_waiters(world, intensity=1000, where="tx", sets=1, polls=90_000, rate=2):
    """A: a memif peer hangs waiters on the eventfds of its rings (`where` tx or rx) or on its control socket (control)."""
    with attacking(world.bad, "eventfd_waiters", world.evil_socket, where, intensity, sets, polls, rate) as process:
        with attacking(world.friend, "send_udp", world.evil_address, PORT, rate):
            yield {"allowed": allowed(process)}


@contextlib.contextmanager
def packet_filters(world, intensity=200, rate=500, filter="divide"):
    """B: packet sockets with long filters on the pod's device, to which another pod sends."""
    with attacking(world.bad, "packet_filters", "eth0", intensity, filter, capabilities=["net_raw"]) as process:
        with attacking(world.friend, "send_udp", world.bad_address, PORT, rate):
            yield {"allowed": allowed(process)}


@contextlib.contextmanager
def socket_waiters(world, intensity=1000, polls=90_000, rate=2, count=5):
    """C: waiters on a UDP socket of the pod, which another pod sends a few datagrams to."""
    with attacking(world.bad, "socket_waiters", PORT, intensity, polls) as process:
        with attacking(world.friend, "send_udp", world.bad_address, PORT, rate, count):
            yield {"allowed": allowed(process)}


@contextlib.contextmanager
def super_frames(world, intensity=60_000, rate=0):
    """G: super-frames of `intensity` bytes as fast as the pod can, to another pod."""
    # Nobody in that pod has the address: its kernel drops them without a word.
    sink = world.friend_address.rsplit(".", 1)[0] + ".99"
    world.daemon.apply(f'[[neighbor]]\ninterface = "friend"\naddress = "{sink}"\nmac = "{world.friend.mac()}"\n')
    words = (world.router_mac("bad"), world.bad_address, sink, intensity)
    with attacking(world.bad, "flood", "eth0", rate, "super", *words, capabilities=["net_raw"]):
        yield {}


@contextlib.contextmanager
def nothing(world, intensity=0):
    """No attack at all: what the canaries show on this machine."""
    yield {}


ATTACKS = {"none": nothing, "A": eventfd_waiters, "B": packet_filters, "C": socket_waiters, "G": super_frames}
