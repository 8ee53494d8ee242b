"""What commands share: options, choices, progress."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from quiver_bench import machine
from quiver_bench.devices import Device, Setup
from quiver_bench.devices.registry import Choice, device
from quiver_bench.devices.revision import binaries, build, commit_of, here, outdated
from quiver_bench.errors import BadInput
from quiver_bench.suites import Suite

#: Where results go that nobody said another place for.
RESULTS = Path.home() / ".local" / "share" / "quiver-bench"


@dataclass(frozen=True)
class Chosen:
    """A device that was chosen, and what it takes to bring it up."""

    text: str
    kind: type[Device]
    setup: Setup
    #: Commit it was built from (of floor and applications: that of the ``quiverd`` beside them); empty where that isn't ours to know.
    commit: str

    def version(self) -> str:
        """As the device tells it, without being brought up."""
        made = self.kind(self.setup)
        try:
            return made.version()
        finally:
            made.down()


def known(text: str, suite: Suite) -> Choice:
    """The device of that name, which does the suite, at a commit that there is. Nothing is built. Raises what is wrong with it."""
    choice = device(text)
    choice.device.require(suite)
    if choice.revision:
        commit_of(choice.revision)
    return choice


def choose(text: str, suite: Suite, options: argparse.Namespace) -> Chosen:
    """The device of that name for a suite, built if a commit was named. Raises what stands in the way of measuring."""
    choice = known(text, suite)
    workers = _cores(options.worker_cores) if options.worker_cores else None
    suite = replace(suite, both_ways=options.both_ways)
    if suite.case.generator == "internal":
        cores = machine.allot_all(suite.cores, workers)
    else:
        cores = machine.allot(suite.cores, options.generator_core, workers, suite.case.containers)
    programs, commit = binaries(), ""
    if choice.revision:
        programs, commit = build(choice.revision)
    elif choice.device.ours:
        commit = here()
    vpp = Path(options.vpp_bin) if options.vpp_bin else None
    setup = Setup(suite, cores, programs, vpp)
    choice.device(setup).down()  # what is missing is said before anything is measured
    return Chosen(text, choice.device, setup, commit)


def positive(text: str) -> float:
    """A number of seconds, for a parser: more than nothing, and no more than a day."""
    number = float(text)
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"{text}: give seconds, more than 0 and at most 86400")
    return number


def ratio(text: str) -> float:
    """A ratio that must be reached, for a parser: more than nothing, and a number."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: give a ratio greater than 0, such as 1.8")
    return number


def some(text: str) -> int:
    """How many, for a parser: at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1 is needed")
    return number


def port(text: str) -> int:
    """A TCP port, for a parser."""
    number = int(text)
    if not 0 < number < 65_536:
        raise argparse.ArgumentTypeError(f"{text}: ports are 1 to 65535")
    return number


def _cores(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(core) for core in text.split(","))
    except ValueError as error:
        raise BadInput(f"--worker-cores {text}: give numbers with commas between, such as 1,2") from error


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Options of everything that measures."""
    group = parser.add_argument_group("machine")
    group.add_argument("--generator-core", type=int, metavar="CORE", help="core of the generator (default: the first)")
    group.add_argument(
        "--worker-cores", metavar="CORE,…", help="cores of the device's workers (default: those after it)"
    )
    group.add_argument(
        "--both-ways", action="store_true", help="send in both directions, though the suite doesn't ask for it"
    )
    group.add_argument("--vpp-bin", metavar="PATH", help="the vpp program, for device vpp")
    group.add_argument(
        "--stop-after",
        type=positive,
        metavar="SECONDS",
        help="stop after so long as Ctrl-C does: what was measured is kept, and the exit status is 130",
    )
    group.add_argument("--no-store", action="store_true", help="print the result and don't keep it")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="what to print")


def add_results(parser: argparse.ArgumentParser) -> None:
    """Where results are."""
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="results (default: %(default)s)")


def put(text: str) -> None:
    """Prints a result. Whoever closed the pipe wants no more of it; what was measured has its exit status all the same."""
    try:
        print(text, flush=True)  # else it fails when nobody catches it any more
    except BrokenPipeError:
        nobody_reads()


def nobody_reads() -> None:
    """What is still to be flushed goes nowhere."""
    nowhere(sys.stdout)


def nowhere(stream: TextIO) -> None:
    """Lets all that is written from now on, and what is still to be flushed, go nowhere."""
    with Path(os.devnull).open("wb") as null:
        os.dup2(null.fileno(), stream.fileno())


class Aside:
    """Standard error: what is said there ends no measurement, though nobody reads it any more or its disk is full."""

    def __init__(self, stream: TextIO | None) -> None:
        #: Where there is none (``2>&-``) print would take standard output instead.
        self._stream = stream or Path(os.devnull).open("w")  # noqa: SIM115 - as long as the program runs

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes, as long as that can be done."""
        try:
            return self._stream.write(text)
        except OSError:
            nowhere(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flushes, as long as that can be done."""
        try:
            self._stream.flush()
        except OSError:
            nowhere(self._stream)


@contextlib.contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A bar that moves while something long goes on, with lines above it, on standard error."""
    console = Console(file=sys.stderr, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(pulse_style="cyan"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        bar.add_task(title, total=None)

        def tell(line: str) -> None:
            if not quiet:
                bar.console.print(line, markup=False, soft_wrap=True)

        yield tell


def warn_of_noise(tell: Callable[[str], None]) -> None:
    """Says what makes figures of this machine worth less."""
    for warning in [*filter(None, [outdated()]), *machine.warnings()]:
        tell(f"note: {warning}")
