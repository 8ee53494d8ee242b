"""Every suite that is listed can be measured: the generator takes its command line, Quiver its configuration, and packets pass."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest
from conftest import need, small

from quiver_bench.devices import NAMES, Setup, device
from quiver_bench.devices.base import running
from quiver_bench.devices.quiver import Quiver
from quiver_bench.devices.trusting import TrustingQuiver
from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.generators import Endpoint, Load
from quiver_bench.machine import Cores, allot, allot_all
from quiver_bench.suites import find, suites
from quiver_bench.trial import generator_for, standing

APPLICATIONS = [suite for suite in suites() if suite.case.generator == "one-end"]
#: What a cluster is needed for: test_pods.
PODS = [suite for suite in suites() if suite.case.forwarding == "pods"]
FIRST = "64b-1c-memif-eth-l2xcbase-mrr"


def case_of(suite):
    """What a suite's configuration and packets depend on, besides the frame size."""
    return suite.case.name, suite.port, suite.method if suite.case.protocol else ""


def one_of_each():
    """The first suite of each case with one worker that Quiver forwards in, smallest frames first as they are listed."""
    alone = [suite for suite in suites() if suite.cores == 1 and suite not in [*APPLICATIONS, *PODS]]
    firsts = {case_of(suite): suite for suite in reversed(alone)}
    return [suite for suite in alone if firsts[case_of(suite)] is suite]


def cores_for(suite):
    """One core for the generator, so many for workers, and what containers need, on a machine that may have fewer."""
    return Cores(0, tuple(range(1, suite.cores + 1)), tuple(9 for _ in range(suite.case.containers)))


def test_every_suite_names_a_device_that_does_it():
    for suite in suites():
        able = []
        for name in NAMES:
            try:
                device(name).device.require(suite)
            except Unsupported:
                continue
            able.append(name)
        expected = {"receive": "app-rust", "send": "app-rust", "pods": "k8s-quiver"}.get(
            suite.case.forwarding, "quiver"
        )
        assert expected in able, suite.name


def kinds_of_traffic():
    """Suites whose packets differ, each once."""
    single = [small(suite) for suite in suites() if suite.case.generator == "quiver-tgen"]
    # Those between pods have a generator of their own.
    of = {(suite.traffic, suite.cores > 1, suite in PODS): suite for suite in single}
    return [*of.values(), *APPLICATIONS]


def test_the_generator_takes_the_command_line_of_every_suite(programs):
    """Within the generator, from one end of a memif to the other: what can't be sent is refused before anything is."""

    def refusals(suite, here):
        generator = generator_for(Setup(suite, cores_for(suite), programs))
        refused = []
        ways = [{}] if suite.case.protocol else [{}, {"rate_pps": 1000.0, "latency": True}]
        for more in ways:
            # With no core but its own it has no way to measure.
            command = generator.command(suite.traffic, None, Cores(here, (here,) * suite.cores), Load(0.001, **more))
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            # Nothing established in so short a time is no fault of the command line: that is exit status 2.
            if done.returncode == 2 or not done.stdout.startswith("{"):
                refused.append(f"{suite.name} {more}: {done.stderr.strip()}")
        return refused

    # Most of its time a generator waits.
    with ThreadPoolExecutor(8) as pool:
        refused = [
            line for lines in pool.map(refusals, kinds_of_traffic(), cycle(os.sched_getaffinity(0))) for line in lines
        ]
    assert not refused, "\n".join(refused)


def test_interfaces_are_named_as_the_generator_wants_them(programs):
    for suite in (find("64b-1c-tap-ethip4-ip4base-mrr"), find("64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps")):
        ends = Endpoint("packet", "none0", None), Endpoint("packet", "none1", None)
        generator = generator_for(Setup(suite, cores_for(suite), programs))
        generator.require(suite.traffic, ends)
        command = generator.command(suite.traffic, ends, allot(1), Load(0.1))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, "it can't be opened, but is understood"
        assert "none0" in done.stderr or "none1" in done.stderr


def configurations():
    """Suites that a device is set up for differently, each once; tables of a million are for another test."""
    of = {(s.case.name, s.port, s.cores, s.jumbo): s for s in suites() if s.case.routes <= 10_000}
    return [small(suite) for suite in of.values() if suite not in [*APPLICATIONS, *PODS]]


