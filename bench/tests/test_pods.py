"""Paths between pods: names, what the cluster's helper says, end points, command lines. A real trial is in tests/cluster."""

import itertools
import json
import os
import time
from dataclasses import replace

import pytest

from quiver_bench.devices import Setup, cluster
from quiver_bench.devices.cluster import Cluster, Pod, Told
from quiver_bench.devices.pods import KubeProxyPods, QuiverPods
from quiver_bench.errors import Missing, TrialVoid, Unsupported
from quiver_bench.generators import BetweenPods, Endpoint, Iperf3, Load, iperf3
from quiver_bench.machine import Cores
from quiver_bench.suites import find, suites
from quiver_bench.suites.pods import PATHS, path_of
from quiver_bench.trial import generator_for

CORES = Cores(0, (1,))
PODS = {
    name: Pod(f"qb-{name}", [f"10.244.{int('far' in name)}.{at}", f"fd00::{at}"])
    for at, name in enumerate(("client", "near", "far", "client-guarded", "near-guarded", "far-guarded"), 2)
}
SERVICES = {name: [f"10.96.0.{at}", f"fd01::{at}"] for at, name in enumerate(PODS) if not name.startswith("client")}
LINE = json.dumps({"pods": {name: vars(pod) for name, pod in PODS.items()}, "services": SERVICES, "pids": [17, 18]})


