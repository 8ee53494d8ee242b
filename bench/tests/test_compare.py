"""Comparisons of simulated systems."""

import contextlib
import itertools
import os
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import chosen, no_file_longer_than

from quiver_bench.commands import common
from quiver_bench.commands import compare as command_module
from quiver_bench.commands.common import Chosen
from quiver_bench.commands.main import main
from quiver_bench.compare import Comparison, compare
from quiver_bench.errors import TrialVoid
from quiver_bench.results.store import Store
from quiver_bench.simulated import Simulated
from quiver_bench.trial import Limit


def maker(placements, capacity=10e6, generator=50e6):
    """Brings up a new system each time; its warm-up and its trial have the next placement."""
    coming = iter(placements)
    return lambda: contextlib.nullcontext(Simulated(capacity, 1e4, generator_pps=generator, placements=[next(coming)]))


def start():
    """An empty comparison."""
    return Comparison("suite", "receive_rate_pps", "a", "b")


def test_only_pairs_of_one_placement_count():
    done = compare(
        start(),
        maker(["near", "far", "near", "moved", "near", "near"]),
        maker(["near", "near", "far", "moved", "near", "near"]),
        3,
        1.0,
    )
    result = done.as_dict()
    assert (result["pairs"], result["placement"]) == (3, "near")
    assert [trial["counts"] for trial in result["trials"]] == [True, False, False, False, True, True]
    assert len(result["a"]["samples"]) == 3, "every sample that counts is kept"


def test_other_placements_stand_beside():
    comparison = start()
    far = maker(["far", "near", "near"], 20e6)
    compare(comparison, far, maker(["far", "near", "near"]), 2, 1.0)
    result = comparison.as_dict()
    assert result["placement"] == "near"
    assert [other["placement"] for other in result["other_placements"]] == ["far"]


def test_a_wanted_placement_is_waited_for():
    comparison = start()
    comparison.wanted = "far"
    compare(comparison, maker(["near", "far", "far"]), maker(["near", "far", "far"]), 2, 1.0)
    assert (comparison.as_dict()["placement"], comparison.as_dict()["pairs"]) == ("far", 2)


def test_no_pair_begins_when_time_is_over():
    done = compare(start(), maker(["near"] * 9), maker(["near"] * 9), 3, 1.0, within=-1.0)
    assert done.pairs == []


def test_who_goes_first_changes():
    order = []

    def noting(name):
        def make():
            order.append(name)
            return contextlib.nullcontext(Simulated(1e6, 1e3))

        return make

    compare(start(), noting("a"), noting("b"), 4, 1.0)
    assert "".join(order) == "abbaabba"


def test_nothing_comparable_says_so():
    done = compare(start(), maker(["near"] * 6), maker(["far"] * 6), 2, 1.0)
    assert "no pair of trials had the same placement" in done.failure
    assert len(done.as_dict()["trials"]) == 6


def test_a_device_that_dies_makes_the_pair_void_and_its_log_is_kept():
    def dying():
        raise TrialVoid("device died (exit status 1)", "out of luck")

    done = compare(start(), dying, maker(["near"] * 9), 3, 1.0)
    assert len(done.voids) == 3
    assert "out of luck" in done.logs[0]
    assert "device died" in done.failure


def test_a_device_that_forwards_nothing_makes_the_pair_void():
    done = compare(start(), maker(["near"] * 9), maker(["near"] * 9, capacity=0), 3, 1.0)
    assert done.best_placement() is None
    assert "forwarded nothing" in done.voids[0]


def test_a_device_that_has_none_of_what_is_compared_makes_the_pair_void():
    """Such as bits of strangers, and not a packet: a ratio to nothing is none."""
    strange = Simulated(10e6, 1e4)
    offer = strange.offer

    def strangers(load):
        trial = offer(load)
        return replace(trial, output=replace(trial.output, rate_pps=0.0))

    strange.offer = strangers
    done = compare(start(), maker(["near"] * 9), lambda: contextlib.nullcontext(strange), 3, 1.0)
    assert done.as_dict()["ratio"] is None
    assert "b has no receive_rate_pps" in done.voids[0]


def test_what_counts_for_nothing_is_kept_all_the_same():
    """Trials that stood differently, and the one half of a pair whose other half is void."""
    count = iter(range(10))

    def failing():
        if next(count) == 1:
            raise TrialVoid("device died", "out of luck")
        return contextlib.nullcontext(Simulated(20e6, 1e4, placements=["far"]))

    done = compare(start(), maker(["near"] * 6), failing, 1, 1.0)
    result = done.as_dict()
    assert done.failure == "nothing could be compared: pair 2: device died"
    assert (result["pairs"], result["ratio"], result["placement"]) == (0, None, None)
    assert result["verdict"] == "no verdict: 0 pairs are too few (6 are needed)"
    kept = [(trial["a"] is not None, trial["b"] is not None, trial["counts"]) for trial in result["trials"]]
    assert kept == [(True, True, False), (False, False, False), (True, True, False)]


