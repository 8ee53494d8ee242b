#!/usr/bin/env python3
"""Pods on a cluster for whoever measures between them: two nodes come up with Quiver, or with veth pairs and kube-proxy, and pods on them,
whose networks get names that `ip netns` knows. One line of JSON on standard output says what there is; at the end of standard input all
goes away."""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "system")]

from lab.process import HANGS, Process, eventually, run  # noqa: E402 (found by the line above)
from testbed import Cluster, installation, veth  # noqa: E402
from workload import addresses, by_label, generator, known, policy, service  # noqa: E402

# Where iperf3 listens, and where packets of memifs go.
PORTS = (5201, 5201), (4444, 4444, "UDP")


def main():
    """Brings it up, says what there is, and waits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=("quiver", "kube-proxy"), required=True)
    parser.add_argument("--workers", default="", metavar="CORE,…", help="cores of each quiverd's workers (default: as it chooses)")
    parser.add_argument("--prefix", required=True, help="what the names of the pods' networks begin with")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("nodes are namespaces, and need root")
    # Whoever ends this means the nodes, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.workers:
        installation.WORKERS = arguments.workers
    network = veth.Veth if arguments.network == "kube-proxy" else None
    with tempfile.TemporaryDirectory(prefix="qk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(directory, network=network)
        try:
            cluster.start()
            serve(cluster, arguments.network, arguments.prefix)
        except KeyboardInterrupt:
            pass
        finally:
            cluster.stop()


def serve(cluster, network, prefix):
    """Makes the pods, and keeps them until nobody wants them any more."""
    n1, n2 = cluster.nodes
    guard = network == "quiver"
    wanted = {"client": n1, "near": n1, "far": n2}
    if guard:
        wanted |= {f"{name}-guarded": node for name, node in wanted.items()}
    objects = [generator(name, node, app=name, guarded=str("guarded" in name)) for name, node in wanted.items()]
    # The one that begins may go to its peers, and they take it: both ends ask about each session.
    mine = by_label(app="client-guarded")
    rules = [policy(name, name, ingress=[{"from": [mine]}]) for name in wanted if name in ("near-guarded", "far-guarded")]
    rules += [policy("client-guarded", "client-guarded", policyTypes=["Egress"], egress=[{"to": [by_label(guarded="True")]}])] * guard
    asked = [service(name, name, *PORTS) for name in wanted if not name.startswith("client")]
    control = cluster.control
    control.apply(*objects, *asked, *rules)
    control.kubectl("wait", "--for=condition=Ready", f"--timeout={HANGS}s", *(f"pod/{name}" for name in wanted), timeout=2 * HANGS)
    of = {name: addresses(control.get("pod", name)) for name in wanted}
    made = {one["metadata"]["name"]: one["spec"]["clusterIPs"] for one in control.get("services")["items"]}
    if guard:
        known(cluster, made["near"], PORTS[0][0], [of["near"]])
        known(cluster, made["far-guarded"], PORTS[1][0], [of["far-guarded"]])
    else:
        # (kube-proxy writes a Service's rules a moment after its pods are ready.)
        ready = lambda: all(its[0] in rules() for name, its in made.items() if name != "kubernetes")
        rules = lambda: n1.run("nft", "list", "table", "ip", "kube-proxy").stdout
        eventually(ready, lambda: f"Services are known\n{rules()}", timeout=60)
    holders = {}
    try:
        for name, node in wanted.items():
            holders[name] = Process(*into(cluster, node, name), "sleep", "infinity")
            there = lambda name=name: "sleep" in run("ps", "-o", "comm=", holders[name].pid, check=False).stdout
            eventually(there, f"{name} has a network")
            run("ip", "netns", "attach", f"{prefix}-{name}", holders[name].pid)
        told = {
            "pods": {name: {"netns": f"{prefix}-{name}", "addresses": of[name]} for name in wanted},
            "services": made,
            "pids": daemons(cluster) if guard else [],
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()
    finally:
        for name, holder in holders.items():
            run("ip", "netns", "del", f"{prefix}-{name}", check=False)
            holder.stop()


def into(cluster, node, name):
    """Words that have a program of the machine run in a pod's network, by a process of the pod."""
    (uid,) = [pod["metadata"]["uid"] for pod in cluster.control.get("pods")["items"] if pod["metadata"]["name"] == name]
    for pid in descendants(node.first):
        # Control groups of a pod have its UID.
        if comm(pid) == "sleep" and uid in pathlib.Path(f"/proc/{pid}/cgroup").read_text():
            return ("nsenter", f"--net=/proc/{pid}/ns/net")
    raise AssertionError(f"no process of pod {name} is on {node.name}")


def daemons(cluster):
    """Processes of the quiverds, by the machine's own numbers."""
    return [pid for node in cluster.nodes for pid in descendants(node.first) if comm(pid) == "quiverd"]


def descendants(pid):
    """All that a process has started, and those in turn."""
    of = {}
    for line in run("ps", "-eo", "pid=,ppid=").stdout.splitlines():
        child, parent = map(int, line.split())
        of.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += of.get(one, [])
    return found[1:]


def comm(pid):
    """The name of a process; none where it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
