"""The script of the short set, with a command in place of quiver-bench that notes what it is asked for."""

import os
import shutil
import subprocess

import pytest

from quiver_bench.devices.revision import ROOT


@pytest.fixture
def script(tmp_path):
    """Runs a copy of the script whose bin/quiver-bench ends with a status; returns its status, and the commands."""

    def run(ends, path=os.environ["PATH"], **more):
        (tmp_path / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "bench-short.sh", tmp_path / "scripts")
        (tmp_path / "bin").mkdir()
        bench = tmp_path / "bin" / "quiver-bench"
        bench.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{ends}\n')
        bench.chmod(0o755)
        done = subprocess.run(
            [shutil.which("bash"), tmp_path / "scripts" / "bench-short.sh"],
            env={**os.environ, "PATH": path, "RESULTS": "here", **more},
            capture_output=True,
            text=True,
            check=False,
        )
        return done, (tmp_path / "asked").read_text().splitlines()

    return run


def test_ctrl_c_ends_the_whole_set(script):
    done, asked = script("exit 130")
    assert (done.returncode, len(asked)) == (130, 1)


def test_what_fails_is_told_at_the_end(script):
    done, asked = script('[ "$1" != search ] || exit 3')
    assert done.returncode == 3
    assert asked[-1] == "report --results here"
    bounded = [line for line in asked if line.startswith(("compare", "search")) or "reconf" in line]
    assert all("--within 40" in line or "--search-seconds 40" in line for line in bounded)


def test_its_time_is_divided_and_what_there_is_none_for_is_left_out(script):
    """Each part takes a second and is stopped when its time is over, as by Ctrl-C: 35 s are enough for the first ones only."""
    stop = 'for word; do [ "$before" != --stop-after ] || left=$word; before=$word; done\n'
    done, asked = script(
        f'{stop}[ "$1" != run ] || {{ sleep "$left"; exit 130; }}\n[ "$1" = report ] || sleep 1', WITHIN_ALL="85"
    )
    assert done.returncode == 0
    assert asked[-1] == "report --results here"
    *parts, _ = asked
    left = [int(line.rsplit("--stop-after ", 1)[1]) for line in parts]
    assert left == sorted(left, reverse=True) and 30 <= left[0] <= 35, left
    assert "bench: left out, there is no time for it: soak" in done.stderr
    assert "bench: cut short, its time was over: run --trials 5" in done.stderr
    assert "of its parts were left out or cut short: 85 s are over" in done.stderr


def test_a_peer_that_is_not_installed_is_left_out_and_no_failure(script, tmp_path):
    only = tmp_path / "only"
    only.mkdir()
    for program in ("dirname", "cat", "id", "env", "sh"):
        (only / program).symlink_to(shutil.which(program))
    done, asked = script("exit 0", str(only))
    assert done.returncode == 0
    assert "left out: dpdk-testpmd isn't installed" in done.stderr
    assert not [line for line in asked if "testpmd" in line or "l3fwd" in line or "iperf3" in line]
    assert asked[0].startswith("compare --suite 64b-1c-memif-ethip4-ip4base-mrr --a quiver --b floor")
