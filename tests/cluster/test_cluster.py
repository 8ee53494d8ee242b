"""Quiver as the network of a Kubernetes cluster: what users see, and what is left when they have gone."""

import contextlib
import signal
import tarfile
import tempfile

from inside import PingsInside, inside, talk
from lab.process import HANGS, eventually, run, tool
from testbed.installation import OVERLAY
from workload import (
    MEMIF_PORT,
    PORT,
    addresses,
    events,
    exchange,
    generator,
    goes_on,
    known,
    left,
    memif,
    must_echo,
    must_fetch,
    must_ping,
    node_object,
    nothing_left,
    pinging,
    pings_again,
    pods,
    server,
    service,
    services,
    within,
)


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
        hears = lambda: any("@vpp/memif-eth0" in text for text in events(cluster, "m", "QuiverMemif"))
        eventually(hears, "the pod's owner hears of it", timeout=60)
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


def test_two_pods_exchange_packets_by_memif_across_nodes(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, generator("x", n1), generator("y", n2)) as of:
        for x, y in zip(of["x"], of["y"], strict=True):
            at_x, at_y = exchange(cluster, ("x", x), ("y", y))
            for name, end, other in (("x", at_x, at_y), ("y", at_y, at_x)):
                # Before the other is there, and after it has gone, they are lost. Nobody else sends here but the other's kernel, errors
                # about own ones while no application is connected: six at once, then one a second. Own ones don't return.
                assert 0 < end["foreign"] < other["sent"] + 20 and end["received"] == 0, end
                told(f"by memif, {x} and {y}: {name} received {end['foreign']} of {other['sent']}")
    nothing_left(cluster, before)


def test_an_annotation_that_cannot_be_is_told_and_nothing_is_made(cluster):
    n1, _ = cluster.nodes
    before = left(cluster)
    pod = memif("wrong", n1)
    (key,) = pod["metadata"]["annotations"]
    pod["metadata"]["annotations"][key] = "tcp:80,icmp"
    cluster.control.apply(pod)
    try:
        told = eventually(lambda: events(cluster, "wrong", "QuiverRefused"), lambda: events(cluster, "wrong"), timeout=HANGS, interval=0.3)
        assert key in told[0] and "position 8" in told[0] and '"icmp"' in told[0], told
        assert left(cluster)[0]["interfaces"] == before[0]["interfaces"]
    finally:
        cluster.control.kubectl("delete", "pod", "wrong", f"--timeout={HANGS}s", timeout=2 * HANGS)
    nothing_left(cluster, before)


def test_traffic_goes_on_while_the_agent_is_killed(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1), server("c", n2)) as of:
        with contextlib.ExitStack() as stack:
            pings = [stack.enter_context(pinging(cluster, "a", address)) for address in of["c"]]
            routes = n1.routes()
            assert sorted(prefix for prefix, _ in routes) == sorted(cluster.ranges(n2))
            back = cluster.quiver.kill(n1, "quiver-agent")
            for ping in pings:
                ping.goes_on()
            back()
            # It knows again what there is, and has work done.
            with pods(cluster, server("b", n1)) as more:
                assert not set(more["b"]) & set(of["a"])
                must_fetch(cluster, "b", of["a"][0], "a")
            for ping in pings:
                ping.goes_on()
                assert ping.lost() == 0, ping.output()
        assert n1.routes() == routes
    nothing_left(cluster, before)


def test_traffic_comes_back_after_quiverd_is_killed(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1), server("c", n2)) as of:
        with contextlib.ExitStack() as stack:
            pings = [stack.enter_context(pinging(cluster, "c", address)) for address in of["a"]]
            back = cluster.quiver.kill(n1, "quiverd")
            assert "quiver0" in n1.network()
            back()
            for ping in pings:
                ping.goes_on()
                told(f"quiverd killed: {ping.summary()}")
        for address in of["c"]:
            pings_again(cluster, "a", address)
            must_fetch(cluster, "a", address, "c")
    nothing_left(cluster, before)


def test_a_node_is_ready_when_it_forwards_and_not_otherwise(cluster):
    node, _ = cluster.nodes
    assert cluster.quiver.ready(node)
    node.signal("quiverd", signal.SIGSTOP)
    try:
        eventually(lambda: not cluster.quiver.ready(node), "the node isn't ready", timeout=HANGS, interval=0.3)
    finally:
        node.signal("quiverd", signal.SIGCONT)
    eventually(lambda: cluster.quiver.ready(node), "the node is ready again", timeout=HANGS, interval=0.3)


