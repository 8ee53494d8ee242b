"""Fixture: a node of a test's own. The laboratory is that of tests/system."""

import os
import pathlib
import sys
import tempfile

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "system")]

from lab import Daemon  # noqa: E402 (found by the line above)
from node import Node  # noqa: E402 (found by the line above)


def pytest_collection_modifyitems(items):
    """Without root there are no network namespaces."""
    if os.geteuid() != 0:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="network namespaces need root"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failure shows what both daemons logged."""
    report = (yield).get_result()
    node = item.funcargs.get("node")
    if report.failed and node is not None and node.agent is not None:
        report.sections += [("quiver-agent log", node.log()[-8000:]), ("quiverd log", node.daemon.log()[-8000:])]


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


@pytest.fixture
def client_daemon():
    """A second quiverd: to the first it is an application behind a memif."""
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        daemon = Daemon(directory)
        yield daemon
        daemon.stop()
