"""Adapters: what they write for the devices they bring up."""

import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from quiver_bench import machine
from quiver_bench.devices import Setup, containers, revision, taps, vpp
from quiver_bench.devices.base import running
from quiver_bench.devices.dpdk import L3fwd, Testpmd
from quiver_bench.devices.floor import Floor
from quiver_bench.devices.kernel import Kernel
from quiver_bench.devices.quiver import JUMBO_MTU, Quiver, routes
from quiver_bench.devices.registry import device
from quiver_bench.devices.revision import commit_of
from quiver_bench.devices.wire import Wire
from quiver_bench.errors import BadInput, Missing, TrialVoid, Unsupported
from quiver_bench.generators import Endpoint, Load, iperf3
from quiver_bench.generators.conversations import conversed
from quiver_bench.generators.internal import Seen, seen
from quiver_bench.generators.tgen import Tgen, output
from quiver_bench.machine import Cores, allot
from quiver_bench.methods.base import Figure
from quiver_bench.noise import Noise, Watch
from quiver_bench.suites import find, traffic
from quiver_bench.trial import DeviceStand, Limit, Trial, forwarding, limit_of, placement_of

IP4 = find("64b-1c-memif-ethip4-ip4base-mrr")


def told(**more):
    """The generator's report of a trial, as far as it is read."""
    nothing = dict.fromkeys(("sent", "received", "lost", "foreign", "misdirected", "received_pps", "received_bps"), 0)
    return {**nothing, "seconds": 1.0, "receive_drops": None, "stalled_packets": 0, "longest_stall_ns": 0, **more}


def test_an_unknown_device_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match="did you mean testpmd"):
        device("tespmd")
    with pytest.raises(BadInput, match="only quiver@REV"):
        device("testpmd@main")
    assert device("dpdk-testpmd").device is Testpmd
    assert device("quiver@HEAD~1").revision == "HEAD~1"


def test_an_unknown_commit_is_refused():
    with pytest.raises(BadInput, match="no such commit"):
        commit_of("no-such-branch")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of one commit, and its programs, of which quiverd tells another."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    (tmp_path / "source").write_text("as committed")
    git("add", "source")
    git("commit", "-qm", "one")
    programs = tmp_path / "programs"
    programs.mkdir()

    def tell(told):
        (programs / "quiverd").write_text(f"#!/bin/sh\necho 'quiverd {told}'\n")
        (programs / "quiverd").chmod(0o755)

    monkeypatch.setenv("QUIVER_BIN", str(programs))
    return tmp_path, git("rev-parse", "--short=12", "HEAD").strip(), tell


def test_the_commit_is_that_of_the_programs_and_not_of_the_checkout(checkout):
    root, head, tell = checkout
    tell("0.1.0 (commit aaaaaaaaaaaa), release build for x by rustc 1.0")
    assert revision.here() == "aaaaaaaaaaaa"
    assert f"built at aaaaaaaaaaaa, and the checkout is at {head}" in revision.outdated()
    tell(f"0.1.0 (commit {head}), release build")
    assert (revision.here(), revision.outdated()) == (head, "")
    (root / "source").write_text("changed")
    assert revision.here() == f"{head}+"
    tell("0.1.0 (commit unknown), release build")
    assert (revision.here(), revision.outdated()) == ("", "")


def test_quivers_version_has_its_commit(programs):
    out = subprocess.run([programs / "quiverd", "--version"], capture_output=True, text=True, check=True).stdout
    made = Quiver(Setup(IP4, Cores(0, (1,)), programs))
    made.down()
    assert out.startswith(f"quiverd {made.version()}")
    assert "(commit " in made.version()


@pytest.mark.parametrize(
    ("kind", "suite"),
    [
        (Kernel, "64b-1c-memif-eth-l2xcbase-mrr"),
        (L3fwd, "64b-1c-memif-eth-l2xcbase-mrr"),
        (L3fwd, "64b-1c-memif-ethip4-ip4scale20k-mrr"),
        (Testpmd, "64b-1c-tap-eth-l2xcbase-mrr"),
        (Testpmd, "64b-1c-memif-eth-l2bd-1ch-2mif-1dcr1t-testpmd-mrr"),
        (Testpmd, "64b-1c-memif-ethip4-ip4base-reconf"),
        (Floor, "64b-2c-memif-ethip4-ip4base-mrr"),
        (Wire, "64b-1c-memif-ethip4-ip4base-mrr"),
        (Kernel, "64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps"),
        (Testpmd, "1518b-1c-memif-eth-l2xcbase-memif-dma-mrr"),
    ],
)
def test_what_a_device_cannot_do_is_said_beforehand(kind, suite):
    with pytest.raises(Unsupported):
        kind.require(find(suite))


