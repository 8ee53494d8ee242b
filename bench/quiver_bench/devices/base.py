"""What an adapter does: brings a device up between two ports, says what it knows of itself, and takes it down."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.generators import Endpoint
from quiver_bench.machine import Cores
from quiver_bench.suites import Suite

#: Seconds a device has to come up.
UP_WITHIN_S = 30.0


@dataclass(frozen=True)
class Setup:
    """What a device is brought up for, and with what."""

    suite: Suite
    cores: Cores
    #: Where quiverd, quiver, quiver-tgen and quiver-floor are.
    binaries: Path
    #: The ``vpp`` program.
    vpp: Path | None = None


@dataclass(frozen=True)
class Vitals:
    """How a device is after a trial, as far as it tells."""

    #: Microseconds of the longest round of a worker since :meth:`Device.clear`: what the kernel ran instead is in it.
    longest_round_us: float | None = None
    #: Bytes of memory that its processes have, huge pages included.
    resident_bytes: int | None = None
    #: Sessions that it holds.
    sessions: int | None = None
    #: Microseconds in which it looked through all of them after the last change.
    revisit_us: float | None = None

    @classmethod
    def worst(cls, several: list[Vitals]) -> Vitals:
        """The greatest of each."""
        told = {of.name: [getattr(one, of.name) for one in several] for of in fields(cls)}
        known = {name: [value for value in values if value is not None] for name, values in told.items()}
        return cls(**{name: max(values) for name, values in known.items() if values})

    def in_words(self) -> list[str]:
        """What is known."""
        said = []
        if self.longest_round_us is not None:
            said.append(f"longest round {self.longest_round_us / 1e3:.2f} ms")
        if self.sessions:
            said.append(f"{self.sessions} sessions")
        if self.sessions and self.resident_bytes:
            said.append(f"{self.resident_bytes / 1e9:.2f} GB resident")
        return said


class Device(ABC):
    """A dataplane between a left and a right port. Use :func:`running`."""

    #: As on the command line.
    name = ""
    #: ``dut_type`` of result documents.
    dut_type = ""
    #: Kinds of forwarding it does.
    forwards: frozenset[str] = frozenset()
    #: Kinds of port it has.
    ports: frozenset[str] = frozenset({"memif"})
    #: Whether it is built from this checkout.
    ours = False
    #: Whether it can have containers between its ports.
    chains = False
    #: Whether it can have a third port, by which a flood comes in.
    floods = False
    #: Kinds of port by which others can attack it.
    hostile: frozenset[str] = frozenset()
    #: Whether its sessions' tenant can be changed.
    changes = False
    #: Whether it can have a DMA engine copy bodies.
    dma = False
    #: What a reader of its figures must know.
    note = ""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.suite = setup.suite
        # Short, because paths of unix sockets must be.
        self._directory = tempfile.TemporaryDirectory(prefix="qb-")
        self.dir = Path(self._directory.name)
        self.processes: list[subprocess.Popen[bytes]] = []
        #: Programs besides that must live as long as it does, such as containers.
        self.helpers: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        #: What must be said of figures, by how it could be brought up.
        self.remarks: list[str] = []

    @classmethod
    def require(cls, suite: Suite) -> None:
        """Raises :class:`Unsupported` where it can't do what the suite asks."""
        case = suite.case
        if suite.port not in cls.ports:
            raise Unsupported(f"{cls.name} has no {suite.port} ports, which {suite.name} is about")
        if case.forwarding not in cls.forwards:
            raise Unsupported(f"{cls.name} doesn't do {case.forwarding}, which {suite.name} is about")
        if suite.method == "reconf" and cls.reconfigure is Device.reconfigure:
            raise Unsupported(f"{cls.name} can't be configured while it runs, which {suite.name} is about")
        if suite.method == "idle" and cls.poll is Device.poll:
            raise Unsupported(f"{cls.name} can't be told to sleep or to poll, which {suite.name} is about")
        if suite.method == "create" and cls.forget is Device.forget:
            raise Unsupported(f"{cls.name} can't be told to forget its sessions, which {suite.name} begins with")
        if case.change and not cls.changes:
            raise Unsupported(f"{cls.name} can't be told to treat sessions otherwise, which {suite.name} is about")
        if case.generator == "flood" and not cls.floods:
            raise Unsupported(
                f"{cls.name} has no third port that a flood could come in by, which {suite.name} is about"
            )
        if case.attack and suite.port not in cls.hostile:
            raise Unsupported(f"{cls.name} has no ports for pods that attack, which {suite.name} is about")
        if case.dma and not cls.dma:
            raise Unsupported(f"{cls.name} has no copy engine, which {suite.name} is about")
        if case.containers and not cls.chains:
            raise Unsupported(f"{cls.name} isn't set up for containers, which {suite.name} is about")

    @abstractmethod
    def version(self) -> str:
        """Its version, with the commit where it is known."""

    @abstractmethod
    def up(self) -> None:
        """Brings it up, configured, ready for packets."""

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Where packets go in, and where they come out."""
        return Endpoint("memif", str(self.dir / "left")), Endpoint("memif", str(self.dir / "right"))

    def clocks(self) -> dict[str, float]:
        """Clocks per packet by node since :meth:`clear`, where it counts them."""
        return {}

    def clear(self) -> None:
        """Sets what :meth:`clocks` counts to zero."""

    def vitals(self) -> Vitals:
        """How it is, since :meth:`clear`."""
        return Vitals(resident_bytes=resident(self.pids()))

    def forget(self) -> None:
        """Ends all sessions that it has."""
        raise Unsupported(f"{self.name} can't be told to forget its sessions")

    def reconfigure(self) -> str:
        """Lets the configuration grow while packets flow; says what was done."""
        raise Unsupported(f"{self.name} can't be configured while it runs")

    def poll(self) -> None:
        """Has it poll all queues from now on, where it slept when there was nothing to do."""
        raise Unsupported(f"{self.name} can't be told to poll")

    def down(self) -> None:
        """Takes it down and removes what was made."""
        self._stop()
        self._directory.cleanup()

    # -- for adapters ----------------------------------------------------------------------------------------------

    def start(self, *command: object, log: str = "log", helper: bool = False) -> subprocess.Popen[bytes]:
        """Starts one of its programs, whose output goes into a log."""
        path = self.dir / log
        with path.open("ab") as file:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                cwd=self.dir,
                env=environment(),
            )
        (self.helpers if helper else self.processes).append(process)
        self._logs.append(path)
        return process

    def wait_for(self, what: str, ready: Callable[[], bool], seconds: float = UP_WITHIN_S) -> None:
        """Waits until it is ready; raises :class:`TrialVoid` with the log if it dies first or never is."""
        until = time.monotonic() + seconds
        while not ready():
            self.check_alive()
            if time.monotonic() > until:
                raise TrialVoid(f"{self.name} did not come up: no {what} after {seconds:.0f} s", self.log())
            time.sleep(0.02)

    def check_alive(self) -> None:
        """Raises :class:`TrialVoid`, with the log, if one of its programs has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise TrialVoid(f"{self.name} died (exit status {process.returncode})", self.log())
        for process in self.helpers:
            if process.poll() is not None:
                raise TrialVoid(f"a container beside {self.name} died (exit status {process.returncode})", self.log())

    def pids(self) -> list[int]:
        """Its processes."""
        return [process.pid for process in self.processes if process.poll() is None]

    def log(self) -> str:
        """What it said last."""
        return "\n".join(
            path.read_text(errors="replace")[-8000:] for path in dict.fromkeys(self._logs) if path.exists()
        )

    def _stop(self) -> None:
        everybody = [*self.helpers, *reversed(self.processes)]
        for process in everybody:
            if process.poll() is None:
                process.terminate()
        for process in everybody:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def running(made: Device) -> Iterator[Device]:
    """A device that is up, and is taken down afterwards whatever happens."""
    try:
        made.up()
        yield made
    finally:
        with undisturbed():
            made.down()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that stop us come when this is over: what is half taken down would stay."""
    stopping = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM}
    came: list[int] = []
    # Blocked, so that programs that we start meanwhile aren't stopped either. But the kernel gives a signal to another thread
    # then, where there is one, and Python has it handled by this one all the same.
    handlers = {number: signal.getsignal(number) for number in stopping}
    mine = threading.current_thread() is threading.main_thread()
    for number in stopping if mine else ():
        signal.signal(number, lambda number, _: came.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    try:
        yield
    finally:
        for number in stopping if mine else ():
            signal.signal(number, signal.SIG_DFL if handlers[number] is None else handlers[number])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for late in dict.fromkeys(came):
            signal.raise_signal(late)


def resident(pids: list[int]) -> int | None:
    """Bytes of memory that these processes have, huge pages included; None where the kernel tells of none."""
    kilobytes = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended meanwhile
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith(("VmRSS:", "HugetlbPages:")):
                    kilobytes += int(line.split()[1])
    return kilobytes * 1024 or None


def environment() -> dict[str, str]:
    """Ours, without what would send Quiver's programs to another daemon than the one under test."""
    return {name: value for name, value in os.environ.items() if name != "QUIVER_SOCKET"}


def call(*command: object, stdin: str | None = None, timeout: float = 300) -> str:
    """Runs a program that must succeed; returns its output. Raises :class:`TrialVoid`."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=timeout, check=False, env=environment()
        )
    except subprocess.TimeoutExpired as error:
        raise TrialVoid(f"{' '.join(words[:4])} did not end in {timeout:.0f} s") from error
    if done.returncode != 0:
        raise TrialVoid(f"{' '.join(words[:6])}: {done.stderr.strip() or done.stdout.strip()}", done.stderr)
    return done.stdout
