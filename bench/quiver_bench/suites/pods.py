"""Paths between pods of a Kubernetes cluster: on one node and across two, by the pod or its Service, with and without policies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from quiver_bench.suites.model import Case


@dataclass(frozen=True)
class Path:
    """From whom to whom, and how."""

    #: ``near``: a pod of the same node; ``far``: of the other one.
    peer: str
    #: The Service is asked, that has this pod only.
    service: bool = False
    #: Policies are for both pods, and let it pass.
    guarded: bool = False

    @property
    def name(self) -> str:
        """As suites' names have it."""
        return "-".join([self.peer, *["svc"] * self.service, *["np"] * self.guarded])


PATHS = tuple(Path(*of) for of in product(("near", "far"), (False, True), (False, True)))


def cases() -> list[Case]:
    """TCP of the kernels in pods through their eth0, and single packets between their memifs."""
    connections = [
        Case(
            f"ethip4-ip4pods-{path.name}-gso-iperf3",
            "k8s",
            "pods",
            ("podtun",),
            generator="iperf3",
            path=path.name,
            most_cores=1,
            methods=("mrr",),
            frames=("128kb",),
            tags=("K8S",),
        )
        for path in PATHS
    ]
    packets = [
        Case(
            f"ethip4-ip4pods-{path.name}",
            "k8s",
            "pods",
            ("podmemif",),
            path=path.name,
            most_cores=1,
            methods=("mrr", "ndrpdr"),
            frames=("64b", "1518b"),
            tags=("K8S",),
        )
        for path in PATHS
    ]
    return connections + packets


def path_of(case: Case) -> Path:
    """The path of a case that has one."""
    (found,) = [path for path in PATHS if path.name == case.path]
    return found
