"""A canary beside an attack: figures, command lines, and who can be attacked."""

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from conftest import document, quiet

from quiver_bench.commands.measure import in_words
from quiver_bench.devices import Setup, device
from quiver_bench.devices import hostile as pods
from quiver_bench.devices.kernel import Kernel
from quiver_bench.devices.quiver import Quiver
from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.generators import Endpoint, Load
from quiver_bench.generators import hostile as generator
from quiver_bench.machine import allot
from quiver_bench.methods import hostile as method
from quiver_bench.noise import Noise
from quiver_bench.report import markdown
from quiver_bench.suites import find, hostile
from quiver_bench.trial import Stand, Trial, standing

SUITE = "64b-1c-tap-ethip4-ip4base-filters-hostile"
ENDS = Endpoint("netns", "eth0", "qb1-l", "10.0.0.2"), Endpoint("netns", "eth0", "qb1-r", "10.0.1.2")


def report(**changes):
    """What a canary prints."""
    figures = {"sent": 6000, "received": 6000, "unsent": 0, "own_late_ms": 0.5, "gap_ms": 11.0}
    times = {"min_ms": 0.04, "mean_ms": 0.07, "p50_ms": 0.06, "p99_9_ms": 0.4, "max_ms": 1.0}
    return json.dumps(figures | times | changes)


class Attacked(Stand):
    """A device that loses half of what it gets beside an attack, or all of it."""

    def __init__(self, received, late_ms=0.5):
        self.received, self.late_ms, self.loads = received, late_ms, []

    def reconfigure(self):
        """Is not asked for."""
        raise AssertionError("nothing is configured meanwhile")

    def offer(self, load: Load) -> Trial:
        """A trial with fixed figures."""
        self.loads.append(load)
        line = (
            report(received=self.received, p50_ms=2.0, p99_9_ms=900.0, own_late_ms=self.late_ms)
            if load.attacked
            else report()
        )
        noise = Noise(0.0, 0.0, load.seconds, 0.0)
        return Trial(generator.output(line, load.seconds), noise, datetime.now(UTC), "near")


def test_a_canary_is_held_against_itself_without_the_attack(store):
    stand = Attacked(3000)
    figure = method.measure(stand, quiet, 2.0)
    assert [(load.seconds, load.attacked) for load in stand.loads] == [(2.0, False), (2.0, True)]
    assert figure.result["loss"]["packet"]["value"] == 3000
    assert figure.result["latency"]["percentiles"] == {"50": 2000.0, "99.9": 900000.0}
    assert figure.result["calm"]["loss"]["packet"]["value"] == 0
    made = document(figure, SUITE)
    store.add(made)
    said = r"p50 2000\.0 us, p99\.9 900000\.0 us, 3000 of 6000 lost; without the attack p50 60\.0 us, p99\.9 400\.0 us, 0 of 6000 lost"
    assert re.search(said, in_words(made))
    assert re.search(said, markdown.tables(store))


def test_an_attack_that_lets_nothing_through_is_a_figure(store):
    figure = method.measure(Attacked(0), quiet, 1.0)
    assert "latency" not in figure.result
    assert not figure.remarks
    store.add(document(figure, SUITE))
    assert "nothing came, 6000 of 6000 lost" in markdown.tables(store)


def test_a_canary_that_did_not_run_is_told_of():
    figure = method.measure(Attacked(6000, late_ms=1200.0), quiet, 1.0)
    assert figure.remarks == ["the canary itself was kept from running for up to 1200.0 ms"]


def test_what_finds_no_room_is_lost():
    output = generator.output(report(sent=100, received=90, unsent=400), 1.0)
    assert (output.sent, output.received, output.lost) == (500, 90, 410)
    with pytest.raises(TrialVoid, match="without a report: killed"):
        generator.output("killed", 1.0)


@pytest.mark.parametrize("attack", hostile.ATTACKS, ids=lambda attack: attack.name)
def test_every_attack_has_a_suite_and_runs_in_its_own_pods(attack):
    (name,) = [case.name for case in hostile.cases() if case.attack == attack.name]
    suite = find(f"64b-1c-{attack.port}-{name}-hostile")
    assert hostile.attack_of(suite.case) is attack
    Quiver.require(suite)
    memifs = tuple(Endpoint("memif", f"/run/{name}") for name in ("left", "right"))
    commands = generator.attackers(attack.name, ENDS) if attack.name not in ("eventfds", "thief") else []
    for words in commands:
        assert words[:3] == ("ip", "netns", "exec") and words[3] in ("qb1-bad", "qb1-friend"), words
        assert "setpriv" in words, "pods have no more rights than that"
    if attack.name == "eventfds":
        waiters, flood = generator.attackers(attack.name, memifs)
        assert (waiters[1], flood[1]) == ("/run/bad", "/run/friend")


def test_only_devices_with_ports_for_attackers_are_attacked():
    for name in ("testpmd", "floor", "wire", "l3fwd"):
        with pytest.raises(Unsupported):
            device(name).device.require(find(SUITE))
    Kernel.require(find(SUITE))
    with pytest.raises(Unsupported):
        Kernel.require(find("64b-1c-memif-ethip4-ip4base-eventfds-hostile"))
    assert pods.ROLES == ("bad", "friend")


@pytest.mark.real
@pytest.mark.parametrize("kind", [Quiver, Kernel], ids=["quiver", "kernel"])
@pytest.mark.parametrize("attack", hostile.ATTACKS, ids=lambda attack: attack.name)
def test_the_attacks_run(programs, kind, attack):
    if len(os.sched_getaffinity(0)) < 2 or os.geteuid() != 0:
        pytest.skip("two cores and root are needed")
    if attack.port not in kind.hostile:
        pytest.skip("it can't be attacked by that port")
    (case,) = [case for case in hostile.cases() if case.attack == attack.name]
    suite = find(f"64b-1c-{attack.port}-{case.name}-hostile")
    with standing(kind, Setup(suite, allot(1), programs)) as stand:
        calm = stand.offer(Load(0.5))
        assert calm.output.received > 0
        attacked = stand.offer(replace(Load(0.5), attacked=True))
    assert attacked.output.sent > 0
