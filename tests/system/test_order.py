"""In which order things come and go: nobody's first or last packet pays for a change."""

import re

import pytest
from lab import eventually

HOLE = (
    '[[interface]]\nname = "hole"\naddresses = ["10.8.0.1/24"]\nsink = {}\n'
    '[[neighbor]]\ninterface = "hole"\naddress = "10.8.0.2"\nmac = "02:00:00:00:00:99"\n'
)


def generator(name, number, **options):
    """A source of packets to the hole, which begins as soon as anybody asks it."""
    options = "".join(f", {key} = {value}" for key, value in options.items())
    return (
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24"]\n'
        f'generator = {{ source_address = "10.{number}.0.5", destination_address = "10.8.0.2"{options} }}\n'
    )


def test_the_first_packet_of_an_interface_passes(daemon):
    """Everything comes in one batch: interfaces, their networks, the neighbour."""
    for attempt in range(10):
        daemon.clear()
        daemon.cli("clear", "counters")
        daemon.apply(generator("gen", 20 + attempt, count=50) + HOLE)
        eventually(lambda: daemon.counter("gen", "rx_packets") == 50, "the generator has ended")
        # What the hole announces of itself is broadcast.
        eventually(lambda: daemon.counter("hole", "tx_unicast") == 50, lambda: f"all have passed: {daemon.show('drops')}")
        assert daemon.drops() == {}


def test_the_last_packet_of_an_interface_passes(daemon):
    daemon.apply(HOLE)
    for attempt in range(10):
        daemon.apply(generator("gen", 20 + attempt, rate=100000))
        eventually(lambda: daemon.counter("gen", "rx_packets") > 1000, "packets flow")
        daemon.delete("interface", "gen")
    assert daemon.drops() == {}


def test_nothing_that_a_new_pod_says_is_lost(lab, daemon):
    """A pod's kernel speaks as soon as its device is up."""
    for role in "abcd":
        daemon.apply(lab.tap(role, lab.pod(role), f"10.{ord(role)}.0"))
    assert daemon.dropped("interface-down") == 0, daemon.show("drops")


@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "together"])
def test_an_interface_goes_with_its_neighbours_and_without_a_word(lab, daemon, together):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    a.must_ping("10.2.0.2")
    assert {entry["interface"] for entry in daemon.show("neighbor")["neighbors"]} == {"a", "b"}
    if together:
        daemon.clear()
    else:
        daemon.delete("interface", "a")
        assert {entry["interface"] for entry in daemon.show("neighbor")["neighbors"]} == {"b"}
        daemon.delete("interface", "b")
    assert not daemon.show("neighbor").get("neighbors")
    log = daemon.log()[daemon.mark :]
    assert not re.search("WARN|ERROR", log), log
