"""quiverd ends and comes back, in good order or not: configuration, pods and peers return."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import time

import pytest
from lab import Laboratory, Process, eventually, run, tool
from lab.laboratory import peer_mac


@pytest.fixture
def world(own_daemon):
    """A laboratory around a daemon of its own."""
    lab = Laboratory(own_daemon().start())
    yield lab
    lab.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_returns_after_a_restart(world, module_daemon, end):
    daemon, client = world.daemon, module_daemon
    a, b = world.pod("a"), world.pod("b")
    daemon.apply(
        world.tap("a", a, "10.1.0") + world.tap("b", b, "10.2.0")
        + "".join(world.memif(f"m{number}", number) for number in (12, 13, 14))
    )  # fmt: skip
    # Another quiverd is the memif client at m14.
    client.apply(f"""
[[interface]]
name = "c"
mac = "{peer_mac(14)}"
addresses = ["10.14.0.2/24"]
memif = {{ socket = "{daemon.directory}/m14", role = "client" }}
[[route]]
prefix = "10.1.0.0/24"
next_hops = [{{ address = "10.14.0.1" }}]
""")
    try:
        eventually(lambda: client.memif("c").get("connected"), "the client connects")
        a.must_ping("10.2.0.2")
        a.must_ping("10.14.0.2")
        before, address = daemon.cli("get", "-o", "toml").stdout, a.mac()
        router = daemon.interface("a")["mac"]
        with a.start("ping", "-n", "-i", "0.05", "10.2.0.2") as ping:
            getattr(daemon, end)()
            assert address in a.ip("link", "show", "eth0").stdout, "the tap outlives quiverd"
            assert "10.1.0.2" in a.ip("address", "show", "eth0").stdout
            eventually(lambda: not client.memif("c").get("connected"), "the client notices")
            daemon.start()
            assert daemon.cli("get", "-o", "toml").stdout == before
            assert set(daemon.states().values()) == {"applied"}
            answered = len(ping.output().splitlines())
            eventually(lambda: len(ping.output().splitlines()) > answered + 10, lambda: f"ping goes on\n{ping.output()[-500:]}")
        eventually(lambda: client.memif("c").get("connected"), "the client is back by itself")
        a.must_ping("10.14.0.2")
        world.lossless("m12", "m13", 12, 13, count=500)
        assert a.mac() == address and daemon.interface("a")["mac"] == router
        a.must_ping("10.2.0.2")
    finally:
        client.clear()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_a_restart_costs(world, module_daemon, capsys, end):
    """Told, not judged: how long nobody answers, by tap and by memif. Judged: that all comes back, and is what it was."""
    daemon, client = world.daemon, module_daemon
    pods = {role: world.pod(role) for role in "abc"}
    daemon.apply(
        world.tap("a", pods["a"], "10.1.0") + world.tap("b", pods["b"], "10.2.0") + world.memif("m14", 14)
        + '[[route]]\nprefix = "10.99.0.0/24"\nnext_hops = [{ address = "10.2.0.2" }]\n'
    )  # fmt: skip
    # Pod c is behind another quiverd, which is the memif client at m14.
    client.apply(f"""
