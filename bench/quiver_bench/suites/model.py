"""What a suite is, and its name.

``64b-1c-memif-ethip4-ip4scale20k-mrr`` is frame size, worker cores, kind of port, case, method. As in CSIT the frame size
counts the checksum (FCS) that only a cable carries: of ``64b`` 60 bytes lie in a memif's buffer, of ``1518b`` 1514.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from quiver_bench.suites.tables import Table
from quiver_bench.suites.traffic import Conversations, Traffic

#: Bytes of frame check sequence, part of CSIT's frame sizes.
FCS = 4

#: How a figure comes about, and what it is called.
METHODS = {
    "mrr": "maximum receive rate: 10 trials of 1 s, as fast as the generator can",
    "ndrpdr": "highest rates with no loss and with 0.5 % loss, by MLRsearch; then latency at shares of the latter",
    "soak": "rate at which one packet in ten million is lost, by PLRsearch",
    "reconf": "packets lost while the configuration grows, as seconds of standstill",
    "idle": "share of a core that it takes with nothing to do, and what the first packet then waits longer than with polling",
    "cps": "connections established per second, as many as the generator can open: 10 trials of 1 s",
    "tput": "packets per second of connections with data, as many as the generator can: 10 trials of 1 s",
    "replay": "packets per second of whole connections sent without keeping state: 10 trials of 1 s",
    "create": "sessions begun per second, each by one packet: 10 times all that the suite's name says, with none there before",
    "change": "seconds until a change of what is done with sessions holds for all of them, and packets lost: 10 changes",
    "hostile": "latency and loss of a canary beside an attack by another pod, and without it: 60 s each",
    "flood": "packets of established connections lost while SYNs come in as fast as the generator can: 10 trials of 1 s",
}

#: Methods whose figure is a rate at the greatest load: what CSIT calls mrr, whatever is counted.
MAXIMUM = frozenset({"mrr", "cps", "tput", "replay", "create"})

_NAME = re.compile(
    r"(?P<frame>\d+b|imix|128kb)-(?P<cores>\d+)c-(?P<port>memif|tap|pg|podtun|podmemif)-(?P<case>.+)-(?P<method>[a-z]+)"
)

#: What CSIT calls kinds of port.
_PORT_TAGS = {
    "memif": "MEMIF",
    "tap": "TUNTAP",
    "pg": "PACKET_GENERATOR",
    "podtun": "TUNTAP",
    "podmemif": "MEMIF",
}

#: The simple IMIX of CSIT: frame sizes with checksum, and how many of each.
IMIX = ((64, 28), (570, 16), (1518, 4))


@dataclass(frozen=True)
class Case:
    """What the device does with packets: the part of a suite's name between port and method."""

    name: str
    area: str
    #: ``l2xc`` cross-connect, ``l2bd`` bridge with learning, ``ip4`` or ``ip6`` forwarding, ``ip4session`` or ``ip6session`` that with
    #: sessions; of applications ``receive`` or ``send``; ``pods``: between pods of a cluster.
    forwarding: str
    #: Kinds of port it is published for.
    ports: tuple[str, ...] = ("memif",)
    #: Destinations, and /32 or /128 routes, per direction.
    routes: int = 1
    #: What it routes by instead, with destinations all over it.
    table: Table | None = None
    #: Stations behind either port of a bridge, each speaking with each of the other side.
    stations: int = 1
    #: Destinations, stations and sources in random order.
    random: bool = False
    #: Frames carry this VLAN tag.
    vlan: int | None = None
    #: Containers that packets pass through besides, one after the other.
    containers: int = 0
    #: ``chain``: through the device between containers; ``pipeline``: straight from one to the next.
    layout: str = ""
    #: ``quiver-tgen`` for packets, ``one-end`` for it as the other side of an application, ``iperf3`` for connections of the kernel,
    #: ``internal`` for what the device itself makes and forgets, ``flood`` for SYNs beside established
    #: connections, ``hostile`` for a canary beside an attack.
    generator: str = "quiver-tgen"
    #: Connections of iperf3 at the same time.
    connections: int = 1
    #: Packets go both ways. A bridge that hears one side only can't learn where to send, and floods.
    both_ways: bool = False
    #: Workers that there can be work for: a queue on either side is work for two.
    most_cores: int = 4
    #: ``tcp`` or ``udp``: connections, from so many clients' addresses.
    protocol: str = ""
    hosts: int = 0
    #: Source addresses of single packets: each is a flow.
    flows: int = 1
    #: What is done with sessions besides: ``lifecycle``, ``tcp`` states, ``nat``, ``balance`` or ``acl``.
    sessions: str = ""
    #: Fields of the tenant whose sessions they are, as Quiver's configuration has them.
    tenant: str = ""
    #: The same, after they were changed while packets flow.
    change: str = ""
    #: Sessions that must be there after each trial: with fewer its figure isn't that of so many.
    held: int = 0
    #: Addresses that sessions are balanced from.
    vips: tuple[str, ...] = ()
    #: Taps besides, that nothing ever comes by.
    silent: int = 0
    #: Between pods: which ones, and how, by the name of a :class:`~quiver_bench.suites.pods.Path`.
    path: str = ""
    #: What a pod does meanwhile, by the name of an :class:`~quiver_bench.suites.hostile.Attack`.
    attack: str = ""
    #: Bodies are copied by a DMA engine, or by a model of one.
    dma: bool = False
    methods: tuple[str, ...] = ("mrr", "ndrpdr")
    frames: tuple[str, ...] = ("64b", "1518b", "imix")
    tags: tuple[str, ...] = ()

    @property
    def ipv6(self) -> bool:
        """Whether packets are IPv6: their least size is 78 bytes instead of 64, as in CSIT."""
        return "ip6" in self.name


