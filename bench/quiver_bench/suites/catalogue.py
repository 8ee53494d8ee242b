"""All suites. A published name stays; what is measured under it doesn't change."""

from __future__ import annotations

import difflib

from quiver_bench.errors import BadInput
from quiver_bench.suites import hostile, pods, sessions, tables
from quiver_bench.suites.model import METHODS, Case, Suite, take_apart

_ALL = ("mrr", "ndrpdr", "soak")
_LARGE = ("64b", "1518b", "imix", "9000b")
#: What copies cost is looked at over these.
_SIZES = ("64b", "512b", "1518b", "4400b", "9000b")
_IP6 = ("78b", "1518b", "imix")

CORES = (1, 2, 4)


def _scales(version: int) -> list[Case]:
    """Routing over 2 × 10 000, 100 000 and a million host routes, in order and at random."""
    frames = ("64b", "1518b", "imix") if version == 4 else _IP6
    return [
        Case(
            f"ethip{version}-ip{version}scale{name}{'-rnd' if random else ''}",
            f"ip{version}",
            f"ip{version}",
            routes=routes,
            random=random,
            frames=frames,
        )
        for name, routes in (("20k", 10_000), ("200k", 100_000), ("2m", 1_000_000))
        for random in (False, True)
    ]


def _stations() -> list[Case]:
    """Bridges with 10 000, 100 000 and a million stations, half of them behind either port. Names are CSIT's."""
    return [
        Case(
            f"eth-l2bdscale{name}maclrn",
            "l2",
            "l2bd",
            stations=count // 2,
            random=True,
            both_ways=True,
            frames=("64b", "1518b"),
        )
        for name, count in (("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000))
    ]


def _chains() -> list[Case]:
    """Containers one after the other: chained through the device, and as a pipeline past it."""
    cases = []
    for count in (1, 2, 4):
        for short, layout in (("ch", "chain"), ("pl", "pipeline")):
            cases.append(
                Case(
                    f"eth-l2bd-1{short}-{2 * count}mif-{count}dcr1t-testpmd",
                    f"nfv_density-dcr_memif-{layout}",
                    "l2bd",
                    containers=count,
                    layout=layout,
                    both_ways=True,
                    frames=("64b", "1518b", "imix"),
                    tags=("NF_DENSITY", layout.upper()[:5], "1R1C", f"1R{count}C"),
                )
            )
    return cases


def _connections() -> list[Case]:
    """Connections through plain forwarding: what session features are to be held against. Names count clients and sessions."""
    cases = []
    for protocol in ("tcp", "udp"):
        for hosts in (1024, 16384, 262144):
            name = f"ethip4{protocol}-ip4base-h{hosts}-p63-s{hosts * 63}"
            for method, frames in (
                ("cps", ("64b",)),
                ("tput", ("100b", "1518b")),
                ("replay", ("64b", "100b", "1518b")),
            ):
                cases.append(
                    Case(
                        name,
                        "ip4",
                        "ip4",
                        protocol=protocol,
                        hosts=hosts,
                        methods=(method,),
                        frames=frames,
                        most_cores=2,
                    )
                )
    return cases


def _dma() -> list[Case]:
    """Bodies copied by a DMA engine: the frame sizes over which that is to be looked at."""
    return [
        Case(
            f"{name}-memif-dma",
            "memif_dma",
            forwarding,
            dma=True,
            frames=_SIZES,
            methods=("mrr", "ndrpdr"),
        )
        for name, forwarding in (("eth-l2xcbase", "l2xc"), ("ethip4-ip4base", "ip4"))
    ]


def _applications() -> list[Case]:
    """Programs written with a memif library: one thread, one direction."""
    return [
        Case(
            f"app-{what}",
            "memif_library",
            what,
            generator="one-end",
            most_cores=1,
            methods=("mrr",),
            frames=("64b", "1518b"),
        )
        for what in ("receive", "send")
    ]


def _internal() -> list[Case]:
    """Packets that the device's workers make and forget themselves: what one can't take from another over any port."""
    return [
        Case(
            name,
            "internal",
            forwarding,
            ("pg",),
            generator="internal",
            methods=("mrr",),
            frames=(least, "1518b", "imix"),
        )
        for name, forwarding, least in (
            ("eth-l2xcbase", "l2xc", "64b"),
            ("ethip4-ip4base", "ip4", "64b"),
            ("ethip6-ip6base", "ip6", "78b"),
        )
    ]


def _super_frames() -> list[Case]:
    """The kernel's own TCP between two taps, whose segments nobody cuts: of one connection and of eight."""
    return [
        Case(
            f"{name}-2tap-{'' if connections == 1 else f'{connections}tcp-'}gso-iperf3",
            "gso",
            forwarding,
            ("tap",),
            generator="iperf3",
            connections=connections,
            most_cores=1,
            methods=("mrr",),
            frames=("128kb",),
        )
        for connections in (1, 8)
        for name, forwarding in (("ethip4-ip4base", "ip4"), ("eth-l2bdbasemaclrn", "l2bd"))
    ]


#: What devices do with packets, by area.
CASES: tuple[Case, ...] = (
    Case("eth-l2xcbase", "l2", "l2xc", ("memif", "tap"), methods=_ALL, frames=_LARGE),
    Case("eth-l2bdbasemaclrn", "l2", "l2bd", ("memif", "tap"), methods=_ALL, frames=_LARGE, both_ways=True),
    *_stations(),
    Case("dot1q-l2xcbase", "l2", "l2xc", vlan=100),
    Case("dot1q-l2bdbasemaclrn", "l2", "l2bd", vlan=100, both_ways=True),
    Case("ethip4-ip4base", "ip4", "ip4", ("memif", "tap"), methods=(*_ALL, "reconf"), frames=_LARGE),
    # Sizes between those, over which copies are to be looked at.
    Case("ethip4-ip4base", "ip4", "ip4", methods=("mrr",), frames=tuple(size for size in _SIZES if size not in _LARGE)),
    Case("dot1q-ip4base", "ip4", "ip4", vlan=100),
    *_scales(4),
    Case("ethip4-ip4internet-rnd", "ip4", "ip4", table=tables.INTERNET4, random=True, frames=("64b",)),
    Case("ethip4-ip4internet-100nh-rnd", "ip4", "ip4", table=tables.INTERNET4_100, random=True, frames=("64b",)),
    Case("ethip4-ip4scattered2m-100nh-rnd", "ip4", "ip4", table=tables.SCATTERED4, random=True, frames=("64b",)),
    Case("ethip6-ip6base", "ip6", "ip6", ("memif", "tap"), methods=(*_ALL, "reconf"), frames=_IP6),
    *_scales(6),
    Case("ethip6-ip6internet-rnd", "ip6", "ip6", table=tables.INTERNET6, random=True, frames=("78b",)),
    *_connections(),
    *sessions.cases(),
    *_chains(),
    *_dma(),
    *_applications(),
    *_internal(),
    Case("ethip4-ip4base-100silent", "idle", "ip4", silent=100, most_cores=1, methods=("idle", "mrr"), frames=("64b",)),
    *_super_frames(),
    *pods.cases(),
    *hostile.cases(),
)


def suites() -> list[Suite]:
    """Every suite there is."""
    return [
        Suite(frame, cores, port, case, method)
        for case in CASES
        for port in case.ports
        for method in case.methods
        for frame in case.frames
        for cores in CORES
        if cores == 1 or (cores <= case.most_cores and frame != "9000b")
    ]


def find(name: str, method: str | None = None) -> Suite:
    """The suite of that name; ``method`` is put at the end of a name that has none.

    Raises :class:`BadInput` with the nearest names.
    """
    known = {suite.name: suite for suite in suites()}
    if name in known and (method is None or known[name].method == method):
        return known[name]
    parts = take_apart(name)
    if method and (parts is None or parts["method"] not in METHODS) and f"{name}-{method}" in known:
        return known[f"{name}-{method}"]
    if method and parts and f"{name.removesuffix(parts['method'])}{method}" in known:
        return known[f"{name.removesuffix(parts['method'])}{method}"]
    raise BadInput(f"there is no suite {name}{nearest(name)}. All of them: quiver-bench list")


def nearest(name: str, method: str | None = None) -> str:
    """For a message: the names of suites, of this method if one is given, that are nearest to a name or pattern that is none."""
    known = [suite.name for suite in suites() if method in (None, suite.method)]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return "; the nearest: " + ", ".join(near) if near else ""
