"""A memif peer that makes its eventfds cost whoever signals them loses its own link, and no worker waits."""

import contextlib
import os
import threading
import time

import pytest
from lab import eventually, watchers
from lab.raw_memif import RawMemif, Refused

COST = "signals cost too much"


def faults(lab):
    """How often links of "bad" were ended by its peers' fault, by reason."""
    return {fault["reason"]: int(fault["count"]) for fault in lab.daemon.memif("bad").get("fault_reasons", [])}


def refusals(lab):
    """How often peers of "bad" were turned away, by reason."""
    return {refused["reason"]: int(refused["count"]) for refused in lab.daemon.memif("bad").get("refusals", [])}


def longest_round(lab):
    """Seconds of the longest round of any worker."""
    return max(worker.get("longest_round_microseconds", 0) for worker in lab.daemon.show("runtime")["workers"]) / 1e6


@pytest.fixture
def canary(lab):
    """A pod that pings Quiver all the while, and two memifs that packets flow between."""
    pod = lab.pod("canary")
    lab.daemon.apply(lab.tap("canary", pod, "10.1.0") + lab.memif("m12", 12) + lab.memif("m13", 13) + lab.memif("bad", 66))
    lab.daemon.cli("clear", "counters")
    with pod.pinging("10.1.0.1"), lab.generator("m12", "m13", 12, 13, "--rate", 20000, "--count", 200_000) as generator:
        yield pod
        lab.lossless_end(generator, 200_000)


@contextlib.contextmanager
def sent_to(pod):
    """Packets to the peer of "bad" all the while."""
    with pod.start("ping", "-n", "-q", "-i", "0.002", "10.66.0.2"):
        yield


def hostile(lab):
    """A connected peer of "bad" that asks for an interrupt with each packet."""
    peer = RawMemif(str(lab.directory / "bad")).connect()
    peer.post_empty(peer.size - 1)
    return peer


@pytest.mark.parametrize("hang", [lambda fd: watchers.flat(fd, 100_000), watchers.nested], ids=["flat", "nested"])
def test_a_costly_signal_ends_the_link_and_delays_no_worker(lab, canary, hang):
    with hostile(lab) as peer, hang(peer.events[1]):
        cost = watchers.cost(peer.events[1])
        with sent_to(canary):
            words = peer.end()
        assert COST in words and "try again in 1 s" in words, words
        eventually(lambda: faults(lab) == {"signal-cost": 1}, lambda: faults(lab))
        shown = lab.daemon.memif("bad")
        assert COST in shown["last_disconnect"] and not shown.get("connected"), shown
        # Else this shows nothing.
        assert cost > 0.004, cost
        assert longest_round(lab) < max(cost, 0.1) / 2, (longest_round(lab), cost)


def test_a_peer_that_was_too_costly_is_kept_out_for_a_while_and_longer_each_time(lab, canary):
    for seconds in (1, 2):
        with hostile(lab) as peer, watchers.flat(peer.events[1], 100_000), sent_to(canary):
            assert f"try again in {seconds} s" in peer.end()
        with pytest.raises(Refused, match=f"{COST} before: try again in {seconds} s"), RawMemif(str(lab.directory / "bad")) as again:
            again.init()
        assert refusals(lab)["signal-cost-excluded"] >= 1, refusals(lab)
        eventually(lambda: comes_in(lab), "whoever behaves is let in again")
    assert faults(lab) == {"signal-cost": 2}


def comes_in(lab):
    """Whether a peer that behaves is let in."""
    try:
        with RawMemif(str(lab.directory / "bad")).connect():
            return True
    except Refused:
        return False


def test_a_peer_that_makes_its_own_signals_costly_loses_nothing_but_time(lab, canary):
    """What waits for the eventfd by which the peer wakes us, is called as the peer writes to it: by itself. We never touch it."""
    with hostile(lab) as peer, watchers.flat(peer.events[0], 100_000):
        until = time.monotonic() + 3
        while time.monotonic() < until:
            os.eventfd_write(peer.events[0], 1)
        assert lab.daemon.memif("bad")["connected"]
        assert longest_round(lab) < 0.5, longest_round(lab)


def test_a_costly_control_socket_delays_no_other_peer(lab, canary):
    """Each message of quiverd's calls all that waits for the peer's end of the socket. Another peer connects meanwhile, again and again."""
    bad = RawMemif(str(lab.directory / "bad"))
    with bad, watchers.flat(bad.socket.fileno(), 100_000):
        with pytest.raises(Refused, match=COST):
            bad.connect()
        assert not lab.daemon.memif("bad").get("connected")
    assert refusals(lab)["signal-cost"] == 1, refusals(lab)
    lab.daemon.apply(lab.memif("good", 67))
    ends = threading.Event()
    thread = threading.Thread(target=_come_again, args=(lab, ends))
    thread.start()
    try:
        for _ in range(20):
            with RawMemif(str(lab.directory / "good")).connect():
                eventually(lambda: lab.daemon.memif("good").get("connected"), "the other peer is connected")
    finally:
        ends.set()
        thread.join()
    assert longest_round(lab) < 0.05, longest_round(lab)


def _come_again(lab, ends):
    """A peer whose socket is costly connects all the time, and goes as soon as it was told something."""
    while not ends.is_set():
        peer = RawMemif(str(lab.directory / "bad"))
        with contextlib.suppress(Refused, OSError), peer, watchers.flat(peer.socket.fileno(), 40_000):
            peer.init()


def test_a_flood_of_signals_wakes_no_worker(lab):
    """A worker that sleeps goes on sleeping, as long as nothing is in the ring."""
    lab.daemon.apply(lab.memif("bad", 66))
    with RawMemif(str(lab.directory / "bad")).connect() as peer:
        eventually(lambda: lab.daemon.memif("bad").get("connected"), "the peer is connected")
        ends = threading.Event()

        def flood():
            while not ends.is_set():
                os.eventfd_write(peer.events[0], 1)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            time.sleep(0.5)
            before = sum(int(worker.get("sleeps", 0)) for worker in lab.daemon.show("runtime")["workers"])
            time.sleep(2)
            after = sum(int(worker.get("sleeps", 0)) for worker in lab.daemon.show("runtime")["workers"])
        finally:
            ends.set()
            thread.join()
        # It wakes ten times a second by itself, and for whoever asks it.
        assert after - before < 500, (before, after)
