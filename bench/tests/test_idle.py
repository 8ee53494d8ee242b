"""Idleness: the share of a core, and first packets against polling."""

import re

import pytest
from conftest import document, quiet

from quiver_bench.commands.measure import in_words
from quiver_bench.devices.quiver import Quiver
from quiver_bench.devices.vpp import Vpp
from quiver_bench.errors import Unsupported
from quiver_bench.methods import idle
from quiver_bench.report import markdown
from quiver_bench.simulated import Simulated
from quiver_bench.suites import find

SUITE = "64b-1c-memif-ethip4-ip4base-100silent-idle"
SAID = r"0\.61% of a core; first packet \+40\.0 .s against polling"


def test_what_the_first_packet_waits_is_held_against_polling(store):
    system = Simulated(20e6, 1e2, idle_share=0.0061, sleeps_us=40.0)
    figure = idle.measure(system, quiet, 2.0)
    assert system.asked == [(2.0, 1.0)] * 2, "beside those that are measured none are sent"
    assert figure.result["idle"] == {"share": {"value": 0.0061, "unit": "core"}, "woken": {"value": 40.0, "unit": "us"}}
    assert {how: found["percentiles"]["50"] for how, found in figure.result["first_packet"].items()} == {
        "adaptive": 45.0,
        "polling": 5.0,
    }
    assert not figure.irregular
    made = document(figure, SUITE)
    store.add(made)
    assert re.search(SAID, in_words(made))
    assert re.search(SAID, markdown.tables(store))


def test_cores_that_are_moved_in_between_make_it_irregular():
    figure = idle.measure(Simulated(20e6, 1e2, placements=["near", "far"]), quiet, 1.0)
    assert figure.irregular and figure.remarks[0].startswith("the cores were near and then far: ")


def test_only_devices_that_sleep_and_poll_as_told_do_it():
    Quiver.require(find(SUITE))
    with pytest.raises(Unsupported, match="vpp can't be told to sleep or to poll"):
        Vpp.require(find(SUITE))
