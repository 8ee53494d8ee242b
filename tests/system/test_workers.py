"""Two workers: whatever one of them learns, holds or counts is right for the other."""

import json
import signal
import threading

import pytest
from lab import Process, eventually, tool
from lab.dpdk import forwarder
from lab.laboratory import iperf
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap

WORKERS = 2


@pytest.fixture
def two(lab):
    """Pods a (10.1.0.2) and b (10.2.0.2), whose taps have a queue for each worker."""
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", tap=", queues = 2") + lab.tap("b", b, "10.2.0", tap=", queues = 2"))
    return a, b


def packets_by_worker(daemon, node):
    """Packets that a node has handled, by worker."""
    return {
        worker.get("index", 0): sum(int(n.get("packets", 0)) for n in worker.get("nodes", []) if n["name"] == node)
        for worker in daemon.show("runtime")["workers"]
    }


def udp_flows(pod, router, destination, sources, ports, marker):
    """One packet of each of many flows: other flows come by other queues."""
    head = Ether(src=pod.mac(), dst=router)
    return [
        head / IP(src=f"10.1.0.{source}", dst=destination) / UDP(sport=port, dport=9) / Raw(marker)
        for source in sources for port in ports
    ]  # fmt: skip


# -- queues ----------------------------------------------------------------------------------------------------------


def test_queues_are_dealt_out_evenly(lab, two, daemon):
    assert daemon.workers_of("a") == daemon.workers_of("b") == [0, 1]
    each = ", rx_queues = 4, tx_queues = 4"
    daemon.apply(lab.memif("m12", 12, memif=each) + lab.memif("m13", 13, memif=each))
    with lab.generator("m12", "m13", 12, 13, "--queues", 3, "--rate", 100, "--seconds", 60):
        eventually(lambda: len(daemon.workers_of("m12") + daemon.workers_of("m13")) == 6, "both have a peer")
        placed = daemon.workers_of("m12") + daemon.workers_of("m13")
        assert placed.count(0) == placed.count(1) == 3, placed
    eventually(lambda: not daemon.interface("m12").get("placement"), "m12 has lost its peer")
    # What goes makes room where it was.
    daemon.delete("interface", "a")
    daemon.apply(lab.tap("a", two[0], "10.1.0", tap=", queues = 4"))
    assert sorted(daemon.workers_of("a")) == [0, 0, 1, 1]


@pytest.mark.parametrize("workers", [[1, 0], [1, 1]])
def test_queues_of_a_memif_are_where_they_are_named(lab, daemon, workers):
    each = ", rx_queues = 2, tx_queues = 2"
    daemon.apply(lab.memif("m12", 12, memif=f"{each}, rx_workers = {workers}") + lab.memif("m13", 13, memif=each))
    daemon.cli("clear", "counters")
    with lab.generator("m12", "m13", 12, 13, "--queues", 2, "--rate", 5000, "--seconds", 60) as generator:
        # Packets come by both queues, and both ways of telling where they are say the same.
        def busy():
            rings = [queue for queue in daemon.memif("m12").get("queues", []) if queue.get("rx")]
            return len(rings) == 2 and all(int(queue.get("packets", 0)) > 500 for queue in rings) and rings

        rings = eventually(busy, lambda: f"both queues receive\n{generator.output()}")
        assert [queue.get("worker", 0) for queue in rings] == daemon.workers_of("m12") == workers
        assert all(int(queue["bytes"]) == 64 * int(queue["packets"]) for queue in rings), rings
        # Not even one packet was another worker's to receive.
        received = packets_by_worker(daemon, "memif-input")
        assert {worker for worker, count in received.items() if count} == set(workers), received
        text = daemon.cli("show", "memif", "m12").stdout
        assert [line.split()[-1] for line in text.splitlines() if line.split()[:1] == ["rx"]] == [str(w) for w in workers], text
    status, outcomes, text = daemon.offer(lab.memif("m12", 12, memif=f"{each}, rx_workers = [0, {WORKERS}]"))
    assert status != 0 and f"there is no worker {WORKERS}: quiverd has workers 0 to 1" in str(outcomes) + text


