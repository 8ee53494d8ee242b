"""kubectl-quiver on a cluster: what it says of packets and Services, and whether that is so."""

import contextlib
import json
import re
import signal
import subprocess
import tempfile

from lab.process import HANGS, Process, eventually, run, tool
from testbed import dns
from workload import (
    PORT,
    by_label,
    fetch,
    known,
    left,
    memif,
    nothing_left,
    pinging,
    pods,
    policies,
    policy,
    server,
    service,
    services,
    tried,
)

# An address out of the cluster, of each family, and who answers there.
OUTSIDE = ("203.0.113.9", "2001:db8:113::9")
OUTSIDE_PORT = 7777
ANSWERS = (
    "import socket\n"
    "with socket.create_server(('::', {port}), family=socket.AF_INET6, dualstack_ipv6=True) as server:\n"
    "    while True:\n"
    "        connection, peer = server.accept()\n"
    "        with connection:\n"
    "            connection.recv(1000)\n"
    "            connection.sendall(b'200 OK ' + peer[0].removeprefix('::ffff:').encode() + b'\\n')\n"
)


def command(cluster, *words):
    """The command line that asks."""
    return (*cluster.control.outside, tool("kubectl-quiver"), "--kubeconfig", cluster.control.admin, *words)


def ask(cluster, *words, **options):
    """Asks, to its end."""
    return run(*command(cluster, *words), **options)


@contextlib.contextmanager
def outside(cluster):
    """Who is behind the nodes' router, and knows nothing of pods."""
    inside = ("ip", "-n", cluster.switch)
    added = [("10.200.0.254/24", "br0"), ("fd00:200::254/64", "br0"), (f"{OUTSIDE[0]}/32", "lo"), (f"{OUTSIDE[1]}/128", "lo")]
    run(*inside, "link", "set", "lo", "up")
    for address, device in added:
        run(*inside, "address", "add", address, "dev", device, *(("nodad",) if ":" in address else ()))
    try:
        with Process("ip", "netns", "exec", cluster.switch, "python3", "-c", ANSWERS.format(port=OUTSIDE_PORT)) as process:
            listens = lambda: str(OUTSIDE_PORT) in run("ip", "netns", "exec", cluster.switch, "ss", "-ltn").stdout
            eventually(listens, process.output, timeout=60)
            yield
    finally:
        for address, device in added:
            run(*inside, "address", "del", address, "dev", device, check=False)


