"""Pods by CNI: from the runtime's ADD to packets, and back to nothing."""

import contextlib
import ipaddress
import json
import signal
import socket

import pytest
from application import ethernet_application, ip_application
from lab.laboratory import iperf
from lab.process import HANGS, Process, eventually, tool
from node import RANGES, addresses, echo, serving

PORTS = "cni.projectcalico.org/vppExtraMemifPorts"
SOURCES = "cni.projectcalico.org/allowedSourcePrefixes"
SPEC = "cni.projectcalico.org/vppExtraMemifSpec"


def pair(node):
    """Two pods with networks, and their addresses by family."""
    a, b = node.pod("a"), node.pod("b")
    return a, b, addresses(node.add(a)), addresses(node.add(b))


def test_two_pods_reach_each_other_and_leave_nothing(node):
    a, b = node.pod("a"), node.pod("b")
    result = node.add(a)
    theirs = addresses(node.add(b))
    assert result["interfaces"] == [{"name": "eth0", "mtu": 1500, "sandbox": f"/run/netns/{a.name}"}]
    assert {route["dst"] for route in result["routes"]} == {"0.0.0.0/0", "::/0"}
    for address, prefix in zip(addresses(result), RANGES, strict=True):
        assert ipaddress.ip_address(address) in ipaddress.ip_network(prefix)
    # What the result says is what the pod has.
    device = json.loads(a.ip("-j", "address", "show", "eth0").stdout)[0]
    globals_ = [f"{entry['local']}/{entry['prefixlen']}" for entry in device["addr_info"] if entry["scope"] == "global"]
    assert globals_ == [ip["address"] for ip in result["ips"]] and device["mtu"] == 1500
    for address in theirs:
        a.must_ping(address)
    for gateway in ("169.254.1.1", "10.244.7.1", "fd00:10:244:7::1"):
        a.must_ping(gateway)
    for address in theirs:
        assert iperf((a, b), "-n", "20M", to=address)["end"]["sum_received"]["bytes"] > 10_000_000
    node.cni("check", a)
    for pod in (a, b):
        node.cni("del", pod)
    assert node.attached() == [] and node.daemon.names("route") == [] and node.kept() == []
    for pod in (a, b):
        assert "eth0" not in pod.ip("link").stdout
        node.cni("del", pod)
    assert node.cni("check", a, check=False).returncode != 0


def test_a_pod_sends_from_its_own_addresses_only(node):
    a, b, _, (address, _) = pair(node)
    a.ip("address", "add", "10.99.0.1/32", "dev", "eth0")
    ours, theirs = (next(name for name in node.attached() if pod.name in name) for pod in (a, b))
    before = node.daemon.counter(theirs, "tx_packets")
    assert a.ping(address, "-I", "10.99.0.1", count=5, wait=1).sent == 5
    drops = node.daemon.drops_of(ours)
    assert sum(count for (node_, _), count in drops.items() if "reverse-path" in node_ or "rpf" in node_) == 5, drops
    assert int(node.daemon.counter(theirs, "tx_packets")) == int(before)
    a.must_ping(address)


@pytest.mark.parametrize("layer", ["l3", "l2"])
@pytest.mark.parametrize("family, foreign", [(0, "10.99.0.1"), (1, "fd99::1")], ids=["IPv4", "IPv6"])
def test_a_memifs_application_sends_from_the_pods_addresses_only(node, family, foreign, layer):
    a, b, c = (node.pod(role) for role in "abc")
    own = addresses(node.add(a, {PORTS: "udp:5000", SPEC: json.dumps({"isl3": layer == "l3"})}))[family]
    to, others = (addresses(node.add(pod))[family] for pod in (b, c))
    memif = next(name for name in node.attached() if name.endswith("memif-eth0"))
    tun = next(name for name in node.attached() if b.name in name)
    received = lambda: int(node.daemon.counter(tun, "tx_packets"))
    checked = lambda: {why: count for (check, why), count in node.daemon.drops_of(memif).items() if check == f"ip{'46'[family]}-rpf"}
    way = ("--mode", "ip") if layer == "l3" else ("--destination-mac", node.daemon.interface(memif)["mac"])

    def sending(source):
        words = ("--source", source, "--destination", to, "--rate", 1000, "--seconds", 2 * HANGS)
        return Process(tool("quiver-tgen"), "--tx", "@vpp/memif-eth0", "--tx-netns", a.name, *way, *words)

    before = received()
    for source, why in ((foreign, "no-route-back"), (others, "wrong-interface")):
        with sending(source):
            eventually(lambda why=why: checked().get(why, 0) >= 5, node.daemon.drops)
    assert received() == before and len(checked()) == 2, node.daemon.drops()
    dropped = checked()
    with sending(own):
        eventually(lambda: received() >= before + 5, node.daemon.drops)
    assert checked() == dropped


