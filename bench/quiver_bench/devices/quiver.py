"""Quiver: a quiverd with workers on the given cores, configured by ``quiver apply``."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

from quiver_bench.devices import containers, copying, hostile, metrics
from quiver_bench.devices.base import Device, Setup, Vitals, call
from quiver_bench.devices.hostile import HostilePods
from quiver_bench.devices.revision import told_by
from quiver_bench.devices.taps import SilentTaps, TapPair
from quiver_bench.errors import Missing, Unsupported
from quiver_bench.generators import Endpoint
from quiver_bench.generators.internal import IDLE_PPS
from quiver_bench.machine import core_list
from quiver_bench.suites import flooding, traffic
from quiver_bench.suites.traffic import Addresses

#: Largest frame on a memif or tap of ours, without Ethernet header.
JUMBO_MTU = 9000

#: Kinds of forwarding by addresses.
ROUTED = ("ip4", "ip6", "ip4session", "ip6session")

#: Routes that a reconfiguration adds while packets flow.
GROWTH = 10_000


class Quiver(Device):
    """As built in this checkout, or at a commit."""

    name = "quiver"
    dut_type = "quiver"
    forwards = frozenset({"l2xc", "l2bd", *ROUTED})
    ports = frozenset({"memif", "tap", "pg"})
    chains = True
    floods = True
    hostile = frozenset({"memif", "tap"})
    changes = True
    dma = True
    ours = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        #: The tenant as it is now, and microseconds that the last change of it took to reach all sessions.
        self.tenant = self.suite.case.tenant
        self.revisit_us: float | None = None
        self.taps = TapPair(self.suite) if self.suite.port == "tap" else None
        self.hostile_pods = HostilePods(self.suite, self.taps.left) if self.taps and self.suite.case.attack else None
        self.silent = SilentTaps(self.suite.case.silent) if self.suite.case.silent else None
        if self.suite.case.containers:
            containers.require()
        for program in ("quiverd", "quiver"):
            if not (setup.binaries / program).exists():
                raise Missing(f"{setup.binaries / program} is missing: make build, or set QUIVER_BIN to where it is")

    def version(self) -> str:
        """As ``quiverd`` tells it."""
        version, commit = told_by(self.setup.binaries)
        return f"{version} (commit {commit})" if commit else version

    def up(self) -> None:
        """Starts it and applies the suite's configuration."""
        if self.taps:
            self.taps.make_namespaces()
        if self.hostile_pods:
            self.hostile_pods.make_namespaces()
        if self.silent:
            self.silent.make_namespace()
        workers = ", ".join(map(str, self.setup.cores.workers))
        (self.dir / "quiverd.toml").write_text(
            f'[api]\nsocket = "{self.dir}/api"\n[state]\ndirectory = "{self.dir}/state"\n'
            f'[metrics]\nlisten = "{f"unix:{self.dir}/metrics" if self.suite.case.change else "off"}"\n[workers]\ncores = [{workers}]\n'
            f"{copying.settings() if self.suite.case.dma else ''}"
        )
        self.start(self.setup.binaries / "quiverd", "--config", self.dir / "quiverd.toml")
        self.wait_for("API socket", (self.dir / "api").exists)
        self.apply(self.configuration())
        if self.taps:
            self.taps.settle()
            if self.hostile_pods:
                self.hostile_pods.settle()
        elif self.suite.port == "memif":
            self.wait_for("memif socket", (self.dir / "right").exists)
        self.step_aside()
        if self.suite.case.containers:
            self.start_containers()

    def start_containers(self) -> None:
        """What packets pass through besides: clients of its sockets."""
        containers.start(self)

    def apply(self, toml: str) -> None:
        """``quiver apply``, all of which must be accepted."""
        (self.dir / "lab.toml").write_text(toml)
        # Millions of routes take minutes on a busy machine.
        call(*self._client, "apply", "-f", self.dir / "lab.toml", timeout=1800)

    def step_aside(self) -> None:
        """Keeps its threads that aren't workers off the workers' cores, as DPDK does with its main thread."""
        for process in self.processes:
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    if len(os.sched_getaffinity(int(task.name))) > 1:
                        os.sched_setaffinity(int(task.name), self.setup.cores.aside)

    @property
    def _client(self) -> tuple[object, ...]:
        return self.setup.binaries / "quiver", "--socket", self.dir / "api"

    def cli(self, *words: object) -> str:
        """Runs ``quiver``, where it takes no time from a worker."""
        return call("taskset", "--cpu-list", core_list(self.setup.cores.aside), *self._client, *words)

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Memif sockets, namespaces behind taps, or the API behind which packets are made."""
        if self.suite.port == "pg":
            return Endpoint("api", str(self.dir / "api")), Endpoint("api", str(self.dir / "api"))
        return self.taps.endpoints() if self.taps else super().endpoints()

    def down(self) -> None:
        """Ends it; its taps and namespaces go with it."""
        with contextlib.ExitStack() as steps:  # each, whatever becomes of the others
            if self.silent:
                steps.callback(self.silent.remove_namespace)
            if self.hostile_pods:
                steps.callback(self.hostile_pods.remove_namespaces)
            if self.taps:
                steps.callback(self.taps.remove_namespaces)
            super().down()

    def clear(self) -> None:
        """``quiver clear counters``."""
        self.cli("clear", "counters")

    def vitals(self) -> Vitals:
        """See :meth:`~quiver_bench.devices.base.Device.vitals`."""
        rounds = [worker.get("longest_round_microseconds") for worker in self._workers()]
        longest = max((microseconds for microseconds in rounds if microseconds is not None), default=None)
        sessions = None
        if self.tenant:
            tenants = json.loads(self.cli("show", "tenant", "-o", "json")).get("tenants", [])
            sessions = sum(int(tenant.get("sessions", 0)) for tenant in tenants)
        return replace(super().vitals(), longest_round_us=longest, sessions=sessions, revisit_us=self.revisit_us)

    def forget(self) -> None:
        """``quiver clear session``."""
        self.cli("clear", "session")

    def _workers(self) -> list[dict[str, Any]]:
        return list(json.loads(self.cli("show", "runtime", "-o", "json"))["workers"])

    def clocks(self) -> dict[str, float]:
        """Clocks per packet by node, over all workers."""
        totals: dict[str, list[int]] = {}
        for worker in self._workers():
            for node in worker.get("nodes", []):
                total = totals.setdefault(node["name"], [0, 0])
                total[0] += int(node.get("clocks", 0))
                total[1] += int(node.get("packets", 0))
        busiest = max((packets for _, packets in totals.values()), default=0)
        # What saw one packet in a thousand says nothing about the path that is measured.
        return {
            name: round(clocks / packets, 2) for name, (clocks, packets) in totals.items() if packets > busiest // 1000
        }

    def poll(self) -> None:
        """The two memifs in polling mode: that keeps the worker awake."""
        self.apply(self.configuration().replace('rx_mode = "adaptive"', 'rx_mode = "polling"'))

    def reconfigure(self) -> str:
        """Adds routes nobody sends to, in one batch, and takes them away again; or changes the tenant, where the suite says how."""
        if self.suite.method == "change":
            return self._change_tenant()
        if self.suite.case.forwarding not in ROUTED:
            raise Unsupported("reconfiguration is measured by adding routes: choose a suite that routes")
        side = traffic.sides(self.suite.case.ipv6)[1]
        first = "2001:9::1" if self.suite.case.ipv6 else "30.0.0.1"
        grown = Addresses(side.device, side.peer, first, side.prefix)
        (self.dir / "growth.toml").write_text(routes(grown, traffic.routes(grown, GROWTH)))
        self.cli("apply", "-f", self.dir / "growth.toml")
        self.cli("delete", "-f", self.dir / "growth.toml")
        return f"{GROWTH} routes added in one batch, and removed in one"

    def _change_tenant(self) -> str:
        """To the other of its two forms, until all workers have looked through their sessions."""
        case = self.suite.case
        self.tenant = case.change if self.tenant == case.tenant else case.tenant
        (self.dir / "change.toml").write_text(self._sessions())
        before = self._revisits()
        self.cli("apply", "-f", self.dir / "change.toml")
        workers = len(self.setup.cores.workers)
        self.wait_for("look through all sessions", lambda: self._revisits()[0] >= before[0] + workers)
        after = self._revisits()
        # Each worker has its own sessions; they look through them at the same time.
        self.revisit_us = (after[1] - before[1]) / workers
        return f"the tenant changed, all sessions looked through in {self.revisit_us / 1e3:.1f} ms"

    def _revisits(self) -> tuple[float, float]:
        """How many times workers have looked through all their sessions, and microseconds that it took."""
        events = metrics.read(self.dir / "metrics")
        times, microseconds = (
            events.get(f'quiver_node_events_total{{node="session-expire",event="{event}"}}', 0.0)
            for event in ("revisits", "revisit-microseconds")
        )
        return times, microseconds

    def _sessions(self) -> str:
        """Whose sessions are followed, and how."""
        flood = self.suite.case.generator == "flood"
        inside, outside = (["left", "flood"], ["right", "void"]) if flood else (["left"], ["right"])
        ends = f"interfaces = {json.dumps(inside)}\noutside_interfaces = {json.dumps(outside)}"
        return f'[[tenant]]\nname = "bench"\n{ends}\n{self.tenant}'

    def _flood(self) -> str:
        """Where a flood comes in, and where it goes: packets to its destinations are forgotten."""
        ports = ("flood", self.memif("flood")), ("void", "sink = {}")
        parts = [
            f'[[interface]]\nname = "{name}"\nmac = "{mac}"\nrx_mode = "polling"\naddresses = ["{side.device}/{side.prefix}"]\n{port}\n'
            for (name, port), mac, side in zip(ports, flooding.MACS, flooding.SIDES, strict=True)
        ]
        void = flooding.SIDES[1]
        parts.append(f'[[neighbor]]\ninterface = "void"\naddress = "{void.peer}"\nmac = "{traffic.PEER_RIGHT_MAC}"\n')
        parts.append(routes(traffic.LEFT4, [traffic.CLIENTS]) + routes(void, [flooding.DESTINATIONS]))
        return "\n".join(parts)

    def configuration(self) -> str:
        """The suite as desired state."""
        case = self.suite.case
        pairs = containers.legs(case)
        # Above the default of 65 536 stations it must be said.
        limit = f"learn_limit = {2 * case.stations}\n" if case.stations > 1 else ""
        parts = [f'[[bridge]]\nname = "bench{n}"\n{limit}' for n in range(len(pairs)) if case.forwarding == "l2bd"]
        for number, (left, right) in enumerate(pairs):
            parts.append(self._interface(left, right, number))
            parts.append(self._interface(right, left, number))
        if case.forwarding in ROUTED and not (self.taps and self.taps.addressed):
            peers = traffic.PEER_LEFT_MAC, traffic.PEER_RIGHT_MAC
            ends = zip(("left", "right"), traffic.sides(case.ipv6), peers, self.suite.traffic.prefixes, strict=True)
            for name, side, mac, prefixes in ends:
                leg = f"{name}.{case.vlan}" if case.vlan else name
                routers = side.routers(self.suite.traffic.next_hops if prefixes else 1)
                parts += [f'[[neighbor]]\ninterface = "{leg}"\naddress = "{one}"\nmac = "{mac}"\n' for one in routers]
                parts.append(routes(side, prefixes, len(routers)))
        if self.silent:
            parts += self.silent.ports()
        if case.generator == "flood":
            parts.append(self._flood())
        if case.attack:
            parts.append(self.hostile_pods.quiver() if self.hostile_pods else hostile.quiver_memifs(self.memif))
        if self.tenant:
            parts.append(self._sessions())
        return "\n".join(parts)

    def _interface(self, name: str, other: str, number: int) -> str:
        """A port that packets go from to another, and what is done with them."""
        case = self.suite.case
        side = traffic.sides(case.ipv6)[name == "right"]
        own = {"left": traffic.DEVICE_LEFT_MAC, "right": traffic.DEVICE_RIGHT_MAC}.get(name)
        mac = f'mac = "{own}"\n' if own else ""
        jumbo = f"mtu = {JUMBO_MTU}\n" if self.suite.jumbo else ""
        if self.suite.port == "pg":
            port = self._generator() if name == "left" else "sink = {}"
        else:
            port = self.taps.port(name) if self.taps else self.memif(name)
        # Workers that make packets themselves may have all cores: between trials, when distances are measured, they sleep.
        mode = "adaptive" if self.suite.port == "pg" or self.suite.method in ("idle", "hostile") else "polling"
        physical = f'[[interface]]\nname = "{name}"\n{mac}rx_mode = "{mode}"\n{jumbo}{port}\n'
        role = {
            "l2xc": f'cross_connect = "{{}}{other}{{}}"\n',
            "l2bd": f'bridge = {{ name = "bench{number}" }}\n',
        }.get(case.forwarding, f'addresses = ["{side.device}/{side.prefix}"]\n')
        if case.vlan is None:
            return physical + role.replace("{}", "")
        sub = (
            f'[[interface]]\nname = "{name}.{case.vlan}"\n{mac}vlan = {{ parent = "{name}", outer_id = {case.vlan} }}\n'
        )
        return f"{physical}\n{sub}{role.replace('{}', '', 1).replace('{}', f'.{case.vlan}')}"

    def memif(self, name: str) -> str:
        """A memif port: a server with a queue for each worker."""
        queues = len(self.setup.cores.workers)
        many = f", rx_queues = {queues}, tx_queues = {queues}" if queues > 1 else ""
        return f'memif = {{ socket = "{self.dir}/{name}"{many} }}'

    def _generator(self) -> str:
        """What makes packets: one stream for each worker, next to none until it is told to go."""
        sent, queues = self.suite.traffic, len(self.setup.cores.workers)
        return (
            f'generator = {{ source_address = "{sent.source}", destination_address = "{sent.destination}", '
            f"frame_sizes = {list(sent.pattern)}, rate = {IDLE_PPS}, rx_queues = {queues} }}"
        )


def routes(side: Addresses, prefixes: list[str], next_hops: int = 1) -> str:
    """Routes to what lies behind a peer, or behind that and others beside it in turn."""
    hops = [f'next_hops = [{{ address = "{router}" }}]' for router in side.routers(next_hops)]
    return "".join(
        f'[[route]]\nprefix = "{prefix}"\n{hop}\n' for prefix, hop in zip(prefixes, cycle(hops), strict=False)
    )
