#!/usr/bin/env python3
"""Shows Quiver as the network of a Kubernetes cluster: two nodes come up on this machine with Quiver installed by its manifest, and two
pods that ask for a memif by annotation exchange packets over it, from node to node; then a third one is asked by a Service, and a
NetworkPolicy says who may.

Needs root. Everything is taken away again at the end, also after Ctrl-C or a failure; KEEP=1 leaves it up until Enter is pressed,
and says how to look around.
"""

import os
import pathlib
import shlex
import signal
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/cluster"), str(ROOT / "tests/system")]

from lab.process import eventually, tool  # noqa: E402 (found by the line above)
from testbed import Cluster  # noqa: E402
from workload import MEMIF_PORT, by_label, events, exchange, generator, known, memif, pods, policies, policy, service, services, through  # noqa: E402


def main():
    """Brings the cluster up, shows, and takes it down."""
    if os.geteuid() != 0:
        sys.exit("nodes are namespaces, and need root: sudo make run-k8s")
    # Whoever ends this means the nodes, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="qk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(directory)
        try:
            good = show(cluster)
        finally:
            title("Taking everything away")
            cluster.stop()
    sys.exit(0 if good else 1)


def show(cluster):
    """Says what is done, and whether it went well."""
    title("A Kubernetes cluster of two nodes, and Quiver on it: kubectl apply -f deploy/kubernetes/quiver.yaml")
    kubectl = cluster.start().control.kubectl
    say(kubectl("get", "nodes", "-o", "wide").stdout)
    say(kubectl("-n", "quiver", "get", "daemonsets,pods", "-o", "wide").stdout)

    title("Two pods, one on each node, with a memif beside eth0 by annotation")
    n1, n2 = cluster.nodes
    wanted = generator("left", n1), generator("right", n2)
    for key, value in wanted[0]["metadata"]["annotations"].items():
        say(f"  {key}: {value}")
    with pods(cluster, *wanted) as of:
        say(kubectl("get", "pods", "-o", "wide").stdout)
        for name in of:
            told = eventually(lambda name=name: events(cluster, name, "QuiverMemif"), f"an event on {name}", timeout=60)
            say(f"  {name}: {'; '.join(told)}")
        good = True
        for left, right in zip(of["left"], of["right"], strict=True):
            title(f"Packets over memif, both ways: {left} and {right}")
            at_left, at_right = exchange(cluster, ("left", left), ("right", right))
            for name, end, other in (("left", at_left, at_right), ("right", at_right, at_left)):
                say(f"  the other sent {other['sent']} packets, and {name} received {end['foreign']}")
                good &= end["foreign"] > 0
        say("\n  The way of each packet: memif, quiverd of one node, kernel between the nodes, quiverd of the other node, memif.")
        say("  What is sent before the other end is there, or after it has gone, isn't received; what ICMP says of it is.")
        good &= ask(cluster, of)
        title("What the first node's quiverd has counted")
        # (Whoever was left to look around may have uninstalled it.)
        say(n1.run(tool("quiver"), "show", "interface", check=False).stdout)
    return good


def ask(cluster, of):
    """Has a third pod be asked by a Service under a policy; gives whether who may gets answers, and who may not none."""
    _, n2 = cluster.nodes
    title("A Service for a third pod, whose application on the memif sends everything back, and a NetworkPolicy: only role=client may ask")
    rule = {"from": [by_label(role="client")], "ports": [{"port": MEMIF_PORT, "protocol": "UDP"}]}
    guard = policy("echo", "echo", ingress=[rule])
    asked = service("echo", "echo", (5555, MEMIF_PORT, "UDP"))
    with pods(cluster, memif("echo", n2, app="echo")) as echo, services(cluster, asked) as made, policies(cluster, guard):
        say(cluster.control.kubectl("get", "services,endpointslices,networkpolicies", "-o", "wide").stdout)
        (address, *_) = made["echo"]["spec"]["clusterIPs"]
        known(cluster, made["echo"]["spec"]["clusterIPs"], 5555, [echo["echo"]])
        cluster.control.kubectl("label", "pod", "left", "role=client")

        def answers(name):
            return through(cluster, name, of[name][0], address, 5555)

        eventually(lambda: answers("left")["received"] > 0 == answers("right")["received"], "the policy is in force", timeout=60)
        ends = {name: answers(name) for name in ("left", "right")}
        for name, end in ends.items():
            may = "may" if name == "left" else "may not"
            say(f"  {name}, which {may}, sent {end['sent']} packets to {address}:5555 and got {end['received']} of them back")
        say("\n" + n2.run(tool("quiver"), "show", "vip").stdout)
        say(n2.run(tool("quiver"), "show", "acl").stdout)
        if os.environ.get("KEEP") == "1":
            wait(cluster)
    return ends["left"]["received"] > 0 == ends["right"]["received"]


def wait(cluster):
    """Says how to look around, and waits."""
    title("It is all still there")
    say(f"  kubectl: {shlex.join(str(word) for word in cluster.control.client)} get pods -A")
    for node in cluster.nodes:
        say(f"  {node.name}: {shlex.join((*node.inside, tool('quiver')))} show interface")
    kubectl_quiver = "env", f"KUBECONFIG={cluster.control.admin}", *cluster.control.outside, tool("kubectl-quiver")
    say(f"  of all: {shlex.join(str(word) for word in kubectl_quiver)} status")
    try:
        input("Enter ends it. ")
    except EOFError:
        # Nobody is there to press it.
        say("Ctrl-C or SIGTERM ends it.")
        signal.pause()


def title(text):
    """Says what comes."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def say(text):
    """Says something."""
    print(text, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        # Ctrl-C or SIGTERM, and all has been taken away.
        sys.exit(130)