def test_missing_programs_are_named_with_the_remedy():
    with pytest.raises(Missing, match="make build"):
        Quiver(Setup(IP4, Cores(0, (1,)), Path("/nonexistent")))
    with pytest.raises(Missing, match="--vpp-bin"):
        vpp.Vpp(Setup(IP4, Cores(0, (1,)), Path("/nonexistent")))


def test_frames_that_break_dpdks_rings_are_refused():
    with pytest.raises(Unsupported, match="past the ring's free slots"):
        Testpmd.require(find("9000b-1c-memif-eth-l2xcbase-mrr"))
    Testpmd.require(find("4400b-1c-memif-ethip4-ip4base-mrr"))


def test_frames_longer_than_ethernets_raise_the_mtu(programs):
    made = {
        frame: Quiver(Setup(find(f"{frame}-1c-memif-ethip4-ip4base-mrr"), Cores(0, (1,)), programs)).configuration()
        for frame in ("1518b", "4400b", "9000b")
    }
    assert [f"mtu = {JUMBO_MTU}" in each for each in made.values()] == [False, True, True]


def test_too_few_cores_are_said_so(monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    assert machine.allot(1) == Cores(0, (1,))
    assert machine.allot(1, generator=1) == Cores(1, (0,))
    with pytest.raises(Missing, match="too few cores: 4 for workers"):
        machine.allot(4)
    assert machine.allot(1, containers=2) == Cores(0, (1,), (0, 0)), "containers share what there is"
    assert machine.allot(1, containers=2).shared
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert machine.allot(1, containers=2) == Cores(0, (1,), (2, 3))
    assert not machine.allot(1, containers=2).shared
    assert machine.allot(1, containers=4).shared
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    for wrong, said in [
        ({"generator": 7}, "core 7 can't be used here: there are 0, 1"),
        ({"chosen": (0, 1)}, r"core 0 is given to the generator \(the first, where --generator-core names no other\)"),
        ({"generator": 1, "chosen": (1,)}, "core 1 is given to the generator and to a worker"),
    ]:
        with pytest.raises(BadInput, match=said):
            machine.allot(1, **wrong)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2})
    with pytest.raises(BadInput, match="--worker-cores 1: 2 are needed"):
        machine.allot(2, chosen=(1,))


