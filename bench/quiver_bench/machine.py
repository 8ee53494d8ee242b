"""The machine: cores, memory, and how far apart the cores are."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quiver_bench.errors import Missing

# Round trips of a cache line in nanoseconds: between those of hyper-threads of one core (60), of cores with a common
# last-level cache (105 to 140), and of others (540 to 630), as seen on EPYC. quiver-tgen draws the same lines.
SIBLING_BELOW_NS = 85.0
NEAR_BELOW_NS = 300.0

PLACEMENTS = ("sibling", "near", "far")


def placement(round_trip_ns: float) -> str:
    """What a round trip says about two cores: ``sibling``, ``near`` or ``far``."""
    if round_trip_ns < SIBLING_BELOW_NS:
        return "sibling"
    return "near" if round_trip_ns < NEAR_BELOW_NS else "far"


@dataclass(frozen=True)
class Cores:
    """Who runs where: the generator on one core, the device's workers on others."""

    generator: int
    workers: tuple[int, ...]

    @property
    def worker(self) -> int:
        """The first worker's core, to which the round trip is measured."""
        return self.workers[0]


def allot(workers: int, generator: int | None = None, chosen: tuple[int, ...] | None = None) -> Cores:
    """Cores for one generator and so many workers: by default the first that may be used and those after it.

    Raises :class:`Missing` where there are too few, or one that was chosen isn't there.
    """
    usable = sorted(os.sched_getaffinity(0))
    first = usable[0] if generator is None else generator
    rest = tuple(core for core in usable if core != first)
    cores = tuple(chosen) if chosen else rest[:workers]
    for core in (first, *cores):
        if core not in usable:
            raise Missing(f"core {core} can't be used here: there are {', '.join(map(str, usable))}")
    if len(cores) < workers or first in cores:
        raise Missing(
            f"too few cores: {workers} for workers and one for the generator are needed, and {len(usable)} may be used "
            f"({', '.join(map(str, usable))}). Choose a suite with fewer (1c), or a larger machine"
        )
    return Cores(first, cores[:workers])


def huge_pages_free() -> int:
    """Free huge pages of the default size."""
    match = re.search(r"^HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class Machine:
    """What a figure belongs to."""

    host: str
    cpu: str
    cores: int
    mhz: float
    microcode: str
    hypervisor: bool
    kernel: str
    memory_gib: int
    huge_pages: int
    autogroup: bool

    def as_dict(self) -> dict[str, Any]:
        """For a result document."""
        return asdict(self)

    def in_words(self) -> str:
        """For a table's foot."""
        virtual = " (virtual)" if self.hypervisor else ""
        return f"{self.cores} × {self.cpu}{virtual}, {self.mhz:.0f} MHz, {self.memory_gib} GiB, Linux {self.kernel}"


def this_machine() -> Machine:
    """The machine this runs on."""
    info = Path("/proc/cpuinfo").read_text()

    def field(name: str, otherwise: str = "") -> str:
        match = re.search(rf"^{name}\s*:\s*(.+)$", info, re.MULTILINE)
        return match[1].strip() if match else otherwise

    memory = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    total = re.search(r"^HugePages_Total:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return Machine(
        host=platform.node(),
        cpu=field("model name", platform.machine()),
        cores=os.cpu_count() or 1,
        mhz=float(field("cpu MHz", "0")),
        microcode=field("microcode"),
        hypervisor=" hypervisor" in field("flags"),
        kernel=platform.release(),
        memory_gib=round(int(memory[1]) / 2**20) if memory else 0,
        huge_pages=int(total[1]) if total else 0,
        autogroup=_autogroup(),
    )


def _autogroup() -> bool:
    try:
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    except OSError:
        return False


def warnings() -> list[str]:
    """What makes figures of this machine worth less, and what to do about it."""
    found = []
    if _autogroup():
        found.append(
            "sched_autogroup is on, so niceness doesn't count between terminals: sysctl kernel.sched_autogroup_enabled=0"
        )
    if huge_pages_free() < 256:
        found.append(
            f"{huge_pages_free()} huge pages are free; DPDK runs without them, and slower: "
            "echo 512 > /proc/sys/vm/nr_hugepages"
        )
    busy = os.getloadavg()[0]
    if busy > 0.5:
        found.append(f"the machine is busy (load {busy:.1f}): figures will scatter")
    return found
