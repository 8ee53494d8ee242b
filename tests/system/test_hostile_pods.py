"""Pods as a quiverd sees them that is in a pod of its own, as the chart has it: no process of theirs, so that it tells them by network."""

import contextlib
import os
import pathlib
import sys

import pytest
from lab import Laboratory, Pod, Process, eventually
from lab.process import ROOT

TESTS = pathlib.Path(__file__).parent
CONNECT = """
import sys
from lab.raw_memif import RawMemif
peer = RawMemif(chr(0) + sys.argv[1]).connect()
print("up", flush=True)
sys.stdin.read()
"""
SILENT = """
import socket, sys
kept = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
for one in kept:
    one.connect(chr(0) + sys.argv[1])
print("up", flush=True)
sys.stdin.read()
"""
KEPT_OUT = "descriptors sent before are not closed yet"


@pytest.fixture
def pods(own_daemon):
    """A quiverd that sees its own processes only, two pods, and the name of an abstract socket in the network of each, of a memif."""
    with contextlib.ExitStack() as stack:
        made = {name: Pod(name) for name in ("bad", "good")}
        for pod in made.values():
            stack.callback(pod.remove)
        # When their namespaces are there: later mounts don't come to it.
        daemon = own_daemon(inside=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")).start()
        lab, socket = Laboratory(daemon), f"quiver-pods-{os.getpid()}"
        for number, (name, pod) in enumerate(made.items(), 66):
            place = f'"@{socket}", netns = "{pod.name}"'
            daemon.apply(lab.memif(name, number).replace(f'"{lab.directory}/{name}"', place))
        yield daemon, made, socket


@contextlib.contextmanager
def within(pod, *command):
    """A Python program in a pod, whose input ends with this."""
    theirs, ours = os.pipe()
    try:
        words = ("ip", "netns", "exec", pod.name, "env", f"PYTHONPATH={TESTS}", sys.executable, *command)
        with Process(*words, stdin=theirs) as process:
            yield process
    finally:
        os.close(theirs)
        os.close(ours)


def test_what_processes_of_a_pod_hang_is_the_pods(pods):
    """Each sends sixteen descriptors. On an account of his own none would come to his share of 64, and together they would to quiverd's."""
    daemon, made, socket = pods
    with contextlib.ExitStack() as stack:
        told = []
        while not told or KEPT_OUT not in told[-1]:
            assert len(told) < 8, told
            process = stack.enter_context(within(made["bad"], ROOT / "tests/system/lab/unclosable.py", socket))
            told.append(eventually(lambda: "told" in process.output() and process.output(), process.output))  # noqa: B023 (called at once)
        # Until then each was refused for what it sent: four, and perhaps the first, whose own close may have been the last one.
        assert 5 <= len(told) <= 6, told
        assert all("16 file descriptors with ADD_REGION" in words for words in told[:-1]), told
        [refused] = daemon.show("memif")["sockets"]
        assert {"reason": "hanging-descriptors", "count": 1} in [one | {"count": int(one["count"])} for one in refused["refusals"]], refused
        good = stack.enter_context(within(made["good"], "-c", CONNECT, socket))
        eventually(lambda: daemon.memif("good").get("connected"), lambda: f"the other pod connects\n{good.output()}\n{daemon.log()}")


def test_handshakes_of_a_pod_keep_no_other_pod_out(pods):
    """As many as there may be, of processes that say nothing."""
    daemon, made, socket = pods
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(within(made["bad"], "-c", SILENT, socket)) for _ in range(2)]
        eventually(lambda: all("up" in one.output() for one in crowd), "they have connected")
        good = stack.enter_context(within(made["good"], "-c", CONNECT, socket))
        eventually(lambda: daemon.memif("good").get("connected"), lambda: f"the other pod connects\n{good.output()}\n{daemon.log()}")
        # Nobody sees whose they are but by user and group.
        shown = eventually(lambda: [one for one in daemon.show("memif")["sockets"] if one.get("refusals")], "some of the crowd are ended")
        assert all(not one["last_refused"]["peer"].get("pid") for one in shown), shown