@pytest.mark.real
def test_quiver_takes_the_configuration_of_every_suite(programs):
    """As a dry run of one quiverd: refused objects are named, memory and sockets aren't asked for."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    refused = []
    with running(Quiver(Setup(find(FIRST), allot(1), programs))) as live:
        for suite in configurations():
            if (suite.port == "tap" or suite.case.silent) and os.geteuid() != 0:
                continue
            if suite.case.containers:
                need("dpdk-testpmd")
            made = Quiver(Setup(suite, cores_for(suite), programs))
            try:
                if made.taps:
                    made.taps.make_namespaces()
                if made.hostile_pods:
                    made.hostile_pods.make_namespaces()
                if made.silent:
                    made.silent.make_namespace()
                file = made.dir / "dry.toml"
                file.write_text(made.configuration())
                out = live.cli("apply", "--dry-run", "-f", file)
                refused += [
                    f"{suite.name}: {line}" for line in out.splitlines() if re.search(" (pending|refused)", line)
                ]
            except TrialVoid as void:
                refused.append(f"{suite.name}: {void}")
            finally:
                made.down()
    assert not refused, "\n".join(refused)


@pytest.mark.real
def test_packets_pass_containers_that_share_buffers(programs):
    need("dpdk-testpmd")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    suite = find("1518b-1c-memif-eth-l2bd-1ch-4mif-2dcr1t-testpmd-mrr")
    setup = Setup(suite, allot(1, containers=suite.case.containers), programs)
    with standing(TrustingQuiver, setup) as stand:
        stand.trial(0.1)
        output = stand.trial(0.3, 1000.0).output
        links = json.loads(stand.device.cli("show", "memif", "-o", "json"))["memifs"]
    assert output.received > 0
    # Only a client has buffers to share.
    assert {link["role"] for link in links if link["interface"].startswith("c")} == {"client"}
    with pytest.raises(Unsupported, match="isn't about"):
        TrustingQuiver.require(find(FIRST))


@pytest.mark.real
@pytest.mark.parametrize("suite", one_of_each(), ids=lambda suite: suite.name)
def test_packets_pass_quiver_in_every_case(programs, suite):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    if suite.port == "tap" and os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if suite.case.generator == "iperf3":
        need("iperf3")
    if suite.case.containers:
        need("dpdk-testpmd")
    if suite.case.routes > 100_000 and not os.environ.get("QUIVER_BENCH_LARGE"):
        pytest.skip("a million routes take a minute: QUIVER_BENCH_LARGE=1")
    if suite.case.held:
        pytest.skip("all its sessions are begun first: test_sessions does so with fewer")
    cores = allot_all(1) if suite.port == "pg" else allot(1, containers=suite.case.containers)
    setup = Setup(suite if os.environ.get("QUIVER_BENCH_LARGE") else small(suite), cores, programs)
    with standing(Quiver, setup) as stand:
        stand.trial(0.1)  # the first packets make neighbours known, and bridges learn
        output = stand.trial(0.3, None if suite.case.generator == "iperf3" else 1000.0).output
    assert output.received > 0 or output.rate_bps > 0
    if output.connections:
        assert output.connections["established"] > 0
        assert output.connections["failed"] == 0
    elif suite.case.generator != "iperf3":
        assert output.received == output.sent - output.lost
        assert output.lost < output.sent / 2


@pytest.mark.real
@pytest.mark.parametrize("name", ["app-rust", "app-c", "app-go"])
@pytest.mark.parametrize("suite", APPLICATIONS, ids=lambda suite: suite.name)
def test_applications_take_and_give_packets(programs, suite, name):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    with standing(device(name).device, Setup(suite, allot(1), programs)) as stand:
        before = stand.trial(0.2).output
        # It serves one generator after the other.
        output = stand.trial(1.2).output
        count = re.compile(r"received ([\d.]+) Mpps, ([\d.]+) Gbit/s; sent ([\d.]+) Mpps")
        own = [tuple(map(float, line)) for line in count.findall(stand.device.log())]
    assert before.received > 0
    assert output.received == output.sent > 100_000
    assert output.rate_bps == pytest.approx(output.rate_pps * 8 * suite.traffic.pattern[0], rel=0.01)
    # What it counts itself in a second isn't nothing, and it does no more than what it is for.
    receiving = suite.case.forwarding == "receive"
    assert max(packets for packets, _, _ in own) > 0 if receiving else max(sent for _, _, sent in own) > 0
    assert all(sent == 0 for _, _, sent in own) if receiving else True