def test_what_pods_send_out_of_the_cluster_has_their_nodes_address(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with outside(cluster), pods(cluster, server("a", n1), server("c", n2)):
        for pod, node in (("a", n1), ("c", n2)):
            assert [fetch(cluster, pod, address, OUTSIDE_PORT) for address in OUTSIDE] == [*node.addresses]
    nothing_left(cluster, before)


def test_settings_change_while_pods_talk(cluster):
    """What pods send out of the cluster keeps their own addresses, and has their nodes' again: nothing is replaced, and no ping is lost."""
    n1, n2 = cluster.nodes
    before = left(cluster)
    names = [cluster.quiver.pod(node)["metadata"]["name"] for node in cluster.nodes]
    restarts = [cluster.quiver.restarts(node) for node in cluster.nodes]
    ways = [(prefix, via) for node in cluster.nodes for prefix, via in zip(cluster.ranges(node), node.addresses, strict=True)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(outside(cluster))
        # The network outside leads to pods, for once. (With the address of its device, it is gone.)
        for prefix, via in ways:
            run("ip", "-n", cluster.switch, "route", "add", prefix, "via", via)
            stack.callback(run, "ip", "-n", cluster.switch, "route", "del", prefix, check=False)
        of = stack.enter_context(pods(cluster, server("a", n1), server("c", n2)))
        places = [(pod, address) for pod in "ac" for address in OUTSIDE] + [("a", address) for address in of["c"]]
        pings = [stack.enter_context(pinging(cluster, *place)) for place in places]
        # As it was for those after this one, whatever comes.
        stack.callback(cluster.quiver.set, natOutgoing="both")
        for word, expected in (("none", [*of["a"], *of["c"]]), ("both", [*n1.addresses, *n2.addresses])):
            cluster.quiver.set(natOutgoing=word)
            now = lambda: [fetch(cluster, pod, address, OUTSIDE_PORT) for pod in "ac" for address in OUTSIDE]
            # (Kubelet looks at what it has mounted once a minute.)
            eventually(lambda now=now, expected=expected: now() == expected, now, timeout=2 * HANGS)
        for ping in pings:
            ping.goes_on()
            assert ping.lost() == 0, ping.summary()
    assert names == [cluster.quiver.pod(node)["metadata"]["name"] for node in cluster.nodes]
    assert restarts == [cluster.quiver.restarts(node) for node in cluster.nodes]
    nothing_left(cluster, before)


def test_explain_says_who_is_behind_a_service_and_what_policies_say(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, server("a", n1), server("c", n2, app="web")))
        made = stack.enter_context(services(cluster, service("web", "web", (80, PORT)), service("none", "nobody", (80, PORT))))
        known(cluster, made["web"]["spec"]["clusterIPs"], 80, [of["c"]])
        said = ask(cluster, "explain", "a", "svc/web:p80")
        rows = [line.split(maxsplit=4) for line in said.stdout.splitlines()[1:]]
        at = lambda address, port: f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        want = []
        for own, vip, pod in zip(of["a"], made["web"]["spec"]["clusterIPs"], of["c"], strict=True):
            want += [(own, at(vip, 80), "n1"), (own, at(pod, PORT), "n1"), (own, at(pod, PORT), "n2")]
        assert [tuple(row[:3]) for row in rows] == want, said.stdout
        assert all(row[3] == "passes" for row in rows) and f"is given the backend {at(of['c'][0], PORT)}" in rows[0][4], said.stdout

        # Where it is asked by its address, it is the same.
        vip = made["web"]["spec"]["clusterIPs"][0]
        same = ask(cluster, "explain", "a", vip, "tcp/80")
        assert "Service default/web, tcp/80 (p80) at its cluster address: is given the backend" in same.stdout, same.stdout
        told = json.loads(ask(cluster, "explain", "a", vip, "tcp/80", "--output", "json").stdout)
        assert told["passes"] and told["verdicts"][0]["service"] == "default/web", told
        assert told["verdicts"][0]["endpoints"] == [{"address": at(of["c"][0], PORT), "node": "n2", "chosen": True}], told
        for wrong in ("tcp/70000", "tcp/http", "80"):
            failed = ask(cluster, "explain", "a", vip, wrong, check=False)
            assert failed.returncode == 2 and f'"{wrong}"' in failed.stderr and not failed.stdout, failed

        refused = ask(cluster, "explain", "a", "svc/default/none", check=False)
        assert refused.returncode == 1 and "no endpoint of it is ready" in refused.stdout, refused.stdout + refused.stderr
        stack.enter_context(
            policies(cluster, policy("closed", "web", policyTypes=["Ingress"], ingress=[{"from": [by_label(app="friend")]}]))
        )
        denied = lambda: ask(cluster, "explain", "a", "svc/web", "tcp/80", check=False)
        eventually(lambda: denied().returncode == 1, lambda: denied().stdout, timeout=60, interval=0.3)
        assert "no rule of NetworkPolicy default/closed" in denied().stdout
        behind = ask(cluster, "explain", "a", vip, "tcp/80", check=False)
        assert behind.returncode == 1 and "no rule of NetworkPolicy default/closed" in behind.stdout, behind
        assert tried(cluster, "a", vip, 80) != "answered"
    nothing_left(cluster, before)


def test_explain_knows_hosts_and_those_outside_and_what_it_says_is_so(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, server("b", n1), server("c", n2, app="web")))
        wanted = service("web", "web", (80, PORT), type="NodePort", externalIPs=["203.0.113.7"], externalTrafficPolicy="Local")
        made = stack.enter_context(services(cluster, wanted, service("inside", "web", (80, PORT))))["web"]["spec"]
        asked, port = made["clusterIPs"], made["ports"][0]["nodePort"]
        known(cluster, asked, 80, [of["c"]])
        at = lambda address, number: f"[{address}]:{number}" if ":" in address else f"{address}:{number}"
        rows = lambda said: [line.split(maxsplit=4) for line in said.stdout.splitlines()[1:]]
        # A host asks its own node, and so does a pod by its address.
        for source, node in ((n1.addresses[0], "n1"), (of["b"][0], "n1")):
            said = ask(cluster, "explain", source, "svc/web")
            assert [tuple(row[:4]) for row in rows(said)][:1] == [(source, at(asked[0], 80), node, "passes")], said.stdout
            assert f"is given the backend {at(of['c'][0], PORT)}" in said.stdout, said.stdout
        assert fetch(cluster, n1, asked[0], 80) == "c"
        # Whoever is outside may come by any node: one has a pod, the other doesn't send it on.
        for family, source in enumerate(OUTSIDE):
            said = ask(cluster, "explain", source, "svc/web", check=False)
            first = {(row[1], row[2]): row[3] for row in rows(said)}
            ports = {(at(node.addresses[family], port), node.name): verdict for node, verdict in ((n1, "denied"), (n2, "passes"))}
            assert said.returncode == 1 and first.items() >= ports.items(), said.stdout + said.stderr
            assert "its endpoints are on other nodes" in said.stdout, said.stdout
            if family == 0:
                assert first.items() >= {("203.0.113.7:80", "n1"): "denied", ("203.0.113.7:80", "n2"): "passes"}.items(), said.stdout
        for node, how in ((n1, "silent"), (n2, "answered")):
            other = n2 if node is n1 else n1
            assert tried(cluster, other, node.addresses[0], port) == how
        # A node's port that is asked from a pod of the other node, as that node has it.
        said = ask(cluster, "explain", "b", n2.addresses[0], f"tcp/{port}")
        assert "default/web, tcp/80 (p80) at its node port: is given the backend" in said.stdout, said.stdout
        assert fetch(cluster, "b", n2.addresses[0], port) == "c"
        # What a node itself has at a port isn't known.
        said = ask(cluster, "explain", "b", n2.addresses[0], "tcp/10250", check=False)
        assert said.returncode == 1 and [row[3] for row in rows(said)] == ["passes", "unknown"], said.stdout + said.stderr
        # Where nothing is for them it is said.
        said = ask(cluster, "explain", OUTSIDE[0], "svc/inside", check=False)
        assert said.returncode == 1 and "no external address and no node port" in said.stderr, said
    nothing_left(cluster, before)


