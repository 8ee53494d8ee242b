"""What quiverd tells of itself: show, trace, captures, metrics."""

import os
import pathlib
import re
import signal

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


SUBJECTS = ["interface", "runtime", "drops", "fib", "adjacency", "neighbor", "bridge", "memif", "graph", "version", "trace"]


@pytest.mark.parametrize("what", SUBJECTS)
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
    # Among them may be what else the pod's kernel sends, say a router solicitation.
    daemon.cli("trace", "add", "a", 20)
    two[0].must_ping("10.2.0.2", count=1)

    def traced():
        packets = daemon.show("trace").get("packets", [])
        return next((p for p in packets if any(step["node"] == "ip4-rewrite" for step in p["steps"])), None)

    packet = eventually(traced, "a packet is traced")
    nodes = [step["node"] for step in packet["steps"]]
    assert nodes[0] == "tap-input" and nodes[-1].startswith(("tap-tx", "b-tx")), nodes
    for node in ("ethernet-input", "ip4-input", "ip4-lookup"):
        assert node in nodes, nodes
    assert packet["interface"] == "a"
    text = daemon.cli("trace", "show").stdout
    assert "10.1.0.2" in text and "10.2.0.2" in text, text
    daemon.cli("trace", "clear")
    eventually(lambda: not daemon.show("trace").get("packets"), "workers have forgotten it")


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


@pytest.mark.parametrize("words", [(), ("--count", 1000)])
@pytest.mark.parametrize("end,said", [("stop", "quiverd has ended"), ("kill", "quiverd went away")])
def test_who_captures_is_told_that_quiverd_has_ended_and_keeps_what_there_was(own_daemon, tmp_path, end, said, words):
    daemon = own_daemon().start()
    file = tmp_path / "cut.pcapng"
    with daemon_capture(daemon, file, *words) as process:
        getattr(daemon, end)()
        assert process.wait() == 3, process.output()
        assert f"pcap start: {said}" in process.output(), process.output()
    assert len(rdpcap(str(file))) == 0


def daemon_capture(daemon, file, *options):
    """Starts a capture and waits until it has begun, that is, the file has its header."""
    process = Process(tool("quiver"), "--socket", daemon.socket, "pcap", "start", *options, "--write", file)
    eventually(lambda: (file.exists() and file.stat().st_size) or not process.alive(), "the capture begins")
    return process


def test_who_runs_until_the_end_of_input_ends_when_whoever_started_it_goes_away(two, daemon, tmp_path):
    """As kubectl-quiver runs it on a node."""
    file = tmp_path / "until.pcapng"
    input_end, output_end = os.pipe()
    words = ("--socket", daemon.socket, "--until-eof", "pcap", "start", "--write", file)
    with open(input_end) as stdin, Process(tool("quiver"), *words, stdin=stdin) as capture:
        eventually(lambda: (file.exists() and file.stat().st_size) or not capture.alive(), "the capture begins")
        two[0].must_ping("10.2.0.2")
        assert capture.alive(), capture.output()
        os.close(output_end)
        assert " packets, " in capture.finish()
    assert any(packet.haslayer(ICMP) for packet in rdpcap(str(file)))


SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (-?[\d.e+-]+|NaN|\+Inf|-Inf)( \d+)?$')


def test_metrics_are_well_formed_and_true(two, daemon):
    content, text = daemon.scrape()
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
    assert all(name.startswith(("quiver_", "process_")) for name in names), names
    status = (pathlib.Path("/proc") / str(daemon.process.pid) / "status").read_text()
    resident = int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)[1]) << 10
    told = {name: int(value) for name, value in re.findall(r"^(process_\w+|quiver_heap_bytes\S+) (\d+)$", text, re.MULTILINE)}
    assert abs(told["process_resident_memory_bytes"] - resident) < 16 << 20, (told, resident)
    assert 3 < told["process_open_fds"] < 1000 and 1 << 20 < told['quiver_heap_bytes{state="used"}'] < resident, told
    received = [line for line in text.splitlines() if re.match(r'quiver_interface_receive_packets_total\{[^}]*"a"', line)]
    assert received and float(received[0].split()[-1]) >= 3, [line for line in text.splitlines() if "packets" in line][:10]


