"""A service that is written elsewhere: the sample's own quiverd, built as its documentation says, with real datagrams through it."""

import os
import pathlib
import shutil
import socket
import subprocess

import pytest
from lab import Daemon, Laboratory, eventually
from lab.process import ROOT

SAMPLE = ROOT / "examples" / "sample-service"
SERVICES = "".join(f'{way}_services = ["l4-lifecycle", "amplification-guard"]\n' for way in ("forward", "reverse"))
CONFIG = (
    "".join(
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24"]\n'
        f'tap = {{ netns = "{{{name}}}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24"], '
        f'host_gateways = ["10.{number}.0.1"] }}\n'
        for number, name in enumerate("ab", 1)
    )
    + f'[[tenant]]\nname = "red"\ninterfaces = ["a"]\noutside_interfaces = ["b"]\n{SERVICES}'
)


@pytest.fixture(scope="module")
def program():
    """The sample's program, made with the versions that the tree is made with, and what the tree has already compiled."""
    target = pathlib.Path(os.environ.get("QUIVER_SAMPLE_TARGET") or ROOT / "target")
    shutil.copy(ROOT / "Cargo.lock", SAMPLE / "Cargo.lock")
    command = ["cargo", "build", "--offline", "--manifest-path", SAMPLE / "Cargo.toml", "--target-dir", target]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    return target / "debug" / "quiverd-with-sample"


@pytest.fixture
def two(program, tmp_path_factory):
    directory = tmp_path_factory.mktemp("q", numbered=True)
    daemon = Daemon(directory, program=program).start()
    lab = Laboratory(daemon)
    try:
        a, b = lab.pod("a"), lab.pod("b")
        daemon.apply(CONFIG.replace("{a}", a.name).replace("{b}", b.name))
        eventually(lambda: a.ping("10.2.0.2", count=1, wait=1).received == 1, lambda: str(daemon.drops()))
        yield daemon, a, b
    finally:
        lab.close()
        daemon.stop()


def datagrams(pod, address):
    with pod.entered():
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind((address, 0))
    one.settimeout(20)
    return one


def test_a_service_of_ones_own_sees_its_sessions_packets(two):
    daemon, a, b = two
    with datagrams(a, "10.1.0.2") as client, datagrams(b, "10.2.0.2") as server:
        to = server.getsockname()
        # With 28 bytes of headers: 128 asked, and 384 may be answered.
        client.sendto(b"q" * 100, to)
        asked, who = server.recvfrom(2000)
        assert len(asked) == 100
        server.sendto(b"a" * 300, who)
        assert len(client.recv(2000)) == 300
        said = daemon.cli("explain", f"10.2.0.2:{to[1]}", f"10.1.0.2:{who[1]}", "udp", "--interface", "b").stdout
        assert "128 bytes were sent and 328 answered" in said, said
        server.sendto(b"a" * 300, who)
        reason = ("amplification-guard", "amplified")
        eventually(lambda: daemon.drops().get(reason, {}).get("packets") == 1, lambda: str(daemon.drops()))
        # The session is blocked: neither side gets anything through, and the service isn't asked.
        client.sendto(b"q" * 1000, to)
        eventually(lambda: daemon.drops()[reason]["packets"] == 2, lambda: str(daemon.drops()))
        said = daemon.json("explain", f"10.1.0.2:{who[1]}", f"10.2.0.2:{to[1]}", "udp")
        assert (said["verdict"], said["node"], said["reason"]) == ("dropped", *reason)
        assert "three times" in said["help"]
        assert [session["blocked"] for session in daemon.json("show", "session", "--protocol", "udp")["sessions"]] == [True]
    # Others don't notice: a session of its own, and pings, which the service leaves alone.
    with datagrams(a, "10.1.0.2") as client, datagrams(b, "10.2.0.2") as server:
        client.sendto(b"q" * 100, server.getsockname())
        data, who = server.recvfrom(2000)
        server.sendto(data, who)
        assert client.recv(2000) == data
    a.must_ping("10.2.0.2", count=3)
    assert "amplification-guard" in daemon.nodes()


def test_a_scope_and_a_parser_of_ones_own(two):
    """Sessions of scope quic are found by a connection ID, whatever their addresses are, and pass a service that only this scope has."""
    daemon, a, _ = two
    services = '["l4-lifecycle", "first-packets"]'
    quic = (
        '[[tenant]]\nname = "red"\ninterfaces = ["a"]\noutside_interfaces = ["b"]\nscope = "quic"\nparser = "quic-connections"\n'
        f"forward_services = {services}\nreverse_services = {services}\n"
    )
    daemon.apply(quic)
    shown = daemon.json("show", "tenant", "red")["tenants"][0]
    assert (shown["scope"], shown["parser"], shown["forward_services"]) == ("quic", "quic-connections", ["l4-lifecycle", "first-packets"])
    a.run("ip", "address", "add", "10.1.0.3/24", "dev", "eth0")
    connection = bytes.fromhex("c0ffee0123456789")
    for number, address in enumerate(["10.1.0.2", "10.1.0.3"] * 60):
        with datagrams(a, address) as client:
            client.sendto(b"\x40" + connection + bytes([number]), ("10.2.0.2", 443))

    def found():
        return daemon.json("show", "session", "--parser", "quic-connections")["sessions"]

    eventually(lambda: found() and found()[0]["forward_packets"] == 120, lambda: str(found()))
    assert [(one["key"], one["phase"]) for one in found()] == [(f"connection {connection.hex()}", "established")]
    said = daemon.cli("explain", "10.1.0.9:7", "10.2.0.2:443", "udp", "--interface", "a", "--payload", f"40{connection.hex()}").stdout
    assert f"quic-connections: connection {connection.hex()}" in said, said
    assert "first-packets" in said, said
    listed = {service["name"]: service["scopes"] for service in daemon.json("show", "service")["services"]}
    assert listed["first-packets"] == ["quic"]
    assert listed["nat"] == ["default"] and listed["l4-lifecycle"] == ["default", "quic"]
    # Each scope's services are refused in the other one, by name.
    for wrong, words in (
        (quic.replace("first-packets", "nat"), ("nat", "of scope default", "first-packets")),
        (quic.replace('scope = "quic"\n', ""), ("first-packets", "of scope quic", "amplification-guard")),
        (quic.replace('scope = "quic"', 'scope = "quick"'), ("no scope", "default, quic")),
        (quic.replace("first-packets", "tcp-check"), ("tcp-check", "needs addresses and ports", "quic-connections")),
    ):
        done = daemon.cli("apply", "-f", "-", stdin=wrong, check=False)
        assert done.returncode != 0 and all(word in done.stdout + done.stderr for word in words), done.stdout + done.stderr


def test_configuration_knows_it_by_name(two):
    daemon, *_ = two
    assert daemon.json("show", "tenant", "red")["tenants"][0]["forward_services"] == ["l4-lifecycle", "amplification-guard"]
    wrong = '[[tenant]]\nname = "blue"\nforward_services = ["amplification-gard"]\n'
    done = daemon.cli("apply", "-f", "-", stdin=wrong, check=False)
    assert done.returncode != 0 and "amplification-guard" in done.stdout + done.stderr, done.stdout + done.stderr
