"""Suites of sessions that begin, that are many, that are changed and that are flooded, and what is told of a device after trials."""

import os
import subprocess
from dataclasses import replace

import pytest
from conftest import document, quiet

from quiver_bench.commands.main import main
from quiver_bench.commands.measure import in_words
from quiver_bench.devices import metrics
from quiver_bench.devices.base import Setup, Vitals, resident
from quiver_bench.devices.quiver import Quiver
from quiver_bench.devices.vpp import Vpp
from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.generators import Endpoint, Flooding
from quiver_bench.machine import allot
from quiver_bench.methods import change, flood, mrr
from quiver_bench.report import markdown
from quiver_bench.simulated import Simulated
from quiver_bench.suites import find
from quiver_bench.trial import standing

CREATE = "64b-1c-memif-ethip4udp-nat44ed-h1000000-p1-s1000000-create"
CHAIN = "64b-1c-memif-ethip4udp-ip4base-session-chain-h1000000-p1-s1000000-change"
POLICY = "64b-1c-memif-ethip4udp-ip4base-session-policy-h1000000-p1-s1000000-change"
FLOOD = "64b-1c-memif-ethip4tcp-ip4base-session-tcp-h100000-p1-s100000-flood"
MANY = "64b-1c-memif-ethip4udp-ip4base-session-l4-h16000000-p1-s16000000-mrr"


class Flooded(Simulated):
    """Loses packets of connections in its last trial only."""

    def offer(self, load):
        """Sends without waiting."""
        trial = super().offer(load)
        lost = 7 if len(self.asked) == 4 else 0
        found = replace(trial.output, sent=1000, received=1000 - lost, lost=lost, flood_pps=2e6 * len(self.asked))
        return replace(trial, output=found, vitals=Vitals(100.0 * len(self.asked)))


def test_what_connections_lose_beside_a_flood_is_counted(store, capsys):
    figure = flood.measure(Flooded(20e6, 1e2), quiet, 3, 1.0)
    assert figure.result["loss"] == {
        "packet": {"value": 7, "unit": "packets"},
        "sent": {"value": 3000, "unit": "packets"},
    }
    assert figure.result["flood_rate"]["values"] == [4e6, 6e6, 8e6], "the first one warms up"
    made = document(figure, FLOOD)
    store.add(made)
    said = "7 of 3000 packets lost beside 6.000 ± 2.000 Mpps  (near, longest round 0.40 ms"
    assert said in in_words(made), in_words(made)
    assert "7 of 3000 packets lost beside 6.00 Mpps" in markdown.tables(store)
    assert main(["trend", FLOOD, "--results", str(store.directory)]) == 0
    assert "1 run(s), now 7.000 packets lost" in capsys.readouterr().out


class Changed(Simulated):
    """Looks through its sessions in 4 ms more with each change, and loses 3 packets of a million each time."""

    def offer(self, load):
        """Sends without waiting."""
        trial = super().offer(load)
        found = replace(trial.output, sent=1_000_000, lost=3)
        return replace(trial, output=found, vitals=Vitals(revisit_us=4000.0 * len(self.asked)))


def test_how_long_a_change_takes_and_what_it_costs(store):
    system = Changed(20e6, 1e2)
    figure = change.measure(system, quiet, 2, 1.0)
    assert system.asked[1:] == [(1.0, 1e6)] * 2
    assert figure.result["revisit"]["values"] == [0.008, 0.012], "the first one warms up"
    assert figure.result["loss"]["packet"]["value"] == 6
    made = document(figure, CHAIN)
    store.add(made)
    said = "all sessions looked through in 10.0 ± 2.8 ms, 6 of 2000000 packets lost"
    assert said in in_words(made), in_words(made)
    assert "10.0 ms, 6 of 2000000 packets lost" in markdown.tables(store)


def test_the_worst_of_several_trials_is_told():
    several = [Vitals(120.0, 3_000_000_000, 16), Vitals(80.0, 3_500_000_000, None, 4200.0), Vitals()]
    worst = Vitals.worst(several)
    assert worst == Vitals(120.0, 3_500_000_000, 16, 4200.0)
    assert worst.in_words() == [
        "longest round 0.12 ms",
        "16 sessions",
        "3.50 GB resident",
    ]
    assert Vitals.worst([]) == Vitals() and Vitals().in_words() == []


