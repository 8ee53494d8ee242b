"""A pod that makes its own receive path in the kernel slow loses its own packets. Nobody else loses any, and no worker waits for it."""

import pytest
from lab import eventually
from lab.attack_world import attack_world
from lab.attackers import packet_filters, socket_crowd, socket_waiters
from lab.process import HANGS

SECONDS = 5
# The ring of the canary holds 200 ms at this rate, which is more than a worker waits for its core where other tests run beside.
MEMIF_PPS = 5_000


@pytest.fixture
def world():
    with attack_world() as world:
        yield world
        assert "panicked" not in world.daemon.log()
        assert "has stood still" not in world.daemon.log(), world.daemon.log()


def isolated(world, attack):
    """The attack hurts nobody but the pod that it comes from."""
    figures = world.measure(attack, SECONDS, MEMIF_PPS)
    assert figures["alive"], world.daemon.log()
    # Other tests have the worker's core now and then, so neither the canary's full ring nor the longest round says anything here.
    assert figures["ping_lost"] == figures["memif_lost"] == 0, f"{figures}"
    assert figures["get_failed"] == 0 and figures["get_max_ms"] is not None, f"{figures}"
    # What its kernel takes too slowly is dropped at its own port, and counted there.
    assert int(world.daemon.counter("bad", "tx_drops")) > 0, world.daemon.interface("bad")
    for bystander in ("a", "b", "friend"):
        assert int(world.daemon.counter(bystander, "tx_drops")) == 0, world.daemon.interface(bystander)
    # It gets packets again when it takes them again, at the end of a suspension.
    eventually(lambda: world.friend.ping(world.bad_address, wait=1).received, "the pod answers", timeout=HANGS)


# Far more datagrams a second than the pod can take, so that its port must drop some.
RATE = 5_000


def test_filters_of_packet_sockets(world):
    """B: each frame runs 200 filters of 4 096 instructions."""
    isolated(world, packet_filters(world, intensity=200, rate=RATE))


def test_waiters_of_a_socket(world):
    """C: each datagram wakes 200 × 20 000 waiters of a UDP socket, without any privilege."""
    isolated(world, socket_waiters(world, intensity=200, polls=20_000, rate=RATE, count=-1))
    told = world.daemon.interface("bad")
    assert int(told["output_suspensions"]) > 0 and "of processor time for one packet" in told["last_output_suspension"], told
    assert f'quiver_interface_output_suspensions_total{{interface="bad"}} {told["output_suspensions"]}' in world.daemon.scrape()[1]
    assert "output suspended" in world.daemon.cli("show", "interface", "bad").stdout


@pytest.mark.parametrize("kind, size", [("filter", 1), ("sigio", 2_000)])
def test_a_socket_that_takes_its_time(world, kind, size):
    """A filter of an unprivileged UDP socket, and one that signals a group of processes for each datagram."""
    isolated(world, socket_crowd(world, kind, size, RATE))


@pytest.mark.alone
def test_what_the_kernel_does_for_one_pod_is_charged_to_no_other(world):
    """Timers of 19 000 group memberships run wherever the kernel happens to be, in threads of the canary's as well."""
    figures = world.measure(socket_crowd(world, "multicast", 19_000, 100), SECONDS, 50_000)
    assert figures["alive"] and figures["ping_lost"] == figures["memif_lost"] == 0, f"{figures}"
    assert int(world.daemon.interface("lan-bad")["output_suspensions"]) > 0
    assert "signal-cost" not in world.daemon.log(), world.daemon.log()