def test_workers_that_make_packets_themselves_have_all_cores(monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    # One and two are told apart by the same distance.
    assert machine.allot_all(1) == Cores(0, (1,))
    assert machine.allot_all(2) == Cores(0, (1, 0))
    assert machine.allot_all(1, chosen=(0,)) == Cores(1, (0,))
    with pytest.raises(Missing, match="too few cores: 4 workers need one each, and 2 may be used"):
        machine.allot_all(4)
    for wrong in ((0,), (0, 7), (1, 1)):
        with pytest.raises(BadInput, match=r"--worker-cores .*: 2 of those that may be used are needed: 0,1"):
            machine.allot_all(2, chosen=wrong)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert machine.allot_all(1) == Cores(2, (1,))
    assert machine.allot_all(2) == Cores(2, (1, 2))
    assert machine.allot_all(2).aside == (0, 3)


def test_tap_suites_name_the_program_that_they_make_namespaces_with(monkeypatch):
    monkeypatch.setattr(taps.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Missing, match="apt-get install iproute2"):
        taps.TapPair(find("64b-1c-tap-eth-l2xcbase-mrr"))


def test_vpp_is_configured_by_its_command_line():
    lines = vpp.commands(find("64b-1c-memif-ethip4-ip4scale20k-mrr"), Path("/run/x"), 1)
    assert "create memif socket id 1 filename /run/x/left" in lines
    assert any(line.startswith("create interface memif id 0 socket-id 2 master rx-queues 1") for line in lines)
    assert "set ip neighbor memif2/0 10.0.1.2 02:00:00:00:00:04 static" in lines
    assert "ip route add count 10000 20.0.0.1/32 via 10.0.1.2 memif2/0" in lines
    crossed = vpp.commands(find("64b-1c-memif-dot1q-l2xcbase-mrr"), Path("/run/x"), 1)
    assert "set interface l2 xconnect memif1/0.100 memif2/0.100" in crossed
    assert "set interface l2 tag-rewrite memif1/0.100 pop 1" in crossed


def test_vpps_clocks_are_read_from_its_table():
    table = """Thread 1 vpp_wk_0 (lcore 1)
Time 1.0, 10 sec internal node vector rate 256.00 loops/sec 1000.00
  vector rates in 3.2e7, out 3.2e7, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
ethernet-input                   active             126953        32500000               0          4.60e0          256.00
ip4-lookup                       active             126953        32500000               0          9.60e0          256.00
memif-input                      polling            126953        32500000               0          1.27e1          256.00
unix-epoll-input                 polling               124               0               0          2.35e3            0.00
"""
    indented = "\n".join(line.strip() for line in table.splitlines())
    assert vpp.clocks(indented) == {"ethernet-input": 4.6, "ip4-lookup": 9.6, "memif-input": 12.7}


def test_vpps_clocks_are_those_of_all_threads_by_what_each_has_had():
    # As 26.06 prints it, after the generator has gone.
    table = """Thread 0 vpp_main (lcore 0)
             Name                 State         Calls          Vectors        Suspends      Packet-Clocks   Vectors/Call
statseg-collector-process      "suspended"               0               0               1          2.43e6            0.00
Thread 1 vpp_wk_0 (lcore 1)
ip4-lookup                       active             126953        30000000               0          9.60e0          256.00
l2-output                        active                 10           30000               0         9.60e-1          256.00
memif-input                     disabled            126953        30000000               0          1.20e1          256.00
Thread 2 vpp_wk_1 (lcore 2)
ip4-lookup                   interrupt wait           3906        10000000               0          1.96e1          256.00
"""
    assert vpp.clocks(table) == {"ip4-lookup": 12.1, "l2-output": 0.96, "memif-input": 12.0}


def test_routes_count_up_from_the_suites_addresses():
    text = routes(traffic.RIGHT4, traffic.routes(traffic.RIGHT4, 3))
    assert text.count("[[route]]") == 3
    assert 'prefix = "20.0.0.3/32"' in text
    assert 'address = "10.0.1.2"' in text
    assert routes(traffic.RIGHT4, traffic.routes(traffic.RIGHT4, 1)) == ""
    assert traffic.routes(traffic.RIGHT6, 2) == ["2001:2::1/128", "2001:2::2/128"]


def test_chains_come_back_to_the_device_and_pipelines_do_not():
    chain = find("64b-1c-memif-eth-l2bd-1ch-4mif-2dcr1t-testpmd-mrr").case
    assert containers.legs(chain) == [("left", "c1a"), ("c1b", "c2a"), ("c2b", "right")]
    assert containers.sockets(chain) == [(("client", "c1a"), ("client", "c1b")), (("client", "c2a"), ("client", "c2b"))]
    pipeline = find("64b-1c-memif-eth-l2bd-1pl-4mif-2dcr1t-testpmd-mrr").case
    assert containers.legs(pipeline) == [("left", "c1a"), ("c2b", "right")]
    assert containers.sockets(pipeline) == [
        (("client", "c1a"), ("server", "p1")),
        (("client", "p1"), ("client", "c2b")),
    ]
    assert containers.sockets(chain, listening=True)[1] == (("server", "c2a"), ("server", "c2b"))
    for case in (chain, pipeline):
        ports = [port for leg in containers.legs(case) for port in leg]
        inner = [socket for ends in containers.sockets(case) for _, socket in ends if socket.startswith("c")]
        assert sorted(inner) == sorted(port for port in ports if port not in ("left", "right"))


def test_latency_is_told_by_direction_in_microseconds():
    times = {"min": 1500, "mean": 2500.0, "max": 9000, "p50": 2000, "p90": 3000, "p99": 4000, "p99_9": 5000}
    times |= {"p99_99": 6000, "p99_999": 7000, "p99_9999": 8000, "hdrh": "HISTFAAA"}
    streams = [{"name": "forward", "latency_ns": None}, {"name": "forward-latency", "latency_ns": times}]
    report = told(sent=100, received=100, received_pps=100.0, received_bps=48000.0, streams=streams, intended=100)
    trial = output(report, ways=2)
    assert (trial.latency.min, trial.latency.avg, trial.latency.max) == (1.5, 2.5, 9.0)
    assert trial.latency.percentiles["99.9999"] == 8.0
    assert trial.latency.as_dict()["unit"] == "us"
    assert (trial.latency_reverse, trial.ways, trial.intended) == (None, 2, 100)


def test_both_ways_each_side_sends_to_the_other(tmp_path):
    (tmp_path / "quiver-tgen").touch()
    ends = Endpoint("memif", "l"), Endpoint("memif", "r")

    def flags(name, **more):
        traffic_of = replace(find(name), **more).traffic
        words = Tgen(tmp_path).command(traffic_of, ends, Cores(0, (1,)), Load(1.0))
        return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}

    bridged = flags("64b-1c-memif-eth-l2bdbasemaclrn-mrr")
    assert bridged["--source-mac"] == bridged["--reverse-destination-mac"] == traffic.PEER_LEFT_MAC
    assert bridged["--destination-mac"] == bridged["--reverse-source-mac"] == traffic.PEER_RIGHT_MAC
    routed = flags("64b-1c-memif-ethip4-ip4scale20k-mrr", both_ways=True)
    assert routed["--destination-mac"] == traffic.DEVICE_LEFT_MAC
    assert routed["--reverse-destination-mac"] == traffic.DEVICE_RIGHT_MAC
    assert (routed["--source"], routed["--sources"]) == ("16.0.0.1", "10000"), "what comes back has routes, too"
    assert "--reverse-source-mac" not in flags("64b-1c-memif-ethip4-ip4base-mrr")