UNTOLD = [
    ("ip4-lookup", "no-route", ["10.77.0.1"], "Destination Net Unreachable"),
    ("ip4-rewrite", "ttl-expired", ["10.2.0.2", "-t", 1], "Time to live exceeded"),
    ("ip4-rewrite", "too-big", ["10.3.0.2", "-M", "do", "-s", 1400], "Frag needed"),
    ("ip6-lookup", "no-route", ["2001:db8:77::1"], "No route"),
    ("ip6-rewrite", "hop-limit-expired", ["2001:db8:2::2", "-t", 1], "Hop limit"),
    ("ip6-rewrite", "too-big", ["2001:db8:3::2", "-M", "do", "-s", 1400], "Packet too big"),
]


@pytest.fixture
def routed(lab, daemon):
    """Pods a, b and c (whose interface takes 1300 bytes at most), with both versions of IP."""
    pods = {}
    for number, role in enumerate("abc", 1):
        pod = pods[role] = lab.pod(role)
        v6 = f"2001:db8:{number}::"
        daemon.apply(
            f'[[interface]]\nname = "{role}"\naddresses = ["10.{number}.0.1/24", "{v6}1/64"]\n'
            + ("mtu = 1300\n" if role == "c" else "")
            + f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_mtu = 1500, '
            f'host_addresses = ["10.{number}.0.2/24", "{v6}2/64"], host_gateways = ["10.{number}.0.1", "{v6}1"] }}\n'
        )
    # Neighbours are known: what follows isn't mixed up with their resolution.
    for address in ("10.2.0.2", "10.3.0.2", "2001:db8:2::2", "2001:db8:3::2"):
        eventually(lambda address=address: pods["a"].ping(address, count=1)[1], f"{address} answers")
    return pods["a"]


@pytest.mark.parametrize("node, reason, ping, told", UNTOLD, ids=[f"{node}-{reason}" for node, reason, *_ in UNTOLD])
def test_packets_that_end_in_an_icmp_error_are_drops(routed, daemon, node, reason, ping, told):
    address, *options = ping
    daemon.cli("clear", "counters")
    file = daemon.directory / f"{node}-{reason}.pcapng"
    with daemon_capture(daemon, file, "--drop", "--interface", "a") as capture:
        for _ in range(3):
            # The kernel keeps what it learns of paths: each ping asks anew.
            routed.ip("route", "flush", "cache", check=False)
            routed.ip("-6", "route", "flush", "cache", check=False)
            output = routed.ping(address, *options, count=1, wait=1)[2]
            assert told in output, f"the sender is told\n{output}"
        assert daemon.drops_of("a")[node, reason] == 3, daemon.show("drops")
        line = f'quiver_drops_total{{node="{node}",reason="{reason}",severity="loss",interface="a"}} 3'
        assert line in daemon.scrape()[1].splitlines()
        shown = daemon.cli("show", "drops").stdout
        assert re.search(rf"{node} +{reason} +a +3 +loss", shown), shown
        assert daemon.counter("a", "rx_drops") >= 3
        eventually(lambda: file.read_bytes().count(reason.encode()) >= 3, "the capture has them, with the reason")
        capture.signal(signal.SIGINT)
        capture.wait()
    # As they came: whole, the time to live not diminished.
    captured = [packet for packet in rdpcap(str(file)) if ICMP in packet or packet.haslayer("ICMPv6 Echo Request")]
    assert len(captured) == 3, captured
    if "-t" in options:
        assert all((packet[IP].ttl if IP in packet else packet["IPv6"].hlim) == 1 for packet in captured)


