"""What `quiver explain` says of a packet, beside what becomes of that packet: a asks, b, c and d listen, in namespaces of their own."""

import contextlib
import socket

import pytest
from lab import eventually

# Each flow is one of the two's, and so is the answer.
WORKERS = 2

CHAIN = "".join(f'{way}_services = ["tcp-check", "l4-lifecycle", "balance", "acl", "policer", "nat"]\n' for way in ("forward", "reverse"))
CONFIG = (
    '[[address_set]]\nname = "guests"\nmembers = ["10.3.0.0/24"]\n'
    '[[acl]]\nname = "first"\nrules = [\n'
    '  { name = "no-chargen", action = "deny", protocol = "udp", destination_ports = ["19"] },\n'
    '  { name = "no-guests", action = "deny", destination_sets = ["guests"], destination_ports = ["7"], protocol = "udp" },\n'
    "]\n"
    '[[acl]]\nname = "rest"\ndefault_action = "reflect"\n'
    '[[policer]]\nname = "gold"\ncir = 1_000_000_000\ncbs = 1_000_000\n'
    '[[policer]]\nname = "silver"\ncir = 1_000_000_000\ncbs = 1_000_000\n'
    '[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.7"]\n'
    '[[route]]\nprefix = "203.0.113.0/24"\naction = "blackhole"\n'
    '[[vip]]\nname = "web"\naddress = "10.96.0.1"\nport = 80\nprotocol = "udp"\n'
    'backends = [{ address = "10.2.0.2", port = 8080 }, { address = "10.3.0.2", port = 8080 }]\n'
    '[[vip]]\nname = "empty"\naddress = "10.96.0.2"\nport = 80\nprotocol = "udp"\n'
    '[[tenant]]\nname = "red"\ninterfaces = ["a", "b", "c"]\noutside_interfaces = ["d"]\nnat_pool = "out"\n'
    f'acls = ["first", "rest"]\nforward_policer = "gold"\nreverse_policer = "silver"\n{CHAIN}'
)
PORTS = (7, 8080)


def interfaces(pods):
    return "".join(
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24"]\n{"policer = " + repr("silver") if name == "a" else ""}\n'
        f"{'rpf = ' + repr('strict') if name == 'a' else ''}\n"
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24"], '
        f'host_gateways = ["10.{number}.0.1"] }}\n'
        for number, (name, pod) in enumerate(zip("abcd", pods, strict=True), 1)
    )


@pytest.fixture
def four(lab, daemon):
    pods = [lab.pod(role) for role in "abcd"]
    daemon.apply(interfaces(pods) + CONFIG)
    for number in (2, 3, 4):
        eventually(lambda to=f"10.{number}.0.2": pods[0].ping(to, count=1, wait=1).received == 1, lambda: str(daemon.drops()))
    daemon.cli("clear", "session")
    return dict(zip("abcd", pods, strict=True))


@contextlib.contextmanager
def listeners(pods):
    """A socket for each port of b, c and d."""
    with contextlib.ExitStack() as stack:
        sockets = {}
        for name in "bcd":
            for port in PORTS:
                with pods[name].entered():
                    one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                one.bind(("0.0.0.0", port))
                one.settimeout(10)
                sockets[name, port] = one
        yield sockets


def explain(daemon, *words):
    return daemon.json("explain", *words)


def objects(answer, kind):
    """What the packet meets of a kind: name and rule."""
    found = [(step["object"]["name"], step.get("rule", 0)) for step in answer["steps"] if step.get("object", {}).get("kind") == kind]
    return list(dict.fromkeys(found))


def sender(pod):
    with pod.entered():
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("10.1.0.2", 0))
    one.settimeout(10)
    return one


#: Whom a asks, and what its packet meets: rules, and other objects.
ASKED = {
    "a host": ("10.2.0.2", 8080, {"acl": [("first", 0), ("rest", 0)]}),
    "what a rule denies": ("10.2.0.2", 19, {"acl": [("first", 1)]}),
    "what a rule denies by a set": ("10.3.0.2", 7, {"acl": [("first", 2)]}),
    "a VIP": ("10.96.0.1", 80, {"vip": [("web", 0)], "acl": [("first", 0), ("rest", 0)]}),
    "a VIP that nobody serves": ("10.96.0.2", 80, {"vip": [("empty", 0)]}),
    "somebody outside": ("10.4.0.2", 8080, {"nat_pool": [("out", 0)]}),
    "a black hole": ("203.0.113.9", 7, {"route": [("default/203.0.113.0/24", 0)]}),
    "nobody's network": ("198.51.100.1", 7, {}),
}


