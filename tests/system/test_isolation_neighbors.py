"""A pod floods packets to neighbors that nobody knows yet: another pod's new neighbor is resolved all the same."""

import pytest
from lab import eventually
from lab.flood import Flood, bystanders
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

OWN = "02:00:00:00:66:02"
NEW = {4: "10.3.0.2", 6: "fd00:3::2"}


def tap(name, pod, number, *more):
    """A routed tap with both families."""
    return (
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24", "fd00:{number}::1/64"]\n{"".join(more)}'
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24", "fd00:{number}::2/64"], '
        f'host_gateways = ["10.{number}.0.1", "fd00:{number}::1"] }}\n'
    )


@pytest.fixture
def pods(lab):
    """Pods "bad", "victim" and "new", while others must lose nothing."""
    with bystanders(lab):
        yield [lab.pod(role) for role in ("bad", "victim", "new")]


def to_neighbors(router, version, host=None, size=20):
    """A packet to a neighbor in pod new's network: to the new one itself unless a host is named."""
    if version == 4:
        packet = IP(src="10.66.0.2", dst=NEW[4] if host is None else f"10.3.0.{host}")
    else:
        packet = IPv6(src="fd00:66::2", dst=NEW[6] if host is None else f"fd00:3::{host:x}")
    return Ether(src=OWN, dst=router) / packet / UDP(sport=1, dport=9) / Raw(bytes(size))


def flood(router, size=20):
    """Mostly to others, which use up what the interface may ask; in between to the new one."""
    frames = []
    for version in (4, 6):
        for host in range(3, 250):
            frames += [to_neighbors(router, version, host, size)] * 8 + [to_neighbors(router, version)]
    return frames


def exhausted(daemon, bad):
    """The flooder has used up its own limits, before it asks for the new one."""
    return lambda: all(daemon.drops().get((node, "resolve-limited")) for node in ("ip4-resolve", "ip6-resolve"))


@pytest.mark.parametrize("size", [20, 1400])
def test_a_flood_keeps_no_neighbor_from_another_pod(lab, daemon, pods, size):
    bad, victim, new = pods
    daemon.apply(tap("bad", bad, 66) + tap("victim", victim, 4) + tap("new", new, 3))
    router = daemon.interface("bad")["mac"]
    others = [to_neighbors(router, version, host, size) for version in (4, 6) for host in range(3, 250)] * 3
    with Flood(bad, others):
        eventually(exhausted(daemon, bad), daemon.drops)
    with Flood(bad, flood(router, size)) as attack:
        for version in (4, 6):
            victim.must_ping(NEW[version], count=20)
        assert attack.taken > 0
    lost = {drop: count for drop, count in daemon.drops_of("victim").items() if "resolve" in drop[0] or drop[0] == "neighbor-drop"}
    assert lost == {}, daemon.drops_of("victim")
    # And so do many more: each of the victim's packets goes to another neighbor.
    new.run("sh", "-c", "for n in $(seq 50 99); do ip addr add 10.3.0.$n/24 dev eth0; done")
    with Flood(bad, flood(router, size)):
        for host in range(50, 100):
            victim.must_ping(f"10.3.0.{host}", count=1)


@pytest.mark.alone
def test_a_member_of_a_bridge_keeps_no_neighbor_from_another_member(lab, daemon, pods):
    """Both come in by the routed leg."""
    bad, victim, new = pods
    member = 'bridge = { name = "lan" }'
    leg = '[[bridge]]\nname = "lan"\n[[interface]]\nname = "leg"\naddresses = ["10.66.0.1/24", "fd00:66::1/64"]\nloopback = {}\n'
    daemon.apply(
        leg + 'bridge = { name = "lan", bvi = true }\n'
        + lab.plain_tap("bad", bad, member, address="10.66.0.2/24") + lab.plain_tap("victim", victim, member, address="10.66.0.3/24")
        + tap("new", new, 3)
    )  # fmt: skip
    victim.ip("route", "add", "default", "via", "10.66.0.1")
    victim.must_ping("10.66.0.1")
    router = daemon.interface("leg")["mac"]
    others = [to_neighbors(router, version, host) for version in (4, 6) for host in range(3, 250)] * 3
    with Flood(bad, others):
        eventually(exhausted(daemon, bad), daemon.drops)
    with Flood(bad, flood(router)):
        victim.must_ping(NEW[4], count=20)
    # What strangers tell the leg by ARP has a limit of its own for each member, too.
    strangers = [
        Ether(src=OWN, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=OWN, psrc=f"10.66.0.{host}", pdst="10.66.0.1") for host in range(50, 250)
    ]
    with Flood(bad, strangers, rate=5000):
        late = lab.pod("late")
        daemon.apply(lab.plain_tap("late", late, member, address="10.66.0.4/24"))
        late.ip("route", "add", "default", "via", "10.66.0.1")
        new.must_ping("10.66.0.4", count=20)
