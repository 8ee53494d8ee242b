"""Networks of pods, on a Kubernetes cluster of two nodes on this machine: Quiver, and what it is held against."""

from __future__ import annotations

import platform

from quiver_bench.devices.base import Device, Setup
from quiver_bench.devices.cluster import Cluster, cluster, kubernetes, require
from quiver_bench.devices.revision import told_by
from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.generators import Endpoint
from quiver_bench.suites import Suite
from quiver_bench.suites.pods import path_of

#: Where a pod's memif is asked for, in its own network.
MEMIF = "@vpp/memif-eth0"


class Pods(Device):
    """What carries packets between pods."""

    dut_type = "k8s"
    forwards = frozenset({"pods"})
    #: As the helper calls it.
    network = ""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        require()
        self.path = path_of(self.suite.case)
        self.cluster: Cluster | None = None

    def up(self) -> None:
        """Brings the cluster up, if it isn't."""
        self.cluster = cluster(self.network, self.setup.cores.workers, self.setup.binaries)
        if self.path.peer == "far":
            self.remarks = ["both nodes are on this machine, and share its cores"]

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """The pod that begins, and the other one, at its own address or that of its Service."""
        told = self._there().told
        guarded = "-guarded" if self.path.guarded else ""
        name = f"{self.path.peer}{guarded}"
        left, right = told.pods[f"client{guarded}"], told.pods[name]
        asked = told.services[name] if self.path.service else right.addresses
        kind, interface = ("memif", MEMIF) if self.suite.port == "podmemif" else ("netns", "eth0")
        return (
            Endpoint(kind, interface, left.netns, left.addresses[0]),
            Endpoint(kind, interface, right.netns, asked[0]),
        )

    def check_alive(self) -> None:
        """Raises :class:`TrialVoid`, with the log, if the cluster has ended."""
        if self.cluster is not None and not self.cluster.alive():
            raise TrialVoid(f"the cluster with {self.network} has ended", self.log())

    def pids(self) -> list[int]:
        """The dataplane's processes; none where it is the kernel."""
        return self.cluster.told.pids if self.cluster is not None else []

    def log(self) -> str:
        """What the helper said last."""
        return self.cluster.log() if self.cluster is not None else ""

    def _there(self) -> Cluster:
        if self.cluster is None:
            raise TrialVoid(f"the cluster with {self.network} isn't up")
        return self.cluster


class QuiverPods(Pods):
    """Quiver as it is installed by its manifest, with the suite's workers on each node."""

    name = "k8s-quiver"
    network = "quiver"
    ports = frozenset({"podtun", "podmemif"})
    ours = True
    note = "both nodes' workers have the same cores"

    def version(self) -> str:
        """As ``quiverd`` tells it."""
        version, commit = told_by(self.setup.binaries)
        return f"{version} (commit {commit}), Kubernetes {kubernetes()}"


class KubeProxyPods(Pods):
    """The kernel: a veth pair for each pod, routes between nodes, Services by kube-proxy."""

    name = "k8s-kube-proxy"
    network = "kube-proxy"
    ports = frozenset({"podtun"})
    note = "veth pairs (CNI plugin ptp), Services by nftables; works in the sender's time, on whatever core that is"

    @classmethod
    def require(cls, suite: Suite) -> None:
        """Kube-proxy has no policies, and neither has the plugin."""
        super().require(suite)
        if path_of(suite.case).guarded:
            raise Unsupported(f"{cls.name} has no NetworkPolicies, which {suite.name} is about")

    def version(self) -> str:
        """Of Kubernetes and the kernel."""
        return f"Kubernetes {kubernetes()}, Linux {platform.release()}"