def test_the_connectivity_test_passes_and_leaves_nothing(cluster):
    before, namespaces = left(cluster), cluster.control.kubectl("get", "namespace", "-o", "name").stdout
    with outside(cluster), dns.installed(cluster.control):
        done = ask(cluster, "connectivity-test", "--outside", f"{OUTSIDE[0]}:{OUTSIDE_PORT}", "-o", "json", check=False, timeout=2 * HANGS)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["nodes"] == ["n1", "n2"] and report["failed"] == 0, done.stdout
    assert {one["check"] for one in report["checks"] if one["outcome"] == "left out"} == set(), done.stdout
    both = {(one["check"], one.get("family")) for one in report["checks"] if one["outcome"] == "passed"}
    for check in (
        "pod to pod on another node",
        "pod to Service",
        "pod to node port of another node",
        "host to pod on another node",
        "policy denies",
    ):
        assert {(check, "IPv4"), (check, "IPv6")} <= both, done.stdout
    assert cluster.control.kubectl("get", "namespace", "-o", "name").stdout == namespaces
    nothing_left(cluster, before)


def test_the_connectivity_test_tells_of_what_fails_and_what_to_look_at(cluster):
    """Nobody answers outside; one node is enough for the rest."""
    before = left(cluster)
    words = ("connectivity-test", "--nodes", "n2", "--timeout", "3s", "--outside", f"{OUTSIDE[0]}:1")
    done = ask(cluster, *words, check=False, timeout=2 * HANGS)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == 1 and len(failed) == 1 and "pod to outside" in failed[0], done.stdout + done.stderr
    assert "look at: natOutgoing" in done.stdout and ", 1 failed, " in done.stdout, done.stdout
    nothing_left(cluster, before)


