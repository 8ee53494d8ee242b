"""What is sent to each next hop is counted there: by two workers, exactly."""

import json
import time

import pytest
from lab import eventually
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

WORKERS = 2


def route(prefix, *hops):
    ways = ", ".join(f'{{ address = "{hop}" }}' for hop in hops)
    return f'[[route]]\nprefix = "{prefix}"\nnext_hops = [{ways}]\n'


@pytest.fixture
def routers(lab):
    """Pod a (10.1.0.2); behind it b (10.2.0.2, also 10.98.0.1) and c (10.3.0.2, also 10.99.0.1), a queue of each for each worker."""
    a, b, c = (lab.pod(role) for role in "abc")
    for number, (name, pod) in enumerate(zip("abc", (a, b, c), strict=True), 1):
        lab.daemon.apply(lab.tap(name, pod, f"10.{number}.0", tap=", queues = 2"))
    b.ip("address", "add", "10.98.0.1/32", "dev", "lo")
    c.ip("address", "add", "10.99.0.1/32", "dev", "lo")
    lab.daemon.apply(route("10.98.0.0/24", "10.2.0.2") + route("10.99.0.0/24", "10.3.0.2"))
    return a, b, c


def sent(daemon):
    """Packets and bytes by interface and address."""
    return {
        (one["interface"], one.get("address", "")): (int(one.get("packets", 0)), int(one.get("bytes", 0)))
        for one in daemon.show("adjacency").get("adjacencies", [])
    }


def flows(pod, router, destination, count):
    """One UDP packet of each of many flows; the queue that each comes by is chosen by its hash."""
    head = Ether(src=pod.mac(), dst=router) / IP(src="10.1.0.2", dst=destination)
    return [head / UDP(sport=10_000 + flow, dport=9) / Raw(b"x" * 32) for flow in range(count)]


def test_pings_by_two_next_hops_are_counted_exactly(routers, daemon):
    a, _, _ = routers
    a.must_ping("10.98.0.1", "-s", 56, count=20)
    a.must_ping("10.99.0.1", "-s", 100, count=30)
    # Ethernet, IP and ICMP are 42 bytes. The first of each has waited for its neighbour, and counts once, too.
    want = {("b", "10.2.0.2"): (20, 20 * 98), ("c", "10.3.0.2"): (30, 30 * 142), ("a", "10.1.0.2"): (50, 20 * 98 + 30 * 142)}
    assert {key: sent(daemon).get(key) for key in want} == want
    # The interface counts questions for addresses besides.
    assert daemon.counter("b", "tx_packets") >= 20
    text = daemon.cli("show", "adj", "b").stdout
    line = next(line for line in text.splitlines() if "10.2.0.2" in line).split()
    assert line[1:3] == ["b", "10.2.0.2"] and line[-2:] == ["20", "1960"], text
    assert "10.3.0.2" not in text
    metrics = daemon.scrape()[1].splitlines()
    assert 'quiver_adjacency_packets_total{interface="c",address="10.3.0.2"} 30' in metrics
    assert 'quiver_adjacency_bytes_total{interface="c",address="10.3.0.2"} 4260' in metrics
    daemon.cli("clear", "counters", "adjacency")
    assert set(sent(daemon).values()) == {(0, 0)}
    assert daemon.counter("b", "tx_packets") >= 20, "those of interfaces stay"
    a.must_ping("10.98.0.1", "-s", 56, count=3)
    assert sent(daemon)["b", "10.2.0.2"] == (3, 3 * 98)


def test_both_workers_count_and_equal_cost_ways_come_to_what_was_sent(routers, daemon):
    a, _, _ = routers
    daemon.apply(route("10.97.0.0/24", "10.2.0.2", "10.3.0.2"))
    for address in ("10.98.0.1", "10.99.0.1"):
        a.must_ping(address, count=1)
    daemon.cli("clear", "counters")
    with a.wire() as wire:
        wire.send(*flows(a, daemon.interface("a")["mac"], "10.97.0.1", 400))
    ways = ("b", "10.2.0.2"), ("c", "10.3.0.2")
    counted = lambda: [sent(daemon)[way] for way in ways]
    eventually(lambda: sum(packets for packets, _ in counted()) == 400, lambda: f"all are counted: {counted()}, {daemon.drops()}")
    (by_b, _), (by_c, _) = counted()
    assert by_b > 100 and by_c > 100
    assert sum(size for _, size in counted()) == 400 * (14 + 20 + 8 + 32)
    rewritten = [
        sum(int(node.get("packets", 0)) for node in worker.get("nodes", []) if node["name"] == "ip-forward")
        for worker in daemon.show("runtime")["workers"]
    ]
    assert len(rewritten) == 2 and min(rewritten) > 50, rewritten


def test_the_kernel_has_received_what_was_counted(lab, daemon):
    """A tun has no neighbours and so nothing but packets: here the kernel's figures are ours."""
    a, d = lab.pod("a"), lab.pod("d")
    daemon.apply(
        lab.tap("a", a, "10.1.0")
        + f'[[interface]]\nname = "d"\naddresses = ["10.4.0.1/24"]\ntap = {{ netns = "{d.name}", host_name = "eth0", mode = "tun", '
        'host_addresses = ["10.4.0.2/24"], host_gateways = ["10.4.0.1"] }\n'
    )
    received = lambda: json.loads(d.ip("-s", "-j", "link", "show", "eth0").stdout)[0]["stats64"]["rx"]
    before = received()
    daemon.cli("clear", "counters")
    a.must_ping("10.4.0.2", count=25)
    a.must_ping("10.4.0.2", "-s", 700, count=5)
    after = received()
    assert sent(daemon)["d", ""] == (after["packets"] - before["packets"], after["bytes"] - before["bytes"]) == (30, 25 * 84 + 5 * 728)


def test_who_goes_and_comes_back_begins_at_zero(routers, daemon):
    a, _, _ = routers
    fixed = '[[neighbor]]\ninterface = "b"\naddress = "10.2.0.{}"\nmac = "02:00:00:00:00:{}"\n'
    for host in (50, 51, 50):
        daemon.apply(fixed.format(host, host) + route("10.96.0.0/24", f"10.2.0.{host}"))
        assert sent(daemon)["b", f"10.2.0.{host}"] == (0, 0)
        a.ping("10.96.0.1", count=4, wait=0.1)
        eventually(lambda host=host: sent(daemon)["b", f"10.2.0.{host}"] == (4, 4 * 98), lambda: f"all are counted: {sent(daemon)}")
        daemon.delete("route", "default/10.96.0.0/24")
        daemon.delete("neighbor", f"b/10.2.0.{host}")
        eventually(lambda host=host: ("b", f"10.2.0.{host}") not in sent(daemon), "it is gone")
        # Others go on as they were.
        assert ("b", "10.2.0.2") in sent(daemon)
        time.sleep(0.2)  # its number may be another's from now on
