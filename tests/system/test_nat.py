"""NAT: pod a (10.1.0.2) is inside, pod b (10.2.0.2) outside knows no way to 10.1.0.0/24: without a translation nothing comes back."""

import contextlib
import socket
import time

import pytest
from lab import eventually
from lab.laboratory import iperf

# A tap's packets come in at one worker: those of a and b at different ones, and each flow is one of the two's.
WORKERS = 2

SERVICES = "".join(f'{way}_services = ["tcp-check", "l4-lifecycle", "nat"]\n' for way in ("forward", "reverse"))
TENANT = (
    f'[[tenant]]\nname = "red"\ninterfaces = ["a"]\noutside_interfaces = ["b"]\nnat_pool = "out"\n{SERVICES}'
    "timeouts = { embryonic_seconds = 600 }\n"
)
# Addresses that b has a route to; and Quiver's own address, of whose ports the kernel takes none below 32768.
POOLS = {
    "pool": '[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.0/30"]\n',
    "own address": '[[nat_pool]]\nname = "out"\naddresses = ["10.2.0.1"]\nfirst_port = 10000\nlast_port = 19999\n',
}
SEEN = {"pool": {f"192.0.2.{host}" for host in range(4)}, "own address": {"10.2.0.1"}}


@pytest.fixture(params=POOLS)
def outside(request):
    """Which pool, and how b may see a."""
    return request.param, SEEN[request.param]


def interfaces(a, b, mtu=1500):
    return (
        '[[interface]]\nname = "a"\naddresses = ["10.1.0.1/24"]\n'
        f'tap = {{ netns = "{a.name}", host_name = "eth0", host_addresses = ["10.1.0.2/24"], host_gateways = ["10.1.0.1"] }}\n'
        f'[[interface]]\nname = "b"\naddresses = ["10.2.0.1/24"]\nmtu = {mtu}\n'
        f'tap = {{ netns = "{b.name}", host_name = "eth0", host_addresses = ["10.2.0.2/24"] }}\n'
    )


@pytest.fixture
def two(lab, outside):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(interfaces(a, b) + POOLS[outside[0]] + TENANT)
    b.ip("route", "add", "192.0.2.0/30", "via", "10.2.0.1")
    eventually(lambda: a.ping("10.2.0.2", count=1, wait=1).received == 1, lambda: f"b answers: {lab.daemon.drops()}")
    return a, b


def inside(pod, kind):
    with pod.entered():
        one = socket.socket(socket.AF_INET, kind)
    one.settimeout(30)
    return one


def figures(daemon):
    found = daemon.json("show", "nat", "out")["pools"][0]
    return {name: int(found.get(name, 0)) for name in ("translations", "created", "exhausted")}


def test_who_is_outside_sees_the_pool_only(two, outside, daemon):
    a, b = two
    a.must_ping("10.2.0.2", count=5)
    with inside(b, socket.SOCK_DGRAM) as server, inside(a, socket.SOCK_DGRAM) as client:
        server.bind(("10.2.0.2", 0))
        for size in (1, 1400, 20000):  # the last one in fragments
            client.sendto(b"x" * size, server.getsockname())
            data, asker = server.recvfrom(65535)
            assert (len(data), asker[0] in outside[1]) == (size, True), asker
            server.sendto(b"y" * size, asker)
            assert len(client.recv(65535)) == size
        session = daemon.json("show", "session", "--protocol", "udp", "--port", str(server.getsockname()[1]))["sessions"]
        assert [(one["initiator"], one["translated"], one["translated_port"]) for one in session] == [("10.1.0.2", *asker)]
        assert f"{asker[0]}:{asker[1]}" in daemon.cli("show", "session").stdout
    before = figures(daemon)
    assert before["translations"] >= 2 and before["exhausted"] == 0
    daemon.cli("clear", "session")
    assert figures(daemon)["translations"] == 0, "what they had is given back"


