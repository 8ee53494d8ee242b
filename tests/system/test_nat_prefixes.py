"""Exchanged prefixes (NPTv6): pod a is inside, in the network of RFC 6296's example; pod b knows a way only to what that is seen as."""

import socket

import pytest
from lab import eventually

# Questions and answers come in at different workers, and each flow is one of the two's.
WORKERS = 2

# RFC 6296: "FD01:0203:0405:0001::1234 ... is translated to 2001:0DB8:0001:D550::1234".
A, SEEN, B = "fd01:203:405:1::1234", "2001:db8:1:d550::1234", "2001:db8:ff::2"
SERVICES = "".join(f'{way}_services = ["tcp-check", "l4-lifecycle", "nat"]\n' for way in ("forward", "reverse"))
CONFIG = (
    '[[nat_pool]]\nname = "site"\nprefixes = [{ inside = "fd01:203:405::/48", outside = "2001:db8:1::/48" }]\n'
    f'[[tenant]]\nname = "red"\ninterfaces = ["a"]\noutside_interfaces = ["b"]\nnat_pool = "site"\n{SERVICES}'
)


@pytest.fixture
def two(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(
        '[[interface]]\nname = "a"\naddresses = ["fd01:203:405:1::1/64"]\n'
        f'tap = {{ netns = "{a.name}", host_name = "eth0", host_addresses = ["{A}/64"], host_gateways = ["fd01:203:405:1::1"] }}\n'
        '[[interface]]\nname = "b"\naddresses = ["2001:db8:ff::1/64"]\nmtu = 1300\n'
        f'tap = {{ netns = "{b.name}", host_name = "eth0", host_addresses = ["{B}/64"] }}\n' + CONFIG
    )
    b.ip("-6", "route", "add", "2001:db8:1::/48", "via", "2001:db8:ff::1")
    eventually(lambda: a.ping(B, count=1, wait=1).received == 1, lambda: f"b answers: {daemon.drops()}")
    return a, b


def listening(pod, kind=socket.SOCK_STREAM):
    with pod.entered():
        one = socket.socket(socket.AF_INET6, kind)
    one.bind(("::", 0))
    if kind == socket.SOCK_STREAM:
        one.listen()
    one.settimeout(20)
    return one


def connected(pod, to, port):
    with pod.entered():
        one = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    one.settimeout(20)
    one.connect((to, port))
    return one


def test_the_rfc_s_host_is_seen_as_the_rfc_says(two, daemon):
    a, b = two
    with listening(b) as server, connected(a, B, server.getsockname()[1]) as client:
        connection, who = server.accept()
        with connection:
            assert who[0] == SEEN
            assert who[1] == client.getsockname()[1], "ports stay"
            connection.sendall(b"y" * 100_000)
            left = 100_000
            while left:
                left -= len(client.recv(left))
        sessions = daemon.json("show", "session", "--protocol", "tcp", "--address", A)["sessions"]
        assert [(one["initiator"], one["translated"]) for one in sessions] == [(A, SEEN)]
    assert int(daemon.json("show", "nat", "site")["pools"][0]["translations"]) >= 1
    assert "fd01:203:405::/48 as 2001:db8:1::/48" in daemon.cli("show", "nat").stdout


def test_who_is_outside_asks_by_that_address(two, daemon):
    a, b = two
    b.must_ping(SEEN, count=3)
    said = daemon.json("explain", f"{B}", SEEN, "tcp/80", "--interface", "b")
    assert (said["verdict"], said["out_destination"], said["out_source"], said["tenant"]) == ("forwarded", A, B, "red")
    with listening(a) as server, connected(b, SEEN, server.getsockname()[1]) as client:
        connection, who = server.accept()
        with connection:
            assert who[:2] == client.getsockname()[:2], "who asks is seen as it is"
            client.sendall(b"x")
            assert connection.recv(1) == b"x"
            connection.sendall(b"y")
            assert client.recv(1) == b"y"


def test_errors_come_back_to_who_is_inside(two):
    a, b = two
    # Quiver's own about the smaller link beyond, and b's about a port at which nobody listens.
    done = a.ping(B, "-M", "do", "-s", "1400", count=2, wait=2)
    assert done.received == 0
    with a.entered():
        one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with one:
        one.settimeout(10)
        one.connect((B, 9))
        one.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            one.recv(1)
    # What is known of the path now makes datagrams fit.
    with listening(b, socket.SOCK_DGRAM) as server:
        with a.entered():
            one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        with one:
            one.sendto(b"x" * 1200, (B, server.getsockname()[1]))
            data, who = server.recvfrom(2000)
            assert (len(data), who[0]) == (1200, SEEN)


def test_pools_do_not_overlap(two, daemon):
    other = '[[nat_pool]]\nname = "other"\nprefixes = [{ inside = "fd09::/48", outside = "2001:db8:1::/48" }]\n'
    status, outcomes, _ = daemon.offer(other)
    assert status != 0 and "2001:db8:1::/48" in outcomes["other"]["refused"]["reason"], outcomes
