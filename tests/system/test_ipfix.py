"""Sessions as flow records: a collector on the loopback, whose messages Wireshark's decoder reads."""

import contextlib
import datetime
import itertools
import json
import re
import socket
import struct
import time

import pytest
from lab import Laboratory, eventually, run
from lab.sessions import VERSIONS, figures, only, sessions, sockets, tap, tenant, timeouts
from scapy.all import IP, UDP, Ether, Raw, wrpcap
from test_parsers import PORT as TUNNELS
from test_parsers import packet as g_pdu

# flowEndReason and the first two bits of forwardingStatus.
IDLE, ACTIVE, ENDED, FORCED, FORWARDED, DROPPED = "1", "2", "3", "4", "1", "2"


class Collector:
    """A UDP socket, and what tshark makes of the messages that come."""

    def __init__(self, directory, port=0):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.file = directory / "ipfix.pcap"
        self.messages = []

    def close(self):
        self.socket.close()

    def listen(self):
        """Takes what has come since."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.messages.append(self.socket.recv(65535))
        return self.messages

    def decoded(self):
        """All messages, as tshark reads them: a name that comes twice has a list."""
        frames = [Ether() / IP(src="127.0.0.1", dst="127.0.0.1") / UDP(sport=1, dport=4739) / Raw(message) for message in self.listen()]
        if not frames:
            return []
        wrpcap(str(self.file), frames)
        words = ("-r", self.file, "-d", "udp.port==4739,cflow", "-J", "cflow", "-T", "json")
        packets = json.loads(run("tshark", *words).stdout, object_pairs_hook=_all_of_them)
        assert len(packets) == len(frames)
        return [packet["_source"]["layers"]["cflow"] for packet in packets]

    def records(self):
        """Data records, in order; those whose template hasn't come yet left out, as collectors do."""
        found = []
        for message in self.decoded():
            for name, part in message.items():
                assert "Malformed" not in name, message
                if re.fullmatch(r"Set \d+ \[id=(25[6-9]|26[02])\] .*", name):
                    found += [record for flow, record in part.items() if flow.startswith("Flow ")]
        return found

    def of(self, port, field="cflow.flow_end_reason"):
        """Records of sessions with that port that have the field."""
        return [record for record in self.records() if record.get("cflow.dstport") == str(port) and field in record]

    def eventually(self, port, number=1, **options):
        eventually(lambda: len(self.of(port, **options)) >= number, lambda: f"{number} records: {self.records()}", interval=0.3)
        found = self.of(port, **options)
        assert len(found) == number, found
        return found


def _all_of_them(pairs):
    found = {}
    for name, value in pairs:
        found[name] = [*(found[name] if isinstance(found[name], list) else [found[name]]), value] if name in found else value
    return found


def span(record):
    """When it began and ended, in milliseconds since 1970: tshark shows how long it took, and these below that."""
    return tuple(milliseconds(record["cflow.timedelta_tree"][f"cflow.abstime{which}"]) for which in ("start", "end"))


def milliseconds(text):
    """Since 1970, of a time as tshark writes it."""
    when = datetime.datetime.strptime(re.sub(r"\d{3} UTC$", " UTC", text), "%b %d, %Y %H:%M:%S.%f %Z")
    return when.replace(tzinfo=datetime.UTC).timestamp() * 1000


def both(record):
    """Packets and bytes there and back."""
    (there, back), (size, size_back) = (map(int, record[f"cflow.{name}"]) for name in ("packets", "octets"))
    return there, size, back, size_back


@pytest.fixture
def exporting(own_daemon, tmp_path):
    """Starts a quiverd that exports: pods a and b, the daemon, the collector."""
    with contextlib.ExitStack() as stack:

        def start(*settings, services="", collector=None, workers=2):
            collector = collector or stack.enter_context(contextlib.closing(Collector(tmp_path)))
            lines = [f'collector = "127.0.0.1:{collector.port}"', *settings]
            daemon = own_daemon(workers=workers, extra="\n".join(["[[ipfix]]", *lines, ""])).start()
            lab = stack.enter_context(contextlib.closing(Laboratory(daemon)))
            a, b = lab.pod("a"), lab.pod("b")
            daemon.apply(tap("a", a, 1) + tap("b", b, 2) + services)
            for address in ("10.2.0.2", "fd00:2::2"):
                eventually(lambda address=address: a.ping(address, count=1, wait=1).received == 1, lambda: "b answers")
            # Templates come first.
            eventually(collector.listen, lambda: f"something comes: {daemon.log()}")
            return (a, b), daemon, collector

        yield start


