"""NetworkPolicies, as pods on both interfaces and nodes see them."""

import contextlib
import json
import time

from lab.process import HANGS, Process, eventually, run, tool
from testbed import image
from workload import (
    PORT,
    asker,
    by_label,
    events,
    fetch,
    generator,
    known,
    left,
    memif,
    nothing_left,
    pods,
    policies,
    policy,
    server,
    service,
    services,
    through,
)


def passes(cluster, client, address, port=PORT):
    """Whether a pod, or a node, gets an answer, by TCP."""
    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {address} {port}"
    if isinstance(client, str):
        return "200 OK" in cluster.control.exec(client, "sh", "-c", ask, check=False).stdout
    ask = f"exec 3<>/dev/tcp/{address}/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    return "200 OK" in client.run("timeout", "3", "bash", "-c", ask, check=False).stdout


def becomes(cluster, client, address, expected, port=PORT):
    """Waits until an answer comes, or none any more."""
    there = lambda: passes(cluster, client, address, port) == expected
    eventually(there, lambda: f"{client} to {address} port {port}: passes {expected}", timeout=60)


def test_who_may_ask_a_pod(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("web", n1, app="web"), server("near", n1, role="client"), server("far", n2, role="client"), server("other", n2)
    with pods(cluster, *wanted) as of:
        with policies(cluster, policy("web", "web", policyTypes=["Ingress"])):
            for address in of["web"]:
                for client in ("near", "far", "other", n2):
                    becomes(cluster, client, address, False)
                # Its own node always reaches it, kubelet is there.
                assert passes(cluster, n1, address)
            # What it asks itself comes back.
            assert asker(cluster, "web", of["other"][0], PORT) == of["web"][0]
            more = policy("more", "web", ingress=[{"from": [by_label(role="client")], "ports": [{"port": PORT}]}])
            with policies(cluster, more):
                for address in of["web"]:
                    for client in ("near", "far"):
                        becomes(cluster, client, address, True)
                    for client in ("other", n2):
                        assert not passes(cluster, client, address)
                    assert not passes(cluster, "near", address, PORT + 1)
                explained(cluster, of)
                # Whoever becomes a client is one.
                cluster.control.kubectl("label", "pod", "other", "role=client")
                becomes(cluster, "other", of["web"][0], True)
                cluster.control.kubectl("label", "pod", "other", "role-")
                becomes(cluster, "other", of["web"][0], False)
            becomes(cluster, "near", of["web"][0], False)
        becomes(cluster, "other", of["web"][1], True)
    nothing_left(cluster, before)
    ruled(cluster, 1)


def explained(cluster, of):
    """The nodes of both ends say what was seen, and name the policies."""
    ask = lambda *words: run(
        *cluster.control.outside, tool("kubectl-quiver"), "--kubeconfig", cluster.control.admin, "explain", *words, check=False
    )
    may, may_not = ask("far", "web", f"tcp/{PORT}"), ask("other", "default/web", f"tcp/{PORT}")
    assert (may.returncode, may_not.returncode) == (0, 1), (may, may_not)
    row = lambda client, node, verdict, because: [(of[client][i], of["web"][i], node, verdict, because) for i in (0, 1)]
    silent, decides = "no policy is for it", "ingress: ingress-0.0 of NetworkPolicy default/more"
    assert table(may) == sorted(row("far", "n2", "passes", silent) + row("far", "n1", "passes", decides)), may.stdout
    refused = "ingress: no rule of NetworkPolicy default/more, NetworkPolicy default/web"
    assert table(may_not) == sorted(row("other", "n2", "passes", silent) + row("other", "n1", "denied", refused)), may_not.stdout
    # From outside only the receiver's node is asked.
    outside = ask("192.0.2.1", "web", f"tcp/{PORT}")
    assert outside.returncode == 1 and [line[2:4] for line in table(outside)] == [("n1", "denied")], outside


def table(done):
    """Rows of a table, whose last column is a sentence."""
    return sorted(tuple(line.split(maxsplit=4)) for line in done.stdout.splitlines()[1:])


def ruled(cluster, lists):
    """Nothing of policies is in quiverd but what is always there."""
    for node in cluster.nodes:
        there = lambda node=node: [
            len(node.quiver("get", kind, "--status").get("objects", [])) for kind in ("acl", "endpoint", "address-set")
        ]
        eventually(lambda there=there: there() == [lists, 0, 0], there, timeout=60)


def test_whom_a_pod_may_ask(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1, app="asks"), server("b", n1, app="web"), server("c", n2, app="web"), server("d", n2)
    with pods(cluster, *wanted) as of, services(cluster, service("web", "web", (80, PORT))) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, [of["b"], of["c"]])
        rule = {"to": [by_label(app="web")], "ports": [{"port": PORT}]}
        with policies(cluster, policy("asks", "asks", policyTypes=["Egress"], egress=[rule])):
            becomes(cluster, "a", of["d"][0], False)
            for family in (0, 1):
                # By the Service, too: what counts is who is behind it.
                for address, port in ((of["b"][family], PORT), (of["c"][family], PORT), (asked[family], 80)):
                    assert fetch(cluster, "a", address, port) in ("b", "c")
                assert not passes(cluster, "a", of["d"][family])
                assert not passes(cluster, "a", n2.addresses[family], 10250)
            assert fetch(cluster, "d", of["a"][0]) == "a"
    nothing_left(cluster, before)
    ruled(cluster, 1)


