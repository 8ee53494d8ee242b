"""Two workers, one of which stands still for good: it is named, the other goes on, and quiverd is started anew where that helps."""

import signal

import pytest
from lab import eventually
from lab.laboratory import Laboratory
from lab.looping import POSSIBLE, loop
from lab.thread import stopped

needs_x86 = pytest.mark.skipif(not POSSIBLE, reason="a thread is made to loop by x86-64's registers")
# A machine that is busy gives the thread half of this in a multiple of it.
LONG = 120.0


@pytest.fixture
def lab_of(own_daemon):
    """A daemon of two workers with such settings, and pods around it."""
    laboratories = []

    def make(extra):
        laboratories.append(Laboratory(own_daemon(workers=2, extra=extra).start()))
        return laboratories[-1]

    yield make
    for laboratory in laboratories:
        laboratory.close()


def three(lab):
    """Pods a, b and c: a and c are worker 0's, b is worker 1's, which polls."""
    pods = [lab.pod(role) for role in "abc"]
    for number, (name, pod) in enumerate(zip("abc", pods, strict=True), 1):
        lab.daemon.apply(lab.tap(name, pod, f"10.{number}.0", *(['rx_mode = "polling"'] if name == "b" else [])))
    assert [lab.daemon.workers_of(name) for name in "abc"] == [[0], [1], [0]]
    pods[0].must_ping("10.2.0.2")
    pods[0].must_ping("10.3.0.2")
    return pods


def health(daemon):
    """Status and words of /healthz."""
    status, _, words = daemon.fetch("/healthz")
    return status, words


def standstill(daemon):
    """What is said of worker 1, once it has been noticed."""
    said = lambda: daemon.show("runtime")["workers"][1].get("standstill", "")
    return eventually(said, lambda: daemon.log()[-2000:], timeout=LONG)


@needs_x86
def test_a_worker_that_loops_is_named_and_the_other_goes_on(lab_of):
    lab = lab_of("stuck_seconds = 2\nrestart_seconds = 0\n")
    a, _, _ = three(lab)
    daemon = lab.daemon
    assert health(daemon) == (200, "ok\n")
    loop(daemon.process.pid, "worker-1")
    eventually(lambda: "its round has no end" in standstill(daemon), lambda: standstill(daemon), timeout=LONG)
    a.must_ping("10.3.0.2", count=20)
    assert a.ping("10.2.0.2", count=2, wait=1).received == 0
    text = daemon.cli("show", "runtime").stdout
    assert "worker 1 (core " in text and "): STUCK\n  stands still for " in text, text
    assert "worker 0" in text and text.count("STUCK") == 1, text
    # That it loops has to be seen for a while.
    _, words = eventually(lambda: said if (said := health(daemon))[0] == 503 else None, lambda: health(daemon), timeout=LONG)
    assert words.startswith("worker 1 stands still for "), words
    metrics = daemon.scrape()[1]
    assert 'quiver_worker_stuck_total{worker="1"} 1' in metrics and 'quiver_worker_stuck_seconds{worker="0"} 0' in metrics, metrics
    assert "worker 1 has stood still for" in daemon.log() and "workers.restart_seconds is 0" in daemon.log(), daemon.log()
    assert daemon.process.alive()
    # Its worker isn't waited for in vain.
    daemon.process.signal(signal.SIGTERM)
    assert daemon.process.wait() == -signal.SIGABRT
    assert "worker 1 doesn't stop, " in daemon.log(), daemon.log()[-2000:]
    daemon._keep()


@needs_x86
def test_quiverd_ends_for_a_worker_that_loops_and_all_is_there_again(lab_of):
    lab = lab_of("stuck_seconds = 2\nrestart_seconds = 4\n")
    a, _, c = three(lab)
    daemon = lab.daemon
    before = daemon.cli("get", "-o", "toml").stdout
    with a.start("ping", "-n", "-i", 0.05, "10.3.0.2"):
        loop(daemon.process.pid, "worker-1")
        assert daemon.process.wait() == -signal.SIGABRT
    assert "quiverd ends, as after a panic: worker 1 has stood still for" in daemon.log(), daemon.log()[-2000:]
    daemon._keep()
    # As the service manager does.
    daemon.start()
    assert daemon.cli("get", "-o", "toml").stdout == before
    eventually(lambda: set(daemon.states().values()) == {"applied"}, lambda: f"{daemon.states()}")
    for address in ("10.2.0.2", "10.3.0.2"):
        a.must_ping(address)
    c.must_ping("10.2.0.2")
    assert health(daemon) == (200, "ok\n")


def test_quiverd_does_not_end_for_a_worker_that_is_held(lab_of):
    """A debugger, for instance: what it looks at stays."""
    lab = lab_of("stuck_seconds = 2\nrestart_seconds = 3\n")
    a, _, _ = three(lab)
    daemon = lab.daemon
    with stopped(daemon.process.pid, "worker-1"):
        seconds = lambda: daemon.show("runtime")["workers"][1].get("stuck_seconds", 0)
        eventually(lambda: seconds() > 5, lambda: f"{seconds()}", timeout=LONG)
        assert standstill(daemon).endswith("it is held, as a debugger does")
        status, words = health(daemon)
        assert status == 200 and words.startswith("a restart would not help: worker 1 stands still for "), words
        a.must_ping("10.3.0.2", count=20)
    eventually(lambda: seconds() == 0, "it goes on")
    a.must_ping("10.2.0.2", count=20)
    assert "worker 1 goes on, after" in daemon.log()
