"""Services, without kube-proxy: as pods, nodes and neighbours of the nodes see them."""

import contextlib
import json
import time

from lab.process import eventually
from workload import (
    PORT,
    asker,
    backends,
    becomes,
    events,
    fetch,
    generator,
    goes_on,
    host_port,
    known,
    left,
    lost,
    memif,
    must_echo,
    nothing_left,
    pods,
    reaches,
    segments,
    server,
    service,
    services,
    talk,
    through,
    tried,
)


def test_a_service_is_answered_by_all_its_pods_wherever_it_is_asked(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("b", n1, app="web"), server("c", n2, app="web")
    with pods(cluster, *wanted) as of, services(cluster, service("web", "web", (80, PORT))) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, [of["b"], of["c"]])
        for address in asked:
            # From a pod that isn't one of its own, from such that are (also to themselves), and from the nodes.
            for client in ("a", "b", "c", n1, n2):
                reaches(cluster, client, address, 80, "bc")
        for node in cluster.nodes:
            assert [node.way(address) for address in asked] == ["quiver0", "quiver0"]
        # Where nobody listens it is refused, and doesn't go round.
        assert "nreachable" in n1.run("ping", "-n", "-c", "1", "-W", "5", asked[0], check=False).stdout
        # Whoever asks from a pod is seen with its own address.
        for address, own in zip(asked, of["a"], strict=True):
            assert asker(cluster, "a", address, 80) == own
    for node in cluster.nodes:
        eventually(lambda node=node: node.way(asked[0]) != "quiver0", lambda node=node: node.way(asked[0]), timeout=60)
    nothing_left(cluster, before)


def test_the_api_server_is_reached_by_its_service(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    (address,) = cluster.control.get("service", "kubernetes")["spec"]["clusterIPs"]
    with pods(cluster, server("a", n1), server("c", n2)):
        for client in ("a", "c"):
            ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 30 {address} 443"
            assert "HTTPS server" in cluster.control.exec(client, "sh", "-c", ask).stdout
    for node in cluster.nodes:
        ask = f"exec 3<>/dev/tcp/{address}/443 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
        # (It doesn't read all of that, and so ends by a RST, which may come before `cat` is done.)
        assert "HTTPS server" in node.run("timeout", "30", "bash", "-c", ask, check=False).stdout
    nothing_left(cluster, before)


def test_a_client_keeps_its_backend_if_the_service_says_so(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("b", n1, app="web"), server("c", n2, app="web")
    with pods(cluster, *wanted) as of, services(cluster, service("web", "web", (80, PORT), sessionAffinity="ClientIP")) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, [of["b"], of["c"]])
        for client in ("a", n2):
            assert len({fetch(cluster, client, asked[0], 80) for _ in range(12)}) == 1
    nothing_left(cluster, before)


def test_connections_stay_when_endpoints_come_and_go(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("b", n1, app="web"), server("c", n2, app="web"), server("d", n2)
    with pods(cluster, *wanted) as of, services(cluster, service("web", "web", (7, PORT + 1))) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 7, [of["b"], of["c"]])
        before_talk = segments(cluster, "a")
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(talk(cluster, "a", address, 7)) for address in (*asked, *asked, *asked)]
            goes_on(lines)
            for label in ("app=web", "app-"):
                cluster.control.kubectl("label", "pod", "d", label)
                known(cluster, asked, 7, [of[name] for name in ("bcd" if label == "app=web" else "bc")])
                goes_on(lines)
            # Now all that they are connected to are others'.
            cluster.control.kubectl("label", "pod", "d", "app=web")
            cluster.control.kubectl("label", "pod", "b", "c", "app-")
            known(cluster, asked, 7, [of["d"]])
            goes_on(lines)
            back = cluster.quiver.kill(n1, "quiver-agent")
            goes_on(lines)
            back()
            goes_on(lines)
            assert backends(n1, asked[0], 7) == [of["d"][0]]
            since = lambda: {name: number - before_talk[name] for name, number in segments(cluster, "a").items()}
            eventually(lambda: lost(since()) == 0, lambda: f"none is lost, not {lost(since())} segments: {since()}", timeout=60)
            came = sum(len(one.output().splitlines()) for one in lines)
            told(f"endpoints changed under {len(lines)} connections: {came} lines came back")
    nothing_left(cluster, before)


