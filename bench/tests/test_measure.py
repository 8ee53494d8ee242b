"""The command that measures suites, with nothing measured."""

import pytest
from conftest import chosen

from quiver_bench.commands import measure
from quiver_bench.commands.main import main, parser
from quiver_bench.errors import BenchError, Unsupported

SUITES = ["64b-1c-memif-ethip4-ip4base-mrr", "64b-1c-memif-eth-l2xcbase-mrr"]


@pytest.mark.parametrize(
    ("error", "status"), [(None, 0), (Unsupported("this device doesn't bridge"), 0), (BenchError("it broke"), 3)]
)
def test_one_suite_that_fails_among_others_is_told_by_the_exit_status(monkeypatch, tmp_path, error, status):
    def made(device, suite, options, store, tell):
        if error and suite == SUITES[1]:
            raise error
        return [{"passed": True, "message": ""}]

    monkeypatch.setattr(measure, "choose", lambda text, suite, options: chosen(suite.name, text))
    monkeypatch.setattr(measure, "in_words", lambda document: "measured")
    monkeypatch.setattr(
        measure,
        "_measure",
        lambda device, options, store, tell: made(device, device.setup.suite.name, options, store, tell),
    )
    assert main(["run", *SUITES, "--results", str(tmp_path)]) == status


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
