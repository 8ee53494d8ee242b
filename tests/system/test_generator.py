"""Generators: packets without any peer, made by one worker or by several."""

import re

import pytest
from lab import eventually
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from test_workers import packets_by_worker

WORKERS = 2
NETWORK = "10.9.0"
#: A packet's length on the wire, without checksum.
SIZE = 100


def generator(*, name="gen", destination="10.1.0.2", port="", more=""):
    """A routed interface whose packets come from .5 of its network."""
    return f"""
[[interface]]
name = "{name}"
addresses = ["{NETWORK}.1/24"]
{more}
generator = {{ source_address = "{NETWORK}.5", destination_address = "{destination}", frame_sizes = [{SIZE}]{port} }}
"""


HOLE = """
[[interface]]
name = "hole"
addresses = ["10.8.0.1/24"]
sink = {}
[[neighbor]]
interface = "hole"
address = "10.8.0.2"
mac = "02:00:00:00:00:99"
"""


def expected(router, pod, last, sport):
    """What comes out, as scapy builds it: forwarded once, so with one hop less than the 64 that it begins with."""
    head = Ether(src=router, dst=pod) / IP(src=f"{NETWORK}.{last}", dst="10.1.0.2", ttl=63, id=0) / UDP(sport=sport, dport=9)
    return bytes(head / Raw(bytes(range(SIZE - len(head)))))


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize("vary", ["source_address", "source_port"])
def test_a_pod_gets_the_packets_that_were_asked_for(lab, daemon, vary, queues):
    a = lab.pod("a")
    daemon.apply(lab.tap("a", a, "10.1.0"))
    a.must_ping("10.1.0.1")
    router, mac = daemon.interface("a")["mac"], a.mac()
    port = f', count = 40, rate = 400, flows = 20, vary = "{vary}", source_port = 5000, rx_queues = {queues}'
    with a.wire() as wire:
        daemon.apply(generator(port=port))
        seen = [bytes(wire.expect(lambda f: UDP in f and f[UDP].dport == 9, "packet")) for _ in range(40)]
    flows = [(5 + n, 5000) if vary == "source_address" else (5, 5000 + n) for n in range(20)]
    # Two workers send as it comes: in no order.
    assert sorted(seen) == sorted(2 * [expected(router, mac, *flow) for flow in flows])
    counters = daemon.interface("gen")["counters"]
    assert (counters["rx_packets"], counters["rx_bytes"]) == (40, 40 * SIZE)
    assert len(set(daemon.workers_of("gen"))) == queues


def test_each_worker_makes_and_takes_its_half(daemon):
    daemon.apply(generator(destination="10.8.0.2", port=", count = 100000, rx_queues = 2, rx_workers = [1, 0]") + HOLE)
    assert daemon.workers_of("gen") == [1, 0]
    # Both interfaces have said who they are, too: those are broadcasts.
    eventually(lambda: daemon.counter("hole", "tx_unicast") == 100_000, lambda: daemon.show("interface"))
    counters = daemon.interface("gen")["counters"]
    assert (counters["rx_packets"], counters["rx_bytes"]) == (100_000, 100_000 * SIZE)
    for node in ("generator-input", "ip-forward"):
        assert packets_by_worker(daemon, node) == {0: 50_000, 1: 50_000}, node
    assert not daemon.drops(), daemon.drops()


def test_drawn_flows_are_traced(daemon):
    """A trace shows packets as they were made: flows in no order, each from where it was asked for."""
    flows = ', rate = 1000, flows = 250, vary = "source_address", random = true'
    daemon.apply(generator(destination="10.8.0.2", port=flows) + HOLE)
    daemon.cli("trace", "add", "gen", 8)
    traced = eventually(lambda: (p := daemon.show("trace").get("packets", [])) and len(p) == 8 and p, lambda: daemon.show("trace"))
    assert all(packet["interface"] == "gen" and packet["steps"][0]["node"] == "generator-input" for packet in traced), traced
    text = daemon.cli("trace", "show").stdout
    sources = [int(last) for last in re.findall(rf"{re.escape(NETWORK)}\.(\d+) -> 10\.8\.0\.2", text)]
    assert set(sources) <= set(range(5, 255)) and sources != sorted(sources), text


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (', flows = 65537', "generator.flows"),
        (', vary = "colour"', "colour"),
        (", rx_queues = 257", "generator.rx_queues"),
        (", rx_queues = 2, rx_workers = [0]", "names 1 workers for rx_queues = 2"),
        (", rx_workers = [2]", "there is no worker 2: quiverd has workers 0 to 1"),
        (', protocol = "tcp_syn", frame_sizes = [53]', "53"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused(daemon, port, why):
    text = generator(port=port) if "frame_sizes" not in port else generator(port=port).replace(f"frame_sizes = [{SIZE}], ", "")
    status, outcomes, said = daemon.offer(text)
    assert status != 0 and why in str(outcomes) + said, (outcomes, said)
    assert "gen" not in daemon.names()