def metric(daemon, name):
    found = re.findall(rf"^quiver_ipfix_{name}_total\{{[^}}]*\}} (\d+)$", daemon.scrape()[1], re.M)
    assert len(found) == 1, found
    return int(found[0])


def ask(pods, family=socket.AF_INET, there="10.2.0.2", answers=0):
    """A question in 100 bytes, and answers of 10; its port."""
    with sockets(pods, family, socket.SOCK_DGRAM, there) as (client, server):
        client.sendto(b"x" * 100, server.getsockname())
        _, asker = server.recvfrom(1000)
        for _ in range(answers):
            server.sendto(b"y" * 10, asker)
            client.recv(100)
        return server.getsockname()[1]


@VERSIONS
def test_a_session_is_a_flow_of_both_directions(exporting, family, there):
    begin = time.time() * 1000
    pods, daemon, collector = exporting("domain = 77", services=tenant("context = 5"))
    port = ask(pods, family, there, answers=3)
    session = only(daemon, "--port", str(port))
    daemon.cli("clear", "session", "--port", port)
    (record,) = collector.eventually(port)
    _, *counted = figures(session)
    assert both(record) == tuple(counted), "what show session has said"
    v6 = "v6" if family == socket.AF_INET6 else ""
    expected = {
        f"cflow.srcaddr{v6}": session["initiator"],
        f"cflow.dstaddr{v6}": there,
        "cflow.srcport": str(session["initiator_port"]),
        "cflow.protocol": "17",
        "cflow.flow_end_reason": FORCED,
        "cflow.biflow_direction": "1",
        "cflow.ingress_vrfid": "5",
        "cflow.user_name": "red",
    }
    assert {name: record[name] for name in expected} == expected
    assert record["Forwarding Status"]["cflow.forwarding_status"] == FORWARDED
    start, end = span(record)
    # Times are those of the worker's clock, to 17 ms.
    assert begin - 20 <= start <= end <= time.time() * 1000
    assert {message["cflow.od_id"] for message in collector.decoded()} == {"77"}
    assert not [record for record in collector.records() if "cflow.nat_event" in record]


