"""Pods that come and go, and a node that is emptied: what is left of them is nothing, and others don't notice."""

import contextlib
import time

from fins import Fins
from lab.process import HANGS, Process, eventually
from workload import (
    PORT,
    addresses,
    by_label,
    fetch,
    generator,
    goes_on,
    host_port,
    known,
    left,
    lost,
    memif,
    nothing_left,
    pods,
    policies,
    policy,
    replicas,
    segments,
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


def asking(cluster, pod, address, end="/nothing"):
    """Asks a Service, one connection after the other, until there is a file: who has answered, a line each. What isn't answered, or never
    ends, is nobody's answer."""
    # (A shell says of who was ended that he was: not among the answers.)
    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | (timeout 20 nc {address} 80 || echo nobody) | tail -n 1 | grep . || echo nobody"
    again = f"exec 2>/dev/null; while [ ! -e {end} ]; do {ask}; sleep 0.05; done"
    return Process(*cluster.control.client, "exec", pod, "--", "sh", "-c", again)


def test_a_node_is_emptied_and_used_again(cluster, told):
    n1, n2 = cluster.nodes
    before, control = left(cluster), cluster.control
    with contextlib.ExitStack() as stack:
        stack.enter_context(pods(cluster, server("a", n1)))
        of = stack.enter_context(replicas(cluster, "web", 2))
        on = {pod["spec"]["nodeName"]: name for name, pod in of().items()}
        stays, goes = on[n1.name], on[n2.name]
        its = {name: addresses(pod) for name, pod in of().items()}
        made = stack.enter_context(services(cluster, service("web", "web", (80, PORT), (7, PORT + 1))))
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, its.values())
        # Connections to who remains; the others of many end.
        lines = [stack.enter_context(talk(cluster, "a", address, 7, f"/www/end{at}")) for at, address in enumerate(asked * 5)]
        goes_on(lines)
        others = [at for at, line in enumerate(lines) if line.output().splitlines()[0] == f"on {goes}"]
        kept = [line for at, line in enumerate(lines) if at not in others]
        control.exec("a", "sh", "-c", f"for at in {' '.join(map(str, others))}; do > /www/end$at; done")
        eventually(lambda: not any(lines[at].alive() for at in others), "connections end", timeout=60)
        assert kept, "of ten connections one at least is to who remains"
        ends = [(node, on[node.name], its[on[node.name]]) for node in cluster.nodes]
        fins = stack.enter_context(Fins((n1, "a", addresses(control.get("pod", "a"))), ends, asked))
        again = [stack.enter_context(asking(cluster, "a", address, "/www/enough")) for address in asked]
        answers = lambda one: one.output().split()[:-1]
        both = lambda one: {*answers(one)} == {stays, goes}
        eventually(lambda: all(map(both, again)), lambda: [one.output() for one in again], timeout=60)

        counts, began = segments(cluster, "a"), time.monotonic()
        stack.callback(control.kubectl, "uncordon", n2.name)
        drain = Process(*control.client, "drain", n2.name, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={HANGS}s")
        stack.enter_context(drain)
        known(cluster, asked, 80, [its[stays]])
        knew = time.monotonic()
        # One may be on its way.
        marks = [len(answers(one)) + 1 for one in again]
        assert drain.wait() == 0, drain.output()
        emptied = time.monotonic()
        assert of().keys() == {stays}
        eventually(lambda: n2.interfaces() == [], n2.interfaces, timeout=60)
        assert {fetch(cluster, n2, address, 80) for address in asked * 3} == {stays}
        more = [len(answers(one)) + 20 for one in again]
        eventually(
            lambda: all(len(answers(one)) > want for one, want in zip(again, more, strict=True)), "others are still asked", timeout=60
        )
        for one, mark in zip(again, marks, strict=True):
            assert {*answers(one)[mark:]} == {stays}, (goes, mark, answers(one)[mark - 5 :])
        goes_on(kept)
        # No end of a connection was lost. (Of pods that aren't there yet nobody counts any.)
        control.exec("a", "touch", "/www/enough")
        for one in again:
            assert one.wait() == 0, one.output()
        ended = fins.none_missing()
        later = [stack.enter_context(asking(cluster, "a", address)) for address in asked]

        control.kubectl("uncordon", n2.name)
        eventually(lambda: len(of()) == 2, lambda: control.kubectl("describe", "pods").stdout, timeout=HANGS, interval=0.3)
        back = of()
        (new,) = back.keys() - {stays}
        assert back[new]["spec"]["nodeName"] == n2.name
        known(cluster, asked, 80, [addresses(pod) for pod in back.values()])
        eventually(lambda: all(new in answers(one) for one in later), lambda: [one.output()[-500:] for one in later], timeout=60)
        goes_on(kept)
        # Whoever asked was answered, all the while, and no packet was lost.
        again += later
        assert all("nobody" not in answers(one) for one in again), [one.output() for one in again]
        since = lambda: {name: number - counts[name] for name, number in segments(cluster, "a").items()}
        eventually(lambda: lost(since()) == 0, lambda: f"none is lost, not {lost(since())} segments: {since()}", timeout=60)
        count, came = sum(len(answers(one)) for one in again), sum(len(line.output().splitlines()) for line in kept)
        told(
            f"node drained: nodes knew after {knew - began:.1f} s, empty after {emptied - began:.1f} s; {count} connections, all answered; "
            f"{came} lines over {len(kept)} connections that stayed; no segment lost, "
            f"nor one of {ended} FINs"
        )
    nothing_left(cluster, before)
