"""What quiverd tells of itself: show, trace, captures, metrics."""

import http.client
import re
import socket

import pytest
from lab import Process, eventually, run, tool
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap


@pytest.fixture
def two(lab):
    """Pods a (10.1.0.2) and b (10.2.0.2), a bridge and a memif beside."""
    a, b = lab.pod("a"), lab.pod("b")
    text = lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0") + lab.memif("m12", 12) + '[[bridge]]\nname = "lan"\n'
    lab.daemon.apply(text)
    a.must_ping("10.2.0.2")
    return a, b


@pytest.mark.parametrize("what", ["interface", "runtime", "drops", "fib", "neighbor", "bridge", "memif", "graph", "version", "trace"])
def test_everything_is_shown_for_people_and_programs(two, daemon, what):
    assert isinstance(daemon.show(what), dict)
    assert daemon.cli("show", what).stdout.strip()
    assert daemon.cli("show", what, "-o", "toml").stdout.strip() or not daemon.show(what)


def test_counters_count_packets_and_bytes(two, daemon):
    before = {name: daemon.interface(name)["counters"] for name in "ab"}
    two[0].must_ping("10.2.0.2", "-s", 56, count=10)
    after = {name: daemon.interface(name)["counters"] for name in "ab"}
    for name in "ab":
        for way in ("rx", "tx"):
            packets = after[name][f"{way}_packets"] - before[name][f"{way}_packets"]
            size = after[name][f"{way}_bytes"] - before[name][f"{way}_bytes"]
            # Besides: an ARP or two, a router solicitation.
            assert 10 <= packets <= 14 and size >= 10 * 98, (name, way, packets, size)
    daemon.cli("clear", "counters")
    assert daemon.counter("a", "rx_packets") < 10


def test_a_trace_shows_the_way_of_a_packet(two, daemon):
    daemon.cli("trace", "add", "a", 1)
    two[0].must_ping("10.2.0.2", count=1)
    packet = eventually(lambda: daemon.show("trace").get("packets"), "a packet is traced")[0]
    nodes = [step["node"] for step in packet["steps"]]
    assert nodes[0] == "tap-input" and nodes[-1].startswith(("tap-tx", "b-tx")), nodes
    for node in ("ethernet-input", "ip4-input", "ip4-lookup"):
        assert node in nodes, nodes
    assert packet["interface"] == "a"
    text = daemon.cli("trace", "show").stdout
    assert "10.1.0.2" in text and "10.2.0.2" in text, text
    daemon.cli("trace", "clear")
    assert not daemon.show("trace").get("packets")


def test_a_trace_of_what_is_not_there_is_refused(daemon):
    done = daemon.cli("trace", "add", "ghost", check=False)
    assert done.returncode == 4 and "ghost" in done.stderr, (done.returncode, done.stderr)


def test_a_capture_holds_the_packets(two, daemon):
    file = daemon.directory / "all.pcapng"
    capture = daemon_capture(daemon, file, "--rx", "--interface", "a", "--count", 3)
    with capture as process:
        two[0].must_ping("10.2.0.2", "-p", "c0ffee", count=8)
        process.finish()
    packets = rdpcap(str(file))
    assert len(packets) == 3
    pings = [packet for packet in packets if ICMP in packet]
    assert pings and pings[0][IP].src == "10.1.0.2" and b"\xc0\xff\xee" in bytes(pings[0])


def test_a_capture_of_drops_names_the_reason(two, daemon):
    a, _ = two
    file = daemon.directory / "drops.pcapng"
    bad = Ether(src=a.mac(), dst=daemon.interface("a")["mac"]) / IP(src="10.1.0.2", dst="10.2.0.2", chksum=1) / UDP() / Raw(b"broken" * 9)
    with daemon_capture(daemon, file, "--drop", "--count", 20, "--interface", "a") as process, a.wire() as wire:

        def captured():
            wire.send(bad)
            return not process.alive()

        eventually(captured, "the drop is captured")
        process.finish()
    # Among them may be what else the pod's kernel sends, say a router solicitation.
    assert any(bytes(packet) == bytes(bad) for packet in rdpcap(str(file)))
    reason = next(reason for _, reason in daemon.drops() if "checksum" in reason)
    assert reason.encode() in file.read_bytes(), "the comment names the reason"


def daemon_capture(daemon, file, *options):
    """Starts a capture and waits until it has begun, that is, the file has its header."""
    process = Process(tool("quiver"), "--socket", daemon.socket, "pcap", "start", *options, "--write", file)
    eventually(lambda: (file.exists() and file.stat().st_size) or not process.alive(), "the capture begins")
    return process


def scrape(daemon):
    """The metrics, as Prometheus would fetch them: content type and text."""
    connection = http.client.HTTPConnection("quiver")
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(5)
    connection.sock.connect(str(daemon.metrics))
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200
    return answer.getheader("content-type"), answer.read().decode()


SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (-?[\d.e+-]+|NaN|\+Inf|-Inf)( \d+)?$')


def test_metrics_are_well_formed_and_true(two, daemon):
    content, text = scrape(daemon)
    assert content.startswith(("text/plain", "application/openmetrics-text")), content
    names, typed = set(), set()
    for line in text.splitlines():
        if line.startswith("#"):
            words = line.split()
            if words[1] == "TYPE":
                typed.add(words[2])
            continue
        if line:
            sample = SAMPLE.match(line)
            assert sample, line
            names.add(sample[1])
    untyped = {n for n in names if n not in typed and re.sub(r"_(total|bucket|count|sum|info)$", "", n) not in typed}
    assert not untyped, untyped
    assert all(name.startswith("quiver_") for name in names), names
    received = [line for line in text.splitlines() if re.match(r'quiver_interface_receive_packets_total\{[^}]*"a"', line)]
    assert received and float(received[0].split()[-1]) >= 3, [line for line in text.splitlines() if "packets" in line][:10]


@pytest.mark.xfail(strict=True, reason="packets whose sender is told by ICMP are counted nowhere that an operator can see")
@pytest.mark.parametrize("destination, ttl", [("10.77.0.1", 64), ("10.2.0.2", 1)], ids=["no-route", "ttl-expired"])
def test_packets_that_end_in_an_icmp_error_are_counted(two, daemon, destination, ttl):
    a, _ = two
    daemon.cli("clear", "counters")
    for _ in range(20):
        a.ping(destination, "-t", ttl, count=1, wait=1)
    shown = [drop for drop in daemon.show("drops").get("drops", []) if int(drop["packets"]) >= 20]
    counted = [line for line in scrape(daemon)[1].splitlines() if re.search(r"(ttl|time|route|unreach)\S* 2\d$", line)]
    assert shown or counted


def test_names_with_quotes_do_not_break_metrics(daemon):
    # Names can't hold quotes, but sockets can.
    path = f'{daemon.directory}/so"ck\\et'.replace("\\", "\\\\").replace('"', '\\"')
    daemon.apply(f'[[interface]]\nname = "m"\nmemif = {{ socket = "{path}" }}\n')
    for line in scrape(daemon)[1].splitlines():
        assert line.startswith("#") or not line or SAMPLE.match(line), line


def test_an_idle_worker_sleeps(daemon):
    summary = daemon.show("runtime")["workers"][0]["summary"]
    assert "loaded" in summary, summary


def test_completions_are_written(daemon):
    for shell in ("bash", "zsh", "fish"):
        assert "quiver" in run(tool("quiver"), "completion", shell).stdout
