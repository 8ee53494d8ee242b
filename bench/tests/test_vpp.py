"""VPP's adapter, against a stand-in that takes only what VPP's documentation says VPP takes; and against VPP itself where
``QUIVER_TEST_VPP`` says where its program is."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import small
from standin_vpp import Cli

from quiver_bench.devices import Setup, vpp
from quiver_bench.errors import TrialVoid, Unsupported
from quiver_bench.machine import allot
from quiver_bench.suites import find, suites
from quiver_bench.trial import standing


@pytest.fixture
def standin(tmp_path, programs, monkeypatch):
    """A ``vpp`` and a ``vppctl``."""
    source = Path(__file__).with_name("standin_vpp.py")
    for name in ("vpp", "vppctl"):
        shutil.copy(source, tmp_path / name)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("QUIVER_STANDIN_FLOOR", str(programs / "quiver-floor"))
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    return tmp_path / "vpp"


def test_commands_of_every_suite_are_of_vpps_command_line():
    # Suites that differ in the length of frames or in how the rate is searched have the same commands.
    alike = {(s.case.name, s.port, s.jumbo, s.cores): s for s in suites()}
    wrong = []
    for suite in map(small, alike.values()):
        try:
            vpp.Vpp.require(suite)
        except Unsupported:
            continue
        cli = Cli()
        for line in vpp.commands(suite, Path("/run/x"), suite.cores):
            refused = cli.command(line)
            if refused:
                wrong.append(f"{suite.name}: {refused}")
    assert not wrong, "\n".join(wrong)


def test_the_standin_refuses_what_vpp_does_not_know():
    cli = Cli()
    assert cli.command("create interface memif id 0 socket-id 1 master rx-queues 1 tx-queues 1") is not None
    assert "unknown interface" in cli.command("set interface state memif1/0 up")
    assert cli.command("show versions") is not None


@pytest.mark.real
@pytest.mark.parametrize(
    "suite",
    ["64b-1c-memif-ethip4-ip4base-mrr", "64b-1c-memif-dot1q-l2bdbasemaclrn-mrr", "78b-1c-memif-ethip6-ip6scale20k-mrr"],
)
def test_it_comes_up_passes_packets_and_is_configured_while_it_runs(standin, programs, suite):
    with standing(vpp.Vpp, Setup(find(suite), allot(1), programs, standin)) as stand:
        stand.trial(0.1)
        trial = stand.trial(0.2, 1000.0)
        assert trial.output.received > 0
        assert trial.clocks == {"ip4-lookup": 9.6, "memif-input": 12.7}
        assert stand.reconfigure() == "10000 routes added, and removed"
        assert stand.device.version() == "v25.10-standin"


@pytest.mark.real
def test_a_command_that_it_refuses_is_told(standin, programs, monkeypatch):
    monkeypatch.setattr(vpp, "commands", lambda *_: ["create memif socket id 1 file /x"])
    device = vpp.Vpp(Setup(find("64b-1c-memif-ethip4-ip4base-mrr"), allot(1), programs, standin))
    with pytest.raises(TrialVoid) as void:
        try:
            device.up()
        finally:
            log = device.log()
            device.down()
    assert "vpp died" in str(void.value)
    assert "unknown input" in log


@pytest.mark.real
@pytest.mark.skipif("QUIVER_TEST_VPP" not in os.environ, reason="QUIVER_TEST_VPP doesn't say where a vpp is")
@pytest.mark.parametrize(
    ("suite", "node"),
    [
        ("64b-1c-memif-eth-l2xcbase-mrr", "l2-output"),
        ("64b-1c-memif-dot1q-l2bdbasemaclrn-mrr", "l2-learn"),
        ("64b-1c-memif-ethip4-ip4base-mrr", "ip4-lookup"),
        ("9000b-1c-memif-ethip4-ip4base-mrr", "ip4-lookup"),
        ("78b-1c-memif-ethip6-ip6scale20k-mrr", "ip6-lookup"),
        ("64b-1c-memif-ethip4udp-ip4base-session-l4-h10000-p1-s10000-mrr", "sfdp-l4-lifecycle"),
        ("64b-1c-memif-ethip4tcp-ip4base-session-tcp-h1024-p63-s64512-cps", "sfdp-tcp-check"),
        ("64b-1c-memif-ethip4udp-nat44ed-h10000-p1-s10000-mrr", "nat44-ed-in2out"),
        ("64b-1c-memif-ethip4udp-balance-1vip-h10000-p1-s10000-mrr", "cnat-input-ip4"),
    ],
)
def test_vpp_itself_forwards(programs, suite, node):
    with standing(vpp.Vpp, Setup(find(suite), allot(1), programs, Path(os.environ["QUIVER_TEST_VPP"]))) as stand:
        stand.trial(0.3)
        trial = stand.trial(0.3)
        assert trial.output.received > 10_000
        assert {"memif-input", node} <= trial.clocks.keys()


def test_what_vpp_has_nothing_like_is_told():
    with pytest.raises(Unsupported, match="asked about by acl"):
        vpp.Vpp.require(find("64b-1c-memif-ethip4udp-acl-r1-h10000-p1-s10000-mrr"))