def test_how_backends_are_chosen_changes_under_connections(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("b", n1, app="web"), server("c", n2, app="web")
    with pods(cluster, *wanted) as of, services(cluster, service("web", "web", (80, PORT), (7, PORT + 1))) as made:
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, [of["b"], of["c"]])
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(talk(cluster, "a", address, 7)) for address in (*asked, *asked)]
            goes_on(lines)

            def becomes_all(**want):
                """Waits until both nodes have it so, and looks whether connections go on."""
                for node in cluster.nodes:
                    its = lambda node=node: [
                        {key: vip.get(key) for key in want} for vip in node.quiver("show", "vip")["vips"] if vip["address"] in asked
                    ]
                    eventually(lambda its=its: its() == [want] * 4, its, timeout=60)
                goes_on(lines)

            for word in ("least_flows", "maglev", "least_flows"):
                cluster.control.kubectl("annotate", "--overwrite", "service", "web", f"quiver.io/loadBalancing={word}")
                becomes_all(algorithm=word)
            for address in asked:
                for client in ("a", n2):
                    reaches(cluster, client, address, 80, "bc")
            # Calico/VPP's word for a hash.
            cluster.control.kubectl("annotate", "service", "web", "quiver.io/loadBalancing-", "cni.projectcalico.org/vppLBType=ecmp")
            becomes_all(algorithm="maglev")
            cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"sessionAffinity": "ClientIP"}}')
            becomes_all(affinity_seconds=10800)
            assert len({fetch(cluster, "a", asked[0], 80) for _ in range(12)}) == 1
            cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"sessionAffinity": "None"}}')
            becomes_all(affinity_seconds=0)
            reaches(cluster, "a", asked[0], 80, "bc")
            goes_on(lines)
    nothing_left(cluster, before)


def test_ports_of_the_nodes(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("b", n1, app="web"), server("c", n2, app="web")
    outside = service("web", "web", (80, PORT), type="NodePort")
    with pods(cluster, *wanted) as of, services(cluster, outside) as made:
        asked, port = made["web"]["spec"]["clusterIPs"], made["web"]["spec"]["ports"][0]["nodePort"]
        known(cluster, asked, 80, [of["b"], of["c"]])
        for at in cluster.nodes:
            for address in at.addresses:
                for client in ("a", "c", n1, n2):
                    reaches(cluster, client, address, port, "bc")
        # Local: who is asked from outside sees who asks, and nobody on another node is.
        cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"externalTrafficPolicy": "Local"}}')
        for node, name in ((n1, "b"), (n2, "c")):
            near = lambda node=node: sorted(backends(node, address, port, "all") for address in sources(node, port))
            only = lambda near=near, name=name: near() == sorted([address] for address in of[name])
            eventually(only, near, timeout=60)
        for at, other, name in ((n1, n2, "b"), (n2, n1, "c")):
            for address, own in zip(at.addresses, other.addresses, strict=True):
                reaches(cluster, other, address, port, name)
                assert asker(cluster, other, address, port) == own
        # The node itself and its pods are served by all.
        for at, client in ((n1, "a"), (n2, "c")):
            for address in at.addresses:
                for inside in (client, at):
                    reaches(cluster, inside, address, port, "bc")
    nothing_left(cluster, before)


