"""Pods that have the network of their node: they ask as it does, and are asked where it is."""

from testbed.installation import OVERLAY
from workload import PORT, asker, becomes, by_label, known, left, nothing_left, pods, policies, policy, reaches, server, service, services

# Of the node's own ports: no other test's, and nobody else's there.
HOST_PORT = 18200


def host_server(name, node, **labels):
    """A server in a pod with the node's network, at a port of the node; the one that sends everything back is at the next one."""
    pod = server(name, node, **labels)
    spec = pod["spec"]
    spec.update(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    (container,) = spec["containers"]
    # The name of its machine is the node's.
    serve = container["command"][-1].replace(f"-p {PORT}", f"-p {HOST_PORT}").replace(f"-p {PORT + 1}", f"-p {HOST_PORT + 1}")
    container["command"] = ["sh", "-c", serve.replace("hostname", f"echo {name}")]
    container["readinessProbe"]["httpGet"].update(port=HOST_PORT, host=node.addresses[0])
    return pod


def test_pods_with_the_node_s_network_ask_and_are_asked(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("c", n2), server("b", n1, app="web"), server("d", n2, app="web"), host_server("h", n1, app="host")
    with (
        pods(cluster, *wanted) as of,
        services(cluster, service("web", "web", (80, PORT)), service("host", "host", (81, HOST_PORT))) as made,
    ):
        # Its addresses are the node's, and nothing of it is in the dataplane.
        assert sorted(of["h"]) == sorted(n1.addresses)
        assert not [name for name in n1.interfaces() if ".h:" in name] and len(n1.interfaces()) == 2, n1.interfaces()
        web, host = (made[name]["spec"]["clusterIPs"] for name in ("web", "host"))
        known(cluster, web, 80, [of["b"], of["d"]])
        known(cluster, host, 81, [n1.addresses])
        # It asks pods of its node and of the other one, and Services of both.
        for address in web:
            reaches(cluster, "h", address, 80, "bd")
        for name in ("a", "c"):
            for address in of[name]:
                reaches(cluster, "h", address, PORT, name)
        for own, near, far in zip(n1.addresses, of["a"], of["c"], strict=True):
            assert asker(cluster, "h", near, PORT) == own
            # (Through a tunnel it is seen with an address of its node's range.)
            assert OVERLAY != "none" or asker(cluster, "h", far, PORT) == own
        # It is asked at the node's addresses, and by its Service: by pods of both nodes, by the nodes, and by itself.
        for client in ("a", "c", "h", n1, n2):
            for address in n1.addresses:
                reaches(cluster, client, address, HOST_PORT, "h")
            for address in host:
                reaches(cluster, client, address, 81, "h")
    nothing_left(cluster, before)


def test_policies_take_pods_with_the_node_s_network_for_their_node(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1, app="web"), server("c", n2), host_server("h", n1, app="host")
    nobody = [policy(f"no-{app}", app, policyTypes=["Ingress"], ingress=[{"from": [by_label(app="friend")]}]) for app in ("web", "host")]
    with pods(cluster, *wanted) as of, policies(cluster, *nobody):
        for address in of["a"]:
            becomes(cluster, "c", address, PORT, "silent")
            # A node and its pods always reach each other.
            reaches(cluster, "h", address, PORT, "a")
        # Nobody guards a node.
        for address in n1.addresses:
            reaches(cluster, "c", address, HOST_PORT, "h")
    nothing_left(cluster, before)