def test_flags_and_hop_limits_are_told_where_they_are_noted(exporting):
    services = "".join(f'{way}_services = ["l4-lifecycle", "session-stats"]\n' for way in ("forward", "reverse"))
    pods, daemon, collector = exporting(services=tenant(services))
    with sockets(pods, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
        server.listen()
        client.connect(server.getsockname())
        port = server.getsockname()[1]
        peer, _ = server.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        # A FIN that crosses the RST would be one flag more.
        with peer, pytest.raises(ConnectionResetError):
            peer.recv(1)
    daemon.cli("clear", "session", "--port", port)
    (record,) = collector.eventually(port)
    # The client's SYN, ACK and RST, the server's SYN and ACK; Linux sends with 64 hops.
    # Of both sides, the second as reverse elements (RFC 5103), which tshark shows by the same names.
    assert [int(value, 16) for value in _listed(record["cflow.tcpflags"])] == [0x16, 0x12]
    assert [_listed(record[f"cflow.ttl_{which}"]) for which in ("min", "max")] == [["64", "64"]] * 2


@VERSIONS
def test_a_tunnel_is_a_flow_to_whom_it_is_for(exporting, family, there):
    services = [f'{way}_services = ["l4-lifecycle", "session-stats"]' for way in ("forward", "reverse")]
    pods, daemon, collector = exporting(services=tenant('parser = "gtpu"', *services))
    sent = {0x1234: [g_pdu(0x1234, flags) for flags in (0x30, 0x32, 0x32)], 0x1235: [g_pdu(0x1235)] * 5}
    with sockets(pods, family, socket.SOCK_DGRAM, there, TUNNELS) as (client, server):
        for one in itertools.chain(*sent.values()):
            client.sendto(one, (there, TUNNELS))
        assert sorted(server.recv(100) for _ in range(8)) == sorted(itertools.chain(*sent.values()))
    keys = {session["key"] for session in sessions(daemon, "--parser", "gtpu")}
    assert keys == {f"{there} teid {teid:#010x}" for teid in sent}
    daemon.cli("clear", "session", "--parser", "gtpu")
    records = sorted(collector.eventually(TUNNELS, number=2), key=both)
    # The key isn't in the records: what was sent tells which is which.
    v6, header = ("v6", 48) if family == socket.AF_INET6 else ("", 28)
    sums = {teid: (len(packets), sum(header + len(one) for one in packets), 0, 0) for teid, packets in sent.items()}
    assert [both(record) for record in records] == [sums[0x1234], sums[0x1235]]
    assert len({record["cflow.flow_id"] for record in records}) == 2
    expected = {
        f"cflow.srcaddr{v6}": "::" if v6 else "0.0.0.0",
        "cflow.srcport": "0",
        f"cflow.dstaddr{v6}": there,
        "cflow.dstport": str(TUNNELS),
        "cflow.protocol": "17",
        "cflow.flow_end_reason": FORCED,
        "cflow.biflow_direction": "1",
        "cflow.user_name": "red",
    }
    for record in records:
        assert {name: record.get(name) for name in expected} == expected
        assert record["Forwarding Status"]["cflow.forwarding_status"] == FORWARDED
        # Hop limits that Linux sends with, of the one side that there is.
        assert [_listed(record[f"cflow.ttl_{which}"]) for which in ("min", "max")] == [["64", "0"]] * 2


def _listed(value):
    return value if isinstance(value, list) else [value]


def test_how_a_session_ended_is_told(exporting):
    services = [f'{way}_services = ["l4-lifecycle", "acl"]' for way in ("forward", "reverse")]
    rules = (
        '[[acl]]\nname = "some"\nrules = [{ action = "deny", protocol = "udp", destination_ports = ["1-1023"] }, { action = "reflect" }]\n'
    )
    seconds = timeouts(embryonic=1, time_wait=1, blocked=1)
    pods, _, collector = exporting(services=rules + tenant('acls = ["some"]', seconds, *services))
    with sockets(pods, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
        server.listen()
        client.connect(server.getsockname())
        connection, _ = server.accept()
        client.close()
        connection.close()
        port = server.getsockname()[1]
    (closed,) = collector.eventually(port)
    assert (closed["cflow.protocol"], closed["cflow.flow_end_reason"]) == ("6", ENDED)
    (silent,) = collector.eventually(ask(pods))
    assert (silent["cflow.flow_end_reason"], both(silent)[0]) == (IDLE, 1)
    with pods[0].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"?", ("10.2.0.2", 53))
    (denied,) = collector.eventually(53)
    assert (denied["cflow.flow_end_reason"], denied["Forwarding Status"]["cflow.forwarding_status"]) == (FORCED, DROPPED)


def test_translations_are_told(exporting):
    services = [f'{way}_services = ["l4-lifecycle", "nat"]' for way in ("forward", "reverse")]
    pool = '[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.0/30"]\n'
    pods, daemon, collector = exporting("nat_events = true", services=pool + tenant('nat_pool = "out"', *services))
    pods[1].ip("route", "add", "192.0.2.0/30", "via", "10.2.0.1")
    with sockets(pods, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
        client.sendto(b"?", server.getsockname())
        _, (address, port) = server.recvfrom(10)
        there = server.getsockname()[1]
    assert address.startswith("192.0.2.")
    (created,) = collector.eventually(there, field="cflow.nat_event")
    daemon.cli("clear", "session")
    (record,) = collector.eventually(there)
    _, deleted = collector.eventually(there, number=2, field="cflow.nat_event")
    assert (created["cflow.nat_event"], deleted["cflow.nat_event"]) == ("4", "5"), "NAT44 session create, delete"
    expected = {
        "cflow.flow_id": record["cflow.flow_id"],
        "cflow.srcaddr": "10.1.0.2",
        "cflow.post_natsource_ipv4_address": address,
        "cflow.post_naptsource_transport_port": str(port),
        "cflow.post_natdestination_ipv4_address": "10.2.0.2",
        "cflow.post_naptdestination_transport_port": str(there),
    }
    for one in (record, created, deleted):
        assert {name: one[name] for name in expected} == expected
    assert milliseconds(created["cflow.observation_time_milliseconds"]) <= milliseconds(deleted["cflow.observation_time_milliseconds"])


def test_blocks_of_ports_are_told_instead_of_their_sessions(exporting):
    services = [f'{way}_services = ["l4-lifecycle", "nat"]' for way in ("forward", "reverse")]
    blocks = "first_port = 2000\nlast_port = 9999\nblock_size = 100\nblocks_per_host = 1\n"
    pool = f'[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.1"]\n{blocks}'
    pods, daemon, collector = exporting("nat_events = true", services=pool + tenant('nat_pool = "out"', *services))
    pods[1].ip("route", "add", "192.0.2.0/30", "via", "10.2.0.1")
    seen = set()
    for _ in range(5):
        # Other ports each time: the sessions are different workers'.
        with sockets(pods, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
            client.sendto(b"?", server.getsockname())
            seen.add(server.recvfrom(10)[1])
    first = min(port for _, port in seen) // 100 * 100
    assert all(address == "192.0.2.1" and first <= port < first + 100 for address, port in seen)
    (shown,) = json.loads(daemon.cli("show", "nat", "-o", "json").stdout)["pools"]
    assert (shown["blocks"], shown["blocks_taken"], shown["blocks_per_host"]) == (80, 1, 1)
    daemon.cli("clear", "session")
    told = lambda: [record for record in collector.records() if "cflow.nat_event" in record]
    eventually(lambda: len(told()) >= 2, lambda: str(collector.records()), interval=0.3)
    given, taken = told()
    assert (given["cflow.nat_event"], taken["cflow.nat_event"]) == ("16", "17"), "port block allocation, de-allocation"
    expected = {
        "cflow.srcaddr": "10.1.0.2",
        "cflow.post_natsource_ipv4_address": "192.0.2.1",
        "cflow.port_range_start": str(first),
        "cflow.port_range_end": str(first + 99),
    }
    for one in (given, taken):
        assert {name: one.get(name) for name in expected} == expected, one


def test_a_session_that_goes_on_is_told_in_parts_that_sum_up(exporting):
    pods, daemon, collector = exporting("active_seconds = 1", services=tenant())
    with sockets(pods, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
        port = server.getsockname()[1]

        def told():
            client.sendto(b"?", server.getsockname())
            server.recv(10)
            return len(collector.of(port)) >= 3

        eventually(told, lambda: f"it goes on: {collector.records()}", interval=0.3)
    session = only(daemon, "--port", str(port))
    daemon.cli("clear", "session")
    eventually(lambda: collector.of(port)[-1]["cflow.flow_end_reason"] == FORCED, lambda: str(collector.of(port)), interval=0.3)
    records = collector.of(port)
    assert {record["cflow.flow_end_reason"] for record in records[:-1]} == {ACTIVE}
    assert len({record["cflow.flow_id"] for record in records}) == 1
    parts = [both(record) for record in records]
    assert all(part[0] for part in parts[:-1]), "nothing is told where nothing was sent"
    assert tuple(map(sum, zip(*parts, strict=True))) == figures(session)[1:]
    spans = [span(record) for record in records]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), f"each begins where the one before ended: {spans}"


def test_tenants_that_nobody_asked_for_are_not_told_of(exporting):
    others = tenant(name="blue", interface="b", outside="a")
    pods, daemon, collector = exporting('tenants = ["red"]', services=tenant() + others)
    with sockets((pods[1], pods[0]), socket.AF_INET, socket.SOCK_DGRAM, "10.1.0.2") as (client, server):
        client.sendto(b"?", server.getsockname())
        server.recv(10)
    assert daemon.json("show", "session", "--tenant", "blue")["sessions"]
    port = ask(pods)
    daemon.cli("clear", "session")
    collector.eventually(port)
    assert {record["cflow.user_name"] for record in collector.records()} == {"red"}


def test_who_comes_late_learns_the_templates_and_numbers_go_on(exporting, tmp_path):
    pods, daemon, early = exporting("template_seconds = 1", services=tenant())
    port = ask(pods)
    daemon.cli("clear", "session")
    early.eventually(port)
    early.close()
    with contextlib.closing(Collector(tmp_path, early.port)) as late:
        ports = []

        def known():
            ports.append(ask(pods))
            daemon.cli("clear", "session")
            return late.records()

        eventually(known, lambda: f"templates have come again: {late.listen()}", interval=0.3)
        late.eventually(ports[-1])
        # RFC 7011 section 3.1: each message has the number of data records before it.
        messages = late.decoded()
        known = next(n for n, message in enumerate(messages) if any("Data Template" in name for name in message))
        before = int(messages[known]["cflow.sequence"])
        assert before > 0, "what the other one was told is counted"
        for message in messages[known:]:
            assert int(message["cflow.sequence"]) == before
            counts = [re.fullmatch(r"Set \d+ \[id=\d+\] \((\d+) flows\)", name) for name in message]
            before += sum(int(count[1]) for count in counts if count)


def test_a_collector_that_is_down_harms_nobody_and_is_told_of_when_it_comes(exporting, tmp_path):
    pods, daemon, early = exporting("template_seconds = 1", services=tenant())
    early.close()

    def refused():
        ask(pods)
        daemon.cli("clear", "session")
        return metric(daemon, "refused") >= 3

    eventually(refused, lambda: f"nobody listens: {daemon.scrape()[1]}", interval=0.2)
    assert daemon.log().count("nobody listens for flow records") == 1, "said once, not each time"
    pods[0].must_ping("10.2.0.2", count=5)
    with contextlib.closing(Collector(tmp_path, early.port)) as late:

        def heard():
            ask(pods)
            daemon.cli("clear", "session")
            return late.records()

        eventually(heard, lambda: f"it is told: {late.listen()}", interval=0.3)


def test_a_collector_that_is_slow_holds_nobody_up_and_can_count_what_it_missed(exporting, tmp_path):
    with contextlib.closing(Collector(tmp_path)) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        pods, daemon, _ = exporting(services=tenant(), collector=slow)
        with sockets(pods, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, _server):

            def many():
                for port in range(1024, 3024):
                    client.sendto(b"?", ("10.2.0.2", port))
                daemon.cli("clear", "session")
                return metric(daemon, "records") > 2000

            eventually(many, lambda: f"records are sent: {daemon.scrape()[1]}")
        pods[0].must_ping("10.2.0.2", count=5)
        received = len(slow.records())
        asked = []

        def again():
            asked.append(ask(pods))
            daemon.cli("clear", "session")
            # The records of a session leave a moment after its end: those of an earlier port will do.
            return any(slow.of(port) for port in asked)

        # It reads again, and the next message says how many there were before.
        eventually(again, lambda: f"something comes: {len(slow.listen())} messages", interval=0.3)
        number = int(slow.decoded()[-1]["cflow.sequence"])
        assert number > received, "some were lost behind Quiver"
        assert metric(daemon, "records") >= number
        assert metric(daemon, "unsent_records") == 0


def test_settings_that_make_no_sense_are_refused_by_line(own_daemon):
    daemon = own_daemon(extra='[[ipfix]]\ncollector = "127.0.0.1:4739"\nsource = "::1"\n')
    done = run(daemon.program, "--config", daemon.settings, "--check", check=False)
    assert done.returncode != 0 and "::1 can't send to 127.0.0.1:4739" in done.stderr, done.stderr
