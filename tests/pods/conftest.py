"""Fixture: a node of a test's own. The laboratory is that of tests/system."""

import os
import pathlib
import sys
import tempfile

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "system")]

from lab import Daemon, Pod  # noqa: E402 (found by the line above)
from lab.process import eventually, run  # noqa: E402 (found by the line above)
from node import RANGES, Node  # noqa: E402 (found by the line above)


def pytest_collection_modifyitems(items):
    """Without root there are no network namespaces."""
    if os.geteuid() != 0:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="network namespaces need root"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failure shows what both daemons logged."""
    report = (yield).get_result()
    node = item.funcargs.get("node") or item.funcargs.get("host_node")
    if report.failed and node is not None and node.agent is not None:
        report.sections += [("quiver-agent log", node.log()[-8000:]), ("quiverd log", node.daemon.log()[-8000:])]


TOLD = []


@pytest.fixture
def told():
    """Says a figure that isn't judged."""
    return TOLD.append


def pytest_terminal_summary(terminalreporter):
    """What was told stands at the end."""
    for line in TOLD:
        terminalreporter.write_line(line)


@pytest.fixture
def node():
    """A node that runs."""
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        node = Node(directory)
        try:
            yield node.start()
            assert node.agent.alive() and "panic" not in node.log(), node.log()
        finally:
            node.close()


def cable(host):
    """Gives a host its network, and the neighbour the other end."""
    neighbour = host.neighbour
    host.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", neighbour.name)
    for pod, number in ((host, 1), (neighbour, 2)):
        pod.ip("link", "set", "eth0", "up")
        pod.ip("address", "add", f"192.168.7.{number}/24", "dev", "eth0")
        pod.ip("address", "add", f"fd00:7::{number}/64", "dev", "eth0", "nodad")
    for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        host.run("sysctl", "-q", "-w", f"{setting}=1")
    for prefix, via in zip(RANGES, ("192.168.7.1", "fd00:7::1"), strict=True):
        neighbour.ip("route", "add", prefix, "via", via)


@pytest.fixture
def boot():
    """Has a host be as after a power cut: its network is new."""

    def again(host):
        host.remove()
        # Of a namespace that goes, the kernel takes devices away a moment later.
        eventually(lambda: "eth0" not in host.neighbour.ip("link").stdout, "the cable is gone")
        run("ip", "netns", "add", host.name)
        host.ip("link", "set", "lo", "up")
        cable(host)

    return again


@pytest.fixture
def host():
    """The host of a node, and its only neighbour in the node's network, which leads there to pods' addresses."""
    pods = host, neighbour = Pod("host"), Pod("neighbour")
    try:
        host.neighbour = neighbour
        cable(host)
        yield host
    finally:
        for pod in pods:
            pod.remove()


@pytest.fixture
def host_node(host):
    """A node that runs in a namespace of its own, through which its pods reach everything else."""
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        node = Node(directory, host=host)
        try:
            yield node.start()
            assert "panic" not in node.log(), node.log()
        finally:
            node.close()


@pytest.fixture
def client_daemon():
    """A second quiverd: to the first it is an application behind a memif."""
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        daemon = Daemon(directory)
        yield daemon
        daemon.stop()
