"""Static NAT: hosts a and c inside are always seen with the same addresses by b outside, and can be asked by them.

b knows no way to 10.1.0.0/24 and 10.3.0.0/24, so nothing comes back without a translation.
"""

import contextlib
import socket
import time

import pytest
from lab import eventually
from lab.laboratory import iperf

# Each flow is one of the two's, whichever side begins it.
WORKERS = 2

SERVICES = "".join(f'{way}_services = ["tcp-check", "l4-lifecycle", "nat"]\n' for way in ("forward", "reverse"))
TENANT = (
    f'[[tenant]]\nname = "red"\ninterfaces = ["a", "c"]\noutside_interfaces = ["b"]\nnat_pool = "out"\n{SERVICES}'
    "timeouts = { embryonic_seconds = 600 }\n"
)
#: a is 192.0.2.5 as a whole; c has two ports of Quiver's own address there, and no other address outside but the pool's.
MAPPINGS = """
mappings = [
  { inside = "10.1.0.2", outside = "192.0.2.5" },
  { inside = "10.3.0.2", outside = "10.2.0.1", outside_port = 8080, inside_port = 80 },
  { inside = "10.3.0.2", outside = "10.2.0.1", outside_port = 5353, protocol = "udp" },
  { inside = "10.3.0.2", outside = "10.2.0.1", outside_port = 7777, protocol = "udp", twice = true },
  { inside = "10.3.0.2", outside = "10.2.0.1", outside_port = 7778, twice = true },
]
"""
POOL = f'[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.0/30"]\n{MAPPINGS}'


def interfaces(pods, mtu=1500):
    return "".join(
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24"]\nmtu = {mtu if name == "b" else 1500}\n'
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24"]'
        + ("" if name == "b" else f', host_gateways = ["10.{number}.0.1"]')
        + " }\n"
        for number, (name, pod) in enumerate(pods.items(), 1)
    )


@pytest.fixture
def three(lab, daemon):
    pods = {role: lab.pod(role) for role in "abc"}
    daemon.apply(interfaces(pods) + POOL + TENANT)
    pods["b"].ip("route", "add", "192.0.2.0/29", "via", "10.2.0.1")
    for inside in "ac":
        eventually(lambda pod=pods[inside]: pod.ping("10.2.0.2", count=1, wait=1).received == 1, lambda: f"b answers: {daemon.drops()}")
    return pods


def made(pod, kind=socket.SOCK_DGRAM, bind=None):
    with pod.entered():
        one = socket.socket(socket.AF_INET, kind)
    one.settimeout(30)
    if bind:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(bind)
    return one


def refused(pod, there):
    """Nobody listens there, and who asks is told so."""
    with made(pod) as client:
        client.connect(there)
        with pytest.raises(ConnectionRefusedError):
            for _ in range(100):
                client.send(b"x")
                time.sleep(0.1)


def test_a_mapped_host_is_seen_with_its_address_and_asked_by_it(three, daemon):
    a, b = three["a"], three["b"]
    b.must_ping("192.0.2.5", count=3)
    for number in range(8):
        # From inside: its own address outside, and its own port.
        with made(b, bind=("10.2.0.2", 0)) as server, made(a) as client:
            client.sendto(b"x" * 1400, server.getsockname())
            _, asker = server.recvfrom(2000)
            assert asker == ("192.0.2.5", client.getsockname()[1])
            server.sendto(b"y", asker)
            assert client.recv(10) == b"y"
        # From outside: it sees who asks.
        with made(a, bind=("10.1.0.2", 0)) as server, made(b, bind=("10.2.0.2", 20000 + number)) as client:
            client.sendto(b"x", ("192.0.2.5", server.getsockname()[1]))
            _, asker = server.recvfrom(2000)
            assert asker == ("10.2.0.2", 20000 + number)
            server.sendto(b"y" * 1400, asker)
            data, answerer = client.recvfrom(2000)
            assert (len(data), answerer) == (1400, ("192.0.2.5", server.getsockname()[1]))
    sessions = daemon.json("show", "session", "--address", "192.0.2.5")["sessions"]
    inward = [one for one in sessions if one["initiator"] == "10.2.0.2"]
    assert inward and all(one["backend"] == "10.1.0.2" for one in inward)
    assert not [reason for node, reason in daemon.drops() if node == "nat"], daemon.drops()


# Of 20 MiB. iperf3 is done when the sender has handed all over: what lies in sockets' buffers by then isn't counted as received.
MOVED = 10_000_000


