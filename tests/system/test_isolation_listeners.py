"""Clients that fill a listener of quiverd: everybody else is answered nevertheless."""

import contextlib
import http.client
import re
import socket

import pytest
from lab import eventually
from lab.process import HANGS
from lab.raw_grpc import Crowd, stalled_calls

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: quiverd\r\n\r\n"


@pytest.fixture
def by_tcp(own_daemon):
    """A daemon with metrics on a TCP port, and that port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    daemon = own_daemon()
    text = re.sub(r"listen = .*", f'listen = "127.0.0.1:{port}"', daemon.settings.read_text())
    daemon.settings.write_text(text)
    return daemon.start(), port


def connection(address, source=None, family=socket.AF_INET):
    made = socket.socket(family, socket.SOCK_STREAM)
    made.settimeout(HANGS)
    if source:
        made.bind((source, 0))
    made.connect(address)
    return made


def get(address, path, family=socket.AF_INET):
    """Status and text."""
    asked = http.client.HTTPConnection("quiverd")
    asked.sock = connection(address, family=family)
    asked.request("GET", path)
    answer = asked.getresponse()
    return answer.status, answer.read().decode()


def health_socket(daemon):
    return str(daemon.directory / "quiver-health.sock")


def figure(text, name, listener):
    """A figure of a listener in the metrics."""
    return int(re.search(rf'^{name}{{listener="{listener}"}} (\d+)$', text, re.M)[1])


SILENT = [b"", b"GET /metr", b"x" * 2000]


@pytest.mark.parametrize("said", SILENT, ids=["silent", "half-a-request", "no-request"])
@pytest.mark.parametrize("sources", [1, 100], ids=["one-source", "many-sources"])
def test_silent_connections_keep_nobody_from_metrics(by_tcp, said, sources):
    _, port = by_tcp
    address = ("127.0.0.1", port)
    with contextlib.ExitStack() as stack:
        for at in range(600):
            silent = stack.enter_context(connection(address, f"127.0.{1 + at % sources}.1"))
            with contextlib.suppress(OSError):
                silent.sendall(said)
        for _ in range(3):
            assert get(address, "/healthz") == (200, "ok\n")
            status, text = get(address, "/metrics")
            assert status == 200 and figure(text, "quiver_listener_connections", "metrics") <= 64
        assert figure(text, "quiver_listener_closed_total", "metrics") > 500, text
    eventually(lambda: figure(get(address, "/metrics")[1], "quiver_listener_connections", "metrics") == 1, "all have gone")


def test_readers_that_stand_still_keep_nobody_from_metrics(by_tcp):
    _, port = by_tcp
    address = ("127.0.0.1", port)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            slow = stack.enter_context(connection(address))
            with contextlib.suppress(OSError):
                slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert get(address, "/healthz") == (200, "ok\n")
        assert get(address, "/metrics")[0] == 200


def test_health_has_a_listener_of_its_own(daemon):
    path = health_socket(daemon)
    assert get(path, "/healthz", socket.AF_UNIX) == (200, "ok\n")
    assert get(path, "/metrics", socket.AF_UNIX)[0] == 404
    with (
        Crowd(daemon.metrics, 4, 50),
        Crowd(daemon.socket, 4, 200),
        Crowd(daemon.socket, 6, 1, calls=32),
        Crowd(path, 4, 50),
    ):
        for _ in range(3):
            assert get(path, "/healthz", socket.AF_UNIX) == (200, "ok\n")
            assert daemon.fetch("/healthz")[::2] == (200, "ok\n")


@pytest.mark.parametrize("listen", ["off", "tcp"])
def test_health_listens_where_the_settings_say(own_daemon, listen):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    place = "off" if listen == "off" else "{}:{}".format(*address)
    daemon = own_daemon(extra=f'[health]\nlisten = "{place}"\n').start()
    assert not (daemon.directory / "quiver-health.sock").exists()
    if listen == "tcp":
        assert get(address, "/healthz") == (200, "ok\n")


def test_idle_connections_keep_nobody_from_the_api(daemon):
    with Crowd(daemon.socket, 1, 2000), Crowd(daemon.socket, 20, 100):
        for _ in range(3):
            daemon.cli("get")
            daemon.show("version")
        _, text = daemon.scrape()
        assert figure(text, "quiver_listener_connections", "api") <= 256
        assert figure(text, "quiver_listener_closed_total", "api") > 3000


@pytest.mark.parametrize("method", ["Get", "Watch", "Fib", "Sessions", "Capture", "SessionEvents"])
def test_stalled_calls_keep_nobody_from_the_api(daemon, method):
    """Of one client, and of many: each answer that isn't read may hold a thread."""
    daemon.apply("".join(f'[[vrf]]\nname = "v{n}"\n' for n in range(50)))
    with Crowd(daemon.socket, 1, 8, calls=32, method=method), Crowd(daemon.socket, 12, 1, calls=32, method=method):
        for _ in range(3):
            assert len(daemon.names("vrf")) == 50
            daemon.show("version")
        daemon.apply('[[vrf]]\nname = "meanwhile"\n')
        _, text = daemon.scrape()
        assert figure(text, "quiver_listener_calls", "api") <= 128
    eventually(lambda: figure(daemon.scrape()[1], "quiver_listener_calls", "api") == 0, "all calls have ended")


def test_who_has_too_many_calls_is_told(daemon):
    with stalled_calls(daemon.socket, "Watch", 32) as held:
        held.settimeout(HANGS)
        eventually(lambda: figure(daemon.scrape()[1], "quiver_listener_calls", "api") == 32, "they are under way")
        refused = lambda: figure(daemon.scrape()[1], "quiver_listener_refused_total", "api")
        before = refused()
        with stalled_calls(daemon.socket, "Watch", 1):
            eventually(lambda: refused() == before + 1, "one more is refused")
        # Another process is another client.
        daemon.show("version")
