"""Services whose clients are led to what is near them, and how a load balancer hears where that is."""

import contextlib
import json
import signal

from lab.process import eventually
from workload import PORT, backends, becomes, known, left, nothing_left, pods, reaches, server, service, services

ZONE = "topology.kubernetes.io/zone"


def each_has(cluster, asked, port, pods_of_nodes):
    """Waits until each node has backends of its own for a Service's addresses."""
    for node, pods_of_node in zip(cluster.nodes, pods_of_nodes, strict=True):
        for family, address in enumerate(asked):
            want = sorted(pod[family] for pod in pods_of_node)
            there = lambda node=node, address=address: backends(node, address, port)
            eventually(lambda there=there, want=want: there() == want, there, timeout=60)


def test_with_a_local_internal_policy_clients_are_served_on_their_node_or_not_at_all(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("c", n2), server("b", n1, app="web"), server("d", n2, app="web")
    near = service("web", "web", (80, PORT), internalTrafficPolicy="Local")
    with pods(cluster, *wanted) as of, services(cluster, near) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        each_has(cluster, asked, 80, ([of["b"]], [of["d"]]))
        for address in asked:
            for clients, name in ((("a", "b", n1), "b"), (("c", "d", n2), "d")):
                for client in clients:
                    reaches(cluster, client, address, 80, name)
        # Nobody serves any more on the second node, and what is asked there isn't answered by the first.
        cluster.control.kubectl("label", "pod", "d", "app-")
        each_has(cluster, asked, 80, ([of["b"]], []))
        for address in asked:
            reaches(cluster, "a", address, 80, "b")
            for client in ("c", n2):
                becomes(cluster, client, address, 80, "silent")
        # The policy changes.
        cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"internalTrafficPolicy": "Cluster"}}')
        known(cluster, asked, 80, [of["b"]])
        for address in asked:
            for client in ("c", n2):
                reaches(cluster, client, address, 80, "b")
    nothing_left(cluster, before)


def health(client, address, port):
    """What a node says at a port for health checks: status, how many endpoints it has, whether it leads to them; None: no answer."""
    ask = f"exec 3<>/dev/tcp/{address}/{port} && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    # (Line ends are those of text by now.)
    head, _, body = client.run("timeout", "30", "bash", "-c", ask, check=False).stdout.partition("\n\n")
    said = json.loads(body) if body else {}
    return (head.split()[1], said["localEndpoints"], said["serviceProxyHealthy"]) if said else None


def test_load_balancers_are_told_which_nodes_have_endpoints(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("b", n1, app="web"), server("e", n1, app="web"), server("c", n2)
    balanced = service("web", "web", (80, PORT), type="LoadBalancer", externalTrafficPolicy="Local")
    with pods(cluster, *wanted), services(cluster, balanced) as made:
        port = made["web"]["spec"]["healthCheckNodePort"]

        def told(*answers):
            """Waits until the nodes answer so, at all their addresses, whoever asks."""
            for node, answer in zip(cluster.nodes, answers, strict=True):
                for address in node.addresses:
                    for client in cluster.nodes:
                        said = lambda client=client, address=address: health(client, address, port)
                        eventually(lambda said=said, answer=answer: said() == answer, said, timeout=60)

        told(("200", 2, True), ("503", 0, True))
        cluster.control.kubectl("label", "pod", "c", "app=web")
        cluster.control.kubectl("label", "pod", "b", "app-")
        told(("200", 1, True), ("200", 1, True))
        cluster.control.kubectl("label", "pod", "e", "app-")
        told(("503", 0, True), ("200", 1, True))
        # While quiverd doesn't go on, pods are of no use. (Whoever is asked is asked through the kernel, and not by it.)
        n2.signal("quiverd", signal.SIGSTOP)
        try:
            told(("503", 0, True), ("503", 1, False))
        finally:
            n2.signal("quiverd", signal.SIGCONT)
        told(("503", 0, True), ("200", 1, True))
        eventually(lambda: cluster.quiver.ready(n2), "the node forwards again", timeout=60)
        # Where any node will do there is nothing to be told.
        cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"externalTrafficPolicy": "Cluster"}}')
        told(None, None)
    nothing_left(cluster, before)


@contextlib.contextmanager
def zones(cluster):
    """Each node is in a zone of its own."""
    names = [node.name for node in cluster.nodes]
    try:
        for name in names:
            cluster.control.kubectl("label", "--overwrite", "node", name, f"{ZONE}=zone-of-{name}")
        yield
    finally:
        for name in names:
            cluster.control.kubectl("label", "node", name, f"{ZONE}-")


def test_clients_are_served_in_the_zone_of_their_node_where_endpoints_are_hinted(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("c", n2), server("b", n1, app="web"), server("d", n2, app="web")
    near = service("web", "web", (80, PORT), trafficDistribution="PreferClose")
    with zones(cluster), pods(cluster, *wanted) as of, services(cluster, near) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        each_has(cluster, asked, 80, ([of["b"]], [of["d"]]))
        for address in asked:
            for clients, name in ((("a", n1), "b"), (("c", n2), "d")):
                for client in clients:
                    reaches(cluster, client, address, 80, name)
        # A zone without any is served by the others.
        cluster.control.kubectl("label", "pod", "d", "app-")
        known(cluster, asked, 80, [of["b"]])
        for address in asked:
            for client in ("a", "c", n2):
                reaches(cluster, client, address, 80, "b")
        cluster.control.kubectl("label", "pod", "d", "app=web")
        each_has(cluster, asked, 80, ([of["b"]], [of["d"]]))
        # Nobody is hinted any more.
        cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"trafficDistribution": null}}')
        known(cluster, asked, 80, [of["b"], of["d"]])
        for address in asked:
            reaches(cluster, "a", address, 80, "bd")
    nothing_left(cluster, before)
