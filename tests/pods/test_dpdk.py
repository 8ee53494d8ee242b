"""DPDK in a pod, by the command that docs/memif-for-pods.md has for it."""

import os
import pathlib
import re
import shlex

from lab.process import HANGS, Process, eventually
from node import addresses, echo

PAGE = pathlib.Path(__file__).parents[2] / "docs/memif-for-pods.md"


def test_testpmd_by_the_page_answers_what_comes_by_memif(node):
    (command,) = re.findall(r"^(dpdk-testpmd .*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    # Cores of the machine that the tests may use.
    cores = ",".join(map(str, os.sched_getaffinity(0)))
    command, count = re.subn("-l 0-1", f"--lcores=0@({cores}),1@({cores})", command.replace("\\\n", " "))
    assert count == 1
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    own = addresses(node.add(b, {"quiver.io/extraMemifPorts": "udp:5000"}))
    name = next(name for name in node.attached() if name.endswith("memif-eth0"))
    ends, stays_open = os.pipe()
    try:
        with Process("ip", "netns", "exec", b.name, *shlex.split(command), "-i", stdin=ends) as testpmd:
            output = lambda: f"testpmd answers\n{testpmd.output()}\n{node.daemon.drops()}"
            eventually(lambda: node.daemon.memif(name).get("connected") and "packet forwarding" in testpmd.output(), output, HANGS)
            for address in own:
                eventually(lambda address=address: answers(a, address), output, HANGS)
    finally:
        os.close(ends)
        os.close(stays_open)


def answers(pod, address):
    """Whether the pod gets back what it sends. (testpmd posts no buffers before it first polls: what comes until then is lost.)"""
    try:
        return echo(pod, address, 5000) == b"ping"
    except TimeoutError:
        return False
