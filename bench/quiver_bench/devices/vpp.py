"""FD.io VPP, where a ``vpp`` program is given (``--vpp-bin``): configured by its command line, as memif server."""

from __future__ import annotations

import re
import shutil
from itertools import cycle
from pathlib import Path
from typing import ClassVar

from quiver_bench.devices import hostile, vpp_sessions
from quiver_bench.devices.base import Device, Setup, call
from quiver_bench.errors import Missing
from quiver_bench.machine import core_list, huge_pages_free
from quiver_bench.suites import Suite, traffic

#: Routes that a reconfiguration adds while packets flow.
GROWTH = 10_000

#: Memory for its tables, and huge pages of 2 MiB that it takes with it: for its buffers there must be some besides.
HEAP_GIB, HUGE_PAGES = 4, 2048 + 128

LEFT, RIGHT = "memif1/0", "memif2/0"


class Vpp(Device):
    """A vpp with workers on the given cores."""

    name = "vpp"
    dut_type = "vpp"
    forwards = frozenset({"l2xc", "l2bd", "ip4", "ip6", "ip4session"})
    hostile = frozenset({"memif"})
    note = "server of both memifs, so that it copies twice; as it was built by whoever gives it"
    _versions: ClassVar[dict[Path, str]] = {}

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.vpp is None:
            raise Missing("say where vpp is: --vpp-bin /usr/bin/vpp (packages: https://packagecloud.io/fdio)")
        if not setup.vpp.is_file():
            raise Missing(f"--vpp-bin {setup.vpp}: there is no such file")
        self.program = setup.vpp
        beside = self.program.with_name("vppctl")
        control = beside if beside.exists() else shutil.which("vppctl")
        if control is None:
            raise Missing(
                f"vppctl is missing beside {self.program} and on the path: it is of the same package, or build"
            )
        self.control = control

    @classmethod
    def require(cls, suite: Suite) -> None:
        """See :meth:`Device.require`."""
        super().require(suite)
        vpp_sessions.require(suite)

    def version(self) -> str:
        """As ``show version`` told when one was up."""
        return self._versions.get(self.program, "unknown")

    def up(self) -> None:
        """Writes its start-up configuration and commands, and starts it."""
        (self.dir / "setup.cli").write_text(
            "\n".join(commands(self.suite, self.dir, len(self.setup.cores.workers))) + "\n"
        )
        (self.dir / "startup.conf").write_text(self.startup())
        self.start(self.program, "-c", self.dir / "startup.conf")
        self.wait_for("memif socket", (self.dir / "right").exists)
        self.wait_for("command line", (self.dir / "cli.sock").exists)
        # It answers when the commands it was started with are through.
        shown = re.search(r"v\d\S*", self.ctl("show", "version"))
        self._versions[self.program] = shown[0] if shown else "unknown"

    def startup(self) -> str:
        """``startup.conf``: main thread beside the generator, which needs it only between trials."""
        cores = self.setup.cores
        # Its tables lie on the heap.
        huge = " main-heap-page-size default-hugepage" if huge_pages_free() >= HUGE_PAGES else ""
        self.remarks = (
            [] if huge else [f"fewer than {HUGE_PAGES} huge pages of 2 MiB were free: its tables lay on pages of 4 KiB"]
        )
        plugins = " ".join(
            f"plugin {name} {{ enable }}" for name in ("memif_plugin.so", *vpp_sessions.plugins(self.suite))
        )
        return (
            f"unix {{ nodaemon cli-listen {self.dir}/cli.sock exec {self.dir}/setup.cli log {self.dir}/vpp.log "
            f"runtime-dir {self.dir} }}\n"
            f"cpu {{ main-core {cores.generator} corelist-workers {core_list(cores.workers)} }}\n"
            f"api-segment {{ prefix {self.dir.name} }}\nsocksvr {{ socket-name {self.dir}/api.sock }}\n"
            f"statseg {{ socket-name {self.dir}/stats.sock size 512M }}\n"
            f"memory {{ main-heap-size {HEAP_GIB}G{huge} }}\nbuffers {{ buffers-per-numa 32768 }}\n"
            f"plugins {{ plugin default {{ disable }} {plugins} }}\n{vpp_sessions.startup(self.suite)}"
        )

    def ctl(self, *words: str) -> str:
        """Runs a command of its command line."""
        return call(self.control, "-s", self.dir / "cli.sock", *words)

    def clear(self) -> None:
        """``clear runtime``."""
        self.ctl("clear", "runtime")

    def clocks(self) -> dict[str, float]:
        """Clocks per packet of the nodes that saw packets."""
        return clocks(self.ctl("show", "runtime"))

    def reconfigure(self) -> str:
        """Adds routes nobody sends to, and takes them away again."""
        case = self.suite.case
        peer = traffic.sides(case.ipv6)[1].peer
        first, bits = ("2001:9::1", 128) if case.ipv6 else ("30.0.0.1", 32)
        for verb in ("add", "del"):
            self.ctl("ip", "route", verb, "count", str(GROWTH), f"{first}/{bits}", "via", peer, RIGHT)
        return f"{GROWTH} routes added, and removed"


