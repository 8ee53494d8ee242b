"""What disturbed a trial: time stolen by the host, and time in which the device's threads wanted to run and could not."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

#: What the kernel says of each core.
_STAT = Path("/proc/stat")

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Noise:
    """Over one trial."""

    #: Seconds in which the host gave the device's and the generator's cores to somebody else.
    steal_s: float = 0.0
    #: The same of the core that it took most of.
    worst_steal_s: float = 0.0
    #: Seconds that it was watched: the generator's start and its wait for the last packets, too.
    watched_s: float = 0.0
    #: Seconds in which the device's busiest thread waited for its core. None where it has no threads that could be asked, as the kernel.
    wait_s: float | None = None
    #: How often that thread was put aside against its will.
    preemptions: int | None = None
    #: Load average over a minute, at the end.
    load: float = 0.0
    #: Seconds for which all the device's threads together ran.
    run_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For a result document."""
        return {name: value if value is None else round(value, 6) for name, value in asdict(self).items()}


class Watch:
    """Notes it: ``with Watch(pids, cores) as watch: …``, then ``watch.noise``."""

    def __init__(self, pids: list[int], cores: list[int]) -> None:
        self.pids = pids
        self.cores = cores
        self.noise = Noise()

    def __enter__(self) -> Watch:
        self._steal = _steal(self.cores)
        self._threads = _threads(self.pids)
        self._begun = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.noise.watched_s = time.monotonic() - self._begun
        stolen = [(ticks - self._steal.get(core, 0)) / _TICKS for core, ticks in _steal(self.cores).items()]
        self.noise.steal_s, self.noise.worst_steal_s = sum(stolen), max(stolen, default=0.0)
        after = _threads(self.pids)
        spent = {
            thread: (run - self._threads.get(thread, (0, 0, 0))[0], thread) for thread, (run, _, _) in after.items()
        }
        self.noise.run_s = sum(run for run, _ in spent.values()) / 1e9
        if spent:
            busiest = max(spent.values())[1]
            _, wait, switches = after[busiest]
            _, wait_before, switches_before = self._threads.get(busiest, (0, 0, 0))
            self.noise.wait_s = (wait - wait_before) / 1e9
            self.noise.preemptions = switches - switches_before
        self.noise.load = os.getloadavg()[0]


def _steal(cores: list[int]) -> dict[int, int]:
    """Ticks stolen from each of these cores since the machine started (proc(5), /proc/stat, eighth field)."""
    found = {}
    for line in _STAT.read_text().splitlines():
        name, *fields = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
            found[int(name[3:])] = int(fields[7])
    return found


def _threads(pids: list[int]) -> dict[tuple[int, str], tuple[int, int, int]]:
    """By process and thread: nanoseconds run, nanoseconds waited, involuntary switches."""
    found = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                run, wait, _ = map(int, (task / "schedstat").read_text().split())
                status = (task / "status").read_text()
            except (OSError, ValueError):
                continue  # it ended meanwhile
            switches = int(status.rsplit("nonvoluntary_ctxt_switches:", 1)[-1])
            found[(pid, task.name)] = (run, wait, switches)
    return found
