"""Methods against simulated systems, whose capacity is known."""

import itertools
import math
from dataclasses import replace

import numpy
import pytest
from conftest import quiet
from scipy.integrate import quad
from scipy.special import erfc, expit

from quiver_bench import selftest
from quiver_bench.commands.measure import figure_in_words
from quiver_bench.errors import TrialVoid
from quiver_bench.methods import mrr, ndrpdr, plr, reconf, soak, steady
from quiver_bench.methods.base import Figure
from quiver_bench.simulated import Simulated


@pytest.mark.parametrize("check", selftest.CHECKS, ids=lambda check: check.__name__)
def test_self_test(check):
    assert check()


def test_mrr_of_a_device_that_forwards_nothing_is_no_figure():
    with pytest.raises(TrialVoid, match="forwarded nothing"):
        mrr.measure(Simulated(0, 1e3), quiet, trials=4)


def test_mrr_keeps_placements_apart_and_leaves_moved_trials_out():
    system = Simulated(10e6, 1e3, placements=["near", "near", "moved", "far", "near", "near"])
    figures = mrr.measure(system, quiet, trials=4)
    assert [(figure.placement, len(figure.trials)) for figure in figures] == [("near", 4), ("far", 1)]


def test_what_the_generator_limits_is_marked():
    (figure,) = mrr.measure(Simulated(100e6, 1e3, generator_pps=50e6), quiet, trials=3)
    assert figure.generator_limited
    (figure,) = mrr.measure(Simulated(10e6, 1e3, generator_pps=50e6), quiet, trials=3)
    assert not figure.generator_limited


