"""Fixtures: a daemon per module, a laboratory per test. Whatever was made is removed again, also after a failure."""

import os
import signal
import tempfile

import pytest
from lab import Daemon, Laboratory, eventually
from lab.sessions import two  # noqa: F401 (a fixture, for modules that have none of that name)


def pytest_configure(config):
    """What marks mean."""
    config.addinivalue_line("markers", "alone: a flood at full rate, which takes the processor from other tests")


def pytest_collection_modifyitems(items):
    """Without root there are no network namespaces. What is built first comes first: meanwhile other processes test."""
    items.sort(key=lambda item: item.path.name != "test_sample_service.py")
    if os.geteuid() != 0:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="network namespaces need root"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failure shows what the daemon logged, counted and held."""
    report = (yield).get_result()
    daemon = item.funcargs.get("daemon")
    if report.failed and daemon is not None:
        report.sections.append(("quiverd log", daemon.log()[daemon.mark :][-8000:]))
        if daemon.process is not None:
            for words in (("show", "interface"), ("show", "drops"), ("show", "memif")):
                done = daemon.cli(*words, check=False)
                report.sections.append((f"quiver {' '.join(words)}", done.stdout + done.stderr))


@pytest.fixture(scope="module")
def module_daemon(request):
    """The daemon that the tests of a module share; with as many workers as the module's WORKERS says."""
    # Short, for paths of unix sockets must be.
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        daemon = Daemon(directory, workers=getattr(request.module, "WORKERS", None))
        try:
            yield daemon.start()
        finally:
            daemon.stop()


@pytest.fixture
def daemon(module_daemon):
    """The module's daemon, empty; afterwards it must still be well."""
    if module_daemon.process is None:
        module_daemon.start()
    module_daemon.cli("clear", "counters")
    module_daemon.mark = len(module_daemon.log())
    yield module_daemon
    unwell(module_daemon)
    module_daemon.clear()
    module_daemon.cli("trace", "clear")


@pytest.fixture
def lab(daemon):
    """Pods around the module's daemon."""
    laboratory = Laboratory(daemon)
    yield laboratory
    laboratory.close()


@pytest.fixture
def own_daemon():
    """A directory for a daemon of the test's own, which may be restarted, hurt and starved; see `own`."""
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        made = []

        def make(**options):
            made.append(Daemon(directory, **options))
            return made[-1]

        try:
            yield make
        finally:
            for daemon in made:
                daemon.stop()


def unwell(daemon):
    """Fails if the daemon died, panicked, or dropped packets for a reason that only a fault of its own explains."""
    assert daemon.process is not None and daemon.process.alive(), f"quiverd ended:\n{daemon.log()[-4000:]}"
    log = daemon.log()[daemon.mark :]
    assert "panicked" not in log, log[-4000:]
    bugs = [drop for drop in daemon.drops().values() if drop.get("severity") == "bug"]
    assert not bugs, bugs


@pytest.fixture
def bystanders(lab):
    """Traffic between m12 and m13 all through the test, however long it takes, beside the memif "bad"; nothing of it may be lost."""
    lab.daemon.apply(lab.memif("m12", 12) + lab.memif("m13", 13) + lab.memif("bad", 66))
    with lab.generator("m12", "m13", 12, 13, "--rate", 4000, "--seconds", 3600, "--drain", 20) as generator:
        passed = lambda: lab.daemon.counter("m13", "tx_packets")
        eventually(lambda: passed() > 100, lambda: f"packets flow\n{generator.output()}")
        yield
        assert generator.alive(), generator.output()
        after = passed()
        eventually(lambda: passed() > after + 100, lambda: f"packets still flow\n{generator.output()}")
        generator.signal(signal.SIGINT)
        lab.lossless_end(generator)
