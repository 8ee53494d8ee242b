"""Two workers, one of which stands still or sleeps: it holds up nothing that isn't its own."""

import time

from lab import eventually
from lab.thread import stopped

WORKERS = 2


def three(lab, *more):
    """Pods a, b and c behind taps of one queue each: a and c are worker 0's, b is worker 1's."""
    pods = [lab.pod(role) for role in "abc"]
    for number, (name, pod) in enumerate(zip("abc", pods, strict=True), 1):
        lab.daemon.apply(lab.tap(name, pod, f"10.{number}.0", *(more if name == "b" else ())))
    assert [lab.daemon.workers_of(name) for name in "abc"] == [[0], [1], [0]]
    return pods


ROUTE = '[[route]]\nprefix = "10.99.0.0/24"\nnext_hops = [{ address = "10.3.0.2" }]\n'


def test_a_worker_that_stands_still_holds_up_only_its_own(lab, daemon):
    """The other worker forwards; what is changed meanwhile is said not to be in force everywhere, and comes into force later."""
    a, b, c = three(lab, 'rx_mode = "polling"')
    c.ip("address", "add", "10.99.0.1/32", "dev", "lo")
    a.must_ping("10.3.0.2")
    a.must_ping("10.2.0.2")
    with stopped(daemon.process.pid, "worker-1"):
        a.must_ping("10.3.0.2", count=20)
        assert a.ping("10.2.0.2", count=2, wait=1).received == 0
        # Questions are answered, too.
        assert len(daemon.show("runtime")["workers"]) == 2
        assert daemon.scrape()[1]
        # A leaf of the table changes in place; what is published anew waits for every worker.
        daemon.apply(ROUTE)
        status, outcomes, _ = daemon.offer('[[vrf]]\nname = "red"\n')
        assert status == 0
        assert "a worker hasn't taken it" in outcomes["red"]["pending"]["waits_for"][0]["reason"], outcomes
        a.must_ping("10.3.0.2", count=20)
    eventually(lambda: set(daemon.states().values()) == {"applied"}, lambda: f"{daemon.states()}")
    a.must_ping("10.99.0.1")
    b.must_ping("10.99.0.1")
    a.must_ping("10.2.0.2")


def test_a_worker_that_sleeps_holds_up_nothing(lab, daemon):
    """What it sees when it wakes is the newest."""
    a, b, c = three(lab)
    c.ip("address", "add", "10.99.0.1/32", "dev", "lo")
    a.must_ping("10.3.0.2")
    eventually(lambda: not daemon.interface("b")["placement"][0].get("polling"), "b's worker sleeps")
    with stopped(daemon.process.pid, "worker-1"):
        daemon.apply(ROUTE)
        a.must_ping("10.99.0.1")
    b.must_ping("10.99.0.1")


def test_an_interface_deleted_while_its_worker_stands_still(lab, daemon):
    a, b, _ = three(lab, 'rx_mode = "polling"')
    a.must_ping("10.3.0.2")
    with stopped(daemon.process.pid, "worker-1"):
        daemon.cli("delete", "interface", "b")
        a.must_ping("10.3.0.2", count=20)
        assert sorted(daemon.names()) == ["a", "c"]
    eventually(lambda: "eth0" not in b.ip("link").stdout, "its device is gone")
    daemon.apply(lab.tap("b", b, "10.2.0"))
    a.must_ping("10.2.0.2")
    b.must_ping("10.3.0.2")


def longest_rounds(daemon):
    """Seconds of each worker's longest round."""
    return [worker.get("longest_round_microseconds", 0) / 1e6 for worker in daemon.show("runtime")["workers"]]


def test_the_longest_round_is_told_until_counters_are_cleared(lab, daemon):
    """What the kernel takes away counts, and sleep doesn't."""
    a, _, _ = three(lab, 'rx_mode = "polling"')
    daemon.cli("clear", "counters")
    with stopped(daemon.process.pid, "worker-1"):
        time.sleep(1.5)
    first, second = eventually(lambda: (both := longest_rounds(daemon))[1] >= 1.5 and both, lambda: longest_rounds(daemon))
    assert first < 1, "a worker that sleeps most of the time has no long rounds"
    assert "longest round 1" in daemon.cli("show", "runtime").stdout
    metric = 'quiver_worker_longest_round_seconds{worker="1"} '
    told = next(line for line in daemon.scrape()[1].splitlines() if line.startswith(metric))
    assert float(told.removeprefix(metric)) >= second
    daemon.cli("clear", "counters")
    assert max(longest_rounds(daemon)) < 1, longest_rounds(daemon)
    a.must_ping("10.2.0.2", count=20)
    assert 0 < longest_rounds(daemon)[1] < 1, "rounds since are told"
