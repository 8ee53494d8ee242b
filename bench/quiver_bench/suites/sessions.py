"""Suites of sessions: what following connections costs, beside the same traffic through plain forwarding.

Names are built as CSIT's of SFDP: hosts, ports of each, and sessions in all; ``session-l4`` is ``l4-lifecycle`` alone,
``session-tcp`` is ``tcp-check``.
"""

from __future__ import annotations

from quiver_bench.suites.model import Case

#: Connections over and over: what is over makes room within a second, so that clients' ports can be used again.
_SHORT = "timeouts = { time_wait_seconds = 1 }\n"


def cases() -> list[Case]:
    """One direction of datagrams, each source a session, chosen at random; and whole lives of TCP connections."""
    flows = [
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
            tenant='forward_services = ["tcp-check"]\nreverse_services = ["tcp-check"]\n'
            f"max_sessions = 16000000\n{_SHORT}",
        )
        for hosts in (1024, 16384, 262144)
    ]
    return [*flows, *connections]
