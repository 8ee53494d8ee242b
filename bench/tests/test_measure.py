"""The command that measures suites, with nothing measured."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import MRR, chosen, document, no_file_longer_than, quiet

from quiver_bench import noise
from quiver_bench.commands import measure
from quiver_bench.commands.main import main, parser
from quiver_bench.errors import BenchError, Unsupported
from quiver_bench.methods import mrr
from quiver_bench.methods.base import Figure
from quiver_bench.noise import Noise, Watch
from quiver_bench.results.documents import command_line
from quiver_bench.simulated import Simulated

SUITES = ["64b-1c-memif-ethip4-ip4base-mrr", "64b-1c-memif-eth-l2xcbase-mrr"]


@pytest.mark.parametrize(
    ("error", "status"), [(None, 0), (Unsupported("this device doesn't bridge"), 0), (BenchError("it broke"), 3)]
)
def test_one_suite_that_fails_among_others_is_told_by_the_exit_status(monkeypatch, tmp_path, error, status):
    def made(name):
        if error and name == SUITES[1]:
            raise error
        return [{"passed": True, "message": ""}]

    measured(monkeypatch, made)
    assert main(["run", *SUITES, "--results", str(tmp_path)]) == status


def measured(monkeypatch, made):
    """Lets ``made`` say what becomes of each suite, by its name."""
    monkeypatch.setattr(measure, "choose", lambda text, suite, options: chosen(suite.name, text))
    monkeypatch.setattr(measure, "in_words", lambda document: "measured")
    monkeypatch.setattr(measure, "_measure", lambda device, options, store, tell: made(device.setup.suite.name))


def simulated(monkeypatch, by_method):
    """Has figures be those of ``by_method(kept, tell)``, with no device brought up."""
    monkeypatch.setattr(measure, "choose", lambda text, suite, options: chosen(suite.name, text))
    monkeypatch.setattr(measure, "generator_limit", lambda setup: None)
    stand = SimpleNamespace(generator=SimpleNamespace(version=lambda: "1.0"), version=lambda: "1.0", remarks=list)
    monkeypatch.setattr(measure, "standing", lambda *of: contextlib.nullcontext(stand))
    monkeypatch.setattr(measure, "_by_method", lambda stand, suite, options, kept, tell: by_method(kept, tell))


def failing(name):
    """The first suite is measured, the second fails in the middle."""
    failed = name == SUITES[1]
    return [{"suite": name, "passed": not failed, "message": "a trial was void" if failed else ""}]


def test_a_failed_document_among_others_is_told_by_the_exit_status(monkeypatch, tmp_path, capsys):
    measured(monkeypatch, failing)
    assert main(["run", *SUITES, "--results", str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert "failed: a trial was void" in told
    assert "1 of 2 suites could not be measured" in told
    assert main(["run", SUITES[1], "--results", str(tmp_path)]) == 3
    assert capsys.readouterr().err.count("a trial was void") == 1


def test_a_closed_pipe_hides_no_failure(monkeypatch, tmp_path):
    measured(monkeypatch, failing)
    for form in ("text", "json"):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            monkeypatch.setattr(sys, "stdout", closed)
            assert main(["run", *SUITES, "--results", str(tmp_path), "-o", form]) == 3
            assert main(["run", SUITES[0], "--results", str(tmp_path), "-o", form]) == 0


def test_a_suite_that_is_asked_for_twice_has_two_turns(monkeypatch, tmp_path, capsys):
    turns = iter(["measured", "stopped"])

    def made(name):
        if next(turns) == "stopped":
            raise KeyboardInterrupt
        return [{"suite": name, "passed": True, "message": ""}]

    measured(monkeypatch, made)
    assert main(["run", SUITES[0], SUITES[0], SUITES[1], "--results", str(tmp_path), "-o", "json"]) == 130
    said = [(each["suite"], each["message"]) for each in json.loads(capsys.readouterr().out)]
    assert said == [
        (SUITES[0], ""),
        (SUITES[0], "stopped before anything was measured"),
        (SUITES[1], "stopped before its turn"),
    ]


def test_a_pattern_that_matches_nothing_is_told_the_nearest(tmp_path, capsys):
    assert main(["run", "64b-1c-memif-ethip4-ipbase-m*", "--results", str(tmp_path)]) == 2
    assert "the nearest: 64b-1c-memif-ethip4-ip4base-mrr" in capsys.readouterr().err
    assert main(["soak", "64b-1c-memif-ethip4-ipbase-s*", "--results", str(tmp_path)]) == 2
    assert "the nearest: 64b-1c-memif-ethip4-ip4base-soak" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["run", MRR, "--results", "/tmp/r", "--trials", "3", "--stop-after", "60", "--no-store"],
        ["run", MRR, "--results=/tmp/r", "--trials", "3", "--stop-after=60"],
        ["run", "--res", "/tmp/r", MRR, "--trials", "3", "--sto=60", "--no-s"],
    ],
)
def test_the_command_that_measures_it_again_says_neither_where_nor_how_long(monkeypatch, words):
    assert parser().parse_args(words).trials == 3, "the parser takes them"
    monkeypatch.setattr(sys, "argv", ["quiver-bench", *words])
    assert command_line() == f"bin/quiver-bench run {MRR} --trials 3"


def test_a_search_takes_no_longer_than_it_may(monkeypatch):
    asked = []
    monkeypatch.setattr(measure.ndrpdr, "measure", lambda stand, tell, bits, effort, kept: asked.append(effort))
    options = parser().parse_args(["search", "64b-1c-memif-ethip4-ip4base-ndrpdr", "--search-seconds", "40"])
    suite = chosen("64b-1c-memif-ethip4-ip4base-ndrpdr").setup.suite
    measure._by_method(None, suite, options, [], print)
    assert asked[0].search_seconds == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "64b-1c-memif-ethip4-ip4base-mrr", "--trials", "5", "--seconds", "0.5"], "5 × 0.5 s"),
        (["search", "64b-1c-memif-ethip4-ip4base-ndrpdr"], "trials of 1 s, 21 s decide"),
        (["run", "64b-1c-memif-ethip4-ip4base-reconf", "--seconds", "0.3"], "trials of 0.3 s, 5 s decide"),
        (["soak", "64b-1c-memif-ethip4-ip4base-soak", "--soak-seconds", "60"], "60 s"),
    ],
)
def test_effort_is_what_was_asked_for(words, said):
    assert measure.effort(chosen(words[1]).setup.suite, parser().parse_args(words)) == said


def test_what_could_not_be_measured_stands_in_the_array_with_its_error(monkeypatch, tmp_path, capsys):
    def made(device, options, store, tell):
        if device.setup.suite.name == SUITES[1]:
            raise Unsupported("this device doesn't bridge")
        return [{"suite": SUITES[0], "passed": True, "message": ""}]

    monkeypatch.setattr(measure, "choose", lambda text, suite, options: chosen(suite.name, text))
    monkeypatch.setattr(measure, "_measure", made)
    words = ["--results", str(tmp_path), "-o", "json"]
    assert main(["run", *SUITES, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["suite"], each["passed"], each["message"]) for each in found] == [
        (SUITES[0], True, ""),
        (SUITES[1], False, "this device doesn't bridge"),
    ]
    assert main(["run", SUITES[1], *words]) == 3
    assert json.loads(capsys.readouterr().out)["message"] == "this device doesn't bridge"


def test_what_cannot_be_kept_is_told_all_the_same(monkeypatch, tmp_path, capsys):
    simulated(monkeypatch, lambda kept, tell: mrr.measure(Simulated(20e6, 1e4), quiet, trials=3))
    with no_file_longer_than(100):
        assert main(["run", *SUITES, "--results", str(tmp_path), "-o", "json"]) == 3
    told = capsys.readouterr()
    for each in json.loads(told.out):
        assert each["result"]["receive_rate"]["rate"]["avg"] == pytest.approx(20e6, rel=0.1)
        assert (each["passed"], each["message"]) == (False, f"it could not be kept in {tmp_path}: File too large")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_suites_that_were_stopped_stand_in_the_array_too(monkeypatch, tmp_path, capsys):
    def made(device, options, store, tell):
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "choose", lambda text, suite, options: chosen(suite.name, text))
    monkeypatch.setattr(measure, "_measure", made)
    assert main(["run", *SUITES, "--results", str(tmp_path), "-o", "json"]) == 130
    said = [each["message"] for each in json.loads(capsys.readouterr().out)]
    assert said == ["stopped before anything was measured", "stopped before its turn"]


def test_a_time_that_is_over_ends_it_as_ctrl_c_does(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measure, "choose", lambda text, suite, options: time.sleep(60))
    assert main(["run", MRR, "--results", str(tmp_path), "--stop-after", "0.2"]) == 130
    assert "stopped before anything was measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "flag"), [("search", "--trials"), ("search", "--soak-seconds"), ("soak", "--seconds")]
)
def test_a_method_is_offered_only_what_it_knows(command, flag, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, MRR, flag, "1"])
    assert ended.value.code == 2
    assert f"unrecognized arguments: {flag} 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out.split()
    assert flag not in told
    assert {"search": "MLRsearch,", "soak": "PLRsearch:"}[command] in told


def starved(figure: Figure) -> str:
    """What is said of a figure whose device was kept from running."""
    (said,) = [remark for remark in figure.remarks if "waited for its core" in remark]
    return said


def test_a_device_that_was_kept_from_running_at_the_greatest_load_is_marked():
    for more in ({"unpaced_waits": 0.3}, {"steal": 0.3}):
        (figure,) = mrr.measure(Simulated(20e6, 1e4, **more), quiet, trials=3)
        assert figure.irregular
        assert starved(figure).startswith("in 3 of 3 trials the device waited for its core or the host took cores away")
        assert "for up to 30% of the time" in starved(figure)
        assert f"irregular, {starved(figure)}" in measure.in_words(document(figure, MRR))
    (figure,) = mrr.measure(Simulated(20e6, 1e4, unpaced_waits=0.01), quiet, trials=3)
    assert (figure.irregular, figure.remarks) == (False, [])


def test_what_a_core_lost_is_a_share_of_the_time_that_was_watched(monkeypatch, tmp_path):
    stat = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")

    def stolen(*seconds):
        lines = [f"cpu{core} 1 2 3 4 5 6 7 {round(lost * ticks)} 0 0" for core, lost in enumerate(seconds)]
        stat.write_text("\n".join(["cpu  1 2 3 4 5 6 7 8 0 0", *lines, "intr 1"]))

    monkeypatch.setattr(noise, "_STAT", stat)
    stolen(1.0, 2.0, 3.0)
    with Watch([], [0, 1]) as watch:
        stolen(1.25, 2.5, 9.0)
    assert (watch.noise.steal_s, watch.noise.worst_steal_s) == (0.75, 0.5)
    assert 0 < watch.noise.watched_s < 60
    trial = Simulated(20e6, 1e4).trial(1.0)
    # The generator took half a second to come up and to wait for the last.
    starved = replace(trial, noise=Noise(steal_s=0.12, worst_steal_s=0.06, watched_s=1.5, wait_s=0.015))
    assert starved.kept_waiting == pytest.approx(0.05)


def test_one_starved_trial_of_many_is_told_and_spoils_nothing():
    system = Simulated(20e6, 1e4)
    offer = system.offer
    system.offer = lambda load: (setattr(system, "unpaced_waits", 0.1 * (len(system.asked) == 3)), offer(load))[1]
    (figure,) = mrr.measure(system, quiet, trials=10)
    assert starved(figure).startswith("in 1 of 10 trials")
    assert not figure.irregular


@pytest.mark.parametrize("words", [["list"], ["list", "-o", "json"], ["list", "--devices"]])
def test_a_pipe_that_is_closed_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "quiver_bench", *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("both", [False, True])
def test_a_full_disk_behind_the_output_is_told_in_a_line(monkeypatch, both):
    monkeypatch.delenv("QUIVER_BENCH_DEV", raising=False)
    with Path("/dev/full").open("wb") as full:
        error = full if both else subprocess.PIPE
        done = subprocess.run(
            [sys.executable, "-m", "quiver_bench", "list"], stdout=full, stderr=error, text=True, check=False
        )
    assert done.returncode == 3, "1 is that of a gate"
    assert both or done.stderr == "quiver-bench: OSError: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("behind", ["closed pipe", "full disk", "nothing"])
def test_nobody_hearing_how_it_goes_on_ends_no_measurement(monkeypatch, tmp_path, capsys, behind):
    simulated(monkeypatch, lambda kept, tell: mrr.measure(Simulated(20e6, 1e4), tell, trials=3))
    with unheard(behind) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert main(["run", MRR, "--results", str(tmp_path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 3
    assert len(list(tmp_path.rglob("*.json"))) == 1


@contextlib.contextmanager
def unheard(behind):
    """Standard error, as a shell gives it, that takes nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1) as pipe, Path("/dev/full").open("w", buffering=1) as disk:
        yield {"closed pipe": pipe, "full disk": disk, "nothing": None}[behind]


