"""Pods that come and go with sessions, as in a cluster: with Services and policies, and a tenant for all that pods send."""

import concurrent.futures
import contextlib
import re
import selectors
import socket
import tempfile

import pytest
from api_server import APIServer
from lab.process import eventually
from node import RANGES, Node, addresses, ask, serving
from test_churn import AGENT_KIB, HANDS, HEAP_KIB, WARM, WAVE, WAVES, Process, heap

TENANT = "pod:everybody"
PORT, ASKED = 7000, ("10.96.0.7", "fd00:96::7")


@pytest.fixture
def api(host):
    """An API server that has a node, which is the host, and a namespace."""
    server = APIServer(host)
    try:
        at = [{"type": "InternalIP", "address": address} for address in ("192.168.7.1", "fd00:7::1")]
        server.put("Node", "n1", "", spec={"podCIDRs": RANGES}, status={"addresses": at})
        server.put("Namespace", "default", "")
        yield server
    finally:
        server.close()


@pytest.fixture
def host_node(host, api):
    """A node of a cluster, in a namespace of its own."""
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        node = Node(directory, host=host)
        node.cluster = "--node", "n1", "--kubeconfig", api.kubeconfig(node.directory / "kubeconfig")
        try:
            yield node.start()
            assert "panic" not in node.log(), node.log()
        finally:
            node.close()


@contextlib.contextmanager
def everything_comes_back(pod):
    """A process of a pod that sends back what it gets, by UDP and TCP, to whoever asks."""
    with pod.entered():
        listener = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4 * WAVE)
        datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(("::", PORT))

    def serve(ends):
        with selectors.DefaultSelector() as ready:
            for one in (listener, datagrams):
                ready.register(one, selectors.EVENT_READ)
            while not ends.is_set():
                for one in [key.fileobj for key, _ in ready.select(0.1)]:
                    if one is listener:
                        ready.register(listener.accept()[0], selectors.EVENT_READ)
                    elif one is datagrams:
                        text, asker = one.recvfrom(65536)
                        with contextlib.suppress(OSError):
                            one.sendto(text, asker)
                    else:
                        # Pods go with their connections: what ends is no longer ours to answer.
                        with contextlib.suppress(OSError):
                            if text := one.recv(65536):
                                one.sendall(text)
                                continue
                        ready.unregister(one)
                        one.close()
            for key in list(ready.get_map().values()):
                key.fileobj.close()

    with serving(serve):
        yield


def speaks(pod, neighbour):
    """Has a pod be answered by the Service, by UDP and TCP in both families, and send to another pod; gives its sockets, still open."""
    with pod.entered():
        families = socket.AF_INET, socket.AF_INET6
        all_of = [(kind, socket.socket(family, kind)) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM) for family in families]
        beside = [socket.socket(family, socket.SOCK_DGRAM) for family in families]
    for (kind, one), address in zip(all_of, ASKED * 2, strict=True):
        one.settimeout(60)
        one.connect((address, PORT))
        one.sendall(b"ping")
        assert one.recv(100) == b"ping", (pod.name, kind, address)
    # (Nobody is there; that is a session, too.)
    for one, address in zip(beside, neighbour, strict=True):
        one.sendto(b"ping", (address, PORT))
    return [*(one for _, one in all_of), *beside]


def sessions(daemon):
    """How many sessions quiverd has of pods and of those who speak with them."""
    return int(re.search(rf'^quiver_tenant_sessions{{tenant="{TENANT}"}} (\d+)$', daemon.scrape()[1], re.MULTILINE)[1])


def of(daemon, its):
    """Sessions that quiverd has with these addresses."""
    return [one for one in daemon.show("session").get("sessions", []) if {one["initiator"], one["responder"], one.get("backend")} & its]


