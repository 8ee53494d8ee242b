"""The helper that brings up a Kubernetes cluster of two nodes on this machine with pods on it (``tests/cluster/paths.py``).

It is a program of its own, run by the system's Python, which has what the tests of clusters need. A cluster takes most of a minute to come
up, so that it stays for all trials of a run.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_bench.devices.revision import ROOT
from quiver_bench.errors import Missing, TrialVoid

HELPER = ROOT / "tests" / "cluster" / "paths.py"

#: Programs besides those of Quiver, and where they come from.
NEEDED = ("containerd", "runc", "busybox", "nft", "openssl")

#: Where the system keeps names of networks.
NAMES = Path("/run/netns")

#: Seconds within which it must be there, and be gone, before it is ended and then killed: far more than it takes, also on a busy machine.
UP_WITHIN_S = 600.0
DOWN_WITHIN_S = 120.0


@dataclass(frozen=True)
class Pod:
    """A pod: the name of its network, and its addresses."""

    netns: str
    addresses: list[str]


@dataclass(frozen=True)
class Told:
    """What the helper says when all is there."""

    pods: dict[str, Pod]
    #: Addresses of Services, by name.
    services: dict[str, list[str]]
    #: Processes of the dataplanes.
    pids: list[int]


def read(line: str) -> Told:
    """What a line of the helper says. Raises :class:`TrialVoid` for anything else."""
    try:
        found = json.loads(line)
        pods = {name: Pod(pod["netns"], pod["addresses"]) for name, pod in found["pods"].items()}
        return Told(pods, found["services"], found["pids"])
    except (ValueError, KeyError, TypeError) as error:
        raise TrialVoid(f"the cluster's helper said what nobody understands: {line[:200]!r}") from error


def require() -> None:
    """Raises :class:`Missing` where a cluster can't come up here."""
    if os.geteuid() != 0:
        raise Missing("clusters need root, for their nodes' namespaces: sudo -E bin/quiver-bench …")
    for program in NEEDED:
        if not shutil.which(program):
            raise Missing(f"clusters need {program}, which is missing: scripts/setup.sh cluster")
    built = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "cluster" / "k8sbox"
    if not built.exists():
        raise Missing(f"{built} is missing: scripts/cluster.sh build")


def kubernetes() -> str:
    """The version of Kubernetes that clusters are of."""
    module = (ROOT / "tests" / "cluster" / "k8sbox" / "go.mod").read_text()
    found = re.search(r"^\tk8s\.io/kubernetes (v[\d.]+)$", module, re.MULTILINE)
    return found[1] if found else "unknown"


class Cluster:
    """A cluster that is up, until the program ends."""

    def __init__(self, network: str, workers: tuple[int, ...], binaries: Path) -> None:
        self.network = network
        # There may be several of one network, with other workers or programs: names of their pods' networks are each's own.
        self.prefix = f"qb{os.getpid()}-{network}-{next(_numbers)}"
        # (One that had our number and was killed may have left some.)
        self._forget_names()
        self._log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the program runs
        command = ["/usr/bin/python3", HELPER, "--network", network, "--prefix", self.prefix]
        # The end of its input tells it to take all down, however we end; of Ctrl-C it hears by that, too.
        self._process = subprocess.Popen(
            [*map(str, command), "--workers", ",".join(map(str, workers))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env={**os.environ, "QUIVER_BIN": str(binaries)},
        )
        try:
            self.told = self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> Told:
        """Waits until all is there."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], UP_WITHIN_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise TrialVoid(f"the cluster with {self.network} did not come up", self.log())
        return read(line)

    def alive(self) -> bool:
        """Whether it is still there."""
        return self._process.poll() is None

    def log(self) -> str:
        """What the helper said last."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace")[-8000:]

    def stop(self) -> None:
        """Takes it down: as it asks to be first, then with more and more force. What it leaves of names goes."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        for force in (self._process.terminate, self._kill):
            try:
                self._process.wait(DOWN_WITHIN_S)
                break
            except subprocess.TimeoutExpired:
                force()
        # (Nobody outlives a kill.)
        self._process.wait()
        self._forget_names()

    def _kill(self) -> None:
        """Ends the helper and all of its session: it doesn't listen any more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _forget_names(self) -> None:
        """Deletes what a helper that was killed has left of the pods' networks: their names, by which they stay."""
        for left in NAMES.glob(f"{self.prefix}-*"):
            subprocess.run(["ip", "netns", "del", left.name], check=False, capture_output=True)


#: Numbers of clusters of this run.
_numbers = itertools.count()

_up: dict[tuple[Any, ...], Cluster] = {}


def cluster(network: str, workers: tuple[int, ...], binaries: Path) -> Cluster:
    """The one with this network: brought up for the first who asks, and again where it has ended."""
    key = (network, workers, binaries)
    if key in _up and not _up[key].alive():
        # It may have left names.
        _up.pop(key).stop()
    if key not in _up:
        _up[key] = Cluster(*key)
    return _up[key]


@atexit.register
def stop_all() -> None:
    """Takes all down, the last first: each sets back what it found of the machine."""
    while _up:
        _, last = _up.popitem()
        last.stop()