def commands(suite: Suite, directory: Path, queues: int) -> list[str]:
    """What brings the suite about on VPP's command line."""
    case = suite.case
    lines = []
    ends = (("1", "left", LEFT, traffic.DEVICE_LEFT_MAC), ("2", "right", RIGHT, traffic.DEVICE_RIGHT_MAC))
    for number, name, interface, mac in ends:
        lines += [
            f"create memif socket id {number} filename {directory}/{name}",
            f"create interface memif id 0 socket-id {number} master rx-queues {queues} tx-queues {queues} "
            f"hw-addr {mac} no-zero-copy",
            *([f"set interface mtu packet 9000 {interface}"] if suite.jumbo else []),
            # Queues come with a client, and are dealt out to workers in turn: there is nothing to place yet.
            f"set interface state {interface} up",
        ]
        if case.vlan:
            lines += [
                f"create sub-interfaces {interface} {case.vlan}",
                f"set interface state {interface}.{case.vlan} up",
            ]
            if case.forwarding in ("l2xc", "l2bd"):
                lines.append(f"set interface l2 tag-rewrite {interface}.{case.vlan} pop 1")
    suffix = f".{case.vlan}" if case.vlan else ""
    legs = LEFT + suffix, RIGHT + suffix
    if case.forwarding == "l2xc":
        return [
            *lines,
            f"set interface l2 xconnect {legs[0]} {legs[1]}",
            f"set interface l2 xconnect {legs[1]} {legs[0]}",
        ]
    if case.forwarding == "l2bd":
        return [*lines, "create bridge-domain 1", *(f"set interface l2 bridge {leg} 1" for leg in legs)]
    bits = 128 if case.ipv6 else 32
    peers = traffic.PEER_LEFT_MAC, traffic.PEER_RIGHT_MAC
    # Tables of a million it counts up itself. VIPs have no routes besides.
    routes = 1 if case.vips else case.routes
    networks = suite.traffic.prefixes if case.routes == 1 else ([], [])
    for leg, side, mac, behind in zip(legs, traffic.sides(case.ipv6), peers, networks, strict=True):
        routers = side.routers(suite.traffic.next_hops if behind else 1)
        lines += [
            f"set interface ip address {leg} {side.device}/{side.prefix}",
            *(f"set ip neighbor {leg} {router} {mac} static" for router in routers),
        ]
        if routes > 1:
            lines.append(f"ip route add count {routes} {side.first}/{bits} via {side.peer} {leg}")
        else:
            in_turn = zip(behind, cycle(routers), strict=False)
            lines += [f"ip route add {prefix} via {router} {leg}" for prefix, router in in_turn]
    if case.attack:
        lines += hostile.vpp_memifs(directory)
    return [*lines, *vpp_sessions.commands(suite, *legs, traffic.sides(case.ipv6)[1].peer)]


def clocks(runtime: str) -> dict[str, float]:
    """Clocks per packet from ``show runtime``, over all threads: name, state, calls, vectors, suspends, clocks, vectors per call."""
    totals: dict[str, tuple[int, float]] = {}
    # Of any state: an input is disabled once the other side has gone.
    row = re.compile(r"^(\S+) +(\S.*?) +(\d+) +(\d+) +(\d+) +([\d.e+-]+) +([\d.]+) *$", re.MULTILINE)
    for name, _, _, vectors, _, clock, _ in row.findall(runtime):
        packets, clocks = totals.get(name, (0, 0.0))
        totals[name] = packets + int(vectors), clocks + int(vectors) * float(clock)
    return {name: round(clocks / packets, 2) for name, (packets, clocks) in totals.items() if packets > 1000}
