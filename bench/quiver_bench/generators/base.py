"""A trial's input and output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from quiver_bench.machine import Cores
from quiver_bench.suites.traffic import Traffic


@dataclass(frozen=True)
class Endpoint:
    """Where packets go in or come out: a memif socket, or a network interface, perhaps in a namespace."""

    kind: str
    name: str
    netns: str | None = None
    #: IP address there, for generators that open connections.
    address: str | None = None


@dataclass(frozen=True)
class Load:
    """What is asked for in a trial."""

    #: Seconds of sending.
    seconds: float
    #: Packets, or connections, per second in each direction; None: as many as can be.
    rate_pps: float | None = None
    #: Called while packets flow.
    meanwhile: Callable[[], None] | None = None
    #: Some packets more carry timestamps.
    latency: bool = False
    #: So many of them per second; None: as many as CSIT sends.
    latency_pps: float | None = None
    #: Seconds behind its time after which a packet is never sent, but missed. None: all are sent, however late.
    max_late: float | None = None
    #: Beside the attack that the suite is about.
    attacked: bool = False
    #: Packets in each direction after which it stops, however long that takes up to :attr:`seconds`.
    count: int | None = None


@dataclass(frozen=True)
class Latency:
    """One direction, in microseconds."""

    min: float
    avg: float
    max: float
    #: Microseconds by percentile, as far as the generator tells.
    percentiles: dict[str, float] = field(default_factory=dict)
    #: HDR histogram, base64, where the generator gives it.
    hdrh: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For a result document."""
        return {**asdict(self), "unit": "us"}


@dataclass(frozen=True)
class TrialOutput:
    """What a trial brought."""

    sent: int
    received: int
    lost: int
    #: Seconds of sending, measured.
    seconds: float
    #: Packets per second received; None where the generator counts none.
    rate_pps: float | None
    #: Bits per second received, frames without checksum and gaps; for connections: their payload. None where none are counted.
    rate_bps: float | None
    #: Packets that the rate asked for; None where none was. What is missing of them found no room at the device.
    intended: int | None = None
    #: Round trip of a cache line between generator and worker, nanoseconds, before and after.
    round_trip_ns: tuple[float, float] | None = None
    latency: Latency | None = None
    #: Packets of the intended that were never sent, as their time had passed; None where the generator catches up.
    missed: int | None = None
    #: Those of them that the generator itself slept through.
    overslept: int = 0
    #: Frames that came and that the kernel threw away because the generator took too few: no loss of the device's.
    untaken: int = 0
    #: Packets that became due while the generator itself was kept from running: late, or never sent, and what came then it didn't take.
    stalled_packets: int = 0
    #: Seconds of the longest such time.
    longest_stall_s: float = 0.0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    #: Frames received that weren't the generator's, such as the announcement of an interface that came up.
    foreign: int = 0
    #: Packets of the generator's that came in where they were not to, such as where they were sent: they count as lost.
    misdirected: int = 0
    #: The other direction's, where packets go both ways.
    latency_reverse: Latency | None = None
    #: Directions that were sent in, each at the rate asked for. Numbers and rates are those of all together.
    ways: int = 1
    #: Packets per second of a flood besides, that the device took.
    flood_pps: float | None = None
    #: What became of connections, where there were any.
    connections: dict[str, float | None] | None = None

    @property
    def loss_ratio(self) -> float:
        """Share of the packets sent that did not come back."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def unsent(self) -> int:
        """Packets that the rate asked for and the device had no room for."""
        return max(0, (self.intended or 0) - self.sent)

    @property
    def multiplied(self) -> bool:
        """Whether more came than was sent, or some came twice: then a rate counts packets that nobody sent."""
        return self.duplicated > 0 or self.received > self.sent > 0


class Generator(ABC):
    """Sends through a device and counts."""

    @abstractmethod
    def version(self) -> str:
        """Name and version."""

    @abstractmethod
    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Raises :class:`~quiver_bench.errors.Unsupported` where it can't send that there."""

    def trial(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """Sends that load and counts. Raises :class:`~quiver_bench.errors.TrialVoid` where nothing can be said."""
        self.require(traffic, endpoints)
        return self.measure(traffic, endpoints, cores, load)

    @abstractmethod
    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """:meth:`trial`, between interfaces that it knows."""
