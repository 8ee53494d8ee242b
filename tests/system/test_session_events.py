"""What happens to sessions, as `quiver watch session` tells it: pods a (10.1.0.2) and b (10.2.0.2), a tenant on a's tap."""

import contextlib
import json
import pathlib
import signal
import socket

import pytest
from lab import Process, eventually, tool
from lab.sessions import VERSIONS, figures, only, sockets, tenant, timeouts

# A tap's packets come in at one worker: those of a and b at different ones, and each flow is one of the two's.
WORKERS = 2


class Watch:
    """A `quiver watch session` in the background."""

    def __init__(self, process):
        self.process = process

    def all(self):
        # The last line may be on its way.
        lines = [line for line in self.process.output().split("\n")[:-1] if line.startswith("{")]
        return [json.loads(line) for line in lines]

    def of(self, port):
        """Events of sessions with that port: kind and end."""
        return [event for event in self.all() if event["session"].get("responder_port") == port]

    def words(self, port):
        return [(event["kind"], event.get("end")) for event in self.of(port)]

    def eventually(self, port, *expected):
        eventually(lambda: self.words(port) == list(expected), lambda: f"{expected}: {self.process.output()}")
        return self.of(port)


@contextlib.contextmanager
def watching(pods, daemon, *options):
    """Watches; hears of whatever happens inside."""
    command = (tool("quiver"), "--socket", daemon.socket, "watch", "session", "-o", "json", *options)
    with Process(*command) as process, sockets(pods, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
        watch = Watch(process)
        host, port = server.getsockname()

        def heard():
            client.sendto(b"?", (host, port))
            daemon.cli("clear", "session", "--port", port)
            return watch.of(port)

        eventually(heard, lambda: f"somebody listens: {process.output()}")
        yield watch


@VERSIONS
def test_a_session_is_told_of_from_its_beginning_to_its_end(two, daemon, family, there):
    daemon.apply(tenant())
    with watching(two, daemon) as watch, sockets(two, family, socket.SOCK_DGRAM, there) as (client, server):
        port = server.getsockname()[1]
        for size in (1, 20, 300):
            client.sendto(b"x" * size, server.getsockname())
            _, asker = server.recvfrom(1000)
        server.sendto(b"y" * 40, asker)
        client.recv(1000)
        watch.eventually(port, ("began", None))
        before = only(daemon, "--port", str(port))
        header = (20 if family == socket.AF_INET else 40) + 8
        assert figures(before) == ("established", 3, 3 * header + 321, 1, header + 40)
        daemon.cli("clear", "session", "--port", port)
        began, ended = watch.eventually(port, ("began", None), ("ended", "cleared"))
        assert figures(ended["session"]) == figures(before), "what show session has said"
        same = ("id", "tenant", "protocol", "initiator", "initiator_port", "responder", "responder_port")
        assert [ended["session"].get(name) for name in same] == [before.get(name) for name in same]
        assert ended["session"]["id"] == began["session"]["id"]
        assert int(ended["timestamp_ns"]) >= int(began["timestamp_ns"])


def test_a_connection_that_is_closed_has_finished_and_one_that_is_silent_times_out(two, daemon):
    daemon.apply(tenant(timeouts(embryonic=1, time_wait=1)))
    with watching(two, daemon) as watch:
        with sockets(two, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
            server.listen()
            client.connect(server.getsockname())
            connection, _ = server.accept()
            client.sendall(b"z" * 1000)
            client.close()
            connection.close()
            port = server.getsockname()[1]
        _, ended = watch.eventually(port, ("began", None), ("ended", "finished"))
        phase, packets, size, back, _ = figures(ended["session"])
        assert (phase, packets >= 4, size > 1000, back >= 2) == ("time_wait", True, True, True)
        with sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
            client.sendto(b"?", server.getsockname())
            port = server.getsockname()[1]
        watch.eventually(port, ("began", None), ("ended", "timeout"))


def test_who_is_denied_or_loses_its_tenant_is_told_of_with_the_reason(two, daemon):
    services = [f'{way}_services = ["l4-lifecycle", "acl"]' for way in ("forward", "reverse")]
    daemon.apply(
        '[[acl]]\nname = "some"\nrules = [{ action = "deny", protocol = "tcp" }, { action = "reflect" }]\n'
        + tenant('acls = ["some"]', *services)
    )
    with watching(two, daemon, "--blocked", "--ended") as watch:
        with sockets(two, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
            server.listen()
            port = server.getsockname()[1]
            client.setblocking(False)
            assert client.connect_ex(server.getsockname())
            (blocked,) = watch.eventually(port, ("blocked", None))
            assert (blocked["drop_node"], blocked["drop_reason"]) == ("acl", "denied")
        with sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):
            client.sendto(b"?", server.getsockname())
            server.recv(10)
            other = server.getsockname()[1]
        daemon.delete("tenant", "red")
        (gone,) = watch.eventually(other, ("ended", "tenant_deleted"))
        assert gone["session"]["tenant"] == "red", "it is known by its name although it is gone"


def test_filters_hold_and_the_lines_are_for_people_too(two, daemon):
    daemon.apply(tenant())
    words = ("--socket", daemon.socket, "watch", "session", "--protocol", "udp", "--began", "--count", 1)
    with Process(tool("quiver"), *words) as process, sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, server):

        def over():
            two[0].ping("10.2.0.2", count=1)
            client.sendto(b"?", server.getsockname())
            daemon.cli("clear", "session")
            return not process.alive()

        eventually(over, lambda: process.output())
        line = process.finish()
        assert len(line.splitlines()) == 1 and f" > 10.2.0.2:{server.getsockname()[1]}" in line, line
        assert "  began  red udp 10.1.0.2:" in line, line
    done = daemon.cli("watch", "session", "--tenant", "nobody", check=False)
    assert done.returncode != 0 and "there is no tenant nobody" in done.stderr


def test_a_filter_without_a_word_is_refused_and_doesn_t_mean_all(two, daemon):
    daemon.apply(tenant())
    for words in (("clear", "session", "--tenant", ""), ("show", "session", "--parser", ""), ("watch", "session", "--tenant", "")):
        done = daemon.cli(*words, check=False)
        assert done.returncode == 2 and "a value is required" in done.stderr, done


@pytest.mark.parametrize("end,said", [("stop", "quiverd has ended"), ("kill", "quiverd went away")])
def test_who_watches_is_told_that_quiverd_has_ended(own_daemon, end, said):
    daemon = own_daemon().start()
    with Process(tool("quiver"), "--socket", daemon.socket, "watch", "session") as process:
        threads = pathlib.Path(f"/proc/{daemon.process.pid}/task")
        listens = lambda: any(comm.read_text() == "session events\n" for comm in threads.glob("*/comm"))
        eventually(listens, lambda: f"somebody listens: {process.output()}")
        getattr(daemon, end)()
        assert process.wait() == 3, process.output()
        assert f"watch session: {said}" in process.output(), process.output()


def missed(daemon):
    (line,) = [line for line in daemon.scrape()[1].splitlines() if line.startswith("quiver_session_events_missed_total ")]
    return int(line.split()[1])


def test_who_reads_nothing_misses_events_and_holds_nobody_up(two, daemon):
    """More sessions begin than all queues on the way hold, while the client stands still."""
    daemon.apply(tenant())
    before = missed(daemon)
    with watching(two, daemon, "--began") as watch:
        watch.process.signal(signal.SIGSTOP)

        def too_many():
            # Of another port each time; and the tap may not take all of them.
            with sockets(two, socket.AF_INET, socket.SOCK_DGRAM, "10.2.0.2") as (client, _server):
                for port in range(1024, 11024):
                    client.sendto(b"?", ("10.2.0.2", port))
            return missed(daemon) > before

        eventually(too_many, lambda: f"queues are full: {daemon.show('tenant', 'red')}", timeout=120)
        two[0].must_ping("10.2.0.2", count=5)
        watch.process.signal(signal.SIGCONT)
        eventually(lambda: "events were missed" in watch.process.output(), lambda: "the client is told")
        # It hears again of what comes, once it has read what had come before: until then, more is missed.
        ports = []

        def heard():
            with sockets(two, socket.AF_INET6, socket.SOCK_DGRAM, "fd00:2::2") as (client, server):
                client.sendto(b"?", server.getsockname())
                ports.append(server.getsockname()[1])
            sessions = [event["session"] for event in watch.all()]
            return any(one["responder"] == "fd00:2::2" and one["responder_port"] in ports for one in sessions)

        eventually(heard, lambda: f"{len(watch.all())} events, none of {ports}", timeout=60, interval=1)
