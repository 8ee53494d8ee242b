"""Suites of sessions: what following connections costs, beside the same traffic through plain forwarding.

Names are built as CSIT's of SFDP: hosts, ports of each, and sessions in all; ``session-l4`` is ``l4-lifecycle`` alone,
``session-tcp`` is ``tcp-check``.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

from quiver_bench.suites.model import Case
from quiver_bench.suites.traffic import RIGHT4

#: Addresses that translated sessions are seen with: of 2 million, each could have a port.
POOL = "198.18.0.0/27"
_POOL = f'[[nat_pool]]\nname = "bench"\naddresses = ["{POOL}"]\n'
#: For a million that begin: translated ports are even where the sender's is (RFC 4787, REQ-4), so half of the pool's are taken in the end.
_LARGER_POOL = _POOL.replace("/27", "/26")

#: Backends of the suites' VIPs, behind the right peer.
BACKENDS = [f"21.0.0.{host}" for host in range(1, 11)]
#: What has them all.
BACKENDS_PREFIX = "21.0.0.0/24"
_TO_BACKENDS = f'[[route]]\nprefix = "{BACKENDS_PREFIX}"\nnext_hops = [{{ address = "{RIGHT4.peer}" }}]\n'
#: The port of VIPs and backends: the generator's, unless it is told otherwise.
PORT = 9

#: Sessions of one direction are embryonic: these last for as long as trials and what lies between them, however few packets each has.
_LASTING = "timeouts = { embryonic_seconds = 3600 }\n"

#: Connections over and over: what is over makes room within a second, so that clients' ports can be used again.
_SHORT = "timeouts = { time_wait_seconds = 1 }\n"


def _both(services: str) -> str:
    return f"forward_services = [{services}]\nreverse_services = [{services}]\nmax_sessions = 16000000\n"


def _datagrams(name: str, hosts: int, sessions: str, tenant: str) -> Case:
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
        sessions=sessions,
        tenant=tenant,
    )


def _vips(addresses: list[str]) -> str:
    """A tenant whose sessions to these addresses are shared out among ten backends."""
    backends = ", ".join(f'{{ address = "{address}" }}' for address in BACKENDS)
    vips = "".join(
        f'[[vip]]\nname = "v{n}"\naddress = "{address}"\nport = {PORT}\nprotocol = "udp"\nbackends = [{backends}]\n'
        for n, address in enumerate(addresses)
    )
    return _both('"l4-lifecycle", "balance"') + vips + _TO_BACKENDS


def _balanced(vips: int) -> Case:
    """10000 sessions, of as many clients with one VIP, or of one client with as many VIPs."""
    name = "ethip4udp-balance"
    if vips == 1:
        one_vip = _datagrams(f"{name}-1vip", 10_000, "balance", _vips([RIGHT4.peer]))
        return replace(one_vip, vips=(RIGHT4.peer,))
    first = int(IPv4Address(RIGHT4.first))
    addresses = [str(IPv4Address(first + n)) for n in range(vips)]
    one_client = _datagrams(f"{name}-{vips // 1000}kvip", 1, "balance", _vips(addresses))
    return replace(one_client, name=f"{name}-{vips // 1000}kvip-h1-p1-s{vips}", routes=vips, vips=tuple(addresses))


def _ruled(rules: int) -> str:
    """A tenant whose sessions are asked about: each host of a network that nobody is in is denied, and the last rule lets all pass."""
    hosts = ((f"100.{64 + (n >> 16)}.{n >> 8 & 255}.{n & 255}", n % 60_000 + 1) for n in range(rules - 1))
    denied = "".join(
        f'{{ action = "deny", sources = ["{host}"], protocol = "udp", destination_ports = ["{port}"] }},\n'
        for host, port in hosts
    )
    services = _both('"l4-lifecycle", "acl"') + 'acls = ["bench"]\n'
    return f'{services}[[acl]]\nname = "bench"\nrules = [\n{denied}{{ action = "reflect" }},\n]\n'


def _many() -> Case:
    """Sixteen million sessions at once: all of them must be there after each trial."""
    hosts = 16_000_000
    lasting = _LASTING + _both('"l4-lifecycle"')
    return replace(_datagrams("ethip4udp-ip4base-session-l4", hosts, "lifecycle", lasting), held=hosts)


def _ip6(hosts: int) -> Case:
    """The same as with IPv4."""
    made = _datagrams("ethip6udp-ip6base-session-l4", hosts, "lifecycle", _both('"l4-lifecycle"'))
    return replace(made, forwarding="ip6session", frames=("78b",))


def _begun(name: str, hosts: int, sessions: str, tenant: str) -> Case:
    """Sessions that begin, one after the other, each with its only packet."""
    made = _datagrams(name, hosts, sessions, _LASTING + tenant)
    return replace(made, random=False, methods=("create",), held=hosts)


def _changed(name: str, hosts: int, tenant: str, change: str) -> Case:
    """A tenant that is changed while so many of its sessions are there."""
    made = _datagrams(name, hosts, "lifecycle", _LASTING + tenant)
    return replace(made, methods=("change",), change=_LASTING + change, held=hosts)


def _flooded(clients: int) -> Case:
    """So many TCP connections beside a flood, whose sessions find the quota used up and make room for each other."""
    quota = _both('"tcp-check"').replace("16000000", f"{10 * clients}")
    return Case(
        f"ethip4tcp-ip4base-session-tcp-h{clients}-p1-s{clients}",
        "session",
        "ip4session",
        generator="flood",
        hosts=clients,
        most_cores=1,
        methods=("flood",),
        frames=("64b",),
        sessions="tcp",
        tenant=quota,
        held=clients,
    )


def cases() -> list[Case]:
    """Datagrams that are followed, and such that are translated besides (named as CSIT's endpoint-dependent NAT44), balanced,
    or asked about by so many rules; whole lives of TCP connections; sessions that begin, that are changed, and that are flooded."""
    followed = _both('"l4-lifecycle"')
    translated = _both('"l4-lifecycle", "nat"') + 'nat_pool = "bench"\n' + _POOL
    flows = [
        *(_datagrams("ethip4udp-ip4base-session-l4", hosts, "lifecycle", followed) for hosts in (1, 10_000, 1_000_000)),
        *(_datagrams("ethip4udp-nat44ed", hosts, "nat", translated) for hosts in (1, 10_000, 500_000)),
        _many(),
        *(_ip6(hosts) for hosts in (10_000, 1_000_000)),
        _begun("ethip4udp-ip4base-session-l4", 1_000_000, "lifecycle", followed),
        _begun("ethip4udp-nat44ed", 1_000_000, "nat", translated.replace(_POOL, _LARGER_POOL)),
        _changed("ethip4udp-ip4base-session-chain", 1_000_000, followed, _both('"l4-lifecycle", "session-stats"')),
        _changed("ethip4udp-ip4base-session-policy", 1_000_000, _ruled(1), _ruled(2)),
        _flooded(100_000),
        *(_balanced(vips) for vips in (1, 10_000)),
        *(
            _datagrams(f"ethip4udp-acl-r{name}", 10_000, "acl", _ruled(rules))
            for name, rules in (("1", 1), ("10k", 10_000), ("100k", 100_000))
        ),
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
            sessions="tcp",
            tenant=_both('"tcp-check"') + _SHORT,
        )
        for hosts in (1024, 16384, 262144)
    ]
    return [*flows, *connections]