[[interface]]
name = "c"
mac = "{peer_mac(14)}"
addresses = ["10.14.0.2/24"]
memif = {{ socket = "{daemon.directory}/m14", role = "client" }}
[[route]]
prefix = "10.1.0.0/24"
next_hops = [{{ address = "10.14.0.1" }}]
{world.tap("p", pods["c"], "10.3.0")}
""")
    daemon.apply('[[route]]\nprefix = "10.3.0.0/24"\nnext_hops = [{ address = "10.14.0.2" }]\n')
    pods["b"].ip("address", "add", "10.99.0.1/32", "dev", "lo")
    try:
        eventually(lambda: client.memif("c").get("connected"), "the client connects")
        pods["a"].must_ping("10.99.0.1")
        pods["c"].must_ping("10.1.0.2")
        before = daemon.cli("get", "-o", "toml").stdout, daemon.states(), daemon.interface("a")["mac"]
        with contextlib.ExitStack() as stack:
            ways = {"tap to tap": ("a", "10.99.0.1"), "memif to tap": ("c", "10.1.0.2")}
            pings = {
                way: stack.enter_context(pods[pod].start("ping", "-n", "-D", "-i", "0.001", address))
                for way, (pod, address) in ways.items()
            }
            for ping in pings.values():
                eventually(lambda ping=ping: len(replies(ping)) > 200, ping.output)
            getattr(daemon, end)()
            daemon.start()
            last = time.time()
            for ping in pings.values():
                eventually(lambda ping=ping: len([at for _, at in replies(ping) if at > last]) > 200, lambda p=ping: p.output()[-500:])
            told = {way: gap(replies(ping)) for way, ping in pings.items()}
        with capsys.disabled():
            ways = (f"{way} {ms:.0f} ms without an answer, {lost} lost" for way, (ms, lost) in told.items())
            print(f"\nrestart after {end}:", "; ".join(ways))
        after = daemon.cli("get", "-o", "toml").stdout, daemon.states(), daemon.interface("a")["mac"]
        assert after == before and set(before[1].values()) == {"applied"}
        # Once it is back nothing more is lost.
        with pods["a"].pinging("10.99.0.1", 0.002), pods["c"].pinging("10.1.0.2", 0.002):
            eventually(lambda: daemon.counter("b", "tx_packets") > 300, "they flow")
        phases = {entry["address"]: entry["phase"] for entry in daemon.show("neighbor")["neighbors"]}
        assert phases["10.2.0.2"] in ("reachable", "stale", "probe") and "failed" not in phases.values(), phases
        assert [link["connects"] for link in daemon.show("memif")["memifs"]] == [1], "no link is left over"
    finally:
        client.clear()


def replies(ping):
    """Sequence numbers and times of the answers to a `ping -D`."""
    found = re.findall(r"^\[(\d+\.\d+)\] \d+ bytes from .* icmp_seq=(\d+)", ping.output(), re.MULTILINE)
    return [(int(number), float(at)) for at, number in found]


def gap(answers):
    """The longest time without an answer, in milliseconds, and the requests that stayed without one in it."""
    pairs = itertools.pairwise(answers)
    (last, before), (first, after) = max(pairs, key=lambda pair: pair[1][1] - pair[0][1])
    return (after - before) * 1000, first - last - 1


BALANCED = """
[[tenant]]
name = "red"
interfaces = ["a", "b"]
forward_services = ["tcp-check", "l4-lifecycle", "balance"]
reverse_services = ["tcp-check", "l4-lifecycle", "balance"]
midstream = "security"
"""
VIP = '[[vip]]\nname = "web"\naddress = "10.96.0.1"\nport = 80\n{}backends = [{{ address = "10.2.0.2", port = 8080 }}]\n'


@pytest.mark.parametrize("seen_as", ["itself", "another"])
@pytest.mark.parametrize("first", ["client", "backend"])
def test_connections_to_a_vip_go_on_whoever_speaks_first(world, seen_as, first):
    if seen_as == "another" and int(os.environ.get("QUIVER_WORKERS") or 1) > 1:
        pytest.skip("with several workers such a session goes on only where its answers come to the worker that they came to before")
    daemon = world.daemon
    a, b = world.pod("a"), world.pod("b")
    # The backend would have to guess which of all ports it is seen with.
    more = "" if seen_as == "itself" else 'source_nat = "always"\nsource_nat_address = "10.1.0.77"\n'
    daemon.apply(world.tap("a", a, "10.1.0") + world.tap("b", b, "10.2.0") + BALANCED + VIP.format(more))
    a.must_ping("10.2.0.2")
    with contextlib.ExitStack() as stack:
        with b.entered():
            listener = stack.enter_context(socket.create_server(("", 8080)))
        with a.entered():
            client = stack.enter_context(socket.create_connection(("10.96.0.1", 80), 20))
        listener.settimeout(20)
        backend = stack.enter_context(listener.accept()[0])
        ends = {"client": client, "backend": backend}
        says, hears = ends.pop(first), *ends.values()
        for end in (client, backend):
            end.settimeout(60)
        exchange(client, backend, b"before")
        daemon.stop()
        # What is said now comes when it is said again: by one side alone, since the other has nothing to say.
        says.sendall(b"meanwhile")
        daemon.start()
        assert hears.recv(100) == b"meanwhile"
        exchange(client, backend, b"after")
        (kept,) = daemon.json("show", "session", "--address", "10.96.0.1")["sessions"]
        assert (kept["phase"], kept["backend"]) == ("established", "10.2.0.2"), kept
        # Once more, and nothing has come since.
        daemon.stop()
        daemon.start()
        exchange(backend, client, b"again")
        assert not (daemon.directory / "state/sessions.jsonl").exists()


def exchange(one, other, text):
    """Both say something, and hear what the other one says."""
    for says, hears in ((one, other), (other, one)):
        says.sendall(text)
        assert hears.recv(100) == text


def test_what_was_deleted_does_not_return(world):
    daemon = world.daemon
    a, b = world.pod("a"), world.pod("b")
    daemon.apply(world.tap("a", a, "10.1.0") + world.tap("b", b, "10.2.0"))
    daemon.delete("interface", "b")
    daemon.kill()
    daemon.start()
    assert daemon.names() == ["a"]
    assert "eth0" not in b.ip("link").stdout


def test_a_cut_state_file_is_not_the_end(world):
    daemon = world.daemon
    for number in range(3):
        daemon.apply(f'[[interface]]\nname = "l{number}"\naddresses = ["10.{number}.0.1/24"]\nloopback = {{}}\n')
    daemon.stop()
    state = daemon.state / "state.jsonl"
    whole = state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2])
    daemon.mark = len(daemon.log())
    daemon.start()
    # The previous good copy, and it is said.
    assert daemon.names() == ["l0", "l1"]
    log = daemon.log()[daemon.mark :]
    assert "state" in log and ("previous" in log or "backup" in log or "copy" in log), log
    daemon.apply('[[interface]]\nname = "l9"\naddresses = ["10.9.0.1/24"]\nloopback = {}\n')
    daemon.kill()
    daemon.start()
    assert daemon.names() == ["l0", "l1", "l9"]


def test_a_full_disk_refuses_changes_and_hurts_nothing(own_daemon, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk)
    try:
        lab = Laboratory(own_daemon(state=disk / "state").start())
        daemon = lab.daemon
        try:
            a, b = lab.pod("a"), lab.pod("b")
            daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
            route = '[[route]]\nprefix = "10.{}.{}.0/24"\nnext_hops = [{{ address = "10.2.0.2" }}]\n'
            many = "".join(route.format(200 + n // 250, n % 250) for n in range(3000))
            generation = daemon.show("version")["generation"]
            done = daemon.cli("apply", "-f", "-", stdin=many, check=False)
            assert done.returncode == 8, (done.returncode, done.stderr)
            assert "state" in done.stderr and "No space left" in done.stderr, done.stderr
            assert daemon.show("version")["generation"] == generation
            assert daemon.names("route") == []
            a.must_ping("10.2.0.2")
            # What fits is still accepted, and what was there is still on disk.
            daemon.apply('[[interface]]\nname = "l"\nloopback = {}\n')
            daemon.kill()
            daemon.start()
            assert daemon.names() == ["a", "b", "l"]
            a.must_ping("10.2.0.2")
        finally:
            lab.close()
            daemon.stop()
    finally:
        run("umount", disk)


def test_a_namespace_that_is_gone_is_named_and_hurts_nobody_else(world):
    daemon = world.daemon
    a, b = world.pod("a"), world.pod("b")
    daemon.apply(world.tap("a", a, "10.1.0") + world.tap("b", b, "10.2.0"))
    daemon.stop()
    b.remove()
    daemon.start()
    assert daemon.states() == {"a": "applied", "b": "failed"}
    status = daemon.json("get", "interface", "b", "--status")["objects"][0]["status"]
    assert b.name in status["failure"], status
    a.must_ping("10.1.0.1")


def test_a_second_daemon_on_the_same_state_or_socket_is_refused(world, tmp_path):
    daemon = world.daemon
    daemon.apply('[[interface]]\nname = "l"\nloopback = {}\n')
    with Process(tool("quiverd"), "--config", daemon.settings) as second:
        assert second.wait() != 0
        assert "another" in second.output() or "in use" in second.output() or "already" in second.output(), second.output()
    other = tmp_path / "other.toml"
    other.write_text(daemon.settings.read_text().replace(str(daemon.state), str(tmp_path / "state")))
    with Process(tool("quiverd"), "--config", other) as second:
        assert second.wait() != 0
        assert str(daemon.socket) in second.output(), second.output()
    assert daemon.names() == ["l"], "the first goes on"


@pytest.mark.parametrize(
    "settings, words",
    [
        (f"[workers]\ncount = {len(os.sched_getaffinity(0)) + 1}\n", f"take at most {len(os.sched_getaffinity(0))}"),
        ("[workers]\ncount = 0\n", "at least 1"),
        (f"[workers]\ncores = {[min(os.sched_getaffinity(0))] * 2}\n", "twice"),
        ("[workers]\ncores = [4095]\n", "4095"),
        ("[workers]\ncuont = 1\n", "cuont"),
        ('[api]\nsocket = "/dev/null/quiver.sock"\n', "/dev/null"),
        ('[metrics]\nlisten = "somewhere"\n', "somewhere"),
    ],
    ids=["too-many-workers", "no-worker", "core-twice", "no-such-core", "misspelt", "no-such-directory", "no-such-address"],
)
def test_settings_that_cannot_be_are_refused(tmp_path, settings, words):
    path = tmp_path / "quiverd.toml"
    defaults = {
        "[state]": f'[state]\ndirectory = "{tmp_path}/state"\n',
        "[api]": f'[api]\nsocket = "{tmp_path}/q.sock"\n',
        "[metrics]": '[metrics]\nlisten = "off"\n',
    }
    path.write_text(settings + "".join(text for name, text in defaults.items() if name not in settings))
    with Process(tool("quiverd"), "--config", path) as daemon:
        assert daemon.wait() != 0, daemon.output()
        assert words in daemon.output() and "panicked" not in daemon.output(), daemon.output()


def test_sigterm_ends_quiverd_well_and_tidies_up(world):
    daemon = world.daemon
    daemon.process.signal(signal.SIGTERM)
    assert daemon.process.wait() == 0, daemon.log()
    assert not daemon.socket.exists()
    daemon.start()
    assert json.loads(daemon.cli("get", "-o", "json").stdout).get("objects", []) == []
