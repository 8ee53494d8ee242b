"""Quiver: a quiverd with workers on the given cores, configured by ``quiver apply``."""

from __future__ import annotations

import json
import subprocess

from quiver_bench.devices.base import Device, Setup, call
from quiver_bench.devices.taps import TapPair
from quiver_bench.errors import Missing, Unsupported
from quiver_bench.generators import Endpoint
from quiver_bench.suites import Suite, traffic
from quiver_bench.suites.traffic import Addresses

#: Largest frame on a memif or tap of ours, without Ethernet header.
JUMBO_MTU = 9000

#: Routes that a reconfiguration adds while packets flow.
GROWTH = 10_000


class Quiver(Device):
    """As built in this checkout, or at a commit."""

    name = "quiver"
    dut_type = "quiver"
    forwards = frozenset({"l2xc", "l2bd", "ip4", "ip6"})
    ports = frozenset({"memif", "tap"})

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.taps = TapPair(self.suite) if self.suite.port == "tap" else None
        for program in ("quiverd", "quiver"):
            if not (setup.binaries / program).exists():
                raise Missing(f"{setup.binaries / program} is missing: make build, or set QUIVER_BIN to where it is")

    @classmethod
    def require(cls, suite: Suite) -> None:
        """All kinds of forwarding."""
        super().require(suite)
        if suite.case.containers:
            raise Unsupported(f"{cls.name} isn't set up for containers, which {suite.name} is about")

    def version(self) -> str:
        """As ``quiverd`` tells it."""
        out = subprocess.run([self.setup.binaries / "quiver", "--version"], capture_output=True, text=True, check=False)
        return out.stdout.strip().removeprefix("quiver ")

    def up(self) -> None:
        """Starts it and applies the suite's configuration."""
        if self.taps:
            self.taps.make_namespaces()
        workers = ", ".join(map(str, self.setup.cores.workers))
        (self.dir / "quiverd.toml").write_text(
            f'[api]\nsocket = "{self.dir}/api"\n[state]\ndirectory = "{self.dir}/state"\n'
            f'[metrics]\nlisten = "off"\n[workers]\ncores = [{workers}]\n'
        )
        self.start(self.setup.binaries / "quiverd", "--config", self.dir / "quiverd.toml")
        self.wait_for("API socket", (self.dir / "api").exists)
        self.apply(self.configuration())
        if self.taps:
            self.taps.settle()
        else:
            self.wait_for("memif socket", (self.dir / "right").exists)

    def apply(self, toml: str) -> None:
        """``quiver apply``, all of which must be accepted."""
        (self.dir / "lab.toml").write_text(toml)
        self.cli("apply", "-f", self.dir / "lab.toml")

    def cli(self, *words: object) -> str:
        """Runs ``quiver``."""
        return call(self.setup.binaries / "quiver", "--socket", self.dir / "api", *words)

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Memif sockets, or namespaces behind taps."""
        return self.taps.endpoints() if self.taps else super().endpoints()

    def down(self) -> None:
        """Ends it; its taps and namespaces go with it."""
        super().down()
        if self.taps:
            self.taps.remove_namespaces()

    def clear(self) -> None:
        """``quiver clear counters``."""
        self.cli("clear", "counters")

    def clocks(self) -> dict[str, float]:
        """Clocks per packet by node, over all workers."""
        totals: dict[str, list[int]] = {}
        for worker in json.loads(self.cli("show", "runtime", "-o", "json"))["workers"]:
            for node in worker.get("nodes", []):
                total = totals.setdefault(node["name"], [0, 0])
                total[0] += int(node.get("clocks", 0))
                total[1] += int(node.get("packets", 0))
        busiest = max((packets for _, packets in totals.values()), default=0)
        # What saw one packet in a thousand says nothing about the path that is measured.
        return {
            name: round(clocks / packets, 2) for name, (clocks, packets) in totals.items() if packets > busiest // 1000
        }

    def reconfigure(self) -> str:
        """Adds routes nobody sends to, in one batch, and takes them away again."""
        if self.suite.case.forwarding not in ("ip4", "ip6"):
            raise Unsupported("reconfiguration is measured by adding routes: choose a suite that routes")
        side = traffic.sides(self.suite.case.ipv6)[1]
        first = "2001:9::1" if self.suite.case.ipv6 else "30.0.0.1"
        grown = Addresses(side.device, side.peer, first, side.prefix)
        (self.dir / "growth.toml").write_text(routes(grown, GROWTH))
        self.cli("apply", "-f", self.dir / "growth.toml")
        self.cli("delete", "-f", self.dir / "growth.toml")
        return f"{GROWTH} routes added in one batch, and removed in one"

    def configuration(self) -> str:
        """The suite as desired state."""
        case = self.suite.case
        parts = []
        if case.forwarding == "l2bd":
            parts.append('[[bridge]]\nname = "bench"\n')
        left, right = traffic.sides(case.ipv6)
        macs = traffic.DEVICE_LEFT_MAC, traffic.DEVICE_RIGHT_MAC
        for name, other, side, mac in (("left", "right", left, macs[0]), ("right", "left", right, macs[1])):
            parts.append(self._interface(name, other, side, mac))
        if case.forwarding in ("ip4", "ip6") and not self.taps:
            peers = traffic.PEER_LEFT_MAC, traffic.PEER_RIGHT_MAC
            for name, side, mac in (("left", left, peers[0]), ("right", right, peers[1])):
                leg = f"{name}.{case.vlan}" if case.vlan else name
                parts.append(f'[[neighbor]]\ninterface = "{leg}"\naddress = "{side.peer}"\nmac = "{mac}"\n')
                parts.append(routes(side, case.routes))
        return "\n".join(parts)

    def _interface(self, name: str, other: str, side: Addresses, mac: str) -> str:
        case = self.suite.case
        jumbo = f"mtu = {JUMBO_MTU}\n" if self.suite.frame == "9000b" else ""
        port = self.taps.port(name) if self.taps else f'memif = {{ socket = "{self.dir}/{name}" }}'
        physical = f'[[interface]]\nname = "{name}"\nmac = "{mac}"\nrx_mode = "polling"\n{jumbo}{port}\n'
        role = {
            "l2xc": f'cross_connect = "{{}}{other}{{}}"\n',
            "l2bd": 'bridge = { name = "bench" }\n',
        }.get(case.forwarding, f'addresses = ["{side.device}/{side.prefix}"]\n')
        if case.vlan is None:
            return physical + role.replace("{}", "")
        sub = f'[[interface]]\nname = "{name}.{case.vlan}"\nvlan = {{ parent = "{name}", outer_id = {case.vlan} }}\n'
        return f"{physical}\n{sub}{role.replace('{}', '', 1).replace('{}', f'.{case.vlan}')}"


def routes(side: Addresses, count: int) -> str:
    """Host routes to what lies behind a peer."""
    hop = f'next_hops = [{{ address = "{side.peer}" }}]'
    return "".join(f'[[route]]\nprefix = "{prefix}"\n{hop}\n' for prefix in traffic.routes(side, count))
