"""Fixtures: a store with results whose figures are known, made by the methods from simulated systems."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quiver_bench.commands.common import Chosen
from quiver_bench.compare import Comparison, compare
from quiver_bench.devices import Setup
from quiver_bench.devices.floor import Floor
from quiver_bench.devices.revision import binaries
from quiver_bench.machine import Cores
from quiver_bench.methods import mrr, ndrpdr
from quiver_bench.results.documents import Versions, comparison_document, figure_document
from quiver_bench.results.store import Store
from quiver_bench.simulated import Simulated
from quiver_bench.suites import find

MRR = "64b-1c-memif-ethip4-ip4base-mrr"
NDRPDR = "64b-1c-memif-ethip4-ip4base-ndrpdr"
VERSIONS = Versions("tgen 1.0", "1.0", "2.0")
COMMAND = [sys.executable, "-m", "quiver_bench"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def run(*words, timeout=120, **environment):
    """Runs quiver-bench as a user does."""
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )


def quiet(_):
    """Says nothing."""


def need(program):
    """The path of a program that a test can't do without; where it must be there, its absence is a failure."""
    found = shutil.which(program)
    if found is None:
        message = f"{program} is missing (scripts/setup.sh installs it)"
        pytest.fail(message) if os.environ.get("QUIVER_REQUIRE_PEERS") else pytest.skip(message)
    return found


@contextlib.contextmanager
def no_file_longer_than(count):
    """A disk that is full, as far as this process goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def programs():
    """The directory of Quiver's programs."""
    if not (binaries() / "quiver-tgen").exists():
        message = f"{binaries()}/quiver-tgen is missing (make build)"
        pytest.fail(message) if os.environ.get("QUIVER_REQUIRE_PEERS") else pytest.skip(message)
    return binaries()


def chosen(suite_name, device="quiver", commit="0123456789ab"):
    """A device as the command line chooses it, with nothing started."""
    return Chosen(device, Floor, Setup(find(suite_name), Cores(0, (1,)), Path("/nonexistent")), commit)


def document(figure, suite_name, device="quiver", commit="0123456789ab", at=START, effort=""):
    """A result document of a figure, with clocks."""
    figure = replace(figure, clocks={"ip4-input": 9.5, "ip4-lookup": 6.25})
    return figure_document(figure, chosen(suite_name, device, commit), VERSIONS, at, effort=effort)


@pytest.fixture
def store(made, tmp_path):
    """A store of one's own, as :func:`made` has made it."""
    shutil.copytree(made.directory, tmp_path / "results")
    return Store(tmp_path / "results")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Twelve runs that fall by a tenth after the eighth, a search with latency, and a comparison."""
    kept = Store(tmp_path_factory.mktemp("made") / "results")
    for day in range(12):
        system = Simulated(20e6 if day < 8 else 18e6, 1e4, scatter=0.002, seed=day)
        (figure,) = mrr.measure(system, quiet, trials=5)
        kept.add(document(figure, MRR, commit=f"c{day:011}", at=START + timedelta(days=day)))
    search = ndrpdr.measure(Simulated(20e6, 1e4), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    percentiles = {"0": 4.0, "50": 6.0, "90": 9.0, "99": 20.0, "99.9": 41.0}
    latency = {"min": 4.0, "avg": 6.5, "max": 50.0, "percentiles": percentiles, "hdrh": "", "unit": "us"}
    search.result["latency_forward"] = {f"pdr_{share}": latency for share in (0, 10, 50, 90)}
    kept.add(document(search, NDRPDR, at=START + timedelta(days=13)))
    kept.add(comparison(START + timedelta(days=14)))
    return kept


def compared(pairs=7, first=20e6, second=10e6):
    """Two simulated systems, held against each other."""
    seeds = itertools.count(1)
    made = Comparison(MRR, "receive_rate_pps", "quiver", "testpmd")
    systems = [
        lambda mrr_pps=mrr_pps: contextlib.nullcontext(Simulated(mrr_pps, 1e4, seed=next(seeds)))
        for mrr_pps in (first, second)
    ]
    return compare(made, *systems, pairs=pairs, seconds=1.0)


def comparison(at, **more):
    """The document of A against B, twice as fast."""
    return comparison_document(compared(**more), chosen(MRR), chosen(MRR, "testpmd", ""), VERSIONS, at)


def standing_elsewhere_from(trial, where, capacity, **more):
    """A system whose host moves the cores, and with them its capacity, from that trial on."""
    system = Simulated(30e6, 1e3, **more)
    offer = system.offer

    def moving(load):
        if len(system.asked) == trial:
            system.placements, system.mrr = [where], capacity
        return offer(load)

    system.offer = moving
    return system


@pytest.fixture
def options():
    """Options of a measuring command at their defaults."""
    return argparse.Namespace(generator_core=None, worker_cores=None, vpp_bin=None, no_store=True, output="json")


def small(suite):
    """The suite with a thousandth of its table: what it is made of, and takes, doesn't depend on how large that is."""
    table = suite.case.table
    if table is None:
        return suite
    less = {"lengths": tuple((length, -(-count // 1000)) for length, count in getattr(table, "lengths", ()))}
    less |= {name: -(-getattr(table, name) // 1000) for name in ("hosts", "destinations") if hasattr(table, name)}
    known = {name: value for name, value in less.items() if hasattr(table, name)}
    return replace(suite, case=replace(suite.case, table=replace(table, **known)))