def test_a_policy_cuts_connections_that_are_there_and_others_go_on(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with (
        pods(cluster, server("web", n1, app="web"), server("good", n2, role="good"), server("bad", n2)) as of,
        contextlib.ExitStack() as stack,
    ):
        # (It listens there a moment after it is ready.)
        listens = lambda: cluster.control.exec("good", "sh", "-c", f"nc -w 1 {of['web'][0]} {PORT + 1} </dev/null", check=False)
        eventually(lambda: listens().returncode == 0, "web listens", timeout=60)
        talk = "(n=0; while true; do n=$((n+1)); echo line $n; sleep 0.1; done) | nc {} {}"
        good, bad = (
            stack.enter_context(Process(*cluster.control.client, "exec", name, "--", "sh", "-c", talk.format(of["web"][0], PORT + 1)))
            for name in ("good", "bad")
        )
        goes_on(good)
        goes_on(bad)
        with policies(cluster, policy("web", "web", ingress=[{"from": [by_label(role="good")]}])):
            eventually(lambda: silent(bad), "it is cut", timeout=60)
            goes_on(good)
            # The agent's absence, and its return, change nothing.
            back = cluster.quiver.kill(n1, "quiver-agent")
            goes_on(good)
            assert silent(bad)
            back()
            goes_on(good)
            assert silent(bad)
        # The same connection comes back.
        goes_on(bad)
        goes_on(good)
        numbers = [int(text.split()[1]) for text in good.output().splitlines()[:-1]]
        assert numbers == [*range(1, len(numbers) + 1)]
    nothing_left(cluster, before)


def lines(connection):
    """How many lines have come back."""
    return len(connection.output().splitlines())


def goes_on(connection):
    """Waits until more come back."""
    seen = lines(connection)
    eventually(lambda: lines(connection) > seen + 5, connection.output, timeout=60)


def silent(connection):
    """Whether none comes back for three seconds."""
    seen = lines(connection)
    time.sleep(3)
    return lines(connection) == seen


def test_memifs_are_guarded_as_eth0_is(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, memif("m", n1, app="echo"), generator("x", n1), generator("y", n2, role="client")) as of:
        rule = {"from": [by_label(role="client")], "ports": [{"port": 4444, "protocol": "UDP"}]}
        with policies(cluster, policy("echo", "echo", ingress=[rule])):
            for family in (0, 1):
                ask = lambda name, family=family: through(cluster, name, of[name][family], of["m"][family], 4444)
                eventually(lambda ask=ask: (end := ask("y"))["received"] == end["sent"] > 0, "y is let pass", timeout=60)
                eventually(lambda ask=ask: ask("x")["received"] == 0, "x is not", timeout=60)
        ask = lambda: through(cluster, "x", of["x"][0], of["m"][0], 4444)
        eventually(lambda: (end := ask())["received"] == end["sent"] > 0, "x is, without a policy", timeout=60)
    nothing_left(cluster, before)


def test_whom_a_memif_may_ask_and_who_it(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = generator("x", n1, app="asks"), memif("near", n1, app="echo"), memif("far", n2, app="echo"), memif("other", n2)
    at_port = [{"port": 4444, "protocol": "UDP"}]
    out = policy("asks", "asks", policyTypes=["Egress"], egress=[{"to": [by_label(app="echo")], "ports": at_port}])
    into = policy("echo", "echo", ingress=[{"from": [by_label(app="asks")], "ports": at_port}])
    with pods(cluster, *wanted, generator("y", n2)) as of:
        for family in (0, 1):

            def answered(who, whom, port=4444, family=family):
                end = through(cluster, who, of[who][family], of[whom][family], port, seconds=1)
                assert end["sent"] > 0, end
                return {0: "nobody", end["sent"]: "all"}.get(end["received"], "some")

            becomes_so = lambda *ask, want, answered=answered: eventually(
                lambda: answered(*ask) == want, lambda: f"{ask} becomes {want}", timeout=60
            )
            for whom in ("near", "far", "other"):
                becomes_so("x", whom, want="all")
            with policies(cluster, out):
                becomes_so("x", "other", want="nobody")
                becomes_so("x", "near", want="all")
                becomes_so("x", "far", want="all")
                becomes_so("y", "far", want="all")
                # Both ends have a policy: each speaks for its own.
                with policies(cluster, into):
                    becomes_so("y", "far", want="nobody")
                    becomes_so("y", "other", want="all")
                    becomes_so("x", "near", want="all")
                    becomes_so("x", "far", want="all")
                    assert answered("x", "other") == "nobody"
            becomes_so("x", "other", want="all")
    nothing_left(cluster, before)
    ruled(cluster, 1)


@contextlib.contextmanager
def administrators(cluster):
    """The API of administrators' policies, which is gone afterwards with all of them."""
    api = image.built("clusternetworkpolicies.yaml")
    cluster.control.kubectl("apply", "-f", api)
    cluster.control.kubectl("wait", "--for=condition=established", "-f", api, f"--timeout={HANGS}s", timeout=2 * HANGS)
    try:
        yield
    finally:
        cluster.control.kubectl("delete", "-f", api, f"--timeout={HANGS}s", timeout=2 * HANGS)


def tiered(name, tier, subject, **spec):
    """A policy of an administrator for pods of that label."""
    pods = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": subject}}}
    spec = {"tier": tier, "priority": 10, "subject": {"pods": pods}, **spec}
    return {"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": name}, "spec": spec}


def from_label(action, **labels):
    """A rule about what pods with these labels begin."""
    return {"action": action, "from": [{"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": labels}}}]}