def test_kubectl_quiver_tells_of_every_node(cluster):
    ask = lambda *words, **options: run(
        *cluster.control.outside, tool("kubectl-quiver"), "--kubeconfig", cluster.control.admin, *words, **options
    )
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, memif("m", n1), server("c", n2)), tempfile.TemporaryDirectory() as directory:
        rows = [line.split() for line in ask("status").stdout.splitlines()]
        ask("sysdump", f"{directory}/dump.tar.gz")
        with tarfile.open(f"{directory}/dump.tar.gz") as dump:
            said = lambda node, file: dump.extractfile(f"quiver-sysdump/{node}/{file}").read().decode()
            assert "default.m" in said("n1", "show-memif.txt") and "default.c" in said("n2", "get--o-json.txt")
            assert all("added" in said(node.name, "logs/quiver-agent.txt") for node in cluster.nodes)
            for node in cluster.nodes:
                assert said(node.name, "agent-readyz.txt") == "forwarding\n" and "quiver_agent_mtu " in said(node.name, "agent-metrics.txt")
                assert " dev quiver0 " in said(node.name, "host.txt") and "table inet quiver-outgoing" in said(node.name, "host.txt")
    assert rows[0] == ["NODE", "FORWARDS", "QUIVERD", "UP", "RESTARTS", "PODS", "MEMIFS", "TUNNELS", "MTU"] and len(rows) == 3, rows
    way = ["0", "1500"] if OVERLAY == "none" else ["1", "1450"]
    assert [(row[:2], row[5:]) for row in rows[1:]] == [(["n1", "yes"], ["1", "1", *way]), (["n2", "yes"], ["1", "0", *way])], rows
    assert ask("on", "n2", "get", "route", "-o", "json").stdout == n2.run(tool("quiver"), "get", "route", "-o", "json").stdout
    # The exit status is that of the command there: there is no object of that name.
    assert ask("on", "n2", "get", "interface", "nobody", check=False).returncode == 4
    nothing_left(cluster, before)


def test_an_update_replaces_quiver_node_by_node_and_pods_stay(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1, app="web"), server("b", n1), server("c", n2), memif("m", n1)
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, *wanted))
        asked = stack.enter_context(services(cluster, service("web", "web", (80, PORT), (7, PORT + 1))))["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, [of["a"]])
        names = [cluster.quiver.pod(node)["metadata"]["name"] for node in cluster.nodes]
        # On one node and across both, whose quiverds go one after the other.
        ways = {f"{client} → a": inside(node, client) for node, client in ((n1, "b"), (n2, "c"))}
        pings = {
            f"{way}, {address}": stack.enter_context(PingsInside(words, address)) for way, words in ways.items() for address in of["a"]
        }
        places = [(address, PORT + 1) for address in of["a"]] + [(address, 7) for address in asked]
        lines = [stack.enter_context(talk(words, *place)) for words in ways.values() for place in places]
        goes_on(lines)
        for ping in pings.values():
            ping.goes_on()
        cluster.quiver.update()
        for way, ping in pings.items():
            ping.goes_on()
            lost = f"{ping.lost()} of {ping.sent()} pings lost, ten a second, no answer for {ping.pause():.1f} s at most"
            told(f"update of both nodes: {way}: {lost}")
        # What TCP has lost it sends again: nothing is missing on any connection, also of those to a Service.
        goes_on(lines)
        assert not {*names} & {cluster.quiver.pod(node)["metadata"]["name"] for node in cluster.nodes}
        for address in of["c"]:
            must_ping(cluster, "a", address)
            must_fetch(cluster, "a", address, "c")
        for address in of["m"]:
            must_echo(n2, address, MEMIF_PORT)
        for name, its in of.items():
            assert addresses(cluster.control.get("pod", name)) == its
    nothing_left(cluster, before)


def test_routes_follow_nodes(cluster):
    n1, n2 = cluster.nodes
    routes = n1.routes()
    # Through tunnels, what is for any of them goes to quiverd.
    vias = lambda addresses: addresses if OVERLAY == "none" else ("quiver0",) * len(addresses)
    assert routes == sorted(zip(cluster.ranges(n2), vias(n2.addresses), strict=True))
    with node_object(cluster, "n3", ("10.200.0.3", "fd00:200::3")) as ranges:
        want = sorted([*routes, *zip(ranges, vias(("10.200.0.3", "fd00:200::3")), strict=True)])
        eventually(lambda: n1.routes() == want, n1.routes, timeout=60)
    eventually(lambda: n1.routes() == routes, n1.routes, timeout=60)


def test_uninstalling_leaves_the_nodes_as_they_were(cluster):
    """The last one. A pod is left there: it loses its network, and no more."""
    n1, _ = cluster.nodes
    for node in cluster.nodes:
        assert "quiver0" in node.network() and "table inet quiver-outgoing" in node.network()
        assert "/opt/cni/bin/quiver-cni" in node.files()
    with pods(cluster, server("a", n1)):
        cluster.quiver.uninstall()
        for node in cluster.nodes:
            assert (node.network(), node.files()) == cluster.before[node.name]
        assert "eth0" not in cluster.control.exec("a", "ip", "link").stdout
