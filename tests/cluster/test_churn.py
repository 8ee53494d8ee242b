"""Pods that come and go: what is left of them is nothing."""

import contextlib
import time

from lab.process import eventually
from workload import (
    PORT,
    by_label,
    fetch,
    generator,
    goes_on,
    host_port,
    known,
    left,
    memif,
    nothing_left,
    pods,
    policies,
    policy,
    server,
    service,
    services,
    talk,
)

# Pods of a wave, and waves, of which the first ones warm up: the 500 are in tests/pods, without a kubelet.
WAVE, WAVES, WARM = 16, 4, 2
# What the others may leave in memory, in KiB.
QUIVERD_KIB, AGENT_KIB = 3 << 10, 12 << 10
PROGRAMS = "quiverd", "quiver-agent"
METRICS = "exec 3<>/dev/tcp/127.0.0.1/9478; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
FIGURES = "attachments", "memifs", "disputed", "policy_lists", "policy_groups", "policy_guarded", "services", "vips"


def figures(cluster):
    """What each agent counts of pods, Services and policies."""
    wanted = {f"quiver_agent_{name}" for name in FIGURES}
    texts = [node.run("bash", "-c", METRICS).stdout for node in cluster.nodes]
    return [sorted(line for line in text.splitlines() if line.split(" ")[0] in wanted) for text in texts]


def kind(number, node):
    """A pod of a wave: with an application at a memif, with a memif without one, with a host port, or none of it."""
    make = {0: memif, 1: memif, 2: generator}.get(number % WAVE // 2, server)
    pod = make(f"p{number}", node, **({"app": "churn"} if make is server else {}))
    return host_port(pod, 18080) if number % WAVE in (6, 7) else pod


def wave(cluster, number):
    """Pods of a Service and of a policy that are asked, and deleted with connections: how long that took, and their addresses by node."""
    wanted = [kind(at, cluster.nodes[at % 2]) for at in range(number * WAVE, (number + 1) * WAVE)]
    asked = cluster.control.get("service", "churn")["spec"]["clusterIPs"]
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, *wanted))
        ready = time.monotonic()
        known(cluster, asked, 80, [of[pod["metadata"]["name"]] for pod in wanted if pod["metadata"].get("labels")])
        clients = [f"p{number * WAVE + at}" for at in (6, 7, 8, 9)]
        for address in asked:
            for client in clients:
                assert fetch(cluster, client, address, 80) in of
        # Connections that are there when their pods go: processes in pods outlive who has started them from outside.
        goes_on([stack.enter_context(talk(cluster, client, address, 7)) for client in clients for address in asked])
        going = time.monotonic()
    by_node = [[address for at, pod in enumerate(wanted) if at % 2 == side for address in of[pod["metadata"]["name"]]] for side in (0, 1)]
    return ready - began, time.monotonic() - going, by_node


def sessions(node, its):
    """Sessions that quiverd has with these addresses."""
    return [one for address in its for one in node.quiver("show", "session", "--address", address).get("sessions", [])]


def test_pods_that_come_and_go_leave_nothing(cluster, told):
    before, counted, memory, opened = left(cluster), figures(cluster), [], []
    web = service("churn", "churn", (80, PORT), (7, PORT + 1))
    allowed = policy("churn", "churn", policyTypes=["Ingress"], ingress=[{"from": [by_label(app="churn")]}])
    with services(cluster, web) as made, policies(cluster, allowed):
        known(cluster, made["churn"]["spec"]["clusterIPs"], 80, [])
        among = left(cluster)
        for number in range(WAVES):
            ready, gone, by_node = wave(cluster, number)
            nothing_left(cluster, among)
            for node, its in zip(cluster.nodes, by_node, strict=True):
                # (A session that is over would be remembered for a minute, one that isn't for two hours.)
                eventually(lambda node=node, its=its: not sessions(node, its), lambda node=node, its=its: sessions(node, its), timeout=30)
            opened.append([node.open(name) for name in PROGRAMS for node in cluster.nodes])
            memory.append([node.kib(name) for name in PROGRAMS for node in cluster.nodes])
    nothing_left(cluster, before)
    eventually(lambda: figures(cluster) == counted, lambda: (counted, figures(cluster)), timeout=60, interval=0.3)
    told(f"churn: {WAVES} waves of {WAVE} pods, the last ready in {ready:.0f} s, gone in {gone:.0f} s; KiB of {PROGRAMS}: {memory}")
    # (A connection to the API server, or a client's that has just gone.)
    assert all(last <= max(some) + 3 for last, *some in zip(opened[-1], *opened[:WARM], strict=True)), opened
    for last, limit, *some in zip(memory[-1], (QUIVERD_KIB, QUIVERD_KIB, AGENT_KIB, AGENT_KIB), *memory[:WARM], strict=True):
        assert last - max(some) <= limit, memory
