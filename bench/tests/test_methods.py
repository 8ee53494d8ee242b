"""MRR, NDR and PDR of simulated systems, whose capacity is known."""

from dataclasses import replace

import pytest
from conftest import quiet, standing_elsewhere_from

from quiver_bench import latency, selftest
from quiver_bench.errors import TrialVoid
from quiver_bench.methods import mrr, ndrpdr, soak, steady
from quiver_bench.methods.base import Figure
from quiver_bench.simulated import Simulated


@pytest.mark.parametrize("check", selftest.CHECKS, ids=lambda check: check.__name__)
def test_self_test(check):
    assert check()


def test_mrr_of_a_device_that_forwards_nothing_is_no_figure():
    with pytest.raises(TrialVoid, match="forwarded nothing"):
        mrr.measure(Simulated(0, 1e3), quiet, trials=4)


def test_a_device_that_has_yet_to_learn_is_warmed_up():
    system = Simulated(10e6, 1e3)
    offer = system.offer

    def learning(load):
        capacity, system.mrr = system.mrr, system.mrr if system.asked else 0.0
        try:
            return offer(load)
        finally:
            system.mrr = capacity

    system.offer = learning
    (figure,) = mrr.measure(system, quiet, trials=3)
    assert (len(figure.trials), len(system.asked)) == (3, 4)


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
        f"pdr_{share}": 11 for share in latency.SHARES
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
    (remark,) = figure.remarks
    assert remark.startswith(
        "2 trials that lost no more than noise may have taken were made again, and such without a loss were not"
    )


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


def test_where_nothing_tells_the_generators_limit_it_is_unknown():
    (figure,) = mrr.measure(Simulated(10e6, 1e3, limit_known=False), quiet, trials=3)
    assert figure.generator_limited is None


def test_clocks_are_those_of_the_trials_that_the_figure_rests_on():
    system = Simulated(10e6, 1e3, generator_pps=50e6, placements=["near", "near", "moved", "far", "near", "near"])
    offer, clocks = system.offer, {"near": 20.0, "far": 30.0, "moved": 99.0}
    system.offer = lambda load: (lambda trial: replace(trial, clocks={"node": clocks[trial.placement]}))(offer(load))
    found = {figure.placement: figure.clocks for figure in mrr.measure(system, quiet, trials=4)}
    assert found == {"near": {"node": 20.0}, "far": {"node": 30.0}}
    # Those of a search at its figure, where the simulated node takes so many clocks for each packet.
    figure = ndrpdr.measure(Simulated(10e6, 1e3), quiet, 480, ndrpdr.Effort(duration_sum=3.0))
    load = figure.result["pdr"]["lower"]["rate"]["value"]
    assert figure.clocks["simulated"] == pytest.approx(1e9 / load, rel=0.02)