def test_a_search_that_outruns_the_generator_says_so():
    """What could not be sent counts as lost, so the figure is the generator's and not the load that was wished for."""
    figure = ndrpdr.measure(Simulated(500e6, 1e3), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert figure.generator_limited
    for goal in ("ndr", "pdr"):
        assert figure.result[goal]["lower"]["rate"]["value"] <= 50e6
    assert not ndrpdr.measure(Simulated(10e6, 1e3), quiet, 480, ndrpdr.Effort(duration_sum=3.0)).generator_limited


def test_a_search_without_an_upper_bound_is_irregular():
    """A device that lost while it went as fast as could be, and loses nothing since, has none."""
    system = Simulated(30e6, 1e3)
    system.better_from = 2
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert figure.irregular
    assert "upper bound" in figure.message


def test_a_search_that_always_loses_says_so_in_words():
    system = Simulated(10e6, 1e3)
    system.loss_per_second = lambda load: 0.5 * load
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert (figure.result["type"], figure.irregular) == ("unknown", True)
    assert figure.message == "the search failed: more is lost than is looked for even at the least load, 0.009 Mpps"


def test_trials_of_another_placement_are_made_again():
    system = Simulated(10e6, 1e3, placements=["near", "near", "far", "moved", "near"])
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    # Warm-up and the first trial were near; the far and the moved one were made again.
    loads = [trial.load_pps for trial in figure.trials]
    assert [trial.placement for trial in figure.trials[:4]] == ["near", "far", "moved", "near"]
    assert loads[1] == loads[2] == loads[3]


def test_a_search_whose_cores_never_stand_as_at_first_has_no_figure():
    """Trials that were moved are kept and decide nothing."""
    system = Simulated(10e6, 1e3, placements=["near", "near", "moved"])
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert (figure.result["type"], figure.placement, figure.irregular) == ("unknown", "near", True)
    assert "the cores were near at first, and never again" in figure.message
    assert [(trial.placement, trial.counts) for trial in figure.trials] == [
        ("near", True),
        *[("moved", False)] * steady.PATIENCE,
    ]


def test_a_search_begins_anew_where_the_cores_have_come_to_stand():
    """Its very first trial stood far, and all others near: the figure is that of near, and what was far decides nothing."""
    system = Simulated(10e6, 1e3, placements=["far", "far", "near"])
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    straight = ndrpdr.measure(Simulated(10e6, 1e3), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert (figure.placement, figure.irregular, figure.message) == ("near", False, "")
    assert figure.result["pdr"]["lower"]["rate"]["value"] == pytest.approx(
        straight.result["pdr"]["lower"]["rate"]["value"], rel=0.01
    )
    # Three that agreed were made for the other search.
    assert [trial.placement for trial in figure.trials if not trial.counts] == ["far", *["near"] * steady.AGREED]
    assert figure.trials[0].as_dict()["counts"] is False


def test_cores_that_come_back_find_their_search_where_it_was():
    effort = ndrpdr.Effort(duration_sum=3.0)
    straight = ndrpdr.measure(Simulated(10e6, 1e3), quiet, 480, effort)
    away = ["far"] * (2 * steady.AGREED + 1)
    system = Simulated(10e6, 1e3, placements=["near"] * 8 + away + ["near"])
    figure = ndrpdr.measure(system, quiet, 480, effort)
    assert (figure.placement, figure.message) == ("near", "")
    # One trial more to see where the cores stand; none of those before is made again.
    assert len(figure.counting) == len(straight.trials) + 1
    assert len(figure.trials) - len(figure.counting) >= len(away)


def test_cores_that_stay_nowhere_make_no_figure():
    system = Simulated(10e6, 1e3, placements=[["near", "far"][n // 4 % 2] for n in range(2000)])
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert (figure.result["type"], figure.irregular) == ("unknown", True)
    assert "no placement held long enough (near, far)" in figure.message
    assert len(figure.trials) <= 6 * ndrpdr.MOVES


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


def test_latency_is_of_the_placement_of_its_search_and_its_trials_are_kept():
    effort = ndrpdr.Effort(duration_sum=3.0)
    straight = ndrpdr.measure(Simulated(30e6, 1e3), quiet, 480, effort)
    offered = len(straight.trials) + 1  # and the warm-up
    system = standing_elsewhere_from(offered - 2, "far", 30e6)
    system.placements = ["near"]
    figure = ndrpdr.measure(system, quiet, 480, effort)
    # The search began anew where they had come to stand, and with it its latencies.
    assert figure.placement == "far"
    assert {share: found["avg"] for share, found in figure.result["latency_forward"].items()} == {
        f"pdr_{share}": 11 for share in ndrpdr.LATENCY_SHARES
    }
    assert (figure.remarks, {trial.placement for trial in figure.counting}) == ([], {"far"})
    # Moved ones belong nowhere: there is no latency of them, and a figure of the search.
    system = standing_elsewhere_from(offered - 2, "moved", 30e6)
    figure = ndrpdr.measure(system, quiet, 480, effort)
    assert (figure.placement, list(figure.result["latency_forward"])) == ("near", ["pdr_0", "pdr_10"])
    assert [remark.split(":")[0] for remark in figure.remarks] == [
        "no latency at 50 % of PDR",
        "no latency at 90 % of PDR",
    ]
    assert [trial.placement for trial in figure.trials[-2 * steady.PATIENCE :]] == ["moved"] * 2 * steady.PATIENCE
    # Made again, they are those of the search's placement.
    system = standing_elsewhere_from(offered - 2, "far", 30e6)
    system.placements = ["near"]
    offer = system.offer
    system.offer = lambda load: (
        setattr(system, "placements", ["near"]) if len(system.asked) > offered else None,
        offer(load),
    )[1]
    figure = ndrpdr.measure(system, quiet, 480, effort)
    assert {found["avg"] for found in figure.result["latency_forward"].values()} == {5.0}
    assert (len(figure.result["latency_forward"]), figure.remarks) == (4, [])


def test_latency_under_loss_says_so():
    effort = ndrpdr.Effort(duration_sum=3.0)
    offered = len(ndrpdr.measure(Simulated(30e6, 1e3), quiet, 480, effort).trials) + 1
    figure = ndrpdr.measure(standing_elsewhere_from(offered - 1, "near", 20e6), quiet, 480, effort)
    assert len(figure.remarks) == 1
    assert figure.remarks[0].startswith("latency at 90 % of PDR was measured while 2")


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


def test_a_soak_begins_anew_where_the_cores_have_come_to_stand(monkeypatch):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    system = Simulated(10e6, 1e4, placements=["far", "far", "near"])
    figure = soak.measure(system, quiet, 480, soak_seconds=80.0)
    assert (figure.placement, figure.irregular) == ("near", False)
    assert {trial.placement for trial in figure.counting} == {"near"}
    assert [trial.placement for trial in figure.trials if not trial.counts] == ["far", *["near"] * steady.AGREED]


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


def test_a_trial_in_which_the_generator_stood_still_is_made_again():
    straight = ndrpdr.measure(Simulated(10e6, 1e3), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    paced = [trial for trial in straight.trials if trial.load_pps]
    clean = next(n for n, trial in enumerate(paced) if not trial.output.lost)
    system = Simulated(10e6, 1e3, stalls=[0.0] * clean + [0.002] * 2 + [0.0])
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    ndr, expected = (each.result["ndr"]["lower"]["rate"]["value"] for each in (figure, straight))
    assert ndr == pytest.approx(expected, rel=0.01)
    stalled = [trial for trial in figure.trials if trial.output.stalled_packets]
    assert [trial.counts for trial in stalled] == [False, False]
    assert figure.remarks == []


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


def test_a_search_whose_generator_always_stands_still_says_so():
    figure = ndrpdr.measure(Simulated(10e6, 1e3, stalls=[0.0004]), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    assert any(
        "while the generator (at the longest for 0.4 ms) or the device's thread (0.0 ms in all)" in said
        for said in figure.remarks
    )
    assert not figure.generator_limited, "it was kept from running, not too slow"


def test_loads_are_of_one_direction_and_figures_of_both():
    system = Simulated(10e6, 1e4, generator_pps=20e6, ways=2)
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    pdr = system.critical_load(0.005)
    assert figure.result["pdr"]["upper"]["rate"]["value"] == pytest.approx(pdr, rel=0.02)
    assert max(trial.load_pps or 0 for trial in figure.trials) < 0.7 * 10e6 * ndrpdr.HEADROOM
    soaked = soak.measure(Simulated(10e6, 1e4, ways=2), quiet, 480, soak_seconds=0.0)
    assert soaked.irregular, "too short for a single trial"


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


def test_a_figure_with_packets_that_nobody_sent_is_irregular():
    (figure,) = mrr.measure(Simulated(60e6, 1e3, copies=5), quiet, trials=3)
    assert figure.irregular
    assert figure.remarks == ["packets came twice, or more came than was sent"]
    (figure,) = mrr.measure(Simulated(60e6, 1e3), quiet, trials=3)
    assert (figure.irregular, figure.remarks) == (False, [])


def test_a_search_whose_generator_did_not_take_what_came_is_the_generators():
    """Whatever its rate: at most so much of what it misses at its own end is the device's loss."""
    trial = Simulated(10e6, 1e3).trial(1.0, 1e6)
    assert Figure({}, [trial], "near").generator_limited is None
    assert Figure({}, [replace(trial, generator_limited=True)], "near").generator_limited is True


@pytest.mark.parametrize("share, limited", [(0.0, None), (1e-6, True), (0.006, True)])
def test_what_the_generator_does_not_take_is_weighed_against_the_loss_that_is_looked_for(share, limited):
    """Less than a hundredth of what comes decides NDR by one packet, and PDR by half a percent."""
    figure = ndrpdr.measure(Simulated(10e6, 1e3, limit_known=False, untaken=share), quiet, 480, ndrpdr.Effort(3.0))
    assert figure.generator_limited is limited


def test_a_trial_that_the_generator_decided_is_made_again():
    system = Simulated(10e6, 1e3)
    offer, spoilt = system.offer, iter([0.0] * 3 + [1e-5])
    system.offer = lambda load: (setattr(system, "untaken", next(spoilt, 0.0)), offer(load))[1]
    figure = ndrpdr.measure(system, quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    (number,) = (n for n, trial in enumerate(figure.trials) if trial.output.untaken)
    spoilt, again = figure.trials[number : number + 2]
    assert (spoilt.load_pps, again.output.untaken) == (again.load_pps, 0)
    assert not figure.generator_limited


def test_a_soak_that_the_generator_spoils_is_marked(monkeypatch):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    figure = soak.measure(Simulated(10e6, 1e4, limit_known=False, untaken=1e-5), quiet, 480, soak_seconds=40.0)
    assert figure.generator_limited
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    assert (
        soak.measure(Simulated(10e6, 1e4, limit_known=False), quiet, 480, soak_seconds=40.0).generator_limited is None
    )


def test_a_reconfiguration_whose_generator_did_not_take_what_came_is_irregular():
    trials = len(reconf.measure(Simulated(30e6, 1e3), quiet, 480, seconds=1.0).trials)
    system = standing_elsewhere_from(trials, "near", 30e6, reconfiguration_loss=100)
    system.placements, offer = ["near"], system.offer
    system.offer = lambda load: (setattr(system, "untaken", 1e-6 if load.meanwhile else 0.0), offer(load))[1]
    figure = reconf.measure(system, quiet, 480, seconds=1.0)
    assert (figure.irregular, figure.remarks[0][:32]) == (True, "the generator itself didn't take")


def test_where_nothing_tells_the_generators_limit_it_is_unknown():
    (figure,) = mrr.measure(Simulated(10e6, 1e3, limit_known=False), quiet, trials=3)
    assert figure.generator_limited is None


# The integral of each model's curve, by a quadrature that knows nothing of our formulas.
CURVES = {"stretch": expit, "erf": lambda x: erfc(-x) / 2}


@pytest.mark.parametrize("name", plr.MODELS)
@pytest.mark.parametrize("load", [0.2, 0.8, 0.95, 1.0, 1.1, 3.0])
@pytest.mark.parametrize("spread", [0.01, 0.1, 0.7])
def test_loss_is_the_integral_of_the_curve(name, load, spread):
    whole, _ = quad(
        lambda x: CURVES[name]((x - 1.0) / spread), 0, load, epsabs=0, epsrel=1e-10, points=[min(load, 1.0)], limit=500
    )
    found = math.exp(plr.MODELS[name](load, numpy.array([1.0]), numpy.array([spread]))[0])
    # The draft's scale: at great loads what is transferred stays the same.
    assert found == pytest.approx(whole / CURVES[name](1.0 / spread), rel=1e-6, abs=1e-300)


# The formulas of draft-vpolak-bmwg-plrsearch-03, as they stand there.
DRAFT = {
    "stretch": lambda b, m, a: (
        a
        * (1 + math.exp(m / a))
        * math.log((math.exp(b / a) + math.exp(m / a)) / (1 + math.exp(m / a)))
        / math.exp(m / a)
    ),
    "erf": lambda b, m, a: (
        (
            a * (math.exp(-((b - m) ** 2) / a**2) - math.exp(-(m**2) / a**2)) / math.sqrt(math.pi)
            + m * math.erfc(m / a)
            + (b - m) * math.erfc((m - b) / a)
        )
        / (1 + math.erf(m / a))
    ),
}


@pytest.mark.parametrize("name", plr.MODELS)
@pytest.mark.parametrize("point", [(0.5, 1.0, 0.1), (0.9, 1.0, 0.3), (1.2, 1.0, 0.9), (3.0, 2.0, 1.5), (8.0, 2.0, 0.4)])
def test_loss_is_what_the_draft_says(name, point):
    load, mrr_pps, spread = point
    found = math.exp(plr.MODELS[name](load, numpy.array([mrr_pps]), numpy.array([spread]))[0])
    assert found == pytest.approx(DRAFT[name](*point), rel=1e-9)


def by_quadrature(name, trials, max_rate, ratio, points=(241, 321)):
    """Mean and deviation of the critical load's logarithm, by summing over both parameters: slow, and with no ridge to follow."""
    model = plr.MODELS[name]
    log_spread, log_mrr = numpy.linspace(0.01, math.log(max_rate), 61), numpy.linspace(0, math.log(max_rate) + 4, 4001)
    for _ in range(12):
        spreads, mrrs = numpy.meshgrid(numpy.exp(log_spread), numpy.exp(log_mrr), indexing="ij")
        score = plr.log_likelihood(model, mrrs, spreads, trials) + plr.log_prior(numpy.log(mrrs), spreads, max_rate)
        score -= score.max()
        rows, columns = numpy.nonzero(score > -25)
        if numpy.unique(rows).size > points[0] // 3 and numpy.unique(columns).size > points[1] // 3:
            break
        log_spread = numpy.linspace(
            log_spread[max(0, rows.min() - 1)], log_spread[min(log_spread.size - 1, rows.max() + 1)], points[0]
        )
        log_mrr = numpy.linspace(
            log_mrr[max(0, columns.min() - 1)], log_mrr[min(log_mrr.size - 1, columns.max() + 1)], points[1]
        )
    weights = numpy.exp(score)
    weights /= weights.sum()
    counts = weights > 1e-12
    loads = numpy.log(plr.critical_load(model, mrrs[counts], spreads[counts], ratio))
    mean = float(weights[counts] @ loads)
    return mean, math.sqrt(float(weights[counts] @ (loads - mean) ** 2))


@pytest.mark.parametrize("name", plr.MODELS)
@pytest.mark.parametrize("mrr_pps, spread", [(1e6, 3e4), (1e6, 1.5e5), (2e5, 2e3)])
def test_the_ridge_is_the_posterior(name, mrr_pps, spread):
    """Following the ridge gives the mean within a fifth of its deviation, and that within a quarter."""
    system = Simulated(mrr_pps, spread, model=name, seed=3)
    trials = []
    for share, seconds in ((0.7, 1.0), (1.2, 1.0), (0.97, 2.0), (0.9, 5.0)):
        load = share * mrr_pps
        trials.append(plr.Observed(load, seconds, system.trial(seconds, load).output.lost))
    mean, deviation = by_quadrature(name, trials, 1.25 * mrr_pps, 1e-5)
    found = plr.estimate(name, trials, 1.25 * mrr_pps, 1e-5)
    assert found.log_load == pytest.approx(mean, abs=0.2 * deviation)
    assert found.deviation == pytest.approx(deviation, rel=0.25)


@pytest.mark.parametrize("name", plr.MODELS)
def test_logarithms_reach_where_numbers_do_not(name):
    log_loss = plr.MODELS[name](1e6, numpy.array([2e6]), numpy.array([1e2]))[0]
    assert -1e9 < log_loss < -700, "exp of it is zero, and still it is a number"


@pytest.mark.parametrize(
    ("model", "mrr_pps", "spread"), [("stretch", 30e6, 1e5), ("erf", 30e6, 1e5), ("erf", 2e6, 5e4)]
)
def test_a_soak_finds_a_known_critical_load(model, mrr_pps, spread):
    system = Simulated(mrr_pps, spread, model=model, seed=5)
    search = soak.Search(1.25 * mrr_pps)
    for _ in range(14):
        load, seconds = search.next_load(), search.seconds()
        state = search.learn(load, seconds, system.trial(seconds, load).output.lost)
    true = system.critical_load(soak.TARGET)
    low, high = state.bounds
    assert math.exp(state.log_load) == pytest.approx(true, rel=0.05)
    assert low * 0.99 <= true <= high * 1.01


@pytest.mark.parametrize("soak_seconds", [15.0, 40.0])
def test_a_soak_that_lost_nothing_has_a_lower_bound_only(monkeypatch, soak_seconds):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    figure = soak.measure(Simulated(30e6, 1e3, better_from=2), quiet, 480, soak_seconds=soak_seconds)
    offered = max(trial.load_pps for trial in figure.trials if trial.load_pps)
    assert list(figure.result["critical_rate"]) == ["lower"]
    assert figure.result["critical_rate"]["lower"]["rate"]["value"] == pytest.approx(offered)
    assert (figure.irregular, figure.message[:20]) == (True, "nothing was lost up ")
    assert figure_in_words(figure.result) == f"critical load at least {offered / 1e6:.3f} Mpps"


def test_a_soak_that_always_lost_has_an_upper_bound_only(monkeypatch):
    monkeypatch.setattr(soak.time, "monotonic", itertools.count(0, 5.0).__next__)
    system = Simulated(30e6, 1e3)
    system.loss_per_second = lambda load: 0.9 * load
    figure = soak.measure(system, quiet, 480, soak_seconds=60.0)
    assert list(figure.result["critical_rate"]) == ["upper"]
    assert (figure.irregular, "no lower bound" in figure.message) == (True, True)


def test_a_soak_without_any_loss_claims_no_more_than_was_offered():
    search = soak.Search(10e6)
    state = search.learn(5e6, 5.1, 0)
    assert math.exp(state.log_load) == pytest.approx(5e6)
    assert state.deviation >= 1.0
