"""What tests of sessions stand on: pods a (10.1.0.2, fd00:1::2) and b (10.2.0.2, fd00:2::2), each behind a tap of its own."""

import socket

import pytest

from .process import eventually

#: How pod a speaks with pod b, by either IP version.
VERSIONS = pytest.mark.parametrize("family,there", [(socket.AF_INET, "10.2.0.2"), (socket.AF_INET6, "fd00:2::2")])


def tap(name, pod, number):
    """A routed tap of both versions: Quiver is .1 and ::1, the pod .2 and ::2 with Quiver as its gateway."""
    return (
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24", "fd00:{number}::1/64"]\n'
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24", "fd00:{number}::2/64"], '
        f'host_gateways = ["10.{number}.0.1", "fd00:{number}::1"] }}\n'
    )


@pytest.fixture
def two(lab):
    """The pods, which reach each other."""
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(tap("a", a, 1) + tap("b", b, 2))
    # Both know their router and their addresses are no longer tentative before anybody counts packets.
    for address in ("10.2.0.2", "fd00:2::2"):
        eventually(lambda address=address: a.ping(address, count=1, wait=1).received == 1, lambda: "b answers")
    return a, b
