"""quiver-tgen's flood: SYNs at its greatest rate, beside connections that were established before and go on at a steady one.

Connections are segments of their own making: a SYN, its answer and an acknowledgment of each client, and then always the same segment in
either direction, which a receiver takes for a repeated one. A device that follows TCP lets all of that pass.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from quiver_bench.errors import TrialVoid
from quiver_bench.generators.base import Endpoint, Load, TrialOutput
from quiver_bench.generators.tgen import Program, output
from quiver_bench.machine import Cores
from quiver_bench.suites import flooding
from quiver_bench.suites.traffic import (
    CLIENTS,
    DEVICE_LEFT_MAC,
    DEVICE_RIGHT_MAC,
    PEER_LEFT_MAC,
    PEER_RIGHT_MAC,
    SIGNATURE,
    Traffic,
)

#: TCP's flags.
_SYN, _PUSH, _ACK = 0x02, 0x08, 0x10
#: Bytes of a frame that is numbered: headers of Ethernet, IPv4 and TCP, and the signature.
_SIZE = 54 + SIGNATURE
#: Numbers of the SYNs of either side.
_CLIENT_SEQ, _SERVER_SEQ = 1000, 5000

#: Packets per second of a handshake's step: a second's rest for the device, of all clients together.
_HANDSHAKE_PPS = 1e6
#: Rings as large as they can be, so that the generator may stand still for some time.
_RING = 16384


@dataclass(frozen=True)
class Segment:
    """What all clients send, or are sent, one after the other."""

    name: str
    to_server: bool
    seq: int
    ack: int
    flags: int

    def stack(self, clients: int) -> str:
        """Its headers, as quiver-tgen's profile has them."""
        first = IPv4Address(CLIENTS.split("/")[0]) + 1
        client, server = f'{{ from = "{first}", to = "{first + clients - 1}" }}', f'"{flooding.SERVER}"'
        ends = (client, server) if self.to_server else (server, client)
        ports = flooding.CLIENT_PORT, flooding.SERVER_PORT
        source, destination = ports if self.to_server else ports[::-1]
        macs = (DEVICE_LEFT_MAC, PEER_LEFT_MAC) if self.to_server else (DEVICE_RIGHT_MAC, PEER_RIGHT_MAC)
        return (
            f'{{ ethernet = {{ dst = "{macs[0]}", src = "{macs[1]}" }} }}, {{ ipv4 = {{ src = {ends[0]}, dst = {ends[1]} }} }}, '
            f"{{ tcp = {{ src = {source}, dst = {destination}, seq = {self.seq}, ack = {self.ack}, flags = {self.flags} }} }}"
        )

    def stream(self, clients: int, more: str) -> str:
        """A stream of them."""
        tx, rx = ("left", "right") if self.to_server else ("right", "left")
        head = f'[[stream]]\nname = "{self.name}"\ntx = "{tx}"\nrx = "{rx}"\n'
        return f"{head}{more}\nstack = [{self.stack(clients)}]\n"


HANDSHAKE = (
    Segment("syn", True, _CLIENT_SEQ, 0, _SYN),
    Segment("syn-ack", False, _SERVER_SEQ, _CLIENT_SEQ + 1, _SYN | _ACK),
    Segment("ack", True, _CLIENT_SEQ + 1, _SERVER_SEQ + 1, _ACK),
)
ESTABLISHED = (
    Segment("there", True, _CLIENT_SEQ + 1, _SERVER_SEQ + 1, _PUSH | _ACK),
    Segment("back", False, _SERVER_SEQ + 1, _CLIENT_SEQ + 1, _PUSH | _ACK),
)