def test_connections_move_data(two, daemon):
    # What was sent last may not have been read when the receiver is asked.
    result = iperf(two, "-n", "50M")
    assert result["end"]["sum_received"]["bytes"] >= 40_000_000
    result = iperf(two, "-n", "20M", "-R")
    assert result["end"]["sum_received"]["bytes"] >= 10_000_000
    assert not [reason for node, reason in daemon.drops() if node in ("nat", "tcp-check")], daemon.drops()


def test_many_connections_to_one_server(two, outside, daemon):
    a, b = two
    with inside(b, socket.SOCK_STREAM) as server:
        server.bind(("10.2.0.2", 0))
        server.listen(256)
        seen = set()
        clients = []
        for _ in range(100):
            client = inside(a, socket.SOCK_STREAM)
            client.connect(server.getsockname())
            connection, peer = server.accept()
            clients.append((client, connection))
            seen.add(peer)
        assert len(seen) == 100 and {address for address, _ in seen} <= outside[1]
        assert len({address for address, _ in seen}) == 1, "a host has one address"
        for number, (client, connection) in enumerate(clients):
            client.sendall(b"%d" % number)
            connection.settimeout(30)
            assert connection.recv(10) == b"%d" % number, "nobody gets another's"
            client.close()
            connection.close()
    assert figures(daemon)["translations"] >= 100


def test_errors_come_to_whom_they_concern(two, outside):
    a, _b = two
    # Of the host outside: nobody listens there.
    with inside(a, socket.SOCK_DGRAM) as client:
        client.connect(("10.2.0.2", 9))
        with pytest.raises(ConnectionRefusedError):
            for _ in range(100):
                client.send(b"x")
                time.sleep(0.1)
    # Of Quiver, as by traceroute.
    text = a.run("ping", "-c", "1", "-W", "5", "-t", "1", "10.2.0.2", check=False).stdout
    assert "From 10.1.0.1" in text and "Time to live exceeded" in text, text


def test_path_mtu_is_found(two, outside, daemon):
    a, b = two
    daemon.apply(interfaces(a, b, mtu=1300))
    ip_mtu_discover, do, ip_mtu = 10, 2, 14
    with inside(a, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.IPPROTO_IP, ip_mtu_discover, do)
        client.connect(("10.2.0.2", 53))

        def too_large():
            with contextlib.suppress(OSError):
                client.send(b"x" * 1400)
            return client.getsockopt(socket.IPPROTO_IP, ip_mtu) == 1300

        eventually(too_large, lambda: f"a knows that 1300 bytes go through: {client.getsockopt(socket.IPPROTO_IP, ip_mtu)}")


def test_a_tenant_that_goes_gives_everything_back(two, outside, daemon):
    a, _ = two
    assert figures(daemon)["translations"] >= 1
    daemon.delete("tenant", "red")
    eventually(lambda: figures(daemon)["translations"] == 0, lambda: str(figures(daemon)))
    assert a.ping("10.2.0.2", count=1, wait=1).received == 0, "b knows no way back to an inside address"


def test_what_makes_no_sense_is_refused_by_name(lab, daemon):
    pool = POOLS["pool"]
    overlap = '[[nat_pool]]\nname = "more"\naddresses = ["192.0.2.3/32"]\n'
    for toml, field, reason in (
        (pool + overlap, "addresses", "overlap"),
        ('[[nat_pool]]\nname = "out"\n', "addresses", "without addresses"),
        (f'[[tenant]]\nname = "red"\n{SERVICES}', "nat_pool", "needs one"),
        ('[[tenant]]\nname = "red"\nnat_pool = "out"\n', "nat_pool", "is used by the service nat only"),
        (pool + f'[[tenant]]\nname = "red"\ncontext = 7\nnat_pool = "out"\n{SERVICES}', "context", "another context"),
    ):
        status, outcomes, errors = daemon.offer(toml)
        text = f"{outcomes} {errors}"
        assert status != 0 and field in text and reason in text, text
