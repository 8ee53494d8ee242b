"""Pods that come and go, 500 of them: what is left in quiverd, the agent, the host and on disk is nothing, and memory stays as it is."""

import concurrent.futures
import os
import pathlib
import re
import time

from lab.process import eventually, tool
from node import HEALTH, addresses

PORTS = "cni.projectcalico.org/vppExtraMemifPorts"
SPEC = "cni.projectcalico.org/vppExtraMemifSpec"
WAVE, WAVES, WARM = 50, 10, 4
# A runtime asks for several at a time.
HANDS = 8
# What 300 pods may leave, in KiB: on quiverd's heap, where each once left 9; in the agent's memory what Go's collector may keep besides.
# Not in quiverd's memory: its allocator keeps parts of the heap for as many threads as ever asked at the same time.
HEAP_KIB, AGENT_KIB = 900, 12 << 10


class Process:
    """What a process has of the machine."""

    def __init__(self, pid):
        self.of = pathlib.Path("/proc") / str(pid)

    def kib(self):
        """Memory that it has really got."""
        return int(re.search(r"^VmRSS:\s+(\d+) kB", (self.of / "status").read_text(), re.MULTILINE)[1])

    def threads(self):
        """How many threads it has."""
        return len(list((self.of / "task").iterdir()))

    def open(self):
        """What it has open, by kind: "socket", "net", "/memfd", and how much of each."""
        kinds = {}
        for file in (self.of / "fd").iterdir():
            try:
                kind = re.sub(r"[:\[ ].*", "", os.readlink(file))
            except FileNotFoundError:
                continue
            kinds[kind] = kinds.get(kind, 0) + 1
        return kinds

    def mapped(self):
        """How many pieces of memory it has mapped that are files'."""
        return sum(" /" in line for line in (self.of / "maps").read_text().splitlines())


def heap(daemon):
    """KiB in use on quiverd's heap. The least of some readings: each request takes some for itself."""
    used = lambda: int(re.search(r'^quiver_heap_bytes{state="used"} (\d+)$', daemon.scrape()[1], re.MULTILINE)[1])
    return min(used() for _ in range(5)) >> 10


def goroutines(host):
    """How many the agent has."""
    text = host.run(
        "bash", "-c", f"exec 3<>/dev/tcp/{HEALTH.replace(':', '/')}; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    ).stdout
    return int(re.search(r"^go_goroutines (\d+)", text, re.MULTILINE)[1])


def wave(node, number, told):
    """Pods are made, asked, and deleted; some with a memif, to which an application of some is connected when they go."""
    annotations = lambda at: {PORTS: "udp:4444", **({SPEC: '{"rx": 2, "tx": 2}'} if at % 10 else {})} if at % 5 == 0 else {}
    began = time.monotonic()
    pods = [node.pod(f"w{number}") for _ in range(WAVE)]
    with concurrent.futures.ThreadPoolExecutor(HANDS) as hands:
        given = [addresses(result) for result in hands.map(node.add, pods, map(annotations, range(WAVE)))]
        added = time.monotonic()
        flat = [address for both in given for address in both]
        assert len(set(flat)) == 2 * WAVE, given
        applications = [pods[at].start(tool("memif-echo"), "-client", "@vpp/memif-eth0") for at in (0, 5)]
        try:
            connected = lambda: [memif["interface"] for memif in node.daemon.show("memif")["memifs"] if memif.get("connected")]
            eventually(lambda: len(connected()) == len(applications), connected)
            for pod, (four, six) in zip(pods[1::10], given[2::10], strict=True):
                pod.must_ping(four, count=1)
                pod.must_ping(six, count=1)
            asked = time.monotonic()
            # Those at the end go as a runtime has it that removes the namespace first.
            for pod in pods[-3:]:
                pod.remove()
            list(hands.map(lambda pod: node.cni("del", pod), pods))
        finally:
            for application in applications:
                application.stop()
    for pod in pods:
        pod.remove()
        node.pods.remove(pod)
    told.append(f"{WAVE} added in {added - began:.1f} s, deleted in {time.monotonic() - asked:.1f} s")
    return flat


def test_500_pods_that_come_and_go_leave_nothing(host_node, host, told):
    node = host_node
    quiverd, agent = Process(node.daemon.process.pid), Process(node.agent.pid)
    # Our own: other tests may run beside this one.
    ours = host.name.split("-")[0] + "-"
    namespaces = lambda: sorted(path.name for path in pathlib.Path("/run/netns").iterdir() if path.name.startswith(ours))
    left = lambda: {
        "attachments": node.kept(),
        "interfaces": node.daemon.names("interface"),
        "routes": node.daemon.names("route"),
        "neighbours": node.daemon.names("neighbor"),
        "memifs": len(node.daemon.show("memif").get("memifs", [])),
        "devices": sorted(line.split(":")[1] for line in host.ip("-o", "link").stdout.splitlines()),
        "host routes": sorted(host.ip("route").stdout.splitlines() + host.ip("-6", "route").stdout.splitlines()),
        "namespaces": namespaces(),
    }
    has = lambda: {
        "quiverd": (quiverd.threads(), quiverd.open(), quiverd.mapped()),
        "agent": agent.open(),
        "words": sorted(path.name for path in (node.directory / "pods").iterdir()),
    }
    eventually(lambda: "pod:host" in node.daemon.names("interface"), node.log)
    before = left()
    figures, used, waves = [], set(), []
    for number in range(WAVES):
        used |= {*wave(node, number, waves)}
        # Workers give memory back, and the kernel a namespace, a moment later.
        eventually(lambda: left() == before, lambda: (before, left()), timeout=60)
        if number + 1 == WARM:
            warm = has()
        figures.append((heap(node.daemon), agent.kib(), quiverd.kib()))

    def leaks():
        """Whether there is anything more or other than once it was warm. Threads that had nothing to do for a while have ended."""
        now = has()
        (threads, *rest), (warm_threads, *warm_rest) = now["quiverd"], warm["quiverd"]
        return threads > warm_threads or {**now, "quiverd": rest} != {**warm, "quiverd": warm_rest}

    eventually(lambda: not leaks(), lambda: (warm, has()), timeout=60)
    eventually(lambda: goroutines(host) < 60, lambda: goroutines(host), timeout=60)
    # More than a range has addresses for: 253 and the router's; each came round again only when all others had been given.
    assert len({address for address in used if ":" not in address}) == 253, len(used)
    heaps, agents, quiverds = zip(*figures, strict=True)
    told(
        f"churn: {WAVE * WAVES} pods; the last wave: {waves[-1]}; KiB on quiverd's heap {heaps}, "
        f"of all its memory {quiverds}, of the agent's {agents}"
    )
    grown = [max(some[-2:]) - max(some[:WARM]) for some in (heaps, agents)]
    assert grown[0] <= HEAP_KIB and grown[1] <= AGENT_KIB, (grown, figures)
