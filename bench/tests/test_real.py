"""Real devices, real packets, a fraction of a second each. Nothing here depends on how fast they are."""

import functools
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from conftest import COMMAND, MRR, need, run

from quiver_bench.devices.base import Setup
from quiver_bench.devices.quiver import Quiver
from quiver_bench.errors import TrialVoid
from quiver_bench.machine import allot
from quiver_bench.methods import reconf
from quiver_bench.suites import find
from quiver_bench.trial import generator_limit, standing

pytestmark = pytest.mark.real


@pytest.fixture
def cores():
    """A core for the generator and one for a worker."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    return allot(1)


def test_a_comparison_prints_what_was_promised(programs, cores, tmp_path):
    words = ["--suite", MRR, "--a", "floor", "--b", "quiver", "--pairs", "1", "--seconds", "0.1", "--output", "json"]
    done = run("compare", *words, "--results", str(tmp_path))
    if done.returncode == 3 and "same placement" in done.stderr:
        pytest.skip("the host moved the cores in every pair")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["suite"], found["metric"], found["pairs"]) == (MRR, "receive_rate_pps", 1)
    assert found["placement"] in ("sibling", "near", "far")
    assert found["a"]["median"] > 0 < found["b"]["median"]
    assert found["ratio"]["low"] <= found["ratio"]["median"] <= found["ratio"]["high"]
    assert found["verdict"].startswith("no verdict: 1 pair is too few")
    assert found["b"]["clocks"]["ip-forward"] > 0
    assert Path(found["kept"]).exists()


def test_a_comparison_without_a_pair_that_counts_keeps_its_trials(programs, cores, tmp_path):
    words = [
        "--suite",
        MRR,
        "--a",
        "floor",
        "--b",
        "floor",
        "--pairs",
        "1",
        "--seconds",
        "0.05",
        "--placement",
        "sibling",
    ]
    done = run("compare", *words, "--results", str(tmp_path))
    if done.returncode == 0:
        pytest.skip("the cores are siblings here")
    assert done.returncode == 3, done.stderr
    assert "no pair of trials was sibling throughout" in done.stderr
    (kept,) = (json.loads(path.read_text()) for path in tmp_path.rglob("*.json"))
    assert not kept["passed"]
    assert [trial["a"]["sent"] > 0 < trial["b"]["sent"] for trial in kept["trials"]] == [True] * 3


def test_a_standstill_of_the_device_is_seen_as_long_as_it_was(programs, cores):
    """200 ms in which quiverd is stopped. Nothing of it is seen by a generator that catches up: the packets come later."""
    suite = find("64b-1c-memif-ethip4-ip4base-reconf")
    rate = 100_000.0
    with standing(Quiver, Setup(suite, cores, programs)) as stand:
        (process,) = stand.device.processes

        def stop():
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            process.send_signal(signal.SIGCONT)

        stand.trial(0.2, rate)  # makes the neighbour known
        output = stand.trial(1.0, rate, stop, max_late=reconf.MAX_LATE).output
    assert (output.lost + output.unsent) / rate >= 0.1
    assert output.missed >= 0.1 * rate
    assert output.duplicated == 0


def test_the_wire_says_what_the_generator_does_without_a_device(programs, cores):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    for name in ("64b-1c-tap-ethip4-ip4base-mrr", "78b-1c-tap-ethip6-ip6base-reconf"):
        limit = generator_limit(Setup(find(name), cores, programs), 0.2)
        assert limit.rate_pps > 0
    assert generator_limit(Setup(find("64b-1c-memif-app-receive-mrr"), cores, programs)) is None


def test_a_gate_that_is_not_reached_is_exit_status_1(programs, cores):
    words = ["--suite", MRR, "--a", "quiver", "--b", "floor", "--pairs", "6", "--seconds", "0.05", "--no-store"]
    done = run("compare", *words, "--at-least", "1000")
    if done.returncode == 3 and any(why in done.stderr for why in ("same placement", "too few", "irregular", "limit")):
        pytest.skip(f"the host leaves nothing to judge by: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize(
    "suite",
    [
        "64b-1c-memif-eth-l2xcbase-mrr",
        "64b-1c-memif-eth-l2bdbasemaclrn-mrr",
        "9000b-1c-memif-eth-l2xcbase-mrr",
        "9000b-1c-memif-ethip4-ip4base-mrr",
        "4400b-1c-memif-ethip4-ip4base-memif-dma-mrr",
        "64b-1c-memif-ethip4-ip4scale20k-mrr",
    ],
)
def test_packets_pass_quiver_in_every_way_it_forwards(programs, cores, suite, monkeypatch):
    monkeypatch.setenv("QUIVER_SOCKET", "")  # a caller's own daemon is none of ours
    with standing(Quiver, Setup(find(suite), cores, programs)) as stand:
        stand.trial(0.1)  # the first packets make neighbours known
        trial = stand.trial(0.2, 1000.0)
        assert trial.output.received > 100
        assert trial.output.lost == 0


def test_a_device_that_dies_between_trials_leaves_its_log(programs, cores):
    with standing(Quiver, Setup(find(MRR), cores, programs)) as stand:
        stand.trial(0.1)
        (process,) = stand.device.processes
        process.kill()
        process.wait()
        with pytest.raises(TrialVoid, match=r"quiver died \(exit status -9\)") as void:
            stand.trial(0.1)
        assert void.value.log.strip()


def test_a_device_that_lets_nothing_through_voids_the_trial_and_its_log_is_told(programs, cores):
    with standing(Quiver, Setup(find(MRR), cores, programs)) as stand:
        stand.trial(0.1)
        stand.suite = find("78b-1c-memif-ethip6-ip6base-mrr")  # it has no routes for these
        with pytest.raises(TrialVoid, match="the device forwarded nothing") as void:
            stand.trial(0.1, 1000.0)
        assert void.value.log.strip()


def test_a_device_that_dies_in_the_trial_voids_it_and_its_log_is_told(programs, cores):
    with standing(Quiver, Setup(find(MRR), cores, programs)) as stand:
        (process,) = stand.device.processes
        threading.Timer(0.4, process.kill).start()
        with pytest.raises(TrialVoid, match="quiver died") as void:
            stand.trial(2.0)
        assert "quiverd" in void.value.log.lower() or "memif" in void.value.log.lower()


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (["run", MRR, "--device", "floor", "--trials", "1000"], "trial 3"),
        (["search", MRR.replace("mrr", "ndrpdr"), "--device", "floor", "--duration-sum", "100"], " loss "),
        (["compare", "--suite", MRR, "--a", "floor", "--b", "quiver", "--pairs", "1000"], "pair 1 floor"),
    ],
    ids=["run", "search", "compare"],
)
def test_what_was_measured_before_ctrl_c_is_kept(programs, cores, tmp_path, words, at):
    command = [*COMMAND, *words, "--seconds", "0.1", "--results", str(tmp_path)]
    # A shell's background job hands ignored interrupts down; whoever presses Ctrl-C isn't in one.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    seen = []
    for line in process.stderr:
        seen.append(line)
        if at in line:
            process.send_signal(signal.SIGINT)
            break
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, "".join(seen) + rest
    documents = [json.loads(path.read_text()) for path in tmp_path.rglob("*.json")]
    assert documents
    assert all(not document["passed"] and document["message"].startswith("stopped") for document in documents)
    trials = [trial for document in documents for trial in document["trials"]]
    assert trials
    # Of a pair, whichever side was measured first.
    assert all((trial.get("a") or trial.get("b") or trial)["sent"] > 0 for trial in trials)


def test_the_kernel_and_quiver_carry_connections_between_namespaces(programs, cores):
    need("iperf3")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    for name in ("kernel", "quiver"):
        words = [
            "run",
            "128kb-1c-tap-ethip4-ip4base-2tap-gso-iperf3-mrr",
            "--device",
            name,
            "--trials",
            "1",
            "--no-store",
        ]
        done = run(*words, "--output", "json")
        if done.returncode == 3 and "moved the cores" in done.stderr:
            continue  # that they pass is in what it printed; a figure it makes not
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        values = [found] if isinstance(found, dict) else found
        assert values
        assert all(each["result"]["receive_rate"]["bandwidth"]["avg"] > 0 for each in values)
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    assert f"qb{os.getpid()}" not in left


def test_testpmd_passes_packets(programs, cores):
    need("dpdk-testpmd")
    from quiver_bench.devices.dpdk import Testpmd, TestpmdMac

    for kind in (Testpmd, TestpmdMac):
        with standing(kind, Setup(find(MRR), cores, programs)) as stand:
            assert stand.trial(0.2).output.received > 0