def test_the_half_of_a_pair_that_was_stopped_is_kept():
    def stopping():
        raise KeyboardInterrupt

    done = compare(start(), maker(["near"] * 6), stopping, 3, 1.0)
    assert (done.interrupted, done.failure) == (True, "stopped before a pair was measured")
    (trial,) = done.as_dict()["trials"]
    assert trial["a"]["sent"] > 0
    assert trial["b"] is None


def test_a_side_with_packets_that_nobody_sent_is_marked():
    twice = contextlib.nullcontext(Simulated(60e6, 1e4, copies=9))
    result = compare(start(), lambda: twice, maker(["near"] * 9), 1, 1.0).as_dict()
    assert (result["a"]["irregular"], result["b"]["irregular"]) == (True, False)


def test_stopping_keeps_what_was_measured():
    count = iter(range(10))

    def stopping():
        if next(count) == 2:
            raise KeyboardInterrupt
        return contextlib.nullcontext(Simulated(20e6, 1e4))

    done = compare(start(), stopping, maker(["near"] * 9), 5, 1.0)
    result = done.as_dict()
    assert (result["interrupted"], result["pairs"]) == (True, 2)
    assert result["ratio"]["median"] == pytest.approx(2.0, rel=0.01)


RUN = ["compare", "--suite", "64b-1c-memif-ethip4-ip4base-mrr", "--a", "quiver", "--b", "testpmd", "--seconds", "0.1"]


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command between simulated systems of these capacities; returns its status, and what it kept."""

    def run(*words, a=20e6, b=10e6, made=None):
        systems = iter([maker(["near"] * 99, a), made or maker(["near"] * 99, b)])
        monkeypatch.setattr(command_module, "choose", lambda text, suite, options: chosen(suite.name, text))
        monkeypatch.setattr(command_module, "generator_limit", lambda setup: Limit(float(setup.suite.cores), "near"))
        monkeypatch.setattr(command_module, "generator_for", lambda setup: SimpleNamespace(version=lambda: "1.0"))
        monkeypatch.setattr(Chosen, "version", lambda self: "1.0")
        monkeypatch.setattr(command_module, "maker", lambda side, limit: next(systems))
        return main([*RUN, *words, "--results", str(tmp_path)]), Store(tmp_path).documents()

    return run


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--pairs", "6", "--at-least", "1.8"], 0, " ≥ 1.8\n"),
        (["--pairs", "6", "--at-least", "2.5"], 1, " < 2.5\n"),
        (["--pairs", "5", "--at-least", "1.8"], 3, "gate: 5 pairs are too few to judge by (6 are needed)"),
        (["--pairs", "5"], 0, ""),
    ],
)
def test_a_gate_says_what_it_found_and_judges_by_enough_only(command, capsys, words, status, said):
    ended, documents = command(*words)
    assert (ended, len(documents)) == (status, 1)
    assert said in capsys.readouterr().err


def test_a_gate_does_not_judge_by_what_the_generator_could_not(command, capsys):
    ended, (kept,) = command("--pairs", "6", "--at-least", "1.1", a=60e6, b=50e6, made=maker(["near"] * 99, 50e6, 20e6))
    assert ended == 3
    assert kept["result"]["verdict"] == "no verdict: B is at the generator's limit"
    assert "gate: no verdict: B is at the generator's limit: what it could do isn't known" in capsys.readouterr().err


def test_versions_and_remarks_are_those_of_devices_that_were_up(command):
    class Told(Simulated):
        def version(self):
            return "26.06"

        def remarks(self):
            return ["its tables lay on small pages"]

    _, (kept,) = command("--pairs", "1", made=lambda: contextlib.nullcontext(Told(10e6, 1e4)))
    assert (kept["dut_version"], kept["other"]["dut_version"]) == ("unknown", "26.06")
    assert "testpmd: its tables lay on small pages" in kept["remarks"]


def test_a_closed_pipe_hides_no_gate(command, monkeypatch):
    for form in ("text", "json"):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            monkeypatch.setattr(sys, "stdout", closed)
            ended, _ = command("--pairs", "6", "--at-least", "2.5", "-o", form)
        assert ended == 1


def test_a_closed_pipe_behind_the_progress_loses_no_pair_and_no_gate(command, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1) as closed:
        monkeypatch.setattr(sys, "stderr", closed)
        ended, (kept,) = command("--pairs", "6", "--at-least", "1.8")
    assert (ended, kept["result"]["pairs"]) == (0, 6)


def test_it_says_where_it_is_kept(command, capsys):
    _, (kept,) = command("--pairs", "1")
    assert f"  kept: {kept['path']}\n" in capsys.readouterr().out


def test_the_other_side_may_have_a_suite_of_its_own(command):
    other = "64b-1c-memif-ethip4-ip4scale2m-rnd-mrr"
    _, (kept,) = command("--pairs", "1", "--b-suite", other)
    assert (kept["suite"], kept["other"]["suite"]) == (RUN[2], other)
    assert (kept["device"], kept["other"]["device"]) == ("quiver", f"testpmd with {other}")


def test_two_workers_of_the_same_suite_are_no_suite_of_their_own(command):
    _, (kept,) = command("--pairs", "1", "--b-cores", "2")
    assert kept["other"]["device"] == "testpmd 2c"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("64b-1c-memif-ethip4-ip4base-ndrpdr", "compare works with suites of methods"),
        ("64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps", "they have no ratio"),
        ("64b-wombat", "64b-wombat"),
    ],
)
def test_a_suite_that_has_no_ratio_to_the_first_is_refused(command, capsys, other, said):
    ended, documents = command("--b-suite", other)
    assert (ended, documents) == (2, [])
    assert said in capsys.readouterr().err


def test_a_side_that_was_kept_from_running_is_marked(command, capsys):
    waiting = Simulated(10e6, 1e4, unpaced_waits=0.02)
    status, (kept,) = command("--pairs", "6", "--at-least", "1.8", made=lambda: contextlib.nullcontext(waiting))
    (said,) = kept["remarks"]
    assert said.startswith("testpmd: in 6 of 6 trials the device waited for its core")
    assert (status, kept["irregular"]) == (3, True), "no gate is judged by it"
    told = capsys.readouterr()
    assert "irregular, in 6 of 6 trials the device waited for its core" in told.out


def test_what_cannot_be_kept_is_told_all_the_same(command, capsys, tmp_path):
    with no_file_longer_than(100):
        status, kept = command("--pairs", "6", "--at-least", "1.8")
    told = capsys.readouterr()
    assert (status, kept) == (3, [])
    assert "  a/b " in told.out
    assert f"it could not be kept in {tmp_path}: File too large" in told.err
    assert " ≥ 1.8" in told.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("ratio", ["nan", "0", "-1", "inf"])
def test_a_gate_that_says_nothing_is_refused(command, ratio):
    with pytest.raises(SystemExit) as ended:
        command("--at-least", ratio)
    assert ended.value.code == 2


@pytest.mark.parametrize("cores", ["0", "-1"])
def test_a_side_has_one_worker_at_least(command, capsys, cores):
    with pytest.raises(SystemExit) as ended:
        command("--b-cores", cores)
    assert ended.value.code == 2
    assert "at least 1 is needed" in capsys.readouterr().err


@pytest.mark.parametrize("b", ["wombat", "quiver@nowhere", "kernel"])
def test_nothing_is_built_where_the_other_side_is_wrong(monkeypatch, tmp_path, b):
    monkeypatch.setattr(common, "build", lambda revision: pytest.fail("it is being built"))
    words = [b if word == "testpmd" else word.replace("quiver", "quiver@HEAD") for word in RUN]
    assert main([*words, "--results", str(tmp_path)]) == (3 if b == "kernel" else 2)


def test_what_was_measured_is_kept_whatever_ends_it(command, capsys):
    count = itertools.count()

    def full():
        if next(count) == 3:
            raise OSError("no space left on device")
        return contextlib.nullcontext(Simulated(10e6, 1e4))

    status, (kept,) = command("--pairs", "6", made=full)
    assert status == 3
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "quiver-bench: OSError: no space left on device", "in a line"
    assert (kept["passed"], kept["message"]) == (False, "OSError: no space left on device")
    assert kept["result"]["pairs"] == 3


def test_the_log_of_a_void_pair_stands_beside_its_document_and_is_named_there(command, tmp_path):
    def dying():
        raise TrialVoid("device died", "out of luck")

    status, (kept,) = command("--pairs", "6", made=dying)
    assert status == 3
    assert "out of luck" in (tmp_path / kept["log"]).read_text()
    assert kept["path"].endswith(kept["log"].removeprefix("logs/").replace(".log", ".json"))


def test_each_side_has_the_limit_of_its_own_cores(monkeypatch):
    asked = []
    monkeypatch.setattr(command_module, "generator_limit", lambda setup: asked.append(setup.suite.cores) or asked[-1])
    one, two = (chosen(f"64b-{cores}c-memif-ethip4-ip4base-mrr") for cores in (1, 2))
    assert command_module._limits(one, two) == (1, 2)
    assert command_module._limits(one, one) == (1, 1)
    assert asked == [1, 2, 1], "the same isn't measured twice"


def test_a_terminal_that_goes_away_ends_it_as_ctrl_c_does(monkeypatch):
    for before, kept in ((signal.SIG_DFL, signal.default_int_handler), (signal.SIG_IGN, signal.SIG_IGN)):
        old = signal.signal(signal.SIGHUP, before)
        try:
            main(["list"])
            assert signal.getsignal(signal.SIGHUP) is kept
        finally:
            signal.signal(signal.SIGHUP, old)
