"""What is asked for and can't be done is refused with a reason, before anything starts."""

import pytest
from conftest import MRR, run


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["run", "64b-1c-memif-ethip4-ip4bas-mrr"], 2, "the nearest: 64b-1c-memif-ethip4-ip4base-mrr"),
        (["run", MRR, "--device", "wombat"], 2, "there is no device wombat"),
        (["run", "4x*"], 2, "no suite matches"),
        (["run", MRR, "--device", "vpp"], 3, "--vpp-bin"),
        (["run", "64b-1c-memif-eth-l2xcbase-mrr", "--device", "kernel"], 3, "no memif ports"),
        (["compare", "--suite", MRR, "--a", "quiver@nowhere", "--b", "quiver"], 2, "no such commit"),
        (
            ["compare", "--suite", MRR.replace("mrr", "ndrpdr"), "--a", "quiver", "--b", "floor"],
            2,
            "suites of methods cps, create, mrr, replay, tput",
        ),
        (["trend", "--results", "/nonexistent"], 2, "there are no results"),
        (["report", "--results", "/nonexistent"], 2, "there are no results"),
        (["run", MRR, "--results", "/proc/none"], 2, "can't be kept there"),
        (["run", MRR, "--trials", "0"], 2, "at least 1"),
        (["run", MRR, "--seconds", "0"], 2, "more than 0"),
        (["run", MRR, "--seconds", "2", "--duration-sum", "1"], 2, "less than a trial"),
        (["run", MRR, "--worker-cores", "x"], 2, "numbers with commas"),
        (["run", MRR, "--worker-cores", "999"], 2, "core 999 can't be used"),
        (["run", MRR, "--generator-core", "0", "--worker-cores", "0"], 2, "given to the generator and to a worker"),
        (["list", "--device", "nope"], 2, "no device nope. There are"),
        (["export", "--to", "x.csv", "--results", "/nonexistent"], 2, "there are no results"),
        (["dash", "--port", "99999"], 2, "1 to 65535"),
        (["export", "--to", "/none/x.csv"], 2, "no directory"),
    ],
)
def test_bad_input_is_explained(words, status, said):
    done = run(*words)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count(said) == 1, "once is enough"


def test_missing_programs_are_said_so():
    done = run("run", MRR, "--no-store", QUIVER_BIN="/nonexistent")
    assert done.returncode == 3
    assert "make build" in done.stderr
