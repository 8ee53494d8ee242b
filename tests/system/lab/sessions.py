"""What tests of sessions stand on: pods a (10.1.0.2, fd00:1::2) and b (10.2.0.2, fd00:2::2), each behind a tap of its own."""

import contextlib
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


def tenant(*more, name="red", interface="a", outside="b"):
    """A tenant. What isn't answered for long stays, unless the test is about that: the machine may stand still meanwhile."""
    if not any(line.startswith("timeouts") for line in more):
        more = (*more, timeouts(embryonic=600))
    return "\n".join(["[[tenant]]", f'name = "{name}"', f'interfaces = ["{interface}"]', f'outside_interfaces = ["{outside}"]', *more, ""])


def timeouts(**seconds):
    return "timeouts = { " + ", ".join(f"{name}_seconds = {value}" for name, value in seconds.items()) + " }"


def sessions(daemon, *filters):
    return daemon.json("show", "session", *filters).get("sessions", [])


def only(daemon, *filters):
    found = sessions(daemon, *filters)
    events = [line for line in daemon.scrape()[1].splitlines() if "node_events" in line and "session" in line]
    assert len(found) == 1, "\n".join([str(found), *events])
    return found[0]


def figures(session):
    """Phase, packets and bytes there and back."""
    counters = ("forward_packets", "forward_bytes", "reverse_packets", "reverse_bytes")
    return session["phase"], *(int(session.get(counter, 0)) for counter in counters)


def red(daemon):
    found = daemon.json("show", "tenant", "red")["tenants"][0]
    return {name: int(found.get(name, 0)) for name in ("sessions", "created", "evicted", "refused")}


@contextlib.contextmanager
def sockets(pods, family, kind, there, port=0):
    """A socket in the first pod, and one in the second that is bound to `there`."""
    with contextlib.ExitStack() as stack:
        with pods[1].entered():
            server = stack.enter_context(socket.socket(family, kind))
        with pods[0].entered():
            client = stack.enter_context(socket.socket(family, kind))
        for one in (server, client):
            one.settimeout(30)
        server.bind((there, port))
        yield client, server


def talk(client, server):
    """A datagram, and its answer."""
    client.sendto(b"x", server.getsockname())
    _, asker = server.recvfrom(10)
    server.sendto(b"y", asker)
    assert client.recv(10) == b"y"