def test_a_pod_sends_from_the_sources_that_its_annotation_allows(node):
    a, b = node.pod("a"), node.pod("b")
    node.add(a, {"cni.projectcalico.org/AllowedSourcePrefixes": '["10.99.0.1", "fd99::/64"]', PORTS: "tcp:80"})
    theirs = addresses(node.add(b))
    ours = [name for name in node.attached() if a.name in name]
    assert len(ours) == 2
    for name in ours:
        device = next(entry["object"]["interface"] for entry in node.daemon.json("get", "interface", name, "--status")["objects"])
        assert device["allowed_sources"] == ["10.99.0.1/32", "fd99::/64"]
    tun = next(name for name in ours if name.endswith(":eth0"))
    b_tun = next(name for name in node.attached() if b.name in name)
    for address, good, bad in ((theirs[0], "10.99.0.1", "10.99.0.2"), (theirs[1], "fd99::5", "fd98::5")):
        for source in (good, bad):
            a.ip("address", "add", f"{source}/{128 if ':' in source else 32}", "dev", "eth0", *(["nodad"] if ":" in source else []))
        before = int(node.daemon.counter(b_tun, "tx_packets"))
        a.ping(address, "-I", good, count=5, wait=1)
        assert int(node.daemon.counter(b_tun, "tx_packets")) >= before + 5
        dropped = sum(node.daemon.drops_of(tun).values())
        a.ping(address, "-I", bad, count=5, wait=1)
        assert sum(node.daemon.drops_of(tun).values()) >= dropped + 5


def test_del_without_netns_and_without_anything(node):
    a, b, *_ = pair(node)
    # The sandbox is gone before the runtime says so.
    b.remove()
    status, answer = node.plugin("DEL", {}, CONTAINERID="never-seen", IFNAME="eth0")
    assert (status, answer) == (0, {})
    node.cni("del", b)
    assert len(node.attached()) == 1 and len(node.kept()) == 1
    node.cni("del", a)
    assert node.attached() == [] and node.kept() == []


def test_gc_takes_away_what_the_runtime_does_not_know(node):
    pair(node)
    record = json.loads((node.directory / "pods/attachments" / node.kept()[0]).read_text())
    valid = [{"containerID": record["container"], "ifname": "eth0"}]
    assert node.plugin("GC", {"cni.dev/valid-attachments": valid}) == (0, {})
    assert len(node.attached()) == len(node.kept()) == 1
    assert json.loads((node.directory / "pods/attachments" / node.kept()[0]).read_text()) == record


@pytest.mark.parametrize(
    "annotations, key, words",
    [
        ({PORTS: "tcp:80,esp:9"}, PORTS, "position 8"),
        ({PORTS: "tcp:80", SPEC: '{"rx": 2,}'}, SPEC, "position 10"),
        ({PORTS: "tcp:80", SPEC: '{"rx": 99}'}, SPEC, "position 8: rx = 99"),
        ({PORTS: "tcp:80", SPEC: '{\n  "rx": 2,\n  "txqsz": 100\n}'}, SPEC, "line 3, column 12: txqsz = 100"),
        ({PORTS: "tcp:80-90,udp:80,tcp:90"}, PORTS, "position 18: "),
        ({"quiver.io/interfacesSpec": '{"eth0": {}, "net1": {}}'}, "quiver.io/interfacesSpec", "position 14: "),
        ({SOURCES: '["10.0.0.1", "10.0.0"]'}, SOURCES, "position 14"),
        ({SOURCES: '["10.0.0.1", "8.8.8.8"]'}, SOURCES, 'position 14: "8.8.8.8" isn\'t among what pods may send from'),
    ],
    ids=["port", "json", "queues", "size in lines", "overlap", "interface", "sources", "sources of others"],
)
def test_a_malformed_annotation_makes_no_half_pod(node, annotations, key, words):
    pod = node.pod("a")
    done = node.cni("add", pod, annotations, check=False)
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert key in text and words in text and f"default/{pod.name}" in text, text
    assert node.attached() == [] and node.kept() == []
    assert "eth0" not in pod.ip("link").stdout
    # Once it is mended the pod comes up, with the first address.
    assert addresses(node.add(pod))[0] == "10.244.7.2"