def test_iperf3_keeps_off_the_workers_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    ends = [Endpoint("packet", f"eth{n}", f"ns{n}", f"10.0.0.{n}") for n in (1, 2)]
    for line in iperf3.commands(tuple(ends), Cores(0, (1, 2)), Load(0.5)):
        assert line[:6] == ["taskset", "--cpu-list", "0,3", "ip", "netns", "exec"]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    listen, connect = iperf3.commands(tuple(ends), Cores(0, (1,)), Load(0.5))
    assert listen[2] == connect[2] == "0"
    assert connect[connect.index("--time") + 1] == "1"
    assert connect[connect.index("--parallel") + 1] == "1"


def test_suites_of_eight_connections_have_iperf3_open_eight(tmp_path):
    ends = [Endpoint("packet", f"eth{n}", f"ns{n}", f"10.0.0.{n}") for n in (1, 2)]
    suite = find("128kb-1c-tap-ethip4-ip4base-2tap-8tcp-gso-iperf3-mrr")
    assert suite.case.connections == 8
    _, connect = iperf3.commands(tuple(ends), Cores(0, (1,)), Load(1), suite.case.connections)
    assert connect[connect.index("--parallel") + 1] == "8"


def test_searches_number_their_packets_and_mrr_is_lean(tmp_path):
    (tmp_path / "quiver-tgen").touch()
    ends = Endpoint("memif", "l"), Endpoint("memif", "r")

    def command(name, **more):
        return " ".join(Tgen(tmp_path).command(find(name).traffic, ends, Cores(0, (1,)), Load(1.0, **more)))

    for method in ("ndrpdr", "soak", "reconf"):
        assert "--check sequence" in command(f"64b-1c-memif-ethip4-ip4base-{method}")
    assert "--check" not in command("64b-1c-memif-ethip4-ip4base-mrr")
    assert "--size 60 " in command("64b-1c-memif-ethip4-ip4base-ndrpdr")
    # A number takes 16 bytes behind the headers.
    assert f"--size {14 + 4 + 20 + 8 + 16} " in command("64b-1c-memif-dot1q-ip4base-ndrpdr")
    assert f"--size {14 + 40 + 8 + 16} " in command("78b-1c-memif-ethip6-ip6base-ndrpdr")
    assert "--max-late 0.0001" in command("64b-1c-memif-ethip4-ip4base-reconf", max_late=1e-4)
    assert "--max-late" not in command("64b-1c-memif-ethip4-ip4base-reconf")