def test_with_a_local_external_policy_the_node_and_its_pods_are_served_by_all(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    named, given = ("203.0.113.7", "2001:db8::7"), ("203.0.113.9", "2001:db8::9")
    ranges = [f"{of}/{bits}" for node in cluster.nodes for of, bits in zip(node.addresses, (32, 128), strict=True)]
    local = service("web", "web", (80, PORT), type="LoadBalancer", externalTrafficPolicy="Local", externalIPs=[*named])
    local["spec"]["loadBalancerSourceRanges"] = ranges
    wanted = server("a", n1), server("d", n2), server("b", n1, app="web"), server("c", n2)
    with pods(cluster, *wanted) as of, services(cluster, local):
        status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": address} for address in given]}}})
        cluster.control.kubectl("patch", "service", "web", "--subresource=status", "--patch", status)
        asked = (*named, *given)
        known(cluster, asked[:2], 80, [of["b"]])
        known(cluster, asked[2:], 80, [of["b"]])
        # The only endpoint is on the first node, and from the second it is reached nevertheless, by whom the ranges allow.
        for address in named:
            for client in ("a", "d", n1, n2):
                reaches(cluster, client, address, 80, "b")
        for address in given:
            for client in (n1, n2):
                reaches(cluster, client, address, 80, "b")
            for client in ("a", "d"):
                assert tried(cluster, client, address, 80) == "silent"
        # Who comes from outside is dropped by the node that has none, and seen as itself by the other.
        with going_by(n1, n2, named):
            for address in named:
                assert tried(cluster, n1, address, 80) == "silent"
            cluster.control.kubectl("label", "pod", "c", "app=web")
            known(cluster, asked[:2], 80, [of["b"], of["c"]])
            for address, own in zip(named, n1.addresses, strict=True):
                reaches(cluster, n1, address, 80, "c")
                assert asker(cluster, n1, address, 80) == own
                for client in ("a", "b", "d", n2):
                    reaches(cluster, client, address, 80, "bc")
    nothing_left(cluster, before)


def sources(node, port):
    """Addresses to which the kernel of a node leads those who ask at one of its ports."""
    return [vip["address"] for vip in node.quiver("show", "vip")["vips"] if vip["port"] == port and vip["address"] not in node.addresses]


# A table of routes that is nobody else's.
ASIDE = 8282


@contextlib.contextmanager
def going_by(node, other, addresses):
    """Has a node, as a neighbour that has been told so, send what is for addresses of both families by way of another one, whatever its
    agent says of them."""
    rules = [("to", address, "lookup", ASIDE, "pref", 100) for address in addresses]
    try:
        for address, hop, rule in zip(addresses, other.addresses, rules, strict=True):
            node.run("ip", "route", "replace", address, "via", hop, "table", ASIDE)
            node.run("ip", *family(address), "rule", "add", *rule)
        yield
    finally:
        for address, rule in zip(addresses, rules, strict=True):
            node.run("ip", *family(address), "rule", "del", *rule, check=False)
            node.run("ip", "route", "del", address, "table", ASIDE, check=False)


def family(address):
    """The word by which `ip` is told it."""
    return ("-6",) if ":" in address else ()


def test_addresses_from_outside(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    asked = "203.0.113.7", "2001:db8::7"
    outside = service("web", "web", (80, PORT), externalIPs=[*asked])
    with pods(cluster, server("a", n1), server("b", n1, app="web"), server("c", n2, app="web")) as of, services(cluster, outside):
        known(cluster, asked, 80, [of["b"], of["c"]])
        with going_by(n2, n1, asked):
            for address in asked:
                for client in ("a", n1, n2):
                    reaches(cluster, client, address, 80, "bc")
    nothing_left(cluster, before)


def test_addresses_on_a_node_s_interface_are_answered_and_stay_the_node_s(cluster):
    n1, n2 = cluster.nodes
    extra = "203.0.113.5", "2001:db8::5"
    before = left(cluster)
    uplinks = n1.way(n2.addresses[0]), n2.way(n1.addresses[0])
    outside = service("web", "web", (18085, PORT), externalIPs=[*n1.addresses, *extra])
    # The kubelet's port is no Service's to take.
    thief = service("thief", "web", (10250, PORT), externalIPs=[n1.addresses[0]])

    def move(node, uplink, what):
        """The addresses come to a node's uplink, or go from it."""
        for address, bits in zip(extra, (32, 128), strict=True):
            # (Nobody else has them: the kernel needn't look.)
            flags = ["nodad"] if what == "add" and bits == 128 else []
            node.run("ip", "address", what, f"{address}/{bits}", "dev", uplink, *flags, check=what == "add")

    move(n1, uplinks[0], "add")
    try:
        with (
            pods(cluster, server("a", n1), server("b", n1, app="web"), server("c", n2, app="web")) as of,
            services(cluster, outside, thief) as made,
        ):
            for name, port in (("web", 18085), ("thief", 10250)):
                known(cluster, made[name]["spec"]["clusterIPs"], port, [of["b"], of["c"]])
            with going_by(n2, n1, extra):
                for address in (*n1.addresses, *extra):
                    for client in ("a", "c", n1, n2):
                        becomes(cluster, client, address, 18085, "answered")
                        reaches(cluster, client, address, 18085, "bc")
            told = eventually(lambda: events(cluster, "thief", "QuiverService"), lambda: events(cluster, "thief"), timeout=60)
            assert f"{n1.addresses[0]}:10250 TCP is where a process of this node listens" in told[0]
            for client in (n1, n2):
                kubelet = client.run("curl", "-sk", f"https://{n1.addresses[0]}:10250/pods", check=False)
                assert "nauthorized" in kubelet.stdout, kubelet
            # Local: who asks is seen as itself, by pods of the node alone.
            cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"externalTrafficPolicy": "Local"}}')
            near = lambda: [{fetch(cluster, n2, address, 18085) for _ in range(8)} for address in n1.addresses]
            eventually(lambda: near() == [{"b"}] * len(n1.addresses), near, timeout=60)
            # The node itself and its pods are served by all.
            for client in ("a", n1):
                for address in (*n1.addresses, *extra):
                    reaches(cluster, client, address, 18085, "bc")
            for address, own in zip(n1.addresses, n2.addresses, strict=True):
                assert asker(cluster, n2, address, 18085) == own
            # The addresses go to the other node.
            move(n1, uplinks[0], "del")
            move(n2, uplinks[1], "add")
            with going_by(n1, n2, extra):
                # The first node is outside there now.
                for address in extra:
                    for client, whom in ((n1, "c"), (n2, "bc")):
                        becomes(cluster, client, address, 18085, "answered")
                        reaches(cluster, client, address, 18085, whom)
    finally:
        for node, uplink in zip(cluster.nodes, uplinks, strict=True):
            move(node, uplink, "del")
    nothing_left(cluster, before)


