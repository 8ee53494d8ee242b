"""Tenants and their sessions: pods a (10.1.0.2, fd00:1::2) and b (10.2.0.2, fd00:2::2), a tenant on a's tap."""

import concurrent.futures
import contextlib
import re
import socket

import pytest
from lab import eventually
from lab.laboratory import iperf
from lab.process import HANGS
from lab.sessions import VERSIONS, figures, only, red, sessions, sockets, tenant, timeouts
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from test_bridge import vlan

# A tap's packets come in at one worker: those of a and b at different ones, and each flow is one of the two's.
WORKERS = 2

CHECKED = tuple(f'{way}_services = ["tcp-check", "l4-lifecycle"]' for way in ("forward", "reverse"))


def checked_out(daemon):
    """What tcp-check has dropped, by reason."""
    return {reason: int(drop["packets"]) for (node, reason), drop in daemon.drops().items() if node == "tcp-check"}


@VERSIONS
def test_udp_is_a_session_with_exact_figures(two, daemon, family, there):
    daemon.apply(tenant())
    header = (20 if family == socket.AF_INET else 40) + 8
    with sockets(two, family, socket.SOCK_DGRAM, there) as (client, server):
        client.sendto(b"x" * 100, server.getsockname())
        _, asker = server.recvfrom(1000)
        mine = ("--protocol", "udp", "--address", there)
        assert figures(only(daemon, *mine)) == ("embryonic", 1, header + 100, 0, 0)
        for size in (10, 20, 30):
            server.sendto(b"y" * size, asker)
            client.recv(1000)
        session = only(daemon, *mine)
        assert figures(session) == ("established", 1, header + 100, 3, 3 * header + 60)
        assert (session["tenant"], session["responder"], session["responder_port"]) == ("red", there, server.getsockname()[1])
        assert session["initiator_port"] == asker[1]


@VERSIONS
def test_tcp_is_followed_to_its_end(two, daemon, family, there):
    daemon.apply(tenant(timeouts(embryonic=600, time_wait=2)))
    with sockets(two, family, socket.SOCK_STREAM, there) as (client, server):
        server.listen()
        client.connect(server.getsockname())
        connection, _ = server.accept()
        connection.settimeout(30)
        client.sendall(b"z" * 100_000)
        received = 0
        while received < 100_000:
            received += len(connection.recv(65536))
        mine = ("--protocol", "tcp", "--port", str(server.getsockname()[1]))
        phase, packets, size, _, back = figures(only(daemon, *mine))
        assert (phase, packets > 3, size > 100_000, back > 100) == ("established", True, True, True)
        client.close()
        assert connection.recv(10) == b""
        eventually(lambda: only(daemon, *mine)["phase"] == "closing", lambda: f"one side has ended: {sessions(daemon)}")
        connection.close()
        eventually(lambda: only(daemon, *mine)["phase"] == "time_wait", lambda: f"it is over: {sessions(daemon)}")
        assert [one["phase"] for one in sessions(daemon, *mine)] == ["time_wait"], "what is late makes no new session"
        eventually(lambda: not sessions(daemon, *mine), lambda: f"time-wait ends: {sessions(daemon)}")


@VERSIONS
def test_tcp_check_knows_where_both_sides_stand(two, daemon, family, there):
    daemon.apply(tenant(timeouts(embryonic=600), *CHECKED))
    with sockets(two, family, socket.SOCK_STREAM, there) as (client, server):
        server.listen()
        client.connect(server.getsockname())
        connection, _ = server.accept()
        connection.settimeout(30)
        mine = ("--protocol", "tcp", "--port", str(server.getsockname()[1]))

        def stand(*expected):
            def there():
                found = only(daemon, *mine)
                return tuple(found.get(field) for field in ("phase", "initiator_tcp", "responder_tcp")) == expected

            eventually(there, lambda: f"{expected}: {sessions(daemon, *mine)}")

        stand("established", "established", "established")
        client.shutdown(socket.SHUT_WR)
        stand("closing", "fin_wait_2", "close_wait")
        connection.sendall(b"z" * 100_000)
        received = 0
        while received < 100_000:
            received += len(client.recv(65536))
        connection.close()
        stand("time_wait", "time_wait", "time_wait")
        assert "time_wait (time_wait, time_wait)" in daemon.cli("show", "session", *mine).stdout
    assert not checked_out(daemon), "nothing of a real connection is taken for a forgery"


