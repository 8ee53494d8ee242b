"""VPP's sessions: SFDP's services, endpoint-dependent NAT44 and cnat, by VPP's command line."""

from __future__ import annotations

from ipaddress import IPv4Network

from quiver_bench.errors import Unsupported
from quiver_bench.suites import Suite
from quiver_bench.suites.sessions import BACKENDS, BACKENDS_PREFIX, POOL, PORT

#: The plugin for each kind of session, and its services where these are SFDP's.
_PLUGINS = {
    "lifecycle": "sfdp_services_plugin.so",
    "tcp": "sfdp_services_plugin.so",
    "nat": "nat_plugin.so",
    "balance": "cnat_plugin.so",
}
_SERVICES = {"lifecycle": "sfdp-l4-lifecycle", "tcp": "sfdp-l4-lifecycle sfdp-tcp-check"}


def require(suite: Suite) -> None:
    """Raises :class:`Unsupported` where VPP has nothing like it, or isn't set up for it."""
    kind = suite.case.sessions
    if kind and kind not in _PLUGINS:
        raise Unsupported(f"vpp isn't set up for sessions that are asked about by {kind}, which {suite.name} is about")


def _sessions(suite: Suite) -> int:
    """How many there are at once: of each connection one is about to be forgotten while the next one is there."""
    case, conversations = suite.case, suite.traffic.conversations
    return 2 * conversations.sessions if conversations else max(case.flows, case.routes)


def plugins(suite: Suite) -> list[str]:
    """What is loaded for them."""
    return [_PLUGINS[suite.case.sessions]] if suite.case.sessions else []


def startup(suite: Suite) -> str:
    """What ``startup.conf`` needs for them: for SFDP a table that is large enough, VPP's default at least."""
    kind = suite.case.sessions
    if kind not in _SERVICES:
        return ""
    return f"sfdp {{ sessions-log2 {max(19, min(24, _sessions(suite).bit_length()))} }}\n"


def commands(suite: Suite, left: str, right: str, peer: str) -> list[str]:
    """What brings them about between two interfaces that forward already. ``peer``: the next hop on the right."""
    case = suite.case
    if case.sessions in _SERVICES:
        services = f"{_SERVICES[case.sessions]} ip4-lookup"
        return [
            "sfdp tenant add 1 context 1",
            f"set sfdp services tenant 1 {services} forward",
            f"set sfdp services tenant 1 {services} reverse",
            f"set sfdp interface-input {left} tenant 1",
            f"set sfdp interface-input {right} tenant 1",
        ]
    if case.sessions == "nat":
        pool = IPv4Network(POOL)
        return [
            f"nat44 plugin enable sessions {max(65_536, 2 * _sessions(suite))}",
            f"nat44 add address {pool[0]} - {pool[-1]}",
            f"set interface nat44 in {left} out {right}",
        ]
    if case.sessions == "balance":
        backends = " ".join(f"to ->{backend} {PORT}" for backend in BACKENDS)
        return [
            f"ip route add {BACKENDS_PREFIX} via {peer} {right}",
            *(f"cnat translation add proto UDP vip {vip} {PORT} {backends} maglev" for vip in case.vips),
            f"set cnat feature {left} enable",
            f"set cnat feature {right} enable",
        ]
    return []
