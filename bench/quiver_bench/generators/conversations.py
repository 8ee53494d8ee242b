"""quiver-tgen's connections: ``stateful``, with clients and servers that keep state, and ``replay``, without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quiver_bench.errors import Unsupported
from quiver_bench.generators.base import Endpoint, Load, TrialOutput
from quiver_bench.generators.tgen import Program, interface
from quiver_bench.machine import Cores
from quiver_bench.suites.traffic import (
    DEVICE_LEFT_MAC,
    DEVICE_RIGHT_MAC,
    PEER_LEFT_MAC,
    PEER_RIGHT_MAC,
    Conversations,
    Traffic,
)

#: Connections at a time. Each has at most one packet under way, so they fit into the rings (1024): with more, rings overflow by
#: themselves, and who lost a packet waits a second to send it again.
CONCURRENT = 512

#: Seconds that connections still open may take to end.
DRAIN_S = 0.5


class Conversing(Program):
    """quiver-tgen, clients on the left and servers on the right."""

    def command(
        self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint] | None, cores: Cores, load: Load
    ) -> list[str]:
        """See :meth:`~quiver_bench.generators.tgen.Program.command`. A rate is one of connections."""
        made = _conversations(traffic)
        words: list[object] = [self.program, "replay" if made.replay else "stateful"]
        if endpoints is None:
            words += ["--loop"]
        for side, endpoint in zip(("client", "server"), endpoints or (), strict=False):
            words += [f"--{side}-interface", interface(endpoint)]
            words += [f"--{side}-netns", endpoint.netns] if endpoint.netns else []
        words += [
            "--profile",
            f"{made.protocol}-{made.kind}",
            "--seconds",
            f"{load.seconds:g}",
            "--drain",
            f"{DRAIN_S:g}",
        ]
        words += ["--clients", made.clients, "--servers", made.servers]
        words += ["--core", cores.generator, "--client-mac", PEER_LEFT_MAC, "--server-mac", PEER_RIGHT_MAC]
        words += ["--client-next-hop", DEVICE_LEFT_MAC, "--server-next-hop", DEVICE_RIGHT_MAC]
        if (made.protocol, made.kind) != ("tcp", "cps"):  # whose packets carry nothing
            words += ["--frame-size", round(traffic.mean_size)]
        words += [] if made.replay else ["--concurrent", min(CONCURRENT, made.sessions)]
        words += ["--rate", f"{load.rate_pps:.3f}"] if load.rate_pps else []
        return [str(word) for word in [*words, "--output", "json"]]

    def read(self, report: dict[str, Any], traffic: Traffic) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.tgen.Program.read`."""
        made = _conversations(traffic)
        return replayed(report) if made.replay else conversed(report, made.kind)


def _conversations(traffic: Traffic) -> Conversations:
    if traffic.conversations is None:
        raise Unsupported("there are no connections in this traffic")
    return traffic.conversations


def conversed(report: dict[str, Any], kind: str) -> TrialOutput:
    """A trial's output from the JSON of ``stateful``: connections of ``cps``, packets of ``tput``."""
    client, server = report["client"], report["server"]
    links = report["client_link"], report["server_link"]
    foreign = sum(link["other"] + link["malformed"] + link["foreign"] for link in links)
    corrupted = sum(link["bad_checksum"] for link in links)
    sent, received = (sum(link[f"{way}_packets"] for link in links) for way in ("tx", "rx"))
    received -= foreign + corrupted
    found = TrialOutput(
        sent=sent,
        received=received,
        # What never came had to be sent again; what was sent last may have been under way at the end.
        lost=max(0, sent - received),
        seconds=report["seconds"],
        rate_pps=report["received_pps"],
        rate_bps=report["goodput_bps"] or None,  # whose packets carry nothing
        untaken=sum(link["receive_drops"] or 0 for link in links),
        longest_stall_s=report["longest_stall_ns"] / 1e9,
        corrupted=corrupted,
        foreign=foreign,
        connections={
            "attempted": client["attempted"],
            "established": client["established"],
            "closed": client["closed"],
            "failed": sum(client["failed"].values()),
            "retransmitted": client["retransmitted"] + server["retransmitted"],
            "connect_latency_us_50": _median_us(report["connect_latency_ns"]),
        },
    )
    return replace(found, rate_pps=report["established_per_second"]) if kind == "cps" else found


def _median_us(latency: dict[str, Any] | None) -> float | None:
    """Microseconds; None where nothing was measured."""
    return dict(map(tuple, latency["percentiles"]))[50.0] / 1e3 if latency else None


def replayed(report: dict[str, Any]) -> TrialOutput:
    """A trial's output from the JSON of ``replay``, which counts no bits."""
    return TrialOutput(
        sent=report["sent"],
        received=report["received"],
        lost=report["lost"],
        seconds=report["seconds"],
        rate_pps=report["received_pps"],
        rate_bps=None,
        untaken=report["receive_drops"] or 0,
        foreign=report["other"],
    )