def test_what_a_trial_multiplied_and_missed_is_told():
    report = told(sent=100, received=100, received_pps=1, received_bps=1)
    assert not output(report).multiplied
    assert output({**report, "duplicated": 1}).multiplied
    assert output({**report, "received": 101}).multiplied
    assert output({**report, "receive_drops": 7}).untaken == 7
    with pytest.raises(TrialVoid, match="forwarded nothing"):  # an ICMP unreachable is all that it says
        strangers = output({**report, "received": 0, "received_pps": 0.0, "received_bps": 0.0, "foreign": 1})
        forwarding(Trial(strangers, Noise(), datetime.now(UTC), "near"))
    back = output({**report, "received": 0, "received_pps": 0.0, "received_bps": 0.0, "misdirected": 100})
    with pytest.raises(TrialVoid, match="100 packets came back where they were sent"):
        forwarding(Trial(back, Noise(), datetime.now(UTC), "near"))
    assert output({**report, "receive_drops": None}).untaken == 0
    stalled = output({**report, "stalled_packets": 7, "longest_stall_ns": 1_500_000})
    assert (stalled.stalled_packets, stalled.longest_stall_s) == (7, 0.0015)
    missed = output({**report, "intended": 150, "missed": 40, "overslept": 3})
    assert (missed.unsent, missed.missed, missed.overslept) == (50, 40, 3)


def test_an_announcement_is_no_packet_of_a_connection():
    """A device's own ARP isn't the packet too many that makes a figure irregular."""
    link = {
        "tx_packets": 50,
        "rx_packets": 50,
        "bad_checksum": 0,
        "other": 0,
        "malformed": 0,
        "foreign": 0,
        "receive_drops": None,
    }
    side = {"attempted": 10, "established": 10, "closed": 10, "failed": {}, "retransmitted": 0}
    report = {
        "client": side,
        "server": side,
        "client_link": {**link, "rx_packets": 53, "other": 1, "foreign": 2, "receive_drops": 4},
        "server_link": link,
    }
    report |= {
        "seconds": 1.0,
        "received_pps": 100.0,
        "goodput_bps": 0.0,
        "established_per_second": 10.0,
        "longest_stall_ns": 5,
    }
    report["connect_latency_ns"] = {"percentiles": [[50.0, 1000]]}
    trial = conversed(report, "cps")
    assert (trial.sent, trial.received, trial.foreign, trial.multiplied) == (100, 100, 3, False)
    assert trial.untaken == 4


@pytest.mark.parametrize(("failed", "again", "irregular"), [(0, 0, None), (1, 0, False), (0, 40, True), (30, 0, True)])
def test_connections_that_fail_are_told_with_the_figure(failed, again, irregular):
    connections = {"attempted": 1000, "failed": failed, "retransmitted": again}
    trial = Trial(
        replace(output(told(sent=3000, received=3000)), connections=connections), Noise(), datetime.now(UTC), "near"
    )
    figure = Figure({}, [trial, trial], "near")
    assert figure.irregular is bool(irregular)
    shares = f"{failed / 1000:.2%} of the connections failed, {again / 3000:.2%} of the packets were sent again"
    assert figure.remarks == ([] if irregular is None else [shares])


def test_a_generators_limit_is_known_in_its_placement_only():
    limit = Limit(10e6, "near")
    trial = output(told(received_pps=9.5e6))
    assert limit.reached(trial, "near") is True
    assert limit.reached(replace(trial, rate_pps=5e6), "near") is False
    assert limit.reached(trial, "far") is None
    assert Limit(0.0, "near", 10e9).reached(replace(trial, rate_pps=0.0, rate_bps=9.9e9), "near") is True


