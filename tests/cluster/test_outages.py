"""What pods keep while those are away who tell their network what to do."""

import contextlib
import json
import time

from inside import PingsInside, inside, passes, record, records, talk
from lab.process import HANGS, eventually, tool
from workload import (
    MEMIF_PORT,
    PORT,
    by_label,
    fetch,
    goes_on,
    known,
    left,
    memif,
    must_echo,
    nothing_left,
    pings_again,
    pods,
    policies,
    policy,
    server,
    service,
    services,
)

METRICS = "exec 3<>/dev/tcp/127.0.0.1/9478; printf 'GET {} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
NETWORK = "/etc/cni/net.d/10-quiver.conflist"


def asked(node, path):
    """What the agent of a node says of itself."""
    return node.run("bash", "-c", METRICS.format(path), check=False).stdout


def started_again(node, name):
    """Kills a container's process; returns what waits until there is another one. Kubelet alone does that."""
    (before,) = node.pids(name)
    node.signal(name, 9)
    about = lambda: [line for line in node.log("kubelet").splitlines() if name in line][-5:]
    eventually(lambda: node.pids(name) not in ([], [before]), about, timeout=HANGS, interval=0.3)


def plugin(node, command, **variables):
    """Calls quiver-cni on a node as the runtime does; returns the exit status and the answer."""
    network = json.loads(node.run("cat", NETWORK).stdout)
    # (STATUS is of 1.1.)
    text = {"cniVersion": "1.1.0", "name": network["name"], **network["plugins"][0]}
    words = [f"CNI_{key}={value}" for key, value in {"COMMAND": command, "PATH": "/opt/cni/bin", **variables}.items()]
    done = node.run("env", *words, "/opt/cni/bin/quiver-cni", stdin=json.dumps(text), check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}


def test_a_node_boots_and_its_pods_come_back(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1), server("b", n2), memif("m", n2)), PingsInside(inside(n1, "a"), n1.addresses[0]) as ping:
        old = {name: record(n2, name)["container"] for name in ("b", "m")}
        n2.cut_power()
        cluster.boot(n2)
        # It is there for others, and nobody of ours is.
        for address in n2.addresses:
            n1.run("ping", "-n", "-c", 3, "-w", 60, address)
        assert "quiver" not in n2.network() and n2.pids("quiverd") == []
        began = time.monotonic()
        n2.start_containerd()
        cluster.start_kubelet(n2)

        def anew(name):
            """A pod's addresses, if it has another sandbox than before."""
            kept = [one for one in records(n2) if one["podName"] == name]
            return kept[0]["addresses"] if len(kept) == 1 and kept[0]["container"] != old[name] else None

        trouble = lambda: (records(n2), cluster.control.kubectl("get", "pods", "-A", "-o", "wide").stdout, n2.log("kubelet")[-3000:])
        of = {name: eventually(lambda name=name: anew(name), trouble, timeout=HANGS, interval=0.3) for name in old}
        eventually(lambda: cluster.quiver.ready(n2), trouble, timeout=HANGS, interval=0.3)
        for name, own in of.items():
            told_so = lambda name=name, own=own: (
                [entry["ip"] for entry in cluster.control.get("pod", name)["status"].get("podIPs", [])] == own
            )
            eventually(told_so, trouble, timeout=HANGS, interval=0.3)
        told(f"node booted: its pods had networks {time.monotonic() - began:.1f} s after its runtime had been started")
        for address in of["b"]:
            pings_again(cluster, "a", address)
            eventually(lambda address=address: passes(inside(n1, "a"), address), "b answers", timeout=60)
        for address in of["m"]:
            must_echo(n1, address, MEMIF_PORT)
        # Who was on the other node has seen nothing of it.
        ping.goes_on()
        assert ping.lost() == 0, ping.output()
    nothing_left(cluster, before)