def test_connections_move_data_whoever_begins(three, daemon):
    a, b = three["a"], three["b"]
    for options in ((), ("-R",)):
        result = iperf((b, a), "-n", "20M", *options, to="192.0.2.5")
        assert result["end"]["sum_received"]["bytes"] >= MOVED
    result = iperf((a, b), "-n", "20M")
    assert result["end"]["sum_received"]["bytes"] >= MOVED
    assert not [reason for node, reason in daemon.drops() if node in ("nat", "tcp-check")], daemon.drops()


def test_a_port_is_mapped_for_its_protocol_alone(three, daemon):
    b, c = three["b"], three["c"]
    with made(c, socket.SOCK_STREAM, bind=("10.3.0.2", 80)) as server:
        server.listen(16)
        for _ in range(8):
            with made(b, socket.SOCK_STREAM) as client:
                client.connect(("10.2.0.1", 8080))
                connection, peer = server.accept()
                assert peer == client.getsockname()
                connection.sendall(b"hello")
                assert client.recv(10) == b"hello"
                connection.close()
    with made(c, bind=("10.3.0.2", 5353)) as server, made(b) as client:
        client.sendto(b"x", ("10.2.0.1", 5353))
        _, peer = server.recvfrom(10)
        server.sendto(b"y", peer)
        assert client.recvfrom(10) == (b"y", ("10.2.0.1", 5353))
        # What c begins by that port is seen with it, too; by another one, with the pool's.
        with made(b, bind=("10.2.0.2", 0)) as other, made(c) as another:
            server.sendto(b"z", other.getsockname())
            assert other.recvfrom(10) == (b"z", ("10.2.0.1", 5353))
            another.sendto(b"z", other.getsockname())
            assert other.recvfrom(10)[1][0] in {f"192.0.2.{host}" for host in range(4)}
    # Quiver's own address is its own but for that.
    b.must_ping("10.2.0.1")


def test_who_asks_twice_is_seen_with_the_pool_s_address(three, daemon):
    """So c answers, though it knows a way to nobody but the pool."""
    b, c = three["b"], three["c"]
    c.ip("route", "del", "default")
    c.ip("route", "add", "192.0.2.0/30", "via", "10.3.0.1")
    pool = {f"192.0.2.{host}" for host in range(4)}
    with made(c, bind=("10.3.0.2", 7777)) as server:
        for _ in range(8):
            with made(b) as client:
                client.sendto(b"x" * 1400, ("10.2.0.1", 7777))
                _, asker = server.recvfrom(2000)
                assert asker[0] in pool, asker
                server.sendto(b"y", asker)
                assert client.recvfrom(10) == (b"y", ("10.2.0.1", 7777))
    with made(c, socket.SOCK_STREAM, bind=("10.3.0.2", 7778)) as server, made(b, socket.SOCK_STREAM) as client:
        server.listen(1)
        client.connect(("10.2.0.1", 7778))
        connection, peer = server.accept()
        assert peer[0] in pool, peer
        connection.sendall(b"hello")
        assert client.recv(10) == b"hello"
        connection.close()
    seen = daemon.json("show", "session", "--port", "7777")["sessions"]
    assert seen and all(one["initiator"] == "10.2.0.2" and one["backend"] == "10.3.0.2" for one in seen), seen
    text = daemon.cli("explain", "10.2.0.2:4000", "10.2.0.1:7777", "udp").stdout
    assert "by a mapping of whom it asks, and a port of the pool" in text, text
    # Nobody listens there: the host's error comes to who asked.
    refused(b, ("10.2.0.1", 7777))
    assert not [reason for node, reason in daemon.drops() if node == "nat"], daemon.drops()


