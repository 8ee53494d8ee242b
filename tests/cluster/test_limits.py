"""How many sessions one source may have: whose are counted, by what the chart's settings say."""

import contextlib

from inside import inside
from lab.process import HANGS, Process, eventually
from workload import PORT, known, left, nothing_left, pods, server, service, services

# More than kubelet's probes and connections of theirs that end need. As many are asked for besides.
LIMIT = 20
TENANT = "pod:everybody"
# Connections from an address, all at once, that are kept; says how many are there by now.
HOLD = """
import selectors, socket, sys
source, address, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
waiting, there = selectors.DefaultSelector(), []
for _ in range(count):
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    one.setblocking(False)
    one.bind((source, 0))
    one.connect_ex((address, port))
    waiting.register(one, selectors.EVENT_WRITE)
while True:
    for key, _ in waiting.select():
        waiting.unregister(key.fileobj)
        if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            there.append(key.fileobj)
            print(len(there), flush=True)
"""

# Who is asked: he has room for all of these at once, which busybox's nc hasn't, and ends each connection when its client does.
SERVE = """
import selectors, socket, sys
listener = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1000)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
print("serves", flush=True)
while True:
    for key, _ in ready.select():
        one = key.fileobj
        if one is listener:
            ready.register(one.accept()[0], selectors.EVENT_READ)
            continue
        try:
            more = one.recv(1000)
        except ConnectionResetError:
            more = b""
        if not more:
            ready.unregister(one)
            one.close()
"""


def network(node):
    """Words that have a program of the machine run in a node's network, and end with them."""
    return ("nsenter", "-t", str(node.first), "--net")


@contextlib.contextmanager
def held(words, source, address, port, count):
    """Connections that somebody keeps; gives what says how many there are."""
    with Process(*words, "/usr/bin/python3", "-c", HOLD, source, address, port, count) as process:
        yield lambda: int(process.output().split()[-1]) if process.output() else 0


def refused(node):
    """Packets that would have begun a session which its source may not have."""
    return sum(int(drop["packets"]) for drop in node.quiver("show", "drops").get("drops", []) if drop["reason"] == "source-quota")


def all_of(words, source, address, port, count):
    """Waits until somebody has as many connections as he asks for."""
    with held(words, source, address, port, count) as there:
        eventually(lambda: there() == count, there, timeout=60)


def bounded(node, words, source, address, port):
    """Waits until somebody has as many connections as he may; the others are tried again, and refused again."""
    before = refused(node)
    with held(words, source, address, port, 2 * LIMIT) as there:
        eventually(lambda: there() == LIMIT and refused(node) >= before + LIMIT, lambda: (there(), refused(node) - before), timeout=60)
        since = refused(node)
        eventually(lambda: refused(node) >= since + LIMIT, lambda: refused(node) - since, timeout=60)
        assert there() == LIMIT


def over(node, address):
    """Waits until all sessions that somebody has begun on a node are over: only then do others have their room."""
    phases = lambda: [
        one["phase"] for one in node.quiver("show", "session", "--address", address).get("sessions", []) if one["initiator"] == address
    ]
    # (Kubelet may ask a pod at any time, which is no session of the pod's.)
    eventually(lambda: {*phases()} <= {"time_wait"}, phases, timeout=60)


def settled(cluster, **settings):
    """Has agents follow settings, and waits until they are in force on all nodes."""
    cluster.quiver.set(**settings)
    for node in cluster.nodes:
        tenant = lambda node=node: node.quiver("get", "tenant", TENANT, "--status")["objects"][0]["object"]["tenant"]
        exempt = lambda tenant=tenant: "pod:host" in tenant().get("source_exempt_interfaces", [])
        wanted = settings["maxSessionsPerSource"], settings["maxSessionsPerSource"] > 0 and settings["countedSources"] == "pods"
        now = lambda tenant=tenant, exempt=exempt: (tenant().get("max_sessions_per_source", 0), exempt())
        # (Kubelet looks at what it has mounted once a minute.)
        eventually(lambda now=now, wanted=wanted: now() == wanted, now, timeout=2 * HANGS)


def test_sessions_of_who_asks_from_outside_are_counted_if_all_are(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    # Who asks at a node is seen as himself by pods of that node.
    outside = service("web", "web", (7, PORT + 2), type="NodePort", externalTrafficPolicy="Local")
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, server("a", n1), server("b", n1, app="web")))
        made = stack.enter_context(services(cluster, outside))["web"]["spec"]
        known(cluster, made["clusterIPs"], 7, [of["b"]])
        served = stack.enter_context(Process(*inside(n1, "b"), "/usr/bin/python3", "-c", SERVE, PORT + 2))
        eventually(lambda: "serves" in served.output(), served.output, timeout=60)
        port = made["ports"][0]["nodePort"]
        # As it was for those after this one, whatever comes.
        stack.callback(settled, cluster, maxSessionsPerSource=0, countedSources="pods")
        families = list(zip(n2.addresses, n1.addresses, of["a"], made["clusterIPs"], strict=True))
        settled(cluster, maxSessionsPerSource=LIMIT, countedSources="pods")
        for client, node, pod, asked in families:
            all_of(network(n2), client, node, port, 2 * LIMIT)
            bounded(n1, inside(n1, "a"), pod, asked, 7)
        settled(cluster, maxSessionsPerSource=LIMIT, countedSources="all")
        for client, node, pod, asked in families:
            for own in (client, pod):
                over(n1, own)
            bounded(n1, network(n2), client, node, port)
            bounded(n1, inside(n1, "a"), pod, asked, 7)
            # Each address is counted for itself.
            over(n1, client)
            with held(network(n2), client, node, port, 2 * LIMIT) as there:
                eventually(lambda there=there: there() == LIMIT, there, timeout=60)
                all_of(network(n1), node, asked, 7, LIMIT // 2)
        # The node's own probes still find room.
        assert cluster.quiver.ready(n1)
        settled(cluster, maxSessionsPerSource=0, countedSources="pods")
        for client, node, _, _ in families:
            all_of(network(n2), client, node, port, 2 * LIMIT)
    nothing_left(cluster, before)
