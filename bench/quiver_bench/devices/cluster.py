"""The helper that brings up a Kubernetes cluster of two nodes on this machine with pods on it (``tests/cluster/paths.py``).

It is a program of its own, run by the system's Python, which has what the tests of clusters need. A cluster takes most of a minute to come
up, so that it stays for all trials of a run.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import shutil
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

#: Seconds within which it must be there, and be gone: far more than it takes, also on a busy machine.
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
        self._log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the program runs
        command = ["/usr/bin/python3", HELPER, "--network", network, "--prefix", f"qb{os.getpid()}-{network}"]
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
        """Takes it down."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(DOWN_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()


_up: dict[tuple[Any, ...], Cluster] = {}


def cluster(network: str, workers: tuple[int, ...], binaries: Path) -> Cluster:
    """The one with this network: brought up for the first who asks, and again where it has ended."""
    key = (network, workers, binaries)
    if key not in _up or not _up[key].alive():
        _up[key] = Cluster(*key)
    return _up[key]


@atexit.register
def stop_all() -> None:
    """Takes all down, the last first: each sets back what it found of the machine."""
    while _up:
        _, last = _up.popitem()
        last.stop()