def test_clients_are_refused_where_nobody_serves_and_left_alone_where_others_do(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    outside = "203.0.113.7", "2001:db8::7"
    nobody = service("web", "web", (80, PORT), (53, 53, "UDP"), type="NodePort", externalIPs=[*outside])
    with (
        pods(cluster, server("a", n1), server("c", n2), server("b", n2)) as of,
        services(cluster, nobody) as made,
        going_by(n2, n1, outside),
    ):
        addresses, port = made["web"]["spec"]["clusterIPs"], made["web"]["spec"]["ports"][0]["nodePort"]
        known(cluster, addresses, 80, [])
        places = [(address, 80) for address in (*addresses, *outside)]
        places += [(address, port) for at in cluster.nodes for address in at.addresses]
        for place in places:
            for client in ("a", "c", n1, n2):
                becomes(cluster, client, *place, "refused")
        # Of datagrams the second one fails, at a socket that has been told of the first.
        for address in addresses:
            ask = f"exec 3<>/dev/udp/{address}/53; echo who >&3; sleep 1; echo who >&3"
            eventually(lambda ask=ask: "refused" in n2.run("bash", "-c", ask, check=False).stderr, address, timeout=60)
        # One that is elsewhere: with Local, who is asked from outside is silent, and others answer.
        cluster.control.kubectl("patch", "service", "web", "--patch", '{"spec": {"externalTrafficPolicy": "Local"}}')
        cluster.control.kubectl("label", "pod", "b", "app=web")
        known(cluster, addresses, 80, [of["b"]])
        for address in n1.addresses:
            assert tried(cluster, n2, address, port) == "silent"
        for address in n2.addresses:
            reaches(cluster, n1, address, port, "b")
        # From inside anybody is found.
        for address in n1.addresses:
            for client in ("a", n1):
                reaches(cluster, client, address, port, "b")
    nothing_left(cluster, before)


def test_a_load_balancer_s_addresses_are_there_for_some_sources(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    given = "203.0.113.9", "2001:db8::9"
    whole = lambda addresses: [f"{address}/{bits}" for address, bits in zip(addresses, (32, 128), strict=True)]
    balanced = service("web", "web", (80, PORT), type="LoadBalancer", loadBalancerSourceRanges=whole(n2.addresses))
    with (
        pods(cluster, server("a", n1), server("b", n1, app="web"), server("c", n2)) as of,
        services(cluster, balanced) as made,
        going_by(n2, n1, given),
    ):
        status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": address} for address in given]}}})
        cluster.control.kubectl("patch", "service", "web", "--subresource=status", "--patch", status)
        ranges = lambda sources: cluster.control.kubectl(
            "patch", "service", "web", "--patch", json.dumps({"spec": {"loadBalancerSourceRanges": sources}})
        )
        known(cluster, given, 80, [of["b"]])
        for address in given:
            reaches(cluster, n2, address, 80, "b")
            for client in ("a", "c"):
                assert tried(cluster, client, address, 80) == "silent"
        # The ranges are the load balancer's only.
        for address in made["web"]["spec"]["clusterIPs"]:
            reaches(cluster, "a", address, 80, "b")
        ranges(whole(n2.addresses) + whole(of["a"]))
        for address in given:
            becomes(cluster, "a", address, 80, "answered")
            assert tried(cluster, "c", address, 80) == "silent"
        # Of one family: nobody is answered at the other's address, and the owner is told.
        ranges(whole(n2.addresses)[1:])
        for node in cluster.nodes:
            there = lambda node=node: [backends(node, address, 80) for address in given]
            eventually(lambda there=there: there() == [[], of["b"][1:]], there, timeout=60)
        becomes(cluster, "a", given[1], 80, "silent")
        reaches(cluster, n2, given[1], 80, "b")
        assert tried(cluster, n2, given[0], 80) != "answered"
        because = f"none of the family of {given[0]}"
        said = lambda: events(cluster, "web", "QuiverService")
        eventually(lambda: any(because in text for text in said()), said, timeout=60)
    nothing_left(cluster, before)


def test_host_ports_lead_to_their_pods(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    everywhere, here = host_port(server("h", n1), 18080), host_port(server("i", n1), 18081, n1.addresses[0])
    loopback = host_port(server("l", n1), 18081, "127.0.0.1")
    with pods(cluster, server("a", n1), server("c", n2), everywhere, here, loopback):
        for client in ("a", n1):
            for port in (18080, 18081):
                becomes(cluster, client, n1.addresses[0], port, "answered")
        for address in n1.addresses:
            # From pods of the node, the pod itself, a pod elsewhere, the node and its neighbour.
            for client in ("a", "h", "c", n1, n2):
                reaches(cluster, client, address, 18080, "h")
        assert asker(cluster, n2, n1.addresses[0], 18080) == n2.addresses[0]
        # One address has one pod, another another, and the others none.
        for client in ("a", "c", n1, n2):
            reaches(cluster, client, n1.addresses[0], 18081, "i")
        assert tried(cluster, n1, n1.addresses[1], 18081) == "refused"
        ask = f"import socket; s = socket.create_connection(('127.0.0.1', 18081), 30, ('{n1.addresses[0]}', 0)); "
        ask += "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.makefile().read())"
        assert n1.run("python3", "-c", ask).stdout.split()[-1] == "l"
        # A node's other agent has them from disk.
        back = cluster.quiver.kill(n1, "quiver-agent")
        reaches(cluster, n2, n1.addresses[0], 18080, "h")
        back()
        for client in ("a", n1, n2):
            reaches(cluster, client, n1.addresses[0], 18080, "h")
    for client in (n1, n2):
        becomes(cluster, client, n1.addresses[0], 18080, "refused")
    nothing_left(cluster, before)


def test_memifs_ask_and_answer(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with (
        pods(cluster, memif("m", n1, app="echo"), generator("x", n1), generator("y", n2)) as of,
        services(cluster, service("echo", "echo", (5555, 4444, "UDP"))) as made,
    ):
        asked = made["echo"]["spec"]["clusterIPs"]
        known(cluster, asked, 5555, [of["m"]])
        for address in asked:
            for node in cluster.nodes:
                must_echo(node, address, 5555)
            for name in ("x", "y"):
                (source,) = [own for own in of[name] if (":" in own) == (":" in address)]
                end = through(cluster, name, source, address, 5555)
                # Nobody else sends there. What is sent before the other's memif is there, or while others have the machine, is lost.
                assert 0 < end["received"] <= end["sent"] and end["foreign"] == 0 and end["duplicated"] == 0, end
                told(f"by memif, {name} through {address}: received {end['received']} of {end['sent']}")
    nothing_left(cluster, before)


def test_what_cannot_be_is_told_at_the_service(cluster):
    before = left(cluster)
    asked = "203.0.113.8", "2001:db8::8"
    first, second = (service(name, name, (80, PORT), externalIPs=[*asked]) for name in ("first", "second"))
    with services(cluster, first):
        time.sleep(1.1)
        with services(cluster, second):
            told = eventually(lambda: events(cluster, "second", "QuiverService"), lambda: events(cluster, "second"), timeout=60)
            for place in (f"{asked[0]}:80", f"[{asked[1]}]:80"):
                assert f"{place} TCP is that of Service default/first" in told[0]
    nothing_left(cluster, before)