def test_bulk_tcp_fits_its_windows(two, daemon):
    daemon.apply(tenant(*CHECKED))
    result = iperf(two, "-n", "50M")
    # What was sent last may not have been read when the receiver is asked.
    assert result["end"]["sum_received"]["bytes"] >= 40_000_000
    assert not checked_out(daemon)


def test_connections_from_before_are_dropped_or_followed_as_their_tenant_says(two, daemon):
    with sockets(two, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
        server.listen()
        client.connect(server.getsockname())
        connection, _ = server.accept()
        connection.settimeout(60)
        daemon.apply(tenant(timeouts(embryonic=600), *CHECKED, 'midstream = "remove"'))
        client.sendall(b"anybody?")
        eventually(lambda: daemon.dropped("midstream") > 0, lambda: f"its beginning wasn't seen: {daemon.drops()}")
        daemon.apply(tenant(timeouts(embryonic=600), *CHECKED))
        # It is sent again, sooner or later.
        assert connection.recv(100) == b"anybody?"
        connection.sendall(b"yes")
        assert client.recv(100) == b"yes"
        assert only(daemon, "--protocol", "tcp")["phase"] == "established"


def test_both_directions_meet_at_one_worker(two, daemon):
    daemon.apply(tenant())
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2")) for _ in range(24)]
        for client, server in pairs:
            for _ in range(3):
                client.sendto(b"x" * 10, server.getsockname())
                _, asker = server.recvfrom(100)
                server.sendto(b"y" * 20, asker)
                assert client.recv(100) == b"y" * 20
        found = sessions(daemon, "--protocol", "udp")
        assert [figures(one) for one in found] == [("established", 3, 3 * 38, 3, 3 * 48)] * 24, "each is one session, and whole"
        assert {one.get("worker", 0) for one in found} == {0, 1}, "they are shared out (all at one by chance: once in 8 million)"
    handed = [line for line in daemon.scrape()[1].splitlines() if "handed-over" in line and "ip4" in line]
    assert sum(float(line.rsplit(" ", 1)[1]) for line in handed) > 0, handed
    assert not daemon.dropped("handover-full")


@VERSIONS
def test_a_ping_is_one_session(two, daemon, family, there):
    daemon.apply(tenant())
    two[0].must_ping(there, count=5)
    name = "icmp" if family == socket.AF_INET else "icmp6"
    phase, there_packets, there_bytes, back_packets, back_bytes = figures(only(daemon, "--protocol", name))
    assert (phase, there_packets, there_bytes) == ("established", back_packets, back_bytes)
    assert there_packets >= 5


def test_each_tag_of_a_wire_is_a_tenant_of_its_own(two, daemon):
    """Without a tag, with one and with two: the same ports each time, and the answers come with the tags of who has asked."""
    a, here = two[0], two[0].mac()
    sides = {
        "red": ("a", "10.1.0.2", []),
        "green": ("a.10", "10.10.0.2", [Dot1Q(vlan=10)]),
        "blue": ("a.20", "10.20.0.2", [Dot1AD(vlan=20), Dot1Q(vlan=10)]),
    }
    daemon.apply(vlan("a.10", "a", 10, "10.10.0") + vlan("a.20", "a", 20, "10.20.0", inner=10))
    for name, (interface, source, tags) in sides.items():
        neighbor = f'[[neighbor]]\ninterface = "{interface}"\naddress = "{source}"\nmac = "{here}"\n' if tags else ""
        daemon.apply(neighbor + tenant(name=name, interface=interface))
    with a.wire() as wire, sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
        # Else the pod would report its answer, which has no tag, as one to a port that nobody listens on.
        client.bind(("10.1.0.2", 4000))
        port = server.getsockname()[1]
        for interface, source, tags in sides.values():
            frame = Ether(src=here, dst=daemon.interface(interface)["mac"])
            for tag in tags:
                frame /= tag
            wire.send(frame / IP(src=source, dst="10.2.0.2") / UDP(sport=4000, dport=port) / Raw(b"x" * 100))
            _, asker = server.recvfrom(1000)
            assert asker == (source, 4000)
            server.sendto(b"y" * 10, asker)
            answer = wire.expect(lambda f, to=source: UDP in f and (f[IP].dst, f[UDP].sport) == (to, port), "an answer")
            layers = [answer.getlayer(number) for number in range(1, len(tags) + 2)]
            assert [(type(layer), layer.vlan) for layer in layers[:-1]] == [(type(tag), tag.vlan) for tag in tags], answer.summary()
            assert isinstance(layers[-1], IP), answer.summary()
        found = {one["tenant"]: (one["initiator"], *figures(one)) for one in sessions(daemon, "--port", str(port))}
    assert found == {name: (source, "established", 1, 128, 1, 38) for name, (_, source, _) in sides.items()}


def test_bulk_tcp_passes_and_is_counted(two, daemon):
    daemon.apply(tenant())
    result = iperf(two, "-n", "20M")
    received = result["end"]["sum_received"]["bytes"]
    # iperf3 has a connection for control besides that for data.
    assert max(figures(one)[2] for one in sessions(daemon, "--protocol", "tcp")) > received


def test_an_error_is_counted_at_its_session(two, daemon):
    daemon.apply(tenant())
    with two[0].entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with client:
        client.settimeout(30)
        client.connect(("10.2.0.2", 9))
        client.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            client.recv(10)
    phase, packets, _, errors, _ = figures(only(daemon, "--protocol", "udp"))
    assert (phase, packets, errors) == ("embryonic", 1, 1), "an error is no answer"


def test_sessions_expire_are_cleared_and_go_with_their_tenant(two, daemon):
    daemon.apply(tenant(timeouts(embryonic=1)))
    with sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
        client.sendto(b"x", server.getsockname())
        server.recvfrom(10)
        assert red(daemon)["created"] == 1
        eventually(lambda: not sessions(daemon), lambda: f"nobody has answered: {sessions(daemon)}")
        assert red(daemon) == {"sessions": 0, "created": 1, "evicted": 0, "refused": 0}

        def talk():
            client.sendto(b"x", server.getsockname())
            _, asker = server.recvfrom(10)
            server.sendto(b"y", asker)
            client.recv(10)

        talk()
        two[0].must_ping("10.2.0.2", count=1)
        assert len(sessions(daemon)) == 2
        assert daemon.cli("clear", "session", "--protocol", "icmp").stdout == "1 session ended\n"
        assert only(daemon)["protocol"] == socket.IPPROTO_UDP
        assert 'quiver_tenant_sessions{tenant="red"} 1' in daemon.scrape()[1]
        daemon.delete("tenant", "red")
        eventually(lambda: not sessions(daemon), lambda: f"its tenant is gone: {sessions(daemon)}")
        talk()
        assert not sessions(daemon), "nobody's packets have none"
        daemon.apply(tenant())
        talk()
        assert red(daemon) == {"sessions": 1, "created": 1, "evicted": 0, "refused": 0}


def test_sessions_are_ended_while_workers_have_packets_of_them(two, daemon):
    """SFDP's weakness 5: whoever ends sessions while workers run waits for them, and they for him.

    Here four do so at the same time, others look, and the tenant changes."""
    a, _ = two
    daemon.apply(tenant())

    def clear(times):
        return sum(int(daemon.cli("clear", "session").stdout.split()[0]) for _ in range(times))

    def change(times):
        for turn in range(times):
            daemon.apply(tenant(f"max_sessions = {1000 + turn}"))
            sessions(daemon)
        return 0

    rounds = lambda: [int(worker["rounds"]) for worker in daemon.show("runtime")["workers"]]
    with a.pinging("10.2.0.2", 0.005), a.pinging("fd00:2::2", 0.005):
        before = rounds()
        with concurrent.futures.ThreadPoolExecutor(6) as at_once:
            tasks = [at_once.submit(clear, 25) for _ in range(4)] + [at_once.submit(change, 15) for _ in range(2)]
            # Each comes to its end; `result` raises what one has met.
            ended = sum(task.result(timeout=HANGS) for task in tasks)
        assert all(now > then for now, then in zip(rounds(), before, strict=True)), "both workers go on"
        # Each was there again with the next packet, and none was lost.
        eventually(lambda: len(sessions(daemon)) == 2, lambda: f"two pings: {sessions(daemon)}")
    assert ended >= 2
    assert red(daemon)["created"] >= ended
    assert not any(int(worker.get("stuck_times", 0)) for worker in daemon.show("runtime")["workers"])


def test_the_slow_path_is_the_tenant_s(two, daemon):
    """What has no room passes without a session, fragments don't; what is in force is shown, explained and kept."""
    a, _ = two
    ping = lambda *options: a.ping("10.2.0.2", *options, count=1, wait=1).received
    daemon.apply(tenant('slow_path = { overflow = "pass", fragments = "drop", related_errors = "drop" }', "max_sessions = 1"))
    assert 'overflow = "pass"' in daemon.cli("get", "tenant", "-o", "toml").stdout
    state = daemon.json("show", "tenant", "red")["tenants"][0]["slow_path"]
    assert state == {
        "unknown_protocol": "pass",
        "too_short": "pass",
        "unrelated_errors": "pass",
        "related_errors": "drop",
        "fragments": "drop",
        "overflow": "pass",
    }
    text = daemon.cli("show", "tenant").stdout
    assert "SLOW PATH" in text and "related_errors:drop fragments:drop overflow:pass" in text, text
    assert ping() == 1
    # That one has the only place there is, until a minute has passed.
    said = daemon.cli("explain", "10.1.0.2:4000", "10.2.0.2", "udp/53").stdout
    assert "it passes without (slow_path.overflow is pass)" in said, said
    assert ping() == 1 and red(daemon)["refused"] >= 1 and daemon.dropped("quota") == 0
    assert ping("-s", 3000) == 0
    drops = daemon.json("show", "tenant", "red")["tenants"][0]["drops"]
    assert {(drop["node"], drop["reason"]) for drop in drops} == {("ip4-session-input", "fragment")}, drops
    said = daemon.cli("explain", "10.1.0.2", "10.2.0.2", "47").stdout
    assert "slow_path.unknown_protocol is pass" in said, said
    daemon.apply(tenant())
    assert ping("-s", 3000) == 1
    _, results, _ = daemon.offer(tenant('slow_path = { unknown_protocol = "handle" }'))
    assert results["red"]["refused"]["field"] == "slow_path.unknown_protocol"


def test_a_trace_names_the_session(two, daemon):
    """SFDP's weakness 15: of its own services, the trace shows what isn't the packet's.

    Here each packet's trace names the session that has its addresses, of two that there are."""
    a, _ = two
    daemon.apply(tenant())
    # "Packet 3: from a, worker 1 … IP4: 10.1.0.2 -> 10.2.0.2 … session 7": by worker and number.
    lines = r"(?:(?!Packet ).*\n)*?"
    named = re.compile(rf"Packet \d+: from \w+, worker (\d+)\n{lines}.*?(IP4|IP6): \S+ -> \S+{lines}.*session-input\n *session (\d+)\n")

    def told():
        # The first request finds no session; the second finds what the first began. But where the flow is another worker's than the
        # one that has the interface, the trace ends with the hand-over: another ping is another flow.
        daemon.cli("trace", "clear")
        daemon.cli("clear", "session")
        daemon.cli("trace", "add", "a", "200")
        for address in ("10.2.0.2", "fd00:2::2"):
            a.must_ping(address, count=2)
        traced = set(named.findall(daemon.cli("trace", "show").stdout))
        return traced if {family for _, family, _ in traced} == {"IP4", "IP6"} else None

    traced = eventually(told, lambda: daemon.cli("trace", "show").stdout, timeout=60)
    protocols = {"IP4": ("icmp", "10.1.0.2"), "IP6": ("icmpv6", "fd00:1::2")}
    there = sessions(daemon)
    for worker, family, number in traced:
        own = [one for one in there if one["id"].startswith(f"{worker}-{number}.")]
        assert [one["initiator"] for one in own] == [protocols[family][1]], (worker, family, number, there)


def test_what_makes_no_sense_is_refused_by_name(two, daemon):
    status, results, _ = daemon.offer(tenant('forward_services = ["ips"]'))
    refused = results["red"]["refused"]
    assert status != 0 and refused["field"] == "forward_services"
    assert "ips" in refused["reason"] and "l4-lifecycle" in refused["remedy"]
    daemon.apply(tenant())
    _, results, _ = daemon.offer(tenant(name="blue"))
    assert results["blue"]["refused"]["field"] == "interfaces"
    _, results, _ = daemon.offer(tenant(outside="nowhere"))
    assert "nowhere" in str(results["red"]["pending"])
    two[0].must_ping("10.2.0.2", count=1)
    assert only(daemon)["tenant"] == "red"