def test_hosts_inside_reach_each_other_by_what_they_are_outside(three, daemon):
    a, c = three["a"], three["c"]
    with made(a, socket.SOCK_STREAM, bind=("10.1.0.2", 7000)) as server:
        server.listen(16)
        for _ in range(8):
            # c has no address of its own outside: it is seen with the pool's, as anybody outside would see it.
            with made(c, socket.SOCK_STREAM) as client:
                client.connect(("192.0.2.5", 7000))
                connection, peer = server.accept()
                assert peer[0] in {f"192.0.2.{host}" for host in range(4)}, peer
                connection.sendall(b"hello")
                assert client.recv(10) == b"hello"
                connection.close()
    with made(c, socket.SOCK_STREAM, bind=("10.3.0.2", 80)) as server:
        server.listen(16)
        for _ in range(8):
            with made(a, socket.SOCK_STREAM) as client:
                client.connect(("10.2.0.1", 8080))
                connection, peer = server.accept()
                assert peer == ("192.0.2.5", client.getsockname()[1]), peer
                connection.close()
    # To itself.
    with made(a, bind=("10.1.0.2", 7001)) as server, made(a, bind=("10.1.0.2", 7002)) as client:
        client.sendto(b"x", ("192.0.2.5", 7001))
        assert server.recvfrom(10) == (b"x", ("192.0.2.5", 7002))
    assert not [reason for node, reason in daemon.drops() if node == "nat"], daemon.drops()


def test_errors_come_to_whom_they_concern(three, daemon):
    a, b = three["a"], three["b"]
    # Of the host inside: nobody listens there.
    refused(b, ("192.0.2.5", 9))
    # Of the host outside.
    refused(a, ("10.2.0.2", 9))
    # Of Quiver, as by traceroute.
    text = b.run("ping", "-c", "1", "-W", "5", "-t", "1", "192.0.2.5", check=False).stdout
    assert "From 10.2.0.1" in text and "Time to live exceeded" in text, text


def test_path_mtu_is_found_by_who_answers(three, daemon):
    a = three["a"]
    daemon.apply(interfaces(three, mtu=1300))
    ip_mtu_discover, do, ip_mtu = 10, 2, 14
    with made(a, bind=("10.1.0.2", 7003)) as server, made(three["b"]) as client:
        server.setsockopt(socket.IPPROTO_IP, ip_mtu_discover, do)
        client.sendto(b"x", ("192.0.2.5", 7003))
        server.connect(server.recvfrom(10)[1])

        def too_large():
            with contextlib.suppress(OSError):
                server.send(b"x" * 1400)
            return server.getsockopt(socket.IPPROTO_IP, ip_mtu) == 1300

        eventually(too_large, lambda: f"a knows that 1300 bytes go through: {server.getsockopt(socket.IPPROTO_IP, ip_mtu)}")


def test_what_is_mapped_no_more_ends(three, daemon):
    a, b = three["a"], three["b"]
    with made(a, bind=("10.1.0.2", 7004)) as server, made(b) as client:
        client.sendto(b"x", ("192.0.2.5", 7004))
        server.sendto(b"y", server.recvfrom(10)[1])
        assert client.recv(10) == b"y"
        ports = daemon.json("show", "session", "--port", "7004")["sessions"]
        assert len(ports) == 1
        # Another change leaves it.
        daemon.apply(TENANT + "max_sessions = 5000\n")
        client.sendto(b"x", ("192.0.2.5", 7004))
        assert server.recv(10) == b"x"
        daemon.apply('[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.0/30"]\n')
        eventually(lambda: not daemon.json("show", "session", "--port", "7004").get("sessions"), "the session ends")
        assert b.ping("192.0.2.5", count=1, wait=1).received == 0


def test_what_makes_no_sense_is_refused_by_name(lab, daemon):
    one = '[[nat_pool]]\nname = "one"\nmappings = [{ inside = "10.1.0.2", outside = "192.0.2.5" }]\n'
    tenants = "".join(f'[[tenant]]\nname = "{name}"\nnat_pool = "one"\n{SERVICES}' for name in ("red", "blue"))
    for toml, field, reason in (
        (one + '[[nat_pool]]\nname = "two"\naddresses = ["192.0.2.0/29"]\n', "addresses", "overlap"),
        (one + one.replace('"one"', '"two"').replace("10.1.0.2", "10.1.0.3"), "addresses", "overlap"),
        (one.replace("outside = ", "outside_port = 80, inside_port = 0, outside = ") + "addresses = [\"192.0.2.5\"]\nfirst_port = 50\n",
         "mappings[0].outside", "overlaps"),
        (one.replace(" }]", ' }, { inside = "10.1.0.3", outside = "192.0.2.5" }]'), "mappings[1].outside", "mapped already"),
        (one + tenants, "nat_pool", "has mappings"),
        (one.replace(" }]", ", twice = true }]"), "mappings[0].twice", "no addresses"),
    ):  # fmt: skip
        status, outcomes, errors = daemon.offer(toml)
        text = f"{outcomes} {errors}"
        assert status != 0 and field in text and reason in text, text
