"""The machine: cores, memory, and how far apart the cores are."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quiver_bench.errors import BadInput, Missing

# Round trips of a cache line in nanoseconds: between those of hyper-threads of one core (60), of cores with a common
# last-level cache (105 to 140), and of others (540 to 630), as seen on EPYC. quiver-tgen draws the same lines.
SIBLING_BELOW_NS = 85.0
NEAR_BELOW_NS = 300.0

#: No two cores of a machine are so far apart: somebody else was on one of them meanwhile.
DISTURBED_FROM_NS = 2000.0

PLACEMENTS = ("sibling", "near", "far")

#: Placement of a trial whose cores were moved while it ran.
MOVED = "moved"

#: Placement where the round trip can't be believed.
DISTURBED = "disturbed"

#: Trials of these say nothing that could be held against others.
UNSETTLED = frozenset({MOVED, DISTURBED})


def placement(round_trip_ns: float) -> str:
    """What a round trip says about two cores: ``sibling``, ``near`` or ``far``; ``disturbed`` where it says nothing."""
    if round_trip_ns < SIBLING_BELOW_NS:
        return "sibling"
    if round_trip_ns >= DISTURBED_FROM_NS:
        return DISTURBED
    return "near" if round_trip_ns < NEAR_BELOW_NS else "far"


def common(placements: set[str]) -> str:
    """The placement of all; ``moved`` if they differ, ``disturbed`` if one is."""
    if len(placements) == 1:
        return next(iter(placements))
    return DISTURBED if DISTURBED in placements else MOVED


@dataclass(frozen=True)
class Cores:
    """Who runs where: the generator on one core, the device's workers and containers on others."""

    generator: int
    workers: tuple[int, ...]
    #: One per container. Where there aren't enough they are the generator's.
    containers: tuple[int, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether containers take turns with each other or with the generator."""
        return len({self.generator, *self.containers}) <= len(self.containers)

    @property
    def aside(self) -> tuple[int, ...]:
        """For what a device does besides forwarding: cores that nobody else has, or the generator's."""
        left = os.sched_getaffinity(0) - {self.generator, *self.workers, *self.containers}
        return tuple(sorted(left)) or (self.generator,)

    @property
    def worker(self) -> int:
        """The first worker's core, to which the round trip is measured."""
        return self.workers[0]


def allot(
    workers: int, generator: int | None = None, chosen: tuple[int, ...] | None = None, containers: int = 0
) -> Cores:
    """Cores for one generator and so many workers: by default the first that may be used and those after it.

    Containers get what is left; where that isn't one for each, they share, with the generator too if nothing is left.

    Raises :class:`Missing` where there are too few, :class:`BadInput` where those that were chosen can't be.
    """
    usable = sorted(os.sched_getaffinity(0))
    first = usable[0] if generator is None else generator
    rest = tuple(core for core in usable if core != first)
    cores = tuple(chosen) if chosen else rest[:workers]
    for core in (first, *cores):
        if core not in usable:
            raise BadInput(f"core {core} can't be used here: there are {', '.join(map(str, usable))}")
    if first in (chosen or ()):
        whose = "" if generator is not None else " (the first, where --generator-core names no other)"
        raise BadInput(f"core {first} is given to the generator{whose} and to a worker: each needs one of its own")
    if chosen and len(set(chosen)) < workers:
        raise BadInput(f"--worker-cores {core_list(chosen)}: {workers} are needed")
    if len(cores) < workers:
        raise Missing(
            f"too few cores: {workers} for workers and one for the generator are needed, and {len(usable)} may be used "
            f"({', '.join(map(str, usable))}). Choose a suite with fewer (1c), or a larger machine"
        )
    taken = cores[:workers]
    left = [core for core in usable if core != first and core not in taken] or [first]
    return Cores(first, taken, tuple(left[n % len(left)] for n in range(containers)))


def allot_all(workers: int, chosen: tuple[int, ...] | None = None) -> Cores:
    """Cores for so many workers that make their packets themselves: nobody else needs one. By default those after the first, then the
    first as well. The generator's is the second of them, so that one worker and two are told apart by the same distance.

    Raises as :func:`allot`.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < workers:
        raise Missing(
            f"too few cores: {workers} workers need one each, and {len(usable)} may be used ({', '.join(map(str, usable))}). Choose a "
            "suite with fewer (1c), or a larger machine"
        )
    if chosen and (len(set(chosen)) < workers or not set(chosen) <= set(usable)):
        raise BadInput(
            f"--worker-cores {core_list(chosen)}: {workers} of those that may be used are needed: {core_list(usable)}"
        )
    order = tuple(chosen) if chosen else (*usable[1:], usable[0])
    others = [core for core in (*order, *usable) if core != order[0]]
    return Cores((others or order)[0], order[:workers])


def core_list(cores: Iterable[int]) -> str:
    """Cores as programs want them: ``1,2``."""
    return ",".join(str(core) for core in cores)


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
