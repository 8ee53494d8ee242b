#!/usr/bin/env python3
"""Stands in for ``vpp`` and, under that name, ``vppctl``: takes only what VPP's documentation says its command line takes.

The grammar is that of the CLI reference (https://s3-docs.fd.io/vpp/25.10/cli-reference/) and of the description of startup.conf
(https://s3-docs.fd.io/vpp/25.10/configuration/reference.html), reduced to the commands that there are tests of; each was taken by VPP
26.06 as well. What isn't in it ends the program, as does a command about an interface that wasn't created. Packets pass by quiver-floor.
"""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

NUMBER = r"\d+"
PATH = r"/\S+"
MAC = r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}"
ADDRESS = r"(?:\d+\.\d+\.\d+\.\d+|[0-9a-f:]*:[0-9a-f:]*)"
INTERFACE = r"(?P<interface>memif\d+/\d+(?:\.\d+)?)"
PEER = r"(?P<peer>memif\d+/\d+(?:\.\d+)?)"

CLI = [
    rf"create memif socket id (?P<socket>{NUMBER}) filename {PATH}",
    rf"create interface memif id (?P<id>{NUMBER}) socket-id (?P<of>{NUMBER}) (?:master|slave) rx-queues {NUMBER} tx-queues {NUMBER}"
    rf" hw-addr {MAC} no-zero-copy",
    rf"create sub-interfaces {INTERFACE} (?P<vlan>{NUMBER})",
    rf"create bridge-domain {NUMBER}",
    rf"set interface mtu (?:packet|ip4|ip6|mpls) {NUMBER} {INTERFACE}",
    rf"set interface state {INTERFACE} (?:up|down)",
    rf"set interface l2 tag-rewrite {INTERFACE} (?:disable|pop [12])",
    rf"set interface l2 xconnect {INTERFACE} {PEER}",
    rf"set interface l2 bridge {INTERFACE} {NUMBER}(?: bvi)?",
    rf"set interface ip address {INTERFACE} {ADDRESS}/{NUMBER}",
    rf"set ip neighbor {INTERFACE} {ADDRESS} {MAC}(?: static)?",
    rf"ip route (?:add|del)(?: count {NUMBER})? {ADDRESS}/{NUMBER} via {ADDRESS} {INTERFACE}",
    rf"sfdp tenant (?:add|del) {NUMBER} context {NUMBER}",
    rf"set sfdp services tenant {NUMBER} (?:sfdp-l4-lifecycle |sfdp-tcp-check |ip4-lookup )+(?:forward|reverse)",
    rf"set sfdp interface-input {INTERFACE} tenant {NUMBER}",
    rf"nat44 plugin enable sessions {NUMBER}",
    rf"nat44 add address {ADDRESS} - {ADDRESS}",
    rf"set interface nat44 in {INTERFACE} out {PEER}",
    rf"cnat translation add proto UDP vip {ADDRESS} {NUMBER}(?: to ->{ADDRESS} {NUMBER})+ (?:default|maglev)",
    rf"set cnat feature {INTERFACE} enable",
    r"show version",
    r"show runtime",
    r"clear runtime",
]

STARTUP = {
    "unix": {"nodaemon": None, "cli-listen": PATH, "exec": PATH, "log": PATH, "runtime-dir": PATH},
    "cpu": {"main-core": NUMBER, "corelist-workers": r"\d+(?:[,-]\d+)*"},
    "api-segment": {"prefix": r"\S+"},
    "socksvr": {"socket-name": PATH},
    "statseg": {"socket-name": PATH, "size": r"\d+[KMG]"},
    "memory": {"main-heap-size": r"\d+[KMG]", "main-heap-page-size": r"default-hugepage|\d+[KMG]"},
    "buffers": {"buffers-per-numa": NUMBER},
    "sfdp": {"sessions-log2": NUMBER},
    "plugins": None,
}

RUNTIME = """Thread 1 vpp_wk_0 (lcore 1)
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
ip4-lookup                       active             126953        32500000               0          9.60e0          256.00
memif-input                      polling            126953        32500000               0          1.27e1          256.00
"""


def fail(reason):
    """Says what isn't understood and ends."""
    sys.exit(f"vpp stand-in: {reason}")


class Cli:
    """The command line, with the interfaces and sockets there are."""

    def __init__(self):
        self.sockets, self.interfaces = set(), set()

    def command(self, line):
        """Takes a command, or says what is wrong with it."""
        match = next(filter(None, (re.fullmatch(form, line) for form in CLI)), None)
        if match is None:
            return f"unknown input `{line}'"
        found = match.groupdict()
        for name in ("interface", "peer"):
            if found.get(name) and found[name] not in self.interfaces:
                return f"unknown interface {found[name]} in `{line}'"
        if "socket" in found:
            self.sockets.add(found["socket"])
        if "of" in found:
            if found["of"] not in self.sockets:
                return f"there is no socket {found['of']}"
            self.interfaces.add(f"memif{found['of']}/{found['id']}")
        if "vlan" in found:
            self.interfaces.add(f"{found['interface']}.{found['vlan']}")
        return None

    def answer(self, line):
        """What is printed."""
        wrong = self.command(line)
        if wrong:
            return wrong
        return {"show version": "vpp v25.10-standin built by nobody\n", "show runtime": RUNTIME}.get(line, "")


def startup(text):
    """``startup.conf``: sections, each with what may stand in it."""
    found, rest = {}, text
    while rest.strip():
        match = re.match(r"\s*(\S+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}", rest)
        if match is None or match[1] not in STARTUP:
            fail(f"startup.conf: unknown section at {rest[:40]!r}")
        words, known = match[2].split(), STARTUP[match[1]]
        rest = rest[match.end() :]
        if known is None:
            if not re.fullmatch(r"(plugin \S+ \{ (enable|disable) \} ?)+", " ".join(words)):
                fail(f"startup.conf: plugins {match[2]!r}")
            continue
        while words:
            key = words.pop(0)
            if key not in known:
                fail(f"startup.conf: unknown input `{key}' in {match[1]}")
            if known[key] is not None:
                value = words.pop(0)
                if not re.fullmatch(known[key], value):
                    fail(f"startup.conf: {match[1]} {key} {value}")
                found[key] = value
    return found


def vpp():
    """Reads its configuration, carries it out, and answers vppctl."""
    settings = startup(Path(sys.argv[sys.argv.index("-c") + 1]).read_text())
    cli, listed = Cli(), Path(settings["exec"]).read_text().splitlines()
    for line in listed:
        wrong = cli.command(line)
        if wrong:
            fail(wrong)
    left, right = (line.split()[-1] for line in listed if line.startswith("create memif socket"))
    core = settings["corelist-workers"].split(",")[0]
    floor = Path(os.environ["QUIVER_STANDIN_FLOOR"])
    forward = subprocess.Popen([floor, "--rx", left, "--tx", right, "--core", core, "--bidirectional"])
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(settings["cli-listen"])
            listening.listen()
            while True:
                with listening.accept()[0] as client:
                    client.sendall(cli.answer(client.recv(4096).decode()).encode())
    finally:
        forward.terminate()
        forward.wait()


def vppctl():
    """Hands its words over and prints the answer."""
    words = sys.argv[1:]
    if words.pop(0) != "-s":
        fail("vppctl without -s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(words.pop(0))
        server.sendall(" ".join(words).encode())
        server.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: server.recv(4096), b"")).decode()
    if answer.startswith(("unknown", "there is no")):
        fail(answer)
    print(answer)


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    vppctl() if Path(sys.argv[0]).name == "vppctl" else vpp()