@pytest.mark.parametrize("joined", ["bridge", "cross-connect"])
def test_frames_are_counted_by_whom_they_are_for(lab, daemon, joined):
    """Two taps that are joined: what one receives for a group the other sends."""
    a, b = lab.pod("a"), lab.pod("b")
    if joined == "bridge":
        member = 'bridge = { name = "lan" }'
        text = '[[bridge]]\nname = "lan"\n' + lab.plain_tap("a", a, member) + lab.plain_tap("b", b, member)
    else:
        text = lab.plain_tap("a", a, 'cross_connect = "b"') + lab.plain_tap("b", b, 'cross_connect = "a"')
    daemon.apply(text + lab.tap("r", lab.pod("r"), "10.9.0"))

    def kinds(counters, way):
        return [int(counters.get(f"{way}_{kind}", 0)) for kind in ("unicast", "multicast", "broadcast")]

    def counted(interface, way):
        return kinds(daemon.interface(interface).get("counters", {}), way)

    def growth(before, after):
        return [now - then for then, now in zip(before, after, strict=True)]

    # The pods' kernels speak, too, when they like: multicast only, so that is a lower bound.
    before = counted("a", "rx"), counted("b", "tx")
    source = "02:00:00:00:00:aa"
    with a.wire() as wire:
        for destination, count in (("02:00:00:00:00:bb", 4), ("01:00:5e:00:00:09", 5), ("ff:ff:ff:ff:ff:ff", 6)):
            for _ in range(count):
                wire.send(Ether(src=source, dst=destination, type=0x88B5) / Raw(b"x" * 46))
    for interface, way, then in (("a", "rx", before[0]), ("b", "tx", before[1])):

        def all_counted(interface=interface, way=way, then=then):
            unicast, multicast, broadcast = growth(then, counted(interface, way))
            return unicast == 4 and multicast >= 5 and broadcast == 6

        eventually(all_counted, lambda i=interface: f"{i}: {daemon.interface(i)['counters']}")

        def nothing_is_left_out(interface=interface, way=way):
            shown = daemon.interface(interface)["counters"]
            return sum(kinds(shown, way)) == int(shown[f"{way}_packets"])

        # Of one reading: the kernels' own multicasts come between two.
        eventually(nothing_is_left_out, lambda i=interface: f"{i}: {daemon.interface(i)['counters']}")
    # Announcements and questions of our own are broadcast as well.
    eventually(lambda: counted("r", "tx")[2] >= 1, lambda: daemon.interface("r")["counters"])
    text = daemon.scrape()[1]
    assert re.search(r'quiver_interface_transmit_broadcast_total\{interface="b"\} \d*[6-9]\b', text), text


def test_malformed_packets_are_errors_of_their_interface(two, daemon):
    a, _ = two
    bad = Ether(src=a.mac(), dst=daemon.interface("a")["mac"]) / IP(src="10.1.0.2", dst="10.2.0.2", chksum=1) / UDP() / Raw(b"broken" * 9)
    with a.wire() as wire:
        for _ in range(7):
            wire.send(bad)
    eventually(lambda: daemon.counter("a", "rx_errors") == 7, lambda: f"{daemon.interface('a')['counters']}")
    assert daemon.drops_of("a")["ip4-input", "bad-checksum"] == 7
    assert daemon.counter("b", "rx_errors") == 0


def test_drops_of_an_interface_that_is_gone_are_still_drops(two, daemon):
    a, b = two
    for pod, count in ((a, 3), (b, 5)):
        pod.ping("10.77.0.1", count=count, wait=1)
    assert daemon.drops_of("a")["ip4-lookup", "no-route"] == 3
    assert daemon.drops_of("b")["ip4-lookup", "no-route"] == 5
    daemon.delete("interface", "a")
    assert daemon.drops_of("a") == {}
    assert daemon.drops_of("")["ip4-lookup", "no-route"] == 3
    assert daemon.dropped("no-route") == 8
    daemon.cli("clear", "counters")
    assert daemon.dropped("no-route") == 0


def test_names_with_quotes_do_not_break_metrics(daemon):
    # Names can't hold quotes, but sockets can.
    path = f'{daemon.directory}/so"ck\\et'.replace("\\", "\\\\").replace('"', '\\"')
    daemon.apply(f'[[interface]]\nname = "m"\nmemif = {{ socket = "{path}" }}\n')
    for line in daemon.scrape()[1].splitlines():
        assert line.startswith("#") or not line or SAMPLE.match(line), line


def test_an_idle_worker_sleeps(daemon):
    summary = daemon.show("runtime")["workers"][0]["summary"]
    assert "loaded" in summary, summary


def test_a_worker_with_nothing_to_do_looks_once_and_sleeps_again(two, daemon):
    """Its naps are short, for some peers' wake-ups get lost; what it finds then is mostly nothing."""

    def looked():
        worker = daemon.show("runtime")["workers"][0]
        return int(worker["rounds"]), int(worker["sleeps"])

    rounds, sleeps = looked()
    eventually(lambda: looked()[1] >= sleeps + 40, "it naps", timeout=60, interval=1.0)
    more, naps = looked()
    # Questions wake it, too, and then it looks around for as long as after a packet.
    assert more - rounds < 500 * (naps - sleeps), (more - rounds, naps - sleeps)


def test_completions_are_written(daemon):
    for shell in ("bash", "zsh", "fish"):
        assert "quiver" in run(tool("quiver"), "completion", shell).stdout
