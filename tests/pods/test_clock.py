"""A node whose clock is wrong, or is set while it works: only what is shown goes by it."""

import datetime
import json
import pathlib
import socket
import subprocess
import tempfile
import time

import pytest
from lab.process import ROOT, eventually, run, tool
from node import Node, addresses
from test_install import ask

HERE = pathlib.Path(__file__).parent / "clock"
YEARS = 10 * 365 * 86400


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """quiverd and quiver-agent by whose clock a file says what is added to the time of day; and that file."""
    directory = tmp_path_factory.mktemp("clock")
    clock, library = directory / "added", directory / "clock.so"
    clock.write_text("0")
    run("cc", "-O1", "-shared", "-fPIC", "-o", library, HERE / "preload.c", "-ldl")
    quiverd = directory / "quiverd"
    quiverd.write_text(f'#!/bin/sh\nCLOCK_FILE={clock} LD_PRELOAD={library} exec {tool("quiverd")} "$@"\n')
    # The agent asks nobody's library: it is built with a package time of its own. A minute and a half of a processor the first time.
    module = ROOT / "kubernetes"
    source = pathlib.Path(subprocess.check_output(("go", "env", "GOROOT"), text=True, cwd=module).strip()) / "src/time/time.go"
    now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
    assert source.read_text().count(now) == 1, source
    ours = directory / "time.go"
    ours.write_text(source.read_text().replace(now, f"{now}\tsec += Added\n") + "\n// Added to the time of day.\nvar Added int64\n")
    replaced = {str(source): str(ours), str(module / "cmd/quiver-agent/clock.go"): str(HERE / "overlay.go")}
    (directory / "overlay.json").write_text(json.dumps({"Replace": replaced}))
    built = directory / "quiver-agent.built"
    words = "go", "-C", module, "build", "-trimpath", "-overlay", directory / "overlay.json", "-o", built, "./cmd/quiver-agent"
    run("env", "CGO_ENABLED=0", *words, timeout=1800)
    agent = directory / "quiver-agent"
    agent.write_text(f'#!/bin/sh\nCLOCK_FILE={clock} exec {built} "$@"\n')
    for program in (quiverd, agent):
        program.chmod(0o755)
    return quiverd, agent, clock


@pytest.fixture
def host_node(host, programs):
    """A node with such a clock."""
    quiverd, agent, clock = programs
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        node = Node(directory, host=host, quiverd=quiverd, agent=agent)
        node.clock = clock
        try:
            yield node
            assert "panic" not in node.log() + node.daemon.log(), node.log() + node.daemon.log()
        finally:
            node.close()


def said(line):
    """The time of day at which a line of a log was written."""
    text = line.removeprefix("time=").split()[0].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(text[:26].rstrip("+") + "+00:00" if len(text) > 32 else text).timestamp()


def test_a_clock_that_is_set_while_a_node_works_is_shown_and_nothing_more(host_node, host, told):
    node, daemon = host_node, host_node.daemon
    node.clock.write_text(str(YEARS))
    node.start()
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    (address, other) = addresses(node.add(b))
    names = [name for name in node.attached() if name.endswith(":eth0")]
    timeouts = "timeouts = { embryonic_seconds = 2, icmp_seconds = 3, established_seconds = 3000 }"
    daemon.apply(f'[[tenant]]\nname = "both"\ninterfaces = {json.dumps(names)}\nforward_services = ["l4-lifecycle"]\n{timeouts}\n')
    sessions = lambda *of: daemon.show("session", *(word for one in of for word in ("--address", one))).get("sessions", [])
    # What stays: a session of datagrams, which is idle.
    with b.entered():
        answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        answers.bind((address, 7))
    with a.entered():
        asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with answers, asks, a.pinging(other, 0.02):
        asks.sendto(b"1", (address, 7))
        answers.settimeout(20)
        answers.sendto(b"2", answers.recvfrom(9)[1])
        stays = lambda: [one for one in sessions(address) if one["protocol"] in ("udp", 17)]
        eventually(lambda: len(stays()) == 1, sessions)
        for added in (-YEARS, 0, -3600, 3600, YEARS, 60):
            before = len(node.log())
            node.clock.write_text(str(added))
            time.sleep(0.1)
            pod = node.pod("c")
            theirs = addresses(node.add(pod))
            for one in theirs:
                a.must_ping(one, count=1)
            node.cni("check", pod)
            node.cni("del", pod)
            assert node.plugin("STATUS", {}) == (0, {})
            eventually(lambda: ask(host, "/readyz")[0] == 200, lambda: ask(host, "/readyz"), timeout=60)
            # The clock is what it was said to be, and shown.
            line = next(line for line in node.log()[before:].splitlines() if "msg=added" in line)
            assert abs(said(line) - time.time() - added) < 60, (added, line)
            # Pings begin and end sessions as ever: none lasts on, none is lost.
            eventually(lambda its=theirs[0]: not sessions(its), sessions, timeout=60)
            assert len(stays()) == 1, sessions()
    # quiverd comes back to whatever time it is, before its state was written, too.
    daemon.kill()
    node.clock.write_text(str(-YEARS))
    daemon.start()
    assert abs(said(daemon.log().splitlines()[-1]) - time.time() + YEARS) < 60, daemon.log()[-300:]
    a.must_ping(address)
    node.kill_agent()
    node.clock.write_text(str(YEARS))
    node.start_agent()
    node.add(node.pod("d"))
    assert node.cni("check", a).returncode == 0