def test_pods_keep_everything_while_the_api_server_is_down(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1, role="client"), server("other", n1), server("web", n2, app="web"), memif("m", n2)
    web = service("web", "web", (80, PORT), (7, PORT + 1))
    only = policy("web", "web", ingress=[{"from": [by_label(role="client")]}])
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, *wanted))
        made = stack.enter_context(services(cluster, web))
        stack.enter_context(policies(cluster, only))
        asks = made["web"]["spec"]["clusterIPs"]
        known(cluster, asks, 80, [of["web"]])
        a, other = inside(n1, "a"), inside(n1, "other")
        for address in asks:
            eventually(lambda address=address: not passes(other, address, 80, 3), "the policy is in force", timeout=60)

        def all_is_well():
            for address in asks:
                assert passes(a, address, 80), address
                assert not passes(other, address, 80, 2), "the policy is in force"
            for address in of["m"]:
                must_echo(n1, address, MEMIF_PORT)

        pings = [stack.enter_context(PingsInside(a, address)) for address in of["web"]]
        lines = [stack.enter_context(talk(a, address, 7)) for address in asks]
        all_is_well()
        goes_on(lines)

        control = cluster.control
        control.kill_server()
        stack.callback(lambda: control.serve() if not control.components["kube-apiserver"].alive() else None)
        all_is_well()
        # Agents that know nothing but what is on disk take nothing away.
        for node in cluster.nodes:
            started_again(node, "quiver-agent")
        for node in cluster.nodes:
            has = f"quiver_agent_attachments {len(node.kept())}\n"
            eventually(lambda node=node, has=has: has in asked(node, "/metrics"), lambda node=node: asked(node, "/metrics"), timeout=60)
            waits = lambda node=node: "no addresses for pods yet" in asked(node, "/readyz")
            eventually(waits, lambda node=node: asked(node, "/readyz"), timeout=60)
        all_is_well()
        goes_on(lines)
        # A pod of which nobody can say what it shall have isn't made, and may be asked for again.
        status, answer = plugin(n1, "STATUS")
        assert status != 0 and answer["code"] == 50 and "podCIDRs" in answer["details"], answer
        sandbox = {"IFNAME": "eth0", "NETNS": record(n1, "a")["netns"], "ARGS": "K8S_POD_NAMESPACE=default;K8S_POD_NAME=new;K8S_POD_UID=u"}
        status, answer = plugin(n1, "ADD", CONTAINERID="new", **sandbox)
        assert status != 0 and answer["code"] == 11 and "API server" in answer["details"], answer
        assert len(n1.kept()) == 2
        for ping in pings:
            ping.goes_on()
            assert ping.lost() == 0, ping.output()
        # quiverd knows by itself what it had.
        started_again(n1, "quiverd")
        for ping in pings:
            ping.goes_on()
            told(f"quiverd killed while the API server is down: no answer for {ping.pause():.1f} s")
        all_is_well()

        control.serve()
        for node in cluster.nodes:
            eventually(lambda node=node: cluster.quiver.ready(node), lambda node=node: asked(node, "/readyz"), timeout=HANGS, interval=0.3)
        # Whatever happens now is heard of.
        with pods(cluster, server("late", n1, role="client"), server("web2", n1, app="web")) as more:
            given = [address for some in (of, more) for both in some.values() for address in both]
            assert len({*given}) == len(given), (of, more)
            known(cluster, asks, 80, [of["web"], more["web2"]])
            for address in asks:
                assert fetch(cluster, "late", address, 80) in ("web", "web2")
        known(cluster, asks, 80, [of["web"]])
        control.kubectl("delete", "networkpolicy", "web")
        for address in asks:
            eventually(lambda address=address: passes(other, address, 80, 3), "there is no policy any more", timeout=60)
        for ping in pings:
            ping.goes_on()
    nothing_left(cluster, before)


def test_pods_that_were_guarded_stay_shut_while_nobody_knows_who_may_pass(cluster):
    """The agent is started anew, quiverd has lost all it knew, and the API server is down."""
    _, n2 = cluster.nodes
    before, control = left(cluster), cluster.control
    wanted = server("a", n2, role="client"), server("other", n2), server("web", n2, app="web"), server("free", n2)
    only = policy("web", "web", ingress=[{"from": [by_label(role="client")]}])
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, *wanted))
        stack.enter_context(policies(cluster, only))
        a, other = inside(n2, "a"), inside(n2, "other")
        kept = n2.directory / "lib/quiver/pods/guarded.json"
        for address in of["web"]:
            eventually(lambda address=address: not passes(other, address, patience=3), "the policy is in force", timeout=60)
            assert passes(a, address) and address in kept.read_text()

        control.kill_server()
        stack.callback(lambda: control.serve() if not control.components["kube-apiserver"].alive() else None)
        agents, daemons = n2.pids("quiver-agent"), n2.pids("quiverd")
        # (It writes what changes, and nothing does.)
        n2.run("sh", "-c", "rm -f /var/lib/quiver/state.jsonl* /var/lib/quiver/journal-*")
        n2.run("kill", "-9", *agents, *daemons)
        again = lambda: n2.pids("quiver-agent") not in ([], agents) and n2.pids("quiverd") not in ([], daemons)
        eventually(again, lambda: n2.log("kubelet")[-3000:], timeout=HANGS, interval=0.3)
        # Whom no policy was for is reached: pods have their network again. Whom one was for is reached by nobody, also not by who may.
        for free, web in zip(of["free"], of["web"], strict=True):
            eventually(lambda free=free: passes(other, free, patience=3), lambda: n2.run(tool("quiver"), "get").stdout, timeout=HANGS)
            for who in (a, other):
                assert not passes(who, web, patience=3), (who, web)
        assert "np:closed" in n2.run(tool("quiver"), "get", "acl").stdout

        control.serve()
        for address in of["web"]:
            eventually(lambda address=address: passes(a, address, patience=3), "who may passes again", timeout=HANGS)
            assert not passes(other, address, patience=3)
        for node in cluster.nodes:
            eventually(lambda node=node: cluster.quiver.ready(node), lambda node=node: asked(node, "/readyz"), timeout=HANGS, interval=0.3)
        assert "np:closed" not in n2.run(tool("quiver"), "get", "acl").stdout
    nothing_left(cluster, before)
