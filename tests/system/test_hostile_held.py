"""A memif client that holds the file of its region: quiverd can't map it, nor end; nobody else waits, and the operator sees who it is."""

import contextlib
import os
import signal
import struct
import subprocess
import sys

import pytest
from lab import Daemon, Laboratory, eventually
from lab.process import ROOT, Process
from lab.raw_memif import ADD_REGION, INIT

HOLDER = ROOT / "crates/memif/tests/hostile_closes/holder.py"
REGION = 1 << 20


@contextlib.contextmanager
def holding(name):
    """A process that holds the file of the region that it announces at this abstract socket, until this ends."""
    init = struct.pack("<HHIB24s32s", INIT, 0x0200, 0, 0, b"", b"holder").ljust(128, b"\0")
    region = struct.pack("<HHQ", ADD_REGION, 0, REGION).ljust(128, b"\0")
    with Process(sys.executable, HOLDER, name, init.hex(), region.hex()) as holder:
        eventually(holder.output, "it says something")
        if "userfaultfd" in holder.output() and not os.environ.get("QUIVER_REQUIRE_ROOT"):
            pytest.skip(holder.output())
        assert holder.output().startswith("held\n"), holder.output()
        yield holder


def abstract(lab, name, number):
    """A memif with an abstract socket, and that socket's name."""
    socket = f"quiver-held-{os.getpid()}-{name}"
    return lab.memif(name, number).replace(f'"{lab.directory}/{name}"', f'"@{socket}"'), socket


def held(daemon, name):
    return daemon.memif(name).get("held_regions", [])


def gauge(daemon, name):
    """The metric's line of an interface."""
    (line,) = [line for line in daemon.scrape()[1].splitlines() if line.startswith(f'quiver_memif_held_regions{{interface="{name}"}}')]
    return line


def test_a_region_whose_file_is_held_is_shown(lab, daemon, bystanders):
    objects, socket = abstract(lab, "pod", 67)
    daemon.apply(objects)
    assert not held(daemon, "pod") and gauge(daemon, "pod").endswith(" 0")
    with holding(socket) as holder:
        (region,) = eventually(lambda: held(daemon, "pod"), "it is shown")
        assert region["peer_pid"] == holder.pid and int(region["since_ns"]) > 0
        text = daemon.cli("show", "memif", "pod").stdout
        assert f"held         the file of a region of process {holder.pid} since " in text, text
        assert gauge(daemon, "pod").endswith(" 1") and gauge(daemon, "m12").endswith(" 0")
        assert "# HELP quiver_memif_held_regions " in daemon.scrape()[1]
        eventually(lambda: "told handshake timed out" in holder.output(), holder.output)
        # As long as the file is held, the handshake being over or not.
        assert held(daemon, "pod") == [region]
    eventually(lambda: not held(daemon, "pod"), "it is let go")
    assert gauge(daemon, "pod").endswith(" 0")


def no_thread_of(pid):
    """Whether nothing runs any more of a process that has ended."""
    return "Z" in subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout


@pytest.fixture
def world(own_daemon):
    """A quiverd of the test's own, with a pod whose memif is at an abstract socket, and that socket's name."""
    lab = Laboratory(own_daemon().start())
    objects, socket = abstract(lab, "pod", 67)
    lab.daemon.apply(objects + lab.memif("m12", 12) + lab.memif("m13", 13) + lab.tap("a", lab.pod("a"), "10.1.0"))
    yield lab, socket
    lab.close()


@pytest.mark.parametrize("impatient", [False, True], ids=["stopped", "killed-afterwards"])
def test_a_successor_serves_while_the_file_is_held(world, impatient):
    """quiverd is told to end, says who keeps it, and can't; another one takes its place, with the same files, sockets and taps."""
    lab, socket = world
    old = lab.daemon
    with holding(socket) as holder:
        eventually(lambda: held(old, "pod"), "it is shown")
        old.process.signal(signal.SIGTERM)
        lines = eventually(lambda: [line for line in old.log().splitlines() if "can't end before" in line], old.log)
        assert len(lines) == 1 and "ERROR" in lines[0] and f'regions="pod of process {holder.pid}"' in lines[0], lines
        if impatient:
            old.process.signal(signal.SIGKILL)
        eventually(lambda: no_thread_of(old.process.pid), "it has ended as far as it can")
        assert old.process.alive(), "it could end"
        new = Daemon(old.directory).start()
        try:
            eventually(lambda: set(new.states().values()) == {"applied"}, lambda: f"{new.states()}\n{new.log()}")
            Laboratory(new).lossless("m12", "m13", 12, 13, count=500)
            lab.pods[0].must_ping("10.1.0.1")
            with holding(socket):
                eventually(lambda: held(new, "pod"), "the socket is the new one's")
        finally:
            new.stop()
    old.process.wait()


def test_a_successor_of_one_that_was_killed_says_why_it_cannot_serve(world):
    """Killed without a warning it leaves all open that it had, for the thread that waits has that as well."""
    lab, socket = world
    old = lab.daemon
    with holding(socket):
        eventually(lambda: held(old, "pod"), "it is shown")
        old.process.signal(signal.SIGKILL)
        eventually(lambda: no_thread_of(old.process.pid), "it has ended as far as it can")
        with Process(old.program, "--config", old.settings) as new:
            assert new.wait() != 0
            assert f"the state directory {old.state} is in use by another quiverd" in new.output(), new.output()
    old.kill()
    old.start()
    assert set(old.states().values()) == {"applied"}
