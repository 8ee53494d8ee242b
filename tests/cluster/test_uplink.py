"""Packets between nodes that quiverd carries by a port of its own on their uplinks, past their kernels."""

import contextlib
import re

import pytest
from lab.process import HANGS, eventually
from testbed.installation import OVERLAY, UPLINK
from workload import PORT, asker, fetch, host_port, known, left, must_fetch, must_ping, nothing_left, pods, server, service, services

TABLE = "inet", "quiver-uplink"


@contextlib.contextmanager
def ports(cluster):
    """Quiver with ports on the uplinks, on both nodes; afterwards as it was."""
    try:
        cluster.quiver.carry("af_packet")
        yield
    finally:
        cluster.quiver.carry(UPLINK)


def counts(node):
    """Packets that the port has sent and received."""
    counters = node.quiver("show", "interface", "pod:uplink")["interfaces"][0].get("counters", {})
    return [int(counters.get(what, 0)) for what in ("tx_packets", "rx_packets")]


def stands_aside(node):
    """Whether the node's kernel leaves packets of both families to the port."""
    table = node.run("nft", "list", "table", *TABLE, check=False).stdout
    return len(re.findall(r"set carried[46] \{[^}]*elements", table)) == table.count("drop") == 2


@pytest.mark.skipif(OVERLAY != "none", reason="tunnels go through the kernel")
def test_pods_of_other_nodes_are_reached_past_the_kernel_and_nodes_through_it(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with contextlib.ExitStack() as stack:
        stack.enter_context(ports(cluster))
        of = stack.enter_context(pods(cluster, host_port(server("h", n1, app="web"), 18080), server("c", n2), server("d", n1)))
        web = stack.enter_context(services(cluster, service("web", "web", (80, PORT), type="NodePort")))["web"]["spec"]
        known(cluster, web["clusterIPs"], 80, [of["h"]])
        for node in (n1, n2):
            # Nodes speak to each other all the time; else the agent has the kernel look for them.
            eventually(lambda node=node: stands_aside(node), lambda node=node: node.run("nft", "list", "ruleset").stdout, timeout=HANGS)
        for family, address in enumerate(of["h"]):
            now = counts(n2)
            must_ping(cluster, "c", address)
            must_fetch(cluster, "c", address, "h")
            assert fetch(cluster, "c", web["clusterIPs"][family], 80) == "h"
            # Pods see each other, also by Services.
            assert asker(cluster, "c", address, PORT) == asker(cluster, "c", web["clusterIPs"][family], 80) == of["c"][family]
            # Three pings, and four connections with their beginning, end, question and answer.
            assert all(then >= at_first + 15 for then, at_first in zip(counts(n2), now, strict=True)), (now, counts(n2))
        # What the kernel translates comes back by the kernel: of the node it is asked as, and seen as the node that asks.
        (node_port,) = [port["nodePort"] for port in web["ports"]]
        for family, address in enumerate(n1.addresses):
            for client in ("c", n2):
                assert fetch(cluster, client, address, 18080) == "h"
                assert asker(cluster, client, address, 18080) == n2.addresses[family]
                assert fetch(cluster, client, address, node_port) == "h"
            must_ping(cluster, "c", address)
        for pod in ("h", "d"):
            for address in of[pod]:
                assert fetch(cluster, n2, address) == pod
                n2.run("ping", "-n", "-c", 2, "-w", 60, address)
    # Of the ports nothing is left, unless all tests have them.
    for node in cluster.nodes if UPLINK == "kernel" else ():
        assert "quiver-uplink" not in node.network()
        objects = node.quiver("get", "interface", "--status").get("objects", [])
        assert "pod:uplink" not in [entry["object"]["interface"]["name"] for entry in objects]
    nothing_left(cluster, before)
