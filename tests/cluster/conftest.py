"""Fixture: a cluster. The laboratory is that of tests/system."""

import os
import pathlib
import signal
import sys
import tempfile

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "system")]

from testbed import Cluster, dns, peers  # noqa: E402 (found by the line above)
from workload import begins  # noqa: E402


def pytest_collection_modifyitems(items):
    """Who uninstalls comes last. Without root there are no namespaces."""
    items.sort(key=lambda item: item.name.startswith("test_uninstalling"))
    if os.geteuid() != 0:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="namespaces need root"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failure shows the ends of all logs."""
    report = (yield).get_result()
    cluster = item.funcargs.get("cluster")
    if report.failed and cluster:
        report.sections.append(("logs of the nodes", cluster.logs()))


TOLD = []


@pytest.fixture
def told():
    """Says a figure that isn't judged."""
    return TOLD.append


def pytest_terminal_summary(terminalreporter):
    """What was told stands at the end."""
    for line in TOLD:
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def begun(request):
    """A test on the cluster begins when pods of those before have gone, and not where a node is broken: that one is named."""
    if "cluster" in request.fixturenames:
        begins(request.getfixturevalue("cluster"))


@pytest.fixture(scope="session")
def cluster():
    """Two nodes with Quiver, for all tests: they leave no pods behind."""
    # Whoever ends the tests means the nodes, too: without this their namespaces and processes would stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="qk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(directory, peers.pack, dns.pack)
        try:
            yield cluster.start()
        finally:
            cluster.stop()