@pytest.mark.parametrize("whom", ASKED)
def test_packets_meet_what_was_said(four, daemon, whom):
    to, port, met = ASKED[whom]
    with listeners(four) as sockets, sender(four["a"]) as client:
        source = client.getsockname()
        before = daemon.show("tenant", "red")["tenants"][0]
        said = explain(daemon, f"10.1.0.2:{source[1]}", f"{to}:{port}", "udp")
        assert daemon.show("tenant", "red")["tenants"][0] == before, "nothing has changed"
        assert (said["interface"], said["tenant"]) == ("a", "red")
        assert objects(said, "policer")[0] == ("silver", 0), "the interface's comes first"
        for kind, names in met.items():
            assert objects(said, kind) == names, said
        drops = daemon.drops()
        client.sendto(b"x", (to, port))
        if said["verdict"] == "dropped":
            reason = said["node"], said["reason"]

            def counted():
                return daemon.drops().get(reason, {}).get("packets", 0) - drops.get(reason, {}).get("packets", 0)

            eventually(lambda: counted() == 1, lambda: f"{reason}: {daemon.drops()}")
            return
        assert said["verdict"] == "forwarded" and said["resolved"], said
        receiver = sockets[said["out_interface"], said["out_destination_port"]]
        data, asker = receiver.recvfrom(100)
        assert (data, asker) == (b"x", (said["out_source"], said["out_source_port"]))
        # The answer's way, by the session that is there now.
        there = receiver.getsockname()[1]
        number = "abcd".index(said["out_interface"]) + 1
        back = explain(daemon, f"10.{number}.0.2:{there}", f"{asker[0]}:{asker[1]}", "udp", "--interface", said["out_interface"])
        assert (back["verdict"], back["out_interface"], back["tenant"]) == ("forwarded", "a", "red"), back
        assert (back["out_source"], back["out_source_port"]) == (to, port)
        assert (back["out_destination"], back["out_destination_port"]) == source
        assert back["session"]["initiator_port"] == source[1]
        receiver.sendto(b"y", asker)
        assert client.recvfrom(100) == (b"y", (to, port))
        again = explain(daemon, f"10.1.0.2:{source[1]}", f"{to}:{port}", "udp")
        assert (again["session"]["phase"], again["verdict"]) == ("established", "forwarded")
        assert (again["out_interface"], again["out_source_port"]) == (said["out_interface"], said["out_source_port"])


def test_what_the_interface_refuses_and_quiver_itself_takes(four, daemon):
    spoofed = explain(daemon, "10.2.0.2", "10.3.0.2:7", "udp", "--interface", "a")
    assert (spoofed["node"], spoofed["reason"]) == ("ip4-rpf", "wrong-interface")
    own = explain(daemon, "10.1.0.2", "10.1.0.1", "icmp")
    assert (own["verdict"], own["out_interface"]) == ("local", "a")
    table = daemon.cli("explain", "10.1.0.2", "10.2.0.2", "udp/19").stdout
    assert "in by a: dropped by acl: denied" in table and "no-chargen" in table, table


def test_what_can_not_be_is_said_by_name(four, daemon):
    for words, wrong in [
        (("10.1.0.2", "10.2.0.2", "tcp/80", "--tenant", "blue"), "there is no tenant blue"),
        (("10.1.0.2", "10.2.0.2", "tcp/80", "--interface", "e"), "there is no interface e"),
        (("10.1.0.2", "10.2.0.2", "tcp"), "say which is asked"),
        (("10.1.0.2", "fd00::1", "tcp/80"), "different families"),
        (("198.51.100.9", "10.2.0.2", "tcp/80"), "no route leads back to 198.51.100.9"),
        (("10.1.0.2", "10.2.0.2", "xns/80"), "xns"),
    ]:
        done = daemon.cli("explain", *words, check=False)
        assert done.returncode != 0 and wrong in done.stderr, (words, done.stderr)
    # Where no route leads back, it is the tenant's first interface.
    assert explain(daemon, "198.51.100.9", "10.2.0.2", "tcp/80", "--tenant", "red")["interface"] == "a"
