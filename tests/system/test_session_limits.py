"""How many sessions there may be: of a tenant, of one source, of a worker; and who makes room for whom."""

import contextlib
import socket
import time

import pytest
from lab import Laboratory, eventually, run
from lab.sessions import only, red, sessions, sockets, talk, tap, tenant

# As in test_sessions.py: flows of a and b are shared out.
WORKERS = 2


@contextlib.contextmanager
def full(two, daemon, reason):
    """Two flows of a, while a third one is dropped for that reason; they still pass behind it, and so does that one once there is room."""
    pairs = (two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2")
    with sockets(*pairs) as (first, one), sockets(*pairs) as (second, other), sockets(*pairs) as (third, last):
        talk(first, one)
        talk(second, other)
        third.sendto(b"x", last.getsockname())
        eventually(lambda: daemon.dropped(reason) == 1, lambda: f"a drop by name: {daemon.drops()}")
        assert red(daemon) == {"sessions": 2, "created": 2, "evicted": 0, "refused": 1}
        yield
        talk(first, one)
        talk(second, other)
        daemon.cli("clear", "session", "--port", str(other.getsockname()[1]))
        talk(third, last)


def test_a_quota_is_kept_and_others_go_on(lab, two, daemon):
    c = lab.pod("c")
    daemon.apply(tap("c", c, 3) + tenant("max_sessions = 2") + tenant(name="blue", interface="c"))
    with full(two, daemon, "quota"):
        c.must_ping("10.2.0.2")
        assert [one["tenant"] for one in sessions(daemon, "--protocol", "icmp")] == ["blue"]


def test_a_source_that_has_as_many_as_it_may_keeps_no_other_out(lab, two, daemon):
    c = lab.pod("c")
    daemon.apply(tap("c", c, 3) + tenant("max_sessions_per_source = 2", interface='a", "c'))
    assert "PER SOURCE" in daemon.cli("show", "tenant").stdout
    with full(two, daemon, "source-quota"):
        said = daemon.cli("explain", "10.1.0.2:4000", "10.2.0.2", "udp/53").stdout
        assert "its source has 2 of 2: it is dropped" in said, said
        c.must_ping("10.2.0.2")
        figures = daemon.scrape()[1].splitlines()
        assert 'quiver_tenant_sessions_per_source_max{tenant="red"} 2' in figures
        assert any('reason="source-quota"' in line and line.endswith(" 1") for line in figures if "tenant_drops" in line)
    daemon.apply(tenant("max_sessions_per_source = 2", 'source_exempt_interfaces = ["a"]', interface='a", "c'))
    assert "2, any at a" in daemon.cli("show", "tenant").stdout
    assert "its source isn't counted" in daemon.cli("explain", "10.1.0.2:4000", "10.2.0.2", "udp/53").stdout
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            talk(*stack.enter_context(sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2")))
    assert daemon.dropped("source-quota") == 1, daemon.drops()
    _, results, _ = daemon.offer(tenant("max_sessions_per_source = 2", 'source_exempt_interfaces = ["z"]'))
    assert results["red"]["refused"]["field"] == "source_exempt_interfaces"
    _, results, _ = daemon.offer(tenant("source_ipv6_prefix_length = 56"))
    assert results["red"]["refused"]["field"] == "source_ipv6_prefix_length"


def test_what_is_embryonic_makes_room(two, daemon):
    # Of so few, one worker often has all that can go, and the other one's have to begin.
    daemon.apply(tenant("max_sessions = 3"))
    with sockets(two, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
        server.listen()
        client.connect(server.getsockname())
        # A scan: nobody answers at these addresses of b's network, and each question is a session.
        two[0].run(
            "bash", "-c", "for n in $(seq 20 250); do echo x >/dev/udp/10.2.0.$n/53; sleep 0.005; done", check=False
        )  # fmt: skip
        eventually(lambda: red(daemon)["evicted"] >= 150, lambda: f"they make room: {red(daemon)}")
        connection, _ = server.accept()
        connection.settimeout(30)
        client.sendall(b"still here")
        assert connection.recv(100) == b"still here"
        assert only(daemon, "--protocol", "tcp")["phase"] == "established"
        eventually(lambda: red(daemon)["sessions"] <= 3, lambda: f"the quota is kept, once both have had a round: {red(daemon)}")
        assert daemon.dropped("quota") == 0


def test_a_flood_of_syns_that_are_sent_once_pushes_nobody_out(two, daemon):
    """And who repeats its own, as TCP does after a second, is admitted."""
    daemon.apply(tenant("max_sessions = 4", "early_syn_drop = true"))

    def flood(ports):
        # Nobody is at that address; who closes meanwhile doesn't repeat. Not so fast that a worker which has no core just now can't be
        # handed what is its.
        with two[0].entered():
            for port in ports:
                with socket.socket() as one:
                    one.setblocking(False)
                    one.connect_ex(("10.2.0.77", port))
                time.sleep(0.002)

    flood(range(1000, 1004))
    eventually(lambda: red(daemon)["sessions"] == 4, lambda: f"there is room for these: {red(daemon)}")
    flood(range(2000, 2200))
    # A few may find the place of their notes taken by others', and begin sessions.
    eventually(lambda: daemon.dropped("early-syn") >= 150, lambda: f"drops by name: {daemon.drops()}")
    assert red(daemon)["evicted"] <= 10
    said = daemon.cli("explain", "10.1.0.2:4000", "10.2.0.2", "tcp/80").stdout
    assert "dropped when it is seen first (early_syn_drop)" in said, said
    with sockets(two, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
        server.listen()
        client.connect(server.getsockname())
        flood(range(3000, 3200))
        connection, _ = server.accept()
        connection.settimeout(30)
        client.sendall(b"still here")
        assert connection.recv(100) == b"still here"
        assert only(daemon, "--port", str(server.getsockname()[1]))["phase"] == "established"
    assert daemon.dropped("early-syn") >= 300 and daemon.dropped("quota") == 0


def test_a_worker_has_as_many_sessions_as_its_settings_say(own_daemon):
    """One more takes the place of the oldest that has no answer yet: what is established stays."""
    daemon = own_daemon(workers=1, extra="sessions = 3\n").start()
    lab = Laboratory(daemon)
    try:
        a, b = lab.pod("a"), lab.pod("b")
        daemon.apply(tap("a", a, 1) + tap("b", b, 2))
        a.must_ping("10.2.0.2")
        daemon.apply(tenant('untracked = "pass"'))
        with sockets((a, b), socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
            talk(client, server)
            for port in range(1000, 1020):
                client.sendto(b"nobody listens", ("10.2.0.2", port))
            eventually(lambda: red(daemon)["created"] >= 21, lambda: f"all were admitted: {red(daemon)}")
            assert red(daemon)["sessions"] == 3 and red(daemon)["evicted"] >= 18, red(daemon)
            assert [one["phase"] for one in sessions(daemon, "--port", str(server.getsockname()[1]))] == ["established"]
            talk(client, server)
    finally:
        lab.close()


@pytest.mark.parametrize("limit", [0, 16777217])
def test_settings_that_no_table_has_room_for_are_refused(own_daemon, limit):
    daemon = own_daemon(extra=f"sessions = {limit}\n")
    done = run(daemon.program, "--config", daemon.settings, "--check", check=False)
    assert done.returncode != 0 and f"workers.sessions is {limit}: a worker can have 1 to 16777216 sessions" in done.stderr, done.stderr