@dataclass(frozen=True)
class Suite:
    """One thing to measure."""

    frame: str
    cores: int
    port: str
    case: Case
    method: str
    #: Packets go both ways though the case doesn't ask for it.
    both_ways: bool = False

    @property
    def name(self) -> str:
        """The published name, which never changes."""
        return f"{self.frame}-{self.cores}c-{self.port}-{self.case.name}-{self.method}"

    @property
    def metric(self) -> str:
        """What its figure is: packets per second received, or bits for suites of iperf3."""
        if self.case.generator == "iperf3":
            return "bandwidth_bps"
        return {
            "mrr": "receive_rate_pps",
            "ndrpdr": "ndr_pps",
            "soak": "critical_rate_pps",
            "reconf": "blocked_time_s",
            "idle": "idle_share_cores",
            "cps": "connections_per_second",
            "tput": "receive_rate_pps",
            "replay": "receive_rate_pps",
            "create": "sessions_per_second",
            "change": "revisit_time_s",
            "flood": "lost_packets",
            "hostile": "canary_p99_9_us",
        }[self.method]

    @property
    def test_type(self) -> str:
        """CSIT's kind of result: its cps and tput suites are of type mrr, with a unit of their own. So is ``create``."""
        return "mrr" if self.method in MAXIMUM else self.method

    @property
    def unit(self) -> str:
        """What its rates count."""
        return "cps" if self.method in ("cps", "create") else "pps"

    @property
    def direction(self) -> str:
        """Which way packets go, in words."""
        return "both ways" if self.traffic.both_ways or self.case.protocol else "left to right"

    @property
    def frame_sizes(self) -> tuple[tuple[int, int], ...]:
        """Frame sizes with checksum, each with its weight."""
        if self.frame == "imix":
            return ((78, 28), *IMIX[1:]) if self.case.ipv6 else IMIX
        if self.frame == "128kb":
            return ((131072, 1),)
        return ((int(self.frame[:-1]), 1),)

    @property
    def jumbo(self) -> bool:
        """Whether frames are longer than Ethernet's, so that MTUs must be raised; super-frames of TCP aren't."""
        return self.case.generator != "iperf3" and max(size for size, _ in self.frame_sizes) > 1518

    @property
    def traffic(self) -> Traffic:
        """The packets to send."""
        return Traffic(
            sizes=tuple((size - FCS, weight) for size, weight in self.frame_sizes),
            ipv6=self.case.ipv6,
            destinations=self.case.routes,
            table=self.case.table,
            stations=self.case.stations,
            random=self.case.random,
            flows=self.case.flows,
            vlan=self.case.vlan,
            both_ways=self.both_ways or self.case.both_ways,
            bridged=self.case.forwarding in ("l2xc", "l2bd"),
            conversations=self._conversations(),
            sequenced=self.method not in MAXIMUM,
            ring_size=16384 if self.method == "change" else None,
        )

    def _conversations(self) -> Conversations | None:
        if not self.case.protocol:
            return None
        # Replayed are the packets of the kind that the frame size belongs to.
        kind = ("cps" if self.frame == "64b" else "tput") if self.method == "replay" else self.method
        return Conversations(self.case.protocol, kind, self.case.hosts, replay=self.method == "replay")

    @property
    def tags(self) -> list[str]:
        """CSIT's tags, with which job specifications choose suites."""
        case = self.case
        tags = {
            self.frame.upper(),
            f"{self.cores}C",
            self.method.upper(),
            _PORT_TAGS[self.port],
            *case.tags,
        }
        kinds = {"l2xc": "L2XCFWD", "l2bd": "L2BDMACLRN", "ip4": "IP4FWD", "ip6": "IP6FWD", "ip4session": "IP4FWD"}
        kinds |= {"ip6session": "IP6FWD", "pods": "IP4FWD"}
        tags.add(kinds.get(case.forwarding, f"APP_{case.forwarding.upper()}"))
        tags.add("DOT1Q" if case.vlan else "ETH")
        if case.protocol and case.hosts:
            tags |= {case.protocol.upper(), f"HOSTS_{case.hosts}"}
        if case.tenant:
            tags.add("SESSION")
        if case.stations > 1:
            tags |= {"SCALE", f"MAC_{_thousands(2 * case.stations)}"}
        elif case.table:
            tags |= {"SCALE", f"FIB_{_thousands(round(case.table.size, -5 if case.table.size > 500_000 else -4))}"}
        elif case.routes > 1:
            tags |= {"SCALE", f"FIB_{_thousands(2 * case.routes)}"}
        elif not case.containers:
            tags.add("BASE")
        return sorted(tags)


def _thousands(number: int) -> str:
    """As CSIT's tags have it: 20K, 2M."""
    return f"{number // 1_000_000}M" if number >= 1_000_000 else f"{number // 1000}K"


def take_apart(name: str) -> dict[str, str] | None:
    """Frame size, cores, port, case and method of a suite's name; None where it isn't one."""
    match = _NAME.fullmatch(name)
    return match.groupdict() if match else None
