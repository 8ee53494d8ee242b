"""A member of a bridge that floods the address table, or sends from another member's address, hurts itself only."""

import random

import pytest
from lab import eventually
from lab.flood import Flood, bystanders
from scapy.layers.l2 import Ether
from scapy.packet import Raw

MARK = 0x88B5  # IEEE 802 local experimental


def frame(source, destination, text=b""):
    return Ether(src=source, dst=destination, type=MARK) / Raw(text.ljust(46, b"\0"))


def some_mac(number):
    return f"02:66:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


#: A station behind pod bad. What pod bad sends to it goes no further than the bridge: it isn't the load on others that is tested here.
BEHIND_BAD = some_mac(0)


def flood(pod, sources, rate=5000):
    """Frames from all these addresses."""
    return Flood(pod, [frame(BEHIND_BAD, BEHIND_BAD), *(frame(source, BEHIND_BAD) for source in sources)], rate=rate)


@pytest.fixture
def bridged(lab, daemon):
    """Pods a, b, c and bad, 10.5.0.2 and so on, in a bridge, while others must lose nothing."""
    with bystanders(lab):
        pods = [lab.pod(role) for role in ("va", "vb", "vc", "bad")]

        def apply(bridge="", **members):
            text = f'[[bridge]]\nname = "lan"\n{bridge}'
            for number, (name, pod) in enumerate(zip(("va", "vb", "vc", "bad"), pods, strict=True), start=2):
                member = f'bridge = {{ name = "lan"{members.get(name, "")} }}'
                text += lab.plain_tap(name, pod, member, address=f"10.5.0.{number}/24")
            daemon.apply(text)
            return pods

        yield apply


def bridge(daemon):
    return next(entry for entry in daemon.show("bridge", "lan")["bridges"] if entry["name"] == "lan")


def learned(daemon):
    """Addresses learned at each member."""
    return {member["name"]: (member.get("macs", 0), member["max_macs"]) for member in bridge(daemon)["learning"]}


def overheard(daemon, pods):
    """Unicast between a and b that c hears while they talk."""
    a, b, c, _ = pods
    with a.wire() as at_a, c.wire() as at_c:
        a.must_ping("10.5.0.3", count=20)
        at_a.send(frame(a.mac(), "ff:ff:ff:ff:ff:ff", b"end"))
        between = {a.mac(), b.mac()}
        return at_c.collect(lambda seen: {seen.src, seen.dst} == between, lambda seen: seen.type == MARK and b"end" in bytes(seen))


def test_one_member_cannot_fill_the_table(daemon, bridged):
    a, b, _, bad = pods = bridged("learn_limit = 400\n")
    with flood(bad, map(some_mac, range(5000))):
        eventually(lambda: learned(daemon)["bad"] == (100, 100), lambda: learned(daemon))
        # New ones are learned all the same, and nobody else hears them.
        assert overheard(daemon, pods) == []
        table = {entry["mac"]: entry["interface"] for entry in bridge(daemon)["macs"]}
        assert (table[a.mac()], table[b.mac()]) == ("va", "vb")
    assert learned(daemon)["bad"] == (100, 100)
    shown = daemon.cli("show", "bridge", "lan").stdout
    assert "REFUSED MOVES" in shown and "HELD" not in shown.splitlines()[0]


def test_shares_are_what_is_configured(daemon, bridged):
    *_, bad = bridged("max_macs = 20\n", bad=", max_macs = 7")
    with flood(bad, map(some_mac, range(500))):
        eventually(lambda: learned(daemon)["bad"] == (7, 7), lambda: learned(daemon))
    assert learned(daemon)["va"][1] == 20
    bridged("max_macs = 20\n", bad=", max_macs = 12")
    with flood(bad, map(some_mac, range(500))):
        eventually(lambda: learned(daemon)["bad"] == (12, 12), lambda: learned(daemon))


def test_addresses_that_collide_are_those_of_nobody_outside(daemon, bridged):
    """Whatever addresses a member chooses, those of others find a place."""
    *_, bad = pods = bridged()
    dice = random.Random(4711)
    alike = [f"02:00:{dice.getrandbits(16) >> 8:02x}:{dice.getrandbits(8):02x}:{0:02x}:{n & 255:02x}" for n in range(4000)]
    with flood(bad, alike):
        assert overheard(daemon, pods) == []


@pytest.mark.parametrize("rate", [1000, pytest.param(None, marks=pytest.mark.alone)])
def test_a_stolen_address_stays_where_it_was(daemon, bridged, rate):
    a, b, _, bad = pods = bridged()
    a.must_ping("10.5.0.3")
    with flood(bad, [a.mac()], rate):
        # At most the first two thefts take something, until the owner's next packet.
        pings = a.ping("10.5.0.3", "-i", "0.01", count=400)
        assert pings.received >= pings.sent - 4, pings.text
        a.must_ping("10.5.0.3", count=100)
        b.must_ping("10.5.0.2", count=100)
        assert overheard(daemon, pods) == []
        shown = bridge(daemon)
        held = {entry["mac"]: (entry["interface"], entry.get("contender")) for entry in shown["macs"]}
        assert held[a.mac()] == ("va", "bad")
        refused = {member["name"]: int(member.get("refused_moves", 0)) for member in shown["learning"]}
        assert refused["bad"] > 100 and sum(refused.values()) == refused["bad"], refused
        assert int(shown["moves"]) <= 4, shown["moves"]
        eventually(lambda: "MAC address is held" in daemon.log()[daemon.mark :], "it is logged")
    log = daemon.log()[daemon.mark :]
    assert log.count("MAC address is held") == 1 and len(log.splitlines()) < 30, log[-3000:]
    assert "HELD AGAINST" in daemon.cli("show", "bridge", "lan").stdout
    assert 'quiver_bridge_refused_moves_total{bridge="lan",interface="bad"}' in daemon.scrape()[1]


def test_addresses_of_all_others_are_stolen_at_once(daemon, bridged):
    a, b, c, bad = bridged()
    a.must_ping("10.5.0.3")
    a.must_ping("10.5.0.4")
    with flood(bad, [pod.mac() for pod in (a, b, c)] + [some_mac(number) for number in range(50)]):
        a.ping("10.5.0.3", "-i", "0.01", count=100)
        a.ping("10.5.0.4", "-i", "0.01", count=100)
        for pod, address in ((a, "10.5.0.3"), (b, "10.5.0.4"), (c, "10.5.0.2")):
            pod.must_ping(address, count=50)


def test_a_station_that_moves_is_found_at_once(daemon, bridged):
    """Also there and back again: a machine that is migrated moves once or twice."""
    a, b, c, _ = bridged()
    station, to = "02:00:00:00:05:77", b.mac()
    with a.wire() as at_a, b.wire() as at_b, c.wire() as at_c:
        for number, (here, there) in enumerate(((at_a, at_c), (at_c, at_a), (at_a, at_c))):
            text = b"move %d" % number
            here.send(frame(station, to, text))
            at_b.expect(lambda seen, text=text: text in bytes(seen), "the station's frame")
            at_b.send(frame(to, station, b"answer " + text), frame(to, "ff:ff:ff:ff:ff:ff", b"end " + text))
            here.expect(lambda seen, text=text: b"answer " + text in bytes(seen), "the answer")
            heard = there.collect(
                lambda seen, text=text: b"answer " + text in bytes(seen), lambda seen, text=text: b"end " + text in bytes(seen)
            )
            assert heard == [], "not where it was"
