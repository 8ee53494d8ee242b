"""Captures that nobody reads: their memory has a limit, each has a share, and all of it is returned."""

import contextlib
import pathlib
import re
import signal

import pytest
from lab import eventually
from lab.process import Process, tool
from lab.raw_grpc import Crowd
from test_order import HOLE, generator

MIB = 1 << 20


def resident(daemon):
    """Bytes of memory that quiverd has."""
    status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10


def missed(daemon, capture):
    return re.search(r"(\d+) missed", capture.output())


@pytest.fixture
def flood(own_daemon):
    """A daemon whose captures may have 64 MiB, with large packets at full speed."""

    def make(limit=64):
        daemon = own_daemon(extra=f"[memory]\ncaptures_mib = {limit}\n").start()
        daemon.apply(generator("gen", 20, rate=200_000, frame_sizes="[1500]") + HOLE)
        eventually(lambda: daemon.counter("gen", "rx_packets") > 100_000, "packets flow")
        return daemon

    return make


@contextlib.contextmanager
def unread(daemon, count):
    """Captures of clients that stand still."""
    with contextlib.ExitStack() as stack:
        for at in range(count):
            words = ("--socket", daemon.socket, "pcap", "start", "--rx", "--tx", "--write", "/dev/null")
            capture = stack.enter_context(Process(tool("quiver"), *words))
            eventually(lambda at=at: threads(daemon).count("capture") > at, lambda capture=capture: f"it begins\n{capture.output()}")
            capture.signal(signal.SIGSTOP)
            stack.callback(capture.signal, signal.SIGKILL)
        yield


def threads(daemon):
    """Names of quiverd's threads."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task")
    names = []
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):
            names.append((task / "comm").read_text().strip())
    return names


def passed(daemon, packets):
    """Waits until so many more packets have passed."""
    before = daemon.counter("hole", "tx_packets")
    eventually(lambda: daemon.counter("hole", "tx_packets") >= before + packets, "packets pass", timeout=120)


@pytest.mark.parametrize("limit", [64, 256])
def test_unread_captures_have_a_limit_and_return_all_memory(flood, limit):
    daemon = flood(limit)
    before = resident(daemon)
    for _ in range(2):
        with unread(daemon, 16):
            eventually(lambda: threads(daemon).count("capture") == 16, lambda: threads(daemon))
            # More than fits, several times.
            passed(daemon, 4 * limit * MIB // 1500)
            most = resident(daemon) - before
            assert limit // 2 * MIB < most < (limit + 48) * MIB, most / MIB
        eventually(lambda: threads(daemon).count("capture") == 0, "they have ended")
        # Beside the captures' memory, the first ones have pages of the program and of the allocator brought in.
        eventually(lambda: resident(daemon) - before < 48 * MIB, lambda: (resident(daemon) - before) / MIB)


def test_a_new_capture_has_a_share_beside_unread_ones(flood, tmp_path):
    daemon = flood()
    with unread(daemon, 8):
        passed(daemon, 300_000)
        file = tmp_path / "few.pcapng"
        with Process(tool("quiver"), "--socket", daemon.socket, "pcap", "start", "--rx", "-c", 2000, "--write", file) as capture:
            assert "2000 packets" in capture.finish()


def test_what_does_not_fit_is_counted(flood):
    daemon = flood()
    words = ("--socket", daemon.socket, "pcap", "start", "--rx", "--write", "/dev/null")
    with Process(tool("quiver"), *words) as capture:
        eventually(lambda: threads(daemon).count("capture") == 1, "it begins")
        capture.signal(signal.SIGSTOP)
        passed(daemon, 200_000)
        capture.signal(signal.SIGCONT)
        passed(daemon, 10_000)
        capture.signal(signal.SIGINT)
        text = capture.finish()
    assert int(re.search(r"(\d+) missed", text)[1]) > 50_000, text


def test_captures_are_limited_in_number(own_daemon):
    daemon = own_daemon().start()
    with Crowd(daemon.socket, 4, 1, calls=16, method="Capture"):
        eventually(lambda: threads(daemon).count("capture") == 64, lambda: threads(daemon))
        done = daemon.cli("pcap", "start", "--write", "/dev/null", check=False)
        assert done.returncode != 0 and "64 captures run already" in done.stderr, done.stderr
        daemon.cli("get")
    eventually(lambda: threads(daemon).count("capture") == 0, "they have ended")
    daemon.cli("pcap", "start", "--write", "/dev/null", "--duration", "100ms")


def test_unread_watches_of_sessions_have_a_limit_and_return_their_memory(own_daemon):
    daemon = own_daemon().start()
    before = resident(daemon)
    with Crowd(daemon.socket, 2, 1, calls=8, method="SessionEvents"):
        eventually(lambda: threads(daemon).count("session events") == 16, lambda: threads(daemon))
        done = daemon.cli("watch", "session", "--duration", "1s", check=False)
        assert done.returncode != 0 and "look at session events already" in done.stderr, done.stderr
        assert resident(daemon) - before < 96 * MIB
    eventually(lambda: threads(daemon).count("session events") == 0, "they have ended")
    eventually(lambda: resident(daemon) - before < 16 * MIB, lambda: (resident(daemon) - before) / MIB)