class Up(Cluster):
    """One that has come up, as far as anybody can see."""

    def __init__(self):
        self.told, self.network = cluster.read(LINE), "quiver"

    def alive(self):
        """It is."""
        return True

    def log(self):
        """What it said."""
        return "as it was"


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Makes a device for a suite, whose cluster is there."""
    monkeypatch.setattr("quiver_bench.devices.pods.require", lambda: None)
    monkeypatch.setattr("quiver_bench.devices.pods.cluster", lambda *_: Up())
    devices = []

    def make(name, kind=QuiverPods):
        devices.append(kind(Setup(find(name), CORES, tmp_path)))
        devices[-1].up()
        return devices[-1]

    yield make
    for one in devices:
        one.down()


def test_each_path_has_suites_for_connections_and_for_packets():
    between = [suite for suite in suites() if suite.case.forwarding == "pods"]
    assert {path_of(suite.case) for suite in between if suite.port == "podtun"} == set(PATHS)
    assert {path_of(suite.case) for suite in between if suite.port == "podmemif"} == set(PATHS)
    assert [path.name for path in PATHS][:4] == ["near", "near-np", "near-svc", "near-svc-np"]
    suite = find("128kb-1c-podtun-ethip4-ip4pods-far-svc-gso-iperf3-mrr")
    assert (suite.metric, suite.case.generator) == ("bandwidth_bps", "iperf3")
    assert {"K8S", "TUNTAP", "IP4FWD"} <= set(suite.tags)


@pytest.mark.parametrize(
    ("path", "ends"),
    [
        ("near", ("client", "near", PODS["near"].addresses[0])),
        ("far-svc", ("client", "far", SERVICES["far"][0])),
        ("near-np", ("client-guarded", "near-guarded", PODS["near-guarded"].addresses[0])),
        ("far-svc-np", ("client-guarded", "far-guarded", SERVICES["far-guarded"][0])),
    ],
)
def test_a_path_leads_to_its_pod_or_service(made, path, ends):
    client, server, asked = ends
    device = made(f"128kb-1c-podtun-ethip4-ip4pods-{path}-gso-iperf3-mrr")
    left, right = device.endpoints()
    assert (left.netns, left.address) == (PODS[client].netns, PODS[client].addresses[0])
    assert (right.netns, right.address) == (PODS[server].netns, asked)
    assert device.pids() == [17, 18]
    assert bool(device.remarks) == path.startswith("far")
    listen, connect = iperf3.commands((left, right), CORES, Load(1))
    assert PODS[server].netns in listen
    assert PODS[client].netns in connect
    assert asked in connect


def test_packets_between_memifs_have_the_pods_addresses_and_no_ethernet(made, tmp_path):
    (tmp_path / "quiver-tgen").touch()
    suite = find("1518b-1c-podmemif-ethip4-ip4pods-near-svc-mrr")
    ends = made(suite.name).endpoints()
    generator = generator_for(Setup(suite, CORES, tmp_path))
    assert isinstance(generator, BetweenPods)
    generator.require(suite.traffic, ends)
    words = generator.command(suite.traffic, ends, CORES, Load(0.5, 1000.0))
    of = dict(itertools.pairwise(words))
    assert (of["--mode"], of["--size"], of["--rate"]) == ("ip", "1500", "1000.000")
    assert of["--tx"] == of["--rx"] == "@vpp/memif-eth0"
    assert (of["--tx-netns"], of["--rx-netns"]) == ("/run/netns/qb-client", "/run/netns/qb-near")
    assert (of["--source"], of["--destination"]) == (PODS["client"].addresses[0], SERVICES["near"][0])
    with pytest.raises(Unsupported, match="leave --both-ways out"):
        generator.require(replace(suite.traffic, both_ways=True), ends)
    with pytest.raises(Unsupported, match="networks and addresses"):
        generator.require(suite.traffic, (ends[0], Endpoint("memif", "right")))


def test_connections_between_pods_are_iperf3s(tmp_path):
    suite = find("128kb-1c-podtun-ethip4-ip4pods-near-gso-iperf3-mrr")
    assert isinstance(generator_for(Setup(suite, CORES, tmp_path)), Iperf3)


def test_the_kernel_has_neither_memifs_nor_policies():
    KubeProxyPods.require(find("128kb-1c-podtun-ethip4-ip4pods-far-svc-gso-iperf3-mrr"))
    with pytest.raises(Unsupported, match="no NetworkPolicies"):
        KubeProxyPods.require(find("128kb-1c-podtun-ethip4-ip4pods-far-svc-np-gso-iperf3-mrr"))
    with pytest.raises(Unsupported, match="no podmemif ports"):
        KubeProxyPods.require(find("64b-1c-podmemif-ethip4-ip4pods-near-mrr"))
    with pytest.raises(Unsupported, match="no memif ports"):
        QuiverPods.require(find("64b-1c-memif-ethip4-ip4base-mrr"))


def test_what_the_helper_says_is_read_or_refused():
    told = cluster.read(LINE)
    assert told == Told(PODS, SERVICES, [17, 18])
    for line in ("", "no JSON", "[]", '{"pods": {}}', '{"pods": {"client": {}}, "services": {}, "pids": []}'):
        with pytest.raises(TrialVoid, match="nobody understands"):
            cluster.read(line)


def test_a_cluster_that_has_ended_voids_the_trial_with_its_log(made, monkeypatch):
    device = made("64b-1c-podmemif-ethip4-ip4pods-near-mrr")
    device.check_alive()
    monkeypatch.setattr(Up, "alive", lambda self: False)
    with pytest.raises(TrialVoid, match="has ended") as void:
        device.check_alive()
    assert void.value.log == "as it was"


def test_a_helper_that_ends_says_why(monkeypatch, tmp_path):
    helper = tmp_path / "helper.py"
    helper.write_text("import sys\nsys.exit('nodes are namespaces, and need root')\n")
    monkeypatch.setattr(cluster, "HELPER", helper)
    with pytest.raises(TrialVoid, match="did not come up") as void:
        Cluster("quiver", (1,), tmp_path)
    assert "need root" in void.value.log


def test_a_helper_is_told_the_workers_and_goes_when_nobody_wants_it_any_more(monkeypatch, tmp_path):
    helper = tmp_path / "helper.py"
    helper.write_text(
        "import pathlib, sys\n"
        f"pathlib.Path({str(tmp_path / 'words')!r}).write_text(' '.join(sys.argv[1:]))\n"
        f"print({LINE!r}, flush=True)\nsys.stdin.read()\npathlib.Path({str(tmp_path / 'gone')!r}).touch()\n"
    )
    monkeypatch.setattr(cluster, "HELPER", helper)
    monkeypatch.setattr(cluster, "_up", {})
    first = cluster.cluster("quiver", (1, 2), tmp_path)
    assert cluster.cluster("quiver", (1, 2), tmp_path) is first, "it stays for all trials"
    assert first.told.pods == PODS
    assert "--network quiver" in (tmp_path / "words").read_text()
    assert "--workers 1,2" in (tmp_path / "words").read_text()
    cluster.stop_all()
    assert not first.alive()
    assert (tmp_path / "gone").exists()


def test_two_clusters_of_one_network_have_names_of_their_own(monkeypatch, tmp_path):
    helper = tmp_path / "helper.py"
    helper.write_text(
        "import pathlib, sys\n"
        "prefix, workers = (sys.argv[sys.argv.index(option) + 1] for option in ('--prefix', '--workers'))\n"
        f"pathlib.Path({str(tmp_path)!r}, workers).write_text(prefix)\n"
        f"print({LINE!r}, flush=True)\nsys.stdin.read()\n"
    )
    monkeypatch.setattr(cluster, "HELPER", helper)
    monkeypatch.setattr(cluster, "_up", {})
    one, other = cluster.cluster("quiver", (1,), tmp_path), cluster.cluster("quiver", (2,), tmp_path)
    assert one is not other and one.alive() and other.alive()
    first, second = ((tmp_path / workers).read_text() for workers in "12")
    assert first != second and not f"{second}-".startswith(f"{first}-")
    cluster.stop_all()


def test_a_helper_that_does_not_listen_is_killed_and_its_names_go(monkeypatch, tmp_path):
    helper = tmp_path / "helper.py"
    helper.write_text(
        "import signal, time\n"
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint({LINE!r}, flush=True)\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(cluster, "HELPER", helper)
    monkeypatch.setattr(cluster, "DOWN_WITHIN_S", 0.2)
    monkeypatch.setattr(cluster, "NAMES", tmp_path / "netns")
    (tmp_path / "netns").mkdir()
    deaf = Cluster("quiver", (1,), tmp_path)
    for name in (f"{deaf.prefix}-client", f"{deaf.prefix}0-client"):
        (tmp_path / "netns" / name).touch()
    commands = []
    run = cluster.subprocess.run
    monkeypatch.setattr(
        cluster.subprocess, "run", lambda command, **how: commands.append(command) or run("true", **how)
    )
    began = time.monotonic()
    deaf.stop()
    assert not deaf.alive() and time.monotonic() - began < 60
    # Those of another one stay.
    assert commands == [["ip", "netns", "del", f"{deaf.prefix}-client"]]


def test_what_is_missing_is_named_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cluster.shutil, "which", lambda program: None if program == "runc" else program)
    with pytest.raises(Missing, match=r"runc, which is missing: scripts/setup\.sh cluster"):
        cluster.require()
    monkeypatch.setattr(cluster.shutil, "which", lambda program: program)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    with pytest.raises(Missing, match=r"k8sbox is missing: scripts/cluster\.sh build"):
        cluster.require()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Missing, match="need root"):
        cluster.require()