def test_policies_of_administrators_come_first_and_last_on_both_interfaces(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("web", n1, app="web"), memif("m", n1, app="web"), generator("y", n2, role="client"), server("far", n2, role="client")
    with pods(cluster, *wanted) as of, contextlib.ExitStack() as stack:
        # Nobody knew of the API when the agents began.
        stack.enter_context(administrators(cluster))
        comes = lambda: (end := through(cluster, "y", of["y"][0], of["m"][0], 4444))["received"] == end["sent"] > 0
        nothing = lambda: through(cluster, "y", of["y"][0], of["m"][0], 4444)["received"] == 0
        cluster.control.apply(tiered("no-clients", "Admin", "web", ingress=[from_label("Deny", role="client")]))
        becomes(cluster, "far", of["web"][0], False)
        assert not passes(cluster, "far", of["web"][1]) and passes(cluster, n1, of["web"][0])
        eventually(nothing, "the memif is guarded, too", timeout=60)
        assert condition(cluster, "no-clients") == ("True", "all of it is in force")
        # Past the tier, a NetworkPolicy decides; without one, the tier behind it.
        cluster.control.apply(
            tiered("no-clients", "Admin", "web", ingress=[from_label("Pass", role="client")]),
            tiered("last", "Baseline", "web", ingress=[from_label("Deny", role="client")]),
        )
        with policies(cluster, policy("web", "web", ingress=[{"from": [by_label(role="client")]}])):
            becomes(cluster, "far", of["web"][0], True)
            eventually(comes, "a NetworkPolicy lets it pass", timeout=60)
        becomes(cluster, "far", of["web"][0], False)
        eventually(nothing, "the baseline doesn't", timeout=60)
        told = run(
            *cluster.control.outside,
            tool("kubectl-quiver"),
            "--kubeconfig",
            cluster.control.admin,
            "explain",
            "far",
            "web",
            f"tcp/{PORT}",
            check=False,
        )
        passed, decides = "passed on by ingress-0 of ClusterNetworkPolicy no-clients", "ingress-0 of ClusterNetworkPolicy last"
        assert [line[2:] for line in table(told) if line[2] == "n1"] == [("n1", "denied", f"ingress: {passed}, then {decides}")] * 2, told
        # What can't be is told where the policy is.
        names = [{"action": "Accept", "to": [{"domainNames": ["example.org"]}]}]
        cluster.control.apply(tiered("names", "Admin", "web", egress=names))
        refused = "egress-0, peer 0: domainNames aren't supported: say networks; egress-0 accepts nobody"
        assert condition(cluster, "names") == ("False", refused)
        eventually(lambda: refused in events(cluster, "names"), "an event tells it", timeout=60)
        stack.close()
        becomes(cluster, "far", of["web"][0], True)
        eventually(comes, "without the API nobody is kept out", timeout=60)
    nothing_left(cluster, before)
    ruled(cluster, 1)


def condition(cluster, name):
    """What a policy of an administrator says of itself, as soon as it does: status and message."""
    said = lambda: [
        (one["status"], one["message"])
        for one in cluster.control.get("clusternetworkpolicy", name).get("status", {}).get("conditions", [])
        if one["type"] == "Accepted"
    ]
    return eventually(said, lambda: json.dumps(cluster.control.get("clusternetworkpolicy", name)), timeout=60)[0]
