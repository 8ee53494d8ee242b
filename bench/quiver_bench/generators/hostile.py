"""A canary, alone or beside an attack. Both are programs of ``tests/attacks``, which the system tests use as well.

They run on the generator's core. Canaries go before everything else there, and take arrival times from the kernel, so that what they
show is the device's and not for want of a processor.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from quiver_bench.errors import Missing, TrialVoid, Unsupported
from quiver_bench.generators.base import Endpoint, Generator, Latency, Load, TrialOutput
from quiver_bench.machine import Cores
from quiver_bench.suites import Suite, hostile
from quiver_bench.suites.traffic import DEVICE_LEFT_MAC, LEFT4, PEER_LEFT_MAC, RIGHT4, Traffic

#: The checkout, and where the programs' sources are in it.
ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "tests" / "attacks"
PROGRAMS = ROOT / "target" / "attacks"

#: Seconds in which a program must be set up, and in which it must end: thousands of packet sockets take their time.
READY_WITHIN_S = ENDED_WITHIN_S = 120.0

#: Who attacks: nobody, with no capability but that for packet sockets, which pods have by default.
_UNPRIVILEGED = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"),
    *(f"--{kind}=-all,+net_raw" for kind in ("bounding-set", "inh-caps", "ambient-caps")),
)


class Hostile(Generator):
    """Canary and attack of a suite."""

    def __init__(self, suite: Suite) -> None:
        for program in ("make", "cc", "chrt", "setpriv"):
            if not shutil.which(program):
                raise Missing(f"{program} is missing, for attack programs: apt-get install build-essential util-linux")
        if os.geteuid() != 0:
            raise Missing("hostile suites need root: sudo -E bin/quiver-bench …")
        self.attack = hostile.attack_of(suite.case)
        self.bridged = suite.case.forwarding == "l2bd"
        self.fresh = 0

    def version(self) -> str:
        """Name and what it is part of."""
        return "canary of tests/attacks"

    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Namespaces with addresses on both sides, or memif sockets."""
        wanted = "netns" if self.attack.port == "tap" else "memif"
        if any(endpoint.kind != wanted for endpoint in endpoints):
            raise Unsupported(f"{self.attack.name} needs a {wanted} on either side")

    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.base.Generator.measure`."""
        self._build()
        pinned = ("taskset", "--cpu-list", str(cores.generator))
        with contextlib.ExitStack() as stack:
            target = self._target(endpoints)
            for words in attackers(self.attack.name, endpoints, target) if load.attacked else ():
                stack.enter_context(_running(*pinned, *words))
            canary = stack.enter_context(_running(*pinned, "chrt", "--fifo", "50", *self.canary(endpoints, target)))
            started = time.monotonic()
            time.sleep(load.seconds)
            seconds = time.monotonic() - started
            canary.stop()
            return output(canary.last_line(), seconds)

    def canary(self, endpoints: tuple[Endpoint, Endpoint], target: str) -> list[str]:
        """Command line of the canary: echo requests of the pod on the left, or frames from memif to memif."""
        left, right = endpoints
        if self.attack.port == "memif":
            ends = LEFT4.peer, RIGHT4.peer, PEER_LEFT_MAC, DEVICE_LEFT_MAC, str(hostile.MEMIF_PPS)
            return [str(PROGRAMS / "canary_memif"), left.name, right.name, *ends]
        return [*_inside(str(left.netns)), str(PROGRAMS / "canary_ping"), target, str(hostile.PING_PPS)]

    def _target(self, endpoints: tuple[Endpoint, Endpoint]) -> str:
        """Whom the canary pings: the pod on the right, or a neighbor that the device doesn't know yet."""
        if self.attack.name != "strangers":
            return str(endpoints[1].address)
        head, _, last = hostile.FRESH_FIRST.rpartition(".")
        self.fresh += 1
        return f"{head}.{int(last) + self.fresh % hostile.FRESH}"

    def _build(self) -> None:
        done = subprocess.run(
            ["make", "-s", "-C", str(SOURCES), f"OUT={PROGRAMS}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise TrialVoid(f"the attack programs can't be built: {done.stderr.strip()[-300:]}", done.stderr)


class Started:
    """A program of ``tests/attacks`` in the background."""

    def __init__(self, words: tuple[str, ...]) -> None:
        path = next(Path(word) for word in words if Path(word).is_relative_to(PROGRAMS))
        self.name = path.name
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        # By its descriptor: nobody may not be allowed to enter the directory of the checkout.
        command = ["/proc/self/fd/0" if word == str(path) else word for word in words]
        with path.open("rb") as executable:
            self.process = subprocess.Popen(
                command, stdout=self._file, stderr=subprocess.STDOUT, stdin=executable, start_new_session=True
            )
        until = time.monotonic() + READY_WITHIN_S
        while "ready" not in self.output():
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise TrialVoid(f"{self.name} is not ready: {self.output().strip()[-300:]}")
            time.sleep(0.02)

    def output(self) -> str:
        """All it printed so far."""
        return os.pread(self._file.fileno(), 1 << 20, 0).decode(errors="replace")

    def last_line(self) -> str:
        """The last line it printed."""
        return (self.output().splitlines() or [""])[-1]

    def stop(self) -> None:
        """Ends it, and waits for that."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(ENDED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def _running(*words: str) -> Iterator[Started]:
    started = Started(words)
    try:
        yield started
    finally:
        started.stop()


def pod(netns: str, role: str) -> str:
    """Namespace of a pod that attacks, beside that of the left one."""
    return f"{netns.removesuffix('-l')}-{role}"


def _inside(netns: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", netns)


def attackers(name: str, endpoints: tuple[Endpoint, Endpoint], target: str = "") -> list[tuple[str, ...]]:
    """Command lines of an attack, in the order in which they are started; ``target`` is whom the canary pings."""
    left, right = endpoints
    if name == "calm":
        return []
    if name == "eventfds":
        # Each frame from one to the other has the device signal the ring of the latter.
        sockets = [str(Path(left.name).with_name(role)) for role in ("bad", "friend")]
        frames = hostile.DEVICE_MACS[1], hostile.FRIEND.peer, hostile.BAD.peer, "1", hostile.BAD.peer
        return [
            (str(PROGRAMS / "eventfd_waiters"), sockets[0], "tx", "1000", "1", "90000"),
            (str(PROGRAMS / "flood"), sockets[1], "2", "strangers", *frames),
        ]
    bad, friend = (_inside(pod(str(left.netns), role)) for role in ("bad", "friend"))
    flood = (*bad, *_UNPRIVILEGED, str(PROGRAMS / "flood"), "eth0")
    here = hostile.DEVICE_MACS[0], hostile.BAD.peer

    def sent(pps: str) -> tuple[str, ...]:
        return (*friend, *_UNPRIVILEGED, str(PROGRAMS / "send_udp"), hostile.BAD.peer, "4000", pps)

    match name:
        case "filters":
            return [(*bad, *_UNPRIVILEGED, str(PROGRAMS / "packet_filters"), "eth0", "1000"), sent("500")]
        case "waiters":
            words = (str(PROGRAMS / "socket_waiters"), "4000", "1000", "90000")
            return [(*bad, *_UNPRIVILEGED, *words), sent("2")]
        case "nested":
            tunnel = hostile.BAD.device, str(hostile.VNI), hostile.TUNNEL_MAC, "1290"
            return [(*flood, "700", "nested", *here, *tunnel)]
        case "strangers":
            others = [f"10.0.2.{number}" for number in range(3, 253)]
            return [(*flood, "0", "strangers", *here, target, "1", *others)]
        case "macs":
            return [(*flood, "0", "macs", str(1 << 20))]
        case "thief":
            return [(*flood, "1000", "thief", _mac(str(right.netns)))]
        case "superframes":
            return [(*flood, "0", "super", *here, hostile.SINK, "60000")]
    raise Unsupported(f"there is no attack {name}")


def _mac(netns: str) -> str:
    """Ethernet address of a pod's device."""
    shown = subprocess.run(
        ["ip", "-j", "-n", netns, "link", "show", "eth0"], capture_output=True, text=True, check=True
    )
    return str(json.loads(shown.stdout)[0]["address"])


def output(line: str, seconds: float) -> TrialOutput:
    """A trial's output from a canary's report. What found no room at the device is lost, too."""
    try:
        report = json.loads(line)
    except ValueError:
        raise TrialVoid(f"the canary ended without a report: {line[-300:]}") from None
    sent, received = report["sent"] + report["unsent"], report["received"]
    found = {"50": report["p50_ms"] * 1e3, "99.9": report["p99_9_ms"] * 1e3}
    latency = Latency(report["min_ms"] * 1e3, report["mean_ms"] * 1e3, report["max_ms"] * 1e3, found)
    return TrialOutput(
        sent=sent,
        received=received,
        lost=sent - received,
        seconds=seconds,
        rate_pps=received / seconds,
        rate_bps=None,
        longest_stall_s=report["own_late_ms"] / 1e3,
        latency=latency if received else None,
    )
