"""Reconfigurations of simulated systems, whose standstill is known."""

import pytest
from conftest import quiet, standing_elsewhere_from

from quiver_bench.methods import reconf, steady
from quiver_bench.simulated import Simulated


@pytest.mark.parametrize("late", [1, 0])  # both trials after the search stand elsewhere, or the last one
def test_a_reconfiguration_is_measured_where_its_rate_was_found(late):
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    figure = reconf.measure(standing_elsewhere_from(trials - late, "far", 13e6), quiet, 480, seconds=1.0)
    # All was searched anew, at the rate of the placement in which the cores had come to stand.
    assert (figure.result["type"], figure.placement, figure.irregular) == ("reconf", "far", False)
    assert figure.result["aggregate_rate"]["rate"]["value"] < 13e6
    figure = reconf.measure(standing_elsewhere_from(trials - late, "moved", 13e6), quiet, 480, seconds=1.0)
    assert (figure.result["type"], figure.placement, figure.irregular) == ("unknown", "near", True)
    assert "the cores were near at first, and never again" in figure.message


def test_a_reconfiguration_is_measured_at_a_load_that_loses_nothing_without():
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    slower = standing_elsewhere_from(trials - 1, "near", 20e6, reconfiguration_loss=1000)
    figure = reconf.measure(slower, quiet, 480, seconds=1.0)
    assert (figure.result["share_of_ndr"], figure.irregular, figure.remarks) == (0.6, False, [])
    assert figure.result["loss"]["packet"]["value"] == 1000
    assert figure.result["aggregate_rate"]["rate"]["value"] == figure.trials[-1].load_pps


def test_a_reconfiguration_that_is_lost_in_the_noise_is_irregular():
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    slower = standing_elsewhere_from(trials - 1, "near", 20e6, reconfiguration_loss=1000)
    losing = slower.loss_per_second
    slower.loss_per_second = lambda load: losing(load) if slower.mrr == 30e6 else 5000
    figure = reconf.measure(slower, quiet, 480, seconds=1.0)
    assert figure.irregular
    assert "are missing without a reconfiguration: try again when it is quieter" in figure.remarks[0]
    assert len(figure.trials) == trials + len(reconf.SHARES) - 1


def test_a_reconfiguration_that_the_generator_slept_through_is_made_again():
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    system = Simulated(30e6, 1e3, reconfiguration_loss=1000)
    offer, asleep = system.offer, iter([0.198, 0.198])
    system.offer = lambda load: (
        setattr(system, "stalls", [next(asleep, 0.0) if load.meanwhile else 0.0]),
        offer(load),
    )[1]
    told = []
    figure = reconf.measure(system, told.append, 480, seconds=1.0)
    assert (figure.irregular, figure.remarks, len(figure.trials)) == (False, [], trials + 2)
    assert figure.result["loss"]["packet"]["value"] == 1000
    assert [trial.counts for trial in figure.trials[-3:]] == [False, False, True]
    assert told.count("again: the generator itself was kept from running for 198 ms") == 2


def test_a_reconfiguration_whose_device_waits_for_its_core_tries_no_lower_loads():
    """It would wait there as well."""
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    system = Simulated(30e6, 1e3, reconfiguration_standstill=0.2)
    offer = system.offer
    system.offer = lambda load: (setattr(system, "waits", 0.009 if load.max_late else 0.0), offer(load))[1]
    told = []
    figure = reconf.measure(system, told.append, 480, seconds=1.0)
    assert (figure.result["share_of_ndr"], figure.irregular) == (0.9, False)
    assert told.count("again: the device waited 9.0 ms for its core") == steady.OWN_PATIENCE - 1
    assert len(figure.trials) == trials + steady.OWN_PATIENCE - 1
    assert "or the device's thread (9.0 ms in all) was kept from running" in figure.remarks[0]


def test_reconfiguration_is_lost_packets_by_rate():
    system = Simulated(10e6, 1e2, reconfiguration_loss=5_000)
    figure = reconf.measure(system, quiet, 480, seconds=1.0)
    rate = figure.result["aggregate_rate"]["rate"]["value"]
    assert figure.result["loss"]["packet"]["value"] == 5_000
    assert figure.result["loss"]["time"]["value"] == pytest.approx(5_000 / rate)
    assert figure.result["reconfiguration"] == "the simulation grew"


def test_a_standstill_is_seen_though_all_packets_come_in_the_end():
    """Packets wait in a ring for whoever catches up, so that none is lost; who doesn't catch up knows how many were never sent."""
    system = Simulated(10e6, 1e2, reconfiguration_standstill=0.05)
    result = reconf.measure(system, quiet, 480, seconds=1.0).result["loss"]
    assert result["lost"]["value"] == 0
    assert result["time"]["value"] == pytest.approx(0.05 - reconf.MAX_LATE, rel=0.01)
    assert result["packet"]["value"] == result["unsent"]["value"]
    assert result["without"]["value"] == 0
    asleep = Simulated(10e6, 1e2, reconfiguration_standstill=0.05, overslept=0.6)
    figure = reconf.measure(asleep, quiet, 480, seconds=1.0)
    assert figure.result["loss"]["time"]["value"] == pytest.approx(0.4 * (0.05 - reconf.MAX_LATE), rel=0.01)
    assert figure.remarks[0].startswith("the generator itself was kept from running for 30 ms: give what configures")
    assert figure.irregular, "most of it the generator didn't see, as it was kept from running itself"


def test_a_reconfiguration_without_a_rate_to_measure_it_at_has_no_figure():
    system = Simulated(30e6, 1e3, better_from=2)
    figure = reconf.measure(system, quiet, 480, seconds=1.0)
    assert (figure.result["type"], figure.irregular) == ("unknown", True)
    assert "upper bound" in figure.message


def test_a_reconfiguration_whose_generator_did_not_take_what_came_is_irregular():
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    system = standing_elsewhere_from(trials, "near", 30e6, reconfiguration_loss=100)
    system.placements, offer = ["near"], system.offer
    system.offer = lambda load: (setattr(system, "untaken", 1e-6 if load.meanwhile else 0.0), offer(load))[1]
    figure = reconf.measure(system, quiet, 480, seconds=1.0)
    assert (figure.irregular, figure.remarks[0][:32]) == (True, "the generator itself didn't take")
