"""The attacks of tests/attacks on a world of pods, each a context manager: while it is entered, the attack goes on."""

import contextlib

from .attack_programs import allowed, attacking

PORT = 4000


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
def nothing(world, intensity=0):
    """No attack at all: what the canaries show on this machine."""
    yield {}


ATTACKS = {"none": nothing, "B": packet_filters, "C": socket_waiters}