def wave(node, api, number):
    """Pods are made, speak, and are deleted while their connections are open; returns their addresses, and how many sessions there were."""
    pods = [node.pod(f"s{number}") for _ in range(WAVE)]
    labels = {"app": "churn"}
    for pod in pods:
        api.put("Pod", pod.name, labels=labels, spec={"nodeName": "n1"})
    with concurrent.futures.ThreadPoolExecutor(HANDS) as hands:
        given = [addresses(result) for result in hands.map(node.add, pods)]
        for pod, its in zip(pods, given, strict=True):
            api.put("Pod", pod.name, labels=labels, spec={"nodeName": "n1"}, status={"podIPs": [{"ip": address} for address in its]})
        flat = {address for its in given for address in its}
        eventually(lambda: flat <= members(node.daemon), lambda: flat - members(node.daemon), timeout=60)
        opened = [one for some in hands.map(speaks, pods, given[1:] + given[:1]) for one in some]
        # Those with the Service, which were answered; of the others some may be over already.
        there = of(node.daemon, flat)
        assert len([one for one in there if one["responder"] in ASKED]) == 4 * WAVE, there
        list(hands.map(lambda pod: node.cni("del", pod), pods))
    for one in opened:
        one.close()
    for pod in pods:
        pod.remove()
        node.pods.remove(pod)
        api.delete("Pod", pod.name)
    return flat, len(there)


def members(daemon):
    """Addresses that policies let pass by label."""
    sets = [entry["object"]["address_set"] for entry in daemon.json("get", "address-set", "--status").get("objects", [])]
    return {address for one in sets for address in one.get("members", [])}


def test_500_pods_that_come_and_go_with_sessions_leave_none(host_node, host, api, told):
    node, daemon = host_node, host_node.daemon
    agent, quiverd = Process(node.agent.pid), Process(daemon.process.pid)
    eventually(lambda: ask(host, "/readyz")[0] == 200, lambda: ask(host, "/readyz"), timeout=60)
    server = node.pod("server")
    api.put("Pod", server.name, labels={"app": "web"}, spec={"nodeName": "n1"})
    its = addresses(node.add(server))
    ports = [{"name": word.lower(), "port": PORT, "protocol": word} for word in ("UDP", "TCP")]
    api.put("Service", "web", spec={"clusterIP": ASKED[0], "clusterIPs": ASKED, "ports": ports})
    for family, address in zip(("IPv4", "IPv6"), its, strict=True):
        labels = {"kubernetes.io/service-name": "web"}
        ends = [{"addresses": [address], "conditions": {"ready": True}}]
        api.put("EndpointSlice", f"web-{family}".lower(), labels=labels, addressType=family, endpoints=ends, ports=ports)
    peers = [{"podSelector": {"matchLabels": {"app": "churn"}}}]
    for app in ("web", "churn"):
        selects = {"podSelector": {"matchLabels": {"app": app}}, "policyTypes": ["Ingress"]}
        api.put("NetworkPolicy", app, spec={**selects, "ingress": [{"from": peers}]})
    eventually(lambda: len(daemon.show("vip").get("vips", [])) == 4, lambda: daemon.show("vip"), timeout=60)
    left = lambda: {
        "attachments": node.kept(),
        "objects": sorted(daemon.names()),
        "members": members(daemon),
        "devices": sorted(line.split(":")[1] for line in host.ip("-o", "link").stdout.splitlines()),
    }
    with everything_comes_back(server):
        before, figures, most = left(), [], []
        for number in range(WAVES):
            flat, there = wave(node, api, number)
            most.append(there)
            # Nobody else speaks. (By themselves, those of UDP would end after two minutes, and those of TCP after two hours.)
            rest = lambda flat=flat: (sessions(daemon), of(daemon, flat))
            eventually(lambda rest=rest: rest() == (0, []), rest, timeout=30)
            eventually(lambda: left() == before, lambda: (before, left()), timeout=60)
            figures.append((heap(daemon), agent.kib(), quiverd.kib()))
    heaps, agents, quiverds = zip(*figures, strict=True)
    told(
        f"churn with sessions: {WAVE * WAVES} pods, {sum(most)} sessions; KiB on quiverd's heap {heaps}, "
        f"of all its memory {quiverds}, of the agent's {agents}"
    )
    grown = [max(some[-2:]) - max(some[:WARM]) for some in (heaps, agents)]
    assert grown[0] <= HEAP_KIB and grown[1] <= AGENT_KIB, (grown, figures)