class Flooding(Program):
    """quiver-tgen with the streams of a profile: so many clients."""

    def __init__(self, binaries: Path, clients: int) -> None:
        super().__init__(binaries)
        self.clients = clients
        self._directory = tempfile.TemporaryDirectory(prefix="qb-")
        self._profile = Path(self._directory.name) / "profile.toml"
        self._established = False

    def command(
        self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint] | None, cores: Cores, load: Load
    ) -> list[str]:
        """See :meth:`~quiver_bench.generators.tgen.Program.command`: of the profile that was written last."""
        words = [self.program, "--profile", self._profile, "--core", cores.generator, "--output", "json"]
        return [str(word) for word in words]

    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.base.Generator.measure`. Before the first trial connections are established."""
        *handshake, flood = self.profiles(endpoints, load.seconds)
        command = self.command(traffic, endpoints, cores, load)
        for profile in () if self._established else handshake:
            self._profile.write_text(profile)
            received = self.run(command, Load(self.clients / _HANDSHAKE_PPS))["received"]
            if received < self.clients:
                raise TrialVoid(f"of {self.clients} segments of a handshake's step {received} came through")
        self._established = True
        self._profile.write_text(flood)
        return self.read(self.run(command, load), traffic)

    def profiles(self, endpoints: tuple[Endpoint, Endpoint], seconds: float) -> list[str]:
        """Profiles of a handshake's three steps, a segment of each client, and of a flood beside what is established."""
        each = f"size = 60\ncount = {self.clients}\nrate = {_HANDSHAKE_PPS:.0f}"
        steps = [interfaces(endpoints) + segment.stream(self.clients, each) for segment in HANDSHAKE]
        head = f'seconds = {seconds:g}\ncheck = "sequence"\n'
        steady = f"size = {_SIZE}\nrate = {flooding.ESTABLISHED_PPS:.0f}"
        streams = [segment.stream(self.clients, steady) for segment in ESTABLISHED]
        return [*steps, "".join([head, interfaces(endpoints, flood=True), *streams, flood_stream()])]

    def read(self, report: dict[str, Any], traffic: Traffic) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.tgen.Program.read`: packets of the connections, and the flood's rate besides."""
        streams = {stream["name"]: stream for stream in report["streams"]}
        found = [streams[segment.name] for segment in ESTABLISHED]
        sent, received, lost = (sum(stream[of] for stream in found) for of in ("sent", "received", "lost"))
        totals = {"sent": sent, "received": received, "lost": lost, "received_pps": received / report["seconds"]}
        totals["received_bps"] = totals["received_pps"] * _SIZE * 8
        flood = streams["flood"]["sent"] / report["seconds"]
        # What it doesn't see of the flood is forgotten on purpose.
        alone = output({**report, **totals, "intended": None, "missed": None, "misdirected": 0}, 2)
        return replace(alone, flood_pps=flood)


def interfaces(endpoints: tuple[Endpoint, Endpoint], flood: bool = False) -> str:
    """A profile's interfaces: the device's two ports, and the third one beside the first."""
    sockets = {"left": Path(endpoints[0].name), "right": Path(endpoints[1].name)}
    if flood:
        sockets["flood"] = sockets["left"].with_name("flood")
    return "".join(
        f'[[interface]]\nname = "{name}"\nmemif = {{ socket = {json.dumps(str(path))}, ring_size = {_RING} }}\n'
        for name, path in sockets.items()
    )


def flood_stream() -> str:
    """A profile's stream: SYNs of endpoints drawn at random, as many as can be."""
    drawn = 'order = "random"'
    ethernet = f'{{ dst = "{flooding.MACS[0]}", src = "{flooding.PEER_MAC}" }}'
    sources = f'{{ from = "{flooding.SOURCES[0]}", to = "{flooding.SOURCES[1]}", {drawn} }}'
    ipv4 = f'{{ src = {sources}, dst = "{flooding.DESTINATIONS.split("/")[0]}" }}'
    tcp = f"{{ src = {{ from = 1024, to = 65535, {drawn} }}, dst = {flooding.SERVER_PORT}, flags = {_SYN} }}"
    stack = f"[{{ ethernet = {ethernet} }}, {{ ipv4 = {ipv4} }}, {{ tcp = {tcp} }}]"
    return f'[[stream]]\nname = "flood"\ntx = "flood"\nsize = {_SIZE}\nstack = {stack}\n'