def test_an_interrupted_connectivity_test_takes_its_namespace_away(cluster):
    before = left(cluster)
    its = lambda: [
        name for name in cluster.control.kubectl("get", "namespace", "-o", "name").stdout.split() if "quiver-connectivity-" in name
    ]
    with Process(*command(cluster, "connectivity-test")) as process:
        eventually(its, process.output, timeout=HANGS, interval=0.1)
        process.signal(signal.SIGINT)
        assert process.wait() == 130, process.output()
    eventually(lambda: not its(), process.output, timeout=HANGS, interval=0.3)
    nothing_left(cluster, before)


def test_trace_drops_and_pcap_show_packets_of_a_pod(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1), server("c", n2)) as of, tempfile.TemporaryFile() as captured:
        with pinging(cluster, "a", of["c"][0]):
            traced = json.loads(
                ask(cluster, "trace", "a", "--to", "c", "--proto", "icmp", "--count", "2", "--timeout", "60s", "--output", "json").stdout
            )
            nodes = [[hop["node"] for hop in way["hops"]] for way in traced["packets"]]
            assert len(nodes) >= 2 and ["n1", "n2"] in nodes, traced
            table = ask(cluster, "trace", "a", "--to", "c", "--count", "1", "--timeout", "60s").stdout
            assert re.search(r"^  n1, from pod:default\.a:", table, re.MULTILINE) and "tap-input" in table, table
            assert "Packet 2" not in table, table
            with subprocess.Popen(command(cluster, "pcap", "a", "--count", "4"), stdout=captured) as process:
                assert process.wait(HANGS) == 0
        captured.seek(0)
        assert captured.read(4) == bytes.fromhex("0a0d0d0a")
        assert captured.seek(0, 2) > 4 * 84
        # Whoever has enough ends it, and nothing of it stays on the node.
        running = lambda: n1.pids("quiver")
        with subprocess.Popen(command(cluster, "pcap", "a"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            eventually(running, "a capture runs on the node", timeout=60)
            process.send_signal(signal.SIGINT)
            assert process.wait(HANGS) == 0
            assert "cancel" not in process.stderr.read()
        eventually(lambda: not running(), running, timeout=60)
        # So ends a trace, with what it has seen.
        with pinging(cluster, "a", of["c"][0]):
            words = command(cluster, "trace", "a", "--to", "c", "--count", "100", "--timeout", "600s", "--output", "json")
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                seen = lambda: json.loads(n1.run(tool("quiver"), "trace", "show", "--output", "json").stdout).get("packets")
                eventually(seen, "packets are traced on the node", timeout=60)
                process.send_signal(signal.SIGINT)
                out, failures = process.communicate(timeout=HANGS)
        assert process.returncode == 130 and "interrupted" in failures, failures
        assert not out or json.loads(out)["interrupted"], out
        # What nobody has is unreachable, and counted.
        cluster.control.exec("a", "ping", "-c", 1, "-W", "1", of["a"][0].rpartition(".")[0] + ".200", check=False)
        drops = ask(cluster, "drops").stdout
        assert "n1:\n" in drops and "n2:\n" in drops and "unreachable" in drops, drops
        assert "n1:\n" in ask(cluster, "sessions").stdout
        assert ask(cluster, "trace", "a", "--to", "192.0.2.1", "--timeout", "2s", check=False).returncode == 1
    nothing_left(cluster, before)


def test_a_pods_annotation_says_what_interfaces_it_has(cluster):
    n1, _ = cluster.nodes
    before = left(cluster)
    with pods(cluster, memif("m", n1), server("b", n1)) as of:
        text = lambda pod: cluster.control.get("pod", pod)["metadata"].get("annotations", {}).get("quiver.io/status", "{}")
        of_pod = lambda pod: {one["name"]: one for one in json.loads(text(pod)).get("interfaces", [])}
        connected = lambda: of_pod("m").get("memif-eth0", {}).get("connected")
        eventually(connected, lambda: text("m"), timeout=60, interval=0.3)
        its = of_pod("m")
        assert its["eth0"]["addresses"] == its["memif-eth0"]["addresses"] == of["m"], its
        assert its["memif-eth0"]["socket"] == "@vpp/memif-eth0" and its["memif-eth0"]["bufferSize"] > 0 and its["memif-eth0"]["since"], its
        eventually(lambda: [*of_pod("b")] == ["eth0"], lambda: text("b"), timeout=60, interval=0.3)
    nothing_left(cluster, before)
