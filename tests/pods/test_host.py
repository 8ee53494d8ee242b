"""Pods and what is outside of quiverd: their host, and through its kernel other nodes."""

import pathlib
import re
import socket
import tomllib

from lab.laboratory import iperf
from lab.process import HANGS, eventually
from node import RANGES, addresses, ask, network

HOST = "192.168.7.1", "fd00:7::1"
NEIGHBOUR = "192.168.7.2", "fd00:7::2"
# A firewall that somebody has on the host.
CHAIN = "add chain inet others look { type filter hook forward priority 0; }"
OTHERS = f"add table inet others; {CHAIN}; add rule inet others look tcp dport 25 drop"


def test_host_neighbour_and_pods_reach_each_other(host_node, host):
    pod = host_node.pod("a")
    theirs = addresses(host_node.add(pod))
    for address in theirs:
        host.must_ping(address)
        host.neighbour.must_ping(address)
    for address in HOST + NEIGHBOUR:
        pod.must_ping(address)
    for client, server, to in ((host, pod, theirs), (host.neighbour, pod, theirs), (pod, host, HOST), (pod, host.neighbour, NEIGHBOUR)):
        for address in to:
            assert iperf((client, server), "-n", "20M", to=address)["end"]["sum_received"]["bytes"] > 10_000_000
    # Others see pods under the pods' own addresses.
    assert [seen(host, pod, family) for family in range(2)] == [*theirs]


def test_an_address_that_no_pod_has_is_unreachable(host_node, host):
    with host.neighbour.start("ping", "-n", "-c", "2", "-W", "5", "10.244.7.77") as ping:
        eventually(lambda: "Destination Host Unreachable" in ping.output() or "Net Unreachable" in ping.output(), ping.output)
    # It didn't go to and fro until its hops were used up.
    assert int(host_node.daemon.counter("pod:host", "rx_packets")) < 10


def test_the_way_to_the_host_outlives_agent_and_quiverd(host_node, host):
    pod = host_node.pod("a")
    (address, _) = addresses(host_node.add(pod))
    with host.pinging(address), pod.pinging(NEIGHBOUR[1]):
        host_node.kill_agent()
        host_node.start_agent()
    host_node.daemon.kill()
    host_node.daemon.start()
    for there in (*HOST, *NEIGHBOUR):
        pod.must_ping(there)
    host.must_ping(address)


def seen(host, pod, family):
    """As whom the neighbour sees a pod that connects to it."""
    address = NEIGHBOUR[family]
    with host.neighbour.entered():
        server = socket.create_server((address, 0), family=(socket.AF_INET, socket.AF_INET6)[family])
    with server:
        server.settimeout(HANGS)
        with pod.start("bash", "-c", f"exec 3<>/dev/tcp/{address}/{server.getsockname()[1]}"):
            return server.accept()[1][0]


def test_settings_change_while_pods_talk(host_node, host):
    """Nothing is started anew: pings that go on all the while lose nothing."""
    settings = host_node.directory / "agent.yaml"

    def written(text):
        # As a whole, as kubelet does.
        new = settings.with_suffix(".new")
        new.write_text(text)
        new.rename(settings)

    def becomes(*expected):
        now = lambda: tuple(seen(host, pod, family) for family in range(2))
        eventually(lambda: now() == expected, lambda: f"{now()}\n{host_node.log()}")

    host_node.kill_agent()
    host_node.options = ("--settings", settings)
    written("{natOutgoing: none}")
    host_node.start_agent()
    pod = host_node.pod("a")
    own = addresses(host_node.add(pod))
    becomes(*own)
    with pod.pinging(NEIGHBOUR[0]), pod.pinging(NEIGHBOUR[1]), host.neighbour.pinging(own[0]):
        for word, expected in (
            ("both", HOST),
            ("ipv6", (own[0], HOST[1])),
            ("none", own),
            ("both", HOST),
        ):
            written(f"natOutgoing: {word}\n")
            becomes(*expected)
        # What isn't understood leaves all as it is.
        written("natOutgoing: none\nmemifFallback: tun\n")
        eventually(lambda: 'memifFallback: \\"tun\\" is not known' in host_node.log(), host_node.log)
        becomes(*HOST)
        # Of pods to come.
        asks = {"quiver.io/allowedSourcePrefixes": '["10.99.0.1"]'}
        may = lambda name: host_node.cni("add", host_node.pod(name), asks, check=False)
        for name, word in (("b", "[10.99.0.0/16]"), ("c", "[]"), ("d", "[10.99.0.0/16]")):
            said = host_node.log().count(f"allowedSourcePrefixes={word}")
            written(f"allowedSourcePrefixes: {word}\nnatOutgoing: both\n")
            eventually(lambda word=word, said=said: host_node.log().count(f"allowedSourcePrefixes={word}") > said, host_node.log)
            added = may(name)
            assert (added.returncode == 0) == (word != "[]"), added