@pytest.mark.parametrize("words", [["run", "wombat"], ["run"], ["compare", "--at-least", "0"]])
@pytest.mark.parametrize("behind", ["closed pipe", "full disk"])
def test_bad_input_that_nobody_hears_of_has_its_exit_status(words, behind):
    with unheard(behind) as stderr:
        done = subprocess.run([sys.executable, "-m", "quiver_bench", *words], stderr=stderr, check=False)
    assert done.returncode == 2, "1 is that of a gate"


def test_what_nobody_foresaw_is_told_in_a_line(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("QUIVER_BENCH_DEV", raising=False)
    monkeypatch.setattr(measure, "choose", lambda text, suite, options: {}["wombat"])
    assert main(["run", MRR, "--results", str(tmp_path)]) == 3
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("quiver-bench: KeyError: 'wombat' (") and "test_measure.py:" in said[-1]
    assert not any("Traceback" in line for line in said)


def test_what_nobody_foresaw_leaves_what_was_measured_before_it(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("QUIVER_BENCH_DEV", raising=False)

    def breaks(kept, tell):
        mrr.measure(Simulated(20e6, 1e4), tell, trials=3, kept=kept)
        return {}["wombat"]

    simulated(monkeypatch, breaks)
    assert main(["run", MRR, "--results", str(tmp_path)]) == 3
    (kept,) = (json.loads(path.read_text()) for path in tmp_path.rglob("*.json"))
    assert (kept["passed"], kept["message"], len(kept["trials"])) == (False, "KeyError: 'wombat'", 3)
    assert "quiver-bench: KeyError: 'wombat'" in capsys.readouterr().err


def test_ctrl_c_while_the_wrapper_looks_for_a_python_ends_it(tmp_path):
    python = tmp_path / "python3"
    # As of a terminal: to all of the group. One that is stopped isn't one that doesn't fit.
    python.write_text("#!/bin/sh\nkill -INT $PPID\nkill -INT $$\n")
    python.chmod(0o755)
    done = subprocess.run(
        [Path(__file__).parents[2] / "bin/quiver-bench", "--version"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "QUIVER_BENCH_CACHE": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background it is ignored
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_while_it_is_loaded_is_told_as_any_other(tmp_path):
    (tmp_path / "duckdb.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-m", "quiver_bench", "list"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "quiver-bench: stopped\n")
