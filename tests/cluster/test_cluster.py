"""Quiver as the network of a Kubernetes cluster: what users see, and what is left when they have gone."""

import re
import signal

from lab.process import eventually
from workload import left, memif, must_echo, must_fetch, must_ping, nothing_left, pings_again, pods, server, within


def test_pods_reach_each_other_their_hosts_and_leave_nothing(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    # That they are ready means that kubelet, on the host, has got an answer from each.
    with pods(cluster, server("a", n1), server("b", n1), server("c", n2)) as of:
        for name, node in (("a", n1), ("b", n1), ("c", n2)):
            assert within(of[name], cluster.ranges(node)), (of, cluster.ranges(node))
        assert len(n1.interfaces()) == 2 and len(n2.interfaces()) == 1
        # On one node, across nodes, and back.
        for client, peer in (("a", "b"), ("a", "c"), ("c", "a")):
            for address in of[peer]:
                must_ping(cluster, client, address)
                must_fetch(cluster, client, address, peer)
        for node in (n1, n2):
            for address in node.addresses:
                must_ping(cluster, "a", address)
            for address in of["a"] + of["c"]:
                node.run("ping", "-n", "-c", 2, "-w", 60, address)
    nothing_left(cluster, before)


def test_a_memif_by_annotation_answers_on_both_nodes(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1), memif("m", n1), server("c", n2)) as of:
        name = next(name for name in n1.interfaces() if name.endswith(":memif-eth0"))
        connected = lambda: n1.quiver("show", "memif")["memifs"][0].get("connected")
        eventually(connected, lambda: n1.quiver("show", "memif"), timeout=60)
        routes = [entry["object"]["route"] for entry in n1.quiver("get", "route", "--status")["objects"]]
        leads = lambda route: route.get("port_split", {}).get("next_hop", {}).get("interface") == name
        split = [route["prefix"].split("/")[0] for route in routes if leads(route)]
        assert sorted(split) == sorted(of["m"])
        for client in ("a", "c"):
            for address in of["m"]:
                must_ping(cluster, client, address)
        for node in cluster.nodes:
            for address in of["m"]:
                must_echo(node, address, 4444)
    nothing_left(cluster, before)


def test_traffic_goes_on_while_the_agent_is_killed_and_comes_back(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1), server("c", n2)) as of:
        pings = [cluster.control.executing("a", "ping", "-i", "0.1", address) for address in of["c"]]
        for ping in pings:
            eventually(lambda ping=ping: "seq=2" in ping.output(), ping.output)
        n1.end("quiver-agent")
        routes = n1.routes()
        assert sorted(prefix for prefix, _ in routes) == sorted(cluster.ranges(n2))
        for ping in pings:
            seen = ping.output().count("seq=")
            eventually(lambda ping=ping, seen=seen: ping.output().count("seq=") > seen + 10, ping.output)
        n1.start_agent()
        # It knows again what there is, and has work done.
        with pods(cluster, server("b", n1)) as more:
            assert not set(more["b"]) & set(of["a"])
            must_fetch(cluster, "b", of["a"][0], "a")
        for ping in pings:
            with ping:
                numbers = [int(number) for number in re.findall(r"seq=(\d+) ttl", ping.output())]
                assert numbers == list(range(len(numbers))), ping.output()
        assert n1.routes() == routes
    nothing_left(cluster, before)


def test_pods_return_with_quiverd(cluster):
    n1, n2 = cluster.nodes
    with pods(cluster, server("a", n1), server("c", n2)) as of:
        n1.end("quiverd")
        n1.start_quiverd()
        for address in of["c"]:
            pings_again(cluster, "a", address)
            must_fetch(cluster, "a", address, "c")


def test_a_node_that_is_gone_has_no_route_any_more(cluster):
    """The last but one, since its node doesn't come back."""
    n1, n2 = cluster.nodes
    assert n1.routes() == sorted(zip(cluster.ranges(n2), n2.addresses, strict=True))
    n2.end("kubelet")
    cluster.control.kubectl("delete", "node", n2.name)
    eventually(lambda: n1.routes() == [], n1.routes)


def test_uninstalling_leaves_the_host_as_it_was(cluster):
    """The last one."""
    for node in cluster.nodes:
        assert node.run("ip", "link", "show", "quiver0").returncode == 0
        node.end("quiver-agent", signal.SIGTERM)
        node.uninstall()
        devices = node.run("ip", "-o", "link").stdout
        assert "quiver0" not in devices and len(devices.splitlines()) == 2, devices
        routes = node.run("ip", "-4", "route").stdout + node.run("ip", "-6", "route").stdout
        assert "10.244." not in routes and "fd00:10:" not in routes, routes