def test_vitals_stand_in_documents():
    made = document(mrr.measure(Simulated(12e6, 1e4), quiet, trials=3)[0], MANY)
    assert made["vitals"] == {"longest_round_us": None, "resident_bytes": None, "sessions": None, "revisit_us": None}
    assert all("vitals" in trial for trial in made["trials"])


def test_memory_is_that_of_the_process():
    held = bytearray(64 << 20)
    assert 64 << 20 < resident([os.getpid()]) < 1 << 33
    del held
    assert resident([2**22 + 1]) is None, "a process that is gone"


def test_metrics_are_read_by_name_and_labels():
    text = '# HELP a_b Text.\na_b{node="x y",event="z"} 12\n\nc 1.5\n'
    assert metrics.samples(text) == {'a_b{node="x y",event="z"}': 12.0, "c": 1.5}


def test_who_can_not_do_it_says_so():
    for name, why in ((CREATE, "forget its sessions"), (CHAIN, "treat sessions otherwise"), (FLOOD, "third port")):
        Quiver.require(find(name))
        with pytest.raises(Unsupported, match=why):
            Vpp.require(find(name))


def test_the_generator_takes_the_profiles_of_a_flood(programs, tmp_path):
    """It is understood, but there is nobody at the sockets."""
    suite = find(FLOOD)
    generator = Flooding(programs, suite.case.hosts)
    ends = Endpoint("memif", str(tmp_path / "left")), Endpoint("memif", str(tmp_path / "right"))
    for text in generator.profiles(ends, 0.1):
        (tmp_path / "profile.toml").write_text("wait = 0.1\n" + text)
        words = [programs / "quiver-tgen", "--profile", tmp_path / "profile.toml"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "left" in done.stderr, done.stderr


@pytest.fixture
def small(programs):
    """Stands with a suite of a thousand sessions instead of so many; ``more`` are other fields of its case."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")

    def stand(name, **more):
        suite = find(name)
        case = replace(suite.case, **{"flows": 1000, "held": 1000, **more})
        return standing(Quiver, Setup(replace(suite, case=case), allot(1), programs))

    return stand


@pytest.mark.real
def test_sessions_begin_in_each_trial_of_creation(small):
    with small(CREATE) as stand:
        trials = [stand.trial(1.0) for _ in range(2)]
        assert [(trial.output.sent, trial.vitals.sessions) for trial in trials] == [(1000, 1000)] * 2
        assert "2000" in stand.device.cli("show", "tenant").split(), "none was there before"
        assert trials[0].vitals.longest_round_us > 0 and trials[0].vitals.resident_bytes > 1 << 20


@pytest.mark.real
def test_a_figure_of_fewer_sessions_than_were_meant_is_none(small):
    with small(CREATE, held=1001) as stand, pytest.raises(TrialVoid, match="the device holds 1000 sessions of 1001"):
        stand.trial(1.0)


@pytest.mark.real
@pytest.mark.parametrize("name", [CHAIN, POLICY])
def test_a_change_reaches_all_sessions_while_packets_flow(small, name):
    with small(name) as stand:
        stand.warm_up(0.1)
        before = stand.device.tenant
        said = []
        trial = stand.trial(0.5, 1000.0, lambda: said.append(stand.reconfigure()))
        assert "all sessions looked through in" in said[0]
        assert trial.vitals.revisit_us is not None and stand.device.tenant != before
        stand.reconfigure()
        assert stand.device.tenant == before, "and back again"
        assert trial.vitals.sessions == 1000


@pytest.mark.real
def test_connections_are_established_before_a_flood(small):
    with small(FLOOD, flows=1, hosts=1000) as stand:
        trial = stand.trial(0.5)
        assert trial.output.sent > 10_000 and trial.output.flood_pps > 1000
        assert trial.vitals.sessions >= 1000
        established = stand.device.cli("show", "session", "--state", "established", "--limit", "0", "-o", "json")
        assert established.count('"initiator_tcp": "established"') == 1000
