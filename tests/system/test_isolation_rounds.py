"""A port's share of a round is limited by what its packets cost, so a pod that sends the dearest ones leaves others their share."""

import pytest
from lab.attack_world import attack_world
from lab.attackers import super_frames

SECONDS = 5
# Packets of a tap in one round: each takes the worker at least 20 µs to receive and to send, and 256 of them used to be one round.
FAIR = 64


@pytest.fixture
def world():
    with attack_world() as world:
        yield world
        assert "panicked" not in world.daemon.log()


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["super", "long"])
def test_long_packets_leave_others_their_share(world, kind):
    """G: super-frames of 60 KB, or packets as long that must be fragmented, as fast as the pod can."""
    figures = world.measure(super_frames(world, kind=kind), SECONDS)
    assert figures["alive"], world.daemon.log()
    assert figures["ping_lost"] == figures["memif_lost"] == 0, f"{figures}"
    assert figures["get_failed"] == 0, f"{figures}"
    # The attacker is served, too, in small portions.
    assert int(world.daemon.counter("bad", "rx_bytes")) > 1000 * 60_000
    [worker] = world.daemon.show("runtime")["workers"]
    [taps] = [node for node in worker["nodes"] if node["name"] == "tap-input"]
    assert int(taps["packets"]) < FAIR * int(taps["vectors"]), taps
    world.bad.must_ping(world.friend_address)
