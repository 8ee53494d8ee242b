"""A runtime that calls plugins by CNI 1.1."""

import contextlib
import json
import signal

import pytest
from lab.process import HANGS, eventually
from testbed.installation import BY
from testbed.node import CONTAINERD_GENERATION
from workload import left, nothing_left, pods, server


def ready(cluster, node):
    """What kubelet says of a node: whether it is ready, and why not."""
    conditions = json.loads(cluster.control.kubectl("get", "node", node.name, "-o", "json").stdout)["status"]["conditions"]
    return next((entry["status"], entry["message"]) for entry in conditions if entry["type"] == "Ready")


@pytest.mark.skipif(CONTAINERD_GENERATION < 2, reason="containerd calls STATUS from 2.0.1 on: QUIVER_CONTAINERD=2")
@pytest.mark.skipif(BY != "chart", reason="versions are a value of the chart's")
def test_a_node_that_cannot_add_pods_is_not_ready_for_a_runtime_that_asks_for_status(cluster):
    n2 = cluster.nodes[1]
    before = left(cluster)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.quiver.helm, "upgrade", **{"cni.versions": "null"})
        cluster.quiver.helm("upgrade", **{"cni.versions": "{1.1.0}"})
        eventually(lambda: ready(cluster, n2)[0] == "True", lambda: ready(cluster, n2), timeout=HANGS)
        # ADD and DEL are of that version, too.
        with pods(cluster, server("a", n2)):
            pass
        with contextlib.ExitStack() as stopped:
            stopped.callback(n2.signal, "quiverd", signal.SIGCONT)
            n2.signal("quiverd", signal.SIGSTOP)
            told = lambda: ready(cluster, n2)
            eventually(lambda: told()[0] == "False" and "quiver" in told()[1].lower(), told, timeout=HANGS)
        eventually(lambda: ready(cluster, n2)[0] == "True", lambda: ready(cluster, n2), timeout=HANGS)
    nothing_left(cluster, before)