def test_uninstalling_leaves_the_host_as_it_was(host_node, host):
    # As it was: what the fixture has started is taken away and put there again.
    host_node.uninstall()
    host.run("nft", OTHERS)
    before = network(host)
    assert "inet others" in before and "quiver0" not in before and not any(prefix in before for prefix in RANGES)
    host_node.daemon.apply('[[interface]]\nname = "mine"\naddresses = ["10.3.0.1/24"]\nloopback = {}\n')
    host_node.daemon.apply('[[route]]\nprefix = "10.244.0.0/16"\naction = "unreachable"\n')
    others = host_node.daemon.names()
    host_node.options = ("--nat-outgoing=both",)
    host_node.start_agent()
    pod = host_node.pod("a")
    host_node.add(pod)
    pod.must_ping(HOST[0])
    eventually(lambda: "inet quiver-outgoing" in network(host), lambda: network(host))
    # A node that is gone since.
    host.ip("route", "add", "10.244.9.0/24", "via", NEIGHBOUR[0], "proto", "81")
    host_node.uninstall()
    assert network(host) == before
    assert host_node.daemon.names() == others
    assert not pathlib.Path(host_node.network["stateDirectory"]).exists()
    assert "eth0" not in pod.ip("link").stdout


def test_a_default_route_of_others_is_left_to_them(host_node, host):
    host_node.uninstall()
    host_node.daemon.apply("""
[[interface]]
name = "mine"
addresses = ["10.3.0.1/24"]
loopback = {}
[[route]]
prefix = "0.0.0.0/0"
action = "prohibit"
""")
    host_node.start_agent()
    pod = host_node.pod("a")
    host_node.add(pod)
    get = lambda: tomllib.loads(host_node.daemon.cli("get", "route", "-o", "toml").stdout)["route"]
    ways = lambda: {route["prefix"]: route for route in get()}
    eventually(lambda: "::/0" in ways(), ways)
    assert ways()["::/0"]["next_hops"] == [{"interface": "pod:host"}]
    assert "next_hops" not in ways()["0.0.0.0/0"]
    pod.must_ping(HOST[1])
    assert "filtered" in pod.ping(HOST[0], count=1).text


def test_a_firewall_that_drops_what_pods_send_is_told_with_what_lets_it_pass(host_node, host):
    node, pod = host_node, host_node.pod("a")
    node.add(pod)
    forwards = lambda: ask(host, "/readyz") == (200, "forwarding\n")
    eventually(forwards, lambda: ask(host, "/readyz"))
    host.run("nft", "add table ip strict; add chain ip strict forward { type filter hook forward priority 0; policy drop; }")
    # (It looks now and then, and when it begins.)
    node.kill_agent()
    node.start_agent()
    status, text = eventually(lambda: "strict" in ask(host, "/readyz")[1] and ask(host, "/readyz"), lambda: ask(host, "/readyz"))
    assert status == 200 and text.startswith("forwarding\n") and "firewall drops" in node.log(), text
    assert pod.ping(NEIGHBOUR[0], wait=1).received == 0
    rules = re.findall(r"`(nft insert rule [^`]+)`", text)
    assert len(rules) == 2, text
    for rule in rules:
        host.run(*rule.split())
    pod.must_ping(NEIGHBOUR[0])
    node.kill_agent()
    node.start_agent()
    eventually(forwards, lambda: ask(host, "/readyz"))