def test_flows_of_a_tap_come_by_both_workers(two, daemon):
    a, b = two
    a.must_ping("10.2.0.2")
    router = daemon.interface("a")["mac"]
    daemon.cli("clear", "counters")
    sent = udp_flows(a, router, "10.2.0.2", range(2, 10), range(1000, 1032), b"both")
    with a.wire() as here, b.wire() as there:
        here.send(*sent)
        seen = [there.expect(lambda f: UDP in f and bytes(f[UDP].payload) == b"both", "packet") for _ in sent]
    flows = {(f[IP].src, f[UDP].sport) for f in seen}
    assert len(flows) == len(sent), "each has come once"
    by_worker = packets_by_worker(daemon, "ip-forward")
    assert sum(by_worker.values()) >= len(sent) and all(count >= 20 for count in by_worker.values()), by_worker
    assert daemon.counter("b", "tx_packets") >= len(sent)
    assert daemon.counter("b", "tx_drops") == 0, daemon.drops()


def test_fragments_that_come_by_different_workers_meet(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    assert daemon.workers_of("a") != daemon.workers_of("b"), "one queue each, and two workers"
    a.must_ping("10.1.0.1")
    ways = [(a, daemon.interface("a")["mac"]), (b, daemon.interface("b")["mac"])]
    pings = [IP(src="10.1.0.2", dst="10.1.0.1", id=n) / ICMP(id=7, seq=n) / Raw(bytes(3000)) for n in range(1, 41)]
    with a.wire() as at_a, b.wire() as at_b:
        for ping in pings:
            for n, fragment in enumerate(ping.fragment(1480)):
                pod, router = ways[n % 2]
                (at_a if pod is a else at_b).send(Ether(src=pod.mac(), dst=router) / fragment)
        answer = lambda f: ICMP in f and f[ICMP].type == 0 and f[ICMP].id == 7 and f[IP].frag == 0
        seen = {at_a.expect(answer, "answer")[ICMP].seq for _ in pings}
    assert seen == {ping[ICMP].seq for ping in pings}, daemon.drops()
    assert sum(packets_by_worker(daemon, "handover").values()) >= len(pings), "each has come by both"


@pytest.mark.parametrize("options", [(), ("-R",), ("--bidir",)], ids=["forth", "back", "both"])
@pytest.mark.parametrize("queues", [(1, 1), (4, 4), (4, 1)], ids=["one-queue", "four-queues", "four-to-one"])
def test_tcp(lab, daemon, queues, options):
    a, b = lab.pod("a"), lab.pod("b")
    left, right = (f", queues = {count}" for count in queues)
    daemon.apply(lab.tap("a", a, "10.1.0", tap=left) + lab.tap("b", b, "10.2.0", tap=right))
    result = iperf((a, b), "-P", 4, "-t", 2, *options)
    for stream in result["end"]["streams"]:
        assert stream["receiver"]["bytes"] > 100_000, result["end"]
    assert not [key for key, drop in daemon.drops().items() if drop.get("severity") == "invalid"], daemon.drops()


def test_udp_without_loss(two):
    result = iperf(two, "-u", "-b", "4M", "-l", "1400", "-t", "2", "-P", 4)
    assert result["end"]["sum"]["packets"] > 1000 and result["end"]["sum"]["lost_packets"] == 0, result["end"]["sum"]


@pytest.mark.parametrize("queues", [1, 2, 4])
def test_memif_with_several_queues(lab, daemon, queues):
    each = f", rx_queues = {queues}, tx_queues = {queues}"
    daemon.apply(lab.memif("m12", 12, memif=each) + lab.memif("m13", 13, memif=each))
    for size in (64, 1514):
        lab.lossless("m12", "m13", 12, 13, "--queues", queues, "--size", size, "--check", "payload", count=4000)
    if queues > 1:
        by_worker = packets_by_worker(daemon, "memif-input")
        assert all(count >= 1000 for count in by_worker.values()), by_worker


def test_both_directions_at_once(lab, daemon):
    each = ", rx_queues = 2, tx_queues = 2"
    daemon.apply(lab.memif("m12", 12, memif=each) + lab.memif("m13", 13, memif=each))
    result = lab.generate(
        "m12", "m13", 12, 13, "--queues", 2, "--bidirectional", "--count", 5000, "--rate", 5000,
        "--reverse-source-mac", "02:00:00:00:02:0d", "--reverse-destination-mac", "02:00:00:00:01:0d",
    )  # fmt: skip
    assert result["received"] == result["sent"] == 10000, (result, daemon.drops())


def test_dpdk_with_four_queues(lab, daemon):
    # As in test_memif, but each worker has two of the queues of each memif.
    memif = "rx_queues = 4, tx_queues = 4"
    daemon.apply(f"""
[[vrf]]
name = "far"
{lab.memif("m12", 12, memif=", " + memif)}
{lab.memif("m13", 13, 'vrf = "far"', memif=", " + memif)}
[[interface]]
name = "d0"
addresses = ["10.20.0.1/24"]
memif = {{ socket = "{lab.directory}/d0", {memif} }}
[[interface]]
name = "d1"
vrf = "far"
mac = "02:00:00:00:00:d1"
addresses = ["10.20.0.2/24"]
memif = {{ socket = "{lab.directory}/d1", {memif} }}
[[neighbor]]
interface = "d0"
address = "10.20.0.2"
mac = "02:00:00:00:00:d1"
[[route]]
prefix = "10.13.0.0/24"
next_hops = [{{ address = "10.20.0.2" }}]
""")
    with forwarder(lab, ["d0", "d1"], 4) as dpdk:
        for name in ("d0", "d1"):
            eventually(lambda name=name: daemon.memif(name).get("connected"), lambda: f"testpmd connects\n{dpdk.output()}", 30)
            assert len(daemon.memif(name)["queues"]) == 8
            assert sorted(daemon.workers_of(name)) == [0, 0, 1, 1]
        eventually(
            lambda: lab.generate("m12", "m13", 12, 13, "--queues", 4, "--count", 10, "--rate", 100, "--drain", 1)["received"] == 10,
            lambda: f"testpmd forwards\n{dpdk.output()}",
            30,
        )
        for size in (64, 1514):
            lab.lossless("m12", "m13", 12, 13, "--queues", 4, "--size", size, "--check", "payload", "--full", rate=2000)
        by_worker = packets_by_worker(daemon, "memif-input")
        assert all(count > 1000 for count in by_worker.values()), by_worker


def test_peers_of_several_queues_come_and_go(lab, daemon):
    each = ", rx_queues = 3, tx_queues = 3"
    daemon.apply(lab.memif("m12", 12, memif=each) + lab.memif("m13", 13, memif=each) + lab.memif("m14", 14) + lab.memif("m15", 15))
    with lab.generator("m14", "m15", 14, 15, "--rate", 3000, "--seconds", 6) as bystander:
        eventually(lambda: daemon.memif("m15").get("connected"), "m15 has a peer")
        for life in range(1, 4):
            with lab.generator("m12", "m13", 12, 13, "--queues", life, "--rate", 3000, "--seconds", 60) as generator:
                eventually(lambda: daemon.memif("m12").get("connected"), "m12 has a peer")
                before = daemon.counter("m13", "tx_packets")
                eventually(lambda before=before: daemon.counter("m13", "tx_packets") > before + 100, "packets flow")
                assert len(daemon.workers_of("m12")) == life
                generator.signal(signal.SIGKILL)
                generator.wait()
            eventually(lambda: not daemon.memif("m12").get("connected"), "the end is noticed")
            eventually(lambda: not daemon.interface("m12").get("placement"), "its queues are gone")
        lab.lossless_end(bystander)
    lab.lossless("m12", "m13", 12, 13, "--queues", 3)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_routes_come_and_go_under_load(lab, two, daemon):
    a, _ = two
    each = ", rx_queues = 2, tx_queues = 2"
    daemon.apply(lab.memif("m12", 12, memif=each) + lab.memif("m13", 13, memif=each))
    a.must_ping("10.2.0.2")
    routes = [{"prefix": f"20.{n >> 8 & 255}.{n & 255}.0/24", "next_hops": [{"address": "10.2.0.2"}]} for n in range(20_000)]
    file = daemon.directory / "routes.json"
    file.write_text(json.dumps({"route": routes}))
    with (
        a.pinging("10.2.0.2"),
        lab.generator("m12", "m13", 12, 13, "--queues", 2, "--rate", 3000, "--count", 15000) as generator,
    ):
        eventually(lambda: daemon.counter("m13", "tx_packets") > 100, lambda: f"packets flow\n{generator.output()}")
        for _ in range(3):
            assert daemon.json("apply", "-f", file)["counts"]["applied"] == 20_000
            daemon.cli("delete", "-f", file)
        lab.lossless_end(generator)
    assert daemon.names("route") == []


def test_a_deleted_interface_is_gone_from_both(lab, two, daemon):
    a, b = two
    each = ", rx_queues = 2, tx_queues = 2"
    daemon.apply(lab.memif("m12", 12, memif=each) + lab.memif("m13", 13, memif=each))
    a.must_ping("10.2.0.2")
    with lab.generator("m12", "m13", 12, 13, "--queues", 2, "--rate", 3000, "--count", 12000) as generator:
        eventually(lambda: daemon.counter("m13", "tx_packets") > 100, lambda: f"packets flow\n{generator.output()}")
        for _ in range(5):
            with a.start("ping", "-n", "-q", "-i", "0.002", "10.2.0.2"):
                before = daemon.counter("a", "rx_packets")
                eventually(lambda before=before: daemon.counter("a", "rx_packets") > before + 20, "pings flow")
                daemon.delete("interface", "b")
            daemon.apply(lab.tap("b", b, "10.2.0", tap=", queues = 2"))
            a.must_ping("10.2.0.2")
        lab.lossless_end(generator)


def test_neighbours_are_found_whoever_asks_and_whoever_hears_the_answer(lab, daemon):
    # One queue each, so a is one worker's and b the other's: what a's worker asks, b's is told.
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    assert daemon.workers_of("a") != daemon.workers_of("b")
    for host in range(20, 60):
        b.ip("address", "add", f"10.2.0.{host}/24", "dev", "eth0")
    for host in range(20, 60):
        # The very first packet is answered.
        a.must_ping(f"10.2.0.{host}", count=1)
    assert daemon.counter("b", "tx_packets") >= 80


def test_neighbours_of_ipv6_are_found_by_the_other_worker(lab, daemon):
    pods = lab.pod("a"), lab.pod("b")
    text = ""
    for number, (name, pod) in enumerate(zip("ab", pods, strict=True), 1):
        pod.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
        text += (
            f'[[interface]]\nname = "{name}"\naddresses = ["fd00:{number}::1/64"]\n'
            f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["fd00:{number}::2/64"], '
            f'host_gateways = ["fd00:{number}::1"] }}\n'
        )
    daemon.apply(text)
    assert daemon.workers_of("a") != daemon.workers_of("b")
    for pod in pods:
        eventually(lambda pod=pod: "tentative" not in pod.ip("-6", "address").stdout, "the pods' addresses are usable")
    pods[0].must_ping("fd00:2::2", count=5)
    pods[0].must_ping("fd00:1::1", "-s", 5000)


def test_a_neighbour_that_never_answers_is_reported_by_both(two, daemon):
    a, _ = two
    for source in range(20, 28):
        a.ip("address", "add", f"10.1.0.{source}/24", "dev", "eth0")
    replies = []

    def ask(source):
        replies.append(a.ping("10.2.0.99", "-I", f"10.1.0.{source}", count=1, wait=10).text)

    threads = [threading.Thread(target=ask, args=(source,)) for source in range(20, 28)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("Destination Host Unreachable" in text for text in replies), replies


# -- fragments ---------------------------------------------------------------------------------------------------------


def test_fragments_to_the_router_are_put_together_by_both(two, daemon):
    a, _ = two
    for source in range(20, 36):
        a.ip("address", "add", f"10.1.0.{source}/24", "dev", "eth0")
        pings = a.must_ping("10.1.0.1", "-I", f"10.1.0.{source}", "-s", 8000, "-p", "0123456789abcdef", count=2)
        assert "wrong data" not in pings.text
    by_worker = packets_by_worker(daemon, "ip4-reassembly")
    assert all(count > 0 for count in by_worker.values()), by_worker


def test_fragments_pass_through_both(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    jumbo = ("mtu = 9000",)
    daemon.apply(lab.tap("a", a, "10.1.0", *jumbo, tap=", queues = 2") + lab.tap("b", b, "10.2.0", tap=", queues = 2"))
    for source in range(20, 36):
        a.ip("address", "add", f"10.1.0.{source}/24", "dev", "eth0")
        pings = a.must_ping("10.2.0.2", "-I", f"10.1.0.{source}", "-M", "dont", "-s", 8000, "-p", "0123456789abcdef", count=2)
        assert "wrong data" not in pings.text


# -- bridges -----------------------------------------------------------------------------------------------------------


def macs(daemon):
    shown = next(entry for entry in daemon.show("bridge", "lan")["bridges"] if entry["name"] == "lan")
    return {entry["mac"]: entry.get("interface") for entry in shown.get("macs", [])}, int(shown.get("moves", 0))


@pytest.mark.parametrize("queues", [1, 2])
def test_a_bridge_between_workers(lab, daemon, queues):
    pods = {role: lab.pod(role) for role in "abc"}
    text = '[[bridge]]\nname = "lan"\n'
    for number, (name, pod) in enumerate(pods.items(), start=2):
        text += (
            f'[[interface]]\nname = "{name}"\nbridge = {{ name = "lan" }}\n'
            f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.5.0.{number}/24"], queues = {queues} }}\n'
        )
    daemon.apply(text)
    for here in pods.values():
        for number in (2, 3, 4):
            here.must_ping(f"10.5.0.{number}")
    for port in (5201, 5202):
        result = iperf((pods["a"], pods["b"]), "-P", 4, "-t", 1, "-p", port, to="10.5.0.3", port=port)
        assert result["end"]["sum_received"]["bytes"] > 1_000_000, result["end"]
    table, moves = macs(daemon)
    assert {pod.mac(): name for name, pod in pods.items()}.items() <= table.items(), table
    assert moves == 0, "whichever worker it comes by, a station stays at its member"


def test_what_one_worker_learns_the_other_knows(lab, daemon):
    """Hundreds of stations speak behind one member; to each of them a frame goes by another worker, and is flooded no more."""
    pods = {role: lab.pod(role) for role in "abc"}
    text = '[[bridge]]\nname = "lan"\n' + "".join(lab.plain_tap(name, pod, 'bridge = { name = "lan" }') for name, pod in pods.items())
    daemon.apply(text)
    assert len({daemon.workers_of(name)[0] for name in "ab"}) == 2
    stations = [f"02:00:00:05:{n >> 8:02x}:{n & 255:02x}" for n in range(300)]
    asker = "02:00:00:06:00:01"

    def frame(source, destination, text):
        return Ether(src=source, dst=destination, type=0x88B5) / Raw(text.ljust(46, b"\0"))

    def with_text(text):
        return lambda f: f.type == 0x88B5 and bytes(f.payload).startswith(text)

    with pods["a"].wire() as at_a, pods["b"].wire() as at_b, pods["c"].wire() as at_c:
        at_a.send(*(frame(station, asker, b"hello") for station in stations), frame(stations[0], "ff:ff:ff:ff:ff:ff", b"end 1"))
        at_b.collect(with_text(b"hello"), with_text(b"end 1"))
        table, _ = macs(daemon)
        assert set(stations) <= set(table), "all are learned"
        at_b.send(*(frame(asker, station, b"answer") for station in stations), frame(asker, "ff:ff:ff:ff:ff:ff", b"end 2"))
        assert len(at_a.collect(with_text(b"answer"), with_text(b"end 2"))) == len(stations)
        assert not at_c.collect(with_text(b"answer"), with_text(b"end 2")), "nothing is flooded"


# -- sight -------------------------------------------------------------------------------------------------------------


def test_each_worker_is_shown(two, daemon):
    a, _ = two
    a.must_ping("10.2.0.2", count=5)
    workers = daemon.show("runtime")["workers"]
    assert [worker.get("index", 0) for worker in workers] == [0, 1]
    assert len({worker.get("core", 0) for worker in workers}) == 2
    received = sum(packets_by_worker(daemon, "tap-input").values())
    assert received >= 10
    assert received <= sum(daemon.counter(name, "rx_packets") for name in "ab") <= received + 20
    text = daemon.cli("show", "runtime").stdout
    assert "worker 0 (core" in text and "worker 1 (core" in text, text
    loads = [line for line in daemon.scrape()[1].splitlines() if line.startswith("quiver_worker_load_ratio{")]
    assert len(loads) == 2, loads
    daemon.cli("clear", "counters")
    assert sum(packets_by_worker(daemon, "tap-input").values()) < 10


def test_a_trace_takes_its_number_from_both_together(two, daemon):
    a, _ = two
    a.must_ping("10.2.0.2")
    router = daemon.interface("a")["mac"]
    daemon.cli("trace", "add", "a", 20)
    with a.wire() as here:
        here.send(*udp_flows(a, router, "10.2.0.2", range(2, 10), range(1000, 1016), b"traced"))
    traced = eventually(lambda: (p := daemon.show("trace").get("packets", [])) and len(p) == 20 and p, lambda: daemon.show("trace"))
    assert {packet.get("worker", 0) for packet in traced} == {0, 1}
    starts = [int(packet["steps"][0]["time_ns"]) for packet in traced if "time_ns" in packet["steps"][0]]
    assert starts == sorted(starts), "in the order in which they came"


def test_a_capture_has_the_packets_of_both_in_order(two, daemon):
    a, b = two
    a.must_ping("10.2.0.2")
    router = daemon.interface("a")["mac"]
    file = daemon.directory / "both.pcapng"
    sent = udp_flows(a, router, "10.2.0.2", range(2, 10), range(1000, 1032), b"captured")
    with Process(tool("quiver"), "--socket", daemon.socket, "pcap", "start", "--rx", "--interface", "a", "--write", file) as capture:
        eventually(lambda: file.exists() and file.stat().st_size, "the capture begins")
        with a.wire() as here, b.wire() as there:
            here.send(*sent)
            for _ in sent:
                there.expect(lambda f: UDP in f and bytes(f[UDP].payload) == b"captured", "packet")
        eventually(lambda: file.read_bytes().count(b"captured") >= len(sent), "all are written")
        capture.signal(signal.SIGINT)
        capture.wait()
    seen = [(p[IP].src, p[UDP].sport) for p in rdpcap(str(file)) if UDP in p and bytes(p[UDP].payload) == b"captured"]
    assert sorted(seen) == sorted((f[IP].src, f[UDP].sport) for f in sent), "each once"