def test_host_ports_are_refused_where_nobody_serves_them(node):
    pod = node.pod("a")
    mappings = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
    where = {"CONTAINERID": "c", "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
    status, answer = node.plugin("ADD", {"runtimeConfig": {"portMappings": mappings}}, **where)
    assert status != 0 and "serves no Services" in answer["msg"] and "portmap" in answer["details"], answer
    assert node.attached() == [] and node.kept() == []
    # A port of the host that is 0 is none.
    status, answer = node.plugin("ADD", {"runtimeConfig": {"portMappings": [{**mappings[0], "hostPort": 0}]}}, **where)
    assert status == 0, answer


def test_a_namespace_that_is_not_there_is_named(node):
    pod = node.pod("a")
    pod.remove()
    status, answer = node.plugin("ADD", {}, CONTAINERID="c", IFNAME="eth0", NETNS=f"/run/netns/{pod.name}")
    assert status != 0 and pod.name in answer["msg"], answer
    assert node.attached() == [] and node.kept() == []


def test_the_range_is_used_up_and_comes_back(node):
    node.kill_agent()
    node.ranges = ("10.244.8.0/29", "fd00:10:244:8::/64")
    node.start_agent()
    pods = [node.pod(f"p{number}") for number in range(6)]
    given = [addresses(node.add(pod))[0] for pod in pods[:5]]
    assert given == [f"10.244.8.{number}" for number in range(2, 7)]
    done = node.cni("add", pods[5], check=False)
    assert done.returncode != 0 and "10.244.8.0/29" in done.stdout + done.stderr
    assert len(node.attached()) == 5
    node.cni("del", pods[2])
    assert addresses(node.add(pods[5]))[0] == given[2]


@pytest.mark.parametrize("layer", ["l3", "l2"])
def test_a_memif_by_annotation_answers(node, client_daemon, layer):
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    result = node.add(b, {PORTS: "tcp:4444-5555,udp:6081", SPEC: json.dumps({"isl3": layer == "l3"})})
    memif = result["interfaces"][1]
    assert memif["name"] == "memif-eth0" and memif["socketPath"] == "@vpp/memif-eth0", memif
    # It has the pod's own addresses, which stand there once.
    own = addresses(result)
    assert len(own) == 2 and addresses(result, 1) == []
    name = next(name for name in node.attached() if name.endswith("memif-eth0"))
    assert not node.daemon.memif(name).get("connected")
    assert b.run("ss", "-xl").stdout.count("@vpp/memif-eth0") == 1
    assert a.run("ss", "-xl").stdout.count("@vpp/memif-eth0") == 0
    application = ip_application if layer == "l3" else ethernet_application
    with application(client_daemon, b, own):
        eventually(lambda: node.daemon.memif(name).get("connected"), "the application connects")
        for address in own:
            received = int(node.daemon.counter(name, "tx_packets"))
            echoed = [echo(a, address, port) for port in (6081, 6082)]
            if layer == "l2":
                # The echo answers from the memif, nobody does at a port of the kernel's.
                assert echoed == [b"ping", None], address
            assert int(node.daemon.counter(name, "tx_packets")) > received, address
            a.must_ping(address)
    # Pings are eth0's.
    pinged = int(node.daemon.counter(name, "tx_packets"))
    a.must_ping(own[0])
    assert int(node.daemon.counter(name, "tx_packets")) == pinged
    node.cni("del", b)
    assert "@vpp/memif-eth0" not in b.run("ss", "-xl").stdout
    assert not any("memif" in name for name in node.attached())


@pytest.mark.parametrize("spec, offered, had", [({}, 16384, 1024), ({"rxqsz": 128, "txqsz": 256}, 256, 256), ({"txqsz": 1024}, 1024, 1024)])
def test_rings_of_a_memif_are_no_larger_than_its_annotation_says(node, spec, offered, had):
    pod = node.pod("a")
    node.add(pod, {PORTS: "udp:5000", SPEC: json.dumps(spec)})
    name = next(name for name in node.attached() if name.endswith("memif-eth0"))
    assert node.daemon.memif(name)["max_ring_size"] == offered
    # The application asks for 1024.
    with pod.start(tool("memif-echo"), "-client", "@vpp/memif-eth0"):
        queues = eventually(lambda: node.daemon.memif(name).get("queues"), "the application connects")
        assert {queue["ring_size"] for queue in queues} == {had}


def test_ports_lead_to_the_application_and_to_the_kernel_while_it_is_away(node):
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    own = addresses(node.add(b, {PORTS: "udp:5000-5009,tcp:5000"}))
    name = next(name for name in node.attached() if name.endswith("memif-eth0"))
    connected = lambda: bool(node.daemon.memif(name).get("connected"))
    for address in own:
        with kernel_echo(b, address, 5000, b"kernel"), kernel_echo(b, address, 53, b"kernel"):
            with b.start(tool("memif-echo"), "-client", "@vpp/memif-eth0") as application:
                eventually(connected, "the application connects")
                assert echo(a, address, 5000) == b"ping" and echo(a, address, 53) == b"kernel"
                # More than a packet takes: fragments.
                assert echo(a, address, 53, bytes(4000)) == b"kernel"
                application.signal(signal.SIGKILL)
                eventually(lambda: not connected(), "the application is gone")
                assert echo(a, address, 5000) == b"kernel" and echo(a, address, 53) == b"kernel"
            with b.start(tool("memif-echo"), "-client", "@vpp/memif-eth0"):
                eventually(connected, "the application is back")
                assert echo(a, address, 5000) == b"ping" and echo(a, address, 53) == b"kernel"
    # Neither the agent's end nor quiverd's changes it.
    node.kill_agent()
    node.start_agent()
    node.daemon.kill()
    node.daemon.start()
    with b.start(tool("memif-echo"), "-client", "@vpp/memif-eth0"):
        eventually(connected, "the application is back")
        eventually(lambda: echo(a, own[0], 5000) == b"ping", "the memif answers")


@contextlib.contextmanager
def kernel_echo(pod, address, port, answer):
    """A process of the pod that says something to whoever sends to a port."""
    with pod.entered():
        server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    server.settimeout(0.1)
    server.bind((address, port))

    def serve(ends):
        while not ends.is_set():
            with contextlib.suppress(TimeoutError):
                _, asker = server.recvfrom(65536)
                server.sendto(answer, asker)

    with server, serving(serve):
        yield


@pytest.mark.parametrize("by", ["pod", "agent"])
@pytest.mark.parametrize("fallback", ["eth0", "drop"])
def test_who_takes_a_memifs_ports_while_nobody_is_connected(node, fallback, by):
    a, b = node.pod("a"), node.pod("b")
    node.kill_agent()
    # Whom pods name counts, and else whom the agent does.
    node.options = ("--memif-fallback", fallback if by == "agent" else {"eth0": "drop", "drop": "eth0"}[fallback])
    node.start_agent()
    node.add(a)
    says = {"quiver.io/memifFallback": fallback} if by == "pod" else {}
    to, *_ = addresses(node.add(b, {"quiver.io/extraMemifPorts": "udp:5000", **says}))
    # Nobody listens: the pod's kernel says so, if it is asked at all.
    program = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)\n"
    program += "s.connect((sys.argv[1], 5000)); s.send(b'x'); s.recv(9)"
    done = a.run("/usr/bin/python3", "-c", program, to, check=False)
    assert ("ConnectionRefused" in done.stderr) == (fallback == "eth0"), done.stderr
    dropped = sum(drop["packets"] for (name, _), drop in node.daemon.drops().items() if name == "ip4-port-split")
    assert dropped == (fallback == "drop")