def test_a_trial_that_the_host_spoilt_is_no_limit():
    def trial(rate, where):
        return Trial(output(told(received_pps=rate, received_bps=480 * rate)), Noise(), datetime.now(UTC), where)

    three = [trial(9e6, "near"), trial(1e6, "moved"), trial(10e6, "near")]
    assert limit_of(three) == Limit(9.5e6, "near", 480 * 9.5e6)
    assert limit_of([trial(9e6, "near"), trial(3e6, "far"), trial(2e6, "far")]) == Limit(2.5e6, "far", 480 * 2.5e6)
    assert limit_of([trial(9e6, "moved")] * 3).placement == "moved"


def test_where_nobody_can_be_asked_waiting_is_not_known():
    """The kernel forwards in no thread of its own: that is not the same as never having waited."""
    with Watch([], [0]) as nobody:
        pass
    with Watch([os.getpid()], [0]) as ourselves:
        pass
    assert (nobody.noise.wait_s, nobody.noise.as_dict()["preemptions"]) == (None, None)
    assert ourselves.noise.wait_s >= 0 <= ourselves.noise.preemptions


def test_the_generators_report_is_understood():
    report = told(frame_size=60, sent=100, received=90, lost=10, loss_ratio=0.1, foreign=2)
    report |= {"seconds": 0.5, "received_pps": 184.0, "received_bps": 88320.0, "round_trip_ns": [110.0, 601.5]}
    trial = output(report)
    assert (trial.sent, trial.received, trial.lost, trial.foreign) == (100, 90, 10, 2)
    assert trial.loss_ratio == pytest.approx(0.1)
    assert placement_of(trial) == "moved"
    assert placement_of(output({**report, "round_trip_ns": [110.0, 140.0]})) == "near"
    assert placement_of(output({**report, "round_trip_ns": None})) == "unknown"
    # Somebody else was on the core: two cores are never so far apart.
    assert placement_of(output({**report, "round_trip_ns": [110.0, 10193.8]})) == "disturbed"


def test_what_workers_make_and_take_is_added_up():
    def node(name, packets):
        return {"name": name, "calls": "9", "packets": str(packets)}

    workers = [
        {"seconds": 2.5, "nodes": [node("generator-input", 700), node("ip4-lookup", 690), node("sink-tx", 600)]},
        {"index": 1, "seconds": 2.5, "nodes": [node("generator-input", 300)]},
        {"index": 2, "seconds": 2.5},
    ]
    assert seen(workers) == Seen(at=2.5, made=1000, taken=600)


@pytest.mark.parametrize(
    ("suite", "packets"),
    [
        ("64b-1c-memif-ethip4udp-ip4base-session-l4-h10000-p1-s10000-mrr", 20_000),
        ("64b-1c-memif-ethip4udp-balance-10kvip-h1-p1-s10000-mrr", 20_000),
        ("64b-1c-memif-eth-l2bdscale100kmaclrn-mrr", 100_000),
        ("64b-1c-memif-ethip4-ip4base-mrr", None),
        ("64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps", None),
    ],
)
def test_all_flows_and_stations_are_there_before_a_trial(suite, packets, tmp_path):
    loads = []

    def trial(traffic, endpoints, cores, load):
        command = Tgen(tmp_path).command(traffic, None, cores, load) if not traffic.conversations else []
        loads.append((load.count, "--random" in command, "--seconds" in command))
        return SimpleNamespace()

    (tmp_path / "quiver-tgen").touch()
    device = SimpleNamespace(setup=Setup(find(suite), allot(1), tmp_path), suite=find(suite), endpoints=lambda: None)
    stand = DeviceStand(device, SimpleNamespace(trial=trial))
    stand.offer = lambda load: None
    stand.warm_up(0.1)
    assert loads == ([(packets, False, False)] if packets else [])


@pytest.mark.parametrize("others", [False, True])
def test_a_signal_waits_until_a_device_is_down(others):
    """Also where there is another thread, which the kernel gives it to."""
    steps, over = [], threading.Event()

    def down():
        os.kill(os.getpid(), signal.SIGINT)
        # (A thread that has taken it tells this one in a moment.)
        time.sleep(0.1)
        steps.append("down")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    if others:
        threading.Thread(target=over.wait).start()
    try:
        with pytest.raises(KeyboardInterrupt), running(SimpleNamespace(up=lambda: steps.append("up"), down=down)):
            pass
        assert steps == ["up", "down"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        over.set()
        signal.signal(signal.SIGINT, before)
