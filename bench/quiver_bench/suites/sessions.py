"""Suites of sessions: what following connections costs, beside the same traffic through plain forwarding.

Names are built as CSIT's of SFDP: hosts, ports of each, and sessions in all; ``session-l4`` is ``l4-lifecycle`` alone.
There are none of whole TCP connections yet: the generator's connections begin with the same sequence numbers in each trial, which
``tcp-check`` refuses in time-wait, as hosts do (RFC 6191).
"""

from __future__ import annotations

from quiver_bench.suites.model import Case


def cases() -> list[Case]:
    """One direction of datagrams, each source a session, chosen at random."""
    return [
        Case(
            f"ethip4udp-ip4base-session-l4-h{hosts}-p1-s{hosts}",
            "session",
            "ip4session",
            random=True,
            most_cores=1,
            methods=("mrr",),
            frames=("64b",),
            flows=hosts,
            tenant='forward_services = ["l4-lifecycle"]\nreverse_services = ["l4-lifecycle"]\nmax_sessions = 16000000\n',
        )
        for hosts in (1, 10_000, 1_000_000)
    ]
