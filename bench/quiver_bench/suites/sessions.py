"""Suites of sessions: what following connections costs, beside the same traffic through plain forwarding.

Names are built as CSIT's of SFDP: hosts, ports of each, and sessions in all; ``session-l4`` is ``l4-lifecycle`` alone,
``session-tcp`` is ``tcp-check``.
"""

from __future__ import annotations

from quiver_bench.suites.model import Case

#: Addresses that translated sessions are seen with: of 2 million, each could have a port.
POOL = '[[nat_pool]]\nname = "bench"\naddresses = ["198.18.0.0/27"]\n'

#: Connections over and over: what is over makes room within a second, so that clients' ports can be used again.
_SHORT = "timeouts = { time_wait_seconds = 1 }\n"


def _both(services: str) -> str:
    return f"forward_services = [{services}]\nreverse_services = [{services}]\nmax_sessions = 16000000\n"


def _datagrams(name: str, hosts: int, tenant: str) -> Case:
    """One direction of datagrams, each source a session, chosen at random."""
    return Case(
        f"{name}-h{hosts}-p1-s{hosts}",
        "session",
        "ip4session",
        random=True,
        most_cores=1,
        methods=("mrr",),
        frames=("64b",),
        flows=hosts,
        tenant=tenant,
    )


def cases() -> list[Case]:
    """Datagrams that are followed, and such that are translated besides (named as CSIT's endpoint-dependent NAT44); whole lives of TCP
    connections."""
    followed = _both('"l4-lifecycle"')
    translated = _both('"l4-lifecycle", "nat"') + 'nat_pool = "bench"\n' + POOL
    flows = [
        *(_datagrams("ethip4udp-ip4base-session-l4", hosts, followed) for hosts in (1, 10_000, 1_000_000)),
        *(_datagrams("ethip4udp-nat44ed", hosts, translated) for hosts in (1, 10_000, 500_000)),
    ]
    connections = [
        Case(
            f"ethip4tcp-ip4base-session-tcp-h{hosts}-p63-s{hosts * 63}",
            "session",
            "ip4session",
            protocol="tcp",
            hosts=hosts,
            most_cores=1,
            methods=("cps", "replay"),
            frames=("64b",),
            tenant=_both('"tcp-check"') + _SHORT,
        )
        for hosts in (1024, 16384, 262144)
    ]
    return [*flows, *connections]
